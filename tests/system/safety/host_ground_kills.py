# SPDX-License-Identifier: Apache-2.0
"""Runs in a VM: kills commands on the host ground at seeded moments of each phase, and compares the machine before and after.

  python host_ground_kills.py SPEC [CASE ...]

It prints each kill, and each difference that is left after it. Its exit status is the number of kills that left something.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CLI = [sys.executable, "-m", "dc_gym.cli.main"]
SHORT = ["time.duration=4s", "time.warmup=500ms", "monitor.interval=50ms", "agent.interval=50ms"]
LONG = [*SHORT, "time.duration=600s"]
NETEM, HOST = "host.links=netem", "ground=host"
TEMPORARY = Path("/run/tmp")
PATIENCE_S, START_S = 120.0, 400.0
VOLATILE = (
    "fs/aio-nr", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "kernel/ns_last_pid",
    "kernel/perf_event_max_sample_rate", "kernel/pty/nr", "kernel/random/", "kernel/tainted", "net/netfilter/nf_conntrack_count",
)  # fmt: skip
"""Settings that count, or that tell what has ever been loaded."""
BPF = 321
BPF_KINDS = {"programs": 11, "maps": 12, "btf": 23, "links": 31}
"""The commands of bpf(2) that give the next id of each kind."""
ENVIRONMENT = """
import sys, dc_gym.learn, gymnasium
env = gymnasium.make("dcgym/Dumbbell10m-v0", ground="host", overrides=sys.argv[1:], folder=".")
env.reset(seed=1)
print("traffic", file=sys.stderr, flush=True)
while True:
    *_, over, info = env.step(env.action_space.high)
    if over:
        env.reset()
"""
State = dict[str, set[str]]


# ---- the state of the machine ----


def sh(*argv: str) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def lines(*argv: str) -> set[str]:
    return {line.strip() for line in sh(*argv).splitlines()}


def content(*paths: Path) -> Iterator[str]:
    for path in paths:
        try:
            yield from (f"{path}: {line}" for line in path.read_text().splitlines())
        except OSError:
            yield f"{path}: cannot be read"


def sysctls() -> Iterator[str]:
    base = Path("/proc/sys")
    return content(*(path for path in base.rglob("*") if path.is_file() and not str(path.relative_to(base)).startswith(VOLATILE)))


def command_line(pid: int) -> str:
    """The words of a process, or nothing of one that has ended and of the kernel's."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def namespaces() -> Iterator[str]:
    for link in Path("/proc").glob("[0-9]*/ns/*"):
        try:
            yield str(link.readlink())
        except OSError:
            continue


def bpf_count(command: int) -> int:
    count, attr = 0, (ctypes.c_uint32 * 3)()
    while ctypes.CDLL(None).syscall(BPF, command, attr, 12) == 0:
        attr[0] = attr[1]
        count += 1
    return count


def modules() -> Iterator[str]:
    """The modules with the number of their users."""
    return (" ".join(line.split()[:4:2]) for line in Path("/proc/modules").read_text().splitlines())


def tree(*folders: str) -> Iterator[str]:
    for path in (path for folder in folders for path in Path(folder).rglob("*")):
        status = path.lstat()
        yield f"{path} mode {status.st_mode:o} of {status.st_uid}, {status.st_size if path.is_file() else 'no'} bytes"


def snapshot() -> State:
    proc = Path("/proc")
    addresses = (["address"], ["route", "show", "table", "all"], ["rule"], ["neigh"], ["netns"])
    unix = {line.split()[-1] for line in (proc / "net/unix").read_text().splitlines() if "/" in line or "@" in line}
    return {
        "sysctl": set(sysctls()),
        "device": lines("ip", "-d", "link"),
        "address": set().union(*(lines("ip", *words) for words in addresses)),
        "queue": lines("tc", "qdisc") | lines("tc", "filter", "show", "dev", "mine0"),
        "process": {command_line(int(path.name)) for path in proc.glob("[0-9]*") if path.name != str(os.getpid())},
        "namespace": set(namespaces()),
        "bpf": {f"{name}: {bpf_count(command)}" for name, command in BPF_KINDS.items()},
        "module": set(modules()),
        "file": set(tree("/run", "/dev/shm", "/etc", ".")),
        "socket": unix | set(content(proc / "net/packet")),
        "cgroup": set(content(proc / "cgroups")),
        "ipc": set(content(*(proc / "sysvipc").glob("*"))),
        "interrupt": set(content(*(proc / "irq").glob("*/smp_affinity"))),
        "mount": set(content(proc / "self/mountinfo")),
    }


Allowed = Callable[[str, str], bool]


def left(before: State, allowed: Allowed) -> list[str]:
    """Returns each difference that is there when the time is over."""
    until = time.monotonic() + PATIENCE_S
    while True:
        after = snapshot()
        pairs = [(kind, f"{kind}: lost {entry}") for kind in before for entry in sorted(before[kind] - after[kind])]
        pairs += [(kind, f"{kind}: new {entry}") for kind in before for entry in sorted(after[kind] - before[kind])]
        differences = [difference for kind, difference in pairs if not allowed(kind, difference)]
        if not differences or time.monotonic() > until:
            return differences
        time.sleep(1.0)


def until_clean(kind: str, entry: str) -> bool:
    """Returns True for a leftover that `dcgym clean` removes: the record of a run, and the module, whose users are gone."""
    return kind == "module" or " /run/dcgym" in entry


