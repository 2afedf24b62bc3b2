# SPDX-License-Identifier: Apache-2.0
"""One agent's view of a network, by which its own reward and metrics are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dc_gym.run.agent.frame import WAITING, Bools, FlowInfo, Frame, Rows
from dc_gym.run.agent.scene import Scene


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One agent's view of a network: the ports where it sets something, the flows that cross them, and all ports of those flows.

    A host's view has the port that leads to it, too, and of all rates only its own. A flow's has that flow alone, and its path.
    """

    scene: Scene
    info: FlowInfo
    ports: Bools
    """[ports]"""
    flows: Bools
    """[flows]"""
    hosts: slice
    """The places of its hosts among the scene's hosts."""

    @classmethod
    def of(cls, scene: Scene, info: FlowInfo, rows: Rows, flow: int | None = None) -> View:
        """Returns the view of an agent that sets something at some ports.

        Args:
            scene: The scene of the network.
            info: The flows of the episode.
            rows: The agent's ports.
            flow: The number of the flow that the agent is; None: it is none. The episode may lack it.
        """
        ports = np.zeros(len(scene.ports), bool)
        if flow is not None:
            flows = np.arange(len(info)) == flow
            for path in info.rows[flow : flow + 1]:
                ports[path] = True
            return cls(scene, info, ports, flows, slice(0, len(scene.hosts)))
        ports[rows] = True
        if scene.is_switch[rows].any():
            flows = np.zeros(len(info), bool)
            flows[info.switch_flows[ports[info.switch_rows]]] = True
            return cls(scene, info, ports, flows, slice(0, len(scene.hosts)))
        (row,) = rows.tolist()
        host = int(np.flatnonzero(scene.host_row == row)[0])
        flows = info.host == host
        ports[scene.peer_row[row]] = True
        ports[info.switch_rows[flows[info.switch_flows]]] = True
        here = slice(host, host + 1)
        host_scene = replace(
            scene,
            hosts=scene.hosts[here],
            host_row=scene.host_row[here],
            senders=scene.senders[here],
            floor_bps=scene.floor_bps[here],
        )
        return cls(host_scene, replace(info, host_row=host_scene.host_row), ports, flows, here)

    def frame(self, frame: Frame) -> Frame:
        """Returns the same step as if there were nothing else: other ports are empty, and other flows wait."""
        cells, before = (np.where(self.ports[:, None], counters, np.uint64(0)) for counters in (frame.cells, frame.before))
        classes, was = frame.class_cells, frame.class_before
        if len(classes):
            class_mask = self.ports[self.scene.classes.port]
            classes, was = (np.where(class_mask[:, None], counters, np.uint64(0)) for counters in (classes, was))
        return replace(
            frame,
            cells=cells,
            before=before,
            flows=self._flows(frame.flows),
            flows_before=self._flows(frame.flows_before),
            wanted_bps=frame.wanted_bps[self.hosts],
            in_force_bps=frame.in_force_bps[self.hosts],
            enforced_bps=frame.enforced_bps[self.hosts],
            info=self.info,
            class_cells=classes,
            class_before=was,
        )

    def _flows(self, flows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        samples = np.zeros_like(flows)
        samples["status"], samples["start_ns"], samples["end_ns"] = WAITING, -1, -1
        samples[self.flows] = flows[self.flows]
        return samples
