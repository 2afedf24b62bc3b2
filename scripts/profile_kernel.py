# SPDX-License-Identifier: Apache-2.0
"""Records the profile by which gcc lays the lab kernel out, kernel/profile.tar.xz: python scripts/profile_kernel.py

It builds a kernel that counts its branches, makes the runs below in it and keeps the counts of the objects in which labs spend
time. Needed after changes to what is hot: a function that has changed is compiled without a profile until then.
The tree lies in TMPDIR and takes 4 GB; the build and the runs take about ten minutes on two cores.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import KernelError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Progress, choose
from dc_gym.kernel import build, profile
from dc_gym.kernel import source as sources
from dc_gym.kernel.cache import cache_dir

SPEC = """
spec_version = 1
name = "profile"
topology.preset = "dctcp-10g"
controller.name = "dctcp"
workload.kind = "many_to_one"
time.duration = "300ms"
monitor.interval = "10ms"
"""
RUNS: Mapping[str, tuple[str, ...]] = {
    "dctcp": (),
    "dcqcn": (
        *("topology.marking=red-instant", "topology.kmin=20p", "topology.kmax=160p", "topology.pmax=20%"),
        *("controller.name=dcqcn", "nic.latency=900ns"),
    ),
    "slow": ("topology.preset=dumbbell-10m", "controller.name=cubic", "workload.kind=pairs", "time.duration=30s"),
    "pauses": (
        *("topology.marking=none", "topology.shared_buffer=600kB", "topology.pfc=classes", "controller.name=cubic"),
        *("time.duration=30ms", "monitor.interval=1ms"),
    ),
    "telemetry": (
        *("topology.marking=none", "controller.name=hpcc", "nic.latency=900ns"),
        *("time.duration=30ms", "monitor.interval=1ms"),
    ),
    "fabric": (
        *("topology.preset=fattree-k4", "topology.rate=1Gbit/s", "topology.host_qdisc=fq", "controller.name=bbr"),
        *("workload.kind=poisson", "workload.load=0.5", "workload.size=100kB", "time.duration=100ms", "monitor.interval=1ms"),
    ),
}
"""Settings of SPEC for the traffic that is recorded: TCP and NICs at a high rate, daemons that wake up at a low rate, pauses and
telemetry for a short time, and many short flows with pacing."""
KEPT_SHARE = 1e-5
"""An object is kept if at least this share of all branches that were taken was taken in it."""
UNCONFINED = """
import ctypes, struct, sys
from dc_gym.cli.main import main
libc = ctypes.CDLL(None, use_errno=True)
rules = ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
sys.exit(main(sys.argv[1:]))
"""
"""Runs dcgym under a seccomp filter that refuses Landlock (call 444, ENOSYS), which would keep a lab from writing its counts."""
RUN = python("-c", UNCONFINED, "run")
ARCS_TAG = 0x01A10000


def main() -> int:
    with choose(quiet=False) as progress, tempfile.TemporaryDirectory(prefix="dcgym-profile-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        tree = record(folder, progress)
        objects = hot(tree)
        if not objects:
            raise KernelError(f"the runs left no counts in {tree}: no lab could write there")
        profile.ARCHIVE.write_bytes(pack(tree, objects))
    print(f"{profile.ARCHIVE}: {len(objects)} objects, {profile.ARCHIVE.stat().st_size:,} bytes")
    return 0


def record(folder: Path, progress: Progress) -> Path:
    """Builds the kernel that counts, runs the specs in it, and returns its tree."""
    source = sources.tested()
    tree = folder / "tree"
    with Path(os.devnull).open() as nothing:
        make = build.Make(tree, folder / "log", nothing.fileno())
        build.prepare(folder, make, source, build.Parts(), progress)
        make.compile(len(os.sched_getaffinity(0)), progress, "LAB_PROFILE=record")
    for path in tree.rglob("*/"):  # root's labs run as another user, who writes the counts
        path.chmod(0o777)
    cache = stand_in(folder / "cache", tree / "linux")
    (folder / "spec.toml").write_text(SPEC)
    for name, settings in RUNS.items():
        progress.phase(f"run {name}")
        words = [word for setting in settings for word in ("--set", setting)]
        argv = [*RUN, str(folder / "spec.toml"), *words, "--no-plot", "--quiet", "--out", str(folder / name)]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "DCGYM_CACHE": str(cache)})
    return tree


def stand_in(cache: Path, linux: Path) -> Path:
    """Creates a cache in which the kernel that counts stands for the one that runs use."""
    cache.mkdir()
    built = build.ensure()
    for path in cache_dir().iterdir():
        if path.name != "kernel":
            (cache / path.name).symlink_to(path)
    folder = cache / "kernel" / built.key
    shutil.copytree(built.folder, folder)
    shutil.copyfile(linux, folder / "linux")
    (folder / "manifest.json").write_text(json.dumps({**built.manifest, "linux_sha256": sha256_of(linux)}))
    return cache


def hot(tree: Path) -> list[Path]:
    """Returns the profiles of the objects in which time was spent."""
    taken = {path: sum(counts(path.read_bytes())) for path in sorted(tree.rglob("*.gcda"))}
    enough = KEPT_SHARE * sum(taken.values())
    return [path for path, count in taken.items() if count >= enough]


def counts(data: bytes) -> Iterator[int]:
    """Yields how often each branch was taken, from a .gcda file of gcc 12 or newer.

    After 16 bytes come records: a tag, the length in bytes of what follows, and for branches 64-bit numbers. A negative length
    says that all are zero and that nothing follows.
    """
    at = 16
    while at + 8 <= len(data):
        tag, length = struct.unpack_from("<Ii", data, at)
        at += 8
        if tag == ARCS_TAG and length > 0:
            yield from struct.unpack_from(f"<{length // 8}Q", data, at)
        at += max(length, 0)


def pack(tree: Path, paths: list[Path]) -> bytes:
    """Returns a tar.xz of the files, equal for equal files."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:xz", preset=9) as archive:
        for path in paths:
            member = tarfile.TarInfo(str(path.relative_to(tree)))
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    return written.getvalue()


if __name__ == "__main__":
    sys.exit(main())
