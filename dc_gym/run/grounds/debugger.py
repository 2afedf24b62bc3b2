# SPDX-License-Identifier: Apache-2.0
"""A lab under gdb: it waits at its first question until gdb has attached to it.

Its kernel has booted by then, and has read a TCP of one's own, so that breakpoints in both stay. Virtual time stands still as
long as the lab does, so the records are those of a run without gdb.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from dc_gym.base.errors import LabError, MachineError, UsageError
from dc_gym.base.processes import ProcessStat
from dc_gym.base.progress import Progress
from dc_gym.kernel.apt import run
from dc_gym.kernel.lab import Lab
from dc_gym.kernel.objects import DEBUG

__all__ = ["await_gdb", "check"]

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
FILE, SYMBOLS = "gdb", "linux.symbols"
LOOK_S = 0.05
COMMANDS = """\
set exec-file-mismatch off
file {kernel}
{object}
handle SIGSEGV SIGUSR1 SIGIO SIGALRM SIGVTALRM SIGCHLD SIGWINCH nostop noprint pass
attach {pid}
"""
"""The kernel handles these signals itself: they are its interrupts."""


def check() -> None:
    """Raises UsageError if gdb is missing, or could not attach to a lab."""
    if shutil.which("gdb") is None:
        raise UsageError("--gdb: there is no gdb on this machine: apt install gdb")
    if os.geteuid() != 0 and YAMA.is_file() and (scope := YAMA.read_text().strip()) != "0":
        why = f"this machine lets no debugger attach (kernel.yama.ptrace_scope = {scope})"
        raise UsageError(f"--gdb: {why}: sudo sysctl kernel.yama.ptrace_scope=0")


def await_gdb(lab: Lab, folder: Path, progress: Progress) -> None:
    """Says how gdb attaches to the lab, and waits until it has. `folder` is the run's private one.

    Raises LabError if the lab ends instead.
    """
    lab.until_step()
    kernel, more = lab.config.kernel, ""
    if lab.config.object is not None:
        kernel, more = _without_region(kernel, folder / SYMBOLS), f"add-symbol-file {lab.config.object.with_suffix(DEBUG)}"
    (folder / FILE).write_text(COMMANDS.format(kernel=kernel, object=more, pid=lab.pid))
    progress.announce(f"the lab has booted and waits for a debugger; attach to it, and `continue` there: gdb -x {folder / FILE}")
    while not _is_traced(lab.pid):
        if (stat := ProcessStat.of(lab.pid)) is None or stat.state == "Z":
            raise LabError("the lab ended while it waited for a debugger")
        time.sleep(LOOK_S)


def _without_region(kernel: Path, copy: Path) -> Path:
    """Returns a copy of the kernel's symbols without the section in which the object lies: gdb takes one file's at an address."""
    run(["objcopy", "--only-keep-debug", "--remove-section=.bss", str(kernel), str(copy)], MachineError)
    return copy


def _is_traced(pid: int) -> bool:
    try:
        return re.search(r"^TracerPid:\s*[1-9]", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE) is not None
    except OSError:
        return False
