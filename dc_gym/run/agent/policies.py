# SPDX-License-Identifier: Apache-2.0
"""Policies with a name: no change (TCP alone), random actions, and oracles.

A policy is constructed from a PolicyContext and maps observations to actions. A policy that needs more than the observation (an
oracle) reads it from the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dc_gym.base import usercode
from dc_gym.base.errors import AgentError
from dc_gym.ctrl.policies import KINDS
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.agents import CENTRAL, NETWORK
from dc_gym.run.agent.frame import RUNNING, WAITING, Bools, Frame
from dc_gym.run.agent.measures import fair_rates_bps
from dc_gym.run.agent.observation import Observer, Vector
from dc_gym.run.agent.scene import RATE, Scene

FAIR_SHARE = 0.98
"""The share of each line that the oracle assigns. The rest is for ACKs of flows in the other direction, and drains the queue that
a burst left."""
SUFFIX = ".npz"
"""The ending of a policy file."""


class Policy(Protocol):
    """A policy. A frame of step 0 begins an episode.

    A policy that learns while a run goes on has two more methods, which a run calls if they are there:

        observe(reward, observation)    the reward of the last action, and the observation that it led to; before the next `act`
        state()                         its learned state, as arrays by name; a run keeps it in learned.npz
    """

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns an action of the environment's action space.

        Args:
            observation: The features of agent.observe, as float32.
            frame: The step that was measured.
        """
        ...


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The arguments from which a policy is constructed."""

    scene: Scene
    """The network, and the values that the agent sets in it."""
    observer: Observer
    """The observer of the whole network."""
    action: Action
    """The action of this agent."""
    seed: int = 0
    """The seed of policies that draw random numbers. Each of many agents has its own."""
    agents: str = CENTRAL
    """The word for who is an agent (dc_gym/nets/agent_kinds.py)."""
    name: str = NETWORK
    """The agent's name, such as s1-eth3."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The keys of [controller] that the policy declares, by name."""
    observation: tuple[str, ...] = ()
    """One name for each element of this agent's observation."""
    shared: MutableMapping[str, Any] = field(default_factory=dict)
    """The things that the agents of one run have in common, by name. The first agent that needs one puts it here."""


def register(name: str, make: Callable[..., Policy], keys: Any = None) -> None:
    """Registers a policy as a value of controller.policy. Each name can be registered once.

    Args:
        name: The value.
        make: `make(context, keys)`, or `make(context)` without keys. For many agents it is called once for each.
        keys: The dataclass of its keys, which are keys of the spec's [controller] (dc_gym/base/registry.py).
    """
    if name in KINDS or ":" in name or name.endswith(SUFFIX):
        raise AgentError(f"policy {name!r} is registered already, or reads like a file or a class; choose another name")
    KINDS.add(name, make, keys)


def names() -> tuple[str, ...]:
    """Returns the names of all registered policies."""
    return tuple(KINDS)


def make_registered(name: str, context: PolicyContext) -> Policy:
    """Returns a registered policy.

    Args:
        name: Its name.
        context: The network, and the agent that it is made for.

    Raises:
        AgentError: It has no method act that fits.
    """
    entry = KINDS[name]
    policy: Policy = entry.call(context, *entry.arguments(context.given, "controller."))
    check_act(name, policy)
    return policy


def check_act(text: str, policy: Policy) -> None:
    """Checks that a policy has a method act that takes an observation and a frame.

    Args:
        text: The name of the policy, for errors.
        policy: The policy.

    Raises:
        AgentError: It has none.
    """
    act = getattr(policy, "act", None)
    if act is None:
        raise AgentError(f"controller.policy: policy {text!r} gives {usercode.shown(policy)}, which has no method act; add one")
    usercode.check_call(AgentError, f"controller.policy: {text!r}: act", act, "observation", "frame")


