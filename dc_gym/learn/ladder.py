# SPDX-License-Identifier: Apache-2.0
"""The ladder of a task: what constants, a static rule, an oracle and a policy reach on the same held-out episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.learn.evaluate import evaluate
from dc_gym.learn.session import Session
from dc_gym.learn.tasks import Task
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.policy_selection import PolicyForm
from dc_gym.spec import Spec

LEVELS = tuple(round(-1 + 0.2 * number, 1) for number in range(11))
"""The grid of constants: each number of the action, from the lowest (-1) to the highest (1) of its range."""
SHARE_OF_DISTANCE, SHARE_OF_COST, SHARE_OF_EPISODES = 0.3, 0.2, 0.9
"""The oracle of a task pays if it is above the best constant by such a share of that one's distance from the worst, or in a task
that is measured by a cost has so much less of it, in so many episodes."""
SEARCHED_EPISODES = 3
"""The episodes on which a constant is searched that has a level for each number."""
SHOWN_LEVELS = 4
CONFIDENCE = 0.95


class Constant:
    """A policy that always takes the same place in the range of each number of its action, or one place for each number."""

    def __init__(self, context: PolicyContext, level: float | Floats) -> None:
        """`level` is from -1, the lowest, to 1, the highest."""
        space = context.action.space
        self._action: npt.NDArray[np.floating] = space.low + (np.asarray(level) + 1) / 2 * (space.high - space.low)

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the same action always (see Policy)."""
        return self._action


@dataclass(frozen=True, slots=True)
class Rung:
    """The results of one policy, an entry for each episode."""

    name: str
    totals: list[dict[str, float]]

    def of(self, name: str) -> Floats:
        """Returns a total in each episode; nan where an episode has none."""
        return np.array([totals.get(name, np.nan) for totals in self.totals])

    @property
    def returns(self) -> Floats:
        return self.of("return")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs of a task."""

    worst: Rung
    best: Rung
    rule: Rung
    oracle: Rung
    policy: Rung | None

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return tuple(filter(None, (self.worst, self.best, self.rule, self.oracle, self.policy)))

    def pays(self, cost: str) -> npt.NDArray[np.bool_]:
        """Returns the episodes in which the oracle pays. `cost` is a total of which it then has less; "": the return counts."""
        above = self.oracle.returns - self.best.returns
        enough = SHARE_OF_DISTANCE * (self.best.returns - self.worst.returns)
        is_cheaper = self.oracle.of(cost) <= (1 - SHARE_OF_COST) * self.best.of(cost)
        pays: npt.NDArray[np.bool_] = is_cheaper if cost else above >= np.maximum(enough, 0)
        return pays & (above > 0)

    @property
    def reached(self) -> float:
        """The share of the distance from the best constant to the oracle that the policy reaches."""
        assert self.policy is not None
        low, high, mean = (interquartile_mean(rung.returns) for rung in (self.best, self.oracle, self.policy))
        return (mean - low) / (high - low)


def interquartile_mean(values: Floats) -> float:
    """Returns the mean of the middle half."""
    return float(_stats().trim_mean(values, 0.25))


def interval(values: Floats) -> tuple[float, float]:
    """Returns the bootstrap interval of the interquartile mean. Equal values give an equal interval."""
    stats = _stats()

    def mean(sample: Floats, axis: int) -> Floats:
        means: Floats = stats.trim_mean(sample, 0.25, axis=axis)
        return means

    drawn = stats.bootstrap((values,), mean, confidence_level=CONFIDENCE, method="percentile", rng=np.random.default_rng(1))
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def measure(
    task: Task,
    seeds: Iterable[int],
    policy: PolicyForm | None,
    overrides: Sequence[str],
    say: Callable[[str], object],
    levels: Sequence[float] = LEVELS,
) -> Ladder:
    """Runs the ladder of a task, and a policy if there is one, on the held-out episodes of these seeds.

    Args:
        task: The task.
        seeds: The numbers of the episodes.
        policy: As controller.policy.
        overrides: Texts "key=value" that replace keys of the task.
        say: Is told of each policy before its episodes.
        levels: The constants.
    """
    _stats()
    spec, seeds = task.spec(*overrides), list(seeds)

    def rung(name: str, acts: PolicyForm, *keys: str) -> Rung:
        say(name)
        return Rung(name, evaluate(task.spec(*overrides, *keys) if keys else spec, acts, seeds))

    measured = None if policy is None else rung(str(policy), policy)  # first: a policy that does not fit shows at once
    constants = {level: rung(f"constant {level:g}", partial(Constant, level=level)) for level in levels}
    *_, best_level = ranked = sorted(levels, key=lambda level: interquartile_mean(constants[level].returns))
    worst, best = constants[ranked[0]], constants[best_level]
    if task.differ:
        say("search for a constant with a level for each number")
        found = search(spec, seeds[:SEARCHED_EPISODES], best_level, levels)
        shown = ", ".join(f"{level:g}" for level in found) if len(found) <= SHOWN_LEVELS else f"with {len(found)} levels"
        each = rung(f"constant {shown}", partial(Constant, level=found))
        best = max(best, each, key=lambda constant: interquartile_mean(constant.returns))
    rule = rung(task.rule, "max", *task.rule_keys)
    return Ladder(worst, best, rule, rung("oracle", task.oracle), measured)


def search(spec: Spec, seeds: Sequence[int], level: float, levels: Sequence[float]) -> Floats:
    """Returns the best levels of the numbers of an action, as far as one round of coordinate search finds them.

    Args:
        spec: The spec of the episodes.
        seeds: The numbers of the episodes.
        level: The level of all numbers at the start.
        levels: What each number, one after another, may have instead.
    """

    def mean(levels: Floats) -> float:
        return float(np.mean([totals["return"] for totals in evaluate(spec, partial(Constant, level=levels), seeds)]))

    best = np.full(len(Session(spec).scene.value_names), level)
    best_mean = mean(best)
    for number, other in product(range(len(best)), levels):
        tried = best.copy()
        tried[number] = other
        if other != best[number] and (tried_mean := mean(tried)) > best_mean:
            best, best_mean = tried, tried_mean
    return best


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise UsageError("evaluate: intervals need scipy, which is not installed; pip install 'dc-gym[evaluate]'") from None
    return stats
