# SPDX-License-Identifier: Apache-2.0
"""`dcgym doctor`: what this machine can do, a line a check with its remedy, and a lab of one virtual second."""

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

from dc_gym import grounds
from dc_gym.errors import TestbedError
from dc_gym.folder import scratch
from dc_gym.kernel import build, openvswitch
from dc_gym.kernel import source as sources
from dc_gym.kernel.cache import cache_dir
from dc_gym.kernel.lab import Lab, LabConfig, lab_user, memory_folder

LAB_MEMORY_BYTES = 512 << 20
PAGE_BYTES = 4096
CACHE_BYTES = 5 << 30
PROCESSES = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    good: bool
    words: str
    remedy: str = ""
    fatal: bool = True
    """A run cannot work without it."""


def main(args: Namespace) -> int:
    """Prints every finding; 0 when a run can work here."""
    worst = 0
    for check in CHECKS:
        for finding in _tried(check):
            mark = "good" if finding.good else "FAILS" if finding.fatal else "note"
            print(f"{mark:6}{finding.name:18} {finding.words}" + (f" -> {finding.remedy}" if finding.remedy else ""))
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
    yield Finding("user", True, f"root; labs run as uid {uid} and may read what root may, and write nothing of root's")


def _memory() -> Iterator[Finding]:
    folder = memory_folder(LAB_MEMORY_BYTES)
    room = os.statvfs(folder)
    yield Finding("memory", True, f"{folder} has {room.f_bavail * room.f_frsize >> 20} MiB; a lab takes up to lab.memory of it")


def _map_count() -> Iterator[Finding]:
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    reach = limit * PAGE_BYTES >> 20
    words = f"vm.max_map_count {limit}: a process in a lab may touch about {reach} MiB of scattered pages"
    yield Finding("maps", limit >= 65530, words, "" if limit >= 65530 else "sysctl vm.max_map_count=262144", fatal=False)


def _limits() -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    good = soft == resource.RLIM_INFINITY or soft >= PROCESSES
    words = (
        "no limit on processes"
        if soft == resource.RLIM_INFINITY
        else f"{soft} processes; a lab has one of ours for each of its own"
    )
    yield Finding("processes", good, words, "" if good else f"ulimit -u {PROCESSES}", fatal=False)


def _cache() -> Iterator[Finding]:
    folder = cache_dir()
    room = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    good = room >= CACHE_BYTES
    yield Finding(
        "cache", good, f"{folder}, {room >> 30} GiB free", "" if good else "set DCGYM_CACHE to a folder with 5 GiB", fatal=False
    )


def _programs() -> Iterator[Finding]:
    grounds.check_programs()
    yield Finding("programs", True, f"{grounds.PROGRAMS}")


def _kernel() -> Iterator[Finding]:
    kernel = build.lookup(sources.tested(None))
    if kernel is None:
        yield Finding("lab kernel", False, "not built", "dcgym kernel build (five minutes of CPU)")
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
            programs=grounds.PROGRAMS,
            run_dir=folder,
            argv=["/bin/sleep", "1"],
            env={"PATH": "/usr/bin:/bin"},
            watchdog_s=20.0,
        )
        with Lab(config) as lab:
            ended = lab.wait()
    words = f"booted, slept a virtual second, ended with status {ended.status} at {ended.virtual_ns / 1e9:.3f} s"
    yield Finding("lab", ended.status == 0, words)


CHECKS = (_machine, _user, _memory, _map_count, _limits, _cache, _programs, _kernel, _switch, _lab)
