# SPDX-License-Identifier: Apache-2.0
"""`dcgym vm`: its initramfs and its words; and the host ground in it (long)."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pcapng_reader
import pytest

from dc_gym.base import folder_lock
from dc_gym.base.errors import UsageError
from dc_gym.kernel import cable_module
from dc_gym.kernel.cache import cache_dir
from dc_gym.results.folder import is_unfinished
from dc_gym.results.results import Result, load_result
from dc_gym.run.grounds.host import cpio, vm, vm_kernel
from dc_gym.topologies import telemetry

ROOT = Path(__file__).resolve().parents[3]


def parse(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Returns mode and contents by path, read from a newc archive as the kernel's init/initramfs.c does."""
    entries, at = {}, 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        at = (at + 110 + fields[11] + 3) // 4 * 4
        if name == "TRAILER!!!":
            return entries
        entries[name] = (fields[1], data[at : at + fields[6]])
        at = (at + fields[6] + 3) // 4 * 4


def test_the_initramfs_is_what_a_kernel_reads():
    entries = parse(cpio.archive({"init": b"#!", "lib/a/b.ko": b"12345", "modules": b""}))
    assert entries["init"] == (0o100755, b"#!") and entries["lib/a/b.ko"][1] == b"12345" and entries["modules"][1] == b""
    assert entries["lib"][0] == entries["lib/a"][0] == entries["dev"][0] == 0o040755
    assert list(entries).index("lib") < list(entries).index("lib/a") < list(entries).index("lib/a/b.ko")
    assert entries["dev/console"][0] == 0o020600


def test_modules_load_after_what_they_depend_on(tmp_path):
    depends = {"a": "b,c-d", "b": "", "c_d": "b", "alone": ""}
    for name, others in depends.items():
        (tmp_path / f"{name}.ko").write_bytes(b"\0license=GPL\0depends=" + others.encode() + b"\0name=x\0")
    paths = {name: tmp_path / f"{name}.ko" for name in depends}
    assert vm_kernel.load_order(["a", "builtin", "alone"], paths) == ["b", "c_d", "a", "alone"]


def test_a_missing_qemu_names_its_package(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=r"apt-get install .*qemu-system-x86"):
        vm.check()


def test_its_files_are_where_a_janitor_watches(tmp_path, monkeypatch):
    """That a kill -9 then leaves nothing is tested in test_folder.py."""
    work_folders = []

    def stop(kernel, work, *rest):
        work_folders.append(work)
        assert is_unfinished(work) and folder_lock.take(work) is None
        raise RuntimeError

    monkeypatch.setattr(vm.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(vm, "_initramfs", lambda kernel, command: b"")
    monkeypatch.setattr(vm, "_qemu", stop)
    with pytest.raises(RuntimeError):
        vm.run(None, ["true"], {}, tmp_path)
    assert len(work_folders) == 1 and list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which(vm.QEMU) is None, reason="no qemu")
def test_a_folder_that_the_vm_has_for_itself_is_refused(monkeypatch):
    monkeypatch.chdir("/sys")
    with pytest.raises(UsageError, match=r"/sys: .*folder"):
        vm.check()


def cached_kernel() -> vm_kernel.VmKernel:
    kernel = vm_kernel.load(cache_dir() / "vm" / "current")
    if kernel is None:
        pytest.skip("the VM's kernel is not in the cache: dcgym vm fetches it")
    return kernel


def test_the_cable_s_sources_have_all_that_they_include():
    """Building the module needs headers of a kernel, which a machine may lack. What is copied for it is checked everywhere."""
    copied = {Path(name).name for name in cable_module.SOURCES}
    for name in cable_module.SOURCES:
        included = re.findall(r'^#include "([^"]+)"', (cable_module.HERE / name).read_text(), re.MULTILINE)
        assert set(included) <= copied, f"{name} includes {set(included) - copied}"


def test_the_cable_compiles_against_the_distributions_headers(tmp_path, monkeypatch):
    kernel = cached_kernel()
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path))
    module = cable_module.ensure(kernel.release, kernel.headers)
    assert module.is_relative_to(tmp_path) and cable_module.find(kernel.release) == module
    text = module.read_bytes()
    assert f"vermagic={kernel.release} ".encode() in text and b"alias=rtnl-link-cable" in text and cable_module.build_id(module)


needs_qemu = pytest.mark.skipif(shutil.which(vm.QEMU) is None, reason="no qemu: make test-all installs it")


def in_vm(*words: str, cwd: Path, timeout: int = 900) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "dc_gym.cli.main", "vm", "--", *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=timeout, env={**os.environ})


