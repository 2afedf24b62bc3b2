# SPDX-License-Identifier: Apache-2.0
"""Actions: an agent gives one number for each value that it sets, such as the rate of a host's egress.

An action head maps between the numbers of the action space and the values. A head is a plug-in: one class and one call of
`register`, here or in a user's file. Heads work on shares: values over their upper bounds, which for rates are the line rates.
`linear` and `log` serve every actuator; the others are for rates. Where a value must not be below another (kmax, kmin), its range
begins at that other value.

Iroko's thesis (Ruffy, UBC 2019), section 4: (4.1) a_norm = (tanh(a) + 1) / 2 (a_max - a_min) + a_min, (4.2) bw = a_norm bw_max,
where bw_max is the line rate, a_max = 1, and a_min is the spec's floor as a share of the line rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base import usercode
from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.run.agent.frame import Floats
from dc_gym.run.agent.scene import ActuatedRows, Scene

Share = Callable[[Floats, Floats], Floats]
"""A mapping in either direction: from actions to shares of the upper bounds, or from shares to actions. The second argument holds
the floors: lower bounds as shares of the upper ones."""
THESIS_BOUND = 5.0
"""The bound of the head `thesis`. Actions in the thesis are unbounded, but learning algorithms need a Box with bounds. At +-5
tanh is within 0.01 % of its limits."""
COUNTED = ("bytes", "packets", "ppm", "ns")
"""Units of which a value has a whole number. A rate keeps its fraction, which the kernel cuts off."""


@dataclass(frozen=True, slots=True)
class Head:
    """A mapping between actions and values."""

    name: str
    bound: float
    """Actions lie in -bound..bound."""
    formula: str
    """The share of the upper bound as a formula, in words."""
    to_share: Share
    from_share: Share
    by_element: bool = False
    """True if each number depends on its own action and floor alone, so that the actions of many networks can be mapped at
    once."""


_registry: dict[str, Head] = {}


def register(name: str, bound: float, formula: str, to_share: Share, from_share: Share, *, by_element: bool = False) -> None:
    """Registers a head, which maps numbers of an action to shares of a value's range. Each name can be registered once.

    Args:
        name: The value of agent.action.
        bound: The numbers of an action lie in -bound..bound.
        formula: The share as a formula, in words.
        to_share: `to_share(action, floor)` returns shares of the upper bound.
        from_share: `from_share(share, floor)` is its inverse.
        by_element: As in Head.

    Raises:
        AgentError: The name is taken, the bound is not positive and finite, or a function has other parameters.
    """
    if name in _registry:
        raise AgentError(f"action {name!r} is registered already; choose another name")
    if not 0 < bound < np.inf:
        raise AgentError(f"action {name!r}: the bound {bound} is not positive and finite; give another")
    usercode.check_call(AgentError, f"action {name!r}: to_share", to_share, "action", "floor")
    usercode.check_call(AgentError, f"action {name!r}: from_share", from_share, "share", "floor")
    _registry[name] = Head(name, float(bound), formula, to_share, from_share, by_element)


def heads() -> tuple[Head, ...]:
    """Returns all heads, in the order of registration."""
    return tuple(_registry.values())


class _Part:
    """A head applied to one actuator: its values are the columns of [ports, quantities]."""

    def __init__(self, head: Head, rows: ActuatedRows) -> None:
        self.head, self.rows = head, rows
        self.low, self.high = rows.low, rows.high
        self.floor = rows.low / rows.high
        self.above = dict(rows.ordered)
        self.counted = [quantity.unit in COUNTED for quantity in rows.actuator.quantities]

    @classmethod
    def joined(cls, parts: Sequence[_Part]) -> _Part:
        """Returns the part of several networks: the ports of the first, then the ports of the second, and so on."""
        first = parts[0]
        if len(parts) == 1:
            return first
        low, high, start = (np.concatenate([getattr(part.rows, end) for part in parts]) for end in ("low", "high", "start"))
        names = tuple(name for part in parts for name in part.rows.names)
        rows = np.concatenate([part.rows.rows for part in parts])
        return cls(first.head, replace(first.rows, rows=rows, names=names, low=low, high=high, start=start))

    def to_values(self, action: Floats) -> Floats:
        """Returns [ports x quantities] values of as many actions."""
        if len(self.counted) == 1 and not self.counted[0]:  # rates: the usual case, and the fastest
            return self._values(action, self.floor[:, 0], self.low[:, 0], self.high[:, 0])
        port_actions, values = action.reshape(self.low.shape), np.empty(self.low.shape)
        for column, counted in enumerate(self.counted):
            low, high = self._low(column, values), self.high[:, column]
            column_values = self._values(port_actions[:, column], low / high, low, high)
            values[:, column] = np.rint(column_values) if counted else column_values
        return values.reshape(-1)

    def from_values(self, values: Floats) -> Floats:
        """Returns [ports x quantities] actions that come nearest to these values."""
        port_values, actions = values.reshape(self.low.shape), np.empty(self.low.shape)
        for column in range(len(self.counted)):
            low, high = self._low(column, port_values), self.high[:, column]
            share = np.clip(port_values[:, column], low, high) / high
            actions[:, column] = self._checked("from_share", self.head.from_share(share, low / high))
        return actions.reshape(-1)

    def _low(self, column: int, values: Floats) -> Floats:
        """Returns the lower bounds of a quantity where the ones before it have these values."""
        earlier = self.above.get(column)
        low = self.low[:, column]
        return low if earlier is None else np.clip(values[:, earlier], low, self.high[:, column])

    def _values(self, action: Floats, floor: Floats, low: Floats, high: Floats) -> Floats:
        share = self._checked("to_share", self.head.to_share(action, floor))
        values: Floats = np.minimum(np.maximum(share * high, low), high)
        return values

    def _checked(self, function: str, values: Floats) -> Floats:
        """Returns the result of the head's function if it is one number for each port. Infinities are clipped later."""
        shape = (len(self.rows.names),)
        if getattr(values, "shape", None) != shape or np.asarray(values).dtype.kind not in "biuf":
            problem = f"agent.action: {function} of {self.head.name!r} gives {usercode.shown(values)}"
            expected = "one for each host" if self.rows.actuator.ports == "host" else "one for each port"
            raise AgentError(f"{problem} instead of numbers of shape {shape}, {expected}; mend the function")
        if isnan(np.add.reduce(values)) and np.isnan(values).any():
            name = self.rows.names[int(np.isnan(values).argmax())]
            raise AgentError(f"agent.action: {function} of {self.head.name!r} gives nan for {name}; mend the function")
        return values


