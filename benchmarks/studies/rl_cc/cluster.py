# SPDX-License-Identifier: Apache-2.0
"""RL-CC's cluster (section VI): the contestants, and the runs that figures 6, 7 and 10 share with Table IV.

The default runs a quarter of the fabric with the same oversubscription, and those of the paper's cases that are affordable.
--full runs all of them on 64 hosts. The paper does not give the following, which are our choice: which host sends to which
(many-to-one: all to the last one; all-to-all: each to as many others, drawn by seed), how flows start (here all within ten base
round trips), and the number of long flows in long-short.

The contestants run as described, and once more for each variant that concerns them (WHOSE; common.ABOUT says what they are).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import (
    FIRMWARE,
    HELD,
    LARGE,
    NO_PATIENCE,
    OWN,
    PERMUTATION,
    SHARED,
    SLOW,
    SPREAD,
    SPREAD_NS,
    TORS,
    WINDOW,
    Row,
)
from dc_gym.benchmarks.studies.compare.measured import recovery_s
from dc_gym.grounds import nics
from dc_gym.grounds.experiment import Experiment
from dc_gym.records.results import Result
from dc_gym.study.claims import Explanation
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, RunLength, ScaledNetwork
from dc_gym.study.series import VariantLine
from dc_gym.spec import without_code

WHO = {"DCQCN": "dcqcn", "Swift": "swift", "RL-CC": "rlcc-tree"}
RIVALS = ("DCQCN", "Swift")
WHOSE: Mapping[str, tuple[str, ...]] = {
    SHARED: tuple(WHO),
    WINDOW: ("Swift",),
    HELD: ("Swift",),
    NO_PATIENCE: ("RL-CC",),
    LARGE: tuple(WHO),
    FIRMWARE: ("DCQCN",),
    SLOW: tuple(WHO),
    SPREAD: tuple(WHO),
    PERMUTATION: tuple(WHO),
    TORS: tuple(WHO),
}
"""The contestants with rows of their own, by variant."""
BRING_UP = (SLOW, SPREAD)
"""The variants that are about how flows begin. What they lose is counted from the first packet on, as in the paper."""


def on(who: str, variant: str) -> str:
    """Returns the name of a contestant in a comparison of a variant: its own name where the variant does not concern it."""
    return common.of_variant(who, variant) if who in WHOSE.get(variant, ()) else who


VARIANT_OF = {on(who, variant): variant for variant, whose in WHOSE.items() for who in whose}
BASE = {on(who, variant): who for variant, whose in WHOSE.items() for who in whose}
"""The variants and the contestants of the rows that have a variant."""
ALL = WHO | {name: WHO[who] for name, who in BASE.items()}
_COLORS = {"DCQCN": "#CC6677", "Swift": "#999933", "RL-CC": "#332288"}
COLORS = _COLORS | {name: _COLORS[who] for name, who in BASE.items()}
LOOKS = {
    OWN: ("o", "-"),
    SHARED: ("s", "--"),
    WINDOW: ("^", "-."),
    HELD: ("d", ":"),
    NO_PATIENCE: ("v", "-."),
    LARGE: ("P", ":"),
    FIRMWARE: ("D", "--"),
    SLOW: ("<", ":"),
    SPREAD: (">", ":"),
    PERMUTATION: ("X", "-."),
    TORS: ("*", "-."),
}
"""Markers and lines by variant."""
MANY_TO_ONE, ALL_TO_ALL, LONG_SHORT = "many-to-one", "all-to-all", "long-short"
"""The names of the runs."""
FLOWS = (32, 128, 2048, 4096)
A_HOST = (1, 8, 16, 32)
"""Flows per host: Table IV's 64, 512, 1024 and 2048 flows on 64 hosts."""
SHORT = (50, 100)
COUNTS = {MANY_TO_ONE: FLOWS, ALL_TO_ALL: A_HOST, LONG_SHORT: SHORT}
DEFAULT = {MANY_TO_ONE: (32, 128), ALL_TO_ALL: (1, 8), LONG_SHORT: (50, 100)}
"""The cases that the default runs."""
LENGTHS = {
    MANY_TO_ONE: RunLength(40 * MS, 25 * MS),
    ALL_TO_ALL: RunLength(24 * MS, 14 * MS),
    LONG_SHORT: RunLength(40 * MS, 5 * MS),
}
FULL_LONG_SHORT = RunLength(30_000 * MS, 1_000 * MS)
LONG, SHORT_SIZE, LARGE_SIZE = 2, "64kB", "500kB"
"""The number of long flows is ours. A short flow is one of the paper's WRITEs of 64 KB (section VI)."""
VARIANTS = {
    MANY_TO_ONE: (SHARED, WINDOW, NO_PATIENCE, FIRMWARE, SLOW, SPREAD),
    ALL_TO_ALL: (SHARED, WINDOW, NO_PATIENCE, FIRMWARE, SLOW, PERMUTATION, TORS),
    LONG_SHORT: (SHARED, WINDOW, HELD, NO_PATIENCE, LARGE, FIRMWARE, SLOW, SPREAD),
}
"""The variants of each scenario. Spread starts of all-to-all would cost as much as its other variants together."""
SOME_COUNTS: Mapping[str, tuple[int, ...]] = {PERMUTATION: A_HOST[:1], TORS: A_HOST[:1]}
"""The cases of a variant that does not have all of its scenario's: both are about one flow a host."""
FIRMWARE_LENGTHS = {
    MANY_TO_ONE: RunLength(350 * MS, 250 * MS),
    ALL_TO_ALL: RunLength(100 * MS, 75 * MS),
    LONG_SHORT: RunLength(150 * MS, 5 * MS),
}
EIGHT_TORS = ScaledNetwork(
    "rlcc8x8",
    "8 ToRs of 8 hosts, 2 spines, 2:1 as on RL-CC's fabric",
    {"preset": "rlcc64", "leaves": 8, "hosts_per_leaf": 8, "uplinks": 2},
    63,
)

