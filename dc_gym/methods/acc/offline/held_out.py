# SPDX-License-Identifier: Apache-2.0
"""Measures the rewards of agents and static markings in a scenario of ACC's training (scenarios.py), or in any other lab.

All contestants have labs of the same scenario and seed, so that their rewards can be paired. A reward is computed as by
`agent.reward = "acc"`: the mean over the queues that sent in a slot, then over the slots. Which queues send depends on the
marking as well: without marks there are no CNPs. So a study may count all queues of its network instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from dc_gym.learn.session import Session
from dc_gym.methods.acc.keys import QUEUE
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.queues import AccQueues, Actions, Slot
from dc_gym.methods.acc.template import DEPLOYED, FEATURES, Template
from dc_gym.spec import Spec

AT_ONCE = 8
"""Labs at a time."""
WARMUP = 10
"""Slots at first that do not count."""


class LabCase(Protocol):
    """A network and its traffic: a scenario of trainings, or a case of a study."""

    def spec(self, template: Template, duration_ns: int, seed: int) -> Spec:
        """Returns the spec of a lab."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A rule that sets markings: `choose(slot, queues)` returns an action of the template for each queue."""

    template: Template
    choose: Callable[[Slot, AccQueues], Actions]


def constant(template: Template, action: int) -> Contestant:
    """Returns a static marking."""
    return Contestant(template, lambda slot, queues: np.full(len(queues), action, np.int64))


def greedy(template: Template, net: QNetwork) -> Contestant:
    """Returns a net that does not explore. Idle queues keep their actions."""

    def choose(slot: Slot, queues: AccQueues) -> Actions:
        actions, busy = queues.settings.copy(), np.flatnonzero(~slot.idle)
        if len(busy):
            actions[busy] = net(slot.states[busy]).argmax(axis=1)
        return actions

    return Contestant(template, choose)


def chance(template: Template, seed: int) -> Contestant:
    """Returns an agent that draws each action."""
    random = np.random.default_rng(seed)
    return Contestant(template, lambda slot, queues: random.integers(len(template.actions), size=len(queues)))


def rewards(
    scenario: LabCase, seed: int, contestants: Mapping[str, Contestant], slots: int, folder: Path, *, all_queues: bool = False
) -> dict[str, float]:
    """Returns the mean reward of a slot by contestant.

    `folder`: where the labs' folders are made. `all_queues`: queues that did not send count as well.
    """
    mean_rewards: dict[str, float] = {}
    left = iter(contestants.items())
    while some := dict(islice(left, AT_ONCE)):
        mean_rewards |= _side_by_side(scenario, seed, some, slots, folder, all_queues)
    return mean_rewards


def _side_by_side(
    scenario: LabCase, seed: int, contestants: Mapping[str, Contestant], slots: int, folder: Path, all_queues: bool
) -> dict[str, float]:
    spec = scenario.spec(DEPLOYED, slots * DEPLOYED.interval_ns, seed)
    earned: dict[str, list[float]] = {name: [] for name in contestants}
    with ExitStack() as stack:
        sessions = {name: stack.enter_context(Session(spec, folder)) for name in contestants}
        queues = {name: AccQueues(sessions[name].scene, entrant.template, idle=QUEUE) for name, entrant in contestants.items()}
        for session in sessions.values():
            session.post_begin(seed)
        for step in range(slots + 1):
            for name, contestant in contestants.items():
                acc_queues = queues[name]
                slot = acc_queues.observe(sessions[name].collect())
                sent = all_queues | (slot.states[:, 1 - FEATURES] > 0)
                if step > WARMUP and sent.any():
                    earned[name].append(float(slot.rewards[sent].mean()))
                if step < slots:
                    acc_queues.settings = contestant.choose(slot, acc_queues)
                    sessions[name].post(acc_queues.values(acc_queues.settings))
    return {name: sum(slot_rewards) / len(slot_rewards) if slot_rewards else 0.0 for name, slot_rewards in earned.items()}
