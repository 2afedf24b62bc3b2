# SPDX-License-Identifier: Apache-2.0
"""A policy that acts from a policy file (docs/policy-file.md), for the whole network or for each host. The file is checked
against the network first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.base.units import format_rate, parse_rate_bps
from dc_gym.envs.frame import Frame
from dc_gym.envs.host_observation import HostObserver
from dc_gym.envs.observation import Vector
from dc_gym.envs.policies import PolicyContext
from dc_gym.envs.scene import Scene
from dc_gym.nets.agent_policy import HOSTS, AgentPolicy

HINT = "; give the topology and the [agent] keys that it was trained with"
TIMING = ("interval", "latency", "burst", "limit", "tbf", "control", "control_delay", "control_loss", "control_timeout")
"""Keys of [agent] that may differ from those of the training. Differences are reported, since an action then has another effect
than in the training."""


class FilePolicy:
    """A policy with the weights of a file. A policy for single hosts is evaluated once for each host, with that host's
    observation."""

    def __init__(self, path: Path, context: PolicyContext) -> None:
        self._net = AgentPolicy.read(path)
        self.settings = self._net.settings
        self._observer: HostObserver | None = None
        try:
            if self._net.agents == HOSTS:
                observer, see = context.observer, self._net.settings.get("see", "path")
                self._observer = HostObserver(context.scene, observer.asked, observer.history, see)
        except AgentError as error:
            raise AgentError(f"{path}: the policy is for each host, and {error}") from None
        if why := _misfit(self._net, context, self._observer):
            raise AgentError(f"{path}: {why}")

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        if self._observer is None:
            return self._net.act(observation)
        return np.concatenate([self._net.act(own) for own in self._observer.observe(frame)])


def differences(trained: Mapping[str, Any], agent: Mapping[str, Any]) -> str:
    """Returns the timing keys of [agent] that differ from those of the training, as text; empty if none differ."""
    others = [name for name in TIMING if name in trained and trained[name] != agent.get(name)]
    return ", ".join(f"agent.{name} = {_said(trained[name])} (here {_said(agent.get(name))})" for name in others)


def _said(value: Any) -> str:
    return "its default" if value is None else str(value)


def _misfit(net: AgentPolicy, context: PolicyContext, own: HostObserver | None) -> str:
    """Returns why the policy does not fit this network; empty if it fits."""
    seen, acting = (own.names, net.hosts) if own else (context.observer.names, context.scene.hosts)  # one for each fits any hosts
    for what, has, gives in (("acts on", net.hosts, acting), ("observes", net.observation, seen)):
        if len(has) != len(gives):
            return f"the policy {what} {len(has)} values ({_some(has)}), and the network has {len(gives)} ({_some(gives)}){HINT}"
        for number, (mine, theirs) in enumerate(zip(has, gives, strict=True)):
            if mine != theirs:
                return f"the policy {what} {mine!r} as value {number}, and the network has {theirs!r}{HINT}"
    trained, head = net.settings.get("action"), context.action.head.name
    if trained is not None and trained != head:
        return f"the policy was trained with action {trained!r}, and the network has {head!r}{HINT}"
    if why := _other_floor(net, context.scene):
        return why + HINT
    low, high = context.action.space.low, context.action.space.high  # bounds are equal for all hosts
    if not (np.allclose(net.low, low[: len(net.low)]) and np.allclose(net.high, high[: len(net.high)])):
        ends = f"{net.low.min():g}..{net.high.max():g}", f"{low.min():g}..{high.max():g}"
        return f"the policy's actions are {ends[0]}, and those of the network {ends[1]}{HINT}"
    return ""


def _other_floor(net: AgentPolicy, scene: Scene) -> str:
    """Returns a message if the floor differs from that of the training. Actions map to rates from the floor to the line rate, so
    with another floor the same action gives another rate."""
    floor = net.settings.get("floor")
    if floor is None or np.array_equal(np.minimum(float(parse_rate_bps(floor)), scene.line_bps), scene.floor_bps):
        return ""
    return f"the policy was trained with floor {floor}, and the network has {format_rate(int(scene.floor_bps.max()))}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, .. {names[-1]}"
