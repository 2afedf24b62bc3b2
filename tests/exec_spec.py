# SPDX-License-Identifier: Apache-2.0
"""The spec of a run with programs in its hosts, as text."""

from __future__ import annotations

SPEC = """
[topology]
preset = "dumbbell-10m"
[controller]
name = "dctcp"
[workload]
kind = "{kind}"
{programs}
[time]
duration = "{duration}"
"""


def spec_text(programs: str, kind: str = "none", duration: str = "2s") -> str:
    """Returns the spec. `programs`: tables [[workload.exec]]."""
    return SPEC.format(programs=programs, kind=kind, duration=duration)
