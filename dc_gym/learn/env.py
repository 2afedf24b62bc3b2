# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium environment: a central agent sets values, such as hosts' rates, of a datacenter network that runs in a lab.

A step is exact. At t0 + k x agent.interval of virtual time the queues are read, and the lab stands still until the next action
arrives. The agent's own computing therefore takes no virtual time; agent.latency declares the time that it should take. The
reward of a step is computed from measurements after its action.

With ground = "host" the network runs on this machine in real time. A step then ends with the next interval, and info says how
long it took and how many intervals were missed. docs/environment.md is the data sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from dc_gym.base.errors import AgentError
from dc_gym.learn.gymnasium_parts import RENDERING, Copied, Limited, Pictures
from dc_gym.learn.session import Session, check_seed
from dc_gym.learn.stepper import LabStepper
from dc_gym.learn.tasks import path_of
from dc_gym.learn.turn import Turn, in_turn
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.lazy_info import LazyInfo
from dc_gym.run.agent.metrics import BLANK
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.pace import AgentTiming
from dc_gym.spec import FIRST_HELD_OUT, EpisodesSpec, Spec, load, vary

T = TypeVar("T", bound=tuple[Any, ...])

DRAWN_SEEDS = FIRST_HELD_OUT
"""Upper bound (exclusive) of the seed that a reset without a seed draws. Changing it would change these seeds, and earlier
trainings could not be repeated."""
FRESH = "fresh"
"""The only option of reset."""


def as_spec(spec: Spec | str | Path | Mapping[str, Any], overrides: Iterable[str] = (), ground: str | None = None) -> Spec:
    """Returns a Spec.

    Args:
        spec: A Spec, the path of a spec file, the id of a task of the suite, or a dict of its keys.
        overrides: Texts "key=value" as for `dcgym run --set`.
        ground: Short for the override "ground=...".

    Raises:
        SpecError: As in `dc_gym.spec.load`.
    """
    overrides = [*overrides, *([] if ground is None else [f"ground={ground}"])]
    if isinstance(spec, Spec):
        if any(overrides):
            raise AgentError("overrides: a Spec takes none; give the path of a spec file, or a dict of its keys")
        return spec
    if isinstance(spec, Mapping):
        return vary({"name": "environment", **spec}, Path.cwd(), "spec", overrides, {}, "spec")
    return load(path_of(spec), overrides)


def check_options(options: Mapping[str, Any] | None) -> bool:
    """Checks the options of a reset, and returns whether it asks for a newly booted lab."""
    if unknown := set(options or {}) - {FRESH}:
        raise AgentError(f"reset: option {sorted(unknown)[0]!r} is unknown; there is {FRESH!r}")
    return bool((options or {}).get(FRESH))


class Seeds:
    """The seeds of one lab's episodes.

    A given seed starts a series; each reset without a seed takes the next seed of the series.
    """

    def __init__(self, episodes: EpisodesSpec | None = None) -> None:
        """`episodes` says whose seeds they are: a training's, or those of held-out episodes."""
        self._rng, self._episodes = seeding.np_random(None)[0], episodes or EpisodesSpec()

    def take(self, seed: int | None) -> int:
        """Returns the seed of the next episode; one that is given starts a new series."""
        if seed is None:
            return self._episodes.seed_of(int(self._rng.integers(DRAWN_SEEDS)))
        check_seed(seed)
        self._rng = seeding.np_random(seed)[0]
        return self._episodes.seed_of(seed)


def add_timing(turn: T, pace: AgentTiming | None) -> T:
    """Adds the agent's timing to info on a real clock.

    Args:
        turn: A tuple whose last element is info.
        pace: The timing of the agent; None on a virtual clock.

    Returns:
        `turn` itself.
    """
    if pace is not None:
        info = turn[-1]
        info.update(pace.step())
        if "episode_totals" in info:
            info["episode_totals"] |= pace.totals()
    return turn


