# SPDX-License-Identifier: Apache-2.0
"""Keys that several kinds of workload share, each declared once. A plug-in may use them, too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.key import COUNT, NUMBER, PATH, SIZE, TEXT, TIME, key
from dc_gym.traffic import sizes
from dc_gym.traffic.draws import PATTERNS

ENDS = ("many_to_one", "pairs")
SIZES_COPY = "sizes.txt"
"""The name of a result's copy of a distribution_file."""


def size(needed: bool = True) -> Any:
    """Declares workload.size for a kind that handles it itself."""
    return key(SIZE, needed=needed, low=1, otherwise="" if needed else "no limit", help="payload of each flow")


def senders(help: str, otherwise: str = "", needed: bool = False) -> Any:
    """Declares the number of senders.

    Args:
        help: The meaning of the key.
        otherwise: The rule without the key.
        needed: The kind cannot do without it.
    """
    return key(COUNT, needed=needed, low=1, otherwise=otherwise, help=help)


def rounds(help: str) -> Any:
    """Declares a number of rounds; without the key they are endless."""
    return key(COUNT, low=1, otherwise="endless", help=help)


def interval(help: str, default_ns: int | None = 0, otherwise: str = "", needed: bool = False) -> Any:
    """Declares a time between events.

    Args:
        help: The meaning of the key.
        default_ns: The value without the key.
        otherwise: The rule without the key, if it is no single value.
        needed: The kind cannot do without it.
    """
    return key(TIME, default_ns, needed=needed, low=0, otherwise=otherwise, help=help)


def intervals(default: str = "exact", of: str = "intervals") -> Any:
    """Declares how intervals are distributed.

    Args:
        default: The distribution without the key.
        of: The quantity with the distribution, in the help.
    """
    help_text = f"distribution of the {of}: `exact`, `uniform` (0 to twice the mean) or `exponential`, by seed"
    return key(TEXT, default, names=lambda: PATTERNS, help=help_text)


def ends() -> Any:
    """Declares how the ends of flows are distributed."""
    return key(
        TEXT,
        "many_to_one",
        names=lambda: ENDS,
        help="destinations: `many_to_one` (the last host) or `pairs`; with more flows than hosts, hosts take turns",
    )


def last_start() -> Any:
    """Declares the time after which no flow starts."""
    return key(
        TIME,
        low=1,
        otherwise="duration",
        help="no flow starts from this time on, so that flows under way can end",
    )


def outstanding(help: str) -> Any:
    """Declares the number of requests that are under way at a time."""
    return key(COUNT, 1, low=1, help=help)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesKeys:
    """The keys of kinds whose flows have sizes of a distribution, or all the same."""

    size_bytes: int | None = size(needed=False)
    distribution: str | None = key(
        TEXT, names=sizes.names, help="flow sizes: one of [the distributions](workloads.md#flow-sizes)"
    )
    distribution_file: Path | None = key(
        PATH, copy=SIZES_COPY, help="your own file of flow sizes, relative to the spec, in place of `distribution`"
    )
    truncate_bytes: int | None = key(SIZE, low=1, otherwise="no limit", help="maximum flow size; larger sizes become this one")
    size_scale: float = key(NUMBER, 1.0, low=0, help="factor on all sizes, above 0, applied before truncation")
