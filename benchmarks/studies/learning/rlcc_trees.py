# SPDX-License-Identifier: Apache-2.0
"""Distilled policies: trees against their own network, in the closed loop on the lab's data path.

RL-CC has at most 10 trees of depth 4. Here 10 trees are measured, and more, until goodput and inflation are the network's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dc_gym.benchmarks.studies.learning import rlcc
from dc_gym.benchmarks.studies.learning.rlcc import GOODPUT, INFLATION, name
from dc_gym.methods.rlcc.offline import distil, theory
from dc_gym.methods.rlcc.offline.bottleneck import SHORT_BUFFER_BYTES
from dc_gym.methods.rlcc.offline.distil import Distillation
from dc_gym.nets import nic_policy
from dc_gym.study import Claim, Evidence, Measure, Study, Variant, between
from dc_gym.study.model import Files

NETWORK, TREES = "network", (10, 20, 40)
COLORS = {NETWORK: "#332288", "10 trees": "#CC6677", "20 trees": "#DDCC77", "40 trees": "#117733"}
SETTLED_MS = {8: 200, 64: 400, 512: 800}
MEASURED_MS = 100
OF_NETWORK = {
    GOODPUT: (Measure("goodput_of_network", "goodput, of the network's", digits=4), 0.02),
    INFLATION: (Measure("inflation_of_network", "inflation, of the network's", digits=4), 0.05),
}
"""Ratios to the network's values, and how far from 1 they may be."""


def policies(seeds: Sequence[int]) -> Files:
    """Returns the files of the runs: lists of flows, the shipped network, and its trees."""
    net = nic_policy.load("rlcc-mlp")
    files = {f"{flows}-flows.csv": rlcc.flows_file(flows) for flows in SETTLED_MS}
    trees = {f"trees-{count}.npz": distil.make(net, Distillation(count, seed=2)) for count in TREES}
    return {**files, "network.npz": net, **trees}


def with_ratios(evidence: Evidence) -> Evidence:
    """Returns the evidence with the ratios of the trees' goodput and inflation to the network's, by seed."""
    variants = dict(evidence.variants)
    for variant, flows in [(name(f"{count} trees", flows), flows) for count in TREES for flows in SETTLED_MS]:
        if variant not in variants:
            continue
        numbers = dict(variants[variant].numbers)
        for measure, (ratio, _) in OF_NETWORK.items():
            of = evidence.values(name(NETWORK, flows), measure.name)
            numbers[ratio.name] = {seed: value / of[seed] for seed, value in numbers[measure.name].items() if seed in of}
        variants[variant] = replace(variants[variant], numbers=numbers)
    return replace(evidence, variants=variants)


def near(count: int) -> Claim:
    source = "RL-CC, section V: at most 10 trees of depth 4" if count == TREES[0] else "ours: more trees come nearer"
    bounds = [(ratio, 1 - within, 1 + within) for ratio, within in OF_NETWORK.values()]
    criteria = tuple(between(name(f"{count} trees", flows), *bound) for flows in SETTLED_MS for bound in bounds)
    return Claim(f"{count} trees do what their network does", source, criteria)


POLICIES = {NETWORK: ("mlp", "network.npz"), **{f"{count} trees": ("tree", f"trees-{count}.npz") for count in TREES}}
STUDY = Study(
    title="Trees and their network, 8 to 512 flows",
    source="RL-CC, section V",
    base=rlcc.BASE,
    variants=[
        Variant(
            name(who, flows),
            {**rlcc.keys(net, flows, SETTLED_MS[flows], MEASURED_MS, SHORT_BUFFER_BYTES), "nic.policy": file},
            COLORS[who],
            paper={INFLATION.name: theory.EQ_2(flows)},
        )
        for who, (net, file) in POLICIES.items()
        for flows in SETTLED_MS
    ],
    files=policies,
    measures=(*rlcc.MEASURES, *(ratio for ratio, _ in OF_NETWORK.values())),
    measure=rlcc.measure,
    derive=with_ratios,
    seeds=1,
    claims=[near(count) for count in TREES],
    draw=rlcc.lines(COLORS, tuple(SETTLED_MS), title="Trees and their network"),
    facts=[("Bottleneck", "8 senders on a switch, 10 Gbit/s, 25 us a link, 1.25 MB; flows begin at line rate, 0.5 ms apart")],
)