def scripted(script: str, cwd: Path, timeout: int) -> subprocess.CompletedProcess[str]:
    """Runs a Python program inside of the VM, with a spec as its argument."""
    (cwd / "script.py").write_text(script)
    program = (
        "from pathlib import Path; import sys; from dc_gym.run.grounds.host import vm; from dc_gym.base.progress import Quiet;"
        "sys.exit(vm.run(vm.prepare(Quiet()), [sys.executable, 'script.py', sys.argv[1]], vm.environment(), Path.cwd()))"
    )
    argv = [sys.executable, "-c", program, str(ROOT / "examples" / "dumbbell.toml")]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=timeout)


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("links", ["cable", "netem"])
def test_the_same_run_on_the_host_ground(links, tmp_path):
    """Every frame is accounted for. The result says whether this machine keeps up in real time; the test does not judge it."""
    settings = [f"host.links={links}", "time.duration=4s", "time.warmup=1s", "monitor.interval=20ms"]
    words = [word for setting in settings for word in ("--set", setting)]
    spec = ROOT / "examples" / "dumbbell.toml"
    child = in_vm("run", str(spec), "--ground", "host", "--no-plot", "--out", "out", *words, cwd=tmp_path)
    result = load_result(tmp_path / "out")
    assert child.returncode == (0 if result.fit else 1), child.stderr
    assert result.manifest["ground"] == "host" and result.manifest["clock"] == "real" and result.manifest["links"] == links
    assert not [reason for reason in result.manifest["unfit_reasons"] if "sent" in reason or "received" in reason]
    ports = {row["port"] for row in result.manifest["calibration"] if row["how"] == "measured"}
    assert ports == {port["name"] for port in result.ports}
    assert result.manifest["fidelity"]["busiest_cpu"] > 0
    assert (result.summary["goodput_bps"] or 0) > 0


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(1800)
def test_exit_codes_and_messages_come_through(tmp_path):
    child = in_vm("run", "none.toml", "--ground", "host", cwd=tmp_path)
    assert child.returncode == 2 and "none.toml: cannot read the spec" in child.stderr
    assert list(tmp_path.iterdir()) == []


KILLED = r"""
import json, os, pathlib, signal, subprocess, sys, time
run = pathlib.Path("/run")
def sh(*argv): return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
def wait(what, seconds=300):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)
sh("ip", "link", "add", "mine0", "type", "veth", "peer", "name", "mine1")
sh("ip", "netns", "add", "mine")
links, spaces = sh("ip", "-br", "link"), sh("ip", "netns")
cli = [sys.executable, "-m", "dc_gym.cli.main"]
argv = [*cli, "run", sys.argv[1], "--ground", "host", "--no-plot", "--quiet", "--out", "out", "--set", "time.duration=600s"]
runner = subprocess.Popen(argv, env={**os.environ})
def ground_pid(): return [json.loads(path.read_text())["ground"]["pid"] for path in run.glob("dcgym/*.run")]
wait(lambda: any(ground_pid()))
(ground,) = ground_pid()
wait(lambda: "tgen" in sh("ps", "-e", "-o", "comm="))
assert sh("ip", "-br", "link") == links, "the network of a run is not among the machine's devices"
runner.kill()
runner.wait()
wait(lambda: not {"tgen", "qmon", "ovs-vswitchd", "ovsdb-server"} & set(sh("ps", "-e", "-o", "comm=").split()))
wait(lambda: not pathlib.Path(f"/proc/{ground}").exists())
assert pathlib.Path("/sys/module/cable").is_dir()
print(sh(*cli, "clean", "."))
assert not pathlib.Path("/sys/module/cable").exists() and not (run / "dcgym").exists()
assert sh("ip", "-br", "link") == links and sh("ip", "netns") == spaces
assert sh(*cli, "clean", ".") == ""
print("all clean")
"""


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(1800)
def test_clean_removes_just_ours_after_kill_9(tmp_path):
    child = scripted(KILLED, tmp_path, timeout=1500)
    assert child.returncode == 0 and "all clean" in child.stdout, child.stdout + child.stderr
    assert "unloaded the module cable" in child.stdout


