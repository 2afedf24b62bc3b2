# SPDX-License-Identifier: Apache-2.0
"""`dcgym doctor`: checks this machine, with a line and a remedy for each check, and runs a lab of one virtual second."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.files import scratch
from dc_gym.base.interpreter import python
from dc_gym.base.package import PROGRAMS
from dc_gym.base.terminal import say
from dc_gym.kernel import build, cable_module, cache, openvswitch
from dc_gym.kernel import source as sources
from dc_gym.kernel.confinement import SIGNALS_ABI, landlock_abi
from dc_gym.kernel.lab import Lab, LabConfig
from dc_gym.kernel.memory import machine_room, memory_folder
from dc_gym.kernel.user import lab_user
from dc_gym.run.grounds.ground import check_programs, inside
from dc_gym.run.grounds.host import needs, vm
from dc_gym.traffic.execs import find_program

LAB_MEMORY_BYTES = 512 << 20
PAGE_BYTES = 4096
CACHE_BYTES = 5 << 30
PROCESSES = 1024
FILES = 65536
GUEST = "import time; import dc_gym.run.grounds.guest.main, dc_gym.topologies.realize.fabric; time.sleep(1)"
"""The program in the doctor's lab. It imports all that a run's Python imports, and sleeps for a second of virtual time."""
IN_LABS = "kernel's scripts"
"""The programs that run in a lab, which finds them in /usr/sbin, too: that is in no PATH of a plain user's."""
SYSTEM = (  # name, programs, their purpose, packages, whether a run needs them
    ("clean-up", ("sh", "flock", "find", "head", "mv", "rm", "rmdir", "sleep"), "what is left of a run that is killed",
     "util-linux, findutils and coreutils", True),
    ("own NICs", ("cc", "clang"), "NIC algorithms of your own", "gcc and clang", False),
    (IN_LABS, ("bash", "ip", "tc", "nstat", "sysctl", "ethtool"), "dcgym conformance",
     "bash, iproute2, procps and ethtool", False),
)  # fmt: skip
KERNEL_LIMITS = (  # name, sysctl, the need of a network of a thousand hosts
    ("threads", "kernel/threads-max", 16384),
    ("process numbers", "kernel/pid_max", 32768),
    ("terminals", "kernel/pty/max", 2048),
)


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    good: bool
    words: str
    remedy: str = ""
    fatal: bool = True
    """True if a run cannot work without it."""


def main(args: Namespace) -> int:
    """Prints every finding. Returns 0 when a run can work here."""
    worst = 0
    for check in CHECKS:
        for finding in _tried(check):
            mark = "good" if finding.good else "FAILS" if finding.fatal else "note"
            say(f"{mark:6}{finding.name:18} {finding.words}" + (f" -> {finding.remedy}" if finding.remedy else ""))
            worst = max(worst, int(not finding.good and finding.fatal))
    return worst


