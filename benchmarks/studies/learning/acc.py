# SPDX-License-Identifier: Apache-2.0
"""ACC's offline training: a net beside static markings, in scenarios that no training had.

Each net is from `dcgym method acc train --seed N`; five with `--cases all`, else one. It does not explore any more. It
runs beside SECN1, SECN2, each action of its template as a static marking, a net with random weights and an agent that draws its
actions, in labs of the same scenario and seed: the seeds of this study are scenarios. The best single action is chosen in
scenarios of trainings, the best action of each case in the case itself: that oracle is the most that can be gained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.base.progress import Progress
from dc_gym.base.stats import paired
from dc_gym.benchmarks.studies.learning import acc_labs
from dc_gym.benchmarks.studies.learning.acc_labs import ACTIONS, BEST, CHANCE, RIVALS, SECN, STATIC, UNTRAINED, Kept, Rewards
from dc_gym.benchmarks.studies.learning.common import Method
from dc_gym.methods.acc.double_dqn import HIDDEN
from dc_gym.methods.acc.offline import held_out, scenarios
from dc_gym.methods.acc.offline.on_labs import AccTrainingSettings
from dc_gym.methods.acc.offline.scenarios import Scenario
from dc_gym.methods.acc.policy import AccPolicy
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, StudyOptions, Variant, bounded, drawing
from dc_gym.study.collect import FunctionRows
from dc_gym.study.model import Collected
from dc_gym.topologies.ecmp import draw

METHOD = Method("acc", "--episodes", AccTrainingSettings().episodes)
NETS = {f"ACC, seed {seed}": seed for seed in range(1, 6)}
ENOUGH = 4 / 5
"""The share of nets that must pass."""
SLOTS = 100
INCAST, WEBSEARCH, MIX = "incast", "websearch", "mix"
CASES = {INCAST: 8, WEBSEARCH: 8, MIX: 16}
"""Held-out scenarios by kind. The mix is drawn as in a training."""
CHOICE, CHOSEN_IN, SINGLE = "choice", 16, "best single action of trainings"
"""The scenarios of trainings in which the best single action is chosen, and their number."""
MEASURES = {case: Measure(case, f"reward, {case}", digits=4) for case in (*CASES, CHOICE)}


def drawn(case: str, number: int) -> Scenario:
    for again in range(1000):
        scenario = scenarios.drawn(0, "held out", case, number, again)
        if case in (MIX, scenario.kind):
            return scenario
    raise AgentError(f"no scenario of {case} in 1000 draws")


def rows(options: StudyOptions, progress: Progress) -> Rewards:
    """Trains the nets, and measures all contestants in each scenario."""
    folder, most = METHOD.place("acc", options), options.seeds or max(CASES.values())
    some = options.variants or [*NETS][: None if options.all_cases else 1]
    seeds = {name: seed for name, seed in NETS.items() if name in some}
    nets = {name: AccPolicy.read(METHOD.policy(folder / f"seed-{seed}", seed, options)) for name, seed in seeds.items()}
    memo = Kept(folder, (repr((CASES, CHOSEN_IN, SLOTS, SECN, DEPLOYED)),))
    table: Rewards = {}
    for episode in range(min(CHOSEN_IN, most)):
        seed = draw(1, "acc lab", episode) % 2**32
        acc_labs.add(table, CHOICE, episode + 1, memo.of(f"{CHOICE} {episode}", scenarios.drawn(1, episode), seed, STATIC, SLOTS))
    for case, count in CASES.items():
        for number in range(min(count, most)):
            progress.phase(f"measure {case} {number + 1}")
            acc_labs.add(table, case, number + 1, _measured(memo, case, number, nets))
    return table


def _measured(memo: Kept, case: str, number: int, nets: Mapping[str, AccPolicy]) -> dict[str, float]:
    lab_seed = draw(0, "acc held out", case, number) % 2**32
    sizes = (DEPLOYED.inputs, *HIDDEN, len(DEPLOYED.actions))
    untrained = QNetwork.random(sizes, np.random.default_rng(draw(0, "acc untrained")))
    stored = {name: f"net {policy.sha256()[:16]}" for name, policy in nets.items()}  # a later training has another name
    contestants = {stored[name]: held_out.greedy(DEPLOYED, policy.net) for name, policy in nets.items()}
    contestants |= acc_labs.secn() | STATIC
    contestants |= {UNTRAINED: held_out.greedy(DEPLOYED, untrained), CHANCE: held_out.chance(DEPLOYED, lab_seed)}
    rewards = memo.of(f"{case} {number}", drawn(case, number), lab_seed, contestants, SLOTS)
    names = {stored_name: name for name, stored_name in stored.items()}
    return {names.get(name, name): reward for name, reward in rewards.items()}


def with_oracles(evidence: Evidence) -> Evidence:
    """Returns the evidence with the best single action of trainings, and with the best action of each scenario."""
    totals = {name: sum(values.values()) for name in STATIC if (values := evidence.values(name, CHOICE))}
    if not totals:
        return evidence
    single = max(totals, key=lambda name: totals[name])
    single_variant = replace(evidence.variants[single], name=SINGLE, label=f"{single}, the {SINGLE}")
    best = acc_labs.best_of(evidence, lambda rows: {seed: max(row[seed] for row in rows.values()) for seed in rows[single]})
    return replace(evidence, variants={**evidence.variants, SINGLE: single_variant, BEST: best})


def better(case: str, rival: str) -> Criterion:
    """Returns the criterion that 4/5 of the nets earn more than a rival, with an interval that excludes 0."""

    def judge(evidence: Evidence) -> Outcome:
        other, nets = dict(evidence.values(rival, case)), [name for name in NETS if name in evidence.variants]
        gains = [gain for name in nets if (gain := paired(other, dict(evidence.values(name, case))))]
        if not gains or any(gain.half is None for gain in gains):
            return bounded(None, "one scenario has no interval")
        won = sum(gain.mean > 0 and gain.differs_from_0 for gain in gains)
        words = ", ".join(f"{gain.mean:+.4f} \u00b1 {gain.half or 0:.4f}" for gain in gains)
        return bounded(won >= ENOUGH * len(gains), f"{case}, above {rival}: {words}", sure=True)

    return Criterion(f"{case}: reward above that of {rival} with {ENOUGH:.0%} of the nets", (rival,), judge, (case,))


@dataclass(frozen=True, slots=True)
class NetRows(FunctionRows):
    """Collects rewards, and names shorter trainings."""

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        base = FunctionRows.__call__(self, study, options, progress)
        return replace(base, evidence=replace(base.evidence, shortfall=METHOD.shortfall(base.evidence.shortfall, options)))


STUDY = Study(
    title="ACC's net, trained offline, in scenarios that no training had",
    variants=[
        *(Variant(name, color="#332288", extra=seed > 1) for name, seed in NETS.items()),
        *RIVALS,
        Variant(UNTRAINED, color="#CC9966"),
        *ACTIONS,
    ],
    measures=[*MEASURES.values()],
    derive=with_oracles,
    seeds=max(CASES.values()),
    claims=[
        Claim(f"{case}: more reward than {rival}", "ours: it has learned", (better(case, rival),))
        for case in CASES
        for rival in (*SECN, *([SINGLE] if case == MIX else []))
    ],
    draw=lambda evidence: drawing.dot_panels(evidence, [MEASURES[case] for case in CASES], "ACC's net and static markings"),
    facts=[("Labs", f"the scenarios of `dcgym method acc train`, {SLOTS} decision times each; a seed is a scenario")],
    collect=NetRows(rows),
    trains=True,
)
