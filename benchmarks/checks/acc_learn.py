# SPDX-License-Identifier: Apache-2.0
"""Checks ACC's offline training: a net beside static markings, in scenarios that no training had.

Each seed is a `dcgym acc train --seed N` as a user runs it. The net does not explore any more. It runs beside SECN1, SECN2, each
action of its template as a static marking, a net with random weights and an agent that draws its actions, in labs of the same
scenario and seed. So the difference of two rewards is paired by scenario. The best single action is chosen in scenarios of
trainings, the best action of each case in the case itself: that oracle is what can be gained at all.

Trainings and rewards stay in OUT. A bench that was killed, or that is to have more seeds, goes on there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.base.errors import AgentError
from dc_gym.base.files import scratch
from dc_gym.base.progress import choose
from dc_gym.base.stats import Estimate, paired
from dc_gym.benchmarks.checks.acc_rewards import KeptRewards
from dc_gym.methods.acc import held_out, scenarios, train
from dc_gym.methods.acc.held_out import Contestant, constant
from dc_gym.methods.acc.on_labs import AccTrainingSettings
from dc_gym.methods.acc.scenarios import Scenario
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.training_folder import open_folder
from dc_gym.nets.acc_policy import AccPolicy
from dc_gym.nets.acc_template import DEPLOYED, Template
from dc_gym.nets.double_dqn import HIDDEN
from dc_gym.nets.q_network import QNetwork
from dc_gym.topologies.ecmp import draw

OUT = Path("results/acc-learn")
FILE = "rewards.json"
SEEDS = 1
ENOUGH = 4 / 5
"""The share of seeds that must pass."""
SLOTS = 100
SECN = {"SECN1": (5_000, 200_000, 10_000), "SECN2": (100_000, 400_000, 200_000)}
"""Kmin and Kmax in bytes and Pmax in ppm at 25 Gbit/s (topologies/marking.py)."""
INCAST, WEBSEARCH, MIX = "incast", "websearch", "mix"
CASES = {INCAST: 8, WEBSEARCH: 8, MIX: 16}
"""Held-out scenarios by kind. The mix is drawn as in a training."""
CHOICE, CHOSEN_IN = "choice", 16
"""The name in the file of the scenarios of trainings in which the best single action is chosen, and their number."""
LITTLE = 1e-3
"""The oracle's gain below which no share of it is told."""
UNTRAINED, CHANCE, NET = "untrained", "random", "net"
STATIC = {f"action {number}": constant(DEPLOYED, number) for number in range(len(DEPLOYED.actions))}


def secn() -> dict[str, Contestant]:
    """Returns SECN1 and SECN2, which no template has."""
    template = Template("SECN", DEPLOYED.interval_ns, DEPLOYED.history, tuple(SECN.values()))
    return {name: constant(template, number) for number, name in enumerate(SECN)}


def drawn(case: str, number: int) -> Scenario:
    """Returns a held-out scenario."""
    for again in range(1000):
        found = scenarios.drawn(0, "held out", case, number, again)
        if case in (MIX, found.kind):
            return found
    raise AgentError(f"no scenario of {case} in 1000 draws")


def checks(seeds: int = SEEDS) -> Iterable[Check]:
    kept = KeptRewards(OUT / FILE, repr((CASES, CHOSEN_IN, SLOTS, SECN, DEPLOYED)))  # fail before hours of training
    nets = {seed: _trained(seed) for seed in range(1, seeds + 1)}
    with choose(quiet=False) as progress, scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
        progress.phase("measure")
        single = _best_single(kept, folder)
        found = {case: [_measured(kept, case, number, nets, folder) for number in range(count)] for case, count in CASES.items()}
    yield from verdicts(found, single, list(nets))


