# SPDX-License-Identifier: Apache-2.0
"""RL-CC's cluster (section VI): the contestants, and the variants that figures 6, 7 and 10 share with Tables IV and V.

The default runs a quarter of the fabric with the same oversubscription, `--length full` 64 hosts; `--cases all` runs all of the
paper's cases. The paper does not give the following, which are our choice: which host sends to which (many-to-one: all to the
last one; all-to-all: each to as many others, drawn by seed), how flows start (here all within ten base round trips), and the
number of long flows in long-short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import FIRMWARE, NO_PATIENCE, OWN, PERMUTATION, SHARED, SLOW, SPREAD, TORS, WINDOW
from dc_gym.results.results import Result
from dc_gym.run.plan import nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec import without_code
from dc_gym.study import Measure, Study, Variant, measured, series
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, RunLength, ScaledNetwork

WHO = {"DCQCN": "dcqcn", "Swift": "swift", "RL-CC": "rlcc-tree"}
RIVALS, EVERYBODY = ("DCQCN", "Swift"), tuple(WHO)
_TOLD: Mapping[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    OWN: (EVERYBODY, ("o", "-")),
    SHARED: (EVERYBODY, ("s", "--")),
    WINDOW: (("Swift",), ("^", "-.")),
    common.HELD: (("Swift",), ("d", ":")),
    NO_PATIENCE: (("RL-CC",), ("v", "-.")),
    common.LARGE: (EVERYBODY, ("P", ":")),
    FIRMWARE: (("DCQCN",), ("D", "--")),
    SLOW: (EVERYBODY, ("<", ":")),
    SPREAD: (EVERYBODY, (">", ":")),
    PERMUTATION: (EVERYBODY, ("X", "-.")),
    TORS: (EVERYBODY, ("*", "-.")),
}
WHOSE = {setup: whose for setup, (whose, _) in _TOLD.items()}
LOOKS = {setup: look for setup, (_, look) in _TOLD.items()}
"""The contestants with rows of their own, and markers and lines, by set-up."""
BRING_UP = (SLOW, SPREAD)
"""The set-ups that are about how flows begin. Their losses are counted from the first packet on, as in the paper."""


def on(contestant: str, setup: str) -> str:
    """Returns the name of a contestant in a comparison of a set-up: its own name where that does not concern it."""
    return common.of_setup(contestant, setup) if contestant in WHOSE.get(setup, ()) else contestant


ROWS = {on(who, setup): (who, setup) for setup, whose in WHOSE.items() for who in whose}
"""The contestants by the names of their rows: whose they are, and their set-up."""
SETUP_OF = {name: setup for name, (_, setup) in ROWS.items()}
ALL = {name: WHO[who] for name, (who, _) in ROWS.items()}
_COLORS = {"DCQCN": "#CC6677", "Swift": "#999933", "RL-CC": "#332288"}
COLORS = {name: _COLORS[who] for name, (who, _) in ROWS.items()}
MANY_TO_ONE, ALL_TO_ALL, LONG_SHORT = "many-to-one", "all-to-all", "long-short"
"""The names of the runs."""
FLOWS = (32, 128, 2048, 4096)
A_HOST = (1, 8, 16, 32)
"""Flows per host: Table IV's 64, 512, 1024 and 2048 flows on 64 hosts."""
SHORT = (50, 100)
COUNTS = {MANY_TO_ONE: FLOWS, ALL_TO_ALL: A_HOST, LONG_SHORT: SHORT}
DEFAULT = {MANY_TO_ONE: (32, 128), ALL_TO_ALL: (1, 8), LONG_SHORT: (50, 100)}
"""The cases that the default runs."""
LENGTHS = {MANY_TO_ONE: (40, 25), ALL_TO_ALL: (24, 14), LONG_SHORT: (40, 5)}
FIRMWARE_LENGTHS = {MANY_TO_ONE: (350, 250), ALL_TO_ALL: (100, 75), LONG_SHORT: (150, 5)}
"""Durations and warm-ups in ms."""
FULL_LONG_SHORT = RunLength(30_000 * MS, 1_000 * MS)
LONG, SHORT_SIZE, LARGE_SIZE = 2, "64kB", "500kB"
"""The number of long flows is ours. A short flow is one of the paper's WRITEs of 64 KB (section VI)."""
SETUPS = {
    MANY_TO_ONE: (SHARED, WINDOW, NO_PATIENCE, FIRMWARE, SLOW, SPREAD),
    ALL_TO_ALL: (SHARED, WINDOW, NO_PATIENCE, FIRMWARE, SLOW, PERMUTATION, TORS),
    LONG_SHORT: (SHARED, WINDOW, common.HELD, NO_PATIENCE, common.LARGE, FIRMWARE, SLOW, SPREAD),
}
"""The set-ups of each scenario. Spread starts of all-to-all would cost as much as its other set-ups together."""
SOME_COUNTS: Mapping[str, tuple[int, ...]] = {PERMUTATION: A_HOST[:1], TORS: A_HOST[:1]}
"""The cases of a set-up that does not have all of its scenario's: both are about one flow a host."""
_EIGHT = {"preset": "rlcc64", "leaves": 8, "hosts_per_leaf": 8, "uplinks": 2}
EIGHT_TORS = ScaledNetwork("rlcc8x8", "8 ToRs of 8 hosts, 2 spines, 2:1 as on RL-CC's fabric", _EIGHT, 63)

