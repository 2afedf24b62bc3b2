# SPDX-License-Identifier: Apache-2.0
"""One episode of a network: from frames to observations, rewards and infos.

The policies of runs, environments with many agents and the host ground advance it frame by frame. Environments in labs let the C
library of steps do the same (stepper.py), and frames are made only when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dc_gym.run.agent.action import Action
from dc_gym.run.agent.channel import ObservationChannel
from dc_gym.run.agent.frame import DONE, Frame
from dc_gym.run.agent.lazy_info import LazyInfo
from dc_gym.run.agent.metrics import BLANK, metrics
from dc_gym.run.agent.observation import Observer, Vector
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.scene import Scene
from dc_gym.run.agent.totals import EpisodeTotals
from dc_gym.spec import Spec


class EpisodeTracker:
    """Turns the frames of one episode into observations, rewards and infos. The single, vector and multi-agent environments share
    it."""

    def __init__(self, spec: Spec, scene: Scene) -> None:
        agent = spec.agent
        self._spec = spec
        self.scene, self.steps = scene, spec.steps
        self.observer = Observer(self.scene, agent.observe, agent.history)
        self.action = Action(self.scene, agent.action)
        self.mix = WeightedReward.of(agent.reward)
        self.totals = EpisodeTotals(self.scene)
        self.channel: ObservationChannel | None = None
        """The way of this episode's observations; None: they arrive at once."""
        self._frame: Frame | Callable[[], Frame] | None = None

    @property
    def frame(self) -> Frame | None:
        """The frame of the last step; None before the first episode."""
        return self._frame() if callable(self._frame) else self._frame

    @frame.setter
    def frame(self, frame: Frame | Callable[[], Frame] | None) -> None:
        """Sets the frame, or a function that returns it."""
        self._frame = frame

    def begin(self, frame: Frame, seed: int) -> tuple[Vector, dict[str, Any]]:
        """Returns the observation and info of the first frame."""
        self.totals, self.frame = EpisodeTotals(self.scene), frame
        about = self.open(seed)
        return self._seen(frame), about | metrics(frame, self.scene)

    def open(self, seed: int) -> dict[str, Any]:
        """Opens the way of the observations, and returns the facts about the episode: its seed, and the values that it draws."""
        self.channel = ObservationChannel.of(self._spec.episode(seed).agent, seed)
        return {"seed": seed} | ({"drawn": self._spec.drawn(seed)} if self._spec.episodes.draw else {})

    def _seen(self, frame: Frame) -> Vector:
        observation = self.observer.observe(frame)
        return observation if self.channel is None else self.channel.deliver(observation)

    def advance(self, frame: Frame) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Returns (observation, reward, terminated, truncated, info)."""
        self.frame = frame
        reward = self.mix(frame, self.scene, self.scene.share(frame.in_force_bps))
        fill = self.totals.add(frame, reward)
        truncated = frame.step >= self.steps  # the end of the duration stops the remaining flows
        terminated = not truncated and _all_ended(frame)
        over = terminated or truncated
        info = {**fill(), "episode_totals": self.totals.result()} if over else LazyInfo(BLANK, fill)
        return self._seen(frame), reward, terminated, truncated, info


def _all_ended(frame: Frame) -> bool:
    status = frame.flows["status"]
    return bool(len(status) and status[0] >= DONE and (status >= DONE).all())  # usually the first flow has not ended
