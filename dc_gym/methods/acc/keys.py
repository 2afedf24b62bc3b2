# SPDX-License-Identifier: Apache-2.0
"""The keys of policy `acc`, ACC's agent in every switch (dc_gym/methods/acc/agent.py, docs/acc.md).

They are declared here, so that the loader of specs has them without the environments.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.key import COUNT, FLAG, NAME_OR_PATH, NUMBER, TEXT, TIME, S, key
from dc_gym.methods.acc.settings import DEPLOYED, STEP, TEMPLATES, WORTHS, DqnSettings

UNTRAINED = "untrained"
PAPER, QUEUE, OFF = IDLE = ("paper", "queue", "off")
"""The queues for which no inference is made: both rules of section 4.2, the rule of the queue alone, or none."""
FLOAT, INT8 = WEIGHTS = ("float", "int8")
"""The arithmetic of an inference: the net as it was trained, or its integer form (methods/acc/q_int8.py)."""
BY_QUEUE, BY_DIRECTION = GROUPS = ("queue", "direction")
"""The queues that have one setting: each its own, or all that lead up and all that lead down (methods/acc/groups.py)."""
USUAL = DqnSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccKeys:
    """Keys of policy `acc`."""

    template: str | Path = key(
        NAME_OR_PATH,
        DEPLOYED,
        copy="acc-template.toml",
        help=f"[actions](acc.md#templates), samples and interval: {', '.join(f'`{name}`' for name in TEMPLATES)}, or a file",
    )
    start: str | Path = key(
        NAME_OR_PATH,
        UNTRAINED,
        copy="acc-start.npz",
        help="the nets at first: `untrained`, `acc-deployed` ([comes with dc-gym](acc.md#what-was-learned)), a policy file of"
        " `dcgym method acc train`, or the `learned.npz` of a run",
    )
    constant: int | None = key(COUNT, low=0, otherwise="none", help="number of the action that all queues keep, instead of a net")
    learn: bool = key(FLAG, False, help="switches learn while the run goes on; the result keeps what they have learned")
    worth: str = key(TEXT, STEP, names=lambda: WORTHS, help="D(L) of the reward: design 2 of the paper (`step`) or 1 (`linear`)")
    throughput_weight: float = key(NUMBER, 0.7, low=0, high=1, help="w1 of the reward; w2 is the rest of 1")
    weights: str = key(
        TEXT,
        FLOAT,
        names=lambda: WEIGHTS,
        help="arithmetic of an inference: the net as it was trained, or its [integer form](acc.md#the-net-in-integers)",
    )
    idle: str = key(TEXT, PAPER, names=lambda: IDLE, help="[queues without inference](acc.md#busy-and-idle)")
    groups: str = key(
        TEXT,
        BY_QUEUE,
        names=lambda: GROUPS,
        help="queues that have one setting: each `queue` its own, or all uplinks one and all downlinks one, as"
        " [C-ACC](acc.md#c-acc) (`direction`)",
    )
    explore: float = key(NUMBER, 0.2, low=0, high=1, help="with `learn`: share of decisions at random, at first")
    half_life: int = key(COUNT, 500, low=1, help="with `learn`: decision times after which that share is half as much")
    explore_least: float = key(NUMBER, 0.01, low=0, high=1, help="with `learn`: the least such share")
    discount: float = key(NUMBER, USUAL.discount, low=0, high=0.9999, help="with `learn`: gamma")
    learning_rate: float = key(NUMBER, USUAL.learning_rate, low=1e-8, high=1, help="with `learn`: of Adam")
    batch: int = key(COUNT, USUAL.batch_size, low=1, high=4096, help="with `learn`: transitions of an update")
    target_every: int = key(COUNT, USUAL.target_every, low=1, help="with `learn`: updates from one target copy to the next")
    replay: int = key(COUNT, 1000, low=1, high=10**6, help="with `learn`: transitions that a switch keeps")
    prefer: float = key(NUMBER, USUAL.prefer, low=0, high=1, help="with `learn`: share of a batch that prefers large rewards")
    exchange_ns: int = key(
        TIME,
        2 * S,
        low=1,
        help="with `learn`: time, before `topology.scale`, from one exchange with the global replay to the next",
    )

    @property
    def dqn(self) -> DqnSettings:
        """The settings of the learner."""
        return DqnSettings(
            discount=self.discount,
            learning_rate=self.learning_rate,
            batch_size=self.batch,
            target_every=self.target_every,
            prefer=self.prefer,
        )
