# SPDX-License-Identifier: Apache-2.0
"""RL-CC's decision problem (docs/rlcc.md) in the fluid model: each flow is an agent that gets its actions from outside.

A flow decides when its probe comes back, so the agents do not act together. A turn is an instant at which at least one of them
decides; the time between turns varies. The PettingZoo environment is flows_parallel.py, the one for RLlib flows_rllib.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import hint
from dc_gym.methods.rlcc.decision import MAX_ACTION, Scaling
from dc_gym.methods.rlcc.offline.on_fluid import Bottlenecks, FluidTrainingSettings
from dc_gym.nets.fixed_point import Floats

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FlowsConfig:
    """The flows of an episode, which share one bottleneck."""

    ground: ClassVar[str] = "fluid"
    """The ground of every training. A lab's NIC runs a table without randomness, so algorithms cannot explore there."""
    flows: tuple[int, ...] = (2, 4, 8)
    """Numbers of flows; one number is drawn for each episode."""
    spare_agents: int = 8
    """Number of extra agents, for flows that begin when others end."""
    round_trips: int = 200
    """Length of an episode in base RTTs."""
    max_error: float = 10.0
    """The reward clips delta at this many targets, since a full queue is hundreds of targets."""
    model: FluidTrainingSettings = field(default_factory=FluidTrainingSettings)
    """The fluid model. Its steps, buffer, noise and flow_end_probability are used."""
    scaling: Scaling = field(default_factory=Scaling)

    def __post_init__(self) -> None:
        if not self.flows or min(*self.flows, self.round_trips) < 1 or self.spare_agents < 0 or not self.max_error > 0:
            values = f"{self.flows} flows, {self.spare_agents} spare agents, {self.round_trips} round trips"
            values += f", max_error {self.max_error:g}"
            raise AgentError(f"{values}: give numbers of flows and round trips from 1, spare agents from 0, max_error above 0")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FlowsConfig:
        """Returns the config with these fields. Raises AgentError for one that it does not have."""
        names = [member.name for member in fields(cls)]
        for name in values:
            if name not in names:
                raise AgentError(f"FlowsConfig: {name} is unknown; {hint(name, names)}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields for the manifest of a training."""
        return {"ground": self.ground, **asdict(self)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all agents that an episode may have."""
        return tuple(f"flow{number}" for number in range(1, max(self.flows) + self.spare_agents + 1))

    def observation_space(self) -> spaces.Box:
        """Returns the space of a policy's four inputs, scaled as in the NIC."""
        ends = ((1.0 / MAX_ACTION, MAX_ACTION), (-self.scaling.unit, self.scaling.limit)) * 2
        low, high = (np.array([bounds[end] for bounds in ends], np.float32) for end in (0, 1))
        return spaces.Box(low, high, dtype=np.float32)

    def action_space(self) -> spaces.Box:
        """Returns the space of the factor by which the rate is multiplied."""
        return spaces.Box(1.0 / MAX_ACTION, MAX_ACTION, (1,), np.float32)

    def rewards(self, errors: Floats) -> Floats:
        """Returns -(delta / target)^2 (RL-CC eq. 1, in targets) for errors as a policy sees them, clipped at max_error."""
        return self.scaling.reward(errors, self.max_error)


@dataclass(frozen=True, slots=True)
class Turn:
    """The observations and rewards of the agents at one instant."""

    decides: tuple[str, ...]
    """The agents that act next: their probes are back."""
    observations: dict[str, Vector]
    """Observations of the agents that decide and of the agents that end."""
    rewards: dict[str, float]
    """Rewards of the same agents, for their previous actions."""
    ended: tuple[str, ...]
    """The agents whose flows end. At the end of an episode these are all agents."""
    over: bool = False
    totals: Mapping[str, float] = field(default_factory=dict)
    """Totals of the episode, once it is over."""


class Flows:
    """One bottleneck, for one episode after another."""

    def __init__(self, config: FlowsConfig) -> None:
        self.config = config
        space = config.observation_space()
        self._bounds = space.low, space.high
        self.live: list[str] = []
        """The name of each flow's agent."""
        self._spare: list[str] = []
        self._acted: set[str] = set()
        self._looked = np.zeros(0, np.intp)
        """The flows whose probes are back."""
        self._model: Bottlenecks | None = None
        self._totals: Totals

    def begin(self, seed: int) -> Turn:
        """Starts an episode and returns its first turn, in which all rewards are 0.

        The same seed and actions give the same bits.
        """
        config = self.config
        count = config.flows[int(np.random.default_rng(seed).random() * len(config.flows))]
        self._model = Bottlenecks(replace(config.model, seed=seed, delta_lag=1, bottlenecks=((count, 1),)), config.scaling)
        self.live, self._spare = list(config.names[:count]), list(config.names[count:])
        self._acted, self._totals = set(), Totals(count)
        return self._look(self._model)

    def step(self, actions: Mapping[str, npt.ArrayLike]) -> Turn:
        """Applies the actions of the agents that decide, and advances to the next turn."""
        model = self._model
        if model is None:
            raise AgentError("step: there is no episode under way; reset first")
        decide = [self.live[flow] for flow in self._looked if not model.ends[flow]]
        if odd := set(actions) ^ set(decide):
            raise AgentError(f"step: {min(odd)} {'has no action' if min(odd) in decide else 'does not decide now'}")
        self._acted.update(decide)
        self._go_on(model, {name: _factor(name, action) for name, action in actions.items()})
        return self._look(model)

    def observation(self, name: str) -> Vector:
        """Returns the observation of an agent at its decision, or at its last one.

        Before the first, this is "on target, rate kept".
        """
        assert self._model is not None
        low, high = self._bounds
        observation: Vector = np.clip(self._model.inputs[self.live.index(name)].astype(np.float32), low, high)
        return observation

    def _look(self, model: Bottlenecks) -> Turn:
        """Advances time until an agent decides or the episode is over, and returns that turn."""
        observations: dict[str, Vector] = {}
        rewards: dict[str, float] = {}
        ended: list[str] = []
        while True:
            self._looked, _ = model.look()
            for flow in self._looked:
                name = self.live[flow]
                observations[name] = self.observation(name)
                rewards[name] = self._reward(model, flow) if name in self._acted else 0.0
            leave = self._looked[model.ends[self._looked]]
            model.ends[leave[len(self._spare) :]] = False  # no agent is left for a successor, so these flows do not end
            ended += [self.live[flow] for flow in leave[: len(self._spare)]]
            decide = tuple(self.live[flow] for flow in self._looked if not model.ends[flow])
            if self._totals.steps >= self.config.round_trips * self.config.model.steps_per_rtt:
                return self._over(observations, rewards, ended)
            if decide:
                return Turn(decide, observations, rewards, tuple(ended))
            self._go_on(model, {})

    def _go_on(self, model: Bottlenecks, factors: Mapping[str, float]) -> None:
        """Advances the model by one step. Where a flow has ended another begins, with an agent of its own."""
        model.act(self._looked, np.array([factors.get(self.live[flow], 1.0) for flow in self._looked]))
        for flow in self._looked[model.ends[self._looked]]:
            self.live[flow] = self._spare.pop(0)
        self._totals.add(float(model.queue[0]), model.rate)

    def _reward(self, model: Bottlenecks, flow: np.intp) -> float:
        return float(self.config.rewards(model.inputs[flow, 3]))

    def _over(self, observations: dict[str, Vector], rewards: dict[str, float], ended: list[str]) -> Turn:
        """Ends all agents, whether it is their turn or not."""
        rest = [name for name in self.live if name not in ended]
        for name in rest:
            observations.setdefault(name, self.observation(name))
            rewards.setdefault(name, 0.0)
        self._model = None
        return Turn((), observations, rewards, (*ended, *rest), True, self._totals.to_dict(self.config.scaling))


@dataclass(slots=True)
class Totals:
    """Sums over an episode."""

    flows: int
    steps: int = 0
    queue: float = 0.0
    """The queue, summed over steps."""
    rates: Floats = field(default_factory=lambda: np.zeros(0))
    """The rate of each flow, summed over steps."""

    def add(self, queue: float, rates: Floats) -> None:
        self.steps += 1
        self.queue += queue
        self.rates = rates + (self.rates if len(self.rates) else 0.0)

    def to_dict(self, scaling: Scaling) -> dict[str, float]:
        """Returns the means over the episode."""
        inflation = 1.0 + self.queue / self.steps
        jain = float(self.rates.sum() ** 2 / (len(self.rates) * (self.rates * self.rates).sum()))
        over = inflation / float(scaling.inflation(self.flows))
        return {
            "flows": float(self.flows),
            "inflation": inflation,
            "inflation_over_eq_2": over,
            "sum_of_rates": float(self.rates.sum()) / self.steps,
            "jain": jain,
        }


def _factor(name: str, action: npt.ArrayLike) -> float:
    """Returns an agent's action, clipped to its bounds."""
    value = np.asarray(action, np.float64).reshape(-1)
    if value.shape != (1,) or not np.isfinite(value[0]):
        raise AgentError(f"step: the action of {name} is {action!r}; give one number, {1 / MAX_ACTION:.3f} to {MAX_ACTION}")
    return float(np.clip(value[0], 1.0 / MAX_ACTION, MAX_ACTION))