AGENT = r"""
import os, pathlib, signal, subprocess, sys, time
import gymnasium
import dc_gym.learn
records = pathlib.Path("/run/dcgym")
cli = [sys.executable, "-m", "dc_gym.cli.main"]
PROGRAMS = {"tgen", "agentd", "ovs-vswitchd", "ovsdb-server"}
def wait(what, seconds=300):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)
def running(): return PROGRAMS & set(subprocess.run(["ps", "-e", "-o", "comm="], capture_output=True, text=True).stdout.split())
def episode(env, **how):
    env.reset(**how)
    steps, over = 0, False
    while not over:
        *_, over, info = env.step(env.action_space.high)
        assert info["interval_s"] > 0
        steps += 1
    totals = info["episode_totals"]
    assert totals["steps"] == steps and steps + totals["missed"] == 100, totals
    assert totals["goodput_bps"] > 0, totals

KEYS = ["agent.interval=20ms", "time.duration=2s", "host.links=netem"]
env = gymnasium.make("dcgym/Dumbbell10m-v0", ground="host", overrides=KEYS, folder="/tmp").unwrapped
if sys.argv[1:] == ["child"]:
    env.reset(seed=1)
    print("up", flush=True)
    while True:
        *_, over, info = env.step(env.action_space.high)
        if over:
            env.reset()

episode(env, seed=1)
env.reset(seed=2)
env.step(env.action_space.low)
watch = subprocess.Popen([*cli, "watch", str(env.session._folder), "--once"], stdout=subprocess.PIPE, text=True)
while watch.poll() is None:  # an environment shows itself while it waits for a step
    *_, over, info = env.step(env.action_space.high)
    if over:
        env.reset()
said = watch.stdout.read()
assert "s1-eth3" in said and "h1-eth0" in said, said
episode(env, seed=3)
assert env.session.boots == 1
env.close()
wait(lambda: not running())
assert list(records.glob("*.run")) == []
for how in (signal.SIGINT, signal.SIGKILL):
    child = subprocess.Popen([sys.executable, __file__, "child"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout.readline() == "up\n" and "agentd" in running()
    child.send_signal(how)
    child.wait()
    wait(lambda: not running())
    wait(lambda: not list(pathlib.Path("/tmp").glob("dcgym-env-*/.lab/plan.json")))
    assert len(list(records.glob("*.run"))) == (how == signal.SIGKILL)
subprocess.run([*cli, "clean", "."], check=True)
assert not records.exists()
words = ["--ground", "host", "--no-plot", "--out", "out", "--set", "controller=fair-share"]
words += [word for key in [*KEYS, "monitor.interval=20ms", "time.warmup=500ms"] for word in ("--set", key)]
subprocess.run([*cli, "run", sys.argv[1], *words])
print("all as it should be")
"""


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(1800)
def test_an_agent_in_real_time(tmp_path):
    """Tests an environment, what is left when it ends or is killed, and a policy in a run. Speed is not judged."""
    child = scripted(AGENT, tmp_path, timeout=1700)
    assert child.returncode == 0 and "all as it should be" in child.stdout, child.stdout + child.stderr
    result = load_result(tmp_path / "out")
    agent, agent_spec = result.manifest["agent"], result.manifest["spec"]["agent"]
    assert (agent_spec["tbf"], agent_spec["burst"], result.manifest["links"]) == ("stock", "3028B", "netem")
    steps = result.derived("agent")["step"].to_numpy()
    assert steps[0] == 0 and steps[-1] == 100 and agent["missed"] == 100 - len(steps) + 1
    assert agent["interval_mean_s"] <= agent["interval_p99_s"] <= agent["interval_max_s"]
    assert not [reason for reason in result.manifest["unfit_reasons"] if "sent" in reason or "received" in reason]


