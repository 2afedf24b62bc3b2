# SPDX-License-Identifier: Apache-2.0
"""Boot, the read-only root, the channel, and every way for a lab to die."""

import errno
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dc_gym.base.errors import LabError, MachineError, ProtocolError, UsageError
from dc_gym.base.processes import ProcessStat, children
from dc_gym.kernel import channel
from dc_gym.kernel.channel import HEADER, HELLO, MESSAGE_MAX_BYTES, MessageType, parse
from dc_gym.kernel.lab import Lab, _Standstill, check_place
from dc_gym.run.grounds.guest import site

pytestmark = [pytest.mark.lab, pytest.mark.user]
ROOT = Path(__file__).resolve().parents[2]


def sh(command):
    return ["/bin/sh", "-c", command]


def test_exit_status_and_output_come_back(in_lab):
    ran = in_lab(sh("echo one; echo two >&2; exit 3"))
    assert (ran.exit.status, ran.lines) == (3, ["one", "two"])


def test_program_killed_by_a_signal_says_so(in_lab):
    assert in_lab(sh("kill -9 $$")).exit.status == 128 + 9


def test_program_that_is_not_there_names_itself(in_lab):
    ran = in_lab(["/no/such/program"])
    assert ran.exit.status == 125
    assert "/no/such/program: No such file or directory" in ran.text


def test_sleeping_takes_virtual_time_alone(in_lab):
    ran = in_lab("import time; a = time.monotonic_ns(); time.sleep(3600); print(time.monotonic_ns() - a)")
    slept = int(ran.text)
    assert 3600 * 10**9 <= slept < 3600 * 10**9 + 100_000  # timer slack, 50 us


def test_a_clock_read_costs_what_the_lab_was_told(in_lab):
    program = "import time; r = [time.monotonic_ns() for _ in range(5)]; print(*(b - a for a, b in zip(r, r[1:])))"
    assert in_lab(program, clock_read_ns=25).text == "25 25 25 25"
    assert in_lab(program, clock_read_ns=1000).text == "1000 1000 1000 1000"


def test_absolute_sleep_of_a_real_time_process_is_exact_to_the_nanosecond(in_lab):
    """A real-time process has no timer slack; others have at least 1 ns (PR_SET_TIMERSLACK)."""
    program = """
import ctypes, os, time
libc = ctypes.CDLL(None)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
class T(ctypes.Structure): _fields_ = [("s", ctypes.c_long), ("n", ctypes.c_long)]
for target in (5_000_000_001, 5_000_000_002, 5_123_456_789):
    libc.clock_nanosleep(1, 1, ctypes.byref(T(*divmod(target, 10**9))), None)
    print(time.monotonic_ns() - 25 - target)
"""
    first, second, third = map(int, in_lab(program).lines)
    # The second is one nanosecond after the first: clock reads, of 25 ns each, have passed it. Python decides how many there are.
    assert (first, second % 25, third) == (0, 24, 0) and second < 100


def test_root_is_read_only_and_the_run_folder_is_not(in_lab, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    script = f"""
    touch {tmp_path}/new; echo x > {outside}; rm {outside}; mkdir /etc/new; touch /root/new /var/new /usr/new
    echo yes > {tmp_path}/run/inside; echo scratch > /tmp/dcgym-scratch; cat /tmp/dcgym-scratch; ls {outside}
    """
    ran = in_lab(sh(script))
    assert (tmp_path / "run" / "inside").read_text() == "yes\n"
    assert "scratch" in ran.lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "run"]
    assert outside.read_text() == "mine"
    assert not Path("/tmp/dcgym-scratch").exists()
    for path in ("/etc/new", "/root/new", "/var/new", "/usr/new"):
        assert not os.path.lexists(path)


def test_lab_root_is_no_root_outside(in_lab, tmp_path):
    """Files of the run's folder belong to the caller, or to an unprivileged user where the caller is root."""
    in_lab(sh(f"id -u > {tmp_path}/run/uid"))
    assert (tmp_path / "run" / "uid").read_text() == "0\n"
    owner = (tmp_path / "run" / "uid").stat().st_uid
    assert owner != 0
    assert os.geteuid() in (0, owner)


