# SPDX-License-Identifier: Apache-2.0
"""The Python readers of state matrix and trace, against the C header and against damaged data."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from c_layout import layout, layout_of, numbers, printed, texts

from dc_gym.base.errors import ProtocolError
from dc_gym.monitors import state_matrix
from dc_gym.monitors.state_matrix import COMMAND_ROW, COMMANDS, FLOW, HEADER, MAX_VALUES, NAME_LEN, FlowStatus, StateMatrix
from dc_gym.monitors.trace import open_trace, read_trace

C = "monitors/state_matrix.h"
ROWS = ("s1-eth1", "s1-eth2", "h1-eth0")
COLUMNS = (
    *("backlog_bytes", "backlog_packets", "tx_bytes", "tx_packets", "drops", "marks", "requeues", "active_flows"),
    *("ce_bytes", "queue_byte_ns", "busy_ns", "longest_bytes"),
    *("paused_ns", "charged_bytes", "pauses"),
)


def names(values) -> bytes:
    return b"".join(value.encode().ljust(NAME_LEN, b"\0") for value in values)


def header(**changes) -> np.ndarray:
    """A header as qmon writes it, with changes."""
    raw = np.zeros(1, HEADER)
    end = 256 + (len(ROWS) + len(COLUMNS)) * NAME_LEN
    cells_end = end + len(ROWS) * len(COLUMNS) * 8
    values = dict(
        magic=b"DCGYMSM1", version_major=2, header_len=256, rows=len(ROWS), cols=len(COLUMNS),
        off_row_names=256, off_col_names=256 + len(ROWS) * NAME_LEN, off_cells=end, off_activity=cells_end,
        total_len=cells_end + 8 * len(ROWS), interval_ns=1_000_000, t0_ns=5, t_ns=77, generation=3, seq=6, writer_pid=1,
    )  # fmt: skip
    for name, value in (values | changes).items():
        raw[name] = value
    return raw


def region(**changes) -> bytes:
    cells = np.arange(len(ROWS) * len(COLUMNS), dtype="<u8").tobytes()
    return header(**changes).tobytes() + names(ROWS) + names(COLUMNS) + cells + bytes(8 * len(ROWS))


def trace(sweeps: int, **changes) -> bytes:
    end = 256 + (len(ROWS) + len(COLUMNS)) * NAME_LEN
    head = header(**{"off_activity": 0, "total_len": end, "generation": 0, "seq": 0} | changes)
    body = b"".join(np.uint64(100 * k).tobytes() + np.full(len(ROWS) * len(COLUMNS), k, "<u8").tobytes() for k in range(sweeps))
    return head.tobytes() + names(ROWS) + names(COLUMNS) + body


@pytest.fixture
def write(tmp_path):
    def write(data: bytes) -> Path:
        path = tmp_path / "data"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize(
    ("struct", "dtype"), [("header", HEADER), ("flow", FLOW), ("commands", COMMANDS), ("command", COMMAND_ROW)]
)
def test_layout_is_that_of_c(struct, dtype):
    assert layout_of(dtype) == layout(C, f"sm_{struct}")


def test_constants_are_those_of_c():
    assert texts(C, "SM_MAGIC") == [state_matrix.MAGIC.decode()]
    constants = state_matrix.VERSION_MAJOR, NAME_LEN, state_matrix.MAX_ROWS, state_matrix.MAX_COLS
    assert tuple(numbers(C, "SM_VERSION_MAJOR", "SM_NAME_LEN", "SM_MAX_ROWS", "SM_MAX_COLS")) == constants
    assert numbers(C, "SM_MAX_VALUES", "SM_MAX_ACTUATORS") == [MAX_VALUES, state_matrix.MAX_ACTUATORS]
    assert printed(C, "#define X(id, name) puts(name);\nSM_COLUMNS(X)") == list(COLUMNS)
    assert numbers(C, *(f"SM_FLOW_{status.name}" for status in FlowStatus)) == list(FlowStatus)


def test_reads_a_sweep(write):
    with StateMatrix.attach(write(region())) as matrix:
        assert matrix.rows == ROWS
        assert matrix.columns == COLUMNS
        assert (matrix.interval_ns, matrix.t0_ns) == (1_000_000, 5)
        sweep = matrix.read()
        assert (sweep.t_ns, sweep.generation) == (77, 3)
        assert sweep.cells.tolist() == np.arange(3 * len(COLUMNS)).reshape(3, -1).tolist()


def test_cells_are_live_and_read_only(write):
    path = write(region())
    with StateMatrix.attach(path) as matrix:
        with path.open("r+b") as file:
            file.seek(256 + (len(ROWS) + len(COLUMNS)) * NAME_LEN)
            file.write(np.uint64(4711).tobytes())
        assert matrix.cells[0, 0] == 4711
        with pytest.raises(ValueError):
            matrix.cells[0, 0] = 1


def test_attaches_by_descriptor_and_offset(tmp_path):
    path = tmp_path / "channel"
    offset = 8192 + 64
    path.write_bytes(bytes(offset) + region())
    fd = os.open(path, os.O_RDONLY)
    matrix = StateMatrix(fd, offset)
    os.close(fd)
    assert matrix.read().cells[2, 7] == 2 * len(COLUMNS) + 7
    matrix.close()
    matrix.close()
    with pytest.raises(ProtocolError, match="read after close"):
        matrix.read()


def test_maps_only_the_length_it_is_given(tmp_path):
    path = tmp_path / "channel"
    path.write_bytes(region() + bytes(4096))
    fd = os.open(path, os.O_RDONLY)
    StateMatrix(fd, length=len(region())).close()
    with pytest.raises(ProtocolError, match="total_len"):
        StateMatrix(fd, length=len(region()) - 8)
    with pytest.raises(ProtocolError, match="multiple of 8"):
        StateMatrix(fd, 4)
    os.close(fd)


def test_cells_outlive_close(write):
    with StateMatrix.attach(write(region())) as matrix:
        cells = matrix.cells
    assert cells[2, 7] == 2 * len(COLUMNS) + 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"magic": b"DCGYMXX1"}, "magic"),
        ({"version_major": 1}, "version 1.0"),
        ({"version_major": 3}, "version 3.0"),
        ({"header_len": 128}, "header_len"),
        ({"rows": 0}, "0 rows"),
        ({"rows": 1 << 31}, "rows"),
        ({"cols": 257}, "257 columns"),
        ({"off_row_names": 8}, "off_row_names"),
        ({"off_col_names": 1 << 60}, "off_col_names"),
        ({"off_cells": 256 + 11 * 32 + 4}, "off_cells"),
        ({"off_cells": 1 << 63}, "off_cells"),
        ({"off_activity": 1 << 40}, "off_activity"),
        ({"total_len": 1 << 40}, "total_len"),
    ],
)
def test_refuses_damage(write, changes, words):
    path = write(region(**changes))
    with pytest.raises(ProtocolError, match=words) as refusal:
        StateMatrix.attach(path)
    assert str(path) in str(refusal.value)


def test_refuses_what_is_too_short_or_absent(write, tmp_path):
    for length in (0, 100, 255):
        with pytest.raises(ProtocolError, match="too short"):
            StateMatrix.attach(write(region()[:length]))
    with pytest.raises(ProtocolError, match="total_len"):
        StateMatrix.attach(write(region()[:-1]))
    with pytest.raises(ProtocolError, match="No such file"):
        StateMatrix.attach(tmp_path / "absent")


def test_refuses_names_that_are_not_ascii(write):
    data = bytearray(region())
    data[256] = 0xFF
    with pytest.raises(ProtocolError, match="not ASCII"):
        StateMatrix.attach(write(bytes(data)))


def test_gives_up_on_a_dead_writer(write, monkeypatch):
    monkeypatch.setattr(state_matrix, "READ_TRIES", 20)
    with StateMatrix.attach(write(region(seq=7))) as matrix, pytest.raises(ProtocolError, match=r"seq is 7.*pid 1"):
        matrix.read()


def test_waits_for_the_end_of_a_sweep(write):
    path = write(region(seq=7))

    def finish() -> None:
        with path.open("r+b") as file:
            fields = HEADER.fields
            assert fields is not None
            file.seek(fields["seq"][1])
            file.write(np.uint64(8).tobytes())

    with StateMatrix.attach(path) as matrix:
        timer = threading.Timer(0.01, finish)
        timer.start()
        try:
            assert matrix.read().generation == 3
        finally:
            timer.join()


# ---- flows and commands ----

FLOWS, ACTUATORS = 4, 2
OFF_FLOWS = 1088  # after 256 + 15 * 32 + 36 * 8 + 3 * 8 = 1048 bytes
OFF_COMMANDS = OFF_FLOWS + FLOWS * 64
WHOLE = OFF_COMMANDS + 64 + ACTUATORS * 96


def with_agent(*counts: int, **changes) -> bytearray:
    """A region as agentd writes it. `counts`: how many values each actuator has; nothing: two with one each."""
    counts = counts or (1,) * ACTUATORS
    whole = OFF_COMMANDS + 64 + len(counts) * 96
    parts = dict(off_flows=OFF_FLOWS, off_commands=OFF_COMMANDS, flow_rows=FLOWS, command_rows=len(counts), total_len=whole)
    memory = bytearray(region(**parts | changes).ljust(whole, b"\0"))
    rows_of(memory)["n_values"] = counts
    return memory


def rows_of(memory) -> np.ndarray:
    """The rows of the actuators in a region, as agentd sees them."""
    return np.frombuffer(memory, COMMAND_ROW, offset=OFF_COMMANDS + 64)


def test_shows_flows_as_they_are_now():
    memory = with_agent()
    matrix = StateMatrix.over(memory)
    assert matrix.flows.shape == (FLOWS,)
    flows = np.frombuffer(memory, FLOW, FLOWS, OFF_FLOWS)
    flows["received_bytes"][2], flows["status"][2] = 1 << 40, 2
    assert (matrix.flows["received_bytes"][2], FlowStatus(matrix.flows["status"][2])) == (1 << 40, FlowStatus.DONE)
    with pytest.raises(ValueError):
        matrix.flows["status"][0] = 1
    with pytest.raises(ValueError):
        matrix.cells[0, 0] = 1


def test_follows_the_episodes_t0():
    memory = with_agent()
    matrix = StateMatrix.over(memory)
    assert matrix.t0_ns == 5
    np.frombuffer(memory, HEADER, 1)["t0_ns"][0] = 6
    assert matrix.t0_ns == 6


def test_a_matrix_without_an_agent_says_so(write):
    with StateMatrix.attach(write(region())) as matrix:
        assert len(matrix.flows) == 0
        with pytest.raises(ProtocolError, match="nothing can be set in it"):
            matrix.commands.send([1])


def test_sends_commands():
    memory = with_agent()
    commands = StateMatrix.over(memory).commands
    head, rows = np.frombuffer(memory, COMMANDS, 1, OFF_COMMANDS), rows_of(memory)
    assert (commands.seq, commands.send([3.9e6, 10**10]), commands.seq) == (0, 2, 2)
    assert rows["wanted"][:, 0].tolist() == commands.wanted.tolist() == [3_900_000, 10**10]
    assert commands.send(np.array([-1.0, np.nan], np.float32)) == 4
    assert rows["wanted"][:, 0].tolist() == [0, 0]
    head["ack"], head["applied_ns"], head["timeouts"] = 2, 99, 7
    rows["in_force"][:, 0] = [8, 16]
    assert (commands.ack, commands.applied_ns, commands.timeouts, commands.in_force.tolist()) == (2, 99, 7, [8, 16])
    head["seq"] = 7  # an agent died within its command
    assert commands.send([1, 1]) == 8


@pytest.mark.parametrize("counts", [(1, 3), (3, 1), (1, 1, 3, 3), (3, 1, 1, 4, 2, 2, 1), (4, 4), (2,), (1, 2, 3, 4) * 3])
def test_rows_with_different_numbers_of_values(counts):
    """The values lie one after the other, row by row. No value goes beyond those that a row has."""
    memory = with_agent(*counts, rows=3)
    rows, commands = rows_of(memory), StateMatrix.over(memory).commands
    rows["wanted"] = 7
    assert commands.size == sum(counts)
    sent = list(range(100, 100 + commands.size))
    assert commands.send(sent) == 2
    assert commands.wanted.tolist() == sent
    start = 0
    for row, count in zip(rows["wanted"].tolist(), counts, strict=True):
        assert row == sent[start : start + count] + [7] * (MAX_VALUES - count)
        start += count
    assert not rows["in_force"].any() and not commands.in_force.any()
    rows["in_force"] = np.arange(rows["in_force"].size).reshape(-1, MAX_VALUES)
    read = [MAX_VALUES * row + number for row, count in enumerate(counts) for number in range(count)]
    assert commands.in_force.tolist() == read
    assert commands.wanted.tolist() == sent


def test_what_is_wanted_and_in_force_is_a_copy():
    for counts in ((3, 3), (1, 3)):
        memory = with_agent(*counts)
        commands = StateMatrix.over(memory).commands
        commands.send(range(commands.size))
        wanted, in_force = commands.wanted, commands.in_force
        wanted[:] = in_force[:] = 9
        assert commands.wanted.tolist() == list(range(commands.size)) and not commands.in_force.any()
        rows_of(memory)["in_force"] = 5
        assert (in_force == 9).all()


def test_rows_say_what_they_are():
    memory = with_agent(1, 3)
    rows = rows_of(memory)
    rows["row"], rows["actuator"], rows["acked"] = (2, 0), (b"rate", b"marking"), (6, 4)
    command_rows = StateMatrix.over(memory).commands.rows
    assert command_rows["row"].tolist() == [2, 0] and command_rows["actuator"].tolist() == [b"rate", b"marking"]
    assert command_rows["n_values"].tolist() == [1, 3] and command_rows["acked"].tolist() == [6, 4]


def test_a_command_is_odd_while_it_is_written(monkeypatch):
    memory = with_agent()
    commands = StateMatrix.over(memory).commands
    seqs = []
    minimum = np.minimum
    monkeypatch.setattr(np, "minimum", lambda *args, **kwargs: (seqs.append(commands.seq), minimum(*args, **kwargs)))
    commands.send([1, 2])
    assert seqs == [1]


def test_endless_values_are_the_largest():
    """NaN and negative numbers are 0, which every lower bound is above."""
    commands = StateMatrix.over(with_agent()).commands
    for value, expected in ((np.inf, 1 << 63), (2.0**70, 1 << 63), (-np.inf, 0), (np.nan, 0)):
        commands.send([value, 5])
        assert commands.wanted.tolist() == [expected, 5]


def test_refuses_commands_that_do_not_fit(write):
    commands = StateMatrix.over(with_agent()).commands
    for values in (5, [1], [1, 2, 3], [[1, 2]]):
        with pytest.raises(ProtocolError, match=r"2 are set.*one for each"):
            commands.send(values)
    assert commands.seq == 0
    path = write(bytes(with_agent()))
    with StateMatrix.attach(path) as matrix, pytest.raises(ProtocolError, match="writable=True"):
        matrix.commands.send([1, 2])
    with StateMatrix.attach(path, writable=True) as matrix:
        assert matrix.commands.send([1, 2]) == 2
    with StateMatrix.attach(path) as matrix:
        assert matrix.commands.wanted.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flow_rows": 1 << 30}, "flows"),
        ({"command_rows": 57}, "57 rows of actuators on 3 rows"),
        ({"command_rows": 56}, "off_commands"),
        ({"command_rows": ACTUATORS + 1}, "off_commands"),
        ({"off_flows": 1 << 63}, "off_flows"),
        ({"off_flows": OFF_FLOWS + 4}, "off_flows"),
        ({"flow_rows": FLOWS + 5}, "off_flows"),
        ({"off_commands": 0}, "off_commands"),
        ({"off_commands": OFF_COMMANDS + 8}, "off_commands"),
    ],
)
def test_refuses_damaged_parts_of_an_agent(changes, words):
    with pytest.raises(ProtocolError, match=words):
        StateMatrix.over(with_agent(**changes))


def test_leaves_the_memory_of_others_mapped():
    shared = mmap.mmap(-1, 4096)
    shared[:WHOLE] = bytes(with_agent())
    with StateMatrix.over(shared, what="a lab's") as matrix:
        assert matrix.commands.send([1, 2]) == 2
    with pytest.raises(ProtocolError, match="a lab's: read after close"):
        matrix.read()
    del matrix
    assert shared[:8] == b"DCGYMSM1"
    shared.close()


def test_reads_a_trace(write):
    queue_trace = read_trace(write(trace(5)))
    assert (queue_trace.rows, queue_trace.columns) == (ROWS, COLUMNS)
    assert queue_trace.t_ns.tolist() == [0, 100, 200, 300, 400]
    assert queue_trace.cells.shape == (5, 3, len(COLUMNS))
    assert queue_trace.column("drops")[3].tolist() == [3, 3, 3]
    assert not queue_trace.cells.flags.writeable
    with pytest.raises(ProtocolError, match="no column 'nothing'"):
        queue_trace.column("nothing")


def test_reads_a_trace_without_sweeps(write):
    assert read_trace(write(trace(0))).cells.shape == (0, 3, len(COLUMNS))
    assert not list(open_trace(write(trace(0))).pieces(100))


@pytest.mark.parametrize(("cells", "sweeps"), [(1, [1, 1, 1, 1, 1]), (6, [2, 2, 1]), (100, [5])])
def test_reads_a_trace_in_pieces_of_whole_sweeps(write, cells, sweeps):
    whole, pieces = read_trace(write(trace(5))), list(open_trace(write(trace(5))).pieces(cells))
    assert [len(piece.t_ns) for piece in pieces] == sweeps
    assert np.array_equal(np.concatenate([piece.cells for piece in pieces]), whole.cells)


def test_refuses_a_damaged_trace(write, tmp_path):
    with pytest.raises(ProtocolError, match="cut off"):
        read_trace(write(trace(5)[:-1]))
    with pytest.raises(ProtocolError, match="empty"):
        read_trace(write(b""))
    with pytest.raises(ProtocolError, match="too short"):
        read_trace(write(b"DCGYMSM1"))
    with pytest.raises(ProtocolError, match="off_cells"):
        read_trace(write(trace(5, off_cells=1 << 50)))
    with pytest.raises(ProtocolError, match=r"absent\.partial"):
        read_trace(tmp_path / "absent")
