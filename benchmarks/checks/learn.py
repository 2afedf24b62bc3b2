# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench learn`: five PPO trainings on dumbbell-10m, against a random policy, the untrained net, TCP alone and an oracle.

Each training is a `dcgym train` of its own. The policy files that they leave are compared in episodes with seeds that no training
had. The delay is end to end, srtt - base RTT, and includes the hosts' own queues. So a queue that only moved to the hosts would
show; the delay in switches alone is reported beside it. A bench that was killed resumes. A training that has ended is run again
only if its settings have changed.

The thesis' reward (equation 4.3) is trained in the same way and reported without a check: it does not see the queues of hosts.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.progress import Quiet
from dc_gym.base.stats import Estimate, estimate
from dc_gym.base.units import format_time
from dc_gym.envs.env import as_spec
from dc_gym.envs.evaluate import evaluate
from dc_gym.envs.registration import SPECS
from dc_gym.spec import Spec
from dc_gym.study.trainings import Training, run_all, training
from dc_gym.sweep import cpus

ENVIRONMENT = "dcgym/Dumbbell10m-v0"
SEEDS = (1, 2, 3, 4, 5)
HELD_OUT = (1_000_001, 1_000_002, 1_000_003)
STEPS = 100_000  # the default of `dcgym train`
OUT = Path("results/learn")
DELAY_RATIO, GOODPUT_SHARE = 10.0, 0.8
SETTINGS: dict[str, tuple[str, ...]] = {
    "default": (),
    "thesis": ("agent.reward=thesis",),
}
"""The trainings, as keys that differ from the environment's. The first must learn; the others are recorded."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One training."""

    policy: Path
    untrained_return: float
    """Return of the net that it began with."""


@dataclass(frozen=True, slots=True)
class Found:
    """Episode totals (docs/environment.md), as means over episodes."""

    learned: Sequence[Mapping[str, float]]
    """One per training."""
    untrained_returns: Sequence[float]
    chance: Sequence[Mapping[str, float]]
    tcp: Mapping[str, float]
    oracle: Mapping[str, float]


def checks() -> Iterable[Check]:
    if importlib.util.find_spec("ray") is None:
        yield Check("learning", "RLlib", "not installed: pip install 'dc-gym[rl]'", ok=False, skipped=True)
        return
    for name, keys in SETTINGS.items():
        spec = as_spec(SPECS[ENVIRONMENT], keys)
        title = f"{name} (reward {spec.agent.reward}, {format_time(spec.agent.interval_ns)})"
        yield from verdicts(title, measure(spec, train_all(spec, OUT / name)), must=not keys)


def train_all(spec: Spec, folder: Path) -> list[Trained]:
    """Runs one training per seed, half as many at a time as there are cores.

    A folder's training by another spec or lab is replaced.
    """
    asked = [training(folder, spec, "PPO", f"ppo-{seed}-{STEPS}", "default", seed, STEPS) for seed in SEEDS]
    run_all(asked, max(1, cpus() // 2), Quiet(), force=True)
    return [Trained(each.policy, untrained_return(each)) for each in asked]


def untrained_return(trained: Training) -> float:
    """Returns the return of the net that the training began with."""
    with (trained.out / "evaluation.csv").open() as file:
        first = [float(row["return"]) for row in csv.DictReader(file) if int(row["steps"]) == 0]
    return sum(first) / len(first)


def measure(spec: Spec, trained: Sequence[Trained]) -> Found:
    """Measures each policy in episodes that no training had."""
    return Found(
        learned=[mean(evaluate(spec, each.policy, HELD_OUT)) for each in trained],
        untrained_returns=[each.untrained_return for each in trained],
        chance=[mean(evaluate(spec, "random", [seed])) for seed in HELD_OUT],
        tcp=mean(evaluate(spec, "max", HELD_OUT)),
        oracle=mean(evaluate(spec, "fair-share", HELD_OUT)),
    )


def verdicts(title: str, found: Found, must: bool) -> Iterable[Check]:
    """Yields the checks. `must`: whether a value that falls short fails its check; otherwise it is only recorded."""
    returns, tcp, oracle = of(found.learned, "return"), found.tcp, found.oracle
    for what, values in (("random", [each["return"] for each in found.chance]), ("untrained", found.untrained_returns)):
        other = of_values(values)
        apart = returns.mean - (returns.half or 0.0) > other.mean + (other.half or 0.0)
        told = f"{shown(returns)} v. {shown(other)}"
        yield Check(f"{title}: return above {what}", asked("95 % intervals apart", must), told, apart or not must)
    delay, goodput = of(found.learned, "queueing_delay_s"), of(found.learned, "goodput_bps")
    ratio, share = tcp["queueing_delay_s"] / delay.mean, goodput.mean / oracle["goodput_bps"]
    yield Check(
        f"{title}: mean end-to-end queueing delay",
        asked(f"CUBIC's / {DELAY_RATIO:g} or less", must),
        f"{shown(delay, 1e3)} ms, CUBIC alone {1e3 * tcp['queueing_delay_s']:.2f} ms, oracle"
        f" {1e3 * oracle['queueing_delay_s']:.2f} ms: {ratio:.1f} times shorter",
        ratio >= DELAY_RATIO or not must,
    )
    yield Check(
        f"{title}: goodput",
        asked(f">= {GOODPUT_SHARE:.0%} of the oracle's", must),
        f"{share:.1%}: {shown(goodput, 1e-6)} of {oracle['goodput_bps'] / 1e6:.3f} Mbit/s",
        share >= GOODPUT_SHARE or not must,
    )
    switch, host = of(found.learned, "switch_delay_s"), of(found.learned, "host_delay_s")
    yield Check(
        f"{title}: where the queue is",
        "recorded",
        f"switches {shown(switch, 1e3)} ms, hosts {shown(host, 1e3)} ms at the rates of the moment;"
        f" CUBIC alone {1e3 * tcp['switch_delay_s']:.2f} and {1e3 * tcp['host_delay_s']:.2f} ms",
        ok=True,
    )


def asked(check: str, must: bool) -> str:
    return check if must else "recorded"


def mean(episodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the means of the totals that all episodes have."""
    names = set.intersection(*(set(each) for each in episodes))
    return {name: sum(each[name] for each in episodes) / len(episodes) for name in sorted(names)}


def of(found: Sequence[Mapping[str, float]], name: str) -> Estimate:
    return of_values([each[name] for each in found])


def of_values(values: Sequence[float]) -> Estimate:
    found = estimate(values)
    assert found is not None, "there are seeds"
    return found


def shown(found: Estimate, factor: float = 1) -> str:
    return f"{factor * found.mean:.4g} +- {factor * (found.half or 0.0):.2g} (n = {found.n})"