DROPS = {
    "DCQCN": {MANY_TO_ONE: (0, 886.4, 28.5, 25.7), ALL_TO_ALL: (225.1, 50.71, 48.1, 26.7), LONG_SHORT: (0, 57.9)},
    "Swift": {MANY_TO_ONE: (0, 0, 10.1, 9.1), ALL_TO_ALL: (0, 0, 0.8, 6.5), LONG_SHORT: (0, 0)},
    "RL-CC": {MANY_TO_ONE: (0, 0, 0.8, 2.8), ALL_TO_ALL: (0, 0, 0.2, 1.2), LONG_SHORT: (0, 0)},
}
"""The paper's Table IV: packets lost per flow over the test."""

LONG_SHARE = Measure("long_goodput", "long flows' goodput (of the line)", digits=3)
SLOWDOWN = Measure("slowdown", "short flows: completion over base RTT", digits=3)
UNFINISHED = Measure("unfinished", "short flows unfinished", digits=3)
RECOVERY = Measure("recovery_s", "long flows' recovery (us)", 1e6, 3)


def name(who: str, scenario: str, count: int) -> str:
    words = {MANY_TO_ONE: "{} flows", ALL_TO_ALL: "{} a host", LONG_SHORT: "{} short flows"}
    return f"{who}, {scenario}, {words[scenario].format(count)}"


def network_of(network: ScaledNetwork, who: str) -> ScaledNetwork:
    """Returns the network of a contestant, whose variant may have other buffers or another fabric."""
    variant = VARIANT_OF.get(who)
    return common.sharing(network) if variant == SHARED else EIGHT_TORS if variant == TORS else network


def contestants(scenario: str, variants: Iterable[str] | None = None) -> list[str]:
    """Returns the contestants of a scenario, with those of its variants or of the given ones."""
    some = VARIANTS[scenario] if variants is None else variants
    return [who for who in ALL if VARIANT_OF.get(who, OWN) in (OWN, *some)]


def has(variant: str, scenario: str, count: int) -> bool:
    """Returns whether a variant has rows of a case."""
    return variant in VARIANTS[scenario] and count in SOME_COUNTS.get(variant, COUNTS[scenario])


def row_name(who: str, scenario: str, count: int, variant: str) -> str:
    """Returns the name of a contestant's row in a comparison of a variant, which may leave the case as it is."""
    return name(on(who, variant) if has(variant, scenario, count) else who, scenario, count)


def lost(scenario: str, count: int, variant: str) -> Measure:
    """Returns the losses that claims are about: those after bring-up, but all where bring-up is what a variant changes."""
    return common.DROPS if variant in BRING_UP and has(variant, scenario, count) else common.LATE_DROPS


def length_of(scenario: str, variant: str) -> RunLength:
    if variant == FIRMWARE:
        return FIRMWARE_LENGTHS[scenario]
    own, later_ns = LENGTHS[scenario], SPREAD_NS if variant == SPREAD else 0
    return RunLength(own.duration_ns + later_ns, own.warmup_ns + later_ns)


def still_flooded(figure: str, showed: str) -> Explanation:
    """Returns the explanation by the NICs' own parameters, under which DCQCN's flood of all-to-all goes on."""
    return Explanation(
        hypothesis="the paper's DCQCN has its NICs' parameters, under which a flood of all-to-all goes on",
        experiment=f"the rows named `firmware` of dcgym reproduce rl-cc {figure}",
        page="docs/reproduce-rl-cc.md#dcqcn-as-in-nics-firmware",
        showed=showed,
    )


