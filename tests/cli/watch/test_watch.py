# SPDX-License-Identifier: Apache-2.0
"""`dcgym watch` on made-up labs: a state matrix in a file, and the socket that hands it out; test_run watches a real one."""

from __future__ import annotations

import io
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from dc_gym.base import folder_lock
from dc_gym.base.errors import UsageError
from dc_gym.cli import watch
from dc_gym.cli.watch import labs, line, places, screen, training
from dc_gym.cli.watch.places import Place
from dc_gym.cli.watch.snapshot import Attached, Change, RecentSnapshots
from dc_gym.kernel import share
from dc_gym.monitors.state_matrix import COMMAND_ROW, COMMANDS, FLOW, HEADER, NAME_LEN, FlowStatus
from dc_gym.topologies.graph import Cable, Graph, Host, Port, Queue, Switch

PORTS = ("s1-eth1", "s1-eth2", "h1-eth0", "h2-eth0")
COLUMNS = (
    *("backlog_bytes", "backlog_packets", "tx_bytes", "tx_packets", "drops", "marks", "requeues", "active_flows"),
    *("ce_bytes", "queue_byte_ns", "busy_ns", "longest_bytes"),
)
NS = 10**9
VALUES = {b"rate": 1, b"marking": 3}
PLACE = Place(Path("lab/.lab"), "lab", 1, 1, alone=True)


class FakeMatrix:
    """The region of a lab, in a file that can be changed as it is watched."""

    def __init__(self, path: Path, ports: tuple[str, ...] = PORTS, flows: int = 0, actuators: tuple[bytes, ...] = ()) -> None:
        names = np.array([*ports, *COLUMNS], dtype=f"S{NAME_LEN}").tobytes()
        cells = HEADER.itemsize + len(names)
        activity = cells + 8 * len(ports) * len(COLUMNS)
        off_flows = activity + 8 * len(ports)
        off_commands = off_flows + FLOW.itemsize * flows
        total = off_commands + (COMMANDS.itemsize + COMMAND_ROW.itemsize * len(actuators))
        path.write_bytes(bytes(total))
        self.file = path.open("r+b")
        region = np.memmap(path, np.uint8, "r+", shape=(total,))
        self.header = region[: HEADER.itemsize].view(HEADER)
        region[HEADER.itemsize : cells] = np.frombuffer(names, np.uint8)
        self.cells = region[cells:activity].view("<u8").reshape(len(ports), len(COLUMNS))
        self.flows = region[off_flows:off_commands].view(FLOW)
        self.rows = region[off_commands + COMMANDS.itemsize :].view(COMMAND_ROW)
        self.rows["actuator"], self.rows["n_values"] = actuators, [VALUES[actuator] for actuator in actuators]
        values: dict[str, Any] = {
            "magic": b"DCGYMSM1", "version_major": 2, "version_minor": 0, "header_len": HEADER.itemsize,
            "rows": len(ports), "cols": len(COLUMNS), "off_row_names": HEADER.itemsize,
            "off_col_names": HEADER.itemsize + NAME_LEN * len(ports), "off_cells": cells, "off_activity": activity,
            "total_len": total, "interval_ns": 10**6, "t0_ns": 10 * NS, "t_ns": 11 * NS, "generation": 1,
            "off_flows": off_flows, "off_commands": off_commands, "flow_rows": flows, "command_rows": len(actuators),
        }  # fmt: skip
        for name, value in values.items():
            self.header[name] = value

    def put(self, port: int, **values: int) -> None:
        for name, value in values.items():
            self.cells[port, COLUMNS.index(name)] = value

    def tick(self, t_ns: int) -> None:
        self.header["t_ns"] = t_ns
        self.header["generation"] += 1


