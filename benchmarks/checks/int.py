# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench int`: compares in-band telemetry with the FIFO oracle, record by record.

Frames of random networks ask for records. Each port on the way writes the queue that the frame leaves behind, the bytes sent
before it and the time, or it writes none; some paths are longer than the five records of a frame. All else is compared as by
`dcgym bench port`.
"""

from __future__ import annotations

from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.benchmarks.checks import port, port_cases
from dc_gym.benchmarks.checks.link_cases import LinkCase


def groups(count: int = port.CASES) -> dict[str, list[LinkCase]]:
    """Returns all cases by the name of their check."""
    cases = list(port_cases.telemetry(2 * count))
    return {
        "telemetry, marks at arrival": [case for case in cases if case.ports[0].marks_at == "arrival"],
        "telemetry, marks at departure": [case for case in cases if case.ports[0].marks_at == "departure"],
    }


def checks(kernel: Path | None = None) -> list[Check]:
    return port.compared(groups(), kernel)
