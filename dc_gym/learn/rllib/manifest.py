# SPDX-License-Identifier: Apache-2.0
"""train.json: records everything that a training depends on, and decides whether a training may continue another."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from dc_gym import __version__
from dc_gym.base import plain_json
from dc_gym.base.errors import UsageError
from dc_gym.learn.rllib.algorithms import ResolvedAlgorithm
from dc_gym.learn.rllib.environment import Task
from dc_gym.learn.rllib.settings import Configuration
from dc_gym.results import fingerprint

NAME = "train.json"
VERSION = 2
MAY_CHANGE = ("steps", "checkpoint_every", "keep_checkpoints", "evaluate_every")
"""Settings that do not affect the training so far."""
PACKAGES = ("ray", "torch", "gymnasium", "numpy")

Manifest = dict[str, Any]


def make(
    resolved: ResolvedAlgorithm, configuration: Configuration, spec: Any, evaluated: Mapping[str, Any], task: Task
) -> Manifest:
    """Returns the manifest of a new training."""
    manifest = {
        "version": VERSION,
        "algorithm": resolved.name,
        "algorithm_sha256": resolved.source.sha256 if resolved.source else None,
        "spec": spec.to_dict(),
        "evaluate": {name: evaluated_spec.to_dict() for name, evaluated_spec in evaluated.items()},
        **configuration.to_dict(),
        "spaces": task.shapes(),
        "environment": dict(task.settings),
        "versions": {"dcgym": __version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in PACKAGES},
        "programs": fingerprint.programs(),
        "agents": fingerprint.agents(),
    }
    plain: Manifest = json.loads(json.dumps(manifest))
    return plain | {"fingerprint": hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]}


def read(folder: Path) -> Manifest:
    try:
        manifest: Manifest = plain_json.read(folder / NAME)
    except OSError as error:
        raise UsageError(
            f"{folder / NAME}: {error.strerror}; --resume and export need a folder that `dcgym train` wrote"
        ) from None
    except ValueError:
        raise UsageError(f"{folder / NAME}: is not JSON; take another folder") from None
    if not isinstance(manifest, dict):
        raise UsageError(f"{folder / NAME}: is not a JSON object; take another folder")
    if manifest.get("version") != VERSION:
        raise UsageError(f"{folder / NAME}: is of version {manifest.get('version')!r}; this dcgym reads version {VERSION}")
    return manifest


def require_same(old: Manifest, new: Manifest) -> None:
    """Checks that --resume has the same algorithm, configuration, spec and spaces. Raises UsageError that names the first
    difference."""
    for part in ("algorithm", "algorithm_sha256", "settings", "sections", "code", "spec", "evaluate", "spaces", "versions"):
        before, after = (side[part] for side in (old, new))
        if part == "settings":
            before, after = ({key: settings[key] for key in settings if key not in MAY_CHANGE} for settings in (before, after))
        if difference := _differ(before, after, part):
            raise UsageError(f"--resume: {difference}; give the same, or another --out")


def _differ(before: Any, after: Any, name: str) -> str:
    """Returns the first difference in words; empty if there is none."""
    if before == after:
        return ""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            if change := _differ(before.get(key), after.get(key), f"{name}.{key}"):
                return change
    if _are_lists(before, after) and len(before) != len(after):
        return f"{name} had {len(before)} elements and now has {len(after)}"
    if _are_lists(before, after):
        return next(
            change for at, pair in enumerate(zip(before, after, strict=True)) if (change := _differ(*pair, f"{name}[{at}]"))
        )
    return f"{name} was {_short(before)} and now is {_short(after)}"


def _are_lists(*values: Any) -> bool:
    return all(isinstance(candidate, Sequence) and not isinstance(candidate, str) for candidate in values)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
