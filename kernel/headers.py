# SPDX-License-Identifier: Apache-2.0
"""Headers, configuration and flags that a compiler needs for an object of the lab kernel (objects.py).

A build of the kernel keeps them in one archive beside it, headers.tar.xz. It holds every header that some file of this kernel
includes, and the sources of Linux' TCPs, from which a user's TCP is usually made. The files are the kernel's, GPL-2.0.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path

from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import KernelError
from dc_gym.kernel.cache import cache_dir, check_room, find, locked, make_folder, partial, publish

__all__ = ["ARCHIVE", "FLAGS", "TCPS", "keep", "unpacked"]

ARCHIVE = "headers.tar.xz"
FLAGS = "flags.json"
"""The compiler's options, in the archive."""
TCPS = "net/ipv4"
"""The folder of Linux' TCPs, in the archive."""
SAMPLE = f"{TCPS}/tcp_cubic.o"
"""The object whose options all others share."""
FOLDERS = ("include", "arch", TCPS)
CONFIGURATION = "include/generated/autoconf.h"
NEED_BYTES = 20_000_000
HEADER = re.compile(r"^ +([\w./+-]+\.h) \\$", re.MULTILINE)
REGISTERS = "tcp_register_congestion_control(&"
DROPPED = ("-Wp,", "-DKBUILD_", "-D__KBUILD_", "-fprofile-")
KEPT_WARNINGS = "-Werror="
"""Warnings differ from one compiler to the next; these mean wrong code."""


def keep(tree: Path, out: Path) -> str:
    """Writes the archive of a tree that was built into the folder `out`. Returns its SHA-256."""
    files = sorted({CONFIGURATION, *_headers(tree), *_tcps(tree)})
    with tarfile.open(out / ARCHIVE, "w:xz") as archive:
        _add(archive, FLAGS, json.dumps(_flags(tree)).encode())
        for name in files:
            _add(archive, name, (tree / name).read_bytes())
    (out / ARCHIVE).chmod(0o644)
    return sha256_of(out / ARCHIVE)


def unpacked(kernel: Path) -> Path:
    """Returns the folder with the headers of the kernel in the folder `kernel`, and unpacks them if that was not done before."""
    archive = kernel / ARCHIVE
    if not archive.is_file():
        raise KernelError(f"{kernel} has no {ARCHIVE}, which compiling for this kernel needs: `dcgym kernel build --force`")
    name = sha256_of(archive)[:32]
    there = find("headers", name)
    if (there / FLAGS).is_file():
        return there
    target = make_folder(cache_dir() / "headers") / name
    with locked(target.with_name(f"{name}.lock")), partial(target) as work:
        if not (target / FLAGS).is_file():
            check_room(work, NEED_BYTES, "unpacking the kernel's headers")
            with tarfile.open(archive) as files:
                for entry in files:
                    _extract(files, entry, work / "out")
            publish(work / "out", target, work)
    return target


def _extract(files: tarfile.TarFile, entry: tarfile.TarInfo, out: Path) -> None:
    content = files.extractfile(entry)
    if content is None or entry.name.startswith("/") or ".." in Path(entry.name).parts:
        raise KernelError(f"{ARCHIVE}: {entry.name!r} is no file below it: `dcgym kernel build --force`")
    make_folder((out / entry.name).parent)
    (out / entry.name).write_bytes(content.read())
    (out / entry.name).chmod(0o644)


def _headers(tree: Path) -> Iterator[str]:
    """Yields the headers that were included, by the records that kbuild keeps of each object."""
    for record in tree.rglob(".*.o.cmd"):
        for name in HEADER.findall(record.read_text(errors="replace")):
            if name.startswith(FOLDERS) and ".." not in name and (tree / name).is_file():
                yield name


def _tcps(tree: Path) -> Iterator[str]:
    for source in (tree / TCPS).glob("tcp_*.c"):
        if REGISTERS in source.read_text() and source.with_suffix(".o").is_file():
            yield f"{TCPS}/{source.name}"


def _flags(tree: Path) -> list[str]:
    record = tree / SAMPLE
    command = record.with_name(f".{record.name}.cmd").read_text().splitlines()[0].partition(":= ")[2]
    words = shlex.split(command)[1:]
    return [word for word in words[: words.index("-c")] if _is_kept(word)]


def _is_kept(word: str) -> bool:
    return not word.startswith(DROPPED) and (not word.startswith("-W") or word.startswith(KEPT_WARNINGS))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Adds a file that is the same whenever and by whomever the kernel is built."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))
