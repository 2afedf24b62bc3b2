# SPDX-License-Identifier: Apache-2.0
"""The host ground, as far as it needs no other kernel: its requirements, what it owns on this machine, and its checks."""

from __future__ import annotations

import errno
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base import unfinished
from dc_gym.base.errors import FabricError, KernelError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.kernel import cable_module
from dc_gym.run.grounds.host import calibration, fidelity, needs, state
from dc_gym.run.grounds.host.ground import HostGround
from dc_gym.topologies.graph import Queue
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.topologies.realize import qdisc_fabric, shapers, tc
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.realize.rtnl import NetlinkSocket, new_namespace

root = pytest.mark.root
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "dumbbell.toml"
GROUND = """
import threading, time
from dc_gym.run.grounds.host import inside
inside._die_with_the_runner(threading.Semaphore(0))
print('up', flush=True)
time.sleep(600)
"""


def host_spec(*settings: str) -> spec.Spec:
    return spec.load(EXAMPLE, ["ground=host", *settings])


def in_namespace(body):
    """Returns the result of `body(socket)` in a new network namespace, which ends with it."""
    outcomes = []

    def run() -> None:
        new_namespace()
        with NetlinkSocket() as sock:
            try:
                outcomes.append(body(sock))
            except Exception as error:
                outcomes.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
    return outcomes[0]


def test_the_clock_is_the_grounds():
    assert host_spec().clock == "real" and spec.load(EXAMPLE).clock == "virtual"
    with pytest.raises(UsageError, match=r'clock = "virtual".*ground "host"'):
        host_spec("clock=virtual")


def test_without_root_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"needs root.*sudo.*dcgym vm"):
        HostGround(host_spec()).prepare(Quiet())


def test_modules_follow_from_links_queues_and_controller():
    assert needs.modules_for("cable", ["bfifo"], ["cubic"]) == {"openvswitch"}
    assert needs.modules_for("tbf", ["red", "fq"], ["dctcp"]) == {
        "openvswitch",
        "veth",
        "sch_tbf",
        "sch_red",
        "sch_fq",
        "tcp_dctcp",
    }
    assert needs.modules_for("cable", ["bfifo"], ["dcqcn"], nic=True) == {"openvswitch", *needs.NIC_MODULES}
    everything = needs.NIC_MODULES.union(*needs.LINK_MODULES.values()) | set(needs.QUEUE_MODULES.values())
    assert everything <= set(needs.MODULES) == {need.module for need in needs.NEEDS} - {"tcp_cubic", "tcp_reno"}


def test_a_missing_module_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setattr(needs, "missing", lambda modules: ["sch_netem", "tcp_nv"])
    monkeypatch.setattr(platform, "release", lambda: "no-such-release")
    with pytest.raises(UsageError, match=r"\(no-such-release\) has no sch_netem, tcp_nv: .*dcgym vm"):
        needs.require({"sch_netem"})


@pytest.mark.parametrize(
    ("ids", "package"),
    [
        ({"ID": "debian"}, "linux-image-amd64"),
        ({"ID": "mint", "ID_LIKE": "ubuntu debian"}, "linux-modules-extra-6.8.0-7-generic"),
    ],
)
def test_the_package_is_the_distributions(monkeypatch, ids, package):
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-7-generic")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: ids)
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    assert package in needs.remedy()


def links():
    return {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()}


@root
def test_asking_the_kernel_leaves_nothing_and_tells_what_is_there():
    before = links()
    missing_modules = needs.missing(needs.MODULES)
    assert set(missing_modules) <= set(needs.MODULES)
    left, deadline = links() - before, time.monotonic() + 20
    while left := left & links():
        assert time.monotonic() < deadline, left  # what another test made goes with that test
        time.sleep(0.05)
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert not {f"tcp_{name}" for name in known} & set(missing_modules)


@root
@pytest.mark.parametrize("probe", ["_bpf_program", "shapers.classify"])
def test_a_kernel_without_bpf_is_told_apart_from_one_without_its_classifier(monkeypatch, probe):
    if needs.missing(["bpf", "cls_bpf", "veth"]):
        pytest.skip("no BPF here")

    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(f"dc_gym.run.grounds.host.needs.{probe}", refuse)
    with pytest.raises(UsageError, match=r"has no bpf, cls_bpf: " if probe == "_bpf_program" else r"has no cls_bpf: "):
        needs.require(["bpf", "cls_bpf"])