def test_one_seed_gives_all_randomness(in_lab):
    program = "import os, ctypes; print(os.urandom(8).hex(), open('/proc/sys/kernel/random/uuid').read(), id(object()))"
    first = in_lab(program, seed=1).text
    assert in_lab(program, seed=1).text == first
    assert in_lab(program, seed=2).text.split()[0] != first.split()[0]


def test_what_is_asked_before_t0_does_not_change_what_comes_after(in_lab):
    program = """
import fcntl, os, struct, sys, time
os.urandom({before})
for _ in range({reads}): time.monotonic()
with open("/dev/lab", "wb", buffering=0) as lab:
    fcntl.ioctl(lab, 0x40084C02, struct.pack("<Q", 2 * 10**9))
time.sleep(3 - time.monotonic())
print(os.urandom(16).hex())
"""
    plain = in_lab(program.format(before=1, reads=1)).text
    assert in_lab(program.format(before=1000, reads=777)).text == plain
    assert in_lab(program.format(before=1, reads=1), seed=2).text != plain


def test_each_t0_has_the_randomness_of_its_own_seed(in_lab):
    """Earlier events do not matter: the order of the seeds, numbers drawn before, the lab's own seed."""
    program = """
import fcntl, os, struct, sys, time
with open("/dev/lab", "wb", buffering=0) as lab:
    for number, seed in enumerate(sys.argv[1:], 1):
        if seed != "none":
            fcntl.ioctl(lab, 0x40084C05, struct.pack("<Q", int(seed)))
        fcntl.ioctl(lab, 0x40084C02, struct.pack("<Q", number * 2 * 10**9))
        time.sleep(2 * number + 1 - time.monotonic())
        print(os.urandom(8 * number).hex()[:16])
"""
    drawn = in_lab([sys.executable, "-c", program, "5", "6", "5", "1", str(2**64 - 1)], seed=1).lines
    assert len(set(drawn)) == 4 and drawn[0] == drawn[2]
    assert in_lab([sys.executable, "-c", program, "6", "5", "1"], seed=9).lines == [drawn[1], drawn[0], drawn[3]]
    assert in_lab([sys.executable, "-c", program, "none", "none"], seed=1).lines == [drawn[3], drawn[3]]


def test_the_hosts_numbers_of_calls_are_the_headers(tmp_path):
    source = tmp_path / "calls.c"
    source.write_text(
        '#include <stdio.h>\n#include "lab.h"\nint main(void) { printf("%lu %lu\\n", LAB_IOC_AT_T0, LAB_IOC_SEED); }\n'
    )
    subprocess.run(["cc", "-I", str(ROOT / "kernel" / "drivers"), "-o", str(tmp_path / "calls"), str(source)], check=True)
    printed = subprocess.run([str(tmp_path / "calls")], capture_output=True, check=True).stdout.split()
    assert [int(word) for word in printed] == [site.LAB_IOC_AT_T0, site.LAB_IOC_SEED] == [0x40084C02, 0x40084C05]


def test_output_without_a_newline_is_kept_and_does_not_pile_up(in_lab):
    assert in_lab("print('the last words', end='')").lines == ["the last words"]
    lines = in_lab("print('x' * 3_000_000, end='')").lines
    assert "".join(lines) == "x" * 3_000_000 and max(map(len, lines)) < 2_000_000


