# SPDX-License-Identifier: Apache-2.0
"""An agent's policy and its file: a net of dense layers with its normalisation, evaluated with numpy alone.

docs/policy-file.md describes the file. A trainer writes a policy with `AgentPolicy(...).write(path)`. A run reads it back and
checks it against the network before it acts (dc_gym/run/agent/file_policy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.nets.agent_kinds import AGENTS, CENTRAL, HOSTS
from dc_gym.nets.policy_file import AGENT, GUIDE, Payload, PolicyFile

Floats = npt.NDArray[np.floating[Any]]
KIND = "dense"
EPSILON = 1e-8
"""Added to obs_std, as in RLlib's filter."""


def _silu(x: Floats) -> Floats:
    with np.errstate(over="ignore"):  # exp(-x) may overflow to infinity; x / infinity is then 0, as it should be
        y: Floats = x / (1 + np.exp(-x))
    return y


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": _silu,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "linear": lambda x: x,
}
"""Activation functions between layers."""
ARGMAX = "argmax"


def _level(x: Floats) -> Floats:
    """Returns the level of the largest of n values: n levels, evenly spaced from -1 to 1."""
    return np.array([2 * int(x.argmax()) / (len(x) - 1) - 1], x.dtype)


OUTPUTS: dict[str, Callable[[Floats], Floats]] = {"clip": lambda x: np.clip(x, -1, 1), "tanh": np.tanh, ARGMAX: _level}
"""Mappings from the last layer to [-1, 1]. PPO's mean is clipped, the outputs of SAC and DDPG pass through tanh, and the largest
of DQN's values chooses a level."""
WANTED = {"activation": str, "output": str, "observation": list, "hosts": list, "agents": str, "settings": dict}
"""The required entries of the payload and their types."""