def plan(duration_ns: int = 30 * NS) -> str:
    queue = Queue(400_000)
    hosts = [Host(f"h{i}", f"10.0.0.{i}", f"02:00:00:00:00:0{i}") for i in (1, 2)]
    cables = [Cable(Port("s1", f"s1-eth{i}", queue), Port(f"h{i}", f"h{i}-eth0", queue), 10**7, 10_000) for i in (1, 2)]
    graph = Graph(tuple(hosts), (Switch("s1", "edge"),), tuple(cables))
    return json.dumps({"graph": graph.to_json(), "duration_ns": duration_ns})


@contextmanager
def served(run: Path, matrix: FakeMatrix) -> Iterator[Path]:
    """A lab's folder below `run`, with a plan and a server."""
    folder = run / ".lab"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(plan())
    end, ended = os.pipe()
    with share.RegionServer(folder) as server:

        def serve() -> None:
            while end not in (ready := select.select([server, end], [], [])[0]) and server in ready:
                server.serve_one(matrix.file.fileno(), 0, int(matrix.header["total_len"][0]))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield folder
        finally:
            os.write(ended, b"x")
            thread.join()
            os.close(end)
            os.close(ended)


def changed(folder: Path, matrix: FakeMatrix, t_ns: int = 13 * NS, **values: int) -> Change:
    """Returns the change between two looks, between which port 0 changes."""
    window = RecentSnapshots()
    with Attached(folder) as lab:
        lab.change(window)
        matrix.put(0, **values)
        matrix.tick(t_ns)
        return lab.change(window)


def drawn(
    change: Change, height: int | None = None, progress: training.TrainingStatus | None = None, width: int = 160
) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(screen.draw(PLACE, change, progress, width, height))
    assert isinstance(console.file, io.StringIO)
    return [text.rstrip() for text in console.file.getvalue().splitlines()]


# --- where


@pytest.mark.parametrize("where", [".", "..", "/", "none", "deep/none"])
def test_nothing_under_way_is_one_line(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    monkeypatch.setattr(places, "MOST_FOLDERS", 3)  # other runs of this machine are not ours
    with pytest.raises(UsageError, match="no run is under way here"):
        watch.main(Namespace(dir=Path(where), lab=None, interval=None, once=True))


def test_a_run_is_found_by_its_out_and_by_the_folder_that_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run.partial" / ".lab"
    folder.mkdir(parents=True)
    assert places.find(tmp_path / "run") == [Place(folder, "run", 1, 1, alone=True)]
    assert places.find(tmp_path / "run.partial")[0].folder == folder
    monkeypatch.chdir(tmp_path / "run.partial")
    assert places.find(Path())[0].folder == folder
    with pytest.raises(UsageError, match="no lab runs here"):
        watch.main(Namespace(dir=tmp_path / "run", lab=None, interval=None, once=True))


def test_the_labs_of_a_sweep_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "t" / "checkpoint" / ".lab").mkdir(parents=True)  # without a socket
    with share_of(tmp_path / "t/labs/lab-10"), share_of(tmp_path / "t/labs/lab-9"), share_of(tmp_path / "t.partial/b"):
        all_labs = places.find(tmp_path / "t")
        assert [lab.name for lab in all_labs] == ["t.partial/b", "t/labs/lab-9", "t/labs/lab-10"]
        assert {(lab.count, lab.alone) for lab in all_labs} == {(3, False)}
        assert [places.choose(all_labs, choice) for choice in ("2", "t/labs/lab-10", "4")] == [all_labs[1], all_labs[2], None]
        with pytest.raises(UsageError, match=r"--lab: '4': .*1 is t.partial/b, 2 is t/labs/lab-9"):
            places.require(all_labs, tmp_path / "t", "4")


def test_the_labs_of_a_training_are_named_for_what_they_do(tmp_path: Path) -> None:
    names = ("evaluation-0a1b2c3d", "training-10-00000000", "training-2-ffffffff", "evaluation-web.1-00000000")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(share_of(tmp_path / "t" / "dcgym-env-01234567" / f"dcgym-env-{name}"))
        all_labs = places.find(tmp_path / "t")
    assert [lab.name for lab in all_labs] == ["training 2", "training 10", "evaluation", "evaluation web.1"]
    chosen = [places.choose(all_labs, choice) for choice in ("2", "training 10", "evaluation", "3")]
    assert chosen == [all_labs[0], all_labs[1], all_labs[2], None], "there is no training 3"


