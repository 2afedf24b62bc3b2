# SPDX-License-Identifier: Apache-2.0
"""Names of folders reach other programs as names alone, and files that a VM makes have no right of its user's."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from dc_gym.base.package import PROGRAMS
from dc_gym.kernel.cache import cache_dir
from dc_gym.run.grounds.host import vm
from dc_gym.run.grounds.host.vm_kernel import VmKernel

NAMES = ("a,readonly=on", "a,,b", "path=x,security_model=passthrough,id=y", "a b", "ä$(id)`id`;'\"")


def qemu(share: Path) -> list[str]:
    return vm._qemu(VmKernel(Path("/kernel"), "6.1"), Path("/work"), [3, 4, 5], share, 1 << 30, 1)


def value_of(option: str) -> dict[str, str]:
    """Returns a value as qemu reads it: commas divide, and two are one of a name (its util/keyval.c)."""
    parts = option.replace(",,", "\0").split(",")
    return {name: text.replace("\0", ",") for name, _, text in (part.partition("=") for part in parts)}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_s_name_is_no_option_of_qemu_s(name: str) -> None:
    argv = qemu(Path("/home") / name)
    shared = [value_of(word) for before, word in pairwise(argv) if before == "-virtfs"]
    assert [option["path"] for option in shared] == ["/", f"/home/{name}"]
    assert [set(option) for option in shared] == [
        {"local", "path", "mount_tag", "security_model", "readonly", "multidevs"},
        {"local", "path", "mount_tag", "security_model", "multidevs"},
    ]


@pytest.mark.skipif(shutil.which(vm.QEMU) is None, reason="no qemu: apt-get install qemu-system-x86")
@pytest.mark.parametrize("name", NAMES)
def test_qemu_takes_the_folder(name: str, tmp_path: Path) -> None:
    share = tmp_path / name
    share.mkdir()
    argv = qemu(share)
    option = argv[[index for index, word in enumerate(argv) if word == "-virtfs"][-1] + 1]
    stop = [vm.QEMU, "-nodefaults", "-display", "none", "-machine", "pc,accel=tcg", "-S", "-monitor", "stdio", "-virtfs", option]
    child = subprocess.run(stop, input="quit\n", capture_output=True, text=True, timeout=300)
    assert child.returncode == 0 and child.stderr == "", child.stderr


MODES = """
import os, stat, sys, ctypes
def tried(name, *arguments):
    try:
        getattr(os, name)(*arguments)
    except OSError as error:
        return error.strerror
    return "done"
path = sys.argv[1]
fd = os.open(f"{path}/plain", os.O_CREAT | os.O_WRONLY, 0o644)
print("chmod", tried("chmod", f"{path}/plain", 0o4755), tried("chmod", f"{path}/plain", 0o2755))
print("fchmod", tried("fchmod", fd, 0o4755))
os.umask(0)
print("open", tried("open", f"{path}/new", os.O_CREAT | os.O_WRONLY, 0o4755))
print("mknod", tried("mknod", f"{path}/node", 0o104755), tried("mknod", f"{path}/device", stat.S_IFCHR | 0o600))
print("setxattr", tried("setxattr", f"{path}/plain", "user.x", b"1"))
print("free", tried("chmod", f"{path}/plain", 0o755), tried("mkdir", f"{path}/folder"), tried("mkfifo", f"{path}/pipe"))
print("free", tried("open", f"{path}/plain", os.O_RDONLY), tried("open", f"{path}/other", os.O_CREAT | os.O_WRONLY, 0o755))
libc = ctypes.CDLL(None, use_errno=True)
for number, *arguments in ((452, -100, f"{path}/plain".encode(), 0o4755, 0), (85, f"{path}/created".encode(), 0o4755)):
    print("raw", libc.syscall(number, *arguments))
"""


def test_what_runs_a_vm_makes_no_file_that_runs_as_its_owner(tmp_path: Path) -> None:
    argv = [*vm.LAUNCH, sys.executable, "-c", MODES, str(tmp_path)]
    child = subprocess.run(argv, capture_output=True, text=True)
    refused = os.strerror(1)
    assert child.stdout.splitlines() == [
        f"chmod {refused} {refused}",
        f"fchmod {refused}",
        f"open {refused}",
        f"mknod {refused} {refused}",
        f"setxattr {os.strerror(95)}",
        "free done done done",
        "free done done",
        "raw -1",
        "raw -1",
    ], child.stderr
    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert set(modes) == {"plain", "folder", "pipe", "other"}
    assert not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes.values())


def test_qemu_is_run_so() -> None:
    assert qemu(Path("/home"))[: len(vm.LAUNCH) + 1] == [*vm.LAUNCH, vm.QEMU]
    assert vm.LAUNCH[-1] == str(PROGRAMS / "vm-launch")


INSIDE = """
import os, sys
open("seen", "w").write(os.getcwd())
open("program", "w").write("#!/bin/sh")
os.chmod("program", 0o755)
try:
    os.chmod("program", 0o4755)
except PermissionError:
    open("refused", "w").close()
"""


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which(vm.QEMU) is None, reason="no qemu: apt-get install qemu-system-x86")
def test_a_vm_in_a_folder_with_a_comma(tmp_path: Path) -> None:
    from dc_gym.run.grounds.host import vm_kernel

    kernel = vm_kernel.load(cache_dir() / "vm" / "current")
    if kernel is None:
        pytest.skip("the VM's kernel is not in the cache: dcgym vm fetches it")
    share = tmp_path / "a,readonly=on"
    share.mkdir()
    assert vm.run(kernel, [sys.executable, "-c", INSIDE], vm.environment(), share) == 0
    assert (share / "seen").read_text() == str(share) and (share / "refused").exists()
    assert stat.S_IMODE((share / "program").stat().st_mode) == 0o755 and (share / "program").stat().st_uid == os.geteuid()
