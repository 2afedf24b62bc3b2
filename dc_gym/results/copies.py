# SPDX-License-Identifier: Apache-2.0
"""The copies that a result keeps of the files that its spec reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from dc_gym.base import plain_json
from dc_gym.base.bounded import sha256_of
from dc_gym.base.files import machine_errors
from dc_gym.ctrl.controllers import policy_name
from dc_gym.spec import NIC_POLICY_COPY, POLICY_COPY


def copy_inputs(partial: Path, copies: Mapping[str, Path]) -> dict[str, str]:
    """Copies the files that a spec reads, by their names in the result (Spec.copies).

    This happens before the run, because the files may change during it. Returns their SHA-256, for the manifest.
    """
    for name, source in copies.items():
        with machine_errors("write", partial / name):
            shutil.copyfile(source, partial / name)
    return sha256(partial, copies)


def policies(copies: Mapping[str, Path]) -> dict[str, str]:
    """Returns the names of the policies among the files that a spec reads, for the manifest.

    If a policy is itself a result's copy, as when a result is run again, it keeps the name that it has there.
    """
    names = {}
    for name in [name for name in (POLICY_COPY, NIC_POLICY_COPY) if name in copies]:
        path = copies[name]
        names[name] = policy_name(path)
        with suppress(OSError, ValueError, AttributeError):
            stated = plain_json.read(path.parent / "manifest.json").get("policies", {}) if path.name == name else {}
            names[name] = str(stated.get(name, names[name]))
    return names


def sha256(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Returns the SHA-256 of each file that exists."""
    return {name: sha256_of(folder / name) for name in names if (folder / name).is_file()}