class Action:
    """The action of agents that set all values of a scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        """`name`: agent.action, a head for all actuators, or a comma list with one for each."""
        names = [head_name.strip() for head_name in name.split(",")]
        for head_name in names:
            if head_name not in _registry:
                raise AgentError("agent.action: " + unknown("action", head_name, _registry))
        if len(names) not in (1, len(scene.actuated)):
            problem = f"{name!r} names {len(names)} heads for {len(scene.actuated)} actuators"
            raise AgentError(f"agent.action: {problem}; give one for all, or one for each")
        heads = [_registry[head_name] for head_name in (names * len(scene.actuated) if len(names) == 1 else names)]
        self.head, self.name = heads[0], name
        self.head_by_element = all(head.by_element for head in heads)
        self._names = scene.value_names
        self.parts = tuple(_Part(head, rows) for head, rows in zip(heads, scene.actuated, strict=True))
        sizes = [rows.low.size for rows in scene.actuated]
        self.bound = np.repeat([head.bound for head in heads], sizes)
        self._least = -self.bound
        high = self.bound.astype(np.float32)
        self.space = spaces.Box(-high, high, dtype=np.float32)

    def to_values(self, action: npt.ArrayLike) -> Floats:
        """Returns the values of all actuators as [values], within their bounds.

        A number outside the space counts as the space's nearest bound.
        """
        try:
            array = np.asarray(action, np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise AgentError(f"action: {usercode.shown(action)} is no array of numbers; give one for each value") from None
        if array.shape != self.bound.shape:
            raise AgentError(f"action: {array.size} numbers where {self.bound.size} values are set; give one for each")
        if isnan(np.add.reduce(array)) and np.isnan(array).any():  # one check of the sum is fast; infinities may cancel to nan
            name = self._names[int(np.isnan(array).argmax())]
            raise AgentError(f"action: that of {name} is not a number; has the policy diverged?")
        array = np.minimum(np.maximum(array, self._least), self.bound)
        if len(self.parts) == 1:
            return self.parts[0].to_values(array)
        return np.concatenate([part.to_values(array[part.rows.place]) for part in self.parts])

    def from_values(self, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Returns the action that comes nearest to these values, [values]."""
        return self.exactly(values).astype(np.float32)

    def exactly(self, values: npt.ArrayLike) -> Floats:
        """Returns the same in double precision, in which `to_values` gives back each whole number."""
        targets = np.asarray(values, np.float64)
        if targets.shape != self.bound.shape:
            raise AgentError(f"action: values of shape {targets.shape} where {self.bound.size} are set; give one for each")
        actions = np.concatenate([part.from_values(targets[part.rows.place]) for part in self.parts])
        nearest: Floats = np.clip(actions, -self.bound, self.bound)
        return nearest


