# SPDX-License-Identifier: Apache-2.0
"""An initramfs: a cpio archive as the kernel reads it (Documentation/driver-api/early-userspace/buffer-format.rst, "newc")."""

from __future__ import annotations

import stat
from collections.abc import Mapping

EXECUTABLE = stat.S_IFREG | 0o755
FOLDER = stat.S_IFDIR | 0o755
TRAILER = "TRAILER!!!"


def archive(files: Mapping[str, bytes]) -> bytes:
    """Returns an archive of `files`, of their folders, and of the console device.

    `files` are given by path without a leading slash. Each is executable.
    """
    folders = sorted({parent for path in files for parent in _parents(path)} | {"dev"})
    parts = [_record(number, path, FOLDER) for number, path in enumerate(folders, 1)]
    parts.append(_record(len(parts) + 1, "dev/console", stat.S_IFCHR | 0o600, device=(5, 1)))
    parts += [_record(number, path, EXECUTABLE, data) for number, (path, data) in enumerate(files.items(), len(parts) + 1)]
    return b"".join([*parts, _record(0, TRAILER, 0)])


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _record(inode: int, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    name = path.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
