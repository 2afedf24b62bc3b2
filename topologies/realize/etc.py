# SPDX-License-Identifier: Apache-2.0
"""The files below /etc that programs in hosts find.

They contain the names of all hosts, no name servers and, in a lab, accounts that may write. All hosts of a network find the same
files. The machine's own files stay as they are. Linux only; needs root in the ground.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from pathlib import Path

from dc_gym.base.errors import FabricError
from dc_gym.topologies.graph import Graph

ETC = Path("/etc")
HOSTS, SWITCH, ACCOUNTS = "hosts", "nsswitch.conf", "passwd"
MS_BIND = 0x1000
ROOT = "0"


def names(graph: Graph, etc: Path = ETC) -> dict[str, str]:
    """Returns the files for name resolution. They list the hosts and their ports, and no name server outside is asked."""
    return {HOSTS: _hosts(graph), SWITCH: _without_servers(_read(etc / SWITCH))}


def accounts(uid: int, gid: int, etc: Path = ETC) -> dict[str, str]:
    """Returns the machine's accounts, in which every account except root's has the ids of that user.

    A program that gives up root, as tcpdump does, can then still write into the result: on the machine the whole lab is that
    user, and nobody else's files can be created.
    """
    rows = [line.split(":") for line in _read(etc / ACCOUNTS).splitlines()]
    changed = [row if len(row) < 4 or row[2] in (ROOT, "") else [*row[:2], str(uid), str(gid), *row[4:]] for row in rows]
    return {ACCOUNTS: "".join(":".join(row) + "\n" for row in changed)}


def write(files: Mapping[str, str], etc: Path = ETC) -> None:
    """Writes files into an /etc that belongs to the ground. The machine's files, to which links there lead, stay as they are."""
    for name, text in files.items():
        (etc / name).unlink(missing_ok=True)
        (etc / name).write_text(text)


def cover(files: Mapping[str, str], folder: Path) -> None:
    """Mounts files, kept in `folder`, over the machine's files of the same name, in this mount namespace only."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
        if (ETC / name).exists():
            _bind(folder / name, ETC / name)


def _hosts(graph: Graph) -> str:
    lines = ["127.0.0.1 localhost"]
    for host in graph.hosts:
        for plane, port in enumerate(graph.ports_of(host.name)):
            lines.append(f"{host.nics[plane].address} {'' if plane else host.name + ' '}{port.ifname}")
    return "\n".join(lines) + "\n"


def _without_servers(text: str) -> str:
    """Returns a name service switch file by which host names come from files alone."""
    others = re.sub(r"^hosts:.*\n?", "", text, flags=re.MULTILINE)
    return f"{others}hosts: files\n"


def _read(path: Path) -> str:
    return path.read_text(errors="surrogateescape") if path.exists() else ""


def _bind(source: Path, target: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND, None):
        raise FabricError(f"lay {source} over {target}: {os.strerror(ctypes.get_errno())}")