def held_rate(paper: str, figure: str, showed: str) -> Explanation:
    """Returns the explanation by a Swift that keeps its rate, which is not back at once when a queue has drained."""
    return Explanation(
        hypothesis="the paper's Swift keeps a rate from probe to probe, as NVIDIA's example for PCC does; one with a window, or"
        " with a rate of cwnd / RTT, is back at once when the queue has drained",
        experiment=f"the rows named `{HELD}` of dcgym reproduce {paper} {figure}",
        page="docs/reproduce-rl-cc.md#long-flows-beside-short-ones-a-window-comes-back-at-once",
        showed=showed,
    )


def _rows(scenario: str, counts: Sequence[int]) -> list[Row]:
    return [
        _row(who, scenario, count, place)
        for who in contestants(scenario)
        for place, count in enumerate(counts)
        if who in WHO or has(VARIANT_OF[who], scenario, count)
    ]


def _row(who: str, scenario: str, count: int, place: int) -> Row:
    variant = VARIANT_OF.get(who, OWN)
    shared: dict[str, Any] = {
        "length": length_of(scenario, variant),
        "paper": {common.DROPS.name: DROPS[who][scenario][place]} if who in DROPS else {},
        "values": common.keys_of(ALL[who], variant),
        "color": COLORS[who],
        "variant": variant,
    }
    title, jitter_ns = name(who, scenario, count), SPREAD_NS if variant == SPREAD else JITTER_NS
    if scenario == LONG_SHORT:
        size = LARGE_SIZE if variant == LARGE else SHORT_SIZE
        workload = {"kind": "long_short", "long": LONG, "short": count, "size": size, "jitter": jitter_ns}
        return Row(title, ALL[who], network_of(common.SEVEN, who), workload, full=FULL_LONG_SHORT, **shared)
    network = network_of(common.SMALL_FABRIC if count in DEFAULT[scenario] else common.FABRIC, who)
    shared["full_network"] = network_of(common.FABRIC, who)
    if variant == PERMUTATION:
        return Row(title, ALL[who], network, {"kind": "random_bijective", "jitter": jitter_ns}, lines=0, **shared)
    if scenario == ALL_TO_ALL:
        workload = {"kind": "random", "flows": count, "jitter": jitter_ns}
        return Row(title, ALL[who], network, workload, lines=0, **shared)
    workload = {"kind": "many_to_one", "flows": count, "jitter": jitter_ns}
    return Row(title, ALL[who], network, workload, **shared)


ROWS = {scenario: _rows(scenario, counts) for scenario, counts in COUNTS.items()}


def chosen(scenario: str, options: StudyOptions, whose: Iterable[str] = ALL) -> list[Row]:
    """Returns the rows of all of the paper's cases, or of the default's."""
    counts = (COUNTS if options.full else DEFAULT)[scenario]
    names = {name(who, scenario, count) for who in whose for count in counts}
    return [row for row in ROWS[scenario] if row.name in names]


def run(scenario: str, options: StudyOptions, progress: Progress, whose: Iterable[str] = ALL) -> Evidence:
    """Runs the rows of a scenario, which several figures share."""
    more = long_short if scenario == LONG_SHORT else lambda result: dict[str, float]()
    return common.run(scenario, chosen(scenario, options, whose), options, progress, more)


def series(scenario: str) -> list[VariantLine]:
    """Returns one line per contestant, over the number of flows."""
    return [
        VariantLine(who, COLORS[who], {count: name(who, scenario, count) for count in COUNTS[scenario]}, *look(who))
        for who in contestants(scenario)
    ]


def look(who: str) -> tuple[str, str]:
    """Returns the marker and the line of a contestant."""
    return LOOKS[VARIANT_OF.get(who, OWN)]


def long_short(result: Result) -> dict[str, float]:
    """Returns the quantities of long and short flows, at 100 Gbit/s.

    A short flow that has not ended counts with its time so far.
    """
    made = Experiment.of(without_code(result.manifest["spec"], result.path))
    flows, scale = result.records("flows"), made.spec.topology.scale or 1
    short = (flows["size_bytes"] > 0) & (flows["start_ns"] >= 0)
    base_ns = nics.base_rtts_ns(made.schedule, made.graph, made.router, made.spec)[0]
    ended = flows["end_ns"] >= 0
    took_ns = (flows["end_ns"] * ended + made.spec.time.duration_ns * ~ended - flows["start_ns"])[short]
    table = result.derived("flow_metrics")
    assert table is not None
    long_bps = float(table["goodput_bps"].to_numpy()[: len(flows)][flows["size_bytes"] == 0].sum())
    recovered = recovery_s(result)
    return {
        LONG_SHARE.name: long_bps * scale / LINE_BPS,
        SLOWDOWN.name: float(took_ns.mean()) / base_ns if len(took_ns) else float("nan"),
        UNFINISHED.name: float((~ended[short]).sum()),
        RECOVERY.name: float("nan") if recovered is None else recovered / scale,
    }
