# SPDX-License-Identifier: Apache-2.0
"""A policy that scales CUBIC's window, in the form of Orca (Abbasloo et al., SIGCOMM 2020): each flow is an agent of its own.

CUBIC goes on between two decisions, up to `clamp`. Orca's network chooses a in -2..2, and the window becomes 2^a times CUBIC's.
Here one line takes its place: a = log2(target / latency ratio), so that a round trip becomes `target` times the flow's least.
"""

from dataclasses import dataclass

import numpy as np

from dc_gym.base.key import NUMBER, key
from dc_gym.run.agent import policies
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcaKeys:
    """Keys of policy `orca`."""

    target: float = key(NUMBER, 1.5, low=1, high=10, help="round trip that a flow aims at, over its least")


class Orca:
    """The agent of one flow."""

    def __init__(self, context: PolicyContext, keys: OrcaKeys) -> None:
        self._target, self._action, self._start = keys.target, context.action, context.scene.start
        (clamp,) = context.scene.actuated
        (self._flow,) = clamp.rows.tolist()
        self._ratio = context.observation.index("own/latency_ratio")

    def act(self, observation: Vector, frame: Frame) -> Floats:
        ratio = observation[self._ratio]
        if not ratio:  # the flow is not there, or has no round trip yet
            return self._action.from_values(self._start)
        a = np.clip(np.log2(self._target / ratio), -2, 2)
        return self._action.from_values([2**a * frame.flows["cwnd_packets"][self._flow]])


policies.register("orca", Orca, OrcaKeys)