LONG_SHARE = Measure("long_goodput", "long flows' goodput (of the line)", digits=3)
SLOWDOWN = Measure("slowdown", "short flows: completion over base RTT", digits=3)
UNFINISHED = Measure("unfinished", "short flows unfinished", digits=3)
RECOVERY = Measure("recovery_s", "long flows' recovery (us)", 1e6, 3)


def name(contestant: str, scenario: str, count: int) -> str:
    words = {MANY_TO_ONE: "{} flows", ALL_TO_ALL: "{} a host", LONG_SHORT: "{} short flows"}
    return f"{contestant}, {scenario}, {words[scenario].format(count)}"


def network_of(network: ScaledNetwork, contestant: str) -> ScaledNetwork:
    """Returns the network of a contestant, whose set-up may have other buffers or another fabric."""
    setup = SETUP_OF[contestant]
    return common.sharing(network) if setup == SHARED else EIGHT_TORS if setup == TORS else network


def contestants(scenario: str, setups: Iterable[str] | None = None) -> list[str]:
    """Returns the contestants of a scenario, together with the contestants of its set-ups or of the given ones."""
    some = SETUPS[scenario] if setups is None else setups
    return [contestant for contestant in ALL if SETUP_OF[contestant] in (OWN, *some)]


def has(setup: str, scenario: str, count: int) -> bool:
    """Returns whether a set-up has rows of a case."""
    return setup in (OWN, *SETUPS[scenario]) and count in SOME_COUNTS.get(setup, COUNTS[scenario])


def row_name(contestant: str, scenario: str, count: int, setup: str) -> str:
    """Returns the name of a contestant's row in a comparison of a set-up, which may leave the case as it is."""
    return name(on(contestant, setup) if has(setup, scenario, count) else contestant, scenario, count)


def length_of(scenario: str, setup: str) -> RunLength:
    later_ns = common.SPREAD_NS if setup == SPREAD else 0
    duration_ms, warmup_ms = (FIRMWARE_LENGTHS if setup == FIRMWARE else LENGTHS)[scenario]
    return RunLength(duration_ms * MS + later_ns, warmup_ms * MS + later_ns)


