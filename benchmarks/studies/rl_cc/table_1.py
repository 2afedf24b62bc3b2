# SPDX-License-Identifier: Apache-2.0
"""Table I of RL-CC: the cost of a decision for each form of the policy.

The paper's times are measured on a ConnectX-6Dx. Ours are of the same integer code in BPF, compiled by the JIT of this machine's
kernel (as root; otherwise in userspace, and the page says so). Only ratios can be compared. A FLOP is counted as the paper seems
to count it: one per weight, so that a network of 4-12-12-1 has 204. Repetitions replace seeds, since only the machine's other
load is random.

The paper's times are those of a NIC's core. So the policies' code is counted once more as instructions of RV32I, which has no
multiplication, and of RV32IM, which has one (perf/rv32_cost.py). Hypothesis, written down before they were counted: the trees'
factor of 19 over the network is due to a core that multiplies by a loop of additions. Here a repetition is another trace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.perf import nic_cost, rv32_cost
from dc_gym.benchmarks.perf.nic_cost import AlgorithmCost
from dc_gym.ctrl.nic import algorithms, kernels
from dc_gym.figures import kit
from dc_gym.nets import nic_policy
from dc_gym.nets.trees import Trees
from dc_gym.study.claims import Claim, Explanation, below, judge, less_than
from dc_gym.study.evidence import VariantEvidence, Evidence, Measure, Shortfall, fewer
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "What a decision costs"
SOURCE = "RL-CC, Table I"
FLOPS = Measure("flops", "FLOPs")
COMPARISONS = Measure("comparisons", "comparisons")
OPERATIONS = Measure("operations", "operations in all")
INSTRUCTIONS = Measure("instructions", "BPF instructions")
STATE = Measure("state_bytes", "state a flow (B)")
TABLE = Measure("table_bytes", "policy (B)")
TIME = Measure("decision_s", "a decision (us)", 1e6, 3)
RV32I = Measure("rv32i_policy", "RV32I instructions of the policy")
RV32I_DECISION = Measure("rv32i_decision", "of the whole decision")
RV32IM = Measure("rv32im_policy", "RV32IM instructions of the policy")
COLUMNS = (FLOPS, COMPARISONS, OPERATIONS, INSTRUCTIONS, STATE, TABLE, TIME, RV32I, RV32I_DECISION, RV32IM)
SET = "RV32I"
"""The variant of claims that are judged by instructions of RV32I."""
PAPER: Mapping[str, Mapping[str, float]] = {
    "rlcc-lstm": {FLOPS.name: 2600, TIME.name: 450e-6},
    "rlcc-mlp": {FLOPS.name: 200, TIME.name: 17e-6},
    "rlcc-tree": {TIME.name: 0.9e-6},
}
LABELS = {"rlcc-lstm": "LSTM", "rlcc-mlp": "MLP", "rlcc-tree": "trees"}
MOST_OPERATIONS = 150
"""RL-CC, section V: the operations of ten trees of depth 4."""
DECISION = "rtt"


def forms() -> list[str]:
    """Returns the algorithms that are available."""
    return [name for name in PAPER if name in algorithms.names()]


NO_PRODUCTS = Explanation(
    hypothesis="the NIC's core multiplies by a loop of additions, and a server's processor does not",
    experiment="dcgym reproduce rl-cc table-1, columns RV32I and RV32IM",
    page="docs/reproduce-rl-cc.md#table-i-operations-reproduce-and-the-factor-of-19-on-a-core-without-multiplication",
    showed="the MLP's policy executes 17 times the trees' instructions without multiplication, and 2.2 times with it",
)


def _costs(cost: Measure, variant: str = "") -> Iterator[Claim]:
    """Yields the claims that compare the forms' costs."""
    explanation = None if variant else NO_PRODUCTS
    yield Claim(
        "Trees cost less than the MLP",
        SOURCE + ": 17 / 0.9 = 19 times",
        (below("trees", "MLP", cost),),
        variant=variant,
        explanation=explanation,
    )
    yield Claim(
        "By an order of magnitude",
        SOURCE + ": 17 / 0.9 = 19 times",
        (below("trees", "MLP", cost, 0.1),),
        why="a server's processor multiplies integers about as fast as it compares them, so 204 products cost it little more than"
        " 80 comparisons and the observation, which is in both; a NIC's cores and memory are smaller",
        variant=variant,
        explanation=explanation,
    )
    if "rlcc-lstm" in algorithms.names():
        source = SOURCE + ": 450 / 17 = 26 times"
        yield Claim("The MLP costs less than the LSTM", source, (below("MLP", "LSTM", cost),), variant=variant)


