# SPDX-License-Identifier: Apache-2.0
"""A policy that acts from a policy file (docs/policy-file.md), for the whole network or for each of many agents. The file is
checked against the network first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.base.units import format_rate, parse_rate_bps
from dc_gym.ctrl.actuators import selection
from dc_gym.nets.agent_kinds import CENTRAL, HOSTS
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.run.agent.agent_observation import AgentObserver, observer_of
from dc_gym.run.agent.agents import AgentRows, divide
from dc_gym.run.agent.channel import ObservationChannels
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.scene import RATE, Scene
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec import AgentSpec

HINT = "; give the topology and the [agent] keys that it was trained with"
TIMING = ("interval", "latency", "burst", "limit", "tbf", "control", "control_delay", "control_loss", "control_timeout")
"""Keys of [agent] that may differ from the training's. Differences are reported, since an action then has another effect than in
the training."""
CONTROLLER, RATES = "controller", "rates"
"""The settings of a policy file that are no keys of [agent]."""
NAMES = {CONTROLLER: "controller.name", RATES: "rates of links"}
"""The names of these for the user."""


class FilePolicy:
    """A policy with the weights of a file. A policy for one of many agents is evaluated once for each, with its observation."""

    def __init__(self, path: Path, context: PolicyContext) -> None:
        self._net = AgentPolicy.read(path)
        self.settings = self._net.settings
        self._observer: AgentObserver | None = None
        self._agents: tuple[AgentRows, ...] = ()
        self._channels: ObservationChannels | None = None
        kind, scene, observer = self._net.agents, context.scene, context.observer
        if context.agents not in (CENTRAL, kind):
            raise AgentError(f'{path}: the policy is for agents "{kind}", and agent.agents is "{context.agents}"; leave that out')
        try:
            if kind != CENTRAL:
                see = self._net.settings.get("see", "path") if kind == HOSTS else None
                self._agents = divide(scene, kind)
                self._observer = observer_of(self._agents, scene, observer.asked, observer.history, kind, see)
        except AgentError as error:
            raise AgentError(f"{path}: the policy is for each of the {kind}, and {error}") from None
        if why := _misfit(self._net, context, self._observer, self._agents):
            raise AgentError(f"{path}: {why}")

    def open(self, agent: AgentSpec, seed: int) -> None:
        """Opens the way of the observations of an episode, if the policy is for many agents."""
        self._channels = ObservationChannels(agent, seed, [member.name for member in self._agents])

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        if self._observer is None:
            return self._net.act(observation)
        action = np.empty(sum(len(agent.values) for agent in self._agents))
        observations: Sequence[Vector] = self._observer.observe(frame)
        if self._channels is not None:
            observations = self._channels.deliver(observations)
        for agent, agent_observation in zip(self._agents, observations, strict=True):
            action[agent.values] = self._net.act(agent_observation)
        return action


def circumstances(experiment: Experiment) -> dict[str, Any]:
    """Returns a policy file's record of the experiment that it was trained on: the keys of [agent], the congestion control and
    the rates of the links."""
    spec, rates = experiment.spec, {way.rate_bps for cable in experiment.graph.cables for way in cable.directions()}
    agent: dict[str, Any] = spec.to_dict()["agent"]
    return agent | {CONTROLLER: spec.controller.name, RATES: [format_rate(rate) for rate in sorted(rates)]}


def differences(trained: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Returns the circumstances that differ from the training's, as text; empty if none differ."""
    others = [name for name in (*TIMING, CONTROLLER, RATES) if name in trained and trained[name] != here.get(name)]
    return ", ".join(
        f"{NAMES.get(name, f'agent.{name}')} = {_said(trained[name])} (here {_said(here.get(name))})" for name in others
    )


def _said(value: Any) -> str:
    if isinstance(value, list):
        return _some(tuple(map(str, value)))
    return "its default" if value is None else str(value)


def _misfit(net: AgentPolicy, context: PolicyContext, observer: AgentObserver | None, agents: tuple[AgentRows, ...]) -> str:
    """Returns why the policy does not fit this network; empty if it fits."""
    low, high = context.action.space.low, context.action.space.high
    if observer is None:
        if why := _differ("acts on", net.hosts, context.scene.value_names):
            return why
        if why := _differ("observes", net.observation, context.observer.names):
            return why
    for agent, names in zip(agents, observer.names_of if observer else (), strict=True):
        if why := _differ("observes", net.observation, names):
            return why
        if len(agent.values) != len(net.low):
            return f"the policy sets {len(net.low)} values, and {agent.name} has {len(agent.values)}{HINT}"
    sets, actuators = net.settings.get("actuators", RATE), [actuated.actuator.name for actuated in context.scene.actuated]
    if set(selection.chosen(sets)) != set(actuators):
        return f"the policy was trained to set {sets}, and the network's agents set {','.join(actuators)}{HINT}"
    trained, head = net.settings.get("action"), context.action.name
    if trained is not None and trained != head:
        return f"the policy was trained with action {trained!r}, and the network has {head!r}{HINT}"
    if context.scene.rates is not None and (why := _other_floor(net, context.scene)):
        return why + HINT
    if not (np.allclose(net.low, low[: len(net.low)]) and np.allclose(net.high, high[: len(net.high)])):
        ends = f"{net.low.min():g}..{net.high.max():g}", f"{low.min():g}..{high.max():g}"
        return f"the policy's actions are {ends[0]}, and those of the network {ends[1]}{HINT}"
    return ""


def _differ(verb: str, has: tuple[str, ...], gives: tuple[str, ...]) -> str:
    """Returns the first difference between the names of the policy and the names of the network; empty if there is none."""
    if len(has) != len(gives):
        return f"the policy {verb} {len(has)} values ({_some(has)}), and the network has {len(gives)} ({_some(gives)}){HINT}"
    for number, (policy_name, network_name) in enumerate(zip(has, gives, strict=True)):
        if policy_name != network_name:
            return f"the policy {verb} {policy_name!r} as value {number}, and the network has {network_name!r}{HINT}"
    return ""


def _other_floor(net: AgentPolicy, scene: Scene) -> str:
    """Returns a message if the floor differs from the training's. Actions map to rates from the floor to the line rate, so
    with another floor the same action gives another rate."""
    floor = net.settings.get("floor")
    if floor is None or np.array_equal(np.minimum(float(parse_rate_bps(floor)), scene.line_bps), scene.floor_bps):
        return ""
    return f"the policy was trained with floor {floor}, and the network has {format_rate(int(scene.floor_bps.max()))}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, .. {names[-1]}"
