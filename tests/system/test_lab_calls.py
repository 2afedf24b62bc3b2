# SPDX-License-Identifier: Apache-2.0
"""System calls of a lab's program come to its kernel by notification, or by a signal where the host allows no notification."""

import json
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dc_gym.base.interpreter import python
from dc_gym.kernel.lab import LabConfig

SOURCE = Path(__file__).parents[1] / "lab_calls.c"
IO_SUBMIT, LISTENER = 209, 8
FILTERED = """
import contextlib, ctypes, json, os, pickle, struct, sys, threading
from dc_gym.base import processes
from dc_gym.kernel.lab import Lab

config, rules, flags = pickle.load(sys.stdin.buffer)
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(317, 1, flags, program) >= 0  # PR_SET_NO_NEW_PRIVS, seccomp(2)
lines, listeners, done = [], set(), threading.Event()

def look():
    while not done.is_set():
        for each in processes.descendants(os.getpid())[1:]:
            with contextlib.suppress(OSError):  # it has ended
                folder = f"/proc/{each.pid}/fd"
                listeners.update(fd for fd in os.listdir(folder) if "seccomp" in os.readlink(f"{folder}/{fd}"))

watch = threading.Thread(target=look)
watch.start()
with Lab(config, lines.append) as lab:
    status = lab.wait().status
done.set()
watch.join()
print(json.dumps([status, lines, len(listeners)]))
"""
"""Runs a lab below a filter of further out, and says how many listeners of notifications its processes have."""
ALLOW = ((0x06, 0, 0, 0x7FFF0000),)
REFUSE = ((0x20, 0, 0, 0), (0x15, 0, 1, IO_SUBMIT), (0x06, 0, 0, 0x50000 | 1), *ALLOW)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    for directory in (folder, folder.parent):
        directory.chmod(0o755)
    binary = folder / "lab_calls"
    argv = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-static", "-o", binary, SOURCE]
    subprocess.run(argv, check=True)
    return binary


@pytest.fixture(scope="module")
def times_ns() -> dict[str, str]:
    """The virtual time at the end of the program, by the way that its calls took."""
    return {}


@pytest.mark.parametrize(
    ("rules", "flags", "are_notified"),
    [(ALLOW, 0, True), (REFUSE, 0, False), (ALLOW, LISTENER, False)],
    ids=["notified", "a filter refuses a call", "a filter has the listener"],
)
def test_calls_do_what_they_do_on_linux(
    rules: object,
    flags: int,
    are_notified: bool,
    program: Path,
    times_ns: dict[str, str],
    lab_config: Callable[..., LabConfig],
) -> None:
    """All ways take the same virtual time."""
    config = lab_config([str(program)], reads=(program.parent,))
    ran = subprocess.run(python("-c", FILTERED), input=pickle.dumps((config, rules, flags)), capture_output=True, timeout=60)
    status, (line,), listeners = json.loads(ran.stdout)
    verdict, _, time_ns = line.partition(" at ")
    assert (status, verdict) == (0, "passed"), ran.stderr.decode()
    assert (listeners > 0) == are_notified
    assert times_ns.setdefault("all", time_ns) == time_ns
