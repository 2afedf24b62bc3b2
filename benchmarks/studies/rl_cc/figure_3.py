# SPDX-License-Identifier: Apache-2.0
"""Figure 3 of RL-CC: RTT inflation over the number of flows, against eq. 2, and Swift's against the best curve of its kind.

The paper simulates one second and uses its second half. 8192 flows are run with --full only. The paper does not say what it fits
to Swift; here it is a + b sqrt(N) by relative least squares. Its intervals are of 99 %, ours of 95 %. All flows begin
at their share, since everything is measured at rest.

Rows of the variant CALIBRATED give the policy a target that is lower by its own offset. Hypothesis, written down before they ran:
the offset is a constant error at which the policy keeps the rate. So with the target lowered by it flows rest on eq. 2 itself,
within 2 %.

Rows with another additive step of Swift's test why it leaves its curve. Hypothesis, from seed 11: Swift's target itself grows as
the cube root of the number of flows (swift_law), so a curve that fits few flows lies above it; what leaves it upwards is what the
additive step adds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import Row, name
from dc_gym.ctrl.nic import algorithms
from dc_gym.nets import fluid, nic_policy
from dc_gym.nets.decision import Q16
from dc_gym.study import series, theory
from dc_gym.study.claims import Claim, Criterion, CriterionOutcome, Explanation, below
from dc_gym.study.evidence import Evidence
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import LINE_BPS, MS, RunLength
from dc_gym.study.series import VariantLine
from dc_gym.study.theory import Root

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "RTT inflation over flows, 4 senders to 1 receiver: theory and practice"
SOURCE = "RL-CC, figure 3"
FLOWS = (2, 8, 32, 128, 512, 2048)
FULL_FLOWS = (*FLOWS, 8192)
WHO = {"RL-CC": ("rlcc-tree", "#332288"), "Swift": ("swift", "#000000")}
SWIFT_WINDOW = common.of_variant("Swift", common.WINDOW)
"""Swift with a window, as in its own paper. Claims about it are counted apart."""
CALIBRATED = "calibrated"
"""The variant of RL-CC whose target is lowered so far that flows rest on eq. 2."""
RL_CC_CALIBRATED = common.of_variant("RL-CC", CALIBRATED)
STEPS = {"step / 4": 0.25, "step x 4": 4.0}
"""The variants of Swift with another additive step, in packets a round trip; all others have 1."""
SMALL_STEP, LARGE_STEP = (common.of_variant("Swift", variant) for variant in STEPS)
BY_STEP = (SMALL_STEP, "Swift", LARGE_STEP)
CONTESTANTS = WHO | {
    SWIFT_WINDOW: ("swift", "#999933"),
    RL_CC_CALIBRATED: (WHO["RL-CC"][0], "#88CCEE"),
    SMALL_STEP: ("swift", "#888888"),
    LARGE_STEP: ("swift", "#CC6677"),
}
VARIANT_OF = {
    SWIFT_WINDOW: common.WINDOW,
    RL_CC_CALIBRATED: CALIBRATED,
    **dict(zip((SMALL_STEP, LARGE_STEP), STEPS, strict=True)),
}
STEPS_NOTE = (
    'In rows named "step / 4" and "step x 4" Swift\'s additive step is a quarter of a packet a round trip, or four packets,'
    " instead of one."
)
CALIBRATED_NOTE = (
    'In rows named "calibrated" the target is lower by the offset at which flows rest in the fluid model under the policy, which'
    " is ours; other rows have the paper's target."
)
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
    file = nic_policy.load(WHO["RL-CC"][0])
    return fluid.offset(file.policy, file.scaling)


def calibrated_target() -> int:
    """Returns the target, Q16, with which the shipped policy rests at RL-CC's target. The policy's gain stays the same."""
    scaling = nic_policy.load(WHO["RL-CC"][0]).scaling
    return round(scaling.target * (1.0 - offset()) * Q16)


@functools.cache
def swift_law(flows: float) -> float:
    """Returns the inflation at which Swift's target is the round trip, if each flow's window is its share of the line times that.

    It has the parameters of Swift's first preset. Where its flow scaling is most of the target, it grows as the cube root of the
    number of flows.
    """
    value = algorithms.resolve_parameters(algorithms.load("swift", Path()), "", {}, LINE_BPS).values
    base_packets = common.BASE_RTT_NS * LINE_BPS / (8e9 * FRAME_BYTES)
    low, high = (1 / sqrt(value[name] / PACKET) for name in ("fs_max", "fs_min"))

    def target(inflation: float) -> float:
        scaling = (1 / sqrt(inflation * base_packets / flows) - low) / (high - low)
        added = value["fs_range"] * min(1.0, max(0.0, scaling))
        return (value["base_target"] + common.SINGLE_LINKS * value["hop"] + added) / value["reference_rtt"]

    return theory.crossing(0.0, target(1e-9), lambda inflation: inflation < target(inflation), 1e-9)


def length(flows: int) -> RunLength:
    """Returns the length of a run.

    A flow decides about once per packet, and one of N flows sends a packet every N / 50 base round trips.
    """
    return RunLength(10 * MS, 5 * MS) if flows < 512 else RunLength(40 * MS, 25 * MS)


def _row(who: str, flows: int) -> Row:
    controller, color = CONTESTANTS[who]
    variant = VARIANT_OF.get(who, common.OWN)
    presets = common.keys_of(controller, variant)
    parameters = dict(presets.get("nic.parameters", {}))
    if variant == CALIBRATED:
        parameters["target"] = calibrated_target()
    if variant in STEPS:
        parameters["ai"] = round(STEPS[variant] * PACKET)
    return common.many_to_one(
        name(who, flows),
        controller,
        common.FOUR,
        flows,
        length=length(flows),
        full=common.SIMULATION,
        values={**presets, **common.at_share(flows, **parameters)},
        paper={common.INFLATION.name: theory.EQ_2(flows)} if who == "RL-CC" else {},
        color=color,
        variant=variant,
    )


ROWS = [_row(who, flows) for who in CONTESTANTS for flows in FLOWS]
FULL_ROWS = [_row(who, flows) for who in CONTESTANTS for flows in FULL_FLOWS]
COLUMNS = (common.INFLATION, common.LATENCY, common.GOODPUT, common.FAIRNESS, common.PROBES, common.DROPS, common.LATE_DROPS)


def measured(evidence: Evidence, who: str, seed: int | None = None) -> dict[int, float]:
    """Returns inflation by number of flows, of one seed or as the mean over seeds."""
    found = {}
    for flows in FULL_FLOWS:
        values = evidence.values(name(who, flows), common.INFLATION.name)
        if values and (seed is None or seed in values):
            found[flows] = float(np.mean(list(values.values()))) if seed is None else values[seed]
    return found


def _by_seed(evidence: Evidence, who: str) -> list[dict[int, float]]:
    """Returns the inflation by number of flows of each seed."""
    return [measured(evidence, who, seed) for seed in evidence.values(name(who, FLOWS[0]), common.INFLATION.name)]


def _told(departures: Mapping[int, float]) -> str:
    return ", ".join(f"{flows} flows {each:+.1%}" for flows, each in departures.items())


def _on_curve(who: str, curve: Callable[[], Root], what: str, close: float = CLOSE) -> Criterion:
    def judge(evidence: Evidence) -> CriterionOutcome:
        law = curve()
        found = theory.departures(measured(evidence, who), law)
        return CriterionOutcome(
            max(map(abs, found.values())) <= close, f"{who}: {_told(found)} of {law.a:g} + {law.b:.3g} sqrt(N)"
        )

    return Criterion(f"means within {close:.0%} of {what}", _rows_of(who), judge)


def _leaves(swift: str) -> Criterion:
    """Returns the criterion that Swift is farther from its best curve than RL-CC is from its own."""

    def judge(evidence: Evidence) -> CriterionOutcome:
        worst = {}
        for who in ("RL-CC", swift):
            by_seed = _by_seed(evidence, who)
            worst[who] = [max(map(abs, theory.departures(each, theory.best_fit(each)).values())) for each in by_seed]
        fit = theory.best_fit(measured(evidence, swift))
        said = f"{swift} off {fit.a:.3g} + {fit.b:.3g} sqrt(N): {_told(theory.departures(measured(evidence, swift), fit))}"
        return CriterionOutcome(
            min(worst[swift]) > max(worst["RL-CC"]), f"{said}; RL-CC off its own best by at most {max(worst['RL-CC']):.1%}"
        )

    return Criterion("its largest distance is above RL-CC's, whichever seeds are compared", _rows_of(swift), judge)


def _rises(swift: str) -> Criterion:
    """Returns the criterion that Swift lies above the curve that fits fewer flows, and farther with each step."""

    def judge(evidence: Evidence) -> CriterionOutcome:
        found = measured(evidence, swift)
        flows = [each for each in found if each >= MANY]
        few = theory.best_fit({each: value for each, value in found.items() if each <= MANY})
        off = theory.departures({each: found[each] for each in flows[1:]}, few)
        said = f"above the curve that fits up to {MANY} flows, {few.a:.3g} + {few.b:.3g} sqrt(N): {_told(off)}"
        values = list(off.values())
        return CriterionOutcome(values == sorted(values) and values[0] > 0, said)

    return Criterion(f"above the fit to fewer flows beyond {MANY}, and farther with each step", _rows_of(swift), judge)


def _above_its_law() -> Criterion:
    """Returns the criterion that Swift lies above its own law from FROM flows on, with every seed."""

    def judge(evidence: Evidence) -> CriterionOutcome:
        by_seed = _by_seed(evidence, "Swift")
        found = {flows: value / swift_law(flows) - 1 for flows, value in measured(evidence, "Swift").items()}
        above = all(each[flows] > swift_law(flows) for each in by_seed for flows in each if flows >= FROM)
        return CriterionOutcome(above, f"Swift off its law: {_told(found)}")

    return Criterion(f"above its law from {FROM} flows on, with every seed", _rows_of("Swift"), judge)


def _rows_of(who: str) -> tuple[str, ...]:
    return tuple(name(who, flows) for flows in FLOWS)


OFFSET = Explanation(
    hypothesis="the policy settles above its target, by the error at which flows rest in the fluid model",
    experiment="dcgym reproduce rl-cc figure-3, eq. 2 at the policy's offset",
    page="docs/reproduce-rl-cc.md#figure-3-eq-2-at-the-policys-offset-within-17",
    showed="inflation is within 1.7 % of 1.5 + 0.0712 sqrt(N), which is eq. 2 at an offset of 0.11 targets; with the target"
    " lowered by the offset it is within 1.8 % of eq. 2 itself",
)


OWN_LAW = Explanation(
    hypothesis="Swift's target itself grows as the cube root of the number of flows, since a window is a share of the line times"
    " the round trip; only what the additive step adds leads upwards",
    experiment="the rows named `step / 4` and `step x 4` of dcgym reproduce rl-cc figure-3, beside Swift's own law",
    page="docs/reproduce-rl-cc.md#figure-3-swift-leaves-its-own-law",
    showed="its law lies 8 and 19 % below the curve that fits it up to 128 flows, with 512 and 2048; from 32 flows on Swift is"
    " above it, and the farther the larger its additive step (seeds 1 to 5; found on seed 11)",
)


def _claims(variant: str) -> tuple[Claim, ...]:
    swift = SWIFT_WINDOW if variant == common.WINDOW else "Swift"
    who, close = (RL_CC_CALIBRATED, CALIBRATED_CLOSE) if variant == CALIBRATED else ("RL-CC", CLOSE)
    return (
        Claim("RL-CC lies on eq. 2", SOURCE, (_on_curve(who, lambda: theory.EQ_2, "eq. 2", close),), explanation=OFFSET),
        Claim(
            "RL-CC lies on eq. 2 at its policy's offset",
            "docs/rlcc.md; the paper's policy has one, too, as its artifact shows",
            (
                _on_curve(
                    "RL-CC", lambda: theory.at_offset(offset()), "eq. 2 at the error that flows settle at in the fluid model"
                ),
            ),
            ours=True,
        ),
        Claim("Swift leaves its best-fitting O(sqrt N) curve", SOURCE, (_leaves(swift),)),
        Claim(
            "It leaves it as N grows, upwards: its additive step is too large at low rates",
            SOURCE,
            (_rises(swift),),
            explanation=OWN_LAW,
        ),
    )


CLAIMS = (
    *common.with_variants((common.WINDOW, CALIBRATED), _claims),
    Claim(
        "Swift leaves its own law upwards, the farther the larger its additive step",
        "docs/reproduce-rl-cc.md; the paper says that the step is too large at low rates",
        (
            _above_its_law(),
            *(
                below(name(one, flows), name(other, flows), common.INFLATION)
                for flows in FLOWS
                if flows >= FROM
                for one, other in pairwise(BY_STEP)
            ),
        ),
        ours=True,
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    rows = FULL_ROWS if options.full else ROWS
    evidence = common.run("figure-3", rows, options, progress)
    fit = theory.best_fit(measured(evidence, "Swift"))
    lines = [
        VariantLine(who, color, {flows: name(who, flows) for flows in FULL_FLOWS}) for who, (_, color) in CONTESTANTS.items()
    ]

    def curves(ax: Axes) -> None:
        x = np.geomspace(FULL_FLOWS[0], FULL_FLOWS[-1] if options.full else FLOWS[-1], 100)
        ax.plot(
            x,
            [fit(each) for each in x],
            "--",
            color=WHO["Swift"][1],
            linewidth=1,
            label=f"best {fit.a:.2g} + {fit.b:.2g} sqrt(N)",
        )
        ax.plot(x, [swift_law(each) for each in x], ":", color=WHO["Swift"][1], linewidth=1, label="Swift's own law")

    figure = series.figure(
        evidence, lines, (common.INFLATION, common.GOODPUT), "flows", TITLE, curves={common.INFLATION.name: curves}
    )
    notes = [
        CALIBRATED_NOTE,
        STEPS_NOTE,
        "The paper's values of RL-CC here are eq. 2's, on which its figure has them; the text gives none.",
    ]
    return common.findings(TITLE, rows, options, evidence, COLUMNS, CLAIMS, figure, notes)
