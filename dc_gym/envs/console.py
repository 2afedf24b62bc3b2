# SPDX-License-Identifier: Apache-2.0
"""The agent's desk: frames from a lab's shared memory, rates into it (layout: monitors/state_matrix.h)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dc_gym.envs.frame import FLOW_DTYPE, FlowInfo, Frame
from dc_gym.envs.scene import Scene
from dc_gym.kernel.channel import Channel
from dc_gym.monitors.state_matrix import StateMatrix


class Console:
    """Of one lab; `info` is about the flows of the episode that runs."""

    def __init__(self, scene: Scene, info: FlowInfo) -> None:
        self.info = info
        self._scene = scene
        self._matrix: StateMatrix | None = None
        self._last: Frame | None = None

    @property
    def is_open(self) -> bool:
        return self._matrix is not None

    @property
    def matrix(self) -> StateMatrix:
        assert self._matrix is not None, "open comes first"
        return self._matrix

    @property
    def flow_rows(self) -> int:
        """Flows that an episode may have."""
        return len(self.matrix.flows)

    def open(self, channel: Channel) -> None:
        """When the matrix is there: at the first step."""
        assert channel.region is not None
        self._matrix = StateMatrix.over(channel.region)
        rows = [int(row) for row in self._matrix.commands.rates["row"]]
        self._order = np.array([rows.index(row) for row in self._scene.host_row], dtype=np.intp)
        self._lines = np.array([self._scene.rate_bps[row] for row in rows], dtype=np.float64)
        self._wanted = self._lines.copy()

    def close(self) -> None:
        if self._matrix is not None:
            self._matrix.close()
            self._matrix = None

    def send(self, rates_bps: npt.NDArray[np.float64]) -> None:
        """What the hosts of the scene may send from now on; all others have the line."""
        self._wanted[self._order] = rates_bps
        self.matrix.commands.send(self._wanted)

    def frame(self, step: int) -> Frame:
        """What is measured at this moment, at which the lab stands still. Step 0 begins an episode."""
        matrix, info = self.matrix, self.info
        if step == 0:
            self._last, self._wanted = None, self._lines.copy()
        cells, flows = matrix.cells.copy(), matrix.flows[: len(info.src)].astype(FLOW_DTYPE)
        before, t_ns = self._last, step * self._scene.step_ns
        self._last = Frame(
            step=step,
            t_ns=t_ns,
            elapsed_ns=0 if before is None else t_ns - before.t_ns,
            cells=cells,
            before=cells if before is None else before.cells,
            flows=flows,
            flows_before=flows if before is None else before.flows,
            wanted_bps=self._wanted[self._order],
            enforced_bps=matrix.commands.enforced_bps[self._order].astype(np.float64),
            info=info,
        )
        return self._last
