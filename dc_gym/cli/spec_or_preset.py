# SPDX-License-Identifier: Apache-2.0
"""A spec by its file, or by the name of a preset of topologies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import hint
from dc_gym.spec import Spec
from dc_gym.topologies import presets


def spec_or_preset(name: str, overrides: Sequence[str], **how: Any) -> Spec:
    """Returns the spec in the file or result `name`, or one on the preset of that name. `how` is passed on to `spec.load`."""
    if name in presets.PRESETS and not Path(name).is_file():
        return specs.of_preset(name, overrides)
    if not Path(name).exists() and not Path(name).suffix:
        raise UsageError(f"{name!r} is neither a file nor a preset; {hint(name, presets.PRESETS)}")
    return specs.load(name, overrides, **how)
