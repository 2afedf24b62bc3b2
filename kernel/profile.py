# SPDX-License-Identifier: Apache-2.0
"""The recorded profile of the lab kernel: how often each branch was taken while labs carried traffic.

`profile.tar.xz` has a .gcda file for each object of the kernel in which labs spend time. The build puts them beside the sources,
and gcc lays the kernel out by them (patch 0013). `scripts/profile_kernel.py` records it.

A .gcda file begins with a magic number and the version of the gcc that wrote it; gcc ignores a file of another version. Since gcc
12 the format is the same but for that number, so each file gets the number of the compiler at hand. Functions whose branches
differ because the source or the compiler has changed are compiled without a profile.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from dc_gym.base.errors import KernelError

ARCHIVE = Path(__file__).parent / "profile.tar.xz"
MAGIC = b"adcg"
NOTE_MAGIC = b"oncg"
OLDEST_GCC = 12
VERSION = slice(4, 8)
"""The place of gcc's version in a .gcda file and in a .gcno file."""


def place(tree: Path, archive: Path) -> str:
    """Puts the files of a profile beside the sources of a kernel tree. Returns "used", or why it is not."""
    version = compiler_version()
    if version is None:
        return f"not used: it needs gcc {OLDEST_GCC} or newer"
    with tarfile.open(archive) as files:
        for member in files:
            source = tree / member.name
            content = files.extractfile(member)
            if content is None or not source.with_suffix(".c").is_file():
                continue
            data = content.read()
            if not data.startswith(MAGIC):
                raise KernelError(f"{archive}: {member.name} is no profile of gcc: restore the archive from the sources")
            source.write_bytes(data[: VERSION.start] + version + data[VERSION.stop :])
    return "used"


def compiler_version() -> bytes | None:
    """Returns the version that gcc writes into its files, as its four bytes; None for a gcc with another format."""
    major = re.match(r"\d+", _gcc("-dumpversion"))
    if major is None or int(major[0]) < OLDEST_GCC:
        return None
    with tempfile.TemporaryDirectory(prefix="dcgym-gcc-") as folder:
        source = Path(folder) / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        _gcc("-ftest-coverage", "-c", str(source), "-o", str(source.with_suffix(".o")))
        note = source.with_suffix(".gcno").read_bytes()
    return note[VERSION] if note.startswith(NOTE_MAGIC) else None


def _gcc(*arguments: str) -> str:
    process = subprocess.run(["gcc", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if process.returncode:
        raise KernelError(f"gcc {' '.join(arguments)} failed ({process.returncode}): {process.stderr.strip()}")
    return process.stdout.strip()
