# SPDX-License-Identifier: Apache-2.0
"""TCPs of one's own, as C sources: `plugins = ["tcp_mine.c"]` makes the TCP in the file a controller of that name.

The source is one of the kernel's, as a file of net/ipv4; kernel/objects.py compiles it for the lab kernel. A TCP of several
files, or one with a label, is registered in Python: `register(Controller("mine", tcp="tcp_mine.c"))`.
"""

from __future__ import annotations

import re
from pathlib import Path

from dc_gym.base import usercode
from dc_gym.base.errors import SpecError
from dc_gym.ctrl.controllers import Controller, find, register

__all__ = ["SUFFIX", "load_plugin"]

SUFFIX = ".c"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAME = re.compile(r"\.name\s*=\s*\"([^\"]*)\"")
NAMED = re.compile(r"[a-z0-9][a-z0-9_.-]{0,14}")
"""A name for TCP_CONGESTION: it and its end take at most TCP_CA_NAME_MAX, 16 bytes."""
NEEDS_ECN = "TCP_CONG_NEEDS_ECN"


def load_plugin(path: Path) -> None:
    """Registers what a plug-in has: runs a Python file, or registers the TCP in a C source.

    Args:
        path: The file. One of the same content is loaded once.

    Raises:
        SpecError: It cannot be read or run, or has not exactly one TCP.
    """
    if path.suffix != SUFFIX:
        usercode.load(path)
        return
    source = usercode.read(path)
    controller = _controller(path, COMMENT.sub(" ", source.decode(errors="replace")))
    known = find(controller.name)
    if known is None:
        register(controller)
    elif [file.read_bytes() for file in known.tcp if file.is_file()] != [source]:
        raise SpecError(f"{path}: its .name {known.name!r} is that of another controller; choose another name")


def _controller(path: Path, text: str) -> Controller:
    names = sorted(set(NAME.findall(text)))
    if len(names) != 1:
        which = ", ".join(map(repr, names)) or "none"
        raise SpecError(f'{path}: its struct tcp_congestion_ops needs one .name = "..."; it has {which}')
    if NAMED.fullmatch(names[0]) is None:
        raise SpecError(f"{path}: .name {names[0]!r} is no name of a TCP; give 1 to 15 small letters, digits, _ . or -")
    return Controller(names[0], ecn=NEEDS_ECN in text, tcp=(path.absolute(),))
