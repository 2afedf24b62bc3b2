# SPDX-License-Identifier: Apache-2.0
"""A policy by hand that acts as DDPG learns to act in the form of Iroko's thesis: it cuts all hosts for single steps.

Equation 4.3 counts the mean command, which such cuts hardly lower. Under stock tbf a frame that waits when the rate is cut waits
as long as the least rate requires, whatever is commanded next (docs/enforcement.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext

EVERY = 128
"""DDPG's final policies cut in 0.7 % of the steps: once in 128 to 145."""


class StepCuts:
    """A policy that commands the line for all hosts, and the least rate in every 128th step."""

    def __init__(self, context: PolicyContext) -> None:
        line_bps = context.scene.line_bps
        self._line, self._least = context.action.from_values(line_bps), context.action.from_values(np.zeros_like(line_bps))

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        return self._least if frame.step % EVERY == EVERY - 1 else self._line
