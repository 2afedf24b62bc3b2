# SPDX-License-Identifier: Apache-2.0
"""A lab that a program has taken over can do nothing to its user's files and processes, with each version of Landlock.

A probe tries it all, under the shipped lab-launch, in place of the lab kernel.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from launched import ABIS, CODE, GID, UID, launched

from dc_gym.kernel.confinement import SIGNALS_ABI

AS_UML = {"user": UID, "group": GID, "extra_groups": []} if os.geteuid() == 0 else {}

TRY = """
import ctypes, errno, json, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
given, outside, pid, socket_path = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
AT_FDCWD = -100
path, sock = outside.encode(), socket_path.encode()
two = struct.pack("4q", 1, 0, 1, 0)
fd = os.open(outside, os.O_RDONLY)

def call(number, *words):
    ctypes.set_errno(0)
    words = [ctypes.c_ulong(word & 2**64 - 1) if isinstance(word, int) else word for word in words]
    return "done" if libc.syscall(number, *words) >= 0 else errno.errorcode[ctypes.get_errno()]

def buffer(size=64):
    return ctypes.create_string_buffer(size)

found = {}
"""

FILES = """
found = {
    "open(O_RDONLY|O_TRUNC)": call(2, path, os.O_RDONLY | os.O_TRUNC),
    "open(3|O_TRUNC)": call(2, path, 3 | os.O_TRUNC),
    "openat(O_RDONLY|O_TRUNC)": call(257, AT_FDCWD, path, os.O_RDONLY | os.O_TRUNC),
    "openat(3|O_TRUNC)": call(257, AT_FDCWD, path, 3 | os.O_TRUNC),
    "openat2": call(437, AT_FDCWD, path, struct.pack("3Q", os.O_TRUNC, 0, 0), 24),
    "creat": call(85, path, 0),
    "setxattr": call(188, path, b"user.a", b"a", 1, 0),
    "lsetxattr": call(189, path, b"user.a", b"a", 1, 0),
    "fsetxattr": call(190, fd, b"user.a", b"a", 1, 0),
    "removexattr": call(197, path, b"user.kept"),
    "lremovexattr": call(198, path, b"user.kept"),
    "fremovexattr": call(199, fd, b"user.kept"),
    "setxattrat": call(463, AT_FDCWD, path, 0, b"user.a", struct.pack("QII", 0, 0, 0), 16),
    "removexattrat": call(466, AT_FDCWD, path, 0, b"user.kept"),
    "file_setattr": call(469, AT_FDCWD, path, buffer(), 24, 0),
    "FS_IOC_SETFLAGS": call(16, fd, 0x40086602, ctypes.byref(ctypes.c_long(0x40))),
    "flock": call(73, fd, 2),
    "F_SETLK": call(72, fd, 6, struct.pack("hhqqi4x", 0, 0, 0, 0, 0)),
    "F_OFD_SETLK": call(72, fd, 37, struct.pack("hhqqi4x", 0, 0, 0, 0, 0)),
    "F_SETOWN": call(72, fd, 8, pid), "F_SETLEASE": call(72, fd, 1024, 0),
    "F_NOTIFY": call(72, os.open(os.path.dirname(outside), 0), 1026, 2),
    "F_SET_RW_HINT": call(72, fd, 1036, struct.pack("Q", 2)),
    "inotify_init": call(253), "inotify_init1": call(294, 0), "fanotify_init": call(300, 0, 0),
    "name_to_handle_at": call(303, AT_FDCWD, path, buffer(200), buffer(), 0),
    "open_by_handle_at": call(304, AT_FDCWD, buffer(200), 0),
    "quotactl": call(179, 0, 0, 0, 0), "quotactl_fd": call(443, fd, 0, 0, 0),
}
"""

METADATA = """
found = {
    "chmod": call(90, path, 0o4777), "fchmod": call(91, fd, 0o4777),
    "fchmodat": call(268, AT_FDCWD, path, 0o4777), "fchmodat2": call(452, AT_FDCWD, path, 0o4777, 0),
    "chown": call(92, path, os.getuid(), os.getgid()), "fchown": call(93, fd, os.getuid(), os.getgid()),
    "lchown": call(94, path, os.getuid(), os.getgid()), "fchownat": call(260, AT_FDCWD, path, os.getuid(), os.getgid(), 0),
    "utime": call(132, path, two), "utimes": call(235, path, two), "futimesat": call(261, AT_FDCWD, path, two),
    "utimensat": call(280, AT_FDCWD, path, two, 0), "futimens": call(280, fd, 0, two, 0), "truncate": call(76, path, 0),
}
"""

PROCESSES = """
word = struct.pack("Q", 1)
found = {
    "prlimit64": call(302, pid, 0, struct.pack("2Q", 1, 1), 0),
    "prlimit64, with a number that the kernel cuts": call(302, 1 << 32 | pid, 0, struct.pack("2Q", 1, 1), 0),
    "sched_setaffinity": call(203, pid, 8, word), "sched_setscheduler": call(144, pid, 3, struct.pack("i", 0)),
    "sched_setparam": call(142, pid, struct.pack("i", 0)),
    "sched_setattr": call(314, pid, struct.pack("IIQiIQQQ", 48, 3, 0, 19, 0, 0, 0, 0), 0),
    "setpriority": call(141, 0, pid, 19), "setpriority of the user": call(141, 2, 0, 0), "ioprio_set": call(251, 1, pid, 3 << 13),
    "rt_sigqueueinfo": call(129, pid, 10, struct.pack("iii", 10, 0, -1) + bytes(116)),
    "rt_tgsigqueueinfo": call(297, pid, pid, 10, struct.pack("iii", 10, 0, -1) + bytes(116)),
    "pidfd_open": call(434, pid, 0), "pidfd_send_signal": call(424, 0, 0, 0, 0), "process_madvise": call(440, 0, 0, 0, 0, 0),
    "process_mrelease": call(448, 0, 0), "move_pages": call(279, pid, 1, word, 0, buffer(), 0),
    "migrate_pages": call(256, pid, 8, word, word), "get_robust_list": call(274, pid, buffer(), buffer()),
    "kcmp": call(312, os.getpid(), pid, 0, 0, 0), "ptrace": call(101, 16, pid, 0, 0),
    "process_vm_readv": call(310, pid, 0, 0, 0, 0, 0), "process_vm_writev": call(311, pid, 0, 0, 0, 0, 0),
    "setpgid": call(109, pid, 0), "capset": call(126, 0, 0),
}
"""

CHANNELS = """
import array
def send(kind):
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        told = array.array("i", [fd])
        ours.sendmsg([b"theirs"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, told)], 0, socket_path)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