def test_calls_in_a_row_take_the_time_of_single_ones(in_lab):
    """The first call that fails takes a microsecond and ends the row; fork() is not allowed in one."""
    program = """
import ctypes, fcntl, struct, time
until = ctypes.create_string_buffer(struct.pack("<qq", 3, 0))
at = ctypes.addressof(until)
lab = open("/dev/lab", "wb", buffering=0)
def run(*numbers):
    row = ctypes.create_string_buffer(b"".join(struct.pack("<8q", number, 1, 1, at, 0, 0, 0, 99) for number in numbers))
    ran = fcntl.ioctl(lab, 0xC0104C06, bytearray(struct.pack("<QII", ctypes.addressof(row), len(numbers), 0)), True)
    return ran, [struct.unpack_from("<q", row, 64 * i + 56)[0] for i in range(len(numbers))]
SLEEP, EPOLL_WAIT, FORK = 230, 232, 57
print(run(SLEEP, SLEEP, EPOLL_WAIT, SLEEP, SLEEP), time.monotonic_ns() >= 3 * 10**9)
before = time.monotonic_ns()
run(SLEEP, EPOLL_WAIT)
print(1000 <= time.monotonic_ns() - before < 2000)
print(run(FORK), run())
try: fcntl.ioctl(lab, 0xC0104C06, struct.pack("<QII", at, 1025, 0))
except OSError as error: print(error.strerror)
"""
    assert in_lab(program).lines == ["(3, [0, 0, -22, 99, 99]) True", "True", "(1, [-38]) (0, [])", "Argument list too long"]


def test_calls_in_a_row_hand_on_descriptors_and_end_at_a_failure_or_a_part(in_lab):
    program = """
import ctypes, fcntl, socket, struct
lab = open("/dev/lab", "wb", buffering=0)
SOCKET, BIND, CLOSE, RECVFROM, SENDTO, CONNECT = 41, 49, 3, 45, 44, 42
kept = []
def place(data):
    kept.append(ctypes.create_string_buffer(data, len(data)))
    return ctypes.addressof(kept[-1])
def row(*calls):
    packed = b"".join(
        struct.pack(
            "<IHH6Qq", number, opened, whole, *((value & (1 << 64) - 1) for value in (*values, *[0] * (6 - len(values)))), 99
        )
        for number, opened, whole, *values in calls
    )
    at = ctypes.create_string_buffer(packed, len(packed))
    try: ran = fcntl.ioctl(lab, 0xC0104C06, bytearray(struct.pack("<QII", ctypes.addressof(at), len(calls), 0)), True)
    except OSError as error: return error.strerror
    results = [struct.unpack_from("<q", at, 64 * i + 56)[0] for i in range(len(calls))]
    return ran, results
def address(ip, port): return place(struct.pack("<H", 2) + struct.pack(">H", port) + socket.inet_aton(ip) + bytes(8)), 16
opener = (SOCKET, 0, 0, 2, 1 | 0x800)
here = address("0.0.0.0", 4000)
ran, (fd, *others) = row(opener, (BIND, 1, 0, 0, *here), (CLOSE, 1, 0))
print(ran, fd > 2, others, row((CLOSE, 0, 0, fd)))
ran, (fd, *others) = row(opener, (BIND, 1, 0, 0, here[0], 3), (CLOSE, 1, 0))
print(ran, others, row((CLOSE, 0, 0, fd)))
print(row((BIND, 1, 0, 0, *here), opener), row((CLOSE, 7, 0)), row((CLOSE, 0, 65535)))
one, other = socket.socketpair()
other.send(b"abc")
read = lambda want: (RECVFROM, 0, 3, one.fileno(), place(bytes(9)), want, 2)
print(row(read(4), (CLOSE, 0, 0, -1)), row(read(3), (CLOSE, 0, 0, -1)))
print(row((CLOSE, 0, 0, lab.fileno()), (CLOSE, 0, 0, lab.fileno())))
"""
    assert in_lab(program).lines == [
        "3 True [0, 0] (1, [-9])",
        "2 [-22, 99] (1, [0])",
        "(1, [-9, 99]) (1, [-22]) (1, [-22])",
        "(1, [3, 99]) (2, [3, -9])",
        "(2, [0, -9])",
    ]


