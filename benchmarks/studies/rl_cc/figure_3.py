# SPDX-License-Identifier: Apache-2.0
"""Figure 3 of RL-CC: RTT inflation over the number of flows, against eq. 2, and Swift's against the best curve of its kind.

The paper simulates one second and uses its second half. 8192 flows are run with `--cases all` only. The paper does not give the
curve that it fits to Swift; here it is a + b sqrt(N) by relative least squares. Its intervals are of 99 %, ours of 95 %. All
flows begin at their share, since everything is measured at rest.

Calibrated rows give the policy a target that is lower by its own offset. Rows with another additive step of Swift's are compared
with Swift's own law, which grows as the cube root of the number of flows where its flow scaling is most of the target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import OWN, WINDOW, name, of_setup
from dc_gym.ctrl.nic import algorithms
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.offline import theory
from dc_gym.methods.rlcc.offline.theory import Root
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.study import Claim, Criterion, Evidence, Outcome, Variant, below, bounded, series
from dc_gym.study.claims import TIE
from dc_gym.study.scaled import LINE_BPS, MS, RunLength
from dc_gym.study.theory import crossing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "RTT inflation over flows, 4 senders to 1 receiver: theory and practice"
SOURCE = "RL-CC, figure 3"
OFFSET = "ours: docs/rlcc.md; the paper's policy has one, too, as its artifact shows"
TOO_LARGE = "ours: the paper says that the step is too large at low rates"
FLOWS = (2, 8, 32, 128, 512, 2048)
ALL_FLOWS = (*FLOWS, 8192)
BLACK = "#000000"
CALIBRATED, SMALLER, LARGER = "calibrated", "step / 4", "step x 4"
"""The set-ups whose policy has a lower target, and whose Swift has another additive step than a packet a round trip."""
STEPS = {SMALLER: 0.25, LARGER: 4.0}
SWIFT_WINDOW, SMALL_STEP, LARGE_STEP = (of_setup("Swift", setup) for setup in (WINDOW, *STEPS))
RL_CC_CALIBRATED, BY_STEP = of_setup("RL-CC", CALIBRATED), (SMALL_STEP, "Swift", LARGE_STEP)
CONTESTANTS = {
    "RL-CC": ("rlcc-tree", "#332288", OWN),
    "Swift": ("swift", BLACK, OWN),
    SWIFT_WINDOW: ("swift", "#999933", WINDOW),
    RL_CC_CALIBRATED: ("rlcc-tree", "#88CCEE", CALIBRATED),
    SMALL_STEP: ("swift", "#888888", SMALLER),
    LARGE_STEP: ("swift", "#CC6677", LARGER),
}
"""Controller, color and set-up."""
CLOSE, CALIBRATED_CLOSE = 0.05, 0.02
MANY = 128
"""From this number of flows on, Swift leaves its curve in the paper."""
PACKET = 1 << 20
"""A packet, in the unit of Swift's windows and steps."""
FROM = 32
"""From this number of flows on, Swift is above its own law."""


@functools.cache
def offset() -> float:
    """Returns the offset, in targets, at which flows settle in the fluid model under the shipped policy."""
    file = nic_policy.load("rlcc-tree")
    return fluid.offset(file.policy, file.scaling)


def calibrated_target() -> int:
    """Returns the target, Q16, with which the shipped policy rests at RL-CC's target. The policy's gain stays the same."""
    scaling: Scaling = nic_policy.load("rlcc-tree").scaling
    return round(scaling.target * (1.0 - offset()) * Q16)


@functools.cache
def swift_law(flows: float) -> float:
    """Returns the inflation at which Swift's target is the round trip, if each flow's window is its share of the line times that.

    It has the parameters of Swift's first preset.
    """
    value = algorithms.resolve_parameters(algorithms.load("swift", Path()), "", {}, LINE_BPS).values
    base_packets = common.BASE_RTT_NS * LINE_BPS / (8e9 * FRAME_BYTES)
    low, high = (1 / sqrt(value[name] / PACKET) for name in ("fs_max", "fs_min"))

    def target(inflation: float) -> float:
        scaling = (1 / sqrt(inflation * base_packets / flows) - low) / (high - low)
        added = value["fs_range"] * min(1.0, max(0.0, scaling))
        return (value["base_target"] + common.SINGLE_LINKS * value["hop"] + added) / value["reference_rtt"]

    return crossing(0.0, target(1e-9), lambda inflation: inflation < target(inflation), 1e-9)


