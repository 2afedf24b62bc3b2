# SPDX-License-Identifier: Apache-2.0
"""A lab that a program has taken over types nothing into its user's terminal, and changes nothing of it."""

import json
import os
import pty
import subprocess
import sys
import tempfile
import termios
import tty
from pathlib import Path

import pytest
from launched import ABIS, GID, UID

ATTACK = """
import ctypes, errno, fcntl, json, os, sys, termios
libc = ctypes.CDLL(None, use_errno=True)
TIOCLINUX, TIOCEXCL = 0x541C, 0x540C

def ioctl(fd, number, argument):
    done = libc.syscall(16, fd, ctypes.c_ulong(number), argument)
    return "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]

found = {}
for path in ("/dev/tty", sys.argv[1]):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        found[path] = errno.errorcode[error.errno]
        continue
    letter, raw = ctypes.c_char_p(b"x"), ctypes.create_string_buffer(256)
    found[path] = {
        "types": ioctl(fd, termios.TIOCSTI, letter),
        "types, with a number that the kernel cuts": ioctl(fd, 1 << 32 | termios.TIOCSTI, letter),
        "pastes": ioctl(fd, TIOCLINUX, ctypes.c_char_p(bytes([3]))),
        "changes the mode": ioctl(fd, termios.TCSETS, raw),
        "sets the line discipline": ioctl(fd, termios.TIOCSETD, ctypes.byref(ctypes.c_int(1))),
        "sets the size": ioctl(fd, termios.TIOCSWINSZ, raw),
        "locks others out": ioctl(fd, TIOCEXCL, 0),
        "takes it": ioctl(fd, termios.TIOCSCTTY, 0),
    }
print(json.dumps(found))
"""

READ = """
import errno, json, os, sys
def read(path):
    try:
        os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1)
    except BlockingIOError:
        pass
    except OSError as error:
        return errno.errorcode[error.errno]
    return "read"
paths = sys.argv[1], "/dev/null", "/proc/version", "/proc/cpuinfo", "/etc/passwd", os.path.realpath(sys.executable)
print(json.dumps([read(path) for path in paths]))
"""
USER = """
import pathlib, sys
from launched import launched
print(launched([sys.executable, "-c", *sys.argv[1:3]], pathlib.Path(sys.argv[3]), abi=int(sys.argv[4])))
"""
"""The user's shell, which starts a lab."""


@pytest.fixture
def given():
    """A folder that everybody may write to."""
    with tempfile.TemporaryDirectory(prefix="dcgym-test-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def terminal():
    """A terminal of the lab's user, in whose session the lab is started."""
    master, slave = pty.openpty()
    if os.geteuid() == 0:
        os.fchown(slave, UID, GID)
    tty.setraw(slave)
    os.set_blocking(slave, False)
    yield slave
    os.close(master)
    os.close(slave)


def typed(terminal):
    try:
        return os.read(terminal, 100)
    except BlockingIOError:
        return b""


def attacked(program, terminal, folder, abi):
    """Returns what a program found that a shell of this terminal started as a lab."""
    shell = ["setsid", "--ctty", "--wait", sys.executable, "-c", USER, program, os.ttyname(terminal), str(folder), str(abi)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(shell, stdin=terminal, capture_output=True, text=True, env=environment, check=True)
    return json.loads(child.stdout)


@pytest.mark.parametrize("abi", ABIS)
def test_a_lab_neither_types_into_the_terminal_nor_changes_it(abi, terminal, given):
    mode = termios.tcgetattr(terminal)
    codes_by_device = attacked(ATTACK, terminal, given, abi)
    assert typed(terminal) == b"" and termios.tcgetattr(terminal) == mode
    assert codes_by_device.pop("/dev/tty") in ("ENXIO", "EACCES")
    assert all(set(codes.values()) == {"EPERM"} for codes in codes_by_device.values() if codes != "EACCES")


@pytest.mark.parametrize("abi", ABIS[1:])
def test_a_lab_reads_no_device_of_its_user_and_nothing_of_the_machine(abi, terminal, given):
    """Such as what is typed at the terminal, and the command lines of processes."""
    assert attacked(READ, terminal, given, abi) == ["EACCES", "EACCES", "EACCES", "read", "read", "read"]