def test_no_bytes_in_a_row_of_calls_harm_the_lab(in_lab):
    """Rows of random calls, arguments and places. A descriptor that is closed may be the lab's own."""
    program = """
import ctypes, fcntl, os, random, signal, struct
draw = random.Random(1)
numbers = (288, 49, 228, 230, 3, 42, 233, 232, 55, 209, 45, 40, 44, 308, 54, 48, 41, 286, 57, 59, 16)
def value(memory):
    return draw.choice((draw.randrange(12), ctypes.addressof(memory) + draw.randrange(64), draw.getrandbits(64), 0, 2**64 - 1))
for child in range(300):
    if os.fork():
        os.wait()
        continue
    signal.alarm(1)
    lab = os.open("/dev/lab", os.O_RDWR)
    memory = ctypes.create_string_buffer(draw.randbytes(1 << 12))
    draw.seed(child)
    rows = b"".join(
        struct.pack("<IHH6Qq", draw.choice(numbers), draw.choice((0, 0, 1, 3, 9)), draw.choice((0, 0, 3, 4, 65535)),
                    *(value(memory) for _ in range(6)), 0)
        for _ in range(20)
    )
    at = ctypes.create_string_buffer(rows, len(rows))
    for first in range(20):
        if draw.random() < 0.05: length = draw.getrandbits(32)
        else: length = 20 - first
        try: fcntl.ioctl(lab, 0xC0104C06, bytearray(struct.pack("<QII", ctypes.addressof(at) + 64 * first, length, 0)), True)
        except OSError: pass
    os._exit(0)
print("whole")
"""
    assert in_lab(program).lines[-1] == "whole"


def test_t0_in_the_past_is_refused(in_lab):
    program = """
import fcntl, struct, time
time.sleep(2)
with open("/dev/lab", "wb", buffering=0) as lab:
    try: fcntl.ioctl(lab, 0x40084C02, struct.pack("<Q", 10**9))
    except OSError as error: print(error.strerror)
"""
    assert in_lab(program).text == "Timer expired"


def test_step_stops_the_lab_and_its_clock(lab_config):
    """At each step the lab stops; the lab's call returns the host's answer, and memory is shared both ways."""
    program = """
import fcntl, mmap, os, struct, time
lab = os.open("/dev/lab", os.O_RDWR)
region = mmap.mmap(lab, 1 << 20)
for step in range(1, 6):
    time.sleep(0.001)
    region[:8] = struct.pack("<Q", step * 10)
    before = time.monotonic_ns()
    code = fcntl.ioctl(lab, 0x40084C01, bytearray(struct.pack("<Q", step)), True)
    after = time.monotonic_ns()
    print(code, after - before, struct.unpack_from("<Q", region, 8)[0])
"""
    lines, steps = [], []

    def on_step(step, virtual_ns):
        value = int.from_bytes(lab.channel.region[:8], "little")
        steps.append((step, value))
        lab.channel.region[8:16] = (value + 1).to_bytes(8, "little")
        time.sleep(0.02)  # wall time that costs no virtual time
        assert lab.state().virtual_ns == virtual_ns
        return step * 2

    with Lab(lab_config([sys.executable, "-c", program]), lines.append, on_step) as lab:
        assert lab.wait().status == 0
    assert steps == [(step, step * 10) for step in range(1, 6)]
    assert lines == [f"{step * 2} 25 {step * 10 + 1}" for step in range(1, 6)]


def test_busy_loop_is_a_hang_with_the_program_named(lab_config):
    config = lab_config(sh("while :; do :; done"), watchdog_s=1.0)
    with pytest.raises(LabError, match=r"hangs: .* stood still for 1 s of CPU time .* \(sh\) ran"), Lab(config) as lab:
        lab.wait()


def test_a_lab_that_waits_for_the_machine_does_not_hang(lab_config, monkeypatch):
    """One that is stopped gets no CPU time, as one of many on a busy machine gets little."""
    monkeypatch.setattr("dc_gym.kernel.lab.STANDSTILL_WALL", 1000)
    busy = sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done")
    with Lab(lab_config(busy, watchdog_s=1.0), (lines := []).append) as lab:
        os.kill(lab.pid, signal.SIGSTOP)
        threading.Timer(3.0, os.kill, (lab.pid, signal.SIGCONT)).start()
        assert lab.wait().status == 0
    assert lines == ["done"]