def test_labs_of_a_training_without_numbers_get_them(tmp_path: Path) -> None:
    with share_of(tmp_path / "t" / "dcgym-env-training-aaaaaaaa"), share_of(tmp_path / "t" / "dcgym-env-training-bbbbbbbb"):
        all_labs = places.find(tmp_path / "t")
    assert [lab.name for lab in all_labs] == ["training 1", "training 2"] and places.choose(all_labs, "2") == all_labs[1]


@contextmanager
def share_of(run: Path) -> Iterator[None]:
    (run / ".lab").mkdir(parents=True)
    with share.RegionServer(run / ".lab"):
        yield


def test_a_watcher_gets_the_region_and_a_failing_one_harms_nobody(tmp_path: Path) -> None:
    memory = (tmp_path / "memory").open("w+b")
    with share.RegionServer(tmp_path) as server, memory:
        server.serve_one(memory.fileno(), 0, 1)  # nobody is there
        with socket.socket(socket.AF_UNIX) as watcher:
            watcher.connect(str(tmp_path / share.NAME))
            server.serve_one(99999, 0, 1)  # a descriptor that cannot be opened
            assert watcher.recv(16) == b""
        with socket.socket(socket.AF_UNIX) as watcher:
            watcher.connect(str(tmp_path / share.NAME))
            server.serve_one(memory.fileno(), 4096, 8192)
            data, fds, _, _ = socket.recv_fds(watcher, 16, 1)
            assert share.PLACE.unpack(data) == (4096, 8192) and len(fds) == 1
            socket.close(fds[0])


def test_a_lab_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "PATIENCE_S", 0.05)
    with share.RegionServer(tmp_path), pytest.raises(UsageError, match="gave no answer"):
        share.attach(tmp_path)


def test_a_lab_that_too_many_have_asked(tmp_path: Path) -> None:
    with share.RegionServer(tmp_path), ExitStack() as stack, pytest.raises(UsageError, match="too many wait"):
        for _ in range(100):
            stack.callback(share.Request(tmp_path).close)


def test_a_socket_whose_holder_was_killed_is_not_served(tmp_path: Path) -> None:
    with share.RegionServer(tmp_path):
        assert all(share.is_served(tmp_path) for _ in range(20))  # more than the queue of the socket holds
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / share.NAME))
    assert not share.is_served(tmp_path)


# --- what


def test_rates_are_of_the_labs_clock(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix")
    matrix.put(0, drops=5, tx_bytes=1000)
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, 13 * NS, drops=25, tx_bytes=1_001_000, backlog_bytes=100_000)
    assert (change.elapsed_s, change.since_t0_s) == (2, 3)
    assert change.per_s("drops").tolist() == [10, 0, 0, 0]
    assert change.per_s("tx_bytes").tolist() == [500_000, 0, 0, 0]
    assert change.network.buffer_bytes.tolist() == [400_000] * 4 and change.network.duration_ns == 30 * NS
    assert change.now.rates is None and change.now.flows is None


def test_classes_are_left_out(tmp_path: Path) -> None:
    """The counters of a port have what its classes drop."""
    matrix = FakeMatrix(tmp_path / "matrix", (*PORTS, "s1-eth1:tcp", "s1-eth1:rdma"))
    matrix.put(0, drops=5)
    matrix.put(5, drops=5)
    with served(tmp_path / "run", matrix) as folder:
        matrix.put(5, drops=25, backlog_bytes=399_000)
        change = changed(folder, matrix, 13 * NS, drops=25, backlog_bytes=100_000)
    assert change.network.ports == PORTS and change.per_s("drops").tolist() == [10, 0, 0, 0]
    assert "queue s1-eth1 100 kB (25 %), drops 10/s" in line.of(PLACE, change, None)


