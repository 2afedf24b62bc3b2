# SPDX-License-Identifier: Apache-2.0
"""Checks RL-CC's training: networks trained on labs from random weights, then tested on the lab's data path.

Each seed is a `dcgym rlcc train --seed N` as a user runs it, with preset rl-cc, which never has more than eight flows; the first
seed also runs with `--net lstm`. Its policy then runs in rlcc-mlp or rlcc-lstm on one bottleneck (bottleneck.py) with 2 to 128
flows, all of which begin at line rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.progress import choose
from dc_gym.methods.rlcc import train
from dc_gym.methods.rlcc.bottleneck import BottleneckRun, inflation
from dc_gym.methods.rlcc.on_lab import USUAL, LabTrainingSettings
from dc_gym.methods.training_folder import open_folder
from dc_gym.nets.decision import Scaling
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.records.results import Result, number
from dc_gym.sweep import runs

SEEDS = 3
SETTLED_MS = {2: 400, 8: 400, 32: 600, 128: 1000}
"""Settling time in ms by the number of flows; nothing before it is measured."""
MEASURED_MS = 200
INFLATION, LEAST_USED, LEAST_JAIN = 0.1, 0.9, 0.95


def checks(seeds: int = SEEDS) -> Iterable[Check]:
    with runs.scratch("rlcc-train") as folder:
        for settings in [*(LabTrainingSettings(seed=seed) for seed in range(1, seeds + 1)), USUAL["lstm"]]:
            out = folder / f"{settings.net}-{settings.seed}"
            with choose(quiet=False) as progress, open_folder(out, resume=False):
                train.train_on_labs(settings, out, progress)
            yield from of_policy(f"{settings.net}, seed {settings.seed}", out / train.POLICY, out)


def of_policy(name: str, policy: Path, folder: Path) -> Iterator[Check]:
    """Yields the checks on a policy. `folder`: for its runs."""
    algorithm = f"rlcc-{NicPolicy.read(policy).kind}"
    cases = {flows: BottleneckRun(algorithm, flows, settled, MEASURED_MS, policy) for flows, settled in SETTLED_MS.items()}
    cells = {flows: case.cell(folder, f"rlcc-{flows}") for flows, case in cases.items()}
    found = runs.run_all(list(cells.values()))
    for flows, cell in cells.items():
        result = found[cell.name]
        yield from of_run(f"{name}, {flows} flows", flows, inflation(cell, result), result)


def of_run(name: str, flows: int, measured: float, result: Result) -> Iterator[Check]:
    """Yields the checks on a run. `measured`: the mean RTT inflation over time."""
    law, summary = float(Scaling().inflation(flows)), result.summary
    off = measured / law - 1
    asked = f"{law:.3f} (eq. 2) +- {INFLATION:.0%}"
    yield Check(f"{name}: RTT inflation", asked, f"{measured:.3f} ({off:+.1%})", abs(off) <= INFLATION)
    used, jain, drops = float(summary["utilization"]), number(summary["jain"]), int(summary["drops"])
    words = f"{used:.3f} of the link, {drops} dropped, Jain {jain:.4f}"
    asked = f"> {LEAST_USED} with probes, none dropped, Jain > {LEAST_JAIN}"
    yield Check(f"{name}: link", asked, words, used > LEAST_USED and not drops and jain > LEAST_JAIN)