def length(flows: int) -> RunLength:
    """Returns the length of a run. One of N flows sends a packet, and decides, every N / 50 base round trips."""
    return RunLength(10 * MS, 5 * MS) if flows < 512 else RunLength(40 * MS, 25 * MS)


def _variant(contestant: str, flows: int) -> Variant:
    controller, color, setup = CONTESTANTS[contestant]
    params = {CALIBRATED: {"target": calibrated_target()}} | {case: {"ai": round(step * PACKET)} for case, step in STEPS.items()}
    keys = {**common.keys_of(controller, setup), **common.at_share(flows, **params.get(setup, {}))}
    paper = {common.INFLATION.name: theory.EQ_2(flows)} if contestant == "RL-CC" else {}
    lengths = {"length": length(flows), "full": common.SIMULATION}
    options = {"paper": paper, "color": color, "extra": flows not in FLOWS, **lengths}
    return common.many_to_one(name(contestant, flows), controller, common.FOUR, flows, keys=keys, **options)


Curve = Mapping[int, float]
"""Inflation by number of flows."""
Judge = Callable[[Evidence, str], tuple[bool, str]]
"""Returns whether a contestant's inflation is as claimed, and the inflation in words."""


def _measured(evidence: Evidence, contestant: str) -> dict[int, Mapping[int, float]]:
    """Returns inflation by number of flows and by seed."""
    by_flows = {flows: evidence.values(name(contestant, flows), common.INFLATION.name) for flows in ALL_FLOWS}
    return {flows: values for flows, values in by_flows.items() if values}


def means(evidence: Evidence, contestant: str) -> Curve:
    return {flows: float(np.mean(list(values.values()))) for flows, values in _measured(evidence, contestant).items()}


def _by_seed(evidence: Evidence, contestant: str) -> list[Curve]:
    by_flows = _measured(evidence, contestant)
    return [{flows: values[seed] for flows, values in by_flows.items() if seed in values} for seed in by_flows.get(FLOWS[0], ())]


def _told(departures: Curve) -> str:
    return ", ".join(f"{flows} flows {departure:+.1%}" for flows, departure in departures.items())


def _criterion(words: str, contestant: str, judge: Judge, sure: bool | None = None) -> Criterion:
    def judged(evidence: Evidence) -> Outcome:
        holds, text = judge(evidence, contestant) if means(evidence, contestant) else (None, f"{contestant}: nothing measured")
        return bounded(holds, text, sure)

    return Criterion(words, tuple(name(contestant, flows) for flows in FLOWS), judged, (common.INFLATION.name,))


def _on_curve(contestant: str, curve: Callable[[], Root], target: str, close: float = CLOSE) -> Criterion:
    def judge(evidence: Evidence, contestant: str) -> tuple[bool, str]:
        law = curve()
        distances = theory.departures(means(evidence, contestant), law)
        return max(map(abs, distances.values())) <= close, f"{contestant}: {_told(distances)} of {law.a:g} + {law.b:.3g} sqrt(N)"

    return _criterion(f"means within {close:.0%} of {target}", contestant, judge, sure=False)


def _leaves(evidence: Evidence, swift: str) -> tuple[bool, str]:
    """Judges whether Swift is farther from its best curve than RL-CC is from its own, whichever seeds are compared."""
    swift_off, rl_off = (
        [max(map(abs, _off_best(curve).values())) for curve in _by_seed(evidence, contestant)] for contestant in (swift, "RL-CC")
    )
    text = f"{swift} off its best curve: {_told(_off_best(means(evidence, swift)))}"
    return min(swift_off) > max(rl_off, default=np.nan), f"{text}; RL-CC off its own by at most {max(rl_off, default=np.nan):.1%}"


def _off_best(curve: Curve) -> Curve:
    return theory.departures(curve, theory.best_fit(curve))


def _beyond_the_fit(evidence: Evidence, swift: str) -> tuple[list[float], str]:
    """Returns how far Swift with more flows lies above the curve that fits fewer, in their order and in words."""
    curve = means(evidence, swift)
    few = theory.best_fit({flows: value for flows, value in curve.items() if flows <= MANY})
    off = theory.departures({flows: value for flows, value in curve.items() if flows > MANY}, few)
    text = f"above the curve that fits up to {MANY} flows, {few.a:.3g} + {few.b:.3g} sqrt(N): {_told(off)}"
    return list(off.values()), text


