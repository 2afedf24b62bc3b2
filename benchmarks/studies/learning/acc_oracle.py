# SPDX-License-Identifier: Apache-2.0
"""The share of the possible gain that ACC's shipped net gains, over DCQCN and over DCTCP, in cases new to the net.

The cases are another fabric, another rate and an all-reduce. The oracle of a case is the best single action of the template over
all seeds. Its gain is its reward less the reward of SECN1 or SECN2. The net was trained on one switch at 25 Gbit/s with DCQCN in
the NICs, and never with TCP. It does not explore. Each seed draws the traffic of every case anew. All contestants have labs of
the same case and seed, so their rewards are paired. A reward is the mean over all queues of the network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.stats import Estimate, estimate
from dc_gym.benchmarks.studies.learning import acc_labs
from dc_gym.benchmarks.studies.learning.acc_labs import ACTIONS, BEST, CHANCE, RIVALS, SECN, STATIC, USUAL_BPS, Kept, Rewards
from dc_gym.methods.acc.offline import held_out
from dc_gym.methods.acc.offline.scenarios import lab_spec
from dc_gym.methods.acc.policy import SHIPPED, AccPolicy
from dc_gym.methods.acc.template import DEPLOYED, Template, told
from dc_gym.spec import Spec
from dc_gym.study import Evidence, Measure, Study, StudyOptions, Variant, VariantEvidence, collect, drawing
from dc_gym.study.claims import Claim, Criterion, Outcome, Verdict, bounded
from dc_gym.topologies.ecmp import draw

NET = "ACC"
SEEDS, SLOTS = 3, 30
"""Decision times of a lab: 15 ms, of which the first ten do not count (held_out.WARMUP)."""
LITTLE = 1e-3
"""The least gain of the oracle of which a share is reported."""
FABRIC = {"kind": "leafspine", "leaves": 2, "hosts_per_leaf": 4, "spines": 2, "uplinks": 1, "uplink_rate": f"{USUAL_BPS}bit/s"}
"""Two racks whose uplinks have half of their servers' rate."""
ONE_SWITCH = {"kind": "single", "hosts": 8}
OVER: Mapping[str, Mapping[str, Any]] = {
    "DCQCN": {
        "topology": {"shared_buffer": "12MB", "pfc": "classes", "xoff": "acc"},
        "controller": {"name": "dcqcn"},
        "nic": {"preset": "paper", "trace": "off"},
    },
    "DCTCP": {"topology": {"buffer": "4MB"}, "controller": {"name": "dctcp"}},
}
"""The keys of a congestion control: RDMA without loss, or the kernel's TCP."""


@dataclass(frozen=True, slots=True)
class OracleCase:
    """A network and its traffic that no training had."""

    network: Mapping[str, Any]
    rate_bps: int
    workload: Mapping[str, Any]
    over: str = "DCQCN"

    def spec(self, template: Template, duration_ns: int, seed: int) -> Spec:
        transport = OVER[self.over]
        links = {"rate": f"{self.rate_bps}bit/s", "delay": "580ns", "marking": "secn1"}
        data = {
            "name": "acc-oracle",
            "seed": seed,
            **transport,
            "topology": {**self.network, **links, **transport["topology"]},
            "workload": dict(self.workload),
            "monitor": {"tcp_interval": "5ms"},
        }
        return lab_spec(data, template, duration_ns)


TRAFFIC: Mapping[str, tuple[Mapping[str, Any], int, Mapping[str, Any]]] = {
    "rate": (ONE_SWITCH, 10 * 10**9, {"kind": "many_to_one", "flows": 14, "jitter": "2ms"}),
    "fabric": (FABRIC, USUAL_BPS, {"kind": "poisson", "distribution": "websearch", "truncate": "10MB", "load": 0.6}),
    "all-reduce": (
        FABRIC,
        USUAL_BPS,
        {"kind": "alltoall", "schedule": "linear", "size": "500kB", "rounds": 20, "interval": "200us", "jitter": "50us"},
    ),
}
"""Network, rate of the servers and traffic of each case. An all-reduce of 4 MB in its direct form is two of these all-to-alls."""
CASES = {
    f"{over}, {name}": OracleCase(network, rate_bps, workload, over)
    for (name, (network, rate_bps, workload)), over in product(TRAFFIC.items(), OVER)
}


def rows(options: StudyOptions, progress: Progress) -> Rewards:
    """Returns the rewards of all contestants, by case and seed."""
    shipped, rewards = SHIPPED[DEPLOYED.name], Rewards()
    policy, sha = AccPolicy.read(shipped), hashlib.sha256(shipped.read_bytes()).hexdigest()
    memo = Kept(collect.folder("acc-oracle", options), (sha, repr((CASES, SLOTS, SECN, DEPLOYED))))
    for seed, (name, case) in product(range(1, (options.seeds or SEEDS) + 1), CASES.items()):
        progress.phase(f"measure {name}, seed {seed}")
        lab_seed = draw(0, "acc oracle", name, seed) % 2**32
        contestants = {NET: held_out.greedy(DEPLOYED, policy.net), CHANCE: held_out.chance(DEPLOYED, lab_seed)}
        contestants |= acc_labs.secn(case.rate_bps) | STATIC
        acc_labs.add(rewards, name, seed, memo.of(f"{name} {seed}", case, lab_seed, contestants, SLOTS, all_queues=True))
    return rewards


