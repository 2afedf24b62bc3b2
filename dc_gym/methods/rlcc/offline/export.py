# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc export`: prepares a policy for the NIC. It reports fit and cost, writes a spec, and runs it briefly.

A policy fits if it keeps the limits that RL-CC gives for its NIC, a ConnectX-6Dx: at most 150 operations per decision (sec. V),
a decision within 2 us, and 48 bytes per flow, as in the DOCA interface. Decision times are taken from the paper's Table I.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors, scratch, whole
from dc_gym.base.readable import columns, number, quantity
from dc_gym.base.terminal import say
from dc_gym.base.units import parse_time_ns
from dc_gym.ctrl.nic import algorithms
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.methods.rlcc.offline import bottleneck, recorded
from dc_gym.methods.rlcc.offline.bottleneck import BottleneckRun
from dc_gym.methods.rlcc.policy import network_of, read_policy
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import HEAD_WORDS, TABLE_WORDS, NicPolicy
from dc_gym.nets.trees import DEPTH
from dc_gym.results.results import Result
from dc_gym.run.sweep import Cell, runs

POLICY, SPEC = "policy.npz", "experiment"
SETTLED_MS, MEASURED_MS = 300, 100
MAX_FLOWS = 512
MAX_OPERATIONS, MAX_STATE_BYTES, MAX_DECISION_US = 150, 48, 2.0
DECISION_US = {"tree": 0.9, "mlp": 17.0, "lstm": 450.0}
"""Decision times of RL-CC's Table I."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One need of a policy, compared with the NIC's limit."""

    what: str
    needs: str
    has: str
    fits: bool


def demands(file: NicPolicy, algorithm: Algorithm) -> list[Demand]:
    """Compares the policy's needs with RL-CC's NIC and with dc-gym's."""
    state, count, table = 4 * algorithm.state_words, operations(file), len(file.table())
    demand_list = [
        Demand("bytes of a flow's context", str(state), f"{MAX_STATE_BYTES} on a ConnectX", state <= MAX_STATE_BYTES),
        Demand("operations a decision", f"{count:,}", f"{MAX_OPERATIONS} in RL-CC", count <= MAX_OPERATIONS),
        Demand("words of a table", f"{table:,}", f"{TABLE_WORDS:,} in the NIC here", table <= TABLE_WORDS),
    ]
    if file.kind in DECISION_US:
        time_us = DECISION_US[file.kind]
        needs = f"{time_us:g} us on a ConnectX-6Dx"
        demand_list.append(Demand("time of a decision", needs, f"{MAX_DECISION_US:g} us in RL-CC", time_us <= MAX_DECISION_US))
    return demand_list


def operations(file: NicPolicy) -> int:
    """Returns the operations per decision.

    For trees these are compares and additions, for a network a multiplication and an addition per weight.
    """
    policy = network_of(file)
    if isinstance(policy, Trees):
        return len(policy.inputs) * (DEPTH + 1)
    return 2 * sum(weight.size for weight in policy.weights)


def main(args: argparse.Namespace) -> int:
    path = nic_policy.path_of(args.policy)
    file, latency_ns = read_policy(path), parse_time_ns(args.latency, "--latency")
    if not 0 < args.flows <= MAX_FLOWS:
        raise UsageError(f"--flows {args.flows}: give 1 to {MAX_FLOWS}")
    out = args.out or Path("results") / f"export-{path.stem}"
    if not args.force:
        _require_mine(out, path)
    cell = prepare(path, f"rlcc-{file.kind}", args.flows, latency_ns, out)
    report(path, file, out, cell)
    return 0 if args.no_run else _tried(file, args.flows, cell)


def _require_mine(out: Path, policy: Path) -> None:
    """Raises UsageError unless the folder is new or holds this policy."""
    policy_copy = out / POLICY
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not policy_copy.is_file() or policy_copy.read_bytes() != policy.read_bytes():
        raise UsageError(f"{out} exists, and is not of this policy; replace it with --force, or give another --out")


def prepare(policy: Path, algorithm: str, flows: int, latency_ns: int, out: Path) -> Cell:
    """Writes the folder: the policy, and an experiment that runs it."""
    case = BottleneckRun(algorithm, flows, SETTLED_MS, MEASURED_MS, Path(POLICY), latency_ns=latency_ns)
    with machine_errors("write", out):
        out.mkdir(parents=True, exist_ok=True)
        if not (out / POLICY).exists() or not (out / POLICY).samefile(policy):
            with whole(out / POLICY, durable=True) as work:
                shutil.copyfile(policy, work)
        cell = case.cell(out, SPEC)
    return replace(cell, out=out / "run", options=("--force",))


def report(path: Path, file: NicPolicy, out: Path, cell: Cell) -> None:
    """Prints the policy's form, whether it fits, and how to run it."""
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        algorithm = algorithms.load(f"rlcc-{file.kind}", folder)
    say(f"{path.name}: {file.describe()}\nsha256 {file.sha256()}\n")
    body = 4 * (len(file.table()) - HEAD_WORDS)
    say(f"{algorithm.name} runs it; tables of {body} bytes, {file.policy.packed_bytes()} packed")
    rows = [("a decision and its flow", "needs", "there are", "")]
    rows += [(need.what, need.needs, need.has, "fits" if need.fits else "DOES NOT FIT") for need in demands(file, algorithm)]
    say(columns(rows))
    say(f'\nin any spec:\n  controller.name = "{algorithm.name}"\n  nic.policy = "{out / POLICY}"')
    say(f"ready to run:\n  dcgym run {cell.spec} --out results/{path.stem}")


def _tried(file: NicPolicy, flows: int, cell: Cell) -> int:
    """Runs the policy in a lab for a short time and prints the outcome.

    recorded.decisions raises an AgentError if the NIC decided differently from the table.
    """
    say(f"\n{flows} flows on a link of 10 Gbit/s, from {SETTLED_MS} ms on for {MEASURED_MS} ms of virtual time:", flush=True)
    result = runs.run_all([cell])[cell.name]
    for line in outcome(file, flows, cell, result):
        say(line)
    say(f"decisions: {len(recorded.decisions(result.path).rates):,}, each as the table says in Python\n{result.path}")
    return 0


def outcome(file: NicPolicy, flows: int, cell: Cell, result: Result) -> list[str]:
    """Returns the lines that describe a run on the bottleneck."""
    inflation, law = bottleneck.inflation(cell, result), float(file.scaling.inflation(flows))
    goodput = float(result.summary["goodput_bps"])
    share = goodput / bottleneck.LINE_BPS / bottleneck.PAYLOAD_SHARE
    return [
        f"RTT inflation: {inflation:.3f}; eq. 2: {law:.3f} ({inflation / law - 1:+.1%})",
        f"goodput: {quantity(goodput, 'bps')}, {share:.3f} of what frames leave room for; Jain {number(result.summary['jain'])}",
        f"dropped: {result.summary['drops']}",
    ]
