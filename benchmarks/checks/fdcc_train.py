# SPDX-License-Identifier: Apache-2.0
"""Checks FDCC's training: policies of several seeds in incasts of labs that no training had, beside FDCC's rivals.

Each seed is a `dcgym fdcc train --seed N` in a process of its own, as a user runs it: numpy's threads would change its bits. It
never has more than 32 flows. Its policy then runs in the NICs of n flows to one receiver, on the dumbbell of the thesis' table
6.2 (n_to_one.py), beside DCQCN, TIMELY, HPCC and RL-CC with the same flows. All have a window of one BDP. The dumbbell is scaled
to 10 Gbit/s, and flows start within the thesis' 1 ms: 73 base round trips there. (At 100 Gbit/s it is 735. With 256 flows of
3.75 MB the first one then sends a fifth of its bytes before most others begin, and no equal shares make up for it.)

Trainings and runs stay in OUT, and a bench that was killed goes on there.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import dcgym
from dc_gym.base.progress import choose
from dc_gym.benchmarks.studies.fdcc import common, n_to_one
from dc_gym.benchmarks.studies.fdcc.common import DCQCN, DROPPED, FDCC, HPCC, PAUSES, RLCC, TIMELY, UNFINISHED, Change
from dc_gym.benchmarks.studies.fdcc.n_to_one import GOODPUT, OWN_GOODPUT, QUEUE, UNFAIR, Traffic
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.fdcc import train
from dc_gym.study import collect
from dc_gym.study.model import Study, StudyOptions, Variant
from dc_gym.sweep import cpus

OUT = Path("results/fdcc-train")
SEEDS = 5
ENOUGH = 3 / 5
"""The share of seeds that must pass."""
COUNTS, LINKS, PAIRS = (4, 16, 64, 256), 3, 64
CROWDED = (64, 256)
"""Numbers of flows with which FDCC's must be fairer than its rivals'; with fewer they may be as fair."""
RIVALS = (DCQCN, TIMELY, HPCC, RLCC)
LEAST_OWN_GOODPUT, NEAR = 0.95, 1e-3
LAB_SEED = 101
"""The seed of the labs, with which no training and no other figure runs."""
Measured = Mapping[str, float]


def checks(seeds: int = SEEDS) -> Iterable[Check]:
    policies = {seed: trained(seed) for seed in range(1, seeds + 1)}
    found = measured(policies)
    yield from verdicts(found, list(policies))


def trained(seed: int) -> Path:
    """Returns the policy file of a seed, trained now, or gone on with, or trained before."""
    out = OUT / f"seed-{seed}"
    if not (out / train.POLICY).is_file():
        resume = ["--resume"] if (out / CHECKPOINT).is_file() else []
        command = dcgym("fdcc", "train", "--seed", str(seed), "--out", str(out), *resume)
        if code := subprocess.run(command).returncode:
            raise TestbedError(f"dcgym fdcc train --seed {seed} --out {out} ended with exit code {code}; it says why above")
    return (out / train.POLICY).absolute()


def change_of(seed: int, policy: Path | None = None) -> Change:
    """Returns the change of a row that has a seed's policy. A row's name needs no `policy`."""
    return Change(f"seed {seed}", {"nic.policy": str(policy)} if policy else {})


def variants(policies: Mapping[int, Path]) -> list[Variant]:
    """Returns the variants of all contestants."""
    network = {**common.DUMBBELL, **n_to_one.SCALED}
    found = []
    for flows in COUNTS:
        traffic = Traffic(flows, PAIRS, n_to_one.SCALE)
        found += [n_to_one.variant(who, traffic, network) for who in RIVALS]
        found += [n_to_one.variant(FDCC, traffic, network, change_of(seed, policy)) for seed, policy in policies.items()]
    return found


def measured(policies: Mapping[int, Path]) -> dict[str, dict[str, float]]:
    """Returns what each run gave, by contestant and number of flows."""
    options = StudyOptions(OUT, seeds=1, jobs=cpus(), overrides=(f"seed={LAB_SEED}",))
    study = Study(
        title="Policies of several seeds in incasts",
        name="fdcc-train/incasts",
        measures=n_to_one.MEASURES,
        variants=variants(policies),
        measure=partial(n_to_one.measure, links=LINKS, scale=n_to_one.SCALE),
    )
    with choose(quiet=False) as progress:
        evidence = collect.SpecRuns()(study, options, progress).evidence
    return {
        name: {of: number for of, by_seed in each.numbers.items() for number in by_seed.values()}
        for name, each in evidence.variants.items()
    }


def verdicts(found: Mapping[str, Measured], seeds: Sequence[int]) -> Iterator[Check]:
    """Yields a check for each number of flows and requirement, then one for the seeds. `found`: measurements by run."""
    passed = dict.fromkeys(seeds, True)
    for flows in COUNTS:
        rivals = {who: found[n_to_one.name(who, flows)] for who in RIVALS}
        mine = {seed: found[n_to_one.name(FDCC, flows, change_of(seed))] for seed in seeds}
        for name, required, measure, good in requirements(flows, rivals):
            ok = {seed: good(each) for seed, each in mine.items()}
            passed = {seed: passed[seed] and ok[seed] for seed in seeds}
            told = ", ".join(measure(each) for each in mine.values())
            yield Check(f"{flows} flows: {name}", required, told, sum(ok.values()) >= ENOUGH * len(seeds))
        told = "; ".join(f"{who} {_summary(each)}" for who, each in rivals.items())
        yield Check(f"{flows} flows: rivals", "recorded", told, ok=True)
        told = "; ".join(_summary(each) for each in mine.values())
        yield Check(f"{flows} flows: FDCC", "recorded", told, ok=True)
    told = ", ".join(f"seed {seed} {'does' if good else 'does not'}" for seed, good in passed.items())
    yield Check("a seed passes everything", f"{ENOUGH:.0%} of the seeds", told, sum(passed.values()) >= ENOUGH * len(seeds))


Requirement = tuple[str, str, Callable[[Measured], str], Callable[[Measured], bool]]
"""Its name, what is required, how a measurement is told, and whether it suffices."""


def requirements(flows: int, rivals: Mapping[str, Measured]) -> list[Requirement]:
    """Returns what is required of a policy beside its rivals in the same incast. A flow that does not end is a failure."""
    unfair = min(rivals[who].get(UNFAIR.name, math.inf) for who in (DCQCN, TIMELY))
    pauses = min(rivals[who][PAUSES.name] for who in (DCQCN, RLCC))
    crowded = flows in CROWDED
    fair = f"< {unfair:.4f}" if crowded else f"<= {unfair:.4f} + {NEAR}"
    most = unfair if crowded else math.nextafter(unfair + NEAR, math.inf)
    return [
        (
            "link use",
            f">= {LEAST_OWN_GOODPUT} of what headers leave",
            lambda each: f"{each.get(OWN_GOODPUT.name, 0.0):.3f}",
            lambda each: each.get(OWN_GOODPUT.name, 0.0) >= LEAST_OWN_GOODPUT,
        ),
        ("frames dropped, flows unfinished", "none", _lost, lambda each: not each[DROPPED.name] and not each[UNFINISHED.name]),
        (
            "unfair ratio, DCQCN's and TIMELY's less",
            fair,
            lambda each: f"{each.get(UNFAIR.name, math.inf):.4f}",
            lambda each: each.get(UNFAIR.name, math.inf) < most,
        ),
        (
            "pauses told, DCQCN's and RL-CC's less",
            f"<= {pauses:g}",
            lambda each: f"{each[PAUSES.name]:g}",
            lambda each: each[PAUSES.name] <= pauses,
        ),
    ]


def _lost(found: Measured) -> str:
    return f"{found[DROPPED.name]:g} and {found[UNFINISHED.name]:g}"


def _summary(found: Measured) -> str:
    if found[UNFINISHED.name]:
        return f"{found[UNFINISHED.name]:g} flows unfinished"
    queue_kb, share = found[QUEUE.name] / 1000, found[GOODPUT.name]
    return f"goodput {share:.3f}, unfair {found[UNFAIR.name]:.4f}, queue {queue_kb:.0f} kB, {found[PAUSES.name]:g} pauses"
