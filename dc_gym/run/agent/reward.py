# SPDX-License-Identifier: Apache-2.0
"""Named rewards, and weighted sums of them such as `0.5*goodput - 2*queueing_delay`.

A reward is one function and one call of `register`. Its arguments are the frame measured *after* the action, the scene, and the
action as shares of the hosts' line rates. Means are over the hosts that act: all hosts or the senders, by agent.hosts.

The rewards of Iroko's thesis (Ruffy, UBC 2019, equation 4.3), of its code (dcgym/iroko, 7941dd2) and of its workshop paper
(f54d55c) are unchanged, on queues of switch ports alone. The measured rewards are ours. A *cost* is better when smaller; a sum
that adds one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from dc_gym.base import methods, usercode
from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.results.metrics.fairness import jain
from dc_gym.run.agent import measures
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.ranges import tell_outside
from dc_gym.run.agent.scene import Scene

Compute = Callable[[Frame, Scene, Floats], float]
Range = Callable[[Scene], tuple[float, float]]
INFINITY = float("inf")
STEP_QUEUE = 0.30
"""The queue occupancy above which Iroko's step reward switches to its penalty."""


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward: one number for each step."""

    name: str
    cost: bool
    """True if a smaller value is better."""
    range: Range
    """The bounds of the reward for any frame; infinite where there is no bound."""
    formula: str
    """The formula in words; a: commanded shares of the line rate, q: occupancies of switch ports."""
    compute: Compute
    flows: bool = True
    """True if the reward reads sampled values of flows: counts, windows, round trips. Starts and ends of flows are known without
    samples."""

    def value(self, frame: Frame, scene: Scene, share: Floats) -> float:
        """Returns the reward of a step.

        Args:
            frame: The step, measured after the action.
            scene: The scene.
            share: Rate in force over line rate of each acting host, as [hosts].

        Raises:
            AgentError: The function does not return one finite number.
        """
        number = self.compute(frame, scene, share)
        if not (isfinite(number) if isinstance(number, float) else _is_number(number)):
            problem = f"agent.reward: reward {self.name!r} gives {usercode.shown(number)}"
            raise AgentError(f"{problem} instead of one finite number; mend the reward")
        tell_outside(f"reward {self.name}", number, *self.range(scene), "it counts as it is; register another range")
        return number


def _is_number(number: object) -> bool:
    """Returns whether this is one finite number. NumPy's numbers and arrays without dimensions count."""
    if isinstance(number, (np.generic, np.ndarray)):
        return number.shape == () and number.dtype.kind in "biuf" and bool(np.isfinite(number))
    return isinstance(number, int)


_registry: dict[str, Reward] = {}


def register(
    name: str, range: tuple[float, float] | Range, formula: str, compute: Compute, *, cost: bool = False, flows: bool = True
) -> None:
    """Registers a reward. Each name can be registered once.

    Args:
        name: Its name in agent.reward.
        range: The smallest and the largest value, or a function of the scene that returns them.
        formula: The definition in words, for lists and pages.
        compute: `compute(frame, scene, share)` returns one finite float.
        cost: Less is better, so a spec must subtract it.
        flows: False saves the lab from sampling every flow in each step.

    Raises:
        AgentError: The name is taken or no name, or the function has other parameters.
    """
    if not re.fullmatch(NAME, name):
        raise AgentError(f"reward {name!r} is not a valid name; use lower-case letters, digits and _")
    if name in _registry:
        raise AgentError(f"reward {name!r} is registered already; choose another name")
    usercode.check_call(AgentError, f"reward {name!r}", compute, "frame", "scene", "share")
    if callable(range):
        usercode.check_call(AgentError, f"reward {name!r}: its range", range, "scene")
    bounds = range if callable(range) else lambda scene: range
    _registry[name] = Reward(name, cost, bounds, formula, compute, flows)


def rewards() -> tuple[Reward, ...]:
    """Returns all rewards, in the order of registration."""
    return tuple(_registry.values())


