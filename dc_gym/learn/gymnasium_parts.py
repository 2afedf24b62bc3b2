# SPDX-License-Identifier: Apache-2.0
"""The parts of an environment that Gymnasium expects besides episodes: copies and pickles, the length of an episode, pictures.

The single environment, the vector and the environments with many agents share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from dc_gym.base.errors import AgentError
from dc_gym.learn.session import Session
from dc_gym.learn.turn import Turn
from dc_gym.spec import Spec, from_dict

RGB_ARRAY = "rgb_array"
RENDERING: dict[str, Any] = {"render_modes": [RGB_ARRAY], "render_fps": 25}
"""The part of an environment's metadata about pictures."""
SPECS = "specs"


class Copied:
    """An environment that can be copied and pickled as long as it has no lab. Its network is worked out anew."""

    turn: Turn
    worked_out: ClassVar[tuple[str, ...]] = ()
    """The attributes that `_work_out` sets."""

    def _sessions(self) -> Sequence[Session]:
        raise NotImplementedError

    def _work_out(self, specs: Sequence[Spec]) -> None:
        """Works out the networks of these specs, one for each session."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        sessions = self._sessions()
        if (pid := next((session.pid for session in sessions if session.pid is not None), None)) is not None:
            why = f"this environment has a lab (process {pid}), and a lab is in one process alone"
            raise AgentError(f"it cannot be copied or pickled: {why}; copy it before its first reset, or make another")
        plain = [session.experiment.spec.to_dict() for session in sessions]
        return {name: value for name, value in vars(self).items() if name not in self.worked_out} | {SPECS: plain}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state.items() if name != SPECS})
        self.turn = Turn()
        known: dict[str, Spec] = {}
        for plain in state[SPECS]:
            if repr(plain) not in known:
                known[repr(plain)] = from_dict(plain, Path())
        self._work_out([known[repr(plain)] for plain in state[SPECS]])


class Limited:
    """An environment whose EnvSpec has the number of steps of its episodes. Gymnasium sets `spec` after it has made one."""

    _env_spec: EnvSpec | None = None

    def _most_steps(self) -> int:
        raise NotImplementedError

    @property
    def spec(self) -> EnvSpec | None:
        return self._env_spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None and spec.max_episode_steps is None:
            spec = replace(spec, max_episode_steps=self._most_steps())
        self._env_spec = spec


class Pictures:
    """The pictures of labs that are stepped together; without render_mode there are none."""

    def __init__(self, render_mode: str | None, labs: int, step_s: float) -> None:
        if render_mode not in (None, RGB_ARRAY):
            why = f"{render_mode!r} is not supported; give {RGB_ARRAY!r}, or leave it out (`dcgym watch` shows a running lab)"
            raise AgentError(f"render_mode: {why}")
        from dc_gym.results.figures.last_second import LastSecond  # imports the drawing libraries

        self._step_s = step_s
        self.labs: list[LastSecond] = [LastSecond(step_s) for _ in range(labs)] if render_mode else []
        """One for each lab."""

    def begin(self, lab: int, info: Mapping[str, Any]) -> None:
        """Begins an episode with the info of its first frame."""
        if self.labs:
            self.labs[lab].begin(info)

    def add(self, lab: int, reward: float, info: Mapping[str, Any], step_s: float | None = None) -> None:
        """Adds a step, `step_s` long (None: as long as all). Its info is read when a picture is made."""
        if self.labs:
            self.labs[lab].add(self._step_s if step_s is None else step_s, reward, info)

    def pixels(self) -> tuple[npt.NDArray[np.uint8], ...]:
        """Returns the picture of each lab, [height, width, 3]. Raises AgentError without render_mode."""
        if not self.labs:
            raise AgentError(f"render: this environment was made without pictures; give render_mode={RGB_ARRAY!r} to make")
        return tuple(lab.pixels() for lab in self.labs)
