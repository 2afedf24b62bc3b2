# SPDX-License-Identifier: Apache-2.0
"""The agent's access to a network: it reads frames from shared memory and writes the values to set into it (layout:
monitors/state_matrix.h)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.base.process_bound import this_process
from dc_gym.monitors.state_matrix import COMMAND_ROW, COMMANDS, FLOW, Buffer, StateMatrix
from dc_gym.run.agent.frame import Floats, FlowInfo, Frame
from dc_gym.run.agent.pace import AgentTiming
from dc_gym.run.agent.scene import Scene
from dc_gym.spec import AgentSpec

LATEST_NS = 1 << 62
"""No sweep is later after t0, in ns."""


class Console:
    """The agent's access to one network. `info` describes the flows of the current episode."""

    def __init__(self, scene: Scene, info: FlowInfo, agent: AgentSpec, clock: str = "virtual") -> None:
        self.info = info
        self.pace: AgentTiming | None = None
        """The agent's punctuality in this episode on a real clock. None on a virtual clock, which waits for the agent."""
        self._scene = scene
        self._real = clock == "real"
        self._ordered = any(actuator_rows.ordered for actuator_rows in scene.actuated)
        self._rates_only = len(scene.actuated) == 1 and scene.rates is not None
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

    @property
    def offsets(self) -> npt.NDArray[np.uint32]:
        """[values]: the bytes from the beginning of the commands to where each value is commanded."""
        return _offsets(self._scene)

    def open(self, region: Buffer, flow_rows: int) -> None:
        """Opens the state matrix. Call it at the first step, when the matrix exists.

        `flow_rows`: as planned. Raises ProtocolError if the matrix does not belong to the scene.
        """
        matrix = StateMatrix.over(region)
        _check(matrix, self._scene, flow_rows)
        self._take(matrix)

    def _take(self, matrix: StateMatrix) -> None:
        self._matrix, self._owner = matrix, this_process()
        self._order = _places(self._scene)
        self._wanted = matrix.commands.wanted.astype(np.float64)
        self._flows = matrix.flows.view(f"V{FLOW.itemsize}")  # numpy copies records field by field, but raw bytes in one piece

    def close(self) -> None:
        if self._matrix is not None:
            self._matrix.close()
            self._matrix = None

    def send(self, values: npt.NDArray[np.float64]) -> None:
        """Sets the values of the scene's agents from now on, [values]. Everything else stays as it was at the start."""
        self._owner.require_here("step")
        if self._ordered:
            self._scene.check(values)
        self._wanted[self._order] = values
        self.matrix.commands.send(self._wanted)

    def frame(self, step: int) -> Frame:
        """Returns the current measurements. Step 0 begins an episode.

        A lab stands still at this moment; in real time these are the newest sweep of the counters.
        """
        matrix, info = self.matrix, self.info
        if step == 0:
            self._last, self._wanted = None, matrix.commands.wanted.astype(np.float64)
            self._force.clear()
            self.pace = AgentTiming() if self._real else None
        rows, t_ns = self._sweep(matrix)
        ports = len(self._scene.ports)
        cells, classes = rows[:ports], rows[ports:]
        if self.pace is not None:
            step = max(step, t_ns // self._scene.step_ns) if step else 0
            self.pace.add(step, time.monotonic_ns())
        flows = self._flows[: len(info)].copy().view(FLOW)
        before = self._last
        wanted, enforced = self._wanted[self._order], matrix.commands.in_force[self._order].astype(np.float64)
        wanted_bps, enforced_bps = (wanted, enforced) if self._rates_only else self._rates_of(wanted, enforced)
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
            wanted=wanted,
            enforced=enforced,
            class_cells=classes,
            class_before=classes if before is None else before.class_cells,
        )
        if before is not None:
            now.follow(before)
        return now

    def _rates_of(self, wanted: Floats, enforced: Floats) -> tuple[Floats, Floats]:
        """Returns the hosts' rates among these values; the line rates where agents set none."""
        rates, line_bps = self._scene.rates, self._scene.line_bps
        return (line_bps, line_bps) if rates is None else (wanted[rates], enforced[rates])

    def _sweep(self, matrix: StateMatrix) -> tuple[npt.NDArray[np.uint64], int]:
        """Returns the cells of the sweep and its time after t0. While a lab stands still, nothing writes to the matrix."""
        sweep = matrix.read() if self._real else None
        cells, at_ns = (matrix.cells.copy(), matrix.t_ns) if sweep is None else (sweep.cells, sweep.t_ns)
        if abs(t_ns := at_ns - matrix.t0_ns) > LATEST_NS:
            raise _damaged(f"the last sweep was {t_ns} ns after the start")
        return cells, t_ns