def of_a_sweep(kind: str, entry: str) -> bool:
    """Returns True also for the folder of a sweep, which the same command continues; not for a run that was under way in it."""
    return until_clean(kind, entry) or (" out" in entry and ".partial" not in entry)


def of_the_kernel(kind: str, entry: str) -> bool:
    """Returns True for a module of the stock kernel, which loads it when it is needed."""
    return kind == "module" and "cable" not in entry


# ---- the kills ----


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    argv: list[str]
    phase: str
    victim: str
    """"command"; "any": one of its descendants; or a word in a descendant's command line."""
    wait_s: float
    """The kill comes at most so long after the phase has begun."""


def cases(spec: str) -> Iterator[Case]:
    def command(word: str, *settings: str, more: tuple[str, ...] = ()) -> list[str]:
        return [*CLI, word, spec, "--no-plot", "--out", "out", *more, *(word for key in settings for word in ("--set", key))]

    cable, netem = command("run", HOST, *LONG), command("run", HOST, NETEM, *LONG)
    rdma = command("run", HOST, *LONG, "controller.name=timely", "workload.jitter=0s", "host.lead=60s")
    agent = command("run", HOST, NETEM, *LONG, "controller=fair-share")
    sweep = command("sweep", HOST, NETEM, *LONG, more=("--seeds", "1,2", "--jobs", "1"))
    environment = [sys.executable, "-c", ENVIRONMENT, *SHORT, NETEM]
    ending = command("run", HOST, NETEM, *SHORT)
    for phase in ("prepare", "switches", "fabric", "calibration", "programs", "traffic"):
        yield Case("cables", cable, phase, "command", 4.0)
    for phase in ("switches", "fabric", "programs"):
        yield Case("qdiscs", netem, phase, "any", 4.0)
    for word in ("ovs-vswitchd", "dcgym-janitor", "unshare"):
        yield Case("qdiscs", netem, "traffic", word, 4.0)
    for phase in ("counting", "results"):
        yield Case("ending", ending, phase, "command", 1.0)
    for word in ("command", "nicd"):
        yield Case("RDMA", rdma, "traffic", word, 4.0)
    for word in ("command", "agentd"):
        yield Case("environment", environment, "traffic", word, 4.0)
    yield Case("agent", agent, "traffic", "command", 4.0)
    yield Case("sweep", sweep, "", "command", 4.0)


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            below.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
        except OSError:
            continue
    pids, todo = [], [pid]
    while todo:
        pids.append(todo.pop())
        todo += below.get(pids[-1], [])
    return pids


def is_traffic(pid: int) -> bool:
    return any("/tgen " in command_line(member) for member in family(pid))


def victim_of(case: Case, process: subprocess.Popen[str], draw: random.Random) -> int | None:
    """Waits for a moment of the phase and returns the process to kill; None: the command has ended before."""
    assert process.stderr is not None
    lines = [line := "begins"]
    while case.phase and line and not line.strip().endswith(case.phase):
        lines.append(line := process.stderr.readline())
    if case.phase and not line:
        print("  ".join(["  it ends:\n", *lines[-6:]]), flush=True)
    threading.Thread(target=process.stderr.read, daemon=True).start()  # it must never wait for a reader
    until = time.monotonic() + START_S
    while not case.phase and not is_traffic(process.pid) and time.monotonic() < until:
        time.sleep(0.2)  # a sweep does not tell the phases of its runs
    time.sleep(draw.uniform(0, case.wait_s))
    if case.victim == "command":
        return process.pid if process.poll() is None else None
    word = "" if case.victim == "any" else case.victim
    others = [member for member in family(process.pid)[1:] if command_line(member) and word in command_line(member)]
    return draw.choice(others) if others else None


def kill(case: Case, draw: random.Random, before: State) -> list[str]:
    process = subprocess.Popen(case.argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    victim = victim_of(case, process, draw)
    print(f"{case.name}, {case.phase or 'traffic'}: kill -9 of {victim} {command_line(victim or 0)[:100]}", flush=True)
    if victim is not None:
        os.kill(victim, signal.SIGKILL)
    if case.victim in ("any", "dcgym-janitor", "nicd", "ovs-vswitchd"):  # the run may go on without it
        time.sleep(draw.uniform(0, case.wait_s))
        process.kill()
    process.wait(PATIENCE_S)
    leftovers = [] if case.victim == "dcgym-janitor" else left(before, of_a_sweep if case.name == "sweep" else until_clean)
    for line in sh(*CLI, "clean", ".").splitlines():
        print(f"  {line}", flush=True)
    sh("rm", "-rf", "out")  # a result that was whole, or the folder of a sweep
    return leftovers + left(before, of_the_kernel)


def main(spec: str, *names: str) -> int:
    TEMPORARY.mkdir()
    os.environ["TMPDIR"] = str(TEMPORARY)  # /tmp shows files of the machine around the VM, which others change
    for words in ("link add mine0 type veth peer name mine1", "link set mine0 up", "netns add mine"):
        sh("ip", *words.split())
    sh("tc", "qdisc", "add", "dev", "mine0", "root", "bfifo", "limit", "30000")
    sh(*CLI, "doctor")  # it loads the kernel's modules
    before, bad, draw = snapshot(), 0, random.Random(1)
    for case in cases(spec):
        if names and case.name not in names:
            continue
        leftovers = kill(case, draw, before)
        bad += bool(leftovers)
        for leftover in leftovers[:20]:
            print(f"  left: {leftover}", flush=True)
        before = snapshot() if leftovers else before
    print(f"{bad} kills left something", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