def test_a_lab_that_may_not_have_a_process_names_the_limit(lab_config, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    config = lab_config(sh("true"))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(MachineError, match="no further process or thread can be started"), Lab(config):
        pytest.fail("booted")


def test_time_in_which_the_watchdog_itself_was_stopped_does_not_count():
    watched = _Standstill(virtual_ns=5, since_s=100.0)
    seconds = [100.0 + tenth / 10 for tenth in range(50)]
    assert not any(watched.too_long(os.getpid(), now_s, 1000) for now_s in seconds)
    assert not watched.too_long(os.getpid(), 100_000, 1000), "stopped with its lab, and both go on"
    assert watched.too_long(os.getpid(), 100_001, 1000) == ""
    later = [100_000.0 + second for second in range(1, 10_000)]
    assert any("of wall time" in watched.too_long(os.getpid(), now_s, 1000) for now_s in later), "it hangs in the end"


def test_a_process_is_lost_when_the_lab_that_waits_for_it_sleeps_on():
    program = "import os, sys, time; os.fork() or os._exit(0); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        process.stdout.read(1)

        def lost(state):
            while (was := ProcessStat.of(process.pid).state) != state or not all(
                stat.state == "Z" for stat in children(process.pid).values()
            ):
                assert was in "RST"
                time.sleep(0.01)
            watched = _Standstill(virtual_ns=0, since_s=0.0)
            for now_s in (1.0, 2.0):
                watched.too_long(process.pid, now_s, 5.0)
            return len(watched.lost)

        os.kill(process.pid, signal.SIGSTOP)
        assert lost("T") == 0, "it may notice when it goes on"
        os.kill(process.pid, signal.SIGCONT)
        assert lost("S") == 1
        process.kill()


def test_time_that_an_answer_takes_does_not_count(lab_config, monkeypatch):
    monkeypatch.setattr("dc_gym.kernel.lab.STANDSTILL_WALL", 1)
    times_ns = []

    def on_step(step, virtual_ns):
        times_ns.append(virtual_ns)
        time.sleep(1.5 * (step == 1))
        return 0

    program = """
import fcntl, os, struct
lab = os.open("/dev/lab", os.O_RDWR)
for step in range(2):
    fcntl.ioctl(lab, 0x40084C01, bytearray(struct.pack("<Q", step)), True)
"""
    with Lab(lab_config([sys.executable, "-c", program], watchdog_s=1.0), on_step=on_step) as lab:
        assert lab.wait().status == 0
    assert times_ns[0] == times_ns[1], "virtual time stands still from before the second question"


def test_a_lab_that_stands_still_without_computing_hangs_in_the_end(lab_config, monkeypatch):
    monkeypatch.setattr("dc_gym.kernel.lab.STANDSTILL_WALL", 1)
    message = r"stood still for 1 s of wall time"

    def stop(line):
        os.kill(lab.pid, signal.SIGSTOP)
        for pid in children_of(lab.pid):  # a program computes on while its kernel is stopped
            os.kill(pid, signal.SIGSTOP)

    program = sh("echo up; while :; do :; done")  # a lab that boots has processes that end, of which it would not hear
    with pytest.raises(LabError, match=message), Lab(lab_config(program, watchdog_s=1.0), stop) as lab:
        lab.wait()


def test_waiting_without_a_deadline_is_sleeping_forever(lab_config):
    config = lab_config([sys.executable, "-c", "import select; select.select([], [], [])"], virtual_limit_ns=10**12)
    with pytest.raises(LabError, match="sleeps forever"), Lab(config) as lab:
        lab.wait()


def test_out_of_memory_says_how_much_there_was(lab_config):
    program = "x = [bytearray(10 << 20) for _ in range(100)]"
    config = lab_config([sys.executable, "-c", program], memory_bytes=128 << 20)
    with pytest.raises(LabError, match=r"128 MiB.*lab\.memory"), Lab(config) as lab:
        lab.wait()


def test_a_program_with_too_many_memory_maps_is_told_how_to_get_more(lab_config):
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    if limit > 300_000:
        pytest.skip(f"vm.max_map_count is {limit}: that takes more memory than a test should")
    pages = 2 * (limit + 1000)  # every second one is touched: none lies beside another
    program = f"import mmap; m = mmap.mmap(-1, {pages} * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
    program += f"for page in range(0, {pages}, 2): m[page * 4096] = 1"
    config = lab_config([sys.executable, "-c", program], watchdog_s=6.0, memory_bytes=512 * 1024 * 1024 + limit * 4096)
    message = r"\(python[0-9.]*\) in the lab needs more memory maps .* sysctl -w vm.max_map_count="
    with pytest.raises(LabError, match=message), Lab(config) as lab:
        lab.wait()


def test_panic_carries_the_reason(lab_config):
    config = lab_config(sh("true"), kernel_args=["rootfstype=none"])
    with pytest.raises(LabError, match=r"lab kernel panicked: Requested init .* failed"), Lab(config) as lab:
        lab.wait()


def test_a_death_comes_with_the_last_lines(lab_config):
    config = lab_config(sh("echo the last words; while :; do :; done"), watchdog_s=1.0)
    with pytest.raises(LabError, match=r"hangs.*\n  lab: the last words$"), Lab(config) as lab:
        lab.wait()


def test_a_killed_lab_is_told_from_one_that_ended(lab_config):
    with pytest.raises(LabError, match="killed by signal 9"), Lab(lab_config(sh("sleep 5; while :; do :; done"))) as lab:
        os.kill(lab.pid, signal.SIGKILL)
        lab.wait()


def test_a_lab_that_loses_one_of_its_processes_is_dead(lab_config):
    """The program that is killed from outside has no part in how the lab ends, so nothing else would tell."""
    program = "sleep 3600 & i=0; echo up; while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 1; exit 0"
    killed = []

    def on_log(line):
        if line == "up":
            idle = [pid for pid in children_of(lab.pid)[1:] if status_of(pid) == "S"]
            os.kill(idle[-1], signal.SIGKILL)
            killed.append(idle[-1])

    with (
        Lab(lab_config(sh(program)), on_log) as lab,
        pytest.raises(LabError, match="a process of the lab was killed from outside"),
    ):
        lab.wait()
    assert killed


def status_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def children_of(pid):
    pids = [pid]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == pid and stat[0] != "Z":
                pids += children_of(int(entry.name))
    return pids


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("loop", ["while :; do :; done", "sleep 1000000"], ids=["busy", "asleep"])
def test_lab_dies_with_its_parent(lab_config, loop):
    """kill -9 of the process that started the lab ends the lab and all its processes, whatever it is doing."""
    config = lab_config(sh(f"echo begins; {loop}"))
    program = (
        "import sys; from pathlib import Path; from dc_gym.kernel.lab import *\n"
        f"c = LabConfig(Path({str(config.kernel)!r}), Path({str(config.programs)!r}), Path({str(config.run_dir)!r}),"
        f" {list(config.argv)!r}, {dict(config.env)!r}, watchdog_s=1000.0)\n"
        "with Lab(c, lambda line: print(line, flush=True)) as lab:\n    print(lab.pid, flush=True)\n    lab.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    lab_pid = int(parent.stdout.readline())
    assert parent.stdout.readline() == "begins\n"
    family = children_of(lab_pid)
    assert len(family) > 1
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while not all(gone(pid) for pid in family):
        assert time.monotonic() < deadline, "the lab outlived its parent"
        time.sleep(0.02)


@pytest.mark.parametrize("path", ["/dev/shm/x", "/proc/x", "/run/x"])
def test_run_folder_must_not_be_hidden(lab_config, path, monkeypatch):
    config = lab_config(sh("true"))
    object.__setattr__(config, "run_dir", Path(path))
    with pytest.raises(UsageError, match="a run's folder may not be below"), Lab(config):
        pass


@pytest.mark.parametrize("name", ["My Docs, old", 'it\'s "his"', "C:\\Users", "#1 $HOME"])
def test_folders_may_have_any_name(lab_config, tmp_path, name):
    """Those of the run, of the kernel and of the programs, which the lab reaches from its command line."""
    folder = tmp_path / name
    for directory in (folder, programs := folder / "dc_gym" / "bin", folder / "run"):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
    (folder / "dc_gym").chmod(0o755)
    config = lab_config(sh(f"echo yes > {shlex.quote(str(folder))}/run/inside"), run_dir=folder / "run")
    for program in ("lab-init", "lab-launch"):
        shutil.copy(config.programs / program, programs)
    config = replace(config, programs=programs, kernel=shutil.copy(config.kernel, folder / "linux"))
    with Lab(config) as lab:
        assert lab.wait().status == 0
    assert (folder / "run/inside").read_text() == "yes\n"


@pytest.mark.parametrize("path", ["/run/user/1000/dcgym", "/dev/shm/dcgym"])
def test_a_checkout_that_a_lab_cannot_see_is_named_before_anything_boots(path):
    with pytest.raises(UsageError, match=r"the checkout may .*: move it"):
        check_place(Path(path), "the checkout", "move it, and run `make setup` there again")


def test_layout_of_messages_is_that_of_the_header(tmp_path):
    """Sizes and offsets printed by C from kernel/drivers/lab.h are those that the host unpacks."""
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include <stdio.h>\n#include "lab.h"\n'
        'int main(void) { printf("%zu %zu %zu %zu %zu %zu %zu %d %d\\n", sizeof(struct lab_msg), sizeof(struct lab_hello),'
        " sizeof(struct lab_step), sizeof(struct lab_step_reply), sizeof(struct lab_seed), sizeof(struct lab_bye),"
        " sizeof(struct lab_page), LAB_MSG_MAX, LAB_PROTOCOL_VERSION); return 0; }\n"
    )
    subprocess.run(["cc", "-I", str(ROOT / "kernel" / "drivers"), "-o", str(tmp_path / "sizes"), str(source)], check=True)
    printed = [int(word) for word in subprocess.run([str(tmp_path / "sizes")], capture_output=True, check=True).stdout.split()]
    structs = (channel.HEADER, channel.HELLO, channel.STEP, channel.STEP_REPLY, channel.SEED, channel.BYE, channel.PAGE)
    assert printed == [*(struct.size for struct in structs), MESSAGE_MAX_BYTES, channel.PROTOCOL_VERSION]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "shorter than its header"),
        (b"\1\0\0", "shorter than its header"),
        (HEADER.pack(2, 5) + b"four", "claims 5 bytes and carries 4"),
        (HEADER.pack(2, MESSAGE_MAX_BYTES + 1) + bytes(MESSAGE_MAX_BYTES + 1), "claims"),
        (HEADER.pack(99, 0), "unknown message type 99"),
        (HEADER.pack(MessageType.STEP, 3) + b"abc", "STEP carries 3 bytes, not 16"),
    ],
)
def test_bad_messages_are_refused(data, words):
    with pytest.raises(ProtocolError, match=words):
        parse(data)


