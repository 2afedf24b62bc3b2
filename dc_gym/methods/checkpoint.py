# SPDX-License-Identifier: Apache-2.0
"""The checkpoint of a training: all that it goes on from, and everything that its result depends on.

It is one file, written between two episodes, completely or not at all. The next episode follows from the settings and its number,
so a training that was killed and goes on ends with the same bytes as one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dc_gym.base import plain_json
from dc_gym.base.errors import AgentError, UsageError
from dc_gym.base.files import machine_errors
from dc_gym.base.npz import load_arrays, write_arrays

Made = TypeVar("Made")
NAME = "checkpoint.npz"
CURVE = "curve"
"""The array with a row for each episode or update so far."""


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """The form of a method's checkpoints."""

    name: str
    version: int
    guide: str
    """The end of errors: the command that writes a folder of this kind."""

    def write(self, folder: Path, depends_on: Mapping[str, Any], arrays: Mapping[str, Any], **facts: Any) -> None:
        """Writes the checkpoint into a training's folder. `facts`: its contents beside arrays."""
        head = {"format": self.name, "version": self.version, "depends_on": depends_on, **facts}
        path = folder / NAME
        with machine_errors("write", path):
            write_arrays(path, {"head": np.array(json.dumps(head, sort_keys=True)), **arrays})

    def length(self, folder: Path) -> int:
        """Returns the number of episodes or updates before the checkpoint."""
        return len(load_arrays(folder / NAME, self.guide)[CURVE])

    def read(
        self, folder: Path, depends_on: Mapping[str, Any], make: Callable[[dict[str, Any], Mapping[str, Any]], Made]
    ) -> Made:
        """Returns the object that `make` builds from the arrays and the facts.

        Raises UsageError if there is no checkpoint, or if its training depends on other settings, programs or versions.
        """
        path = folder / NAME
        try:
            arrays = load_arrays(path, self.guide)
            head = plain_json.loads(str(arrays.pop("head")[()]))
            if (head["format"], head["version"]) != (self.name, self.version):
                raise AgentError(f"format {head['format']!r}, version {head['version']!r}")
            require_same(path, head["depends_on"], json.loads(json.dumps(depends_on)))
            return make(arrays, head)
        except (AgentError, KeyError, ValueError, TypeError, IndexError) as error:
            raise UsageError(f"{path}: no checkpoint to go on from ({error}); {self.guide}") from None


def require_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any], section: str = "") -> None:
    """Raises UsageError unless a training depends on the same as before."""
    for name in sorted({*before, *now}):
        was, current = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(current, dict):
            require_same(path, was, current, f"{section}{name}.")
        elif was != current:
            raise UsageError(
                f"{path}: {section}{name} was {json.dumps(was)} and is {json.dumps(current)} now; a training goes on"
                " as it began: give the same options and programs, or begin another"
            )
