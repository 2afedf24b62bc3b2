# SPDX-License-Identifier: Apache-2.0
"""An agent in each switch port as a plug-in: a PI controller moves Kmin so that the mean queue is a share of the buffer."""

from dataclasses import dataclass

import numpy as np

from dc_gym.base.key import NUMBER, key
from dc_gym.run.agent import policies
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PiKeys:
    """Keys of policy `pi`."""

    target: float = key(NUMBER, 0.05, low=0, high=1, help="mean queue that it wants, as a share of the buffer")
    proportional: float = key(NUMBER, 0.5, low=0, help="bytes of Kmin for each byte by which the error has changed")
    integral: float = key(NUMBER, 0.1, low=0, help="bytes of Kmin for each byte of error, at each step")


class Pi:
    """The controller of one port (agent.agents = "ports"). It sees the port's mean_backlog alone (agent.observe)."""

    def __init__(self, context: PolicyContext, keys: PiKeys) -> None:
        (rows,), self._keys, self._action = context.scene.actuated, keys, context.action
        self._low, self._high = rows.low[0, 0], rows.high[0, 0]  # a full frame, and the buffer
        self._kmin_bytes, _, self._pmax_ppm = (float(value) for value in context.scene.start)
        self._error_bytes = 0.0

    def act(self, observation: Vector, frame: Frame) -> Floats:
        before, self._error_bytes = self._error_bytes, (self._keys.target - float(observation[0])) * self._high
        moved = self._keys.proportional * (self._error_bytes - before) + self._keys.integral * self._error_bytes
        self._kmin_bytes = float(np.clip(self._kmin_bytes + moved, self._low, self._high))
        return self._action.from_values(np.array([self._kmin_bytes, self._kmin_bytes, self._pmax_ppm]))


policies.register("pi", Pi, PiKeys)
