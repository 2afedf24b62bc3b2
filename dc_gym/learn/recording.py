# SPDX-License-Identifier: Apache-2.0
"""The steps of one lab as arrays. The C library of steps writes them (native/steps.h); frames are views of them.

A recording holds up to BLOCK_STEPS steps and the frame before the first of them. A full recording is never written again: the lab
goes on in another one. So a frame never changes while anybody keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.monitors.state_matrix import FLOW
from dc_gym.run.agent.frame import Floats, FlowInfo, Frame
from dc_gym.run.agent.metrics import BLOCK_STEPS
from dc_gym.run.agent.scene import Scene

SLOTS = BLOCK_STEPS + 1


@dataclass(frozen=True, slots=True)
class Recorder:
    """The common parts of the recordings of one episode."""

    scene: Scene
    info: FlowInfo
    values: int
    """The number of values that are set."""
    by_kernel: bool
    """True: the values in force in a step are the values that the kernels enforce at its end. False: the commanded ones."""
    late: bool
    """True: the values in force in a step are computed for each step (console.InForce)."""


class Recording:
    """The recorded steps of a part of an episode, as the frames of a block (metrics.py)."""

    def __init__(self, recorder: Recorder, first: Frame) -> None:
        """`first`: the measurements before the first step of this recording."""
        self.recorder = recorder
        scene, info, values = recorder.scene, recorder.info, recorder.values
        self.rows = np.empty((SLOTS, len(scene.rows), first.cells.shape[1]), np.uint64)
        self.cells, self.class_cells = self.rows[:, : len(scene.ports)], self.rows[:, len(scene.ports) :]
        self.flows = np.empty((SLOTS, len(info)), FLOW)
        self.t_ns, self.numbers = np.empty(SLOTS, np.int64), np.empty(SLOTS, np.uint64)
        self.wanted, self.enforced = np.empty((SLOTS, values)), np.empty((SLOTS, values))
        self.wanted_bps, self.enforced_bps = self._rates(self.wanted), self._rates(self.enforced)
        self.in_force_bps: Floats = self.enforced_bps if recorder.by_kernel else self.wanted_bps
        if recorder.late:
            self.in_force_bps = np.empty((SLOTS, len(scene.hosts)))
            self.in_force_bps[0] = first.in_force_bps
        self.cells[0], self.class_cells[0], self.flows[0] = first.cells, first.class_cells, first.flows
        self.t_ns[0], self.numbers[0] = first.t_ns, first.step
        self.wanted[0], self.enforced[0] = first.wanted, first.enforced
        self.begins = first.step == 0
        """True if the first slot holds the episode's first frame."""
        self.count = 0
        """The number of steps recorded so far."""

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, step: int) -> Frame:
        """Returns the frame of one step; 0 is the first one of this recording."""
        return self.frame(step + 1)

    def frame(self, slot: int) -> Frame:
        """Returns the frame of a slot. Slot 0 holds the frame before the first step."""
        before = max(slot - 1, 0)
        return Frame(
            step=int(self.numbers[slot]),
            t_ns=int(self.t_ns[slot]),
            elapsed_ns=int(self.t_ns[slot] - self.t_ns[before]),
            cells=self.cells[slot],
            before=self.cells[before],
            flows=self.flows[slot],
            flows_before=self.flows[before],
            wanted_bps=self.wanted_bps[slot],
            in_force_bps=self.in_force_bps[slot] if slot else self.wanted_bps[slot],
            enforced_bps=self.enforced_bps[slot],
            info=self.recorder.info,
            wanted=self.wanted[slot],
            enforced=self.enforced[slot],
            class_cells=self.class_cells[slot],
            class_before=self.class_cells[before],
        )

    def stacked(self) -> Frame:
        """Returns all steps as one stack (frame.stacked), without a copy."""
        count = self.count
        now, then = slice(1, count + 1), slice(0, count)
        return Frame(
            step=int(self.numbers[count]),
            t_ns=int(self.t_ns[count]),
            elapsed_ns=int(self.t_ns[1] - self.t_ns[0]),
            cells=self.cells[now],
            before=self.cells[then],
            flows=self.flows[now],
            flows_before=self.flows[then],
            wanted_bps=self.wanted_bps[now],
            in_force_bps=self.in_force_bps[now],
            enforced_bps=self.enforced_bps[now],
            info=self.recorder.info,
            wanted=self.wanted[count],
            enforced=self.enforced[count],
            class_cells=self.class_cells[now],
            class_before=self.class_cells[then],
        )

    def _rates(self, values: Floats) -> Floats:
        """Returns the hosts' rates among the values, [slots, hosts]; the line rates where agents set none."""
        rates, line_bps = self.recorder.scene.rates, self.recorder.scene.line_bps
        rates_bps: npt.NDArray[Any] = np.broadcast_to(line_bps, (SLOTS, len(line_bps))) if rates is None else values[:, rates]
        return rates_bps