def _variant(contestant: str, scenario: str, count: int) -> Variant:
    setup = SETUP_OF[contestant]
    jitter = {"jitter": common.SPREAD_NS if setup == SPREAD else JITTER_NS}
    options: dict[str, Any] = {
        "length": length_of(scenario, setup),
        "keys": common.keys_of(ALL[contestant], setup),
        "color": COLORS[contestant],
        "extra": count not in DEFAULT[scenario],
    }
    make = partial(common.variant, name(contestant, scenario, count), ALL[contestant])
    if scenario == LONG_SHORT:
        size = LARGE_SIZE if setup == common.LARGE else SHORT_SIZE
        workload = {"kind": "long_short", "long": LONG, "short": count, "size": size, **jitter}
        return make(network_of(common.SEVEN, contestant), workload, full=FULL_LONG_SHORT, **options)
    network = network_of(common.SMALL_FABRIC if count in DEFAULT[scenario] else common.FABRIC, contestant)
    if scenario == MANY_TO_ONE:
        return make(network, {"kind": "many_to_one", "flows": count, **jitter}, **options)
    workload = {"kind": "random_bijective"} if setup == PERMUTATION else {"kind": "random", "flows": count}
    return make(network, workload | jitter, lines=0, **options)


VARIANTS = {
    scenario: [
        _variant(who, scenario, count) for who in contestants(scenario) for count in counts if has(SETUP_OF[who], scenario, count)
    ]
    for scenario, counts in COUNTS.items()
}
LOSSES = (common.DROPS, common.LATE_DROPS, common.DROPPED, common.RESENT)
MEASURES = (common.GOODPUT, common.LATENCY, common.INFLATION, common.JAIN, *LOSSES)
DRAWN = (common.GOODPUT, common.LATENCY, common.LATE_DROPS)
NETWORKS = {MANY_TO_ONE: (common.SMALL_FABRIC,), ALL_TO_ALL: (common.SMALL_FABRIC, EIGHT_TORS), LONG_SHORT: (common.SEVEN,)}


def study(
    scenario: str,
    title: str,
    source: str,
    claims: common.Claims,
    xlabel: str,
    measures: Sequence[Measure] = MEASURES,
    drawn: Sequence[Measure] = DRAWN,
    rows: Sequence[Variant] = (),
    **fields: Any,
) -> Study:
    """Returns the study of a scenario, with one line for each contestant over the scenario's counts; `rows` are more variants."""
    looks = {contestant: (COLORS[contestant], *look(contestant)) for contestant in contestants(scenario)}
    lines = common.lines_over(COUNTS[scenario], looks, lambda contestant, count: name(contestant, scenario, count))
    base = None if scenario == LONG_SHORT else 2
    draw = partial(series.figure, series=lines, columns=drawn, xlabel=xlabel, title=title, base=base)
    fields |= {"networks": NETWORKS[scenario], "setups": SETUPS[scenario], "runs": scenario}
    return common.study(title, source, (*VARIANTS[scenario], *rows), measures, claims, draw, **fields)


def look(contestant: str) -> tuple[str, str]:
    """Returns the marker and the line of a contestant."""
    return LOOKS[SETUP_OF[contestant]]


def long_short(result: Result, intervals: int = measured.RECOVERY_INTERVALS) -> dict[str, float]:
    """Returns the measures of long and short flows, at 100 Gbit/s; of short flows alone if there are no others.

    A short flow that has not ended counts with its time so far. The recovery is seen in so many intervals of the run.
    """
    experiment = Experiment.of(without_code(result.manifest["spec"], result.path))
    flows, scale = result.records("flows"), experiment.spec.topology.scale or 1
    short = (flows["size_bytes"] > 0) & (flows["start_ns"] >= 0)
    base_ns = nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, experiment.spec)[0]
    ended = flows["end_ns"] >= 0
    took_ns = (flows["end_ns"] * ended + experiment.spec.time.duration_ns * ~ended - flows["start_ns"])[short]
    values = {
        SLOWDOWN.name: float(took_ns.mean()) / base_ns if len(took_ns) else float("nan"),
        UNFINISHED.name: float((~ended[short]).sum()),
    }
    if not (endless := flows["size_bytes"] == 0).any():
        return values
    table = result.derived("flow_metrics")
    assert table is not None
    long_bps = float(table["goodput_bps"].to_numpy()[: len(flows)][endless].sum())
    recovered = measured.recovery_s(result, intervals)
    return values | {
        LONG_SHARE.name: long_bps * scale / LINE_BPS,
        RECOVERY.name: float("nan") if recovered is None else recovered / scale,
    }
