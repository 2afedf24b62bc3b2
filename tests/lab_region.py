# SPDX-License-Identifier: Apache-2.0
"""The memory that a lab shares, as agentd makes it, and the host's readers of it without a lab: Console, and the C library."""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np

from dc_gym.kernel.channel import HEADER as MESSAGE
from dc_gym.kernel.channel import STEP, MessageType
from dc_gym.learn.stepper import LabStepper, Steps
from dc_gym.monitors.state_matrix import COLUMNS, COMMAND_ROW, COMMANDS, FLOW, HEADER, NAME_LEN
from dc_gym.run.agent.console import Console
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.plan.experiment import Experiment


def region(experiment: Experiment, flows: int, **changes: Any) -> bytearray:
    """Returns the memory of an experiment's network with rows for so many flows, its last part, and changes of its header."""
    rows = [row.name.encode() for row in experiment.graph.rows()]
    commands = np.zeros(len(experiment.actuated), COMMAND_ROW)
    for row, slot in zip(commands, experiment.actuated, strict=True):
        row["row"], row["actuator"], row["n_values"] = slot.row, slot.actuator.name.encode(), len(slot.bounds)
        row["wanted"][: len(slot.bounds)] = row["in_force"][: len(slot.bounds)] = [bounds.start for bounds in slot.bounds]
    names = b"".join(name.ljust(NAME_LEN, b"\0") for name in (*rows, *(column.encode() for column in COLUMNS)))
    cells, activity, flow_bytes = bytes(8 * len(rows) * len(COLUMNS)), bytes(8 * len(rows)), bytes(FLOW.itemsize * flows)
    parts = (bytes(HEADER.itemsize), names, cells, activity, bytes(COMMANDS.itemsize) + commands.tobytes(), flow_bytes)
    places = np.cumsum([len(part) for part in parts]).tolist()
    head = np.zeros(1, HEADER)
    facts = dict(magic=b"DCGYMSM1", version_major=2, version_minor=2, header_len=HEADER.itemsize, rows=len(rows))
    facts |= dict(cols=len(COLUMNS), off_row_names=places[0], off_col_names=places[0] + len(rows) * NAME_LEN, off_cells=places[1])
    facts |= dict(off_activity=places[2], off_commands=places[3], off_flows=places[4], total_len=places[5])
    facts |= dict(flow_rows=flows, command_rows=len(commands), t0_ns=5, t_ns=5, interval_ns=10**7)
    for name, value in (facts | changes).items():
        head[name] = value
    return bytearray(head.tobytes() + b"".join(parts[1:]))


def commands_of(memory: bytearray) -> np.ndarray[Any, Any]:
    """Returns the rows of the actuators in such a memory, which can be changed."""
    head = np.frombuffer(memory, HEADER, 1)[0]
    return np.frombuffer(memory, COMMAND_ROW, int(head["command_rows"]), int(head["off_commands"]) + COMMANDS.itemsize)


def guarded(data: bytes | bytearray) -> memoryview:
    """Returns memory with this content. What reads or writes behind it dies by SIGSEGV."""
    size = -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    end = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    start = size - len(data)
    memory[start:size] = bytes(data)
    return memoryview(memory)[start:size]


def stepped(experiment: Experiment, memory: Any, flow_rows: int) -> Steps:
    """Begins an episode on this memory and takes a step of it, as a vector of labs does. `flow_rows`: as planned."""
    scene = Scene.of(experiment)
    console = Console(scene, flow_info(experiment, scene), experiment.spec.agent)
    console.open(memory, flow_rows)
    host_end, lab_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with host_end, lab_end:
        nothing = lambda *_: None  # noqa: E731
        lab = SimpleNamespace(fileno=host_end.fileno, cpu=0, question=(0, 5), lend=nothing, serve_readers=nothing)
        session: Any = SimpleNamespace(experiment=experiment, console=console, lab=lab, close=nothing)
        stepper = LabStepper([session], [EpisodeTracker(experiment.spec, scene)])
        stepper.begin(0, console.frame(0), 1)
        lab_end.send(MESSAGE.pack(MessageType.STEP, STEP.size) + struct.pack("<QQ", 1, 5 + 10**7))
        return stepper.step(scene.start[np.newaxis])
