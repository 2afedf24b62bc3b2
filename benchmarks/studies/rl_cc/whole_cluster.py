# SPDX-License-Identifier: Apache-2.0
"""RL-CC's cluster at its own size: 64 hosts, or 7 on one switch, with a bound on what a queue pair has under way.

The paper (section VI) says neither how much a queue pair has under way nor how flows start. Here a pair has at most 128 kB under
way, two WRITEs, and flows start over 10 ms. Both are inferred, so all rows are named "bounded": with 5 MB of buffer the paper's 32
flows lose nothing, its 128 do. DCQCN has its NICs' parameters, with the byte counter of stored configurations.

The paper's tests last 60 and 30 s. So losses over a test are those while flows come up, once, and the later rate times that
length. Short flows join after 20 ms, and the long ones' goodput is counted once they have recovered, as nearly all of 30 s is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dc_gym.base.units import parse_time_ns
from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL_TO_ALL, LONG_SHORT, MANY_TO_ONE, WHO
from dc_gym.benchmarks.studies.rl_cc.common import BOUNDED, FIRMWARE, of_setup
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Variant, series
from dc_gym.study.scaled import MS, RunLength

TITLE = "RL-CC's cluster at its own size: goodput, latency and losses"
TEST_DROPS = Measure("test_drops_per_flow", "drops a flow in a test of the paper's length", digits=3)
STARTS_NS, JOIN_NS = 10 * MS, 20 * MS
COUNTS = {MANY_TO_ONE: cluster.FLOWS, ALL_TO_ALL: (1, 2), LONG_SHORT: cluster.SHORT}
"""All-to-all: flows from each host to each other, 4032 and 8064 together."""
LENGTHS = {MANY_TO_ONE: RunLength(60 * MS, 40 * MS), ALL_TO_ALL: RunLength(20 * MS, 15 * MS), LONG_SHORT: RunLength(60 * MS, 40 * MS)}
PAPER_S = {"many_to_one": 60, "all_to_all": 60, "long_short": 30}
FIRST_SEED, SEEDS = 6, 3
"""The bound was found on seeds 1 to 5."""


def name(contestant: str, scenario: str, count: int) -> str:
    """Returns the name of a variant; in all-to-all a count is of flows to each other host."""
    words = f"{scenario}, {count} a pair" if scenario == ALL_TO_ALL else cluster.name("", scenario, count).removeprefix(", ")
    return f"{of_setup(contestant, BOUNDED)}, {words}"


def _variant(who: str, scenario: str, count: int) -> Variant:
    workloads: Mapping[str, Mapping[str, Any]] = {
        MANY_TO_ONE: {"kind": "many_to_one", "flows": count},
        ALL_TO_ALL: {"kind": "all_to_all", "flows": count},
        LONG_SHORT: {
            **{"kind": "long_short", "long": cluster.LONG, "short": count},
            **{"size": cluster.SHORT_SIZE, "short_start": JOIN_NS},
        },
    }
    return common.variant(
        name(who, scenario, count),
        WHO[who],
        common.SEVEN if scenario == LONG_SHORT else common.FABRIC,
        {**workloads[scenario], "jitter": STARTS_NS},
        {**common.keys_of(WHO[who], FIRMWARE if who == "DCQCN" else common.OWN), "nic.inflight": "128kB"},
        0 if scenario == ALL_TO_ALL else 1,
        length=LENGTHS[scenario],
        color=cluster.COLORS[who],
        extra=scenario == ALL_TO_ALL,
    )


def measured(result: Result) -> dict[str, float]:
    """Returns the losses over a test of the paper's length, and the measures of long and short flows."""
    spec, numbers = result.manifest["spec"], common.numbers(result)
    kind, late = spec["workload"]["kind"], numbers[common.LATE_DROPS.name]
    duration_ns, warmup_ns = (parse_time_ns(spec["time"][key]) for key in ("duration", "warmup"))
    window_s = (duration_ns - warmup_ns) / 1e9 / int(spec["topology"].get("scale") or 1)
    lost = numbers[common.DROPS.name] - late + late / window_s * PAPER_S[kind]
    return {TEST_DROPS.name: lost} | (cluster.long_short(result) if kind == "long_short" else {})


def _claims(_: str) -> Iterator[Claim]:
    """Yields none: figures 6, 7 and 10 and Table IV have the statements, and headlines.toml judges them on these rows."""
    yield from ()


DRAWN = (common.GOODPUT, common.LATENCY, TEST_DROPS)
LINES = common.lines_over(cluster.FLOWS, {who: (cluster.COLORS[who],) for who in WHO}, lambda who, count: name(who, MANY_TO_ONE, count))
STUDY = common.study(
    TITLE,
    "RL-CC, section VI",
    [_variant(who, scenario, count) for scenario, counts in COUNTS.items() for who in WHO for count in counts],
    (*DRAWN, common.JAIN, *cluster.LOSSES, cluster.LONG_SHARE, cluster.SLOWDOWN, cluster.UNFINISHED, cluster.RECOVERY),
    _claims,
    partial(series.figure, series=LINES, columns=DRAWN, xlabel="flows to one", title=TITLE),
    networks=(common.FABRIC, common.SEVEN),
    more=measured,
    first_seed=FIRST_SEED,
    seeds=SEEDS,
)