RDMA = r"""
import ctypes, os, pathlib, subprocess, sys, time
run = pathlib.Path("/run")
cli = [sys.executable, "-m", "dc_gym.cli.main"]
def sh(*argv): return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
def wait(what, seconds=300):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)
def ids(command):  # of all programs (11) or maps (12) in the kernel: BPF_*_GET_NEXT_ID
    found, attr = [], (ctypes.c_uint32 * 3)()
    while ctypes.CDLL(None).syscall(321, command, attr, 12) == 0:
        attr[0] = attr[1]
        found.append(attr[1])
    return set(found)
def pids(name): return [int(pid) for pid in subprocess.run(["pgrep", "-x", name], capture_output=True, text=True).stdout.split()]
links, before = sh("ip", "-br", "link"), (ids(11), ids(12))
def ours(): return (ids(11) - before[0], ids(12) - before[1])
argv = [*cli, "run", sys.argv[1], "--ground", "host", "--no-plot", "--set", "host.lead=60s"]
argv += ["--set", "controller.name=dcqcn", "--set", "workload.jitter=0s", "--set", "monitor.interval=20ms"]
subprocess.run([*argv, "--out", "out", "--set", "time.duration=2s", "--set", "time.warmup=500ms"])
assert ours() == (set(), set()), ours()
def start():
    runner = subprocess.Popen([*argv, "--out", "killed", "--set", "time.duration=600s"])
    wait(lambda: pids("tgen") and all(ours()))
    assert sh("ip", "-br", "link") == links
    return runner
runner = start()
inside = ["nsenter", "-t", str(pids("tgen")[0]), "-m", "ip", "netns", "exec", "h1"]
assert int(sh(*inside, "cat", "/sys/class/net/h1-eth0/queues/rx-0/rps_cpus"), 16) == 1
for pid in sorted(pids("nicd"))[:1]:
    os.kill(pid, 9)
wait(lambda: not ours()[0])  # tgen still has the maps
runner.kill()
runner.wait()
wait(lambda: not pids("tgen") and ours() == (set(), set()))
print("nicd killed: clean")
runner = start()
runner.kill()
runner.wait()
wait(lambda: not pids("tgen") and not pids("nicd") and ours() == (set(), set()))
sh(*cli, "clean", ".")
assert sh("ip", "-br", "link") == links and not (run / "dcgym").exists()
print("all clean")
"""


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(1800)
def test_nics_in_real_time_and_nothing_of_them_after_kill_9(tmp_path):
    """The result says whether this machine keeps up; each message must arrive whole at any speed."""
    child = scripted(RDMA, tmp_path, timeout=1700)
    assert child.returncode == 0 and "all clean" in child.stdout, child.stdout + child.stderr
    result = load_result(tmp_path / "out")
    sent = result.records("nic_flows")
    assert result.manifest["ground"] == "host" and len(sent) == 2 and (sent["received_packets"] > 0).all()
    assert not sent["broken_messages"].any() and (sent["messages"] > 0).all()
    assert not [reason for reason in result.manifest["unfit_reasons"] if "sent" in reason or "received" in reason]


PORT = r"""
import pathlib, subprocess, sys
cli = [sys.executable, "-m", "dc_gym.cli.main"]
def sh(*argv): return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
links, packet_sockets = sh("ip", "-br", "link"), pathlib.Path("/proc/net/packet").read_text()
SLOPE = ["marking=red-instant", "kmin=3028", "kmax=12112", "pmax=50%", "marks_at=departure"]
RUNS = {
    "step": ["controller.name=dctcp", "topology.marking=step"],
    "slope": ["controller.name=dcqcn", *(f"topology.{each}" for each in SLOPE)],
    "told": ["controller.name=hpcc"],
}
ALL = ["host.links=cable", "topology.qdisc=port", "topology.rate=2Mbit/s", "host.lead=60s", "workload.jitter=0s"]
ALL += ["time.duration=4s", "time.warmup=1s", "monitor.interval=50ms", 'capture.ports=["s1-eth3", "s2-eth3", "s2-eth1"]']
for out, settings in RUNS.items():
    words = [word for key in [*ALL, *settings] for word in ("--set", key)]
    subprocess.run([*cli, "run", sys.argv[1], "--ground", "host", "--no-plot", "--out", out, *words])
    assert pathlib.Path(out, "manifest.json").is_file(), "the run says why"
    names = set(sh("ps", "-e", "-o", "comm=").split())
    assert not names & {"capd", "qmon", "tgen", "nicd", "ovs-vswitchd"}, names
assert sh("ip", "-br", "link") == links and pathlib.Path("/proc/net/packet").read_text() == packet_sockets
print(sh(*cli, "clean", "."))  # it would not unload the module while a queue of it is there
assert not pathlib.Path("/sys/module/cable").exists() and sh("ip", "-br", "link") == links
print("all clean")
"""
CONGESTED = 3
DATA, NIC_UDP, TELEMETRY_AT = 1, 4791, 74
SENT_BITS, TIME_BITS = 20, 24
RATE_BPS, BUFFER_BYTES = 2 * 10**6, 400_000


def captured(result: Result, port: str) -> pcapng_reader.Capture:
    return pcapng_reader.read(result.path / "capture" / f"{port}.pcapng")


def check_account(result: Result) -> None:
    """Checks that no frame is missing, neither on the network nor in a capture, and that the queues are those asked for."""
    assert not [why for why in result.manifest["unfit_reasons"] if any(word in why for word in ("sent", "received", "lost"))]
    assert result.manifest["links"] == "cable" and result.manifest["conservation"]["switches_checked"] == 2
    queues = {row["port"]: row["qdisc"] for row in result.manifest["calibration"] if row["how"] == "read back"}
    assert all(queues[f"s{switch}-eth{port}"] == ["port", "port"] for switch in (1, 2) for port in (1, 2, 3))
    rows = {row["port"]: row for row in result.manifest["capture"]}
    assert set(rows) == {"s1-eth3", "s2-eth3", "s2-eth1"}
    for port, row in rows.items():
        capture = captured(result, port)
        assert (len(capture.sent()), len(capture.arrived()), capture.lost) == (row["sent"], row["received"], 0)
        assert row["sent"] + row["sent_later"] == row["port_sent"] > 20
        assert row["received"] + row["received_later"] == row["port_received"] > 20
    sent, arrived = captured(result, "s1-eth3").sent(), captured(result, "s2-eth3").arrived()
    assert arrived and [frame.data for frame in arrived] == [frame.data for frame in sent[: len(arrived)]]


