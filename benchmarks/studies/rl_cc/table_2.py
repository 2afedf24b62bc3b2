# SPDX-License-Identifier: Apache-2.0
"""Table II of RL-CC: how the time of a decision affects many flows into one port.

In the paper an LSTM (450 us), an MLP (17 us) and trees (0.9 us) decide on a ConnectX-6Dx. Here these times are injected between
the measurement of a round trip and the rate that follows from it (`nic.latency`). The MLP with the LSTM's time takes the LSTM's
place, so that only the time differs. The paper does not say how long its runs are.

Each flow's decisions are made as if it had its own processor. The rows "in turn" (`nic.decisions`) show a processor that all
flows of a NIC share. Their flows begin at their share: 64 flows from line rate would take 23 cuts of up to 5 ms each. These runs
last LIVES decisions of a flow. The rows "30 us" and "100 us" show what the time alone costs 16 flows.

Two more set-ups look for the paper's collapse. In rows named "full queue" events of packets take the processor's time, too, and
its queue has fewer places than a NIC has flows. Rows named "16.8 ms" have the timeouts of verbs, and flows begin at their share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.study import series
from dc_gym.study.claims import Claim, above, below, less_than
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.model import Variant
from dc_gym.study.scaled import MS, US, RunLength
from dc_gym.study.series import VariantLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Many-to-one over one switch by how long a decision takes: goodput and drops"
SOURCE = "RL-CC, Table II"
LENGTH = RunLength(40 * MS, 25 * MS)
LONG = RunLength(60 * MS, 45 * MS)
"""The length with a full queue: 3 flows a NIC that decide in 450 us each need 31 ms from the line to their share."""
FLOWS = (16, 64, 128)
WHO = {"LSTM": ("rlcc-mlp", 450_000, "#D55E00"), "MLP": ("rlcc-mlp", 17_000, "#117733"), "tree": ("rlcc-tree", 900, "#332288")}
"""Controller, time of a decision in ns, and color."""
NETS = ("LSTM", "MLP")
PAPER = {
    "LSTM": ((0.91, 0), (0.33, 60e3), (0.40, 16e3)),
    "MLP": ((0.91, 0), (0.31, 60e3), (0.39, 16e3)),
    "tree": ((0.86, 0), (0.86, 1.59), (0.85, 6.96)),
}
"""Goodput and drops per flow, by number of flows."""
SLOWER, FEWER = 2, 0.01
"""The least factor of the tree's goodput over the networks', and the largest of its drops over theirs."""
MANY, BETWEEN_US = 64, (50, 150)
"""The number of flows for which the crossover is determined, and additional times of a decision for it."""
FEW, LATER_US = 16, (30, 100)
"""The number of flows, and additional times of a decision, for which it is measured what the time alone costs."""
LIVES, SHORTEST_NS = 24, 10 * MS
QUEUE, BURST = 4, 8
"""Places in a full queue, and packets of a TX event there. Both are ours, found on seed 11 (docs/reproduce-rl-cc.md).

4 is above the 3 flows that a NIC has with 16, below the 11 and 22 that it has with 64 and 128. With bursts of 8 a NIC that sends
at the line has 1 million TX events a second: 0.93 of the time for the trees, 17 times what there is for the MLP.
"""
TIMEOUT_NS, PROBE_TIMEOUT_NS = 4096 << 12, 800 * US
"""4.096 us x 2^12, verbs' time of an ACK; the default of Table II's other rows, two round trips through the longest queue."""
LOSING = 0.1
"""A run with more drops per flow than this counts as losing."""


def in_turn(who: str) -> str:
    return f"{who} in turn"


def on(who: str, setup: str) -> str:
    """Returns the name of a contestant in the rows of a set-up. All contestants are RL-CC's."""
    return common.of_setup(who, setup)


