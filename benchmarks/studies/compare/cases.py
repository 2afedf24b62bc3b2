# SPDX-License-Identifier: Apache-2.0
"""The networks and the traffic of the comparison, and a study for each network.

The networks are RL-CC's at 100 Gbit/s (section VI), slowed down (dc_gym/study/scaled.py). Times here are
before slowing down. With `--length full` they run at their own rate, as long as in RL-CC; the length of WebSearch is ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.ctrl import controllers
from dc_gym.results.figures import styles
from dc_gym.results.figures.kit import FLOW_COLORS
from dc_gym.results.results import Result
from dc_gym.study import Measure, Study, Variant, drawing, measured, scaled
from dc_gym.study.scaled import JITTER_NS, LINKS, MS, SCALE, RunLength, ScaledNetwork

K_FRAMES = 60
"""Marking threshold (a step) for DCTCP and DCQCN, in frames: about 3/4 of the base BDP."""
ACC, LATENCY_NS = "acc", 10_000
"""DCQCN with ACC's net in every switch, and the time from a sample of ACC's to the new marking (its section 4.2: about 10 us)."""
ACC_STYLE = styles.Style("#DC143C", "P", "ACC + DCQCN")

GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)
DELAY = Measure("queueing_delay_s", "queueing delay (us)", 1e6, 3)
P99_DELAY = Measure("p99_queueing_delay_s", "queueing delay, p99 (us)", 1e6, 3)
LOSS = Measure("drop_ratio", "frames dropped (%)", 100, 3)
FAIRNESS = Measure("jain", "Jain's index", digits=3)
REACTION = Measure("reaction_p50_s", "reaction time (ms)", 1e3, 3)
RECOVERY = Measure("recovery_s", "recovery time (ms)", 1e3, 3)
SHORT_FCT = Measure("fct_mean_s", "short flows, mean FCT (ms)", 1e3, 3)
SLOWDOWN = Measure("slowdown_mean", "slowdown, mean", digits=3)
P99_SLOWDOWN = Measure("slowdown_p99", "slowdown, p99", digits=3)
UNFINISHED = Measure("fct_unfinished", "flows unfinished")
MEASURES = (GOODPUT, DELAY, P99_DELAY, LOSS, FAIRNESS, REACTION, SHORT_FCT, RECOVERY, SLOWDOWN, P99_SLOWDOWN, UNFINISHED)
DRAWN = (GOODPUT, DELAY, P99_DELAY, LOSS)
OF_TRAFFIC: Mapping[str, tuple[Measure, ...]] = {
    "many_to_one": (FAIRNESS, REACTION),
    "all_to_all": (FAIRNESS, REACTION),
    "long_short": (SHORT_FCT, RECOVERY),
    "poisson": (SLOWDOWN, P99_SLOWDOWN, UNFINISHED),
}
"""Measures besides DRAWN, by workload.kind."""


@dataclass(frozen=True, slots=True)
class Traffic:
    title: str
    workload: Mapping[str, Any]
    length: RunLength
    """RL-CC begins at line rate and cuts by at most 1.2 per round trip. A round trip takes 40 base ones while its own first burst
    fills the buffer, so 64 flows need 15 ms to reach their shares. Hence the warm-ups."""
    full: RunLength


LONG = RunLength(60_000 * MS, 1_000 * MS)
NETWORKS = {
    "dumbbell": ScaledNetwork("dumbbell", "Dumbbell, 8 + 8 hosts", {"kind": "dumbbell", "pairs": 8, **LINKS}, 8),
    "fattree-k4": ScaledNetwork("fattree-k4", "Fat-tree k = 4, 16 hosts", {"preset": "fattree-k4", **LINKS}, 15),
    "rlcc64": ScaledNetwork("rlcc64", "RL-CC's fabric, 64 hosts", {"preset": "rlcc64"}, 63),
}
MANY_TO_ONE: Mapping[str, Any] = {"kind": "many_to_one", "jitter": JITTER_NS}
LONG_SHORT = {"kind": "long_short", "long": 2, "short": 16, "size": "1MB", "jitter": JITTER_NS, "short_start": 5 * MS}
WEBSEARCH: Mapping[str, Any] = {"kind": "poisson", "distribution": "websearch", "load_of": "bisection"}
TRAFFIC = {
    **{
        f"many-to-one-{flows}": Traffic(
            f"many-to-one, {flows} flows", {**MANY_TO_ONE, "flows": flows}, RunLength(35 * MS, 20 * MS), LONG
        )
        for flows in (2**power for power in range(1, 10))
    },
    "all-to-all": Traffic("all-to-all", {"kind": "all_to_all", "jitter": JITTER_NS}, RunLength(12 * MS, 9 * MS), LONG),
    "long-short": Traffic("long and short flows", LONG_SHORT, RunLength(20 * MS, 0), RunLength(30_000 * MS, 0)),
    **{
        f"websearch-{load}": Traffic(
            f"WebSearch, {load} % load", {**WEBSEARCH, "load": load / 100}, RunLength(6 * MS, 0), RunLength(1_000 * MS, 0)
        )
        for load in (20, 40, 60, 80)
    },
}
DUMBBELL_LONGER = 3
"""A dumbbell carries fewer flows of WebSearch, so its runs are so many times as long."""
CONTROLLERS = ("rlcc-tree", "dctcp", "nv", "dcqcn", "hpcc", "powertcp", "fdcc", ACC)
DEFAULT_NETWORKS = ("dumbbell", "fattree-k4")
DEFAULT_TRAFFIC = ("many-to-one-8", "many-to-one-64", "all-to-all", "long-short", "websearch-60")


def name(controller: str, traffic: str) -> str:
    return f"{Path(controller).stem if _is_policy(controller) else controller}, {traffic}"


def study(network: str, traffic: Sequence[str] | None = None, contestants: Sequence[str] = CONTROLLERS) -> Study:
    """Returns the study of a network.

    Args:
        network: a name of NETWORKS.
        traffic: names of TRAFFIC; None: all, of which only DEFAULT_TRAFFIC runs by default.
        contestants: names of controllers, `acc`, or policies over a TCP (policy.npz, module:Class).

    Raises:
        UsageError: a name is unknown.
    """
    for names, known, kind in (
        ([network], NETWORKS, "topology"),
        (traffic or (), TRAFFIC, "workload"),
        ([contestant for contestant in contestants if not _is_policy(contestant)], (*controllers.names(), ACC), "controller"),
    ):
        for word in names:
            if word not in known:
                raise UsageError("compare: " + unknown(kind, word, known))
    chosen = TRAFFIC if traffic is None else traffic
    colors = _colors(contestants)
    variants = [_variant(network, workload, one, colors[one], traffic is None) for workload in chosen for one in contestants]
    return Study(
        title=f"{NETWORKS[network].title}: congestion controls compared",
        variants=variants,
        measures=MEASURES,
        measure=measure,
        draw=lambda evidence: drawing.grid(
            evidence,
            {TRAFFIC[workload].title: {label_of(one): name(one, workload) for one in contestants} for workload in chosen},
            DRAWN,
            NETWORKS[network].title,
        ),
        facts=[
            ("Network", f"{NETWORKS[network].title}, 100 Gbit/s, slowed down by {SCALE}; all numbers are of the slow network")
        ],
    )


def _acc_keys() -> dict[str, Any]:
    from dc_gym.methods.acc.template import DEPLOYED

    return {
        "controller.policy": "acc",
        "controller.start": "acc-deployed",
        "agent.actuators": "marking",
        "agent.agents": "switches",
        "agent.observe": "switch:mean_backlog",
        "agent.reward": "acc",
        "agent.interval": DEPLOYED.interval_ns,
        "agent.latency": LATENCY_NS,
    }


def _variant(network: str, traffic: str, controller: str, color: str, optional: bool) -> Variant:
    traffic_case, where = TRAFFIC[traffic], NETWORKS[network]
    workload, length = dict(traffic_case.workload), traffic_case.length
    if workload["kind"] == "many_to_one":
        workload["senders"] = min(workload["flows"], where.senders)
    if workload["kind"] == "poisson" and network == "dumbbell":
        length = RunLength(length.duration_ns * DUMBBELL_LONGER, length.warmup_ns)
    keys: dict[str, Any] = {"topology.k_bytes": f"{K_FRAMES}p", "metrics.slowdown": "closed-form"}  # the same for all
    keys |= _acc_keys() if controller == ACC else {"controller.policy": controller} if _is_policy(controller) else {}
    name_of_controller = "dcqcn" if controller == ACC else None if _is_policy(controller) else controller
    arguments = (name(controller, traffic), name_of_controller, where, workload, length, traffic_case.full, keys)
    return scaled.variant(*arguments, color=color, extra=optional and traffic not in DEFAULT_TRAFFIC)


def label_of(controller: str) -> str:
    known = _style_of(controller)
    return known.label if known else Path(controller).stem


def _style_of(controller: str) -> styles.Style | None:
    return ACC_STYLE if controller == ACC else styles.find(controller)


def _colors(contestants: Sequence[str]) -> dict[str, str]:
    """Returns a color for each controller: its own, or for a policy one that is free here."""
    known = {name: style.color for name in contestants if (style := _style_of(name))}
    free = [color for color in FLOW_COLORS if color not in known.values()] or list(FLOW_COLORS)
    return known | dict(zip((name for name in contestants if name not in known), itertools.cycle(free), strict=False))


def _is_policy(name: str) -> bool:
    return name.endswith(".npz") or ":" in name


def measure(result: Result) -> dict[str, float]:
    """Returns the measures of a run that its kind of traffic has."""
    measures = OF_TRAFFIC[result.manifest["spec"]["workload"]["kind"]]
    values = {column.name: result.summary.get(column.name) for column in (*DRAWN, *measures)}
    numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)}
    recovered = measured.recovery_s(result) if RECOVERY in measures else None
    return numbers | ({} if recovered is None else {RECOVERY.name: recovered})
