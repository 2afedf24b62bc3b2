# SPDX-License-Identifier: Apache-2.0
"""Table I of RL-CC: the cost of a decision for each form of the policy.

The paper's times are measured on a ConnectX-6Dx. Ours are of the same integer code in BPF, compiled by the JIT of this machine's
kernel (as root; otherwise in userspace, as a column says). Only ratios can be compared. A FLOP is counted as the paper seems
to count it: one per weight, so that a network of 4-12-12-1 has 204. Repetitions replace seeds, since only the machine's other
load is random.

The paper's times hold for a NIC's core. So the policies' code is counted once more as instructions of RV32I, which has no
multiplication, and of RV32IM, which has one (methods/rlcc/bench/rv32_cost.py; pip install 'dc-gym[rv32]'). Here a repetition is
another trace. Claims are about instructions of RV32I; a server's processor multiplies as fast as it compares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.progress import Progress
from dc_gym.benchmarks.perf import nic_cost
from dc_gym.benchmarks.perf.nic_cost import AlgorithmCost
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.ctrl.nic import kernels
from dc_gym.methods.rlcc.bench import rv32_cost
from dc_gym.methods.rlcc.policy import network_of
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy
from dc_gym.results.figures import kit
from dc_gym.study import Claim, Evidence, Measure, Study, StudyOptions, Variant, below, collect, less_than
from dc_gym.study.model import SEEDS

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
JIT = Measure("in_kernel", "in a kernel (1), or in userspace (0)")
SERVER = "server"
"""The set-up of claims that are judged by times on this machine's processor."""
PAPER: Mapping[str, Mapping[str, float]] = {
    "rlcc-lstm": {FLOPS.name: 2600, TIME.name: 450e-6},
    "rlcc-mlp": {FLOPS.name: 200, TIME.name: 17e-6},
    "rlcc-tree": {TIME.name: 0.9e-6},
}
LABELS = {"rlcc-lstm": "LSTM", "rlcc-mlp": "MLP", "rlcc-tree": "trees"}
MOST_OPERATIONS = 150
"""RL-CC, section V: the operations of ten trees of depth 4."""
DECISION = "rtt"


VARIANTS = [Variant(LABELS[name], color=kit.color_of(name), paper=paper) for name, paper in PAPER.items()]
Numbers = dict[str, dict[int, float]]


def rows(options: StudyOptions, progress: Progress) -> Mapping[str, Numbers]:
    """Measures all forms one after the other in each repetition."""
    native, seeds = not kernels.reason_not_here(), options.seeds or SEEDS
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        costs = [list(nic_cost.measured(folder, native, list(PAPER))) for _ in range(seeds)]
        counted = {name: _counted(name, folder, seeds, progress) for name in PAPER}
    return {
        LABELS[name]: {
            **{measure: {1: float(value)} for measure, value in _fixed(name, costs[0][row]).items()},
            TIME.name: {seed: cost[row].times_ns.get(DECISION, cost[row].worst_ns) / 1e9 for seed, cost in enumerate(costs, 1)},
            JIT.name: {1: float(native)},
            **counted[name],
        }
        for row, name in enumerate(PAPER)
    }


def _fixed(name: str, cost: AlgorithmCost) -> dict[str, int]:
    """Returns the measures that no repetition changes."""
    file = nic_policy.load(name)
    policy = network_of(file)
    if isinstance(policy, Trees):
        flops, comparisons, additions, size = 0, int(policy.inputs.size), len(policy.inputs), policy.packed_bytes()
    else:
        flops, comparisons, additions, size = sum(int(weights.size) for weights in policy.weights), 0, 0, 4 * len(file.table())
    return {
        FLOPS.name: flops,
        COMPARISONS.name: comparisons,
        OPERATIONS.name: flops + comparisons + additions,
        TABLE.name: size,
        INSTRUCTIONS.name: cost.instructions,
        STATE.name: 4 * cost.algorithm.state_words,
    }


def _counted(name: str, folder: Path, seeds: int, progress: Progress) -> Numbers:
    """Returns counts of RV32 instructions by measure and repetition; none if this machine cannot compile for RV32."""
    try:
        cores = (rv32_cost.Core(name, march, folder) for march in (rv32_cost.WITHOUT, rv32_cost.WITH))
        without, with_products = ({seed: core.counts(seed) for seed in range(1, seeds + 1)} for core in cores)
    except (MachineError, UsageError) as error:
        progress.note(f"not counted for RV32: {error}")
        return {}
    return {
        RV32I.name: {seed: count.policy for seed, count in without.items()},
        RV32I_DECISION.name: {seed: count.decision for seed, count in without.items()},
        RV32IM.name: {seed: count.policy for seed, count in with_products.items()},
    }


def _costs(cost: Measure, setup: str = "") -> Iterator[Claim]:
    """Yields the claims that compare the forms' costs."""
    source = SOURCE + ": 17 / 0.9 = 19 times"
    yield Claim("Trees cost less than the MLP", source, (below("trees", "MLP", cost),), setup)
    yield Claim("By an order of magnitude", source, (below("trees", "MLP", cost, 0.1),), setup)
    yield Claim("The MLP costs less than the LSTM", SOURCE + ": 450 / 17 = 26 times", (below("MLP", "LSTM", cost),), setup)


TREES = "RL-CC, section V (at most ten trees of depth 4)"
FAST = "RL-CC, section V: DCQCN and Swift need less, too; here on a server's processor"
FEW = (less_than("trees", OPERATIONS, MOST_OPERATIONS + 1),)
CLAIMS = (
    *_costs(RV32I),
    Claim(f"Trees decide by at most {MOST_OPERATIONS} operations", TREES, FEW),
    Claim("A decision takes less than 2 us", FAST, (less_than("trees", TIME, 2e-6),)),
    *_costs(TIME, SERVER),
)


def _bars(evidence: Evidence, rows: common.Rows) -> None:
    """Draws each form's cost over the trees', in the paper and here."""
    ((ax,),), trees = rows, evidence.variants["trees"]
    base = trees.estimate(TIME.name)
    names = list(evidence.variants)
    for row, variant in enumerate(map(evidence.variants.__getitem__, names)):
        here = variant.estimate(TIME.name)
        assert here is not None and base is not None
        paper_ratio = variant.paper[TIME.name] / trees.paper[TIME.name]
        bars = ((-0.18, here.mean / base.mean, variant.color, "here"), (0.18, paper_ratio, "none", "the paper"))
        for offset, value, color, label in bars:
            ax.barh(row + offset, value, 0.34, color=color, edgecolor=variant.color, label=None if row else label)
            ax.annotate(f"{value:.3g}", (value, row + offset), (4, -3), textcoords="offset points", fontsize=8)
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("Time of a decision over the trees'")
    ax.legend()


STUDY = Study(
    TITLE,
    (FLOPS, COMPARISONS, OPERATIONS, INSTRUCTIONS, STATE, TABLE, TIME, RV32I, RV32I_DECISION, RV32IM, JIT),
    VARIANTS,
    source=SOURCE,
    claims=CLAIMS,
    draw=common.drawing(TITLE, (7.0, 2.6), _bars, grid="x"),
    facts=(
        ("Measured", f"repetitions of {nic_cost.REPEAT:,} calls in {nic_cost.NATIVE} or in userspace; events of a golden trace"),
        ("Policies", ", ".join(f"{name}: {nic_policy.shipped(name).name}" for name in PAPER)),
        ("RV32I, RV32IM", "ours: instructions by clang -O2, in an emulator; products and quotients that a core lacks are loops"),
    ),
    collect=collect.FunctionRows(rows),
)
