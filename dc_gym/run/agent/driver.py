# SPDX-License-Identifier: Apache-2.0
"""A policy in an ordinary run (controller.policy). The policy answers each step; its actions and rewards become a table of the
result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.monitors.state_matrix import Buffer
from dc_gym.run.agent.actors import Actors
from dc_gym.run.agent.console import Console
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.file_policy import circumstances, differences
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import END_OF_RUN, GO_ON
from dc_gym.spec import EXTERNAL


class PolicyDriver:
    """Runs a policy in one run."""

    def __init__(self, experiment: Experiment) -> None:
        spec = experiment.spec
        policy = spec.controller.policy
        if policy is None or policy == EXTERNAL:
            raise AgentError(f'controller.policy = "{EXTERNAL}": that is for environments; name a policy')
        scene = Scene.of(experiment)
        self._episode = EpisodeTracker(spec, scene)
        self._console = Console(scene, flow_info(experiment, scene), spec.agent, spec.clock)
        own_settings = dict(spec.controller.own)
        context = PolicyContext(scene, self._episode.observer, self._episode.action, spec.seed, given=own_settings)
        self._actors = Actors(policy, context, spec.agent)
        self.unlike = ""
        """The circumstances that differ from the policy's training, in words; empty if none differ."""
        if (file := self._actors.file) is not None:
            self.unlike = differences(file.settings, circumstances(experiment))
        self._rows: list[tuple[Any, ...]] = []

    def learned(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the policy's state after this run, as arrays by name; none if it does not learn."""
        return self._actors.state()

    def step(self, region: Buffer, step: int) -> int:
        """Answers one step of the network whose state matrix is in `region`, and returns END_OF_RUN or GO_ON."""
        if not self._console.is_open:
            self._console.open(region, len(self._console.info))
        episode, frame = self._episode, self._console.frame(step)
        reward, over = 0.0, False
        if step == 0:
            observation, _ = episode.begin(frame, episode.scene.seed)
        else:
            observation, reward, _, over, _ = episode.advance(frame)
        pace = self._console.pace
        interval_ns = 0 if pace is None else pace.interval_ns
        self._rows.append((frame.step, frame.t_ns, interval_ns, reward, frame.wanted, frame.enforced))
        self._actors.observe(frame, observation, reward)
        if over:
            return END_OF_RUN
        self._console.send(episode.action.to_values(self._actors.act(frame)))
        return GO_ON

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Returns one row for each step: the reward, and each value that the agent sets, as commanded and as enforced at the
        step's end. On a real clock a column interval_ns is added: the wall time between this frame and the one before."""
        steps, times, intervals, rewards, wanted, enforced = zip(*self._rows, strict=True)
        columns: dict[str, npt.NDArray[Any]] = {
            "step": np.array(steps, np.uint32),
            "t_ns": np.array(times, np.int64),
            "reward": np.array(rewards, np.float64),
        }
        if self._console.pace is not None:
            columns["interval_ns"] = np.array(intervals, np.int64)
        labels = self._episode.scene.columns_of_values
        for name, values in (("wanted", np.stack(wanted)), ("enforced", np.stack(enforced))):
            columns |= {f"{name}_{label}": values[:, column] for column, label in enumerate(labels)}
        return columns

    def totals(self) -> dict[str, float]:
        """Returns the episode totals, as the environment gives them."""
        pace = self._console.pace
        return self._episode.totals.result() | ({} if pace is None else pace.totals())
