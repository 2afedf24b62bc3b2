# SPDX-License-Identifier: Apache-2.0
"""The queues that share one setting: each queue alone, or all queues of a direction, as in C-ACC.

C-ACC (Yan et al., SIGCOMM 2021, section 5.4) has one agent for a network. It has one setting for all uplinks and one for all
downlinks. A port that leads to a node nearer to the hosts leads down; any other leads up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dc_gym.methods.acc.keys import BY_DIRECTION
from dc_gym.run.agent.frame import Rows
from dc_gym.run.agent.scene import Scene

DOWN, UP = 0, 1


def groups_of(scene: Scene, ports: Sequence[int], rule: str) -> Rows:
    """Returns the number of each queue's group, [queues]; groups are numbered from 0 without a gap.

    `ports`: the row of each queue's port. `rule`: one of keys.GROUPS.
    """
    if rule != BY_DIRECTION:
        return np.arange(len(ports))
    heights = node_heights(scene)
    directions = [DOWN if _peer_height(scene, heights, port) < heights[scene.nodes[port]] else UP for port in ports]
    _, numbers = np.unique(np.array(directions, np.intp), return_inverse=True)
    return numbers.astype(np.intp)


def node_heights(scene: Scene) -> dict[str, int]:
    """Returns how many links each node is away from its nearest host."""
    heights = dict.fromkeys(scene.all_hosts, 0)
    links = [(node, scene.nodes[int(scene.peer_row[port])]) for port, node in enumerate(scene.nodes)]
    while next_heights := {node: heights[peer] + 1 for node, peer in links if node not in heights and peer in heights}:
        heights |= next_heights
    return heights


def _peer_height(scene: Scene, heights: dict[str, int], port: int) -> int:
    return heights[scene.nodes[int(scene.peer_row[port])]]