def _values(latency_ns: int, flows: int, setup: str) -> dict[str, Any]:
    """Returns the keys of a row whose flows decide as its set-up says."""
    if setup == common.FULL_QUEUE:
        queue = {"nic.decisions": "in-turn", "nic.event_cost": latency_ns, "nic.event_queue": QUEUE, "nic.burst": BURST}
        return {**queue, **common.PRESETS[common.NO_PATIENCE]}
    if setup == common.TIMEOUTS:
        told = {f"nic.{name}": TIMEOUT_NS for name in ("timeout", "timeout_max", "nack_interval")}
        return {"nic.latency": latency_ns, **told, "nic.probe_timeout": PROBE_TIMEOUT_NS, **common.at_share(flows)}
    return {"nic.latency": latency_ns, **common.PRESETS.get(setup, {})}


def _variant(who: str, flows: int, paper: tuple[float, float], setup: str) -> Variant:
    controller, latency_ns, color = WHO[who]
    return common.many_to_one(
        name(on(who, setup), flows),
        controller,
        common.SEVEN,
        flows,
        length=LONG if setup == common.FULL_QUEUE else LENGTH,
        keys=_values(latency_ns, flows, setup),
        paper={} if setup else dict(zip((common.GOODPUT.name, common.DROPS.name), paper, strict=True)),
        color=color,
    )


def _later(us: int) -> Variant:
    """Returns a variant of the network with few flows, a processor for each flow, and another time of a decision."""
    keys, color = _values(us * US, FEW, common.OWN), "#888888"
    return common.many_to_one(name(f"{us} us", FEW), WHO["MLP"][0], common.SEVEN, FEW, length=LENGTH, keys=keys, color=color)


