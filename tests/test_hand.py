# SPDX-License-Identifier: Apache-2.0
"""The hand in a lab: what it is asked for is done there, what fails has its words, and what a lab gives back is not trusted."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.errors import FabricError, TestbedError
from dc_gym.base.package import PROGRAMS
from dc_gym.base.progress import Quiet
from dc_gym.grounds import by_hand, hand
from dc_gym.grounds.guest.plan import DAEMONS
from dc_gym.grounds.hand import AT, CALL, LIST, STEP, Back, Call, Hand, Room
from dc_gym.kernel.lab import Lab
from dc_gym.run import runner
from dc_gym.spec import Spec
from dc_gym.spec.load import from_dict
from dc_gym.topologies.realize import cables
from dc_gym.topologies.realize.rtnl import LINKS, NetlinkRequest


def made(text: dict[str, Any]) -> Spec:
    return from_dict({"time": {"duration": "100ms"}} | text, Path.cwd())


HEADER = PROGRAMS.parent / "kernel" / "hand.h"


@pytest.fixture
def in_lab(lab_config: Callable[..., Any]) -> Iterator[Hand]:
    with Lab(replace(lab_config(by_hand.ARGV), watchdog_s=20.0)) as booted:
        yield Hand(booted)


def test_both_sides_mean_the_same() -> None:
    text = HEADER.read_text()
    told = {"BASE": hand.BASE, "STEP": STEP, "CALLS_MAX": hand.CALLS_MAX, "START": hand.START, "GO_ON": hand.GO_ON, "AT": AT}
    for name, value in told.items():
        written = next(line for line in text.splitlines() if line.startswith(f"#define HAND_{name} ")).split(None, 2)[2]
        number = written.partition("/*")[0].strip().rstrip("ul")
        assert eval(number.replace("7u", "7")) == value, name
    assert (CALL.size, LIST.size) == (72, 8)


@pytest.mark.lab
def test_calls_are_made_in_the_lab_and_may_use_earlier_results(in_lab: Hand) -> None:
    text = b"written in the lab"
    made = in_lab.make(
        Call.of("open", "/run/file", os.O_CREAT | os.O_RDWR, 0o600),
        Call.of("write", Back(1), text, len(text)),
        Call.of("close", Back(2)),
        Call.of("open", "/run/file", os.O_RDONLY),
        Call.of("read", Back(1), Room(100), 100),
    )
    assert made[1].result == made[4].result == len(text) and made[4].data == text
    assert in_lab.read(["/run/file", "/proc/sys/kernel/ostype"], [None]) == [[text.decode(), "Linux\n"]]
    assert not Path("/run/file").exists()


@pytest.mark.lab
def test_a_list_ends_at_the_call_that_fails_unless_it_may(in_lab: Hand) -> None:
    with pytest.raises(FabricError, match=r"^open in the lab: No such file or directory$"):
        in_lab.make(Call.of("open", "/none", os.O_RDONLY), Call.of("mkdir", "/run/after", 0o700))
    missing, made = in_lab.make(Call.of("access", "/run/after", 0, may_fail=True), Call.of("mkdir", "/run/after", 0o700))
    assert (missing.result, made.result) == (-2, 0)
    with pytest.raises(FabricError, match="have no room in a lab's region"):
        in_lab.make(Call.of("read", 0, Room(1 << 20), 1 << 20))
    assert [done[0].result for done in in_lab.make_all([Call.of("access", "/run", 0)] for _ in range(9000))] == [0] * 9000


@pytest.mark.lab
def test_a_program_is_started_told_heard_and_ended(in_lab: Hand) -> None:
    program = in_lab.start(["/bin/sh", "-c", 'echo ready; read word; echo "heard $word"; cat; exit 3'], 0)
    assert program.line() == b"ready\n"
    program.write(b"this\nthe rest\n")
    assert program.line() == b"heard this\n"
    program.hang_up()
    assert program.rest() == b"the rest\n" and program.wait() == 3
    other = in_lab.start(["/bin/sleep", "1000"], 10)
    other.signal(signal.SIGKILL)
    assert other.wait() == -signal.SIGKILL and other.rest() == b""
    with pytest.raises(FabricError, match="none: start it in the lab: No such file or directory"):
        in_lab.start(["/none"], 0)
    long = in_lab.start(["/bin/sh", "-c", "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done"], 0)
    assert len(long.rest().splitlines()) == 9000 and long.wait() == 0


@pytest.mark.lab
def test_what_is_written_to_a_program_that_has_ended_ends_nothing_else(in_lab: Hand) -> None:
    over = in_lab.start(["/bin/true"], 0)
    assert over.wait() == 0
    with pytest.raises(BrokenPipeError):
        over.write(b"go\n")
    reader = in_lab.start(["/bin/sh", "-c", "yes | head -1; kill -PIPE $$; echo unheard"], 0)  # signals are as in any program
    assert (reader.rest(), reader.wait()) == (b"y\n", -signal.SIGPIPE)
    reader.hang_up()
    with pytest.raises(FabricError, match="write in the lab: Bad file descriptor"):
        reader.write(b"go\n")


@pytest.mark.lab
def test_networks_are_set_up_from_outside(in_lab: Hand) -> None:
    paths = [f"/run/netns/n{number}" for number in range(40)]
    in_lab.add_namespaces(paths)
    in_lab.write_sysctls({"net/ipv4/tcp_ecn": "1"}, paths[:2])
    assert in_lab.read(["/proc/sys/net/ipv4/tcp_ecn"], [*paths[:3], None]) == [["1\n"], ["1\n"], ["2\n"], ["2\n"]]
    with pytest.raises(FabricError, match=r"set net.ipv4.none to '1': No such file or directory"):
        in_lab.write_sysctls({"net/ipv4/none": "1"}, paths[:2])
    root, *sockets = in_lab.netlinks([None, *paths])
    with in_lab.namespaces(dict(zip(paths, paths, strict=True))) as fds:
        ends = [cables.CableEnd("a", None, fds[paths[0]]), cables.CableEnd("b", None, fds[paths[1]])]
        root.batch([cables.create(*ends, 10**9, 1000, 1500)])
    for sock in sockets:
        sock.ask(LINKS)
    assert [sorted(cables.devices(sock)) for sock in sockets] == [["a"], ["b"], *[[] for _ in paths[2:]]]
    with pytest.raises(FabricError, match="make it so: "):
        sockets[0].batch([NetlinkRequest(9999, 0, b"", "make it so")])
    assert sorted(cables.devices(sockets[0])) == ["a"], "it goes on after an error"


SPECS: dict[str, dict[str, Any]] = {
    "fat-tree": {"topology": {"preset": "fattree-k4"}, "workload": {"kind": "random_bijective"}, "controller": {"name": "dctcp"}},
    "wide": {
        "topology": {"kind": "leafspine", "leaves": 2, "hosts_per_leaf": 3, "spines": 24, "rate": "100Mbit/s", "delay": "10us",
                     "buffer": "100kB"},
        "workload": {"kind": "poisson", "load": 0.5, "size": "5kB"}, "controller": {"name": "cubic"},
    },
    "NICs": {
        "topology": {"kind": "leafspine", "leaves": 2, "hosts_per_leaf": 2, "spines": 2, "rate": "1Gbit/s", "delay": "10us",
                     "buffer": "100kB"},
        "workload": {"kind": "random_bijective"}, "controller": {"name": "swift"}, "time": {"duration": "20ms"},
    },
    "captures, events": {
        "topology": {"preset": "dumbbell-10m"}, "workload": {"kind": "pairs"}, "controller": {"name": "cubic"},
        "capture": {"ports": ["s1-eth3"]}, "events": [{"at": "50ms", "link": ["s1", "s2"], "rate": "5Mbit/s"}],
    },
}  # fmt: skip


@pytest.mark.lab
@pytest.mark.parametrize("text", SPECS.values(), ids=SPECS.keys())
def test_from_outside_and_by_daemons_from_inside_a_run_is_the_same(
    text: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_kernel: Path
) -> None:
    found = []
    for daemons in ("", "1"):
        monkeypatch.setenv(DAEMONS, daemons)
        spec = made(text)
        runner.run(spec, out := tmp_path / f"daemons{daemons}", Quiet(), plot=False)
        log = json.loads((out / "manifest.json").read_text())
        found.append((log["digest"], log["conservation"]))
    assert found[0] == found[1]


@pytest.mark.lab
def test_a_late_set_up_says_so_from_outside_too(tmp_path: Path, lab_kernel: Path) -> None:
    with pytest.raises(TestbedError, match=r"^qmon ended with status 2\n  lab: qmon: --t0: .* is past"):
        runner.run(made(SPECS["fat-tree"]), tmp_path / "out", Quiet(), plot=False, disturb="sleep 100")
    assert not (tmp_path / "out").exists()


@pytest.mark.lab
def test_a_program_that_fails_says_why_from_outside_too(tmp_path: Path, lab_kernel: Path) -> None:
    with pytest.raises(TestbedError, match=r"^echo why >&2; exit 9: ended with status 9\n  lab: why$"):
        runner.run(made(SPECS["fat-tree"]), tmp_path / "out", Quiet(), plot=False, disturb="echo why >&2; exit 9")
