# SPDX-License-Identifier: Apache-2.0
"""The networks, contestants and measures that the studies of FDCC (K. Zhang, MSc thesis 2023) share.

The thesis gives 100 Gbit/s, PFC with its rule for thresholds, and a window of one BDP for every rival. It does not give delays,
the buffer, and its rivals' parameters ("their papers'"). Delay and buffer follow from the numbers of its table 6.2. With 4, 16
and 256 flows RL-CC's queue grows by 17 kB a flow, so that is the window of one BDP, and the round trip is 1.36 us: six links of
160 ns, and frames at each hop. The longest queues of 1024 flows are 7 MB, which ports hold under FDCC's rule with 9 MB a switch.
FDCC's network is not published: here it is the policy that comes with dc-gym.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dc_gym.base.units import FRAME_BYTES
from dc_gym.results.figures import kit
from dc_gym.results.results import Result, number
from dc_gym.study import Criterion, Measure, Variant, VariantLine, less_than
from dc_gym.study.collect import PAYLOAD_BYTES
from dc_gym.study.model import Facts

MB, US, MS = 10**6, 10**3, 10**6
LINE_BPS, DELAY_NS = 100 * 10**9, 160
SIZE_BYTES = 20 * MB
LOSSLESS: Mapping[str, Any] = {
    "topology.rate": "100Gbit/s",
    "topology.delay": f"{DELAY_NS}ns",
    "topology.shared_buffer": "9MB",
    "topology.reserve": "4kB",
    "topology.pfc": "classes",
    "topology.xoff": "fdcc",
}
DUMBBELL: Mapping[str, Any] = {**LOSSLESS, "topology.kind": "dumbbell", "topology.pairs": 64}
FAT_TREE: Mapping[str, Any] = {**LOSSLESS, "topology.preset": "fdcc64"}
DCQCN, TIMELY, HPCC, RLCC, FDCC = "DCQCN", "TIMELY", "HPCC", "RL-CC", "FDCC"
RIVALS: Mapping[str, Mapping[str, Any]] = {
    DCQCN: {"controller.name": "dcqcn", "nic.preset": "paper", "topology.marking": "secn2"},
    TIMELY: {"controller.name": "timely", "nic.preset": "absolute", "topology.marking": "none"},
    HPCC: {"controller.name": "hpcc", "topology.marking": "none"},
    RLCC: {"controller.name": "rlcc-mlp", "topology.marking": "none"},
}
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {**RIVALS, FDCC: {"controller.name": "fdcc", "topology.marking": "none"}}
PAUSED = Measure("paused_share", "paused (% of a flow's life)", 100, 3)
PAUSES = Measure("pauses", "pauses told")
DROPPED = Measure("drops", "frames dropped")
UNFINISHED = Measure("unfinished", "flows unfinished")
LINKS_OF_ALL = f"100 Gbit/s, {DELAY_NS} ns a link, 9 MB a switch; PFC with FDCC's rule"
WHO = "DCQCN (preset paper, secn2), TIMELY (absolute), HPCC, RL-CC (rlcc-mlp), FDCC, each with a window of one BDP"
POLICIES = (
    "RL-CC is rlcc-mlp, dc-gym's own network of the published shape. FDCC is the policy that comes with dc-gym: the thesis'"
    " network is not published."
)
LINK_USE = "Link use is goodput of what frames without telemetry can carry, so the telemetry counts against HPCC and FDCC."


@dataclass(frozen=True, slots=True)
class Change:
    """A named change of a contestant's keys."""

    label: str
    """It stands in the variant's name."""
    keys: Mapping[str, Any]


def named(*words: str, changes: Iterable[Change] = (), after: str = "") -> str:
    """Returns a variant's name from words, the labels of its changes, and the words behind them."""
    return ", ".join([*words, *(change.label for change in changes), *filter(None, [after])])


def variant(
    name: str, contestant: str, keys: Mapping[str, Any], full: Mapping[str, Any], changes: Iterable[Change] = (), **more: Any
) -> Variant:
    """Returns the variant of a contestant with the window that the thesis gives all of them. `more`: other fields of Variant."""
    changed = {key: value for change in changes for key, value in change.keys.items()}
    values = {**CONTESTANTS[contestant], "nic.inflight": "1bdp", "nic.trace": "off", **keys, **changed}
    return Variant(name, values, color_of(contestant), full={**full, **changed}, **more)


def facts(network: str, traffic: str) -> Facts:
    return (("Network", f"{network}; {LINKS_OF_ALL}"), ("Traffic", traffic), ("Contestants", WHO))


def lines(points: Mapping[str, Sequence[int]], name: Callable[[str, str, int], str]) -> list[VariantLine]:
    """Returns a line for each contestant in each set-up.

    `points`: numbers on the x axis by the set-up's name, which is empty if there is one. `name` returns a variant's name from the
    set-up's, the contestant's and the number.
    """
    return [
        VariantLine(
            named(contestant, after=setup),
            color_of(contestant),
            {float(count): name(setup, contestant, count) for count in numbers},
            line=style,
        )
        for (setup, numbers), style in zip(points.items(), ("-", "--"), strict=False)
        for contestant in CONTESTANTS
    ]


def color_of(contestant: str) -> str:
    return kit.color_of(CONTESTANTS[contestant]["controller.name"])


def nothing_dropped(variants: Iterable[Variant]) -> tuple[Criterion, ...]:
    return tuple(less_than(row.name, DROPPED, 1) for row in variants)


def told(result: Result, *measures: Measure) -> dict[str, float]:
    """Returns numbers of a run's summary."""
    return {measure.name: number(result.summary.get(measure.name)) for measure in measures}


def own_share(result: Result) -> float:
    """Returns the payload's share of a full frame, over that in a frame of 1440 bytes of it without telemetry."""
    nic = result.manifest["nic"]
    payload_bytes = int(nic["settings"]["payload_bytes"])
    frame_bytes = payload_bytes + FRAME_BYTES - PAYLOAD_BYTES + nic.get("telemetry", {}).get("bytes", 0)
    return float((payload_bytes / frame_bytes) / (PAYLOAD_BYTES / FRAME_BYTES))
