# SPDX-License-Identifier: Apache-2.0
"""Many labs in one process: a Gymnasium VectorEnv that lets all of them run at once and then collects what each measured.

Each sub-environment is a lab of its own with traffic of its own seed. Autoreset is Gymnasium's NEXT_STEP: the step after the last
one of an episode resets. A lab that dies or hangs ends its episode as truncated, with `lab_died` in its info; the reset that
follows boots another, and the others lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from dc_gym.envs.env import LARGEST_SEED, Episode, as_spec, check_options
from dc_gym.envs.later import Later
from dc_gym.envs.metrics import BLANK
from dc_gym.envs.observation import Vector
from dc_gym.envs.session import Session
from dc_gym.errors import AgentError, LabError
from dc_gym.spec import Spec

Batch = npt.NDArray[np.float32]
Flags = npt.NDArray[Any]
"""Of bool."""
BATCH_BLANK = BLANK | {f"_{name}": None for name in BLANK}
"""What an info has where no lab begins, ends or dies: each measure, and by _name which labs have it."""


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
        folder: str | Path | None = None,
        render_mode: str | None = None,
        step_info: bool = True,
    ) -> None:
        """`step_info`: False leaves the info of steps empty but for those that begin or end an episode: who trains with RLlib
        pays for each number of it, read or not."""
        if num_envs < 1:
            raise AgentError(f"num_envs: {num_envs} labs are none; give 1 or more")
        if spec is None:
            raise AgentError("spec: missing; give a Spec, the path of a spec file, or a dict of its keys")
        self.num_envs, self.render_mode, self._step_info = num_envs, render_mode, step_info
        read, parent = as_spec(spec, overrides), None if folder is None else Path(folder)
        self.sessions = tuple(Session(read, parent) for _ in range(num_envs))
        self.episodes = tuple(Episode(session.experiment.spec, session.scene) for session in self.sessions)
        self.single_observation_space = self.episodes[0].observer.space
        self.single_action_space = self.episodes[0].action.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs = [seeding.np_random(None)[0] for _ in range(num_envs)]
        self._over: Flags = np.zeros(num_envs, bool)
        self._observations = np.zeros((num_envs, *self.single_observation_space.shape), np.float32)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Batch, dict[str, Any]]:
        """`seed`: of lab 0, the next of lab 1 and so on, or one for each; None: the next drawn."""
        fresh = check_options(options)
        seeds = [self._seed(index, given) for index, given in enumerate(self._spread(seed))]
        for session, drawn in zip(self.sessions, seeds, strict=True):
            session.post_begin(drawn, fresh=fresh)
        infos = [self._begun(index, drawn) for index, drawn in enumerate(seeds)]
        self._over[:] = False
        return self._observations.copy(), self._batched(infos)

    def step(self, actions: npt.NDArray[np.floating[Any]]) -> tuple[Batch, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        begun = {index: self._seed(index, None) for index in np.flatnonzero(self._over).tolist()}
        for index, session in enumerate(self.sessions):
            if index in begun:
                session.post_begin(begun[index])
            else:
                session.post(self.episodes[index].action.to_rates(actions[index]))
        rewards, ends = np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool)
        infos: list[dict[str, Any]] = []
        for index in range(self.num_envs):
            if index in begun:
                info = self._begun(index, begun[index])
            else:
                info, rewards[index], ends[0, index], ends[1, index] = self._advanced(index)
            infos.append(info)
        self._over = np.logical_or(ends[0], ends[1])
        return self._observations.copy(), rewards, ends[0], ends[1], self._step_infos(infos)

    def _step_infos(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Of a step in all labs: of most, nothing is worked out before somebody looks."""
        if not self._step_info:
            return self._batched([{} if isinstance(info, Later) else info for info in infos])
        if all(isinstance(info, Later) for info in infos):
            return Later(BATCH_BLANK, lambda: self._batched(infos))
        return self._batched(infos)

    def _batched(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """As Gymnasium has them: by name, an array over the labs and a mask."""
        found: dict[str, Any] = {}
        for index, info in enumerate(infos):
            found = self._add_info(found, info, index)
        return found

    def close_extras(self, **kwargs: Any) -> None:
        for session in self.sessions:
            session.close()

    def _begun(self, index: int, seed: int) -> dict[str, Any]:
        self._observations[index], info = self.episodes[index].begin(self.sessions[index].collect(), seed)
        return info

    def _advanced(self, index: int) -> tuple[dict[str, Any], float, bool, bool]:
        """Info, reward, terminated, truncated; what is observed when a lab has died is what was observed last."""
        try:
            frame = self.sessions[index].collect()
        except LabError as error:
            return {"lab_died": str(error).splitlines()[0]}, 0.0, False, True
        observation: Vector
        observation, reward, terminated, truncated, info = self.episodes[index].advance(frame)
        self._observations[index] = observation
        return info, reward, terminated, truncated

    def _spread(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise AgentError(f"reset: {len(seed)} seeds for {self.num_envs} labs; give one for each")
        return seed

    def _seed(self, index: int, given: int | None) -> int:
        if given is not None:
            self._rngs[index] = seeding.np_random(given)[0]
            return given
        return int(self._rngs[index].integers(LARGEST_SEED))
