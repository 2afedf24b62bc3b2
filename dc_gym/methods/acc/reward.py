# SPDX-License-Identifier: Apache-2.0
"""Reward `acc`: the reward of ACC's agents (design 2 of the paper's appendix), over the ports of all switches."""

from __future__ import annotations

from dc_gym.methods.acc.template import step_worth
from dc_gym.run.agent import measures
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.scene import Scene


def design_2(frame: Frame, scene: Scene) -> float:
    """Returns the mean over the switch ports that sent in the step; 0 if none did."""
    rows = scene.switch_rows
    used = (frame.change("tx_bytes") / measures.carried_bytes(frame, scene))[rows]
    worth = step_worth(frame.change("queue_byte_ns")[rows] / max(1, frame.elapsed_ns))
    port_rewards = (0.7 * used + 0.3 * worth)[used > 0]
    return float(port_rewards.mean()) if len(port_rewards) else 0.0
