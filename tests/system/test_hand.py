# SPDX-License-Identifier: Apache-2.0
"""The hand in a lab: what it is asked for is done there, what fails has its words, and what a lab gives back is not trusted."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dc_gym.base.errors import FabricError, LabError, TestbedError
from dc_gym.base.package import PROGRAMS
from dc_gym.base.progress import Quiet
from dc_gym.kernel.lab import Lab
from dc_gym.learn import session
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run import runner
from dc_gym.run.grounds import by_hand, hand
from dc_gym.run.grounds.hand import AT, CALL, LIST, STEP, Back, Call, Done, Hand, Room
from dc_gym.run.grounds.lab import LabGround
from dc_gym.run.plan.plan import DAEMONS
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
    constants = {"BASE": hand.BASE, "STEP": STEP, "CALLS_MAX": hand.CALLS_MAX, "START": hand.START, "GO_ON": hand.GO_ON, "AT": AT}
    for name, value in constants.items():
        written = next(line for line in text.splitlines() if line.startswith(f"#define HAND_{name} ")).split(None, 2)[2]
        number = written.partition("/*")[0].strip().rstrip("ul")
        assert eval(number.replace("7u", "7")) == value, name
    assert (CALL.size, LIST.size) == (72, 8)


@pytest.mark.lab
def test_calls_are_made_in_the_lab_and_may_use_earlier_results(in_lab: Hand) -> None:
    text = b"written in the lab"
    outcomes = in_lab.make(
        Call.of("open", "/run/file", os.O_CREAT | os.O_RDWR, 0o600),
        Call.of("write", Back(1), text, len(text)),
        Call.of("close", Back(2)),
        Call.of("open", "/run/file", os.O_RDONLY),
        Call.of("read", Back(1), Room(100), 100),
    )
    assert outcomes[1].result == outcomes[4].result == len(text) and outcomes[4].data == text
    assert in_lab.read(["/run/file", "/proc/sys/kernel/ostype"], [None]) == [[text.decode(), "Linux\n"]]
    assert not Path("/run/file").exists()


@pytest.mark.lab
def test_a_list_ends_at_the_call_that_fails_unless_it_may(in_lab: Hand) -> None:
    with pytest.raises(FabricError, match=r"^open in the lab: No such file or directory$"):
        in_lab.make(Call.of("open", "/none", os.O_RDONLY), Call.of("mkdir", "/run/after", 0o700))
    missing, created = in_lab.make(Call.of("access", "/run/after", 0, may_fail=True), Call.of("mkdir", "/run/after", 0o700))
    assert (missing.result, created.result) == (-2, 0)
    with pytest.raises(FabricError, match="have no room in a lab's region"):
        in_lab.make(Call.of("read", 0, Room(1 << 20), 1 << 20))
    assert [outcomes[0].result for outcomes in in_lab.make_all([Call.of("access", "/run", 0)] for _ in range(9000))] == [0] * 9000


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
    with pytest.raises(FabricError, match=r"none: .*No such file"):
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
    with pytest.raises(FabricError, match=r"net\.ipv4\.none.*'1': No such file"):
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
    "an agent": {
        "topology": {"preset": "dumbbell-10m"}, "workload": {"kind": "pairs"},
        "controller": {"name": "dctcp", "policy": "random"}, "agent": {"interval": "1ms", "latency": "1500us"},
        "capture": {"ports": ["s1-eth3"]}, "events": [{"at": "50ms", "link": ["s1", "s2"], "rate": "5Mbit/s"}],
    },
    "an agent's packets": {
        "topology": {"preset": "dumbbell-10m"}, "workload": {"kind": "pairs"},
        "controller": {"name": "cubic", "policy": "random"},
        "agent": {"interval": "5ms", "control": "network", "control_loss": 0.2},
    },
    "an agent beside NICs": {
        "topology": {"preset": "dctcp-10g"}, "workload": {"kind": "many_to_one", "senders": 4},
        "controller": {"name": "dcqcn", "policy": "random"}, "agent": {"interval": "500us", "actuators": "marking"},
        "time": {"duration": "5ms"},
    },
}  # fmt: skip


@pytest.mark.lab
@pytest.mark.parametrize("text", SPECS.values(), ids=SPECS.keys())
def test_from_outside_and_by_daemons_from_inside_a_run_is_the_same(
    text: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_kernel: Path
) -> None:
    outcomes = []
    for daemons in ("", "1"):
        monkeypatch.setenv(DAEMONS, daemons)
        spec = made(text)
        runner.run(spec, out := tmp_path / f"daemons{daemons}", Quiet(), plot=False)
        log = json.loads((out / "manifest.json").read_text())
        frames = None if spec.controller.policy else log["conservation"]  # an agent's are counted before daemons see the paths
        outcomes.append((log["digest"], log.get("agent_digest"), frames))
    assert outcomes[0] == outcomes[1]


@pytest.mark.lab
def test_a_late_set_up_says_so_from_outside_too(tmp_path: Path, lab_kernel: Path) -> None:
    with pytest.raises(TestbedError, match=r"^qmon ended with status 2\n  lab: qmon: --t0: .* is past"):
        runner.run(made(SPECS["fat-tree"]), tmp_path / "out", Quiet(), plot=False, disturb="sleep 100")
    assert not (tmp_path / "out").exists()


@pytest.mark.lab
def test_a_program_that_fails_says_why_from_outside_too(tmp_path: Path, lab_kernel: Path) -> None:
    with pytest.raises(TestbedError, match=r"^echo why >&2; exit 9: ended with status 9\n  lab: why$"):
        runner.run(made(SPECS["fat-tree"]), tmp_path / "out", Quiet(), plot=False, disturb="echo why >&2; exit 9")


STEPPED = {
    "name": "stepped", "topology": {"preset": "dumbbell-10m"}, "workload": {"kind": "pairs"}, "controller": {"name": "dctcp"},
    "agent": {"interval": "1ms"}, "time": {"duration": "100ms"},
}  # fmt: skip


@pytest.mark.lab
def test_episodes_are_set_up_from_outside_and_leave_no_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, pipes = Hand.make, []

    def noting(self: Hand, *calls: Call) -> list[Done]:
        outcomes = make(self, *calls)
        if calls[0].name == "pipe2":
            pipes.append([outcome.buffer for outcome in outcomes])
        return outcomes

    monkeypatch.setattr(Hand, "make", noting)
    with closing(DataCenterEnv(STEPPED, folder=tmp_path)) as env:
        for seed in range(1, 6):
            env.reset(seed=seed)
            env.step(env.action_space.high)
        assert env.session.lab.config.argv == by_hand.ARGV and env.session.boots == 1
    agentd, first, *others = pipes
    assert agentd != first and others == [first] * 4, "each tgen has the descriptors of the one before"


AGENTD_ENDS = "for each in /proc/[0-9]*; do [ $(cat $each/comm) = agentd ] && kill -9 ${each#/proc/}; done"


@pytest.mark.lab
@pytest.mark.parametrize("labs", [1, 2])
def test_an_agentd_that_ends_in_an_episode_is_told(labs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_20ms = f"(sleep 20.02; {AGENTD_ENDS}) </dev/null >/dev/null 2>&1 &"
    monkeypatch.setattr(session, "write_plan", partial(session.write_plan, disturb=at_20ms))
    message = "agentd ended with status -9"
    with closing(LabVectorEnv(labs, STEPPED, ["lab.t0=20s"], folder=tmp_path)) as env:
        env.reset(seed=1)
        for _ in range(40):
            *_, truncated, info = env.step(env.action_space.high)
            if truncated.any():
                break
        assert truncated.all() and all(text.startswith(message) for text in info["lab_died"]), info
        env.reset(seed=2)
        assert [lab_session.boots for lab_session in env.sessions] == [2] * labs
    with closing(DataCenterEnv(STEPPED, ["lab.t0=20s"], folder=tmp_path)) as one, pytest.raises(LabError, match=f"^{message}"):
        one.reset(seed=1)
        for _ in range(40):
            one.step(one.action_space.high)


@pytest.mark.lab
def test_a_matrix_that_has_no_room_below_the_hand_is_told(tmp_path: Path) -> None:
    many = STEPPED | {"workload": {"kind": "all_to_all", "flows": 57300 // 12, "size": "1kB"}}
    text = r"^the state matrix of .* 57300 flows and 4 rows of .* has 36[0-9]{5} bytes, and .* room for 3670016; have fewer flows"
    with closing(DataCenterEnv(many, folder=tmp_path)) as env, pytest.raises(LabError, match=text):
        env.reset(seed=1)


def test_steps_of_a_run_that_do_not_follow_one_another_are_no_agents() -> None:
    """A lab that was taken over could ask for ever."""
    requests: Any = SimpleNamespace(next_step=iter([0, 1, 1]).__next__)
    ground, driver = LabGround(made(SPECS["an agent"])), SimpleNamespace(step=lambda region, step: answers.append(step) or 0)
    answers: list[int] = []
    lab: Any = SimpleNamespace(region=b"", answer=lambda code: None, state=lambda: None)
    ground._lab = lab
    with pytest.raises(LabError, match=r"step 1 .*2 was expected"):
        ground._answer_all(requests, driver, lambda state: None)
    assert answers == [0, 1]
