# SPDX-License-Identifier: Apache-2.0
"""The networks and the traffic of the comparison, and the specs of all runs.

The networks are those of 100 Gbit/s on which RL-CC is reported (section VI), slowed down (dc_gym/reproduce/scaled.py). Times here
are before slowing down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.benchmarks.studies.compare.compositions import COMPOSITIONS
from dc_gym.ctrl import controllers
from dc_gym.study import scaled
from dc_gym.study.scaled import JITTER_NS, LINKS, MS, SCALE, RunLength, ScaledNetwork
from dc_gym.spec import Spec
from dc_gym.sweep.grid import Grid, Point

K_FRAMES = 60
"""Marking threshold (a step) for DCTCP and DCQCN, in frames: about 3/4 of the base BDP."""


@dataclass(frozen=True, slots=True)
class StudyTraffic:
    name: str
    title: str
    workload: Mapping[str, Any]
    sized: bool = False
    """True if its flows have a size; completion times are then measured."""


NETWORKS = {
    "dumbbell": ScaledNetwork("dumbbell", "Dumbbell, 8 + 8 hosts", {"kind": "dumbbell", "pairs": 8, **LINKS}, 8),
    "fattree-k4": ScaledNetwork("fattree-k4", "Fat-tree k = 4, 16 hosts", {"preset": "fattree-k4", **LINKS}, 15),
    "rlcc64": ScaledNetwork("rlcc64", "RL-CC's fabric, 64 hosts", {"preset": "rlcc64"}, 63),
}


def _many_to_one(flows: int) -> StudyTraffic:
    return StudyTraffic(f"many-to-one-{flows}", f"Many-to-one, {flows} flows", {"kind": "many_to_one", "flows": flows})


TRAFFIC = {
    each.name: each
    for each in (
        *(_many_to_one(2**power) for power in range(1, 10)),
        StudyTraffic("all-to-all", "All-to-all", {"kind": "all_to_all"}),
        StudyTraffic(
            "long-short",
            "Long and short flows",
            {"kind": "long_short", "long": 2, "short": 16, "size": "1MB"},
        ),
        *(
            StudyTraffic(
                f"websearch-{load}",
                f"WebSearch, {load} % load",
                {"kind": "poisson", "distribution": "websearch", "load": load / 100, "load_of": "bisection"},
                sized=True,
            )
            for load in (20, 40, 60, 80)
        ),
    )
}
LENGTHS = {
    "many-to-one": RunLength(35 * MS, 20 * MS),
    "all-to-all": RunLength(12 * MS, 9 * MS),
    "long-short": RunLength(20 * MS, 0),
    "websearch": RunLength(6 * MS, 0),
}
"""Lengths of the default runs.

RL-CC begins at line rate and cuts by at most 1.2 per round trip. A round trip takes 40 base ones while RL-CC's own first burst
fills the buffer, so 64 flows need 15 ms to reach their shares. Hence the warm-ups. A dumbbell carries fewer flows of WebSearch,
so its runs are DUMBBELL_LONGER times as long.
"""
DUMBBELL_LONGER = 3
FULL = {
    "many-to-one": RunLength(60_000 * MS, 1_000 * MS),
    "all-to-all": RunLength(60_000 * MS, 1_000 * MS),
    "long-short": RunLength(30_000 * MS, 0),
    "websearch": RunLength(1_000 * MS, 0),
}
"""Lengths as in RL-CC, section VI; that of WebSearch is our choice."""
SHORT_START_NS = 5 * MS

CONTROLLERS = ("rlcc-tree", "dctcp", "nv", "dcqcn", "hpcc", "powertcp", "fdcc", "acc")
DEFAULT_NETWORKS = ("dumbbell", "fattree-k4")
DEFAULT_TRAFFIC = ("many-to-one-8", "many-to-one-64", "all-to-all", "long-short", "websearch-60")
SEEDS = 5


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of the command line."""

    controllers: tuple[str, ...] = CONTROLLERS
    """Names of controllers or compositions, or policies over a TCP (`policy.npz`)."""
    networks: tuple[str, ...] = DEFAULT_NETWORKS
    traffic: tuple[str, ...] = DEFAULT_TRAFFIC
    seeds: int = SEEDS
    scale: int = SCALE
    full: bool = False
    ground: str = "lab"


@dataclass(frozen=True, slots=True)
class CompareScenario:
    """One network with one traffic."""

    network: ScaledNetwork
    traffic: StudyTraffic
    length: RunLength
    scale: int

    @property
    def name(self) -> str:
        return f"{self.network.name}-{self.traffic.name}"


def check(options: CompareOptions) -> None:
    """Raises UsageError for unknown names."""
    for asked, known, what in (
        (options.networks, NETWORKS, "topology"),
        (options.traffic, TRAFFIC, "workload"),
        ([name for name in options.controllers if not _is_policy(name)], (*controllers.names(), *COMPOSITIONS), "controller"),
    ):
        for name in asked:
            if name not in known:
                raise UsageError("compare: " + unknown(what, name, known))


def scenarios(options: CompareOptions) -> Iterator[CompareScenario]:
    for network in options.networks:
        for name in options.traffic:
            traffic = TRAFFIC[name]
            yield CompareScenario(NETWORKS[network], traffic, _length(network, traffic, options.full), options.scale)


def _length(network: str, traffic: StudyTraffic, full: bool) -> RunLength:
    kind = next(kind for kind in LENGTHS if traffic.name.startswith(kind))
    if full:
        return FULL[kind]
    length = LENGTHS[kind]
    if network == "dumbbell" and kind == "websearch":
        return RunLength(length.duration_ns * DUMBBELL_LONGER, length.warmup_ns * DUMBBELL_LONGER)
    return length


def grid(scenario: CompareScenario, options: CompareOptions, overrides: Sequence[str]) -> Grid:
    """Returns a grid with one run per controller and seed."""
    points = [
        Point(f"{_short(name)}-s{seed}", {"controller": name, "seed": seed}, _spec(scenario, options, name, seed, overrides))
        for name in options.controllers
        for seed in range(1, options.seeds + 1)
    ]
    return Grid(scenario.name, ("controller", "seed"), tuple(points))


def _spec(scenario: CompareScenario, options: CompareOptions, controller: str, seed: int, overrides: Sequence[str]) -> Spec:
    workload = dict(scenario.traffic.workload)
    if not scenario.traffic.sized:
        workload["jitter"] = JITTER_NS
    if workload["kind"] == "many_to_one":
        workload["senders"] = min(workload["flows"], scenario.network.senders)
    if workload["kind"] == "long_short":
        workload["short_start"] = SHORT_START_NS
    values = {
        **scaled.keys(scenario.network, workload, scenario.length, scenario.scale),
        "topology.k_bytes": f"{K_FRAMES}p",
        **_keys_of(controller, scenario.scale),
        "metrics.slowdown": "closed-form",  # the same for all, and exact for a NIC's flows
        "ground": options.ground,
        "seed": seed,
    }
    keys = specs.not_given(values, overrides)
    return specs.vary({"name": scenario.name}, Path.cwd(), "bench compare", overrides, keys, "bench compare")


def _keys_of(controller: str, scale: int) -> Mapping[str, Any]:
    if controller in COMPOSITIONS:
        return COMPOSITIONS[controller].keys_at(scale)
    return {"controller.policy" if _is_policy(controller) else "controller.name": controller}


def _is_policy(name: str) -> bool:
    return name.endswith(".npz") or ":" in name


def _short(name: str) -> str:
    return Path(name).stem if _is_policy(name) else name
