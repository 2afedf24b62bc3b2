# SPDX-License-Identifier: Apache-2.0
"""Checks how much of what could be gained ACC's net gains, over DCQCN and over DCTCP, in cases that nobody trained on.

The cases are another fabric, another rate and an all-reduce. The oracle of a case is the best single action of the template,
found by a sweep over all of them with the same draws. Its gain is its reward less that of SECN1 or SECN2. The net that comes with
dc-gym was trained on one switch at 25 Gbit/s with DCQCN in the NICs, and never with TCP. It does not explore.

Each seed draws the traffic of every case anew. All contestants have labs of the same case and seed, so their rewards are paired.
A reward is the mean over all queues of the network. What was measured stays in the folder, with a figure. A bench that was
killed, or that is to have more seeds, goes on there.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.base.files import machine_errors, scratch
from dc_gym.base.progress import choose
from dc_gym.base.stats import Estimate, estimate
from dc_gym.benchmarks.checks import acc_oracle_figure
from dc_gym.benchmarks.checks.acc_learn import CHANCE, LITTLE, NET, SECN, STATIC
from dc_gym.benchmarks.checks.acc_rewards import KeptRewards
from dc_gym.methods.acc import held_out
from dc_gym.methods.acc.held_out import Contestant, constant
from dc_gym.methods.acc.scenarios import lab_spec
from dc_gym.nets.acc_policy import SHIPPED, AccPolicy
from dc_gym.nets.acc_template import DEPLOYED, Template, told
from dc_gym.spec import Spec
from dc_gym.topologies.ecmp import draw

OUT = Path("results/acc-oracle")
FILE, FIGURE = "rewards.json", "acc-oracle.png"
SEEDS = 3
SLOTS = 30
"""Decision times of a lab: 15 ms, of which the first ten do not count (held_out.WARMUP)."""
USUAL_BPS = 25 * 10**9
"""The rate at which SECN2 has the thresholds of its name."""
FABRIC = {"kind": "leafspine", "leaves": 2, "hosts_per_leaf": 4, "spines": 2, "uplinks": 1, "uplink_rate": f"{USUAL_BPS}bit/s"}
"""Two racks whose uplinks carry half of what their servers do."""
ONE_SWITCH = {"kind": "single", "hosts": 8}
DCQCN: Mapping[str, Any] = {
    "topology": {"shared_buffer": "12MB", "pfc": "classes", "xoff": "acc"},
    "controller": {"name": "dcqcn"},
    "nic": {"preset": "paper", "trace": "off"},
}
DCTCP: Mapping[str, Any] = {"topology": {"buffer": "4MB"}, "controller": {"name": "dctcp"}}
OVER = {"DCQCN": DCQCN, "DCTCP": DCTCP}
"""The keys of a congestion control: RDMA without loss, or the kernel's TCP."""


@dataclass(frozen=True, slots=True)
class OracleCase:
    """A network and its traffic that no training had."""

    network: Mapping[str, Any]
    rate_bps: int
    workload: Mapping[str, Any]
    over: str = "DCQCN"

    def spec(self, template: Template, duration_ns: int, seed: int) -> Spec:
        """Returns the spec of a lab."""
        own = OVER[self.over]
        links = {"rate": f"{self.rate_bps}bit/s", "delay": "580ns", "marking": "secn1"}
        data = {
            "name": "acc-oracle",
            "seed": seed,
            **own,
            "topology": {**self.network, **links, **own["topology"]},
            "workload": dict(self.workload),
            "monitor": {"tcp_interval": "5ms"},
        }
        return lab_spec(data, template, duration_ns)


TRAFFIC: Mapping[str, tuple[Mapping[str, Any], int, Mapping[str, Any]]] = {
    "rate": (
        ONE_SWITCH,
        10 * 10**9,
        {"kind": "many_to_one", "flows": 14, "jitter": "2ms"},
    ),
    "fabric": (FABRIC, USUAL_BPS, {"kind": "poisson", "distribution": "websearch", "truncate": "10MB", "load": 0.6}),
    "all-reduce": (
        FABRIC,
        USUAL_BPS,
        {"kind": "alltoall", "schedule": "linear", "size": "500kB", "rounds": 20, "interval": "200us", "jitter": "50us"},
    ),
}
"""Network, rate of the servers and traffic of each case. An all-reduce of 4 MB in its direct form is two such all-to-alls."""
CASES = {
    f"{over}, {name}": OracleCase(network, rate_bps, workload, over)
    for (name, (network, rate_bps, workload)), over in product(TRAFFIC.items(), OVER)
}


