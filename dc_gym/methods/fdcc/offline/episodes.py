# SPDX-License-Identifier: Apache-2.0
"""Runs flows of one policy in the fluid model, and records observations, actions and rewards of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dc_gym.methods.fdcc import net as fdcc
from dc_gym.methods.fdcc.offline.actor import Actor, Floats32, Weights
from dc_gym.methods.fdcc.offline.presets import FdccPreset, teacher
from dc_gym.methods.fdcc.offline.telemetry_fluid import Incasts, Places, Signals, TelemetryFluid
from dc_gym.nets.fixed_point import Floats

CENTRAL = 7
"""The number of values of a network that critics see and actors do not; the last one is the mean of all flows' latest actions."""


class FlowPolicy(Protocol):
    """A policy that flows decide by: a training's Actor, or a TablePolicy with the integers of a NIC."""

    @property
    def memory(self) -> int:
        """The count of numbers that it stores for each flow."""

    def step(self, inputs: Any, memory: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Returns outputs o [flows] for inputs [flows, 8], and the memory [flows, memory] after them."""


class Flows:
    """All flows of a model: their memories and latest actions, and the noise in their actions."""

    def __init__(
        self, incasts: Incasts, policy: FlowPolicy, random: np.random.Generator | None = None, noise: float = 0.0
    ) -> None:
        self.model, self.policy, self._random, self._noise = TelemetryFluid(incasts), policy, random, noise
        self.shape = incasts.windows.shape
        self.memory = np.zeros((incasts.windows.size, policy.memory), np.float32)
        self.action = np.zeros(incasts.windows.size, np.float32)

    def step(self) -> Decisions | None:
        """Advances the model, and lets the flows decide that can."""
        flows = self.model.step()
        common: Floats = np.zeros(0) if self._random is None else self._random.standard_normal((self.shape[0],))
        if not len(flows):
            return None
        signals = self.model.measure(flows)
        observed = observations(signals, self.action[flows])
        before = self.memory[flows]
        output, after = self.policy.step(observed, before)
        action = np.asarray(output, np.float32)
        if self._random is not None:
            noise = self._random.standard_normal(len(flows)) + common[flows // self.shape[1]]
            action = np.clip(action + (self._noise * noise).astype(np.float32), np.float32(-1), np.float32(1))
        central = self._central(flows)
        window = self.model.windows.reshape(-1)[flows]
        self.memory[flows], self.action[flows] = after, action
        central[:, -1] = self.action.reshape(self.shape).mean(axis=1)[flows // self.shape[1]]
        self.model.decide(flows, fdcc.factor(action))
        return Decisions(flows, signals, observed, central, before, action, window)

    def _central(self, flows: Places) -> Floats32:
        """Returns the critics' view of the flows' networks, before their decisions."""
        model, net = self.model, flows // self.shape[1]
        count = model.incasts.count[net]
        windows, enforced = model.windows.reshape(-1)[flows], model.enforced()
        rates = np.minimum(model.windows, enforced / (1.0 + model.queue[:, None])).sum(axis=1) + model.incasts.background
        values = (
            count,
            windows * count,
            windows * model.incasts.packets[net],
            (enforced.sum(axis=1) / (1.0 - model.incasts.background))[net],
            1.0 + model.queue[net],
            np.maximum(rates, 2.0**-10)[net],
        )
        view = np.zeros((len(flows), CENTRAL), np.float32)
        view[:, :-1] = np.log2(np.stack(values, axis=1)) / fdcc.LOG_SPAN
        return view


def observations(state: Signals, action: npt.NDArray[Any]) -> Floats32:
    """Returns the network's inputs [flows, 8]."""
    rates = (state.rtt, state.queue, state.switch_rate, state.goodput, state.rtt_change, state.queue_change, state.ins_rate)
    return np.asarray(fdcc.to_inputs(np.stack([*rates, action], axis=1)), np.float32)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a step, one a row."""

    who: Places
    """The flows, counted through all networks."""
    seen: Signals
    observed: Floats32
    """[rows, 8]: the policy's inputs."""
    central: Floats32
    memory: Floats32
    action: Floats32
    window: Floats
    """In BDP, before the decision."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Decisions of flows, one a row; the decisions of a flow follow one another."""

    observed: Floats32
    """[rows, 8]"""
    central: Floats32
    """[rows, CENTRAL]"""
    memory: Floats32
    """[rows, 32]: before the decision."""
    action: Floats32
    taught: Floats32
    """The teacher's output for the same window."""
    reward: Floats32
    """The reward for the flow's measurements at its next decision."""
    place: npt.NDArray[np.int32]
    """0 for a flow's first decision, then 1, ..."""

    def __len__(self) -> int:
        return len(self.action)


def play(
    incasts: Incasts, weights: Weights, preset: FdccPreset, steps: int, random: np.random.Generator, noise: float
) -> Streams:
    """Runs an episode of this many steps. A flow's last decision has no reward, and is not among those returned."""
    flows = Flows(incasts, Actor(weights), random, noise)
    decisions = [decision for decision in (flows.step() for _ in range(steps)) if decision is not None]
    flow_numbers = np.concatenate([decision.who for decision in decisions])
    count = incasts.count[flow_numbers // incasts.windows.shape[1]]
    taught = teacher(np.concatenate([decision.window for decision in decisions]), count, preset.queue_per_root).astype(np.float32)
    earned = preset.reward(_joined([decision.seen for decision in decisions]), count, preset.queue_per_root)
    order = np.argsort(flow_numbers, kind="stable")
    flow_numbers = flow_numbers[order]
    position = np.arange(len(flow_numbers)) - np.searchsorted(flow_numbers, flow_numbers)
    follows = np.flatnonzero(flow_numbers[1:] == flow_numbers[:-1])  # rows whose flow decides again

    def rows(name: str) -> Any:
        return np.concatenate([getattr(decision, name) for decision in decisions])[order][follows]

    rewards = np.asarray(earned[order][follows + 1], np.float32)
    return Streams(
        observed=rows("observed"),
        central=rows("central"),
        memory=rows("memory"),
        action=rows("action"),
        taught=taught[order][follows],
        reward=rewards,
        place=position[follows].astype(np.int32),
    )


def _joined(signals: list[Signals]) -> Signals:
    names = Signals.__slots__
    return Signals(*(np.concatenate([getattr(part, name) for part in signals]) for name in names))