@dataclass(frozen=True, slots=True)
class AgentPolicy(PolicyFile):
    """A policy that sets actuators, such as the rates of hosts. Shapes and names are checked at construction."""

    OWNER: ClassVar[str] = AGENT

    weights: tuple[Floats, ...]
    """One array for each layer, [outputs, inputs], as in torch."""
    biases: tuple[Floats, ...]
    """One array for each layer, [outputs]. The last layer has one output for each value that an agent sets. With argmax it has
    one output for each level."""
    low: Floats
    """[values]: `low` and `high` are the bounds of the action space onto which [-1, 1] is mapped. [1] if the policy is for each
    host."""
    high: Floats
    observation: tuple[str, ...]
    """The name of each element of the observation, such as s1-eth3/backlog (Observer.names), or own/backlog if the policy is for
    each host."""
    hosts: tuple[str, ...]
    """The values that the elements of the action set, in order (Scene.value_names): hosts, or values of ports. If the policy is
    for each host, switch or port: the values of its training."""
    activation: str = "tanh"
    output: str = "clip"
    obs_mean: Floats | None = None
    """[observation]: with obs_std, a learned normalisation; None: only the environment's normalisation is used."""
    obs_std: Floats | None = None
    obs_clip: float = 10.0
    """The normalised observation is clipped to -obs_clip..obs_clip."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training environment: observe, history, action, ... `action` is checked."""
    agents: str = CENTRAL
    """`central`: the policy observes and sets the whole network. The others: one host, switch or port."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise AgentError(unknown("activation", self.activation, ACTIVATIONS))
        if self.output not in OUTPUTS:
            raise AgentError(unknown("output", self.output, OUTPUTS))
        if self.agents not in AGENTS:
            raise AgentError(unknown("agents", self.agents, AGENTS))
        if why := self._fault():
            raise AgentError(f"{why}; write the file as docs/policy-file.md says")

    def _fault(self) -> str:
        """Describes the fault of the shapes; empty if there is none."""
        inputs, outputs = len(self.observation), self._actions
        if not self.weights or len(self.weights) != len(self.biases):
            return f"{len(self.weights)} weights and {len(self.biases)} biases do not make layers"
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if weight.ndim != 2 or weight.shape[1] != inputs:
                return f"W{number} has the shape {weight.shape}, and {inputs} values go in"
            inputs = weight.shape[0]
            if bias.shape != (inputs,):
                return f"b{number} has the shape {bias.shape} instead of ({inputs},)"
        if self.output == ARGMAX and inputs < 2:
            return f"the last layer gives {inputs} values, and levels are at least 2"
        if self.output != ARGMAX and inputs != outputs:
            return f"the last layer gives {inputs} values for {outputs} {'hosts' if self.agents == CENTRAL else 'actions'}"
        if (self.obs_mean is None) != (self.obs_std is None):
            return "of obs_mean and obs_std there is only one"
        return self._fault_of_vectors()

    def _fault_of_vectors(self) -> str:
        sizes = {"low": self._actions, "high": self._actions, "obs_mean": len(self.observation)}
        for name, size in (sizes | {"obs_std": len(self.observation)}).items():
            vector = getattr(self, name)
            if vector is not None and vector.shape != (size,):
                return f"{name} has the shape {vector.shape} instead of ({size},)"
        arrays = [*self.weights, *self.biases, self.low, self.high]
        arrays += [array for array in (self.obs_mean, self.obs_std) if array is not None]
        if not all(np.isfinite(array).all() for array in arrays):
            return "some of its numbers are not finite"
        return "" if (self.low < self.high).all() else "low is not below high"

    @property
    def _actions(self) -> int:
        """The number of values in an action."""
        if self.agents == CENTRAL:
            return len(self.hosts)
        return 1 if self.agents == HOSTS else len(self.low)

    def act(self, observation: npt.ArrayLike) -> Floats:
        """Returns the action for an observation, within low..high."""
        x: Floats = np.asarray(observation, self.weights[0].dtype).reshape(-1)
        if self.obs_mean is not None and self.obs_std is not None:
            x = np.clip((x - self.obs_mean) / (self.obs_std + EPSILON), -self.obs_clip, self.obs_clip)
        between = ACTIVATIONS[self.activation]
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = weight @ (between(x) if number else x) + bias
        action: Floats = self.low + (OUTPUTS[self.output](x) + 1) * (self.high - self.low) / 2
        return action

    @property
    def kind(self) -> str:
        return KIND

    def to_payload(self) -> Payload:
        arrays: dict[str, Any] = {}
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"W{number}": weight, f"b{number}": bias}
        arrays |= {"low": self.low, "high": self.high}
        if self.obs_mean is not None:
            arrays |= {"obs_mean": self.obs_mean, "obs_std": self.obs_std, "obs_clip": np.float64(self.obs_clip)}
        entries: dict[str, Any] = {"layers": len(self.weights), "settings": dict(self.settings)}
        entries |= {name: getattr(self, name) for name in ("activation", "output", "agents")}
        entries |= {name: list(getattr(self, name)) for name in ("observation", "hosts")}
        return Payload(entries, arrays)

    @classmethod
    def from_payload(cls, kind: str, payload: Payload, provenance: Mapping[str, Any]) -> AgentPolicy:
        entries, arrays = _checked_entries(payload), payload.arrays
        layers = range(entries["layers"])
        needed = ["low", "high", *(f"{letter}{number}" for number in layers for letter in "Wb")]
        if missing := [name for name in needed if name not in arrays]:
            raise AgentError(f"it has no array {missing[0]!r}; docs/policy-file.md lists them")
        for name, array in arrays.items():
            if not np.issubdtype(array.dtype, np.floating):
                raise AgentError(f"array {name!r} is of {array.dtype}, not of floating point numbers")
        values = {name: entries[name] for name in ("activation", "output", "agents", "settings")}
        values |= {name: tuple(map(str, entries[name])) for name in ("observation", "hosts")}
        values |= {name: arrays[name] for name in ("low", "high")}
        values |= {name: arrays[name] for name in ("obs_mean", "obs_std") if name in arrays}
        if "obs_clip" in arrays:
            values["obs_clip"] = float(arrays["obs_clip"])
        weights, biases = (tuple(arrays[f"{letter}{number}"] for number in layers) for letter in "Wb")
        return cls(weights, biases, provenance=provenance, **values)


def _checked_entries(payload: Payload) -> dict[str, Any]:
    """Returns the payload's entries after checking the required ones."""
    entries: dict[str, Any] = {"agents": CENTRAL, "settings": {}} | dict(payload.entries)
    for name, entry_type in WANTED.items():
        if not isinstance(entries.get(name), entry_type):
            raise AgentError(f"{name!r} of its manifest is no {entry_type.__name__}; {GUIDE}")
    layers = entries.get("layers")
    if type(layers) is not int or not 0 < layers <= len(payload.arrays):
        raise AgentError(f"its manifest counts {layers!r} layers; {GUIDE}")
    return entries