def marks_made(result: Result) -> int:
    """Returns the marks of s1-eth3 until the last sweep."""
    queues = result.records("queues")
    row = [port["name"] for port in result.ports].index("s1-eth3")
    return int(queues["marks"][queues["port"] == row].max())


def data_frames(frames: list[pcapng_reader.Frame]) -> list[tuple[int, list[int]]]:
    """Returns for each DATA frame of a NIC the bytes that the port has sent before it in this file, and its records."""
    records_by_offset, before = [], 0
    for frame in frames:
        if frame.data[23] == 17 and struct.unpack_from(">H", frame.data, 36) == (NIC_UDP,) and frame.data[43] == DATA:
            hops, *records = struct.unpack_from(">H5Q", frame.data, TELEMETRY_AT)
            assert not any(records[hops:])
            records_by_offset.append((before, records[:hops]))
        before += frame.length
    return records_by_offset


def check_records(frames: list[pcapng_reader.Frame], hops: int) -> None:
    """Checks the last record of each frame, that of the port which sent it, against the frames of the capture."""
    unit = telemetry.units(RATE_BPS)
    offsets = []
    telemetry_frames = data_frames(frames)
    assert len(telemetry_frames) > 20 and {len(records) for _, records in telemetry_frames} == {hops}
    for before, records in telemetry_frames:
        sent = records[-1] >> 17 & (1 << SENT_BITS) - 1
        offsets.append(sent * unit.sent_bytes - before)
        assert records[-1] >> 61 == 0 and (records[-1] & 0x1FFFF) * unit.queue_bytes <= BUFFER_BYTES
    # What the port had sent before the file began is the same number for all frames, rounded down to a unit for each.
    assert max(offsets) - min(offsets) < unit.sent_bytes
    times = [records[-1] >> 37 & (1 << TIME_BITS) - 1 for _, records in telemetry_frames]
    assert all((later - sooner) % (1 << TIME_BITS) < 1 << TIME_BITS - 1 for sooner, later in pairwise(times))


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(3000)
def test_the_queue_port_and_captures_in_real_time(tmp_path):
    """Marks, telemetry and captured frames are right at any speed; whether the run is fit is not judged."""
    child = scripted(PORT, tmp_path, timeout=2900)
    assert child.returncode == 0 and "all clean" in child.stdout, child.stdout + child.stderr
    assert "unloaded the module cable" in child.stdout
    results = {name: load_result(tmp_path / name) for name in ("step", "slope", "told")}
    for result in results.values():
        check_account(result)
    for name in ("step", "slope"):
        marked = [frame for frame in captured(results[name], "s1-eth3").sent() if frame.data[15] & CONGESTED == CONGESTED]
        assert 0 < len(marked) <= marks_made(results[name]) + 1, "the last sweep and the file end at nearly the same time"
    for name in ("slope", "told"):
        flows = results[name].records("nic_flows")
        assert (flows["received_packets"] > 0).all() and not flows["broken_messages"].any()
    telemetry_result = results["told"]
    check_records(captured(telemetry_result, "s1-eth3").sent(), hops=1)
    check_records(captured(telemetry_result, "s2-eth1").sent(), hops=2)
    assert len(telemetry_result.records("decisions")) > 0


SHELL = """
import subprocess, sys
commands = "pingall\\nh1 python3 -c 'import socket; print(socket.gethostbyname(\\"h4\\"))'\\nh2 sh -c 'exit 4'\\n"
shell = [sys.executable, "-m", "dc_gym.cli.main", "shell", sys.argv[1], "--quiet", "--ground", "host"]
shell += ["--set", "host.links=netem"]
sys.exit(subprocess.run(shell, input=commands, text=True).returncode)
"""


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(1800)
def test_a_shell_on_the_host_ground(tmp_path):
    child = scripted(SHELL, tmp_path, 1700)
    assert "*** Results: 0% dropped (12/12 received)" in child.stdout, child.stdout + child.stderr
    assert child.stdout.splitlines()[-1] == "10.0.0.4" and child.returncode == 4