class VectorAction:
    """The actions of several networks whose agents set the same values, between bounds of each one's own."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = tuple(actions)
        self._bound = actions[0].bound
        parts = zip(*(action.parts for action in actions), strict=True)
        self._parts = tuple((network_parts[0].rows.place, _Part.joined(network_parts)) for network_parts in parts)
        self._together = len(actions) > 1 and all(action.head_by_element for action in actions)

    def to_values(self, actions: npt.ArrayLike, but: Sequence[int] = ()) -> Floats:
        """Returns the values as [networks, values].

        Args:
            actions: The actions as [networks, numbers].
            but: Networks whose actions do not count.
        """
        if not self._together:
            return self._one_by_one(actions, but)
        try:
            numbers = np.asarray(actions, np.float64)
        except (TypeError, ValueError):
            return self._one_by_one(actions, but)
        if numbers.shape != (len(self._actions), len(self._bound)) or but or isnan(np.add.reduce(numbers, None)):
            return self._one_by_one(actions, but)
        numbers = np.minimum(np.maximum(numbers, -self._bound), self._bound)
        if len(self._parts) == 1:
            return self._parts[0][1].to_values(numbers.reshape(-1)).reshape(numbers.shape)
        values = np.empty(numbers.shape)
        for columns, part in self._parts:
            part_numbers = numbers[:, columns]
            values[:, columns] = part.to_values(part_numbers.reshape(-1)).reshape(part_numbers.shape)
        return values

    def _one_by_one(self, actions: Any, but: Sequence[int]) -> Floats:
        values = np.zeros((len(self._actions), len(self._bound)))
        for index, action in enumerate(self._actions):
            if index not in but:
                values[index] = action.to_values(actions[index])
        return values


def _over_range(unit: Any, floor: Floats) -> Floats:
    """Maps 0..1 linearly to floor..1."""
    share: Floats = unit * (1 - floor) + floor
    return share


def _of_range(share: Floats, floor: Floats) -> Floats:
    """Maps floor..1 linearly to 0..1.

    If the floor equals the line rate, every action gives the same rate, and the result is 1.
    """
    return np.divide(share - floor, 1 - floor, out=np.ones(len(share)), where=floor < 1)


def _linear(action: Floats, floor: Floats) -> Floats:
    return _over_range((action + 1) / 2, floor)


def _from_linear(share: Floats, floor: Floats) -> Floats:
    return _of_range(share, floor) * 2 - 1


def _log(action: Floats, floor: Floats) -> Floats:
    share: Floats = floor ** ((1 - action) / 2)
    return share


def _from_log(share: Floats, floor: Floats) -> Floats:
    log_floor = np.log(floor)
    return 1 - 2 * np.divide(np.log(share), log_floor, out=np.zeros(len(share)), where=log_floor < 0)


def _tanh(action: Floats, floor: Floats) -> Floats:
    """Computes equation 4.1."""
    return _over_range((np.tanh(action) + 1) / 2, floor)


def _from_tanh(share: Floats, floor: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # the ends map to infinity; from_values clips them
        return np.arctanh(_from_linear(share, floor))


register(
    "linear",
    1,
    "(a + 1) / 2, from the lower bound (a rate's floor) to the upper one (its line)",
    _linear,
    _from_linear,
    by_element=True,
)
register(
    "log", 1, "equal ratios from the lower bound (-1) to the upper one (1): for small rates", _log, _from_log, by_element=True
)
register(
    "rates",
    1,
    "(tanh(a) + 1) / 2, equation 4.1 on actions of -1..1: 12 % to 88 % of the range",
    _tanh,
    _from_tanh,
    by_element=True,
)
register(
    "thesis",
    THESIS_BOUND,
    "(tanh(a) + 1) / 2, equation 4.1: 0.005 % to 99.995 % of the range",
    _tanh,
    _from_tanh,
    by_element=True,
)
