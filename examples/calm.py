# SPDX-License-Identifier: Apache-2.0
"""A feature and a reward as plug-ins: queues that stand, and queues that move."""

from dc_gym.run.agent import observation, reward
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.scene import Scene


def standing(frame: Frame, scene: Scene) -> Floats:
    """One value a port: 1 if it has a queue that is not shorter than a step ago."""
    return ((frame.column("backlog_bytes") > 0) & (frame.change("backlog_bytes") >= 0)).astype(float)


def unrest(frame: Frame, scene: Scene, share: Floats) -> float:
    """The mean change of a queue over the step, as a share of its buffer."""
    return float(abs(frame.change("backlog_bytes") / scene.buffer_bytes).mean())


observation.register("standing", "port", 0, 1, "1 if a queue does not shrink", standing, flows=False)
reward.register("unrest", (0, 1), "mean change of the queues over the buffers", unrest, cost=True, flows=False)
