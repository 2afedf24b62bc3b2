# SPDX-License-Identifier: Apache-2.0
"""Table II of RL-CC: how the time of a decision affects many flows into one port.

In the paper an LSTM (450 us), an MLP (17 us) and trees (0.9 us) decide on a ConnectX-6Dx. Here these times are injected between
the measurement of a round trip and the rate that follows from it (`nic.latency`). The MLP with the LSTM's time takes the LSTM's
place, so that only the time differs. The paper does not say how long its runs are.

Each flow's decisions are made as if it had its own processor. The rows "in turn" (`nic.decisions`) show a processor that all
flows of a NIC share. Their flows begin at their share: 64 flows from line rate would take 23 cuts of up to 5 ms each. These runs
last LIVES decisions of a flow. The rows "30 us" and "100 us" show the cost of the time alone for 16 flows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import BOUNDED, FULL_QUEUE, NO_PATIENCE, OWN, TIMEOUTS, name, of_setup
from dc_gym.study import Claim, Criterion, Variant, above, below, less_than, series
from dc_gym.study.scaled import MS, US, RunLength

TITLE = "Many-to-one over one switch by how long a decision takes: goodput and drops"
SOURCE = "RL-CC, Table II"
LENGTH = RunLength(40 * MS, 25 * MS)
LONG = RunLength(60 * MS, 45 * MS)
"""The length with a full queue: 3 flows a NIC that decide in 450 us each need 31 ms from the line to their share."""
FLOWS = (16, 64, 128)
WHO = {"LSTM": ("rlcc-mlp", 450_000, "#D55E00"), "MLP": ("rlcc-mlp", 17_000, "#117733"), "tree": ("rlcc-tree", 900, "#332288")}
"""Controller, time of a decision in ns, and color."""
NETS = ("LSTM", "MLP")
SHARED_PROCESSOR = "ours: a processor that all flows of a NIC share"
"""The source of claims on networks in turn."""
PAPER = {
    "LSTM": ((0.91, 0), (0.33, 60e3), (0.40, 16e3)),
    "MLP": ((0.91, 0), (0.31, 60e3), (0.39, 16e3)),
    "tree": ((0.86, 0), (0.86, 1.59), (0.85, 6.96)),
}
"""Goodput and drops per flow, by number of flows."""
SLOWER, FEWER = 2, 0.01
"""The least factor of the tree's goodput over the networks', and the largest of its drops over theirs."""
MANY, BETWEEN_US = 64, (50, 150)
"""The number of flows, and additional times of a decision, between which many flows begin to lose."""
FEW, LATER_US = 16, (30, 100)
"""The number of flows, and the additional times of a decision, with which the cost of the time alone is measured."""
LIVES, SHORTEST_NS = 24, 10 * MS
QUEUE, BURST = 4, 8
"""Places in a full queue, above the flows of a NIC with 16 alone, and packets of a TX event there. At the line, TX events of this
size take 0.93 of the time for the trees, and 17 times the available time for the MLP. Both are ours, found on seed 11.
"""
SATURATED: Mapping[str, common.Keys] = {
    FULL_QUEUE: {"nic.event_queue": QUEUE, "nic.burst": BURST},
    BOUNDED: {"nic.event_queue": 2, "nic.burst": 16, "nic.inflight": "128kB"},
}
"""The NIC's keys where events wait for one processor. Those of BOUNDED were found on seeds 1 to 3."""
SEEDS = 8
"""Five besides those."""
TIMEOUT_NS, PROBE_TIMEOUT_NS = 4096 << 12, 800 * US
"""4.096 us x 2^12, verbs' time of an ACK; the default of Table II's other rows, two round trips through the longest queue."""
LOSING = 0.1
"""A run with more drops per flow than this counts as losing."""
COLLAPSES = (*SATURATED, TIMEOUTS)
"""The set-ups that look for the paper's collapse. They have no rows in turn: with a full queue all are."""
LOOKS = {NO_PATIENCE: ("v", "-."), FULL_QUEUE: ("x", ":"), TIMEOUTS: ("^", ":"), BOUNDED: ("o", ":")}
"""Markers and lines by set-up."""


def _keys(latency_ns: int, flows: int, setup: str) -> dict[str, Any]:
    """Returns the keys of a row whose flows decide as in its set-up."""
    if setup in SATURATED:
        queue = {"nic.decisions": "in-turn", "nic.event_cost": latency_ns, **SATURATED[setup]}
        return {**queue, **common.PRESETS[NO_PATIENCE]}
    if setup == TIMEOUTS:
        timeouts = {f"nic.{name}": TIMEOUT_NS for name in ("timeout", "timeout_max", "nack_interval")}
        return {"nic.latency": latency_ns, **timeouts, "nic.probe_timeout": PROBE_TIMEOUT_NS, **common.at_share(flows)}
    return {"nic.latency": latency_ns, **common.PRESETS.get(setup, {})}