def test_another_episode_begins_the_window_anew(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix")
    matrix.put(0, drops=5)
    window = RecentSnapshots()
    with served(tmp_path / "run", matrix) as folder, Attached(folder) as lab:
        assert math.isnan(lab.change(window).speed)
        matrix.tick(12 * NS)
        speed = lab.change(window).speed
        matrix.header["t0_ns"] = 90 * NS
        matrix.put(0, drops=2)
        matrix.tick(91 * NS)
        change = lab.change(window)
        assert change.speed == speed > 0
        assert change.before is change.now and np.isnan(change.per_s("drops")).all()
        assert "drops" not in line.of(PLACE, change, None) and not any("nan" in text_line for text_line in drawn(change))
        matrix.put(0, drops=6)
        matrix.tick(92 * NS)
        assert lab.change(window).per_s("drops").tolist() == [4, 0, 0, 0]


def test_queues_are_drawn_against_their_buffers(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix")
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, tx_bytes=1_250_000, backlog_bytes=100_000, marks=14, active_flows=3)
    text = drawn(change)
    row = next(text_line for text_line in text if text_line.strip().startswith("s1-eth1"))
    assert row.split() == ["s1-eth1", "█" * 6, "100", "kB", "25", "%", "5", "Mbit/s", "50", "%", "7", "3"]
    assert "t0 + 3.000 s of 30 s" in text[1] and "sweep 2" in text[1]
    assert not any("h1-eth0" in text_line for text_line in text)  # it has seen nothing


def test_no_plan_no_shares(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix")
    with served(tmp_path / "run", matrix) as folder:
        (folder / "plan.json").write_text("{")
        change = changed(folder, matrix, backlog_bytes=100_000)
    text = drawn(change)
    assert any("100 kB" in text_line for text_line in text) and not any("%" in text_line for text_line in text)
    assert "(" not in line.of(PLACE, change, None)


def test_rates_and_flows(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix", flows=3, actuators=(b"rate",) * 2)
    matrix.rows["row"] = 2, 3
    matrix.rows["wanted"][:, 0], matrix.rows["in_force"][:, 0] = (5 * 10**6, 10**7), (4_990_000, 10**7)
    matrix.flows["status"] = FlowStatus.RUNNING, FlowStatus.DONE, FlowStatus.RUNNING
    matrix.flows["srtt_us"], matrix.flows["received_bytes"] = (2000, 9, 6000), (10, 20, 3_000_000)
    matrix.flows["rate_bps"] = 0, 0, 4 * 10**6
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, backlog_bytes=1)
    text = drawn(change)
    rows = {text_line.split()[0]: text_line.split()[1:] for text_line in text if text_line.startswith(" h")}
    assert rows["h1-eth0"] == ["█" * 12, "5", "Mbit/s", "4.99", "Mbit/s", "0", "bit/s"]
    assert rows["h2-eth0"][0] == "█" * 24
    assert any("2 flows under way, srtt 4 ms" in text_line for text_line in text)
    flows = [text_line.split() for text_line in text if text_line.startswith(" flow ")]
    assert flows[0] == ["flow", "2", "6", "ms", "4", "Mbit/s", "3", "MB", "0"]
    assert flows[1] == ["flow", "0", "2", "ms", "-", "10", "B", "0"] and not any("CNPs" in text_line for text_line in text)
    words = line.of(PLACE, change, None)
    assert words.startswith("t0 + 3.000 s of 30 s") and "hosts want 15 Mbit/s, have 15 Mbit/s" in words
    assert words.endswith("2 flows, srtt 4 ms")


@pytest.mark.parametrize("actuators", [(b"marking",), (b"marking", b"rate", b"marking", b"rate")])
def test_other_actuators_are_no_rates(tmp_path: Path, actuators: tuple[bytes, ...]) -> None:
    matrix = FakeMatrix(tmp_path / "matrix", actuators=actuators)
    hosts = actuators.count(b"rate")
    of_host = matrix.rows["actuator"] == b"rate"
    matrix.rows["wanted"] = matrix.rows["in_force"] = 30_000, 60_000, 10**6, 0
    if hosts:
        matrix.rows["row"][of_host] = 2, 3
        matrix.rows["wanted"][of_host, 0] = matrix.rows["in_force"][of_host, 0] = 5 * 10**6, 7 * 10**6
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, backlog_bytes=1)
    rates = change.now.rates
    if not hosts:
        assert rates is None and "hosts want" not in line.of(PLACE, change, None)
    else:
        assert rates is not None and rates.row.tolist() == [2, 3]
        assert rates.wanted_bps.tolist() == rates.enforced_bps.tolist() == [5e6, 7e6]
        assert "hosts want 12 Mbit/s, have 12 Mbit/s" in line.of(PLACE, change, None)


def test_markings_that_agents_set_are_columns_of_their_ports(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix", actuators=(b"marking", b"rate"))
    matrix.rows["row"] = 1, 2
    matrix.rows["wanted"][0], matrix.rows["in_force"][0] = (9, 9, 9, 0), (20_000, 160_000, 10_000, 0)
    matrix.put(1, tx_bytes=5)
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, backlog_bytes=1, tx_bytes=1)
    markings = change.now.markings
    assert markings is not None and markings.kmax_bytes[1] == 160_000 and np.isnan(markings.pmax[[0, 2, 3]]).all()
    text = drawn(change, width=140)
    assert any({"Kmin", "Kmax", "Pmax"} <= set(text_line.split()) for text_line in text)
    (row,) = [text_line for text_line in text if text_line.startswith(" s1-eth2")]
    assert "20 kB" in row and "160 kB" in row and " 1 % " in row
    (other,) = [text_line for text_line in text if text_line.startswith(" s1-eth1")]
    assert "160 kB" not in other


def test_flows_of_nics_that_measure_no_round_trips(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix", flows=3)
    matrix.flows["status"] = FlowStatus.RUNNING
    matrix.flows["rate_bps"], matrix.flows["cnps"] = (9 * 10**9, 10**6, 5 * 10**8), (0, 1234, 5)
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, backlog_bytes=1)
    text = drawn(change)
    assert any(text_line.split() == ["srtt", "rate", "received", "retransmits", "CNPs"] for text_line in text)
    flows = [text_line.split() for text_line in text if text_line.startswith(" flow ")]
    assert [flow[1:2] + flow[3:5] + flow[-2:] for flow in flows] == [
        ["1", "1", "Mbit/s", "0", "1,234"],
        ["2", "500", "Mbit/s", "0", "5"],
        ["0", "9", "Gbit/s", "0", "0"],
    ]
    assert line.of(PLACE, change, None).endswith("3 flows")


def test_a_small_terminal_shows_the_fullest_ports(tmp_path: Path) -> None:
    ports = tuple(f"s1-eth{i}" for i in range(1, 101))
    matrix = FakeMatrix(tmp_path / "matrix", ports)
    for i in range(100):
        matrix.put(i, backlog_bytes=1000 + i)
    matrix.put(7, backlog_bytes=10**5)
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix)
    progress = training.TrainingStatus(2, 2000, 8.789, 98.6, 83, 36)
    for height, width in ((12, 160), (24, 160), (24, 60)):
        text = drawn(change, height, progress, width)
        assert len(text) <= height and not any("…" in text_line for text_line in text)
        port_names = [text_line.split()[0] for text_line in text if text_line.strip().startswith("s1-eth")]
        assert port_names[0] == "s1-eth8" and port_names[-1] == "s1-eth100" and f"and {100 - len(port_names)} ports" in text[-1]
    assert len(drawn(change)) > 100


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_terminal_cuts_no_name_and_no_number(tmp_path: Path, width: int) -> None:
    ports = ("agg3_1-eth24", "s1-eth2", "core2_2-eth4", "h16-eth0")
    matrix = FakeMatrix(tmp_path / "matrix", ports, flows=2, actuators=(b"rate",))
    matrix.put(2, backlog_bytes=1)
    matrix.rows["row"], matrix.rows["wanted"][:, 0], matrix.rows["in_force"][:, 0] = 3, 123_456_789, 123_400_000
    matrix.flows["status"], matrix.flows["srtt_us"] = FlowStatus.RUNNING, (36_668, 123_456)
    matrix.flows["rate_bps"], matrix.flows["received_bytes"], matrix.flows["cnps"] = 9_876_543, 123_456_789, 12_345
    with served(tmp_path / "run", matrix) as folder:
        change = changed(folder, matrix, tx_bytes=1_234_567, backlog_bytes=123_456, drops=24_690, marks=2_469, active_flows=16)
    text = drawn(change, width=width)
    assert max(map(len, text)) <= width and not any("…" in text_line for text_line in text)
    flat_text = " ".join(" ".join(text).split())
    numbers = ("123 kB", "4.94 Mbit/s", "123 Mbit/s", "123.5 ms", "9.88 Mbit/s", "12,345")
    assert not [words for words in (ports[0], ports[2], ports[3], *numbers) if words not in flat_text]
    assert ("used" in flat_text) == (width == 80), "what can be worked out goes where there is no room"