def secn_template(rate_bps: int) -> Template:
    """Returns SECN1 and SECN2 at a rate as actions: SECN2's thresholds grow with it."""
    low, high, pmax = SECN["SECN2"]
    grown = (low * rate_bps // USUAL_BPS, high * rate_bps // USUAL_BPS, pmax)
    return Template("SECN", DEPLOYED.interval_ns, DEPLOYED.history, (SECN["SECN1"], grown))


def secn(rate_bps: int) -> dict[str, Contestant]:
    """Returns SECN1 and SECN2 at a rate."""
    template = secn_template(rate_bps)
    return {name: constant(template, number) for number, name in enumerate(SECN)}


def checks(seeds: int = SEEDS, out: Path | None = None) -> Iterable[Check]:
    """Yields the checks. `out`: the folder of the rewards and of the figure; OUT without it."""
    place = out or OUT
    with machine_errors("make", place):
        place.mkdir(parents=True, exist_ok=True)
    acc_oracle_figure.require(place / FIGURE)  # fail before minutes of measuring
    found = measured(seeds, place / FILE)
    with machine_errors("write", place):
        acc_oracle_figure.save(found, list(STATIC), place / FIGURE)
    yield from verdicts(found)
    yield Check("rewards and figure", "recorded", f"{place / FILE}, {place / FIGURE}", ok=True)


def measured(seeds: int, path: Path) -> dict[str, list[dict[str, float]]]:
    """Returns the rewards by case, seed and contestant. Those that are in the file are read, others are measured and added."""
    shipped = SHIPPED[DEPLOYED.name]
    policy = AccPolicy.read(shipped)
    kept = KeptRewards(path, hashlib.sha256(shipped.read_bytes()).hexdigest(), repr((CASES, SLOTS, SECN, DEPLOYED)))
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CASES}
    with choose(quiet=False) as progress, scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
        for seed, (name, case) in product(range(1, seeds + 1), CASES.items()):
            progress.phase(f"measure {name}, seed {seed}")
            lab_seed = draw(0, "acc oracle", name, seed) % 2**32
            contestants = {NET: held_out.greedy(DEPLOYED, policy.net), CHANCE: held_out.chance(DEPLOYED, lab_seed)}
            contestants |= secn(case.rate_bps) | STATIC
            measure = partial(held_out.rewards, case, lab_seed, slots=SLOTS, folder=folder, all_queues=True)
            found[name].append(kept.of(name, str(seed), contestants, measure))
    return found


def verdicts(found: Mapping[str, Sequence[Mapping[str, float]]]) -> Iterator[Check]:
    """Yields the checks. `found`: rewards by case, seed and contestant."""
    for case, rows in found.items():
        best = oracle(rows)
        action = DEPLOYED.actions[list(STATIC).index(best)]
        earned = f"{_mean(rows, best):.3f} with {best} ({told(action)}); ACC {_mean(rows, NET):.3f}"
        yield Check(f"{case}: reward of the oracle", "recorded", earned, ok=True)
        for rival in SECN:
            yield Check(f"{case}: share of the oracle's gain over {rival}", "recorded", _share(rows, best, rival), ok=True)
    for over, rival in product(OVER, (*SECN, CHANCE)):
        gain = estimate([row[NET] - row[rival] for case, rows in found.items() if case.startswith(over) for row in rows])
        assert gain is not None
        yield Check(f"{over}: ACC's reward above {rival}'s, all cases", "above 0", _told(gain), ok=gain.mean > 0)


def oracle(rows: Sequence[Mapping[str, float]]) -> str:
    """Returns the single action that earns most over the seeds of a case."""
    return max(STATIC, key=lambda name: _mean(rows, name))


def _mean(rows: Sequence[Mapping[str, float]], who: str) -> float:
    return float(np.mean([row[who] for row in rows]))


def _share(rows: Sequence[Mapping[str, float]], best: str, rival: str) -> str:
    gain = _mean(rows, best) - _mean(rows, rival)
    own = estimate([row[NET] - row[rival] for row in rows])
    assert own is not None
    if gain < LITTLE:
        return f"the oracle gains {gain:+.4f}: too little to share; ACC {_told(own)}"
    return f"{own.mean / gain:.0%} of {gain:+.4f}; ACC {_told(own)}"


def _told(gain: Estimate) -> str:
    return f"{gain.mean:+.4f}" if gain.half is None else f"{gain.mean:+.4f} ± {gain.half:.4f}"
