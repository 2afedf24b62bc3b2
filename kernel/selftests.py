# SPDX-License-Identifier: Apache-2.0
"""The files of a kernel's source that its tests need: the packetdrill scripts of its selftests, and the header with tcp_info.

They are GPL-2.0 and never part of this project. They are taken from the source from which the lab kernel is built and stored in
<cache>/selftests/<hash of the source's identity>/, when a kernel is built or when they are first asked for.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import KernelError, UsageError
from dc_gym.base.progress import Progress
from dc_gym.kernel import source as sources
from dc_gym.kernel.cache import cache_dir, check_room, find, locked, make_folder, partial, publish
from dc_gym.kernel.source import Source

__all__ = ["PARTS", "Selftests", "ensure", "keep"]

SCRIPTS = "tools/testing/selftests/net/packetdrill"
TCP_HEADER = "include/uapi/linux/tcp.h"
PARTS = (SCRIPTS, TCP_HEADER)
NEED_BYTES = 400_000_000  # the package, for as long as it takes to unpack it


@dataclass(frozen=True, slots=True)
class Selftests:
    folder: Path

    @property
    def scripts(self) -> Path:
        """Returns the folder of the *.pkt files and of the files that they call."""
        return self.folder / SCRIPTS

    @property
    def tcp_header(self) -> Path:
        return self.folder / TCP_HEADER


def ensure(identity: str, version: str, progress: Progress, path: Path | None = None) -> Selftests:
    """Returns the tests of a source and fetches them if necessary.

    `path` is the user's own package, tarball or tree of that source.
    """
    there = find("selftests", _name(identity))
    if path is None and _whole(there):
        return Selftests(there)
    source = sources.named(path, progress) if path is not None else _find(identity, version)
    target = _target(source.identity)
    with locked(target.with_name(f"{target.name}.lock")), partial(target) as work:
        if not _whole(target):
            check_room(work, NEED_BYTES, "unpacking the kernel's tests")
            archive = source.path or _download(source, work, progress)
            progress.phase("conformance: unpack the kernel's tests")
            sources.unpack(archive, work / "tree", only=PARTS)
            _publish(work / "tree", target, work)
    return Selftests(target)


def keep(tree: Path, source: Source) -> None:
    """Keeps the tests of a tree that is at hand. A tree without tests is no error."""
    target = _target(source.identity)
    if all((tree / part).exists() for part in PARTS) and not _whole(target):
        with locked(target.with_name(f"{target.name}.lock")), partial(target) as work:
            _publish(tree, target, work)


def _find(identity: str, version: str) -> Source:
    if identity == f"debian {version}":
        return sources.tested(version)
    if identity.startswith("package "):
        return sources.offered(version, sources.open_apt(cache_dir()))
    raise UsageError(f"the lab kernel's source was your own ({identity[:20]}...): name it again with --source PATH")


def _download(source: Source, work: Path, progress: Progress) -> Path:
    progress.phase(f"conformance: download {source.name} {source.version}")
    apt = sources.open_apt(cache_dir())
    return apt.download(sources.find(source, apt), work)


def _publish(tree: Path, target: Path, work: Path) -> None:
    """Copies the parts and makes them readable for the user that labs run as."""
    out = work / "out"
    for part in PARTS:
        if not (tree / part).exists():
            raise KernelError(f"this kernel's source has no {part}; conformance needs Linux 6.12 or later")
        make_folder((out / part).parent)
        (shutil.copytree if (tree / part).is_dir() else shutil.copyfile)(tree / part, out / part)
    for path in (out, *out.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    publish(out, target, work)


def _whole(target: Path) -> bool:
    return all((target / part).exists() for part in PARTS)


def _target(identity: str) -> Path:
    return make_folder(cache_dir() / "selftests") / _name(identity)


def _name(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:32]