@root
@pytest.mark.skipif(os.geteuid() != 0 or "sch_tbf" in needs.missing({"sch_tbf", "veth"}), reason="no sch_tbf here")
def test_a_rate_is_set_without_rounding_and_read_back():
    queue = Queue(400_000, "bfifo")

    def body(sock):
        sock.batch([qdisc_fabric.pair(CableEnd("a"), CableEnd("b"))])
        ifindex = qdisc_fabric.veths(sock)["a"].ifindex
        sock.batch(shapers.set_limited_queue(ifindex, queue, 40_000_000_000, 50_000, "a"))
        shapers.check_rates(sock, {ifindex: ("a", 40_000_000_000)})
        tc.check_queues(sock, {ifindex: ("a", queue)}, parent=shapers.TBF_CLASS)
        with pytest.raises(FabricError, match=r"a: .*10000000 bit/s.*40000000000"):
            shapers.check_rates(sock, {ifindex: ("a", 10_000_000)})
        return tc.queue_settings(sock, parent=shapers.TBF_CLASS)[ifindex].buffer_bytes

    assert in_namespace(body) == 400_000


def test_a_bucket_holds_two_frames_or_what_a_late_timer_misses():
    assert qdisc_fabric.burst_bytes(10**7) == 3028 and qdisc_fabric.burst_bytes(10**10) == 25_000


@pytest.mark.parametrize(
    ("settings", "links", "words"),
    [([], "tbf", "set topology.delay=0ns"), (["topology.loss=1%"], "netem", "need a cable")],
)
def test_links_that_stock_qdiscs_cannot_be_are_refused(settings, links, words):
    with pytest.raises(UsageError, match=words):
        qdisc_fabric.check(host_spec(*settings).graph(), links)