def _in_turn(who: str, latency_ns: int, flows: int, color: str, setup: str) -> Variant:
    """Returns a variant with one processor per NIC."""
    decision_ns = latency_ns * math.ceil(flows / common.SEVEN.senders)
    length_ns = max(SHORTEST_NS, math.ceil(LIVES * decision_ns / MS) * MS)
    parameters = common.PRESETS.get(setup, {}).get("nic.parameters", {})
    keys = {"nic.latency": latency_ns, "nic.decisions": "in-turn", **common.at_share(flows, **parameters)}
    title, length = name(on(in_turn(who), setup), flows), RunLength(length_ns, length_ns // 2)
    return common.many_to_one(title, "rlcc-mlp", common.SEVEN, flows, length=length, keys=keys, color=color)


def _variants(setup: str) -> Iterator[Variant]:
    yield from (_variant(who, flows, paper, setup) for who in WHO for flows, paper in zip(FLOWS, PAPER[who], strict=True))
    if setup in COLLAPSES:
        return
    yield from (_in_turn(who, WHO[who][1], flows, WHO[who][2], setup) for who in NETS for flows in FLOWS)
    yield from (_in_turn(f"{each} us", each * US, MANY, "#888888", setup) for each in BETWEEN_US)


COLLAPSES = (common.FULL_QUEUE, common.TIMEOUTS)
"""The set-ups that look for the paper's collapse. They have no rows in turn: with a full queue all are."""
SETUPS = (common.NO_PATIENCE, *COLLAPSES)


def _slower(net: str, flows: int, setup: str) -> tuple[Claim, Claim]:
    tree, other = (name(on(who, setup), flows) for who in ("tree", net))
    return (
        Claim(
            f"With {flows} flows the tree has at least twice the goodput of the {net}",
            SOURCE,
            (above(tree, other, common.GOODPUT, SLOWER),),
        ),
        Claim(
            f"With {flows} flows the tree drops at least 100 times fewer packets a flow than the {net}",
            SOURCE + "; after bring-up",
            (below(tree, other, common.LATE_DROPS, FEWER),),
        ),
    )


def _claims(setup: str) -> Iterator[Claim]:
    def row(who: str, flows: int) -> str:
        return name(on(who, setup), flows)

    shared = tuple(map(in_turn, NETS))
    yield Claim(
        "With 16 flows nobody drops",
        SOURCE + "; after bring-up",
        tuple(less_than(row(who, 16), common.LATE_DROPS, LOSING) for who in (*WHO, *(() if setup in COLLAPSES else shared))),
    )
    yield Claim(
        "With 16 flows the slow networks have no less goodput than the tree",
        SOURCE,
        tuple(above(row(who, 16), row("tree", 16), common.GOODPUT, 0.999) for who in NETS),
    )
    for nets, of in ((NETS, setup), (shared, common.OWN if setup in COLLAPSES else setup)):
        yield from (claim for flows in FLOWS[1:] for net in nets for claim in _slower(net, flows, of))


CLAIMS = (
    *common.with_setups(SETUPS, _claims),
    Claim(
        f"With {FEW} flows goodput falls with the time of a decision: 17 us, 30 us, 100 us",
        "docs/reproduce-rl-cc.md",
        tuple(
            below(name(later, FEW), name(sooner, FEW), common.GOODPUT)
            for sooner, later in pairwise(("MLP", *(f"{us} us" for us in LATER_US)))
        ),
        ours=True,
    ),
)


def crossover(evidence: Evidence) -> str:
    """Describes the times of a decision, in turn, at which many flows begin to lose and fall below half of the tree's goodput."""
    times = {us * US: name(in_turn(f"{us} us"), MANY) for us in BETWEEN_US}
    times |= {WHO[net][1]: name(in_turn(net), MANY) for net in NETS}
    tried = sorted(times)

    def mean(title: str, measure: Measure) -> float:
        return float(np.mean(list(evidence.values(title, measure.name).values()) or np.nan))

    tree = mean(name("tree", MANY), common.GOODPUT)
    drops = _first([time_ns for time_ns in tried if mean(times[time_ns], common.LATE_DROPS) > LOSING], tried)
    half = _first([time_ns for time_ns in tried if mean(times[time_ns], common.GOODPUT) * SLOWER < tree], tried)
    each_waits = math.ceil(MANY / common.SEVEN.senders)
    return (
        f"Crossover with {MANY} flows, {each_waits} a NIC whose decisions are made in turn: drops begin {drops},"
        f" less than half of the tree's goodput {half} (times of one decision; a flow waits {each_waits} of them)."
    )


def _first(reached: list[int], tried: list[int]) -> str:
    if not reached:
        return f"beyond {tried[-1] / US:g} us"
    place = tried.index(min(reached))
    at = f"{tried[place] / US:g} us"
    return f"between {tried[place - 1] / US:g} and {at}" if place else f"at {at} or below"


def _figure(evidence: Evidence) -> Figure:
    looks = {
        **{who: (color, "o", "-") for who, (_, _, color) in WHO.items()},
        **{in_turn(who): (WHO[who][2], "s", "--") for who in NETS},
        **{
            on(who, setup): (color, *how)
            for setup, how in zip(SETUPS, (("v", "-."), ("x", ":"), ("^", ":")), strict=True)
            for who, (_, _, color) in WHO.items()
        },
    }
    lines = [VariantLine(who, color, {flows: name(who, flows) for flows in FLOWS}, *how) for who, (color, *how) in looks.items()]
    return series.figure(evidence, lines, (common.GOODPUT, common.DROPS, common.LATE_DROPS), "flows", TITLE)


STUDY = common.study(
    TITLE,
    SOURCE,
    [*(each for setup in (common.OWN, *SETUPS) for each in _variants(setup)), *map(_later, LATER_US)],
    (common.GOODPUT, common.DROPS, common.LATE_DROPS, common.DROPPED, common.RESENT, common.LATENCY, common.JAIN),
    CLAIMS,
    _figure,
    networks=(common.SEVEN,),
    setups=SETUPS,
    notes=lambda evidence: [crossover(evidence)],
)