def _check(matrix: StateMatrix, scene: Scene, flow_rows: int) -> None:
    """Raises ProtocolError unless the matrix is as planned. An attacker who has taken over a lab may write to it, and all offsets
    into it, also in the C library of steps, follow from the plan."""
    for part, actual, planned in (
        ("rows", matrix.rows, scene.rows),
        ("columns", matrix.columns, scene.columns),
        ("rows of flows", range(len(matrix.flows)), range(flow_rows)),
        ("rows of actuators", matrix.commands.layout, scene.commands),
    ):
        if actual != planned:
            raise _damaged(f"{len(actual)} {part} are not the {len(planned)} that were planned")


def _damaged(how: str) -> ProtocolError:
    return ProtocolError(f"state matrix: {how}; the lab is damaged, start another")


def _offsets(scene: Scene) -> npt.NDArray[np.uint32]:
    """Returns, for each value that the scene's agents set, the bytes from the beginning of the commands to its `wanted`."""
    first = {(row, actuator): COMMAND_ROW.itemsize * number for number, (row, actuator, _) in enumerate(scene.commands)}
    return np.array([COMMANDS.itemsize + first[key] + 8 * number for key, number in _values(scene)], np.uint32)


def _places(scene: Scene) -> npt.NDArray[np.intp]:
    """Returns the place, among the values of all commands, of each value that the scene's agents set."""
    first, places = {}, 0
    for row, actuator, count in scene.commands:
        first[row, actuator] = places
        places += count
    return np.array([first[key] + number for key, number in _values(scene)], np.intp)


def _values(scene: Scene) -> Iterator[tuple[tuple[int, bytes], int]]:
    """Yields each value that the scene's agents set: row and actuator, and its number among theirs."""
    for actuator_rows in scene.actuated:
        for row in actuator_rows.rows.tolist():
            for number in range(len(actuator_rows.actuator.quantities)):
                yield (row, actuator_rows.actuator.name.encode()), number


class InForce:
    """Tracks which commands were in force during each step.

    A command given at time t is in force from t + agent.latency on. So the command in force in a step may be some steps old, or
    two commands share the step and are weighted by their time in force. The kernels' own values at the step's end are used
    instead in two cases: with control packets, which can be lost, and on a real clock, where the arrival time of a command is not
    known.
    """

    def __init__(self, scene: Scene, agent: AgentSpec, clock: str = "virtual") -> None:
        self._by_kernel = agent.control == "network" or clock == "real"
        self._line_bps = scene.line_bps
        self._behind, late_ns = divmod(agent.latency_ns, scene.step_ns)
        self._late = late_ns / scene.step_ns
        self._given: deque[Floats] = deque(maxlen=self._behind + 2)
        self.clear()

    def clear(self) -> None:
        """Starts an episode, in which nothing is limited at first."""
        self._given.extend([self._line_bps] * (self._behind + 2))

    def over(self, wanted_bps: Floats, enforced_bps: Floats) -> Floats:
        """Returns the rates in force as [hosts], the mean over a step that began with the command `wanted_bps`. Call it once for
        each step, in order."""
        if self._by_kernel:
            return enforced_bps
        self._given.append(wanted_bps)
        before, now = self._given[0], self._given[1]
        return now if not self._late else self._late * before + (1 - self._late) * now
