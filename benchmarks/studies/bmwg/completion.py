# SPDX-License-Identifier: Apache-2.0
"""Test category 5 of the draft: the JCT ratio of a synthetic training, and two tenants that share links to the spines.

An iteration computes for C and reduces S bytes over N accelerators. The draft's roofline is C + S x 2 (N - 1) / N over the line.
It has no term for headers, acknowledgments and latency, which every fabric has, so that even an idle one is above 1. Of two
tenants each has two hosts at 4 of 8 leaves; `overlap` is the share of leaves that both have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from operator import truediv

from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.benchmarks.studies.bmwg.common import BALANCING, ECMP, HOSTS, JCT, LINE_BPS
from dc_gym.results.results import Result
from dc_gym.study import Claim, Evidence, Measure, Study, Variant, above, drawing
from dc_gym.study.claims import equal, more_than
from dc_gym.study.evidence import with_variants

TITLE = "Job completion: JCT ratio, and two tenants"
COMPUTE_MS, SIZE_MB, ROUNDS = (1, 10), (2, 8), 3
RATIO = Measure("jct_ratio", "JCT ratio (measured over roofline)", digits=3)
INTERFERENCE = Measure("interference", "JCT interference factor", digits=3)
TENANT_LEAVES, HOSTS_PER_LEAF, TENANT_MB = 4, 4, 4
OVERLAPS = {0: 4, 25: 3, 50: 2, 75: 1}
"""By how many leaves the second tenant's begin after the first one's, by overlap in percent."""


def name(compute_ms: int, size_mb: int, balancing: str) -> str:
    return f"C = {compute_ms} ms, S = {size_mb} MB, {balancing}"


def shared(overlap: int, balancing: str) -> str:
    return f"two tenants, overlap {overlap} %, {balancing}"


def lone(balancing: str) -> str:
    return f"a tenant alone, {balancing}"


def roofline_s(compute_ms: int, size_mb: int) -> float:
    """Returns the draft's roofline of an iteration."""
    return compute_ms / 1e3 + size_mb * 8e6 * 2 * (HOSTS - 1) / HOSTS / LINE_BPS


def measure(result: Result, roofline: float | None = None) -> dict[str, float]:
    """Returns the time of an iteration, and its ratio to the roofline."""
    values = common.job(result)
    return {JCT.name: values[JCT.name]} | ({RATIO.name: values[JCT.name] / roofline} if roofline else {})


def synthetic() -> Iterator[Variant]:
    for compute_ms, size_mb, (balancing, keys) in product(COMPUTE_MS, SIZE_MB, BALANCING.items()):
        values = {
            **keys,
            "workload.compute": f"{compute_ms}ms",
            "workload.size": f"{size_mb}MB",
            "time.duration": f"{ROUNDS * (compute_ms + 8 * size_mb) + 10}ms",
        }
        ideal = {"roofline": roofline_s(compute_ms, size_mb)}
        yield Variant(name(compute_ms, size_mb, balancing), values, common.COLORS[balancing], given=ideal)


def tenant(first_leaf: int, place: int) -> list[str]:
    """Returns the hosts of a tenant, in turns over its leaves; `place` 0 has the first two hosts of each, 1 the others."""
    leaves = range(first_leaf, first_leaf + TENANT_LEAVES)
    return [f"h{leaf * HOSTS_PER_LEAF + 2 * place + number + 1}" for number in range(2) for leaf in leaves]


def tenants() -> Iterator[Variant]:
    job = {"kind": "job", "collective": "all_to_all", "size": f"{TENANT_MB}MB", "rounds": ROUNDS}
    fabric = {"topology.leaves": 2 * TENANT_LEAVES, "time.duration": "60ms", "workload.size": job["size"]}
    for balancing, keys in BALANCING.items():
        mine = {**fabric, **keys, "workload.collective": job["collective"], "workload.hosts": tenant(0, 0)}
        yield Variant(lone(balancing), mine, common.COLORS[balancing])
        for overlap, first_leaf in OVERLAPS.items():
            beside = {"workload.beside": [{**job, "transport": "rdma", "hosts": tenant(first_leaf, 1)}]}
            yield Variant(shared(overlap, balancing), {**mine, **beside}, common.COLORS[balancing])


def with_interference(evidence: Evidence) -> Evidence:
    """Adds the time of an iteration of a tenant over that of the same one alone, seed by seed."""
    with_factors = []
    for overlap, balancing in product(OVERLAPS, BALANCING):
        variant = evidence.variants.get(shared(overlap, balancing))
        mine, alone = (evidence.values(row, JCT.name) for row in (shared(overlap, balancing), lone(balancing)))
        if variant and alone:
            factor = {seed: truediv(mine[seed], alone[seed]) for seed in mine.keys() & alone.keys()}
            with_factors.append(replace(variant, numbers={**variant.numbers, INTERFERENCE.name: factor}))
    return with_variants(evidence, with_factors)


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 5",
    base={
        **common.FABRIC,
        "workload.kind": "job",
        "workload.collective": "all_reduce_ring",
        "workload.rounds": ROUNDS,
        "workload.placement": "round_robin",
    },
    variants=[*synthetic(), *tenants()],
    measures=(JCT, RATIO, INTERFERENCE),
    measure=measure,
    derive=with_interference,
    seeds=common.SEEDS,
    claims=[Claim("A tenant is slower where it shares more leaves", "ours", (above(shared(75, ECMP), shared(0, ECMP), JCT),))],
    identities=[
        *(more_than(name(*case), RATIO, 1) for case in product(COMPUTE_MS, SIZE_MB, BALANCING)),
        *(equal(shared(0, balancing), lone(balancing), JCT) for balancing in BALANCING),
    ],
    draw=partial(drawing.dot_panels, columns=(RATIO, INTERFERENCE), title=TITLE),
)