# --- a training


def test_the_last_whole_line_of_progress(tmp_path: Path) -> None:
    out = tmp_path / "t"
    assert training.read(out) is None
    (tmp_path / "t.partial").mkdir()
    file = tmp_path / "t.partial" / "progress.csv"
    file.write_text("iteration,steps,return_mean,queue_mean,steps_per_s,eta_s\n")
    assert training.read(out) is None
    file.write_text(file.read_text() + "1,1000,-3.5,0.25,900,60\n2,2000,,nan,1000,\n3,30")
    progress = training.read(out)
    assert progress is not None and str(progress) == "iteration 2, 2,000 steps, return -3.5, queue 0.25 B, 1000 steps/s"
    file.write_text("iteration,steps,return_mean,queue_mean,more\n7,70,0.5,12345.6,1\n")
    assert str(training.read(out)) == "iteration 7, 70 steps, return 0.5, queue 12.3 kB"


# --- the command


class Watching(io.StringIO):
    """`dcgym watch OUT` in a thread, and the standard output that it writes.

    The output is its own: capsys loses what one thread writes while another reads.
    """

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(sys, "stdout", self)
        args = Namespace(dir=out, lab=None, interval=0.01, once=False)
        self._watcher = threading.Thread(target=watch.main, args=(args,))
        self._watcher.start()

    def wait_for(self, text: str, count: int = 1) -> None:
        """Waits until the text was printed so often. Fails if the watcher ends before."""
        while self.getvalue().count(text) < count:
            assert self._watcher.is_alive(), self.getvalue()
            time.sleep(0.01)

    def end(self) -> str:
        """Waits for the watcher's end. Returns what it printed."""
        self._watcher.join(timeout=60)
        assert not self._watcher.is_alive()
        return self.getvalue()