class DataCenterEnv(Limited, Copied, gymnasium.Env[Vector, npt.NDArray[np.floating[Any]]]):
    """An environment with one lab and one agent.

    Observation: a flat float32 Box with the features of agent.observe, normalised by line rates, buffers and the base round trip;
    `unflatten` returns them by name. Action: a Box with one number for each value of agent.actuators, which agent.action maps to
    the value between its bounds: for a host's rate, agent.floor and the line rate. One agent sets all values, whatever
    agent.agents is (DataCenterParallelEnv has many agents). Reward: agent.reward. terminated: every flow has ended. truncated:
    time.duration is over. info: the measurements, in SI units; the info of the last step also holds `episode_totals`.

    The first reset boots the lab. Later resets keep the network and restart the traffic; `reset(options={"fresh": True})` boots a
    new lab. reset(seed=s) gives the flows of `dcgym run --seed s`, on the routes of the spec's own seed. A reset without a seed
    draws the next seed.

    It can be copied and pickled before its first reset. `render` returns a picture of the last second (render_mode="rgb_array").
    """

    metadata: dict[str, Any] = RENDERING
    worked_out = ("session", "episode", "stepper", "pictures", "turn")

    def __init__(
        self,
        spec: Spec | str | Path | Mapping[str, Any],
        overrides: Iterable[str] = (),
        *,
        ground: str | None = None,
        folder: str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Makes the environment; the network boots at the first reset.

        Args:
            spec: A spec file, a Spec, the id of a task of the suite, or a dict of its keys.
            overrides: Texts "key=value" that replace keys.
            ground: "lab" or "host"; replaces the spec's ground.
            folder: The parent of the network's own folder, which exists as long as the network; None: the folder for temporary
                files.
            render_mode: "rgb_array", or None.
        """
        self.turn = Turn()
        self.render_mode, self._folder = render_mode, None if folder is None else Path(folder)
        self._work_out([as_spec(spec, overrides, ground)])
        self.observation_space = self.episode.observer.space
        self.action_space = self.episode.action.space

    def _work_out(self, specs: Sequence[Spec]) -> None:
        self.session = Session(specs[0], self._folder)
        spec = self.session.experiment.spec
        self.episode = EpisodeTracker(spec, self.session.scene)
        self.stepper = LabStepper((self.session,), (self.episode,)) if spec.ground == "lab" else None
        """Steps the lab; None on the host ground."""
        self.pictures = Pictures(self.render_mode, 1, spec.agent.interval_ns / 1e9)
        self._under_way = False

    def _sessions(self) -> Sequence[Session]:
        return (self.session,)

    def _most_steps(self) -> int:
        return self.episode.steps

    @in_turn
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Begins an episode; the network stays.

        Args:
            seed: The seed of the episode's traffic, which starts a series; None: the next of the series.
            options: {"fresh": True} boots a new network.

        Returns:
            The first observation (float32, agent.observe), and info (docs/environment.md).

        Raises:
            TestbedError: The network cannot be made, or is unfit.
        """
        fresh = check_options(options)
        if seed is not None:
            check_seed(seed)
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(DRAWN_SEEDS)) if seed is None else seed
        drawn = self.session.experiment.spec.episodes.seed_of(drawn)
        self._under_way = False
        frame = self.session.begin(drawn, fresh=fresh)
        self._under_way = True
        if self.stepper is None:
            observation, info = add_timing(self.episode.begin(frame, drawn), self.session.pace)
        else:
            info = self.stepper.begin(0, frame, drawn)
            observation = self.stepper.observations[0]
        self.pictures.begin(0, info)
        return observation, info

    @in_turn
    def step(self, action: npt.NDArray[np.floating[Any]]) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Applies an action and lets agent.interval pass.

        Args:
            action: Numbers within `action_space`; those outside count as the nearest bound.

        Returns:
            (observation, reward, terminated, truncated, info). It is terminated when every flow has
            ended, and truncated when time.duration is over.

        Raises:
            AgentError: No episode is under way.
        """
        if not self._under_way:
            raise AgentError("step: there is no episode under way; reset first")
        values = self.episode.action.to_values(action)
        if self.stepper is None:
            turn = add_timing(self.episode.advance(self.session.step(values)), self.session.pace)
            self._under_way = not turn[3]
            self.pictures.add(0, turn[1], turn[4], turn[4].get("interval_s"))
        else:
            turn = self._step_lab(self.stepper, values)
            self.pictures.add(0, turn[1], turn[4])
        return turn

    def _step_lab(self, stepper: LabStepper, values: npt.NDArray[np.float64]) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        try:
            steps = stepper.step(values)
        except BaseException:
            if stepper.running():
                self.session.close()
            raise
        for error in steps.died.values():
            self._under_way = False
            raise error
        observation, reward = steps.observations[0], steps.rewards.item()
        if 0 not in steps.ends:
            return observation, reward, False, False, LazyInfo(BLANK, stepper.info(0))
        terminated, truncated = steps.terminated.item(), steps.truncated.item()
        self._under_way = not truncated
        return observation, reward, terminated, truncated, steps.ends[0]

    @in_turn
    def render(self) -> Any:
        """Returns the picture of the last second, [height, width, 3]."""
        return self.pictures.pixels()[0]

    def unflatten(self, observation: Vector) -> dict[str, Vector]:
        """Returns the values of each item of agent.observe, such as switch:backlog."""
        return self.episode.observer.unflatten(observation)

    @property
    def observation_names(self) -> tuple[str, ...]:
        """One name for each element of the observation, such as s1-eth3/backlog."""
        return self.episode.observer.names

    @in_turn
    def close(self) -> None:
        """Ends the network. May be called at any time, and twice."""
        self.session.close()
        self.episode.frame, self._under_way = None, False
        super().close()