def _rises(evidence: Evidence, swift: str) -> tuple[bool, str]:
    """Judges whether Swift lies above the curve that fits fewer flows, and farther with each step."""
    values, text = _beyond_the_fit(evidence, swift)
    return values == sorted(values) and min(values, default=0) > 0, text


def _leaves_upwards(evidence: Evidence, swift: str) -> tuple[bool, str]:
    """Judges whether the distance grows with each step, to more than a tie."""
    values, text = _beyond_the_fit(evidence, swift)
    return values == sorted(values) and values[-1] > TIE, text


def _above_its_law(evidence: Evidence, swift: str) -> tuple[bool, str]:
    departures = {flows: value / swift_law(flows) - 1 for flows, value in means(evidence, swift).items()}
    seeds = [value > swift_law(flows) for curve in _by_seed(evidence, swift) for flows, value in curve.items() if flows >= FROM]
    return all(seeds), f"{swift} off its law: {_told(departures)}"


def _claims(setup: str) -> Iterator[Claim]:
    swift = SWIFT_WINDOW if setup == WINDOW else "Swift"
    contestant, close = (RL_CC_CALIBRATED, CALIBRATED_CLOSE) if setup == CALIBRATED else ("RL-CC", CLOSE)
    yield Claim("RL-CC lies on eq. 2", SOURCE, (_on_curve(contestant, lambda: theory.EQ_2, "eq. 2", close),))
    settled = "eq. 2 at the error that flows settle at in the fluid model"
    criteria = [_on_curve("RL-CC", lambda: theory.law(offset()), settled)]
    yield common.ours("RL-CC lies on eq. 2 at its policy's offset", criteria, OFFSET)
    farther = _criterion("its largest distance is above RL-CC's, whichever seeds are compared", swift, _leaves)
    yield Claim("Swift leaves its best-fitting O(sqrt N) curve", SOURCE, (farther,))
    rises = _criterion(f"above the fit to fewer flows beyond {MANY}, and farther with each step", swift, _rises, sure=False)
    yield Claim("It leaves it as N grows, upwards: its additive step is too large at low rates", SOURCE, (rises,))


def _headline() -> Claim:
    leaves = _criterion(f"farther above the fit to {MANY} flows with each step", "Swift", _leaves_upwards, sure=False)
    text, about = "Swift leaves its best curve upwards, by more than 3 % with 8192 flows", [name("Swift", n) for n in ALL_FLOWS]
    return common.ours(text, [replace(leaves, about=tuple(about))], "ours: a headline's criterion")


def _by_step() -> Iterator[Criterion]:
    yield _criterion(f"above its law from {FROM} flows on, with every seed", "Swift", _above_its_law)
    for flows in (count for count in FLOWS if count >= FROM):
        yield from (below(name(one, flows), name(other, flows), common.INFLATION) for one, other in pairwise(BY_STEP))


def _figure(evidence: Evidence) -> Figure:
    lines = common.lines_over(ALL_FLOWS, {contestant: (color,) for contestant, (_, color, _) in CONTESTANTS.items()})
    curve = means(evidence, "Swift")

    def curves(ax: Axes) -> None:
        fit, x = theory.best_fit(curve), np.geomspace(FLOWS[0], max(curve), 100)
        best = f"best {fit.a:.2g} + {fit.b:.2g} sqrt(N)"
        ax.plot(x, [fit(flows) for flows in x], "--", color=BLACK, linewidth=1, label=best)
        ax.plot(x, [swift_law(flows) for flows in x], ":", color=BLACK, linewidth=1, label="Swift's own law")

    drawn = (common.INFLATION, common.GOODPUT)
    return series.figure(evidence, lines, drawn, "flows", TITLE, curves={common.INFLATION.name: curves} if curve else None)


STUDY = common.study(
    TITLE,
    SOURCE,
    [_variant(who, flows) for who in CONTESTANTS for flows in ALL_FLOWS],
    (common.INFLATION, common.LATENCY, common.GOODPUT, common.FAIRNESS, common.PROBES, common.DROPS, common.LATE_DROPS),
    _claims,
    _figure,
    networks=(common.FOUR,),
    setups=(WINDOW, CALIBRATED, *STEPS),
    also=[
        _headline(),
        common.ours("Swift leaves its own law upwards, the farther the larger its additive step", _by_step(), TOO_LARGE),
    ],
    notes=("The paper's values of RL-CC here are eq. 2's, on which its figure has them; the text gives none.",),
)