def _tried(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except (TestbedError, OSError) as error:
        name = check.__name__.strip("_").replace("_", " ")
        return [Finding(name, False, str(error).replace("\n", "; "))]


def _machine() -> Iterator[Finding]:
    good = sys.platform == "linux" and platform.machine() == "x86_64"
    yield Finding("machine", good, f"{platform.system()} on {platform.machine()}", "" if good else "a lab needs Linux on x86_64")
    cpus = len(os.sched_getaffinity(0))
    yield Finding("cpus", True, f"{cpus}: as many labs at once, one on each")


def _user() -> Iterator[Finding]:
    if os.geteuid() != 0:
        yield Finding("user", True, f"uid {os.geteuid()}, no root needed")
        return
    uid, _ = lab_user()
    yield Finding("user", True, f"root; labs run as uid {uid}, without any right of root's")


def _confinement() -> Iterator[Finding]:
    """Yields a finding about the confinement of a lab from outside. The lab kernel confines its programs in any case."""
    abi, name = landlock_abi(), "confinement"
    if abi == 0:
        words = "no Landlock in this kernel: only the lab kernel keeps a lab's programs from this user's files"
        remedy = "boot Linux 5.13 or later with landlock in lsm= (docs/security.md)"
        yield Finding(name, False, words, remedy, fatal=False)
        return
    more = "" if abi >= SIGNALS_ABI else ", but may signal this user's processes (Linux 6.12 and later keep that in)"
    yield Finding(name, True, f"Landlock {abi}: a lab writes to its own folders only{more}")


def _memory() -> Iterator[Finding]:
    folder = memory_folder(LAB_MEMORY_BYTES)
    words = f"{machine_room() >> 20} MiB left; a lab takes up to lab.memory of it"
    yield Finding("memory", True, words if folder is None else f"{words}, and goes to disk below {folder} now")


def _map_count() -> Iterator[Finding]:
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    reach = limit * PAGE_BYTES >> 20
    words = f"vm.max_map_count {limit}: a process in a lab may touch about {reach} MiB of scattered pages"
    yield Finding("maps", limit >= 65530, words, "" if limit >= 65530 else "sysctl vm.max_map_count=262144", fatal=False)


def _limits() -> Iterator[Finding]:
    """Yields findings about the limits that networks of a thousand hosts need. Smaller networks need less."""
    why = "a lab has one of ours for each of its own"
    yield _limit("processes", resource.RLIMIT_NPROC, PROCESSES, f"ulimit -u {PROCESSES}", why)
    why = "a thousand hosts are as many namespaces, sockets of each and flows"
    yield _limit("open files", resource.RLIMIT_NOFILE, FILES, f"ulimit -n {FILES}", why)
    for name, path, least in KERNEL_LIMITS:
        value = int(Path("/proc/sys", path).read_text())
        sysctl = path.replace("/", ".")
        good = value >= least
        yield Finding(name, good, f"{sysctl} {value}", "" if good else f"sysctl {sysctl}={least}", fatal=False)
    yield _control_group()


def _limit(name: str, number: int, least: int, remedy: str, why: str) -> Finding:
    """Returns a finding about a limit of this process. The hard limit counts, since programs raise the soft one themselves."""
    soft, hard = resource.getrlimit(number)
    good = resource.RLIM_INFINITY in (soft, hard) or hard >= least
    words = "no limit" if soft == resource.RLIM_INFINITY else f"{soft}, at most {'unlimited' if hard < 0 else hard}"
    return Finding(name, good, f"{words}; {why}", "" if good else remedy, fatal=False)


def _control_group() -> Finding:
    """Yields a finding about the number of processes and threads that this process's control group may have (cgroup v2)."""
    group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
    path = Path("/sys/fs/cgroup", group.lstrip("/"), "pids.max")
    text = path.read_text().strip() if path.exists() else "max"
    good = text == "max" or int(text) >= PROCESSES
    words = "no limit of its control group" if text == "max" else f"{text} by its control group ({path})"
    return Finding("tasks", good, words, "" if good else f"echo max > {path} (systemd: TasksMax=infinity)", fatal=False)


def _cache() -> Iterator[Finding]:
    folder = cache.cache_dir()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there != folder and not os.access(there, os.W_OK):
        remedy = "set DCGYM_CACHE to a folder that you may write to"
        yield Finding("cache", False, f"{folder} cannot be made in {there}", remedy, fatal=False)
        return
    room = shutil.disk_usage(there).free
    good = room >= CACHE_BYTES
    yield Finding(
        "cache", good, f"{folder}, {room >> 30} GiB free", "" if good else "set DCGYM_CACHE to a folder with 5 GiB", fatal=False
    )


def _programs() -> Iterator[Finding]:
    check_programs()
    yield Finding("programs", True, f"{PROGRAMS}")


def _system() -> Iterator[Finding]:
    """Yields findings about programs of the distribution. A lab itself needs only Python."""
    for name, programs, purpose, packages, fatal in SYSTEM:
        find = find_program if name == IN_LABS else shutil.which
        missing = [program for program in programs if find(program) is None]
        words = f"{', '.join(missing) or 'all'} {'missing' if missing else 'there'}, for {purpose}"
        yield Finding(name, not missing, words, f"install {packages}" if missing else "", fatal)


def _kernel() -> Iterator[Finding]:
    source = sources.tested(None)
    kernel = build.lookup(source)
    if kernel is None:
        remedy = "dcgym kernel build (five minutes of CPU)"
        if os.access(cache.OF_ROOT / "kernel" / build.Parts().key(source) / "linux", os.R_OK | os.X_OK):
            remedy += f", or use root's: export DCGYM_CACHE={cache.OF_ROOT}"
        yield Finding("lab kernel", False, "not built", remedy)
        return
    yield Finding("lab kernel", True, f"{kernel.version}, fingerprint {kernel.fingerprint}")


def _switch() -> Iterator[Finding]:
    ovs = openvswitch.ensure()
    yield Finding("Open vSwitch", True, f"{ovs.version}, unpacked in {ovs.folder}")


def _lab() -> Iterator[Finding]:
    kernel = build.lookup(sources.tested(None))
    if kernel is None:
        yield Finding("lab", False, "not tried", "build the kernel first")
        return
    with scratch(Path.cwd(), "dcgym-doctor-") as folder:
        config = LabConfig(
            kernel=kernel.path,
            programs=PROGRAMS,
            run_dir=folder,
            argv=python("-c", GUEST),
            env=inside("/tmp"),
            watchdog_s=20.0,
        )
        log_lines: list[str] = []
        with Lab(config, log_lines.append) as lab:
            ended = lab.wait()
    words = f"booted, imported its Python, slept a virtual second, ended with status {ended.status}"
    yield Finding("lab", ended.status == 0, words, "" if ended.status == 0 else " / ".join(log_lines[-3:]))


def _host() -> Iterator[Finding]:
    """Yields findings about the host ground. A machine without it can still run labs."""
    name = "host ground"
    if os.geteuid() != 0:
        yield Finding(name, False, "not tried", "it needs root: sudo dcgym doctor; or use `dcgym vm`", fatal=False)
    elif missing_modules := needs.missing(needs.MODULES):
        words = f"kernel {platform.release()} has no {', '.join(missing_modules)}"
        yield Finding(name, False, words, needs.remedy(), fatal=False)
    else:
        yield Finding(name, True, f"kernel {platform.release()} has all its modules")
    release = platform.release()
    headers = cable_module.headers_of(release)
    good = cable_module.find(release) is not None or (headers / "Makefile").is_file()
    words = "the cable can be built as a module" if good else "no headers: links on the host ground are tbf and netem"
    yield Finding("cable module", good, words, "" if good else f"install package linux-headers-{release}", fatal=False)


def _vm() -> Iterator[Finding]:
    path = shutil.which(vm.QEMU)
    remedy = "" if path else f"apt-get install --no-install-recommends {vm.PACKAGE}"
    yield Finding("vm", path is not None, path or f"no {vm.QEMU}: dcgym vm cannot run", remedy, fatal=False)


CHECKS = (
    _machine,
    _user,
    _confinement,
    _memory,
    _map_count,
    _limits,
    _cache,
    _programs,
    _system,
    _kernel,
    _switch,
    _lab,
    _host,
    _vm,
)