def test_random_messages_are_parsed_or_refused():
    import random

    draw = random.Random(1)
    for _ in range(20_000):
        data = draw.randbytes(draw.randrange(64))
        if draw.random() < 0.7:
            payload = draw.randbytes(draw.randrange(48))
            data = HEADER.pack(draw.randrange(8), len(payload) if draw.random() < 0.9 else draw.randrange(100)) + payload
        try:
            message = parse(data)
        except ProtocolError:
            continue
        assert HEADER.pack(message.type, len(message.payload)) + message.payload == data


@pytest.mark.parametrize("hello", [(4096, 1 << 40, 0, 4096), (4096, 0, 4096, 1 << 40), (0, 0, 0, 4096), (4096, 1, 0, 4096)])
def test_hello_that_points_outside_the_memory_is_refused(tmp_path, hello):
    memory = tmp_path / "memory"
    memory.write_bytes(bytes(1 << 16))
    host_end, lab_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    payload = HELLO.pack(channel.PROTOCOL_VERSION, *hello)
    with memory.open("rb+") as file, lab_end, channel.Channel(host_end) as link:
        socket.send_fds(lab_end, [HEADER.pack(MessageType.HELLO, len(payload)) + payload], [file.fileno()])
        with pytest.raises(ProtocolError, match="HELLO names"):
            link.receive()