name = struct.pack("H", 1) + sock
found = {
    "a datagram with a descriptor": send(socket.SOCK_DGRAM),
    "a datagram, of a kind that the kernel cuts": call(53, 1, 1 << 32 | 2, 0, buffer()),
    "a datagram of a raw socket": call(53, 1, 3, 0, buffer()),
    "a pair in another family": call(53, 30, 1, 0, buffer()),
    "socket": call(41, 1, 2, 0), "connect": call(42, fd, name, len(name)), "bind": call(49, fd, name, len(name)),
    "listen": call(50, fd, 1), "accept": call(43, fd, 0, 0), "accept4": call(288, fd, 0, 0, 0),
    "shmget": call(29, 0x64634779, 4096, 0), "shmat": call(30, 0, 0, 0), "shmctl": call(31, 0, 0, 0), "shmdt": call(67, 0),
    "msgget": call(68, 1, 0), "msgsnd": call(69, 0, 0, 0, 0), "msgrcv": call(70, 0, 0, 0, 0, 0), "msgctl": call(71, 0, 0, 0),
    "semget": call(64, 1, 1, 0), "semop": call(65, 0, 0, 0), "semctl": call(66, 0, 0, 0), "semtimedop": call(220, 0, 0, 0, 0),
    "mq_open": call(240, b"dcgym", 0), "mq_unlink": call(241, b"dcgym"),
}
"""

INTERFACES = """
names = {
    "syslog": 103, "uselib": 134, "mount": 165, "umount2": 166, "swapon": 167, "reboot": 169, "chroot": 161,
    "sethostname": 170, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "pivot_root": 155,
    "init_module": 175, "finit_module": 313, "kexec_load": 246, "acct": 163, "vhangup": 153, "modify_ldt": 154, "ioperm": 173,
    "io_setup": 206, "splice": 275, "tee": 276, "vmsplice": 278, "userfaultfd": 323, "bpf": 321, "perf_event_open": 298,
    "io_uring_setup": 425, "keyctl": 250, "add_key": 248, "request_key": 249, "unshare": 272, "setns": 308, "lookup": 212,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fspick": 433, "mount_setattr": 442, "pidfd_getfd": 438,
    "memfd_secret": 447, "statmount": 457, "set_mempolicy_home_node": 450, "a call of the future": 600, "x32": 0x40000000 + 41,
}
found = {name: call(number, 0, 0, 0, 0, 0, 0) for name, number in names.items()}
"""

SIGNALS = """
found = {"kill": call(62, pid, 9), "tkill": call(200, pid, 9), "tgkill": call(234, pid, pid, 9)}
"""

OWN = """
own = given + "/own"
found = {
    "writes": code(lambda: open(own, "w").write("own")),
    "reads": code(lambda: open(outside).read()),
    "has a stream of sockets": code(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)),
    "limits itself": call(302, 0, 4, 0, buffer()),
    "has processes": code(lambda: os._exit(0) if os.fork() == 0 else os.wait()),
    "ends them": code(lambda: os.kill(os.getpid(), 0)),
    "makes a pipe": code(lambda: os.mkfifo(given + "/pipe")),
    "renames": code(lambda: os.rename(own, given + "/renamed")),
    "removes": code(lambda: os.unlink(given + "/renamed")),
}
"""


@pytest.fixture
def folder():
    """A folder of the user, that everybody may write to."""
    with tempfile.TemporaryDirectory(prefix="dcgym-test-", dir="/tmp") as name:
        base = Path(name)
        for path in (base, base / "given"):
            path.mkdir(exist_ok=True)
            path.chmod(0o777)
        yield base


@pytest.fixture
def victim(folder):
    """A process of the lab's user, which has a named socket and a file, and says what it received when its input ends."""
    program = """
import socket, sys
named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
named.bind(sys.argv[1] + "/socket")
open(sys.argv[1] + "/file", "w").write("mine")
named.setblocking(False)
print("ready", flush=True)
sys.stdin.read()
try:
    print(named.recv(100))
except BlockingIOError:
    print("nothing")
"""
    argv = [sys.executable, "-c", program, str(folder)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", **AS_UML)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def tried(body, folder, victim, abi):
    program = TRY + body + "\nprint(json.dumps(found))"
    words = [folder / "given", folder / "file", victim.pid, folder / "socket"]
    return json.loads(launched([sys.executable, "-c", program, *map(str, words)], folder / "given", abi=abi))


def beyond(codes):
    """Returns what seccomp did not refuse."""
    return {name: code for name, code in codes.items() if code not in ("EPERM", "ENOSYS")}


@pytest.mark.parametrize("abi", ABIS)
def test_files_outside_stay_as_they_are(abi, folder, victim):
    file = folder / "file"
    before = file.stat()
    codes = tried(FILES, folder, victim, abi)
    if abi:
        assert codes.pop("creat") == "EACCES"
    else:
        del codes["creat"]
        file.write_text("mine")
    assert beyond(codes) == {}
    assert file.read_text() == "mine" and file.stat().st_mode == before.st_mode


@pytest.mark.parametrize("abi", ABIS)
def test_modes_owners_times_and_sizes_outside_stay_as_they_are(abi, folder, victim):
    file = folder / "file"
    before = file.stat()
    assert beyond(tried(METADATA, folder, victim, abi)) == {}
    after = file.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (before.st_mode, before.st_mtime_ns, before.st_ctime_ns)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("abi", ABIS)
def test_other_processes_are_not_touched(abi, folder, victim):
    assert beyond(tried(PROCESSES, folder, victim, abi)) == {}
    assert victim.poll() is None


@pytest.mark.skipif(max(ABIS) < SIGNALS_ABI, reason="this machine's Landlock does not keep signals in")
def test_signals_stay_among_its_own_where_landlock_can(folder, victim):
    assert beyond(tried(SIGNALS, folder, victim, None)) == {} and victim.poll() is None


@pytest.mark.parametrize("abi", ABIS)
def test_nothing_is_said_to_others(abi, folder, victim):
    assert beyond(tried(CHANNELS, folder, victim, abi)) == {}
    assert victim.communicate("")[0] == "nothing\n"


def test_no_large_interface_is_open(folder, victim):
    assert beyond(tried(INTERFACES, folder, victim, None)) == {}


@pytest.mark.parametrize("abi", ABIS)
def test_what_a_lab_kernel_needs_it_may_do(abi, folder, victim):
    assert set(tried(CODE + OWN, folder, victim, abi).values()) == {"done"}
