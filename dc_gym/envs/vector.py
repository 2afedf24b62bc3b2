# SPDX-License-Identifier: Apache-2.0
"""A Gymnasium VectorEnv of many labs in one process. It lets all labs run at once and then collects what each measured.

Each sub-environment is a lab of its own, with the traffic of its own seed. Autoreset is Gymnasium's NEXT_STEP: the step after the
last one of an episode resets. If a lab dies or hangs, its episode ends as truncated with `lab_died` in its info, and the reset
that follows boots another lab; the other labs are not affected. A lab that dies in a reset is replaced at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from dc_gym.base.errors import AgentError, LabError
from dc_gym.envs.env import EpisodeTracker, Seeds, add_timing, as_spec, check_options
from dc_gym.envs.frame import Frame
from dc_gym.envs.lazy_info import LazyInfo
from dc_gym.envs.metrics import BLANK
from dc_gym.envs.observation import Vector
from dc_gym.envs.session import Session, check_seed
from dc_gym.spec import Spec

Batch = npt.NDArray[np.float32]
Flags = npt.NDArray[Any]
"""An array of bool."""
BATCH_BLANK = BLANK | {f"_{name}": None for name in BLANK}
"""The keys of an info if no lab begins, ends or dies: each metric, and under _name a mask of the labs that have it."""


class LabVectorEnv(VectorEnv[Batch, npt.NDArray[np.floating[Any]], npt.NDArray[Any]]):
    """`num_envs` labs of one spec, stepped in one call. Spaces, rewards and infos are those of DataCenterEnv, batched."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
    sessions: tuple[Session, ...] = ()

    def __init__(
        self,
        num_envs: int = 1,
        spec: Spec | str | Path | Mapping[str, Any] | None = None,
        overrides: Iterable[str] = (),
        *,
        ground: str | None = None,
        folder: str | Path | None = None,
        render_mode: str | None = None,
        step_info: bool = True,
    ) -> None:
        """`step_info`: False leaves the info of steps empty, except of those that begin or end an episode. RLlib spends time on
        each number in an info, whether it is read or not."""
        if num_envs < 1:
            raise AgentError(f"num_envs: {num_envs} labs are none; give 1 or more")
        if spec is None:
            raise AgentError("spec: missing; give a Spec, the path of a spec file, or a dict of its keys")
        self.num_envs, self.render_mode, self._step_info = num_envs, render_mode, step_info
        read, parent = as_spec(spec, overrides, ground), None if folder is None else Path(folder)
        if read.ground == "host" and num_envs > 1:
            raise AgentError(f'num_envs: {num_envs} networks would share the machine in real time; ground "host" takes 1')
        first = Session(read, parent)
        self.sessions = (first, *(Session(read, parent, like=first) for _ in range(num_envs - 1)))
        self.episodes = tuple(EpisodeTracker(session.experiment.spec, session.scene) for session in self.sessions)
        self.single_observation_space = self.episodes[0].observer.space
        self.single_action_space = self.episodes[0].action.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._seeds = tuple(Seeds() for _ in range(num_envs))
        self._over: Flags = np.zeros(num_envs, bool)
        self._under_way = False
        self._observations = np.zeros((num_envs, *self.single_observation_space.shape), np.float32)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Batch, dict[str, Any]]:
        """`seed`: one number is the seed of lab 0, and the following numbers are those of labs 1, 2, ...; a sequence holds one
        seed for each lab; None draws the next seeds."""
        fresh = check_options(options)
        seeds = [own.take(given) for own, given in zip(self._seeds, self._spread(seed), strict=True)]
        begun, infos = dict(enumerate(seeds)), [dict[str, Any]() for _ in seeds]
        with self._running() as running:
            for index, drawn in begun.items():
                running.add(index)
                self.sessions[index].post_begin(drawn, fresh=fresh)
            for index, frame in self._heard(running, begun):
                infos[index] = self._turn(index, frame, begun)[0]
        self._over[:] = False
        return self._observations.copy(), self._batched(infos)

    def step(self, actions: npt.NDArray[np.floating[Any]]) -> tuple[Batch, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        if not self._under_way:
            raise AgentError("step: there are no episodes under way; reset first")
        if len(actions) != self.num_envs:
            raise AgentError(f"step: {len(actions)} actions for {self.num_envs} labs; give one for each")
        rates = [
            None if over else self.episodes[index].action.to_values(actions[index])
            for index, over in enumerate(self._over.tolist())
        ]
        begun = {index: self._seeds[index].take(None) for index, rate in enumerate(rates) if rate is None}
        rewards, ends = np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool)
        infos = [dict[str, Any]() for _ in rates]
        with self._running() as running:
            for index, rate in enumerate(rates):
                running.add(index)
                if rate is None:
                    self.sessions[index].post_begin(begun[index])
                else:
                    self.sessions[index].post(rate)
            for index, frame in self._heard(running, begun):
                infos[index], rewards[index], ends[0, index], ends[1, index] = self._turn(index, frame, begun)
        self._over = np.logical_or(ends[0], ends[1])
        return self._observations.copy(), rewards, ends[0], ends[1], self._step_infos(infos)

    def _step_infos(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Returns the batched info of a step. For most steps nothing is computed before the info is read."""
        if not self._step_info:
            return self._batched([{} if isinstance(info, LazyInfo) else info for info in infos])
        if all(isinstance(info, LazyInfo) for info in infos):
            return LazyInfo(BATCH_BLANK, lambda: self._batched(infos))
        return self._batched(infos)

    def _batched(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Returns infos in Gymnasium's form: by name, an array over the labs and a mask."""
        found: dict[str, Any] = {}
        for index, info in enumerate(infos):
            found = self._add_info(found, info, index)
        return found

    def close_extras(self, **kwargs: Any) -> None:
        for session in self.sessions:
            session.close()

    @contextmanager
    def _running(self) -> Iterator[set[int]]:
        """Yields the set of labs that were told to go on and have not yet answered. If an error occurs these labs are closed: the
        next reset boots new ones, and no step is possible before it."""
        running: set[int] = set()
        self._under_way = False
        try:
            yield running
        except BaseException:
            for index in running:
                self.sessions[index].close()
            raise
        self._under_way = True

    def _heard(self, running: set[int], begun: Mapping[int, int]) -> Iterator[tuple[int, Frame | LabError]]:
        """Yields what each lab measured, or how it died. A lab that died in a reset is booted again, once, after all others have
        answered."""
        dead = []
        for index, session in enumerate(self.sessions):
            try:
                frame: Frame | LabError = session.collect()
            except LabError as error:
                frame = error
            running.discard(index)
            if isinstance(frame, LabError) and index in begun:
                dead.append(index)
            else:
                yield index, frame
        for index in dead:
            yield index, self.sessions[index].begin(begun[index])

    def _turn(self, index: int, frame: Frame | LabError, begun: Mapping[int, int]) -> tuple[dict[str, Any], float, bool, bool]:
        """Returns info, reward, terminated and truncated. If a lab has died, its last observation stays."""
        if isinstance(frame, LabError):
            return {"lab_died": str(frame).splitlines()[0]}, 0.0, False, True
        if index in begun:
            turn = self.episodes[index].begin(frame, begun[index])
            self._observations[index], info = add_timing(turn, self.sessions[index].pace)
            return info, 0.0, False, False
        observation: Vector
        step = self.episodes[index].advance(frame)
        observation, reward, terminated, truncated, info = add_timing(step, self.sessions[index].pace)
        self._observations[index] = observation
        return info, reward, terminated, truncated

    def _spread(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        seeds = [int(seed) + index for index in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        if len(seeds) != self.num_envs:
            raise AgentError(f"reset: {len(seeds)} seeds for {self.num_envs} labs; give one for each")
        for each in seeds:
            if each is not None:
                check_seed(each)
        return seeds
