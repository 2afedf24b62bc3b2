# SPDX-License-Identifier: Apache-2.0
"""The agent's desk: frames from a network's shared memory, rates into it (layout: monitors/state_matrix.h)."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
import numpy.typing as npt

from dc_gym.envs.frame import Floats, FlowInfo, Frame
from dc_gym.envs.pace import Pace
from dc_gym.envs.scene import Scene
from dc_gym.monitors.state_matrix import FLOW, Buffer, StateMatrix
from dc_gym.spec import AgentSpec


class Console:
    """Of one network; `info` is about the flows of the episode that runs."""

    def __init__(self, scene: Scene, info: FlowInfo, agent: AgentSpec, clock: str = "virtual") -> None:
        self.info = info
        self.pace: Pace | None = None
        """Of the episode on a real clock; None: the clock is virtual, and waits."""
        self._scene = scene
        self._real = clock == "real"
        self._force = InForce(scene, agent, clock)
        self._matrix: StateMatrix | None = None
        self._last: Frame | None = None

    @property
    def is_open(self) -> bool:
        return self._matrix is not None

    @property
    def matrix(self) -> StateMatrix:
        assert self._matrix is not None, "open comes first"
        return self._matrix

    def open(self, region: Buffer) -> None:
        """When the matrix is there: at the first step."""
        self._take(StateMatrix.over(region))

    def _take(self, matrix: StateMatrix) -> None:
        self._matrix = matrix
        rows = [int(row) for row in matrix.commands.rates["row"]]
        self._order = np.array([rows.index(row) for row in self._scene.host_row], dtype=np.intp)
        self._lines = np.array([self._scene.rate_bps[row] for row in rows], dtype=np.float64)
        self._wanted = self._lines.copy()
        self._flows = matrix.flows.view(f"V{FLOW.itemsize}")  # numpy copies records field by field, and these at once

    def close(self) -> None:
        if self._matrix is not None:
            self._matrix.close()
            self._matrix = None

    def send(self, rates_bps: npt.NDArray[np.float64]) -> None:
        """What the hosts of the scene may send from now on; all others have the line."""
        self._wanted[self._order] = rates_bps
        self.matrix.commands.send(self._wanted)

    def frame(self, step: int) -> Frame:
        """What is measured at this moment: a lab stands still at it, in real time it is the newest sweep. Step 0 begins an
        episode."""
        matrix, info = self.matrix, self.info
        if step == 0:
            self._last, self._wanted = None, self._lines.copy()
            self._force.clear()
            self.pace = Pace() if self._real else None
        cells, t_ns = self._sweep(matrix)
        if self.pace is not None:
            step = max(step, t_ns // self._scene.step_ns) if step else 0
            self.pace.add(step, time.monotonic_ns())
        flows = self._flows[: len(info)].copy().view(FLOW)
        before = self._last
        wanted_bps = self._wanted[self._order]
        enforced_bps = matrix.commands.enforced_bps[self._order].astype(np.float64)
        self._last = now = Frame(
            step=step,
            t_ns=t_ns,
            elapsed_ns=0 if before is None else t_ns - before.t_ns,
            cells=cells,
            before=cells if before is None else before.cells,
            flows=flows,
            flows_before=flows if before is None else before.flows,
            wanted_bps=wanted_bps,
            in_force_bps=wanted_bps if before is None else self._force.over(wanted_bps, enforced_bps),
            enforced_bps=enforced_bps,
            info=info,
        )
        if before is not None:
            now.follow(before)
        return now

    def _sweep(self, matrix: StateMatrix) -> tuple[npt.NDArray[np.uint64], int]:
        """Its cells, and its time after t0. Nobody writes while a lab stands still."""
        if not self._real:
            return matrix.cells.copy(), matrix.t_ns - matrix.t0_ns
        sweep = matrix.read()
        return sweep.cells, sweep.t_ns - matrix.t0_ns


class InForce:
    """Which commands a step ran under. One that is given at t holds from t + agent.latency on, so that of a step is the one of
    some steps before, or two share it, and count by their time. By control packets, which get lost, and on a real clock, where a
    command comes when it comes, it is what the hosts' kernels say at the step's end.
    """

    def __init__(self, scene: Scene, agent: AgentSpec, clock: str = "virtual") -> None:
        self._by_kernel = agent.control == "network" or clock == "real"
        self._line_bps = scene.line_bps
        self._behind, late_ns = divmod(agent.latency_ns, scene.step_ns)
        self._late = late_ns / scene.step_ns
        self._given: deque[Floats] = deque(maxlen=self._behind + 2)
        self.clear()

    def clear(self) -> None:
        """An episode begins, in which nothing is limited."""
        self._given.extend([self._line_bps] * (self._behind + 2))

    def over(self, wanted_bps: Floats, enforced_bps: Floats) -> Floats:
        """[hosts]: mean over a step at whose beginning `wanted_bps` was commanded, the next one after that of the last call."""
        if self._by_kernel:
            return enforced_bps
        self._given.append(wanted_bps)
        before, now = self._given[0], self._given[1]
        return now if not self._late else self._late * before + (1 - self._late) * now
