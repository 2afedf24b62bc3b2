# SPDX-License-Identifier: Apache-2.0
"""An EnvRunner around labs, for RL-CC's gradient.

NICs decide by the module's table on the lab's data path, and the runner returns the inputs of the gradient. The labs are those of
`dcgym rlcc train` (dc_gym/methods/rlcc/on_lab.py). They are stepped together from barrier to barrier of virtual time, where the
table changes. They start with the first sample, because RLlib also makes runners that never sample.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.files import scratch
from dc_gym.methods.rlcc import gradient
from dc_gym.methods.rlcc.histories import Lessons
from dc_gym.methods.rlcc.on_lab import Labs, Settings
from dc_gym.nets.policy_file import PolicyFile, Words
from dc_gym.rl.environment import FOLDER
from dc_gym.rl.flow_runners import FlowRunner, Rows

LABS = "labs"
"""The key of the env's config that holds on_lab.Settings."""


class LabRunner(FlowRunner):
    """Samples as DeltaRunner does, but from labs."""

    def begin(self, seed: int) -> None:
        self._stack = ExitStack()
        asked: Settings = self.config.env_config[LABS]
        self._settings = replace(asked, seed=seed, labs=self.config.num_envs_per_env_runner)
        self._labs: Labs | None = None
        self._barriers = 0
        """The number of barriers so far, over all episodes."""

    def sample(self, *, num_timesteps: int | None = None, **_: Any) -> Rows:
        table = PolicyFile(self.module.unwrapped().mlp(), self._case.scaling).table()
        parts: list[Lessons] = []
        while sum(part.errors.size for part in parts) < (num_timesteps or self.count()):
            parts += self._advance(table)
        both = Lessons.joined(parts)
        errors = both.errors[0]
        pulls = gradient.pulls(errors, self._case.scaling, self._settings.most_error)
        self._increase_sampled_metrics(len(errors), 0)
        self._log(reward=float(self._case.rewards(errors).mean()), mean_error=float(np.abs(pulls).mean()))
        return {"inputs": both.inputs[0], "errors": errors}

    def _advance(self, table: Words) -> list[Lessons]:
        """Runs to the next barrier and returns each lab's Lessons."""
        if self._labs is None:
            parent = self.config.env_config.get(FOLDER) or tempfile.gettempdir()
            folder = self._stack.enter_context(scratch(Path(parent), "dcgym-env-"))
            self._labs = self._stack.enter_context(Labs(self._settings, folder))
        episode, place = divmod(self._barriers, self._settings.episode)
        if not place:
            self._labs.begin(episode, table)
        self._barriers += 1
        return list(self._labs.advance(table if place else None))

    def stop(self) -> None:
        self._stack.close()
        super().stop()