CLAIMS = (
    *_costs(TIME),
    Claim(
        f"Trees decide by at most {MOST_OPERATIONS} operations",
        "RL-CC, section V (at most ten trees of depth 4)",
        (less_than("trees", OPERATIONS, MOST_OPERATIONS + 1),),
    ),
    Claim(
        "A decision takes less than 2 us",
        "RL-CC, section V: DCQCN and Swift need less, too; here on a server's processor",
        (less_than("trees", TIME, 2e-6),),
    ),
    *_costs(RV32I, SET),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    """Measures all forms one after the other in each repetition."""
    progress.phase("measuring")
    why, seeds = kernels.reason_not_here(), options.seeds or common.SEEDS
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        found = [list(nic_cost.measured(folder, not why, forms())) for _ in range(seeds)]
        counted, uncounted = _counted(folder, seeds)
    variants = [_contender(name, [costs[row] for costs in found], counted.get(name, {})) for row, name in enumerate(forms())]
    short = Shortfall(seeds=fewer("repetition", seeds, common.SEEDS))
    evidence = Evidence({each.name: each for each in variants}, shortfall=short)
    verdicts = [judge(each, evidence) for each in CLAIMS]
    how = found[0][0].how
    facts = [
        ("Measured", f"{seeds} repetitions of {nic_cost.REPEAT:,} calls, {how}; events of a golden trace"),
        ("Policies", ", ".join(f"{name}: {nic_policy.shipped(name).name}" for name in forms())),
        (
            "RV32I, RV32IM",
            "ours: instructions by clang -O2, executed by an emulator; products and quotients that a core lacks are loops",
        ),
    ]
    notes = [f"Not in this machine's kernel: {why}."] if why else []
    notes += [f"Not counted for RV32: {uncounted}."] if uncounted else []
    return Findings(TITLE, facts, variants, COLUMNS, verdicts, _figure(evidence), notes)


def _counted(folder: Path, seeds: int) -> tuple[dict[str, dict[str, dict[int, float]]], str]:
    """Returns counts of RV32 instructions by algorithm, quantity and repetition; or the reason why there are none."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    try:
        for name in forms():
            cores = (rv32_cost.Core(name, march, folder) for march in (rv32_cost.WITHOUT, rv32_cost.WITH))
            without, with_products = ({seed: core.counts(seed) for seed in range(1, seeds + 1)} for core in cores)
            found[name] = {
                RV32I.name: {seed: each.policy for seed, each in without.items()},
                RV32I_DECISION.name: {seed: each.decision for seed, each in without.items()},
                RV32IM.name: {seed: each.policy for seed, each in with_products.items()},
            }
    except (MachineError, UsageError) as error:
        return {}, str(error)
    return found, ""


def _contender(name: str, costs: list[AlgorithmCost], counted: Mapping[str, Mapping[int, float]]) -> VariantEvidence:
    file = nic_policy.load(name)
    policy = file.rlcc
    if isinstance(policy, Trees):
        flops, comparisons, additions = 0, int(policy.inputs.size), len(policy.inputs)
        size = policy.packed_bytes()
    else:
        flops = sum(int(weights.size) for weights in policy.weights)
        comparisons, additions, size = 0, 0, 4 * len(file.table())
    fixed = {
        FLOPS.name: flops,
        COMPARISONS.name: comparisons,
        OPERATIONS.name: flops + comparisons + additions,
        INSTRUCTIONS.name: costs[0].instructions,
        STATE.name: 4 * costs[0].algorithm.state_words,
        TABLE.name: size,
    }
    times = {row: cost.times_ns.get(DECISION, cost.worst_ns) / 1e9 for row, cost in enumerate(costs, 1)}
    numbers = {quantity: {1: float(value)} for quantity, value in fixed.items()}
    return VariantEvidence(LABELS[name], LABELS[name], kit.color_of(name), numbers | {TIME.name: times, **counted}, paper=PAPER[name])


def _figure(evidence: Evidence) -> Figure:
    """Draws each form's cost over the trees', in the paper and here."""
    with kit.style({"axes.grid.axis": "x"}):
        canvas = kit.new_figure(7.0, 2.6)
        ax = canvas.subplots()
        trees = evidence.variants["trees"]
        for row, each in enumerate(evidence.variants.values()):
            ours, base = each.estimate(TIME.name), trees.estimate(TIME.name)
            assert ours is not None and base is not None
            ax.barh(row - 0.18, ours.mean / base.mean, 0.34, color=each.color, label="here" if row == 0 else None)
            printed = each.paper[TIME.name] / trees.paper[TIME.name]
            ax.barh(row + 0.18, printed, 0.34, color="none", edgecolor=each.color, label="the paper" if row == 0 else None)
            for offset, value in ((-0.18, ours.mean / base.mean), (0.18, printed)):
                ax.annotate(f"{value:.3g}", (value, row + offset), (4, -3), textcoords="offset points", fontsize=8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(evidence.variants)), list(evidence.variants))
        ax.invert_yaxis()
        ax.set_xlabel("Time of a decision over the trees'")
        ax.set_title(TITLE, loc="left")
        ax.legend()
    return canvas