def _trained(seed: int) -> AccPolicy:
    """Returns the policy of a seed, trained now, or gone on with, or read."""
    out, settings = OUT / f"seed-{seed}", AccTrainingSettings(seed=seed)
    if (out / train.POLICY).is_file():
        return AccPolicy.read(out / train.POLICY)
    resume = (out / CHECKPOINT).is_file()
    with choose(quiet=False) as progress, open_folder(out, resume=resume):
        return train.train(settings, out, progress, resume=resume)


def _best_single(kept: KeptRewards, folder: Path) -> str:
    total = dict.fromkeys(STATIC, 0.0)
    for episode in range(CHOSEN_IN):
        scenario, seed = scenarios.drawn(1, episode), draw(1, "acc lab", episode) % 2**32
        measure = partial(held_out.rewards, scenario, seed, slots=SLOTS, folder=folder)
        for name, reward in kept.of(CHOICE, str(episode), STATIC, measure).items():
            total[name] += reward
    return max(total, key=lambda name: total[name])


def _measured(kept: KeptRewards, case: str, number: int, nets: Mapping[int, AccPolicy], folder: Path) -> dict[str, float]:
    lab_seed = draw(0, "acc held out", case, number) % 2**32
    sizes = (DEPLOYED.inputs, *HIDDEN, len(DEPLOYED.actions))
    untrained = QNetwork.random(sizes, np.random.default_rng(draw(0, "acc untrained")))
    stored = {seed: f"{NET} {policy.sha256()[:16]}" for seed, policy in nets.items()}  # a later training has another name
    contestants = {stored[seed]: held_out.greedy(DEPLOYED, policy.net) for seed, policy in nets.items()} | secn() | STATIC
    contestants |= {UNTRAINED: held_out.greedy(DEPLOYED, untrained), CHANCE: held_out.chance(DEPLOYED, lab_seed)}
    measure = partial(held_out.rewards, drawn(case, number), lab_seed, slots=SLOTS, folder=folder)
    found = kept.of(case, str(number), contestants, measure)
    return found | {f"{NET} {seed}": found[name] for seed, name in stored.items()}


def verdicts(found: Mapping[str, Sequence[Mapping[str, float]]], single: str, seeds: Sequence[int]) -> Iterator[Check]:
    """Yields the checks. `found`: rewards by case, scenario and contestant."""
    for case, rows in found.items():
        for rival in (*SECN, *([single] if case == MIX else [])):
            gains = {seed: difference(rows, f"{NET} {seed}", rival) for seed in seeds}
            won = sum(gain.mean > 0 and gain.differs_from_0 for gain in gains.values())
            told = ", ".join(f"{gain.mean:+.4f} ± {gain.half or 0:.4f}" for gain in gains.values())
            name = f"{rival}, the best single action of trainings" if rival == single else rival
            yield Check(f"{case}: reward above {name}", f"with {ENOUGH:.0%} of the seeds", told, won >= ENOUGH * len(seeds))
        for other in (UNTRAINED, CHANCE):
            told = ", ".join(f"{difference(rows, f'{NET} {seed}', other).mean:+.4f}" for seed in seeds)
            yield Check(f"{case}: reward above {other}", "recorded", told, ok=True)
        yield Check(f"{case}: share of the oracle's gain", "recorded", _shares(rows, single, seeds), ok=True)


def difference(rows: Sequence[Mapping[str, float]], one: str, other: str) -> Estimate:
    """Returns how much more one earned than the other, paired by scenario."""
    found = paired(*({number: row[who] for number, row in enumerate(rows)} for who in (other, one)))
    assert found is not None
    return found


def _shares(rows: Sequence[Mapping[str, float]], single: str, seeds: Sequence[int]) -> str:
    oracle = float(np.mean([max(row[name] for name in STATIC) - row[single] for row in rows]))
    if oracle < LITTLE:
        return f"{oracle:.4f} above {single}: too little to share"
    shares = [float(np.mean([row[f"{NET} {seed}"] - row[single] for row in rows]) / oracle) for seed in seeds]
    return f"{', '.join(f'{share:.0%}' for share in shares)} of {oracle:.4f} above {single}"
