# SPDX-License-Identifier: Apache-2.0
"""Actions: an agent gives one number for each host that acts, and the number sets the rate of that host's egress.

An action head maps between the actions of its space and rates. A head is a plug-in: one class and one call of `register`, here or
in a user's file. An environment uses only a head's space and its mapping from actions. Heads for ECN thresholds or path weights
would work the same way and enforce something else.

Iroko's thesis (Ruffy, UBC 2019), section 4: (4.1) a_norm = (tanh(a) + 1) / 2 (a_max - a_min) + a_min, (4.2) bw = a_norm bw_max,
where bw_max is the line rate, a_max = 1, and a_min is the spec's floor as a share of the line rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base import usercode
from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.envs.frame import Floats
from dc_gym.envs.scene import Scene

Share = Callable[[Floats, Floats], Floats]
"""A mapping in either direction: from actions to shares of the line rate, or from shares to actions. The second argument holds
the floors, as shares of the line rate."""
THESIS_BOUND = 5.0
"""The bound of the head `thesis`. Actions in the thesis are unbounded, but learning algorithms need a Box with bounds. At +-5
tanh is within 0.01 % of its limits."""


@dataclass(frozen=True, slots=True)
class Head:
    """A mapping between actions and rates."""

    name: str
    bound: float
    """Actions lie in -bound..bound."""
    formula: str
    """The share of the line rate as a formula, in words."""
    to_share: Share
    from_share: Share


_registry: dict[str, Head] = {}


def register(name: str, bound: float, formula: str, to_share: Share, from_share: Share) -> None:
    """Registers a head. Each name can be registered once."""
    if name in _registry:
        raise AgentError(f"action {name!r} is registered already; choose another name")
    if not 0 < bound < np.inf:
        raise AgentError(f"action {name!r}: the bound {bound} is not positive and finite; give another")
    usercode.check_call(AgentError, f"action {name!r}: to_share", to_share, "action", "floor")
    usercode.check_call(AgentError, f"action {name!r}: from_share", from_share, "share", "floor")
    _registry[name] = Head(name, float(bound), formula, to_share, from_share)


def heads() -> tuple[Head, ...]:
    """Returns all heads, in the order of registration."""
    return tuple(_registry.values())


class Action:
    """A head applied to the hosts of a scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        if name not in _registry:
            raise AgentError("agent.action: " + unknown("action", name, _registry))
        self.head, self._hosts = _registry[name], scene.hosts
        self._line_bps, self._floor_bps = scene.line_bps, scene.floor_bps
        self._floor = scene.share(scene.floor_bps)
        bound = self.head.bound
        self.space = spaces.Box(-bound, bound, (len(scene.hosts),), dtype=np.float32)

    def to_rates(self, action: npt.ArrayLike) -> Floats:
        """Returns the rates as [hosts] in bit/s, from the floor to the line rate. A value outside the space counts as the space's
        nearest bound."""
        try:
            given = np.asarray(action, np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise AgentError(f"action: {usercode.shown(action)} is no array of numbers; give one for each host") from None
        if given.shape != self._floor.shape:
            raise AgentError(f"action: {given.size} values for {self._floor.size} hosts; give one for each")
        if isnan(np.add.reduce(given)) and np.isnan(given).any():  # one check of the sum is fast; infinities may cancel to nan
            host = self._hosts[int(np.isnan(given).argmax())]
            raise AgentError(f"action: that of {host} is not a number; has the policy diverged?")
        bound = self.head.bound
        share = self._checked("to_share", self.head.to_share(np.minimum(np.maximum(given, -bound), bound), self._floor))
        rates: Floats = np.minimum(np.maximum(share * self._line_bps, self._floor_bps), self._line_bps)
        return rates

    def from_rates(self, rates_bps: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Returns the action that comes nearest to these rates."""
        wanted = np.clip(np.asarray(rates_bps, np.float64), self._floor_bps, self._line_bps)
        action = self._checked("from_share", self.head.from_share(wanted / self._line_bps, self._floor))
        return np.clip(action, -self.head.bound, self.head.bound).astype(np.float32)

    def _checked(self, function: str, values: Floats) -> Floats:
        """Returns what the head's function gave if it is one number for each host. Infinities are clipped later."""
        if getattr(values, "shape", None) != self._floor.shape or np.asarray(values).dtype.kind not in "biuf":
            what = f"agent.action: {function} of {self.head.name!r} gives {usercode.shown(values)}"
            raise AgentError(f"{what} instead of numbers of shape {self._floor.shape}, one for each host; mend the function")
        if isnan(np.add.reduce(values)) and np.isnan(values).any():
            host = self._hosts[int(np.isnan(values).argmax())]
            raise AgentError(f"agent.action: {function} of {self.head.name!r} gives nan for {host}; mend the function")
        return values


def _over_range(unit: Any, floor: Floats) -> Floats:
    """Maps 0..1 linearly to floor..1."""
    share: Floats = unit * (1 - floor) + floor
    return share


def _of_range(share: Floats, floor: Floats) -> Floats:
    """Maps floor..1 linearly to 0..1. If the floor equals the line rate, every action gives the same rate, and the result is
    1."""
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
    with np.errstate(divide="ignore"):  # the ends map to infinity; from_rates clips them
        return np.arctanh(_from_linear(share, floor))


register("linear", 1, "(a + 1) / 2, from the floor to the line", _linear, _from_linear)
register("log", 1, "equal ratios from the floor (-1) to the line (1): for small rates", _log, _from_log)
register("rates", 1, "(tanh(a) + 1) / 2, equation 4.1 on actions of -1..1: 12 % to 88 % of the range", _tanh, _from_tanh)
register("thesis", THESIS_BOUND, "(tanh(a) + 1) / 2, equation 4.1: 0.005 % to 99.995 % of the range", _tanh, _from_tanh)
