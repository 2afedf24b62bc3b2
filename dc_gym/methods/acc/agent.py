# SPDX-License-Identifier: Apache-2.0
"""Policy `acc`: ACC's agent (Yan et al., SIGCOMM 2021), which sets Kmin, Kmax and Pmax of the queues of a switch (docs/acc.md).

With agent.agents = "switches" each switch has an agent of its own, which makes one inference a queue. It reads the counters of
its own queues, whatever agent.observe is, and has a reward for each queue, whatever agent.reward is.

An agent that learns makes one update of its net at each decision. Its replay takes in the other switches' transitions once in
controller.exchange, through a global replay (section 3.4).

With agent.agents = "central" and controller.groups = "direction" it is C-ACC (section 5.4): one agent, and one setting for all
uplinks and one for all downlinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.base.npz import load_arrays
from dc_gym.methods.acc.double_dqn import DoubleDqn
from dc_gym.methods.acc.keys import INT8, UNTRAINED, AccKeys
from dc_gym.methods.acc.policy import SHIPPED, AccPolicy, misfit
from dc_gym.methods.acc.q_int8 import IntegerQNetwork
from dc_gym.methods.acc.queues import AccQueues, Actions, Slot
from dc_gym.methods.acc.replay import Replay, Transitions
from dc_gym.methods.acc.template import Template, template_of
from dc_gym.run.agent.agents import CENTRAL
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext

GLOBAL_REPLAY = "acc global replay"
GLOBAL_FACTOR = 4
"""The global replay holds this many times the transitions that a switch keeps. Ours."""
GUIDE = "give a policy file of `dcgym method acc train`, or the learned.npz of a run with policy acc"


class AccAgent:
    """The agent of one switch."""

    def __init__(self, context: PolicyContext, keys: AccKeys) -> None:
        self._template, self._keys, self._action = template_of(keys.template), keys, context.action
        self._queues = AccQueues(
            context.scene,
            self._template,
            worth=keys.worth,
            throughput_weight=keys.throughput_weight,
            idle=keys.idle,
            groups=keys.groups,
        )
        self._random = np.random.default_rng(context.seed)
        self._learner, self._explored = _learner(context, keys, self._template, self._random)
        self._inferences = self._skipped = 0
        self._decided: tuple[Slot, Actions, npt.NDArray[np.intp]] | None = None
        if keys.constant is not None:
            self._check_constant(keys.constant)
        self._integer = self._rounded() if keys.weights == INT8 else None
        self._exchange: _Exchange | None = None
        if keys.learn:
            interval_ns = max(keys.exchange_ns * context.scene.scale // context.scene.step_ns, 1)
            self._exchange = _Exchange(context, keys, self._template.inputs, interval_ns)

    def _check_constant(self, number: int) -> None:
        if self._keys.learn:
            raise AgentError(f"controller.constant = {number}: an agent that keeps one action learns none; leave out one")
        if number >= len(self._template.actions):
            last = len(self._template.actions) - 1
            raise AgentError(f"controller.constant = {number}: template {self._template.name} has actions 0 to {last}; give one")

    def _rounded(self) -> IntegerQNetwork:
        if self._keys.learn:
            raise AgentError(f'controller.weights = "{INT8}": a net learns in floats; leave out controller.learn, or weights')
        return IntegerQNetwork.of(self._learner.net)

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        slot = self._queues.observe(frame)
        if self._exchange is not None:
            self._learn(self._exchange, slot, frame)
        actions = self._choose(slot)
        self._queues.settings = actions
        return self._action.exactly(self._queues.values(actions))

    def _choose(self, slot: Slot) -> Actions:
        if self._keys.constant is not None:
            return np.full(len(self._queues), self._keys.constant, np.int64)
        actions, busy = self._queues.settings.copy(), np.flatnonzero(~slot.idle)
        self._inferences += len(busy)
        self._skipped += len(slot.idle) - len(busy)
        if len(busy):
            actions[busy] = self._best(slot.states[busy])
        if self._exchange is not None:
            explore = self._random.random(len(busy)) < self._share_at_random()
            drawn = self._random.integers(len(self._template.actions), size=len(busy))
            actions[busy] = np.where(explore, drawn, actions[busy])
            self._explored += 1
            self._decided = (slot, actions, busy)
        return actions

    def _best(self, states: npt.NDArray[np.floating]) -> Actions:
        if self._integer is not None:
            return self._integer.best(states)
        actions: Actions = self._learner.net(states).argmax(axis=1)
        return actions

    def _share_at_random(self) -> float:
        keys = self._keys
        decayed: float = keys.explore * 0.5 ** (self._explored / keys.half_life)
        return max(keys.explore_least, decayed)

    def _learn(self, exchange: _Exchange, slot: Slot, frame: Frame) -> None:
        """Adds the results of the last decisions, and updates the net."""
        if frame.step and self._decided is not None:
            before, actions, busy = self._decided
            exchange.add(Transitions(before.states[busy], actions[busy], slot.rewards[busy], slot.states[busy]))
            exchange.advance(self._random)
            self._learner.learn(exchange.local, self._random)
        self._decided = None

    def state(self) -> Mapping[str, Any]:
        """Returns how many inferences were made and saved and, if the agent learns, its template, net and replay."""
        if self._keys.constant is not None:
            return {}
        state: dict[str, Any] = {"inferences": np.int64(self._inferences), "skipped": np.int64(self._skipped)}
        if self._exchange is None:
            return state
        template = self._template
        state |= {"actions": template.table, "interval_ns": np.int64(template.interval_ns), "explored": np.int64(self._explored)}
        state |= {"history": np.int64(template.history), "levels": np.bool_(template.queue == "levels")}
        return state | self._learner.arrays() | self._exchange.local.arrays("replay_")


class _Exchange:
    """A switch's replay and its exchange with the global one."""

    def __init__(self, context: PolicyContext, keys: AccKeys, inputs: int, steps: int) -> None:
        self.local = Replay(keys.replay, inputs)
        self._global: Replay = context.shared.setdefault(GLOBAL_REPLAY, Replay(GLOBAL_FACTOR * keys.replay, inputs))
        self._steps, self._count, self._given = steps, 0, 0

    def add(self, new: Transitions) -> None:
        self.local.add(new)

    def advance(self, random: np.random.Generator) -> None:
        """Counts a step. At an exchange, gives new transitions to the global replay, and adds a draw of half its own size."""
        self._count += 1
        if self._count % self._steps:
            return
        self._global.add(self.local.since(self._given))
        if len(self._global):
            self.local.add(self._global.draw(random, max(1, len(self.local) // 2)))
        self._given = self.local.added


def _learner(context: PolicyContext, keys: AccKeys, template: Template, random: np.random.Generator) -> tuple[DoubleDqn, int]:
    """Returns the net that controller.start selects, and the number of decisions for which it has explored already."""
    if keys.start == UNTRAINED:
        return DoubleDqn.random(template.inputs, len(template.actions), keys.dqn, random), 0
    path = keys.start if isinstance(keys.start, Path) else SHIPPED.get(keys.start)
    if path is None:
        raise AgentError(f"controller.start: {keys.start!r} is unknown; {GUIDE}, or {', '.join((UNTRAINED, *SHIPPED))}")
    arrays = load_arrays(path, GUIDE)
    if "manifest" in arrays:
        policy = AccPolicy.read(path)
        _check_same(path, policy.template, template)
        return DoubleDqn(policy.net, keys.dqn), 0
    return _learned(path, arrays, context, keys, template)


def _learned(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], context: PolicyContext, keys: AccKeys, template: Template
) -> tuple[DoubleDqn, int]:
    """Returns the state of the agent of the same name after another run."""
    prefix = "" if context.agents == CENTRAL else f"{context.name}."
    agent_arrays = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    if "W0" not in agent_arrays:
        names = sorted({name.rpartition(".")[0] or "a central agent" for name in arrays if name.endswith("W0")})
        has = f"it has {', '.join(names)}" if names else "nobody has learned in it"
        raise AgentError(f"{path}: has no agent {context.name}: {has}; {GUIDE} on this network")
    try:
        actions = tuple((int(kmin), int(kmax), int(pmax)) for kmin, kmax, pmax in agent_arrays["actions"])
        queue = "levels" if agent_arrays["levels"] else "linear"
        was = Template(path.name, int(agent_arrays["interval_ns"]), int(agent_arrays["history"]), actions, queue)
        _check_same(path, was, template)
        learner = DoubleDqn.of_arrays(agent_arrays, keys.dqn)
        if why := misfit(learner.net, template):
            raise AgentError(why)
        return learner, int(agent_arrays["explored"])
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(f"{path}: agent {context.name}: {error} is missing or wrong; {GUIDE}") from None


def _check_same(path: Path, was: Template, template: Template) -> None:
    if why := was.difference(template):
        raise AgentError(
            f"{path}: was trained with another template: it {why}; give controller.template what it was trained with"
        )