def mean(evidence: Evidence, name: str, case: str) -> float:
    return float(np.mean([*evidence.values(name, case).values()]))


def best_action(evidence: Evidence, case: str) -> str:
    """Returns the single action that earns most over the seeds of a case."""
    return max(STATIC, key=lambda name: mean(evidence, name, case))


def with_oracle(evidence: Evidence) -> Evidence:
    if not all(name in evidence.variants for name in STATIC):
        return evidence
    best = acc_labs.best_of(evidence, lambda rows: max(rows.values(), key=lambda row: np.mean([*row.values()])))
    return replace(evidence, variants={**evidence.variants, BEST: best})


def gain(evidence: Evidence, cases: Sequence[str], rival: str) -> Estimate | None:
    """Returns how much more the net earns than a rival, over the seeds of cases."""
    earned, other = ([evidence.values(contestant, case) for case in cases] for contestant in (NET, rival))
    return estimate([net[seed] - its[seed] for net, its in zip(earned, other, strict=True) for seed in net if seed in its])


def share(evidence: Evidence, case: str, rival: str) -> str:
    """Returns the net's share of the oracle's gain over a rival, in words."""
    possible = mean(evidence, BEST, case) - mean(evidence, rival, case)
    net_gain = gain(evidence, [case], rival)
    assert net_gain is not None
    if possible < LITTLE:
        return f"over {rival} the oracle gains {possible:+.4f}, too little to share (ACC {net_gain.mean:+.4f})"
    return f"over {rival} ACC gains {net_gain.mean / possible:.0%} of {possible:+.4f}"


def notes(evidence: Evidence) -> list[str]:
    if not {BEST, NET, *SECN} <= evidence.variants.keys():
        return []
    lines = []
    for case in CASES:
        best = best_action(evidence, case)
        action_text = f"{best} ({told(DEPLOYED.actions[list(STATIC).index(best)])})"
        lines.append(f"{case}: the oracle is {action_text}; {'; '.join(share(evidence, case, rival) for rival in SECN)}.")
    return lines


def better(over: str, rival: str) -> Criterion:
    """Returns the criterion that the net earns more than a rival over all cases of a congestion control."""
    cases = [case for case in CASES if case.startswith(over)]

    def judge(evidence: Evidence) -> Outcome:
        advantage = gain(evidence, cases, rival)
        if advantage is None or advantage.half is None:
            return Outcome(Verdict.NOT_TESTED, "too few cases")
        words = f"{over}, {NET} above {rival}: {advantage.mean:+.4f} \u00b1 {advantage.half:.4f}"
        if not advantage.differs_from_0:
            return Outcome(Verdict.NO_DIFFERENCE, words)
        return bounded(advantage.mean > 0, words, sure=True)

    return Criterion(f"{over}: reward of {NET} above that of {rival}, all cases", (NET, rival), judge, tuple(cases))


LESS = Measure("less", "reward less that of the oracle", digits=4)
DRAWN = (NET, *SECN, CHANCE)
DRAWN_BY_CASE = {case: {who: f"{case}, {who}" for who in DRAWN} for case in CASES}
TITLE = "ACC and static markings in cases that no training had"


def beside_the_oracle(evidence: Evidence) -> Evidence:
    """Returns by case how much less the net and its rivals earn than the oracle."""
    variants = {}
    for case, contestant in product(CASES, [contestant for contestant in DRAWN if contestant in evidence.variants]):
        best, earned = evidence.values(BEST, case), evidence.values(contestant, case)
        less = {seed: value - best[seed] for seed, value in earned.items() if seed in best}
        variants[f"{case}, {contestant}"] = VariantEvidence(
            f"{case}, {contestant}", contestant, evidence.variants[contestant].color, {LESS.name: less}
        )
    return Evidence(variants)


STUDY = Study(
    title="ACC's net beside the oracle in cases that no training had",
    variants=[Variant(NET, color="#332288"), *RIVALS, *ACTIONS],
    measures=[Measure(case, f"reward, {case}", digits=4) for case in CASES],
    derive=with_oracle,
    notes=notes,
    seeds=SEEDS,
    claims=[
        Claim(f"{over}: more reward than {rival}", "ours: the net is of use in other networks", (better(over, rival),))
        for over, rival in product(OVER, (*SECN, CHANCE))
    ],
    draw=lambda evidence: drawing.grid(beside_the_oracle(evidence), DRAWN_BY_CASE, (LESS,), TITLE),
    facts=[("Labs", f"{SLOTS} decision times of the deployed template each")],
    collect=collect.FunctionRows(rows),
)
