# SPDX-License-Identifier: Apache-2.0
"""Builds the cable driver and the qdisc `port` as a module for a stock kernel, keeps it in the cache, and loads and unloads it.

It is built against that kernel's headers, as <cache>/cable/<release>-<key>/cable.ko. The key is a hash over the sources'
behaviour. kernel/module/ documents the module's additions to the driver.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import struct
from pathlib import Path

from dc_gym.base import behaviour, contents
from dc_gym.base.errors import KernelError
from dc_gym.kernel.apt import run
from dc_gym.kernel.cache import cache_dir, for_make, keeping_behaviour, locked, make_folder, partial, publish

HERE = Path(__file__).resolve().parent
SOURCES = (
    *("module/Kbuild", "module/compat.h", "module/module.c", "module/lab_event.h"),
    *(f"drivers/{name}" for name in ("cable.c", "sch_port.c", "port_buffer.c", "port.h", "lab.h", "lab_draw.h", "lab_int.h")),
)
HEADERS = ("lab.h", "lab_event.h")  # which the driver includes as <linux/...>
TOOLS = {"make": "make", "gcc": "gcc", "ld": "binutils"}
LOADED = Path("/sys/module/cable")
SYS_FINIT_MODULE, SYS_DELETE_MODULE = 313, 176  # x86_64
EKEYREJECTED = 129

_libc = ctypes.CDLL(None, use_errno=True)


def key() -> str:
    """Returns the hash over the sources' behaviour."""
    with keeping_behaviour():
        rows = "".join(f"{name} {behaviour.digest_of_file(HERE / name)}\n" for name in SOURCES)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def headers_of(release: str) -> Path:
    """Returns the folder where a kernel's headers are when they are installed."""
    return Path("/lib/modules", release, "build")


def find(release: str) -> Path | None:
    """Returns the module for that kernel, or None if it is not built."""
    module = cache_dir() / "cable" / f"{release}-{key()}" / "cable.ko"
    return module if module.is_file() and contents.is_listed(module.parent) else None


def ensure(release: str, headers: Path) -> Path:
    """Returns the module for that kernel and builds it if necessary. The KernelError names missing files and programs."""
    module = find(release)
    if module is not None:
        return module
    _check(release, headers)
    target = make_folder(cache_dir() / "cable") / f"{release}-{key()}"
    with locked(target.with_name(f"{target.name}.lock")), partial(target) as work, for_make(work) as folder:
        return find(release) or _build(headers, make_folder(folder / "source"), work, target)


def load(module: Path) -> None:
    """Loads the module. Raises KernelError with an explanation if the kernel refuses it."""
    contents.check(module.parent, f"remove {module.parent}, and dc-gym builds it again", [module.name])
    with module.open("rb") as file:
        if _libc.syscall(SYS_FINIT_MODULE, file.fileno(), b"", 0) == 0:
            return
    code = ctypes.get_errno()
    hints = {
        EKEYREJECTED: "; this kernel takes signed modules only (Secure Boot): switch that off, or set host.links=netem",
        errno.EPERM: "; it needs root with CAP_SYS_MODULE and a kernel that is not locked down: else set host.links=netem",
        errno.ENOEXEC: "; it was built for another kernel: `dcgym clean --cache` and try again",
    }
    if code != errno.EEXIST:
        raise KernelError(f"load {module}: {os.strerror(code)}{hints.get(code, '')}")


def unload() -> bool:
    """Unloads the module. Returns False if a network still uses it."""
    if _libc.syscall(SYS_DELETE_MODULE, b"cable", os.O_NONBLOCK) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EWOULDBLOCK, errno.EBUSY):
        return False
    raise KernelError(f"unload the module cable: {os.strerror(code)}")


def build_id(module: Path) -> str:
    """Returns the GNU build id of a module file as text, or '' if it has none."""
    data = module.read_bytes()
    at = data.find(struct.pack("<III", 4, 20, 3) + b"GNU\0")
    return data[at + 16 : at + 36].hex() if at >= 0 else ""


def loaded_build_id() -> str:
    """Returns the GNU build id of the loaded module, or '' if none is loaded."""
    note = LOADED / "notes" / ".note.gnu.build-id"
    return note.read_bytes()[16:36].hex() if note.is_file() else ""


def _check(release: str, headers: Path) -> None:
    missing = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
    if missing:
        raise KernelError(f"building the cable needs {', '.join(missing)}: apt-get install {' '.join(missing)}")
    if not (headers / "Makefile").is_file():
        raise KernelError(f"building the cable needs the kernel's headers: install package linux-headers-{release}")


def _build(headers: Path, source: Path, work: Path, target: Path) -> Path:
    """Builds in the folder `source`, and moves the module by the folder `work` to `target`."""
    out = make_folder(work / "out")
    for name in SOURCES:
        shutil.copy(HERE / name, source)
    make_folder(source / "linux")
    for name in HEADERS:
        shutil.move(source / name, source / "linux" / name)
    run(["make", "-C", str(headers), f"M={source}", "modules"], KernelError)
    shutil.copy(source / "cable.ko", out)
    (out / "cable.ko").chmod(0o644)
    contents.write_sums(out)
    (out / contents.SUMS).chmod(0o644)
    publish(out, target, work)
    return target / "cable.ko"
