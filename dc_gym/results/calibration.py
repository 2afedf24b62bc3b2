# SPDX-License-Identifier: Apache-2.0
"""Calibration: for each port the requested values, and the values read back or measured. It is the manifest's key `calibration`.

On the lab ground the kernel reports the numbers of its cable and qdisc (`how` is "read back"): `dcgym bench links` shows
that a cable behaves as configured, to the nanosecond. A ground on real time measures rate and delay (`how` is "measured").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

QUANTITIES = ("rate_bps", "delay_ns", "buffer_bytes", "qdisc", "k_bytes")
Row = dict[str, Any]


def rows(ports: Sequence[Mapping[str, Any]], measured: Mapping[str, Mapping[str, Any]], how: str = "read back") -> list[Row]:
    """Returns one row for each port: its name, how it was checked, and [asked, found] for each quantity that was checked."""
    calibrated = []
    for port in ports:
        values = measured.get(str(port["name"]), {})
        pairs = {name: [port.get(name), values[name]] for name in QUANTITIES if name in values}
        if port.get("marking") not in ("step", None):
            pairs.pop("k_bytes", None)  # RED's slope on an average has thresholds, and no K
        calibrated.append({"port": port["name"], "how": how, **pairs})
    return calibrated


def worst(calibration: Sequence[Mapping[str, Any]], quantity: str) -> float | None:
    """Returns the largest relative error of a quantity over all ports, or None if it was not checked."""
    pairs = [row[quantity] for row in calibration if _numbers(row.get(quantity))]
    errors = [abs(measured / requested - 1) if requested else float(measured != requested) for requested, measured in pairs]
    return max(errors, default=None)


def _numbers(pair: Any) -> bool:
    return isinstance(pair, list) and all(isinstance(value, int | float) for value in pair)