NAME = r"[a-z][a-z0-9_]*"
_TERM = re.compile(rf"\s*([+-]?)\s*(?:([0-9]+(?:\.[0-9]*)?(?:e-?[0-9]+)?|\.[0-9]+)\s*\*\s*)?({NAME})\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WeightedReward:
    """A weighted sum of rewards."""

    text: str
    terms: tuple[tuple[float, Reward], ...]

    @classmethod
    def of(cls, text: str) -> WeightedReward:
        """Parses a text of the form: [+|-] [number *] name, repeated."""
        terms: list[tuple[float, Reward]] = []
        at = 0
        while at < len(text) or not terms:
            match = _TERM.match(text, at)
            if match is None or (terms and not match[1]):
                rest = repr(text[at:]) if text[at:].strip() else "its end"
                raise AgentError(
                    f"agent.reward: {text!r} makes no sense at {rest}; write it like '0.5*goodput - 2*queueing_delay'"
                )
            terms.append(_term(text, match))
            at = match.end()
        return cls(text, tuple(terms))

    def __call__(self, frame: Frame, scene: Scene, share: Floats) -> float:
        """Returns the sum of the weighted rewards; the arguments are as for `score`."""
        return sum(weight * reward.value(frame, scene, share) for weight, reward in self.terms)

    def score(self, frame: Frame, scene: Scene, share: Floats) -> tuple[float, dict[str, float]]:
        """Returns the sum, and the value of each reward before its weight, by name.

        Args:
            frame: The step, measured after the action.
            scene: The scene.
            share: As in Reward.value.
        """
        parts = {reward.name: reward.value(frame, scene, share) for _, reward in self.terms}
        return sum(weight * parts[reward.name] for weight, reward in self.terms), parts

    @property
    def reads_flows(self) -> bool:
        """True if any reward of the sum needs samples of flows."""
        return any(reward.flows for _, reward in self.terms)

    def range(self, scene: Scene) -> tuple[float, float]:
        """Returns the bounds of the sum."""
        low, high = 0.0, 0.0
        for weight, reward in self.terms:
            ends = sorted(weight * end for end in reward.range(scene))
            low, high = low + ends[0], high + ends[1]
        return low, high


def _term(text: str, match: re.Match[str]) -> tuple[float, Reward]:
    sign, number, name = match.groups()
    if name not in _registry:
        raise AgentError("agent.reward: " + unknown("reward", name, _registry))
    weight = float(number or 1) * (-1 if sign == "-" else 1)
    if not 0 < abs(weight) < INFINITY:
        raise AgentError(f"agent.reward: {text!r} weighs {name} by {weight:g}; leave it out, or give another number")
    if _registry[name].cost and weight > 0:
        raise AgentError(f"agent.reward: {text!r} adds {name}, which is better when smaller; write -{name}")
    return weight, _registry[name]


def _queues(frame: Frame, scene: Scene) -> Floats:
    """Returns the occupancies of the switch ports."""
    values: Floats = measures.occupancy(frame, scene)[scene.switch_rows]
    return values


def _equation(occupancy: Floats, share: Floats) -> float:
    """Computes equation 4.3: R = A - 2 A Q."""
    mean = float(share.sum()) / len(share)  # the same as mean(), in half the time
    return mean - 2 * mean * float(occupancy.max())


def _thesis(frame: Frame, scene: Scene, share: Floats) -> float:
    return _equation(_queues(frame, scene), share)


def _thesis_all(frame: Frame, scene: Scene, share: Floats) -> float:
    return _equation(measures.occupancy(frame, scene), share)


def _queue(frame: Frame, scene: Scene, share: Floats) -> float:
    return -(float(_queues(frame, scene).sum()) ** 2)


def _fair_queue(frame: Frame, scene: Scene, share: Floats) -> float:
    limited = share[share < 1]
    fairness = jain(limited) if len(limited) else 1.0
    return (float(share.mean()) + (fairness or 0.0)) * (1 - float(_queues(frame, scene).max()))


def _step(frame: Frame, scene: Scene, share: Floats) -> float:
    mean, longest = float(share.mean()), float(_queues(frame, scene).max())
    if longest > STEP_QUEUE:
        return -mean - longest
    return mean * (2 - measures.gini(share)) - longest


def _workshop(frame: Frame, scene: Scene, share: Floats) -> float:
    queues = _queues(frame, scene)
    sent = float(frame.utilization(scene.rate_bps)[scene.host_row].sum())
    return sent - len(queues) / 2 * float((queues**2).sum()) - float(share.std())


def _goodput(frame: Frame, scene: Scene, share: Floats) -> float:
    fair = measures.fair_goodput_bps(frame, scene)
    return float(np.add.reduce(frame.goodput_bps())) / fair if fair else 0.0


def _queueing_delay(frame: Frame, scene: Scene, share: Floats) -> float:
    return float(measures.mean_over(measures.queueing_delays_ns(frame, scene), frame.under_way)) / scene.base_rtt_ns


def _switch_delay(frame: Frame, scene: Scene, share: Floats) -> float:
    return float(measures.mean_over(measures.queue_delays_ns(frame, scene)[1], frame.under_way)) / scene.base_rtt_ns


def _busy(frame: Frame, scene: Scene) -> tuple[Floats, Floats]:
    """Returns of the switch ports that sent in the step: the share of the line that they used, and the delay of their queues."""
    rows = scene.switch_rows
    used = (frame.change("tx_bytes") / measures.carried_bytes(frame, scene))[rows]
    busy = used > 0
    return used[busy], measures.port_delays_ns(frame, scene)[rows][busy] / scene.base_rtt_ns


def _port_utilization(frame: Frame, scene: Scene, share: Floats) -> float:
    used, _ = _busy(frame, scene)
    return float(used.mean()) if len(used) else 0.0


def _port_delay(frame: Frame, scene: Scene, share: Floats) -> float:
    _, delays = _busy(frame, scene)
    return float(delays.mean()) if len(delays) else 0.0


def _slowdown(frame: Frame, scene: Scene, share: Floats) -> float:
    ratios = measures.slowdowns(frame)
    return float(ratios.mean()) if len(ratios) else 0.0


def _drops(frame: Frame, scene: Scene, share: Floats) -> float:
    carried = measures.carried_bytes(frame, scene)[scene.host_rows]
    return float(frame.change("drops").sum()) * scene.frame_bytes / float(carried.sum())


def _switch_ports(scene: Scene) -> float:
    return float(np.count_nonzero(scene.is_switch))


register("thesis", (-1, 1), "A - 2 A Q, A = mean(a), Q = max(q): equation 4.3 of Iroko's thesis", _thesis, flows=False)
register("thesis_all", (-1, 1), "the same with Q over all ports, the hosts' included", _thesis_all, flows=False)
register("action", (0, 1), "mean(a)", lambda frame, scene, share: float(share.mean()), flows=False)
register("fairness", (0, 1), "Jain's index of a", lambda frame, scene, share: jain(share) or 0.0, flows=False)
register(
    "active_flows",
    (0, INFINITY),
    "flows under way at the end of the step: the sum over an episode is that of all completion times, in steps",
    lambda frame, scene, share: float(np.count_nonzero(frame.under_way)),
    cost=True,
    flows=False,
)
register("gini", (0, 1), "Gini's coefficient of a", lambda frame, scene, share: measures.gini(share), cost=True, flows=False)
register("std_dev", (-0.5, 0), "-std(a)", lambda frame, scene, share: -float(share.std()), flows=False)
register("queue", lambda scene: (-(_switch_ports(scene) ** 2), 0), "-(sum of q)^2", _queue, flows=False)
register("joint_queue", (-1, 1), "mean(a) (1 - 2 max(q)): equation 4.3 under the code's name", _thesis, flows=False)
register(
    "fair_queue", (0, 2), "(mean(a) + Jain's index of those a below 1, 1 without any) (1 - max(q))", _fair_queue, flows=False
)
register("step", (-2, 2), "max(q) > 0.3: -mean(a) - max(q); else mean(a) (2 - Gini(a)) - max(q)", _step, flows=False)
register(
    "workshop",
    lambda scene: (-(_switch_ports(scene) ** 2) / 2 - 0.5, INFINITY),
    "sum over hosts of what the switch receives over the line - ports / 2 x sum of q^2 - std(a)",
    _workshop,
    flows=False,
)
register("goodput", (0, INFINITY), "payload delivered over the step / max-min fair total of the flows at work", _goodput)
register("queueing_delay", (0, INFINITY), "mean delay of flows under way, end to end, in base RTTs", _queueing_delay, cost=True)
register("switch_delay", (0, INFINITY), "the same in the switches on their paths alone", _switch_delay, cost=True, flows=False)
register(
    "port_utilization",
    (0, INFINITY),
    "mean over the switch ports that sent in the step of bytes sent over what the line carries",
    _port_utilization,
    flows=False,
)
register(
    "port_delay",
    (0, INFINITY),
    "mean over the same ports of the time that their queues take to leave, in base RTTs",
    _port_delay,
    cost=True,
    flows=False,
)
register(
    "slowdown",
    (0, INFINITY),
    "mean of FCT / ideal over the flows that ended in the step; 0: none",
    _slowdown,
    cost=True,
    flows=False,
)
register(
    "jain", (0, 1), "Jain's index of what the flows at work were delivered", lambda f, s, a: float(measures.jain_of_goodput(f))
)
register(
    "drops",
    (0, INFINITY),
    "packets dropped at any port, as full frames, over what all hosts' lines carry",
    _drops,
    cost=True,
    flows=False,
)
for _method in methods.by_name().values():
    for _name, _reward in _method.rewards.items():
        register(_name, _reward.bounds, _reward.formula, _reward.compute, cost=_reward.cost, flows=_reward.flows)