def _who(contestant: str) -> tuple[str, int, str]:
    """Returns a contestant of WHO, or the network with another decision time, such as "30 us"."""
    return WHO[contestant] if contestant in WHO else ("rlcc-mlp", int(contestant.removesuffix(" us")) * US, "#888888")


def _variant(contestant: str, flows: int, setup: str = OWN) -> Variant:
    """Returns a variant with a processor for each flow."""
    controller, latency_ns, color = _who(contestant)
    printed = PAPER[contestant][FLOWS.index(flows)] if contestant in PAPER and not setup else ()
    look = {"paper": common.printed((common.GOODPUT, common.DROPS), printed), "color": color}
    title, length = name(of_setup(contestant, setup), flows), LONG if setup in SATURATED else LENGTH
    return common.many_to_one(title, controller, common.SEVEN, flows, keys=_keys(latency_ns, flows, setup), length=length, **look)


def _in_turn(contestant: str, flows: int, setup: str) -> Variant:
    """Returns a variant of the network with one processor per NIC."""
    _, latency_ns, color = _who(contestant)
    decision_ns = latency_ns * math.ceil(flows / common.SEVEN.senders)
    length_ns = max(SHORTEST_NS, math.ceil(LIVES * decision_ns / MS) * MS)
    parameters = common.PRESETS.get(setup, {}).get("nic.parameters", {})
    keys = {"nic.latency": latency_ns, "nic.decisions": "in-turn", **common.at_share(flows, **parameters)}
    title, length = name(of_setup(f"{contestant} in turn", setup), flows), RunLength(length_ns, length_ns // 2)
    return common.many_to_one(title, "rlcc-mlp", common.SEVEN, flows, length=length, keys=keys, color=color)


VARIANTS = [
    *(_variant(who, flows, setup) for setup in (OWN, *LOOKS) for who in WHO for flows in FLOWS),
    *(_in_turn(who, flows, setup) for setup in (OWN, NO_PATIENCE) for who in NETS for flows in FLOWS),
    *(_in_turn(f"{us} us", MANY, setup) for setup in (OWN, NO_PATIENCE) for us in BETWEEN_US),
    *(_variant(f"{us} us", FEW) for us in LATER_US),
]


def _slower(net: str, flows: int, setup: str) -> Iterator[Claim]:
    tree, other = (name(of_setup(contestant, setup), flows) for contestant in ("tree", net))
    goodput, drops = above(tree, other, common.GOODPUT, SLOWER), below(tree, other, common.LATE_DROPS, FEWER)
    source = SOURCE if net in NETS else SHARED_PROCESSOR
    yield Claim(f"With {flows} flows the tree has at least twice the goodput of the {net}", source, (goodput,))
    fewer = f"With {flows} flows the tree drops at least 100 times fewer packets a flow than the {net}"
    yield Claim(fewer, source + "; after bring-up", (drops,))


def _claims(setup: str) -> Iterator[Claim]:
    def row(contestant: str, flows: int) -> str:
        return name(of_setup(contestant, setup), flows)

    shared = tuple(f"{net} in turn" for net in NETS)
    some = (*WHO, *(() if setup in COLLAPSES else shared))
    none = tuple(less_than(row(contestant, 16), common.LATE_DROPS, LOSING) for contestant in some)
    yield Claim("With 16 flows nobody drops", SOURCE + "; after bring-up", none)
    criteria = tuple(above(row(contestant, 16), row("tree", 16), common.GOODPUT, 0.999) for contestant in NETS)
    yield Claim("With 16 flows the slow networks have no less goodput than the tree", SOURCE, criteria)
    for nets, of in ((NETS, setup), (shared, OWN if setup in COLLAPSES else setup)):
        yield from (claim for flows in FLOWS[1:] for net in nets for claim in _slower(net, flows, of))


def _falls() -> Iterator[Criterion]:
    for sooner, later in pairwise(("MLP", *(f"{us} us" for us in LATER_US))):
        yield below(name(later, FEW), name(sooner, FEW), common.GOODPUT)


_COLORS = {who: color for who, (_, _, color) in WHO.items()}
LINES = {
    **{who: (color,) for who, color in _COLORS.items()},
    **{f"{who} in turn": (_COLORS[who], "s", "--") for who in NETS},
    **{of_setup(who, setup): (color, *look) for setup, look in LOOKS.items() for who, color in _COLORS.items()},
}
DRAWN = (common.GOODPUT, common.DROPS, common.LATE_DROPS)
STUDY = common.study(
    TITLE,
    SOURCE,
    VARIANTS,
    (*DRAWN, common.DROPPED, common.RESENT, common.LATENCY, common.JAIN),
    _claims,
    partial(series.figure, series=common.lines_over(FLOWS, LINES), columns=DRAWN, xlabel="flows", title=TITLE),
    networks=(common.SEVEN,),
    setups=LOOKS,
    seeds=SEEDS,
    also=[common.ours(f"With {FEW} flows goodput falls with the time of a decision: 17 us, 30 us, 100 us", _falls())],
)
