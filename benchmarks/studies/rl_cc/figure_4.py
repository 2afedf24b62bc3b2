# SPDX-License-Identifier: Apache-2.0
"""Figure 4 of RL-CC: bandwidth against latency as beta varies, and as the target varies.

The paper gives neither the values nor the number of flows; its best values are 1.5 and 0.064. Here the policy stays the same, and
only the beta or target that it is given varies, over 2, 16 and 128 flows on the network of the paper's simulations. Flows begin
at their share, since everything is measured at rest.

Rows of the set-ups in NOISE differ by noise, and claims are judged on them once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dc_gym.base.readable import sentence
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.results.figures.axes import log_ticks
from dc_gym.study import Claim, Evidence, Variant, above, below
from dc_gym.study.drawing import bar
from dc_gym.study.scaled import MS, RunLength

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Bandwidth against latency: beta varied, target varied"
SOURCE = "RL-CC, figure 4"
LOSS = SOURCE + "; a loss is 2 % or more of the goodput with {}"
AS_A_SHARE = "RL-CC, section III; as a share: the latency of a beta of 3 over that of 1, 128 flows against 2"
Q16 = 1 << 16
FLOWS = (2, 16, 128)
BETAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
TARGETS = (0.004, 0.016, 0.064, 0.256, 1.0)
BEST_BETA, BEST_TARGET = 1.5, 0.064
LENGTH = RunLength(12 * MS, 6 * MS)
NOISE: Mapping[str, Mapping[str, Any]] = {
    "jitter of 0.2 us": {"topology.jitter": "200ns"},
    "jitter of 1 us": {"topology.jitter": "1us"},
    "bursts of 16": {"nic.burst": 16},
}
"""Keys of the rows with noise, by set-up. A link delays each frame by 0 up to its jitter; a burst is in packets of 1.5 kB."""
NOISE_NOTE = "The paper says nothing about noise. Latency here has the waiting times at ports, and not the jitter."
COLORS = {2: "#D55E00", 16: "#0072B2", 128: "#009E73"}
LESS = 0.98
"""Goodput below this part of that with the paper's value is a loss of bandwidth."""


def name(beta: float, target: float, flows: int, setup: str = common.OWN) -> str:
    return common.of_setup(f"beta {beta:g}, target {target:g}, {flows} flows", setup)


def _variant(beta: float, target: float, flows: int, setup: str) -> Variant:
    parameters = common.at_share(flows, beta=round(beta * Q16), target=round(target * Q16))
    keys = {**parameters, **NOISE.get(setup, {})}
    options = {"length": LENGTH, "full": common.SIMULATION, "color": COLORS[flows]}
    return common.many_to_one(name(beta, target, flows, setup), "rlcc-tree", common.FOUR, flows, keys=keys, **options)


PAIRS = dict.fromkeys([(beta, BEST_TARGET) for beta in BETAS] + [(BEST_BETA, target) for target in TARGETS])
VARIANTS = [_variant(*pair, flows, setup) for setup in (common.OWN, *NOISE) for pair in PAIRS for flows in FLOWS]
MEASURES = (common.GOODPUT, common.LATENCY, common.INFLATION, common.FAIRNESS, common.LATE_DROPS)


def _claims(setup: str) -> Iterator[Claim]:
    def of_beta(beta: float, flows: int) -> str:
        return name(beta, BEST_TARGET, flows, setup)

    for flows in FLOWS:
        criteria = (below(of_beta(less, flows), of_beta(more, flows), common.LATENCY) for less, more in pairwise(BETAS))
        yield Claim(f"The smaller beta, the less latency ({flows} flows)", SOURCE, tuple(criteria))
    too_small = (below(of_beta(BETAS[0], 2), of_beta(BEST_BETA, 2), common.GOODPUT, LESS),)
    yield Claim("With too small a beta few flows do not use the link", LOSS.format(BEST_BETA), too_small)
    same = above(of_beta(BETAS[0], 128), of_beta(BEST_BETA, 128), common.GOODPUT, LESS)
    little = below(of_beta(3.0, 128), of_beta(1.0, 128), common.LATENCY, 3.0)
    yield Claim("With many flows beta matters little", AS_A_SHARE, (same, little))
    pairs = ([name(BEST_BETA, target, flows, setup) for target in (TARGETS[0], BEST_TARGET)] for flows in FLOWS)
    fails = tuple(below(low, best, common.GOODPUT, LESS) for low, best in pairs)
    yield Claim("Too low a target fails", LOSS.format(BEST_TARGET), fails)
    large, best = (name(BEST_BETA, target, 128, setup) for target in (1.0, BEST_TARGET))
    costs = (above(large, best, common.LATENCY, 3.0),)
    yield Claim("Too high a target costs much latency with many flows", SOURCE, costs)


LABEL_ROOM = 1.12
"""Points whose latencies differ by less than this factor have one label together."""


def _panels(evidence: Evidence, rows: common.Rows) -> None:
    left, right = rows[0]
    for flows in FLOWS:
        _line(left, evidence, flows, {beta: name(beta, BEST_TARGET, flows) for beta in BETAS})
        _line(right, evidence, flows, {target: name(BEST_BETA, target, flows) for target in TARGETS})
    left.set_title(f"beta varied, target {BEST_TARGET:g}", loc="left")
    right.set_title(f"target varied, beta {BEST_BETA:g}", loc="left")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.margins(y=0.1)
        log_ticks(ax, "x")
        ax.set_xlabel(sentence(common.LATENCY.title))
        ax.set_ylabel(sentence(common.GOODPUT.title))


def _line(ax: Axes, evidence: Evidence, flows: int, names: dict[float, str]) -> None:
    variants = {value: evidence.variants[title] for value, title in names.items() if title in evidence.variants}
    values, points = [], []
    for value, variant in variants.items():
        x, y = variant.estimate(common.LATENCY.name), variant.estimate(common.GOODPUT.name)
        if x and y:
            across, up = bar(x, common.LATENCY), bar(y, common.GOODPUT)
            values.append(value)
            points.append((across.mean, up.mean))
            ax.hlines(up.mean, across.low, across.high, color=COLORS[flows], linewidth=1)
            ax.vlines(across.mean, up.low, up.high, color=COLORS[flows], linewidth=1)
    starts = [at for at, (x, _) in enumerate(points) if not at or x >= LABEL_ROOM * points[at - 1][0]]
    for first, last in ((start, end - 1) for start, end in pairwise((*starts, len(points)))):
        text, aside = (f"{values[first]:g}", (4, 4)) if first == last else (f"{values[first]:g} to {values[last]:g}", (0, -11))
        ax.annotate(text, points[first], aside, textcoords="offset points", fontsize=7.5, color=COLORS[flows])
    if points:
        ax.plot(*zip(*points, strict=True), "o-", color=COLORS[flows], markersize=4, label=f"{flows} flows")


FIGURE = common.drawing(TITLE, (9.4, 4.4), _panels, len(FLOWS), "both", ncols=2)
STUDY = common.study(
    TITLE, SOURCE, VARIANTS, MEASURES, _claims, FIGURE, networks=(common.FOUR,), setups=NOISE, notes=(NOISE_NOTE,)
)