def test_a_ground_dies_with_its_runner():
    ground = subprocess.Popen([sys.executable, "-c", GROUND], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert ground.stdout.readline() == b"up\n" and ground.poll() is None
    ground.stdin.close()
    assert ground.wait(timeout=30) == 1
    ground.stdout.close()


def test_a_process_is_not_mistaken_for_another_of_its_number():
    me = state.Process.of(os.getpid())
    assert me.alive() and not state.Process(me.pid, me.start + 1).alive()
    ended = subprocess.Popen(["true"])
    was = state.Process.of(ended.pid)
    ended.wait()
    assert not was.alive() and not state.Process.of(ended.pid).alive()


def test_clean_ends_what_a_dead_run_owned_and_nothing_else(tmp_path):
    owned, others = subprocess.Popen(["sleep", "600"]), subprocess.Popen(["sleep", "600"])
    try:
        me, ground = state.Process.of(os.getpid()), state.Process.of(owned.pid)
        dead = state.Process(me.pid, me.start + 1)  # its number has been given to this process
        living = state.Run(me, state.Process.of(others.pid), "results/living").write(tmp_path)
        state.Run(dead, ground, "results/dead").write(tmp_path).rename(tmp_path / "1.run")
        reused = state.Process(others.pid, state.Process.of(others.pid).start + 1)
        state.Run(dead, reused, "results/older").write(tmp_path).rename(tmp_path / "2.run")
        state.Run(me, state.Process.of(others.pid), "results/living").write(tmp_path)
        (tmp_path / "3.run").write_text('{"runner": {"pi')
        report = "\n".join(state.clean(tmp_path))
        assert owned.wait(timeout=10) == -9 and others.poll() is None
        assert sorted(path.name for path in tmp_path.iterdir()) == [living.name]
        assert f"killed process {owned.pid}" in report and "left " in report and str(others.pid) not in report
    finally:
        for process in (owned, others):
            process.kill()
            process.wait()
    assert state.clean(tmp_path / "none") == []


def test_a_run_takes_its_own_record_away(tmp_path):
    folder = tmp_path / "state"
    with pytest.raises(RuntimeError), state.registered(tmp_path / "out", folder) as in_ground:
        (run,) = map(state.Run.read, folder.iterdir())
        assert run.out == str(tmp_path / "out") and run.runner.alive() and not run.ground.alive()
        in_ground(os.getppid())
        (run,) = map(state.Run.read, folder.iterdir())
        assert run.ground == state.Process.of(os.getppid())
        raise RuntimeError
    assert list(folder.iterdir()) == []


def test_a_record_is_whole_or_as_it_was(tmp_path, monkeypatch):
    whole = Path.write_text

    def full(path, text):
        whole(path, text[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    me = state.Process.of(os.getpid())
    path = state.Run(me, state.NOBODY, "out").write(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(Path, "write_text", full)
        state.Run(me, me, "out").write(tmp_path)
    assert list(tmp_path.iterdir()) == [path] and state.Run.read(path).ground == state.NOBODY
    with unfinished.created(path):
        pass  # cut short by kill -9
    with unfinished.created(path) as (work, _):  # it is about to be renamed
        state.clean(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, work.name}


def test_clean_waits_for_a_run_that_is_being_recorded(tmp_path, monkeypatch):
    lines, folder, write = [], tmp_path / "state", state.Run.write
    cleaner = threading.Thread(target=lambda: lines.extend(state.clean(folder)))

    def write_beside_a_clean(run, state_folder):
        monkeypatch.setattr(state.Run, "write", write)
        cleaner.start()
        cleaner.join(0.3)
        return write(run, state_folder)

    monkeypatch.setattr(state.Run, "write", write_beside_a_clean)
    with state.registered(tmp_path / "out", folder):
        cleaner.join()
        assert len(lines) == 1 and lines[0].startswith("left"), "the clean saw the run's record"


def test_the_module_is_loaded_when_the_run_is_on_record(tmp_path, monkeypatch):
    lines = []

    def use_cable(module):
        (tmp_path / state.MARK).write_text("build\n")
        lines.extend(state.clean(tmp_path))
        raise KernelError("seen")

    monkeypatch.setattr(state, "registered", partial(state.registered, folder=tmp_path))
    monkeypatch.setattr(state, "use_cable", use_cable)
    ground = HostGround(host_spec())
    ground._module = tmp_path / "cable.ko"
    with pytest.raises(KernelError, match="seen"):
        ground.run(tmp_path / "out", lambda: None, print, Quiet())
    assert len(lines) == 1 and lines[0].startswith("left") and (tmp_path / state.MARK).exists()


def test_a_module_of_another_build_is_not_ours(tmp_path, monkeypatch):
    """dc-gym writes its mark before it loads the module; if loading fails and somebody else loads a module, that module stays."""
    loaded = tmp_path / "loaded"
    folder = tmp_path / "state"

    def refuse(module):
        raise KernelError("refused")

    monkeypatch.setattr(cable_module, "LOADED", loaded)
    monkeypatch.setattr(cable_module, "build_id", lambda module: "ours")
    monkeypatch.setattr(cable_module, "loaded_build_id", lambda: "theirs")
    monkeypatch.setattr(cable_module, "load", refuse)
    with pytest.raises(KernelError, match="refused"):
        state.use_cable(tmp_path / "cable.ko", folder)
    loaded.mkdir()
    monkeypatch.setattr(cable_module, "unload", lambda: pytest.fail("it is not ours"))
    with pytest.raises(KernelError, match="not ours is loaded"):
        state.use_cable(tmp_path / "cable.ko", folder)
    assert state.clean(folder) == [] and not folder.exists()


def test_headers_that_are_not_there_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path))
    with pytest.raises(KernelError, match=r"install package linux-headers-6\.1\.0-99-amd64"):
        cable_module.ensure("6.1.0-99-amd64", tmp_path / "no headers")


def measured(**changes: int) -> calibration.Measured:
    values = {"asked_rate_bps": 10**7, "asked_delay_ns": 10_000, "rate_bps": 10**7, "delay_ns": 10_000, "pacing_error_ns": 1000}
    return calibration.Measured("s1-eth1", **(values | changes))


def test_a_link_is_judged_by_rate_delay_and_gaps():
    assert measured().faults() == []
    assert measured().row()["rate_bps"] == [10**7, 10**7] and measured().row()["how"] == "measured"
    assert "rate 9.7 Mbit/s measured, 10 Mbit/s asked" in measured(rate_bps=9_700_000).faults()[0]
    assert measured(delay_ns=1_200_000).faults() == []  # less than a frame's time: no queue is known better
    assert "delay 1.4 ms measured" in measured(delay_ns=1_400_000).faults()[0]
    assert "gaps between frames are 1.3 ms off" in measured(pacing_error_ns=1_300_000).faults()[0]
    assert measured(rate_bps=0).faults()


class LateSink:
    """A packet socket that delivers a frame of a failed attempt first, then one of another protocol, then the expected frames."""

    def __init__(self, numbers):
        arp = calibration._frame(7).replace(calibration.HEAD.pack(calibration.ETHERTYPE, 7), b"\x08\x06\0\0\0\7")
        self._frames = [calibration._frame(3), arp, *map(calibration._frame, numbers)]
        self._at_s = 0

    def settimeout(self, seconds):
        assert seconds > 0

    def recvmsg(self, size, _):
        if not self._frames:
            raise TimeoutError
        self._at_s += 1
        stamp = (socket.SOL_SOCKET, calibration.SO_TIMESTAMPNS, calibration.TIMESPEC.pack(self._at_s, 0))
        return self._frames.pop(0)[:size], [stamp], 0, ("s1-eth1", 3, socket.PACKET_HOST)


def test_a_late_frame_of_another_try_does_not_count():
    assert calibration._arrivals(LateSink([7, 8]), [7, 8]) == [3 * 10**9, 4 * 10**9]
    assert calibration._arrivals(LateSink([7]), [7, 8]) == [3 * 10**9]


GOOD = fidelity.Fidelity(0.5, 0.2, 0.0, 0.0, 100_000, 900_000, 0)


def test_a_machine_that_kept_up_has_no_faults():
    assert GOOD.faults() == [] and GOOD.to_dict()["busiest_cpu"] == 0.5


@pytest.mark.parametrize(
    ("index", "value", "words"),
    [
        (0, 0.97, "97% busy"),
        (1, 0.85, "85% in softirqs"),
        (2, 0.05, "hypervisor took 5.0%"),
        (3, 20.0, "out of budget 20 times"),
        (4, 3_000_000, "3 ms late or more (limit 2 ms)"),
        (6, 2, "2 sweeps"),
    ],
)
def test_each_way_of_falling_behind_is_said(index, value, words):
    values = [0.5, 0.2, 0.0, 0.0, 100_000, 900_000, 0]
    values[index] = value
    (fault,) = fidelity.Fidelity(*values).faults()
    assert words in fault


def test_a_timer_may_be_late_by_a_tenth_of_a_marking_queue():
    graph = build(TopologySpec.of(kind="dumbbell", pairs=2, rate_bps=10**7, delay_ns=1000, buffer_bytes=400_000))
    assert fidelity.late_limit_ns(graph) == fidelity.LATE_NS, "nobody marks"
    marked = spec.load(Path(__file__).parents[3] / "examples" / "dumbbell.toml").graph()
    k_ns = min(p.queue.marking.k_bytes * 8 * 10**9 // marked.cable_of(p).rate_bps for p in marked.switch_ports())
    assert fidelity.late_limit_ns(marked) == k_ns // 10 < fidelity.LATE_NS
    late = replace(GOOD, timer_late_ns_p90=300_000, timer_late_ns_limit=k_ns // 10)
    assert "one timer in ten was 300 us late or more" in late.faults()[0]


def test_shares_of_a_cpu():
    text = "cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 10 0 10 70 0 0 10 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5\n"
    ticks = fidelity.cpu_ticks(text)
    assert list(ticks) == ["cpu0", "cpu1"]
    busy, softirq, stolen = fidelity.share([0] * 8, ticks["cpu0"])
    assert (round(busy, 3), round(softirq, 3), stolen) == (0.3, 0.1, 0.0)


@root
def test_watching_this_machine(monkeypatch):
    """The watch covers the requested time to its end, however early it started and however late it is read."""
    looked, t0_ns = [], time.monotonic_ns() + 200_000_000
    ticks = fidelity.cpu_ticks
    monkeypatch.setattr(fidelity, "cpu_ticks", lambda: looked.append(time.monotonic_ns()) or ticks())
    watch = fidelity.FidelityWatch(t0_ns, t0_ns + 100_000_000)
    watch.start()
    while len(looked) < 2 and watch._thread.is_alive():  # it ends at once where root may not be a real-time process
        time.sleep(0.01)
    fidelity_facts = watch.result(late_sweeps=0)
    assert len(looked) == 2 and looked[0] >= t0_ns - fidelity.PERIOD_NS and looked[1] >= t0_ns + 100_000_000
    assert 0 <= fidelity_facts.busiest_cpu <= 1 and fidelity_facts.timer_late_ns_worst >= fidelity_facts.timer_late_ns_p90 >= 0