def test_lines_until_the_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = FakeMatrix(tmp_path / "matrix")
    with served(tmp_path / "run", matrix) as folder:
        watching = Watching(tmp_path / "run", monkeypatch)
        watching.wait_for("\n", 3)
        (folder / share.NAME).unlink()
        output = watching.end()
    assert all(text_line.startswith("t0 + 1.000 s of 30 s") for text_line in output.splitlines())


def test_a_training_goes_on_with_its_next_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labs, "NEXT_LAB_S", 0.2)
    first, second = FakeMatrix(tmp_path / "a"), FakeMatrix(tmp_path / "b")
    second.header["t_ns"] = 15 * NS
    with served(tmp_path / "t" / "lab-1", first) as one, served(tmp_path / "t" / "lab-2", second) as two:
        watching = Watching(tmp_path / "t", monkeypatch)
        watching.wait_for("t/lab-1: t0 + 1.000 s")
        (one / share.NAME).unlink()
        watching.wait_for("t/lab-2: t0 + 5.000 s")
        (two / share.NAME).unlink()
        watching.end()


class Idle:
    """A lab that is stopped: its socket is there, but nothing answers."""

    def __init__(self, run: Path) -> None:
        self.folder = run / ".lab"
        self.folder.mkdir(parents=True)
        self.server = share.RegionServer(self.folder)

    def __enter__(self) -> None:
        self.server.__enter__()

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()