def checked_action(answer: object, name: str, size: int) -> npt.NDArray[np.floating]:
    """Returns the action of one of many agents if it has the right size.

    Args:
        answer: The return value of the policy.
        name: The agent, for errors.
        size: The numbers of its action space.

    Raises:
        AgentError: It has another size, or is no array of numbers.
    """
    try:
        action = np.asarray(answer, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise AgentError(f"action: that of {name} is {usercode.shown(answer)}; give {size} numbers") from None
    if action.shape != (size,):
        raise AgentError(f"action: that of {name} has {action.size} numbers, and it sets {size} values; give one for each")
    return action


def checked_state(state: object) -> dict[str, npt.NDArray[Any]]:
    """Returns a policy's state if it can be kept: plain arrays by name."""
    if not isinstance(state, Mapping):
        raise AgentError(f"controller.policy: state gives {usercode.shown(state)} instead of arrays by name; mend the method")
    arrays = {str(name): np.asarray(value) for name, value in state.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise AgentError(f"controller.policy: state gives {name!r} of {array.dtype}, which is no array of numbers; mend it")
    return arrays


class MaxPolicy:
    """A policy that leaves everything as it is at the start: hosts are not limited, ports mark as in the spec."""

    def __init__(self, context: PolicyContext) -> None:
        self._action = context.action.from_values(context.scene.start)

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the same action always (see Policy).

        Args:
            observation: Not used.
            frame: Not used.
        """
        return self._action


class RandomPolicy:
    """A policy that draws actions uniformly from the action space."""

    def __init__(self, context: PolicyContext) -> None:
        self._rng, self._space = np.random.default_rng(context.seed), context.action.space

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns an action drawn evenly from the space.

        Args:
            observation: Not used.
            frame: Not used.
        """
        return self._rng.uniform(self._space.low, self._space.high).astype(np.float32)


class FairShare:
    """An oracle that gives each host the max-min fair rates of its running flows, as frame rates.

    A host without running flows is not limited. `ahead`: the oracle has the schedule. It counts a flow already in the step
    before it starts, and while the flows that its gate waits for are still running.
    """

    def __init__(self, context: PolicyContext, ahead: bool = False) -> None:
        actuators = [actuator_rows.actuator.name for actuator_rows in context.scene.actuated]
        if actuators != [RATE]:
            raise AgentError(
                f"controller.policy: fair shares are rates, and agent.actuators is {', '.join(actuators)}; give rate"
            )
        if context.agents != CENTRAL:
            raise AgentError(
                f'controller.policy: an oracle sees all flows, and agent.agents is "{context.agents}"; leave that out'
            )
        self._scene, self._action, self._ahead = context.scene, context.action, ahead

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the action for the max-min fair rates of the flows under way.

        Args:
            observation: Not used.
            frame: The step that was measured.
        """
        info, flows = frame.info, frame.under_way
        if self._ahead:
            flows = flows | self._due(frame)
        rates = FAIR_SHARE * fair_rates_bps(info, self._scene, flows)
        host_mask = info.host >= 0
        per_host = np.bincount(info.host[host_mask], rates[host_mask], len(self._scene.hosts))
        return self._action.from_values(np.where(per_host > 0, per_host, self._scene.line_bps))

    def _due(self, frame: Frame) -> Bools:
        """Returns the flows that start before the next action, as far as the schedule determines them."""
        waiting = frame.flows["status"] == WAITING
        due: Bools = waiting & (frame.info.start_ns <= frame.t_ns + self._scene.step_ns)
        for flow in np.flatnonzero(waiting).tolist():
            if frame.info.awaits[flow]:
                due[flow] = self._may_open(flow, frame)
        return due

    def _may_open(self, flow: int, frame: Frame) -> bool:
        """Returns whether a flow that waits at a gate may start before the next action.

        A flow that takes over from a flow of the same host is not counted: it adds nothing to that host's rate.
        """
        info, awaited = frame.info, list(frame.info.awaits[flow])
        states, step_ns = frame.flows[awaited], self._scene.step_ns
        if (states["status"] == WAITING).any():
            return False
        running = states["status"] == RUNNING
        if not running.any():
            return int(states["end_ns"].max()) + int(info.start_ns[flow]) <= frame.t_ns + step_ns
        return int(info.start_ns[flow]) <= step_ns and not (running & (info.src[awaited] == info.src[flow])).any()


class FairShareAhead(FairShare):
    """An oracle like fair-share that also has the schedule: a flow counts from the step before it starts."""

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context, ahead=True)


register("max", MaxPolicy)
register("random", RandomPolicy)
register("fair-share", FairShare)
register("fair-share-ahead", FairShareAhead)
