# SPDX-License-Identifier: Apache-2.0
"""Checks on distilled policies: trees against their own network, in the closed loop on the lab's data path.

RL-CC has at most 10 trees of depth 4. The bench measures 10 trees, and then as many as are needed for goodput and inflation to be
the network's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.methods.rlcc import bottleneck, distil
from dc_gym.methods.rlcc.bottleneck import LINE_BPS, PAYLOAD_SHARE, SHORT_BUFFER_BYTES, Case
from dc_gym.methods.rlcc.distil import Distillation
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.nets.trees import DEPTH, Trees
from dc_gym.records.results import Result
from dc_gym.sweep import Cell, runs

NETWORK = "rlcc-mlp"
PAPER, MORE = 10, (20, 40)
"""Numbers of trees: the paper's, and those that are tried if it is too small."""
FLOWS = (8, 64, 512)
GOODPUT, INFLATION = 0.02, 0.05
SETTLED_MS = {8: 200, 64: 400, 512: 800}
MEASURED_MS = 100


@dataclass(frozen=True, slots=True)
class SettledFlows:
    """Flows on the bottleneck, after they have settled."""

    inflation: float
    goodput: float
    """Goodput relative to the line rate without frame headers."""
    jain: float
    drops: int

    @classmethod
    def of(cls, cell: Cell, result: Result) -> SettledFlows:
        goodput = float(result.summary["goodput_bps"]) / LINE_BPS / PAYLOAD_SHARE
        return cls(bottleneck.inflation(cell, result), goodput, float(result.summary["jain"]), int(result.summary["drops"]))


def checks(policy: str | None = None) -> Iterable[Check]:
    """Yields the checks on a network, given by its name or file."""
    net = NicPolicy.read(nic_policy.path_of(policy or NETWORK))
    with runs.scratch("rlcc-distil") as folder:
        own = measure(folder, "network", net)
        yield from _reported("its network", f"{net.kind}, {policy or NETWORK}", own, net)
        for count in (PAPER, *MORE):
            made = distil.make(net, Distillation(count))
            found = measure(folder, f"trees-{count}", made)
            good = all(near(found[flows], own[flows]) for flows in FLOWS)
            if good or count == MORE[-1]:
                yield from _held(count, found, own)
                yield _size(made, good)
                return
            yield from _reported(f"{count} trees", "too few for the check", found, made)


def measure(folder: Path, title: str, file: NicPolicy) -> dict[int, SettledFlows]:
    """Returns a policy's measured values, by number of flows."""
    path = folder / f"{title}.npz"
    file.write(path)
    cases = {
        flows: Case(f"rlcc-{file.kind}", flows, SETTLED_MS[flows], MEASURED_MS, path, buffer_bytes=SHORT_BUFFER_BYTES)
        for flows in FLOWS
    }
    cells = {flows: case.cell(folder, f"{title}-{flows}") for flows, case in cases.items()}
    found = runs.run_all(list(cells.values()))
    return {flows: SettledFlows.of(cell, found[cell.name]) for flows, cell in cells.items()}


def near(trees: SettledFlows, net: SettledFlows) -> bool:
    goodput, inflation = trees.goodput / net.goodput - 1, trees.inflation / net.inflation - 1
    return abs(goodput) <= GOODPUT and abs(inflation) <= INFLATION


def _held(count: int, found: dict[int, SettledFlows], own: dict[int, SettledFlows]) -> Iterator[Check]:
    for flows in FLOWS:
        trees, net = found[flows], own[flows]
        asked = f"goodput {net.goodput:.3f} +- {GOODPUT:.0%}, inflation {net.inflation:.3f} +- {INFLATION:.0%}"
        yield Check(f"{count} trees, {flows} flows", asked, _words(trees, net), near(trees, net))


def _reported(name: str, what: str, found: dict[int, SettledFlows], file: NicPolicy) -> Iterator[Check]:
    for flows, each in found.items():
        law = f"eq. 2: {float(file.scaling.inflation(flows)):.3f}"
        yield Check(f"{name}, {flows} flows", f"reported ({what})", f"{_words(each)}; {law}", ok=True)


def _words(each: SettledFlows, net: SettledFlows | None = None) -> str:
    off = (f" ({each.goodput / net.goodput - 1:+.1%})", f" ({each.inflation / net.inflation - 1:+.1%})") if net else ("", "")
    words = f"goodput {each.goodput:.3f}{off[0]}, inflation {each.inflation:.3f}{off[1]}"
    return f"{words}, Jain {each.jain:.3f}, {each.drops} dropped"


def _size(made: NicPolicy, enough: bool) -> Check:
    assert isinstance(made.policy, Trees)
    count = len(made.policy.inputs)
    ten = made.policy.packed_bytes() * PAPER // count
    words = f"{count} trees: {made.policy.packed_bytes()} bytes packed, {count * DEPTH} compares a decision; {PAPER}: {ten} bytes"
    return Check("as many trees as it needs", f"at most {MORE[-1]}", words, enough)