def looked(chooser: labs.LabChooser, until: Any) -> Any:
    """Returns the first look that `until` accepts."""
    while not until(look := chooser.look()):
        pass
    return look


def test_the_lab_that_works_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that never answers, or that stands still while another moves, is not shown."""
    monkeypatch.setattr(labs, "STILL_S", 0.05)
    out = tmp_path / "t"
    first, second = FakeMatrix(tmp_path / "a"), FakeMatrix(tmp_path / "b")
    with (
        Idle(out / "dcgym-env-evaluation-00000000"),
        served(out / "dcgym-env-training-1-00000000", first),
        served(out / "dcgym-env-training-2-00000000", second),
        labs.LabChooser(out, None) as following,
        labs.LabChooser(out, "2") as one,
    ):
        for t_s, moving, name in ((20, second, "training 2"), (21, first, "training 1"), (22, second, "training 2")):
            ticks = iter(range(t_s * NS, 10**6 * NS, NS))

            def shown(look: Any, moving: FakeMatrix = moving, name: str = name, ticks: Any = ticks, t_ns: int = t_s * NS) -> bool:
                moving.tick(next(ticks))
                return look is not None and look[0].name == name and look[1].now.t_ns >= t_ns

            lab, _ = looked(following, shown)
            assert (lab.number, lab.count) == (int(name[-1]), 3)
        assert looked(one, lambda look: look is not None)[0].name == "training 2"
        assert (following.awaited(), one.awaited()) == ("a lab that runs", "a lab that runs")
        with labs.LabChooser(out, "training 3") as third:
            assert third.look() is None and not third.is_over()
            assert third.awaited().startswith("--lab 'training 3': the labs that run here: 1 is training 1, 2 is training 2, ")
        assert not following.is_over()


def test_a_training_that_is_starting_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for before its folder exists, and before its labs do."""
    out, matrix = tmp_path / "t", FakeMatrix(tmp_path / "matrix")
    watching = Watching(out, monkeypatch)
    watching.wait_for("\n")
    out.mkdir()
    with folder_lock.held(out, "a training"), served(out / "dcgym-env-evaluation-00000000", matrix):
        watching.wait_for("evaluation: t0 + 1.000 s")
    assert watching.end().startswith(f"{out}: waits for a lab that runs\n")


def test_a_training_that_ended_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with pytest.raises(UsageError, match="no run is under way here"):
        watch.main(Namespace(dir=tmp_path / "t", lab=None, interval=0.01, once=False))


def test_ctrl_c(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path / "matrix")
    with served(tmp_path / "run", matrix):
        argv = [sys.executable, "-m", "dc_gym.cli.main", "watch", str(tmp_path / "run"), "--interval", "0.1"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline().startswith("t0 + 1.000 s")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "dcgym: interrupted\n")


def test_bad_options() -> None:
    for option, value in (("--lab", "0"), ("--interval", "0"), ("--interval", "nan"), ("--interval", "soon")):
        process = subprocess.run(
            [sys.executable, "-m", "dc_gym.cli.main", "watch", "x", option, value], capture_output=True, text=True, check=False
        )
        assert process.returncode == 2 and repr(value) in process.stderr
