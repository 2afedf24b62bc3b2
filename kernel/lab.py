# SPDX-License-Identifier: Apache-2.0
"""A lab: one lab kernel as a process, from boot to its last message.

The host's root directory is the lab's root directory, read-only. The lab can write only to the folders that it is given
(docs/security.md). Everything on which the lab may depend is an argument here: memory, seed, cost of a clock read, environment.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from dc_gym.base import process_room
from dc_gym.base.errors import USED_UP, LabError, MachineError, ProtocolError, UsageError, naming, with_remedy
from dc_gym.base.files import scratch
from dc_gym.base.pinned import open_folder
from dc_gym.base.process_bound import this_process, unshared
from dc_gym.base.processes import ProcessStat, children
from dc_gym.kernel import limits, objects, stack
from dc_gym.kernel.cache import cache_dir
from dc_gym.kernel.channel import BYE, SEED, STEP, Channel, LabState, Message, MessageType, parse
from dc_gym.kernel.cpu import claimed_cpu
from dc_gym.kernel.memory import memory_folder, oom_kills
from dc_gym.kernel.mounts import LabFolders, behind
from dc_gym.kernel.share import RegionServer
from dc_gym.kernel.user import lab_user, let_lab_read

EPOCH_NS = 1_577_836_800_000_000_000  # the lab's wall clock at boot: 2020-01-01 00:00 UTC
LAST_LINES = 15
LOG_LINE_CHARS = 1 << 20  # more without a newline are shown as lines of their own
STANDSTILL_WALL = 10
TRACED = "t"  # the state of a process that a debugger has stopped
ASLEEP = "S"  # that of one that waits; one that is stopped, or waits for a CPU, may yet notice what has happened
UNWATCHED_S = 2.0  # the watchdog asks more often, unless its process was stopped
_TRACE = re.compile(r"\[<[0-9a-f]{8,}>\]")  # a line of a kernel call trace; the full trace is in lab.log
_POWER_DOWN = re.compile(r"(\[ *\d+\.\d+\] )?reboot: Power down$")  # the kernel's last words in every lab
LOST_PROCESS = "Unexpectedly lost MM child"
"""Beginning of the lab kernel's message that a process of the host, in which one of its own programs runs, has been killed."""
REFUSED = "the host refused the lab a file descriptor"
"""Part of the lab kernel's message that the machine's limit of open files has kept something from its programs."""
NATIVE, OBJECT = "lab_native", "lab_object"  # kernel parameters; the kernel's messages on these files begin with them
ACKS = "acks.bin"
"""The file of the records of ACKs (drivers/lab_acks.c), in the first folder that the lab writes to."""
_OBJECT_AT = re.compile(rf"\] {OBJECT}: at ([0-9a-f]+)$")  # object/died.c
HIDDEN = ("/dev", "/proc", "/run", "/sys")  # the lab has its own of these


@dataclass(frozen=True, slots=True)
class LabConfig:
    kernel: Path
    """Path of the lab kernel's binary."""
    programs: Path
    """Folder with lab-init and lab-launch."""
    run_dir: Path
    """The run's folder. An absolute path."""
    argv: Sequence[str]
    """The program that runs in the lab, as the lab's root. Its exit status becomes the lab's."""
    env: Mapping[str, str]
    seed: int = 1
    memory_bytes: int = 512 << 20
    clock_read_ns: int = 25
    """Virtual time, in ns, that a process pays for a clock read."""
    event_loop: bool = True
    """False: each event of a link is a timer interrupt."""
    watchdog_s: float = 60.0
    """CPU time, in s, that the lab may use without progress of virtual time. It counts as hung after that, or after
    STANDSTILL_WALL times as much wall time."""
    virtual_limit_ns: int = 1 << 62
    """Virtual time, in ns, at which a lab that is still alive counts as asleep for ever."""
    native: Sequence[Path] = ()
    """Native objects (drivers/nic_native.h) that the kernel reads at boot."""
    object: Path | None = None
    """TCPs of one's own (objects.py), which the kernel reads at boot."""
    acks: int = 0
    """The most records of ACKs that the kernel writes to the file ACKS; 0: no file, and programs can ask for none."""
    kernel_args: Sequence[str] = ()
    writable: Sequence[Path] = ()
    """The folders of the host that the lab may write to. They exist. None: all of run_dir, as for programs that are trusted."""
    reads: Sequence[Path] = ()
    """Further folders that its programs read. A lab of root's has to be let into folders that are closed to others."""


@dataclass(frozen=True, slots=True)
class LabExit:
    status: int
    """Exit status of the lab's program, or 128 + signal if a signal killed it."""
    virtual_ns: int


@dataclass(slots=True)
class _Standstill:
    """The time for which virtual time has had one value. CPU time counts, since a lab on a busy machine waits for its turn.

    Wall time while nobody looked does not count: this process was stopped then, as by Ctrl-Z, and its lab may have waited for it.
    """

    virtual_ns: int
    since_s: float
    """Wall clock, in s."""
    used_s: float | None = None
    """CPU time, in s, that the lab had used at the first look."""
    looked_s: float = 0.0
    seen_s: float | None = None
    """Wall clock, in s, of the last question."""
    dead: frozenset[int] = frozenset()
    """The lab's processes that had ended at the last look, and for which it had not waited though it was asleep."""
    lost: frozenset[int] = frozenset()
    """Processes that had ended at the last two looks: the lab has not noticed their end, and may wait for them."""

    def too_long(self, lab_pid: int, now_s: float, watchdog_s: float) -> str:
        """Returns how long it lasts if that is too long, or ''."""
        pause_s = watchdog_s / 10
        if self.seen_s is not None and now_s - self.seen_s > UNWATCHED_S:
            self.since_s += now_s - self.seen_s
        self.seen_s = now_s
        if (lab := ProcessStat.of(lab_pid)) is not None and lab.state == TRACED:
            self.since_s, self.dead, self.lost = now_s, frozenset(), frozenset()
            return ""
        if now_s < max(self.since_s, self.looked_s) + pause_s:
            return ""
        below = children(lab_pid)
        self.looked_s, used_s = now_s, _cpu_s(lab_pid, below)
        is_asleep = lab is not None and lab.state == ASLEEP
        dead = frozenset(pid for pid, stat in below.items() if is_asleep and stat.state == "Z")
        self.dead, self.lost = dead, self.dead & dead
        if self.used_s is None:
            self.used_s = used_s
        if used_s - self.used_s > watchdog_s - pause_s:
            return f"{watchdog_s:g} s of CPU time"
        if now_s - self.since_s > STANDSTILL_WALL * watchdog_s:
            return f"{STANDSTILL_WALL * watchdog_s:g} s of wall time"
        return ""


class Lab:
    """A context manager that boots a lab on entry and kills and cleans it up on exit.

    `wait()` runs the lab to its end. `on_log` gets each line that the lab's kernel or programs print.
    `on_step(step, virtual_ns) -> code` answers programs that ask through the channel.
    Alternatively the caller answers: `until_step()` runs the lab up to the next request, and `answer()` resumes it.
    """

    def __init__(
        self,
        config: LabConfig,
        on_log: Callable[[str], None] = lambda line: None,
        on_step: Callable[[int, int], int] = lambda step, virtual_ns: 0,
    ) -> None:
        self.config = config
        self.reseeded_ns: int | None = None  # virtual time at which the lab's driver reseeded for t0
        self.programs: dict[int, str] = {}
        """The caller's words for programs that run in the lab, by process id, for the report of a hang."""
        self.shortage = ""
        """The reason why the lab's behaviour depends on a limit of this machine. Empty: it does not."""
        self.peak_bytes = 0  # most memory that the lab has touched so far, measured every poll_s of wait()
        self._measure_at = 0.0  # the next time
        self._on_log = on_log
        self._on_step = on_step
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._partial = ""
        self._death: str | None = None
        self._places: list[int] = []  # addresses in the object of its config, the innermost first, where it died or hangs
        self._bye: LabExit | None = None
        self._stack, self._owner = ExitStack(), this_process()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._asked: tuple[int, int] | None = None  # the request that has not been answered yet, unless the channel is lent
        self._keeps_questions = False
        self._borrower: tuple[Callable[[], tuple[int, int]], Callable[[], None]] | None = None
        self._attended = -1
        self._poll, self._channel_fd = select.poll(), -1
        self._standstill = _Standstill(-1, 0.0)
        self._oom_kills = oom_kills()
        self.cpu: int
        """The CPU on which the lab runs."""
        self._share: RegionServer
        self._folders: LabFolders
        self._errors: IO[bytes]

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def fileno(self) -> int:
        """Returns a descriptor that is readable when the lab asks or has ended, for select()."""
        return self._channel_fd

    @property
    def channel(self) -> Channel:
        assert self._channel is not None
        return self._channel

    @property
    def region(self) -> mmap.mmap:
        """Returns the memory of the state matrix."""
        assert self.channel.region is not None
        return self.channel.region

    def state(self) -> LabState:
        return self.channel.state()

    def wait(self, on_progress: Callable[[LabState], None] = lambda state: None, poll_s: float = 0.1) -> LabExit:
        """Serves the channel until the lab ends. Raises LabError when the lab dies or virtual time stands still."""
        self._keeps_questions = False
        self._standstill = _Standstill(-1, time.monotonic())
        while self._serve(poll_s):
            self._look(on_progress, poll_s)
        return self._end()

    def _look(self, on_progress: Callable[[LabState], None], poll_s: float) -> None:
        """Measures the lab's memory every `poll_s`, and raises LabError if it hangs."""
        state, now = self.state(), time.monotonic()
        if now >= self._measure_at:
            self.peak_bytes, self._measure_at = max(self.peak_bytes, _peak_bytes(self.pid)), now + poll_s
        self._check_alive(state, now)
        on_progress(state)

    def until_step(self, poll_s: float = 0.1, on_progress: Callable[[LabState], None] | None = None) -> tuple[int, int]:
        """Serves the channel until a program in the lab asks, and returns the number of the step and the virtual time.

        The lab is paused at that point. Raises LabError if the lab ends, dies or hangs instead. With `on_progress` the lab is
        looked after as by `wait`.
        """
        self._keeps_questions, self._borrower = True, None
        self._standstill = _Standstill(-1, time.monotonic())
        while (question := self._question()) is None:
            if not self._serve(poll_s):
                ended = self._end()
                raise LabError(self._story(f"the lab ended with status {ended.status} where a step was expected"))
            if self._question() is not None:
                continue
            if on_progress is None:
                self._check_alive(self.state(), time.monotonic())
            else:
                self._look(on_progress, poll_s)
        return question

    def _question(self) -> tuple[int, int] | None:
        return self._asked

    @property
    def question(self) -> tuple[int, int]:
        """The number of the step in which the lab is paused, and the virtual time."""
        question = self._asked if self._borrower is None else self._borrower[0]()
        assert question is not None, "there is no question"
        return question

    def answer(self, code: int) -> None:
        """Resumes a lab that is paused in a step. The lab's call returns `code`."""
        (step, _), self._asked, self._borrower = self.question, None, None
        with suppress(BrokenPipeError):  # the lab has died; the next wait for a request reports it
            self.channel.reply_step(step, code)

    def lend(self, question: Callable[[], tuple[int, int]], ended: Callable[[], None], patience_s: float) -> None:
        """Leaves the channel to a caller that answers and receives itself, until the next `answer` or `until_step` here.

        Args:
            question: returns the lab's present question.
            ended: is called when the lab is closed.
            patience_s: how long the caller's receiving waits; then it calls `attend`.
        """
        seconds, rest = divmod(patience_s, 1)
        timeout = struct.pack("@ll", int(seconds), int(rest * 1e6))
        self.channel.set_option(socket.SO_RCVTIMEO, timeout)
        self._asked, self._borrower = None, (question, ended)

    def hear(self, data: bytes) -> bool:
        """Takes a message that the borrower received. Returns True for a question, with which the channel is the lab's again."""
        message = parse(data)
        if message.type is MessageType.HELLO:
            raise ProtocolError(f"lab channel: {message.type.name} came while the lab runs")
        self._take(message)
        return self._asked is not None

    def attend(self, step: int) -> None:
        """Serves readers, and raises LabError if a lab that was resumed in `step` hangs."""
        now = time.monotonic()
        if step != self._attended:
            self._attended, self._standstill = step, _Standstill(-1, now)
        self.serve_readers()
        self._check_alive(self.state(), now)

    def serve_readers(self) -> None:
        """Gives the region to readers that wait for it."""
        region = self.channel.region
        while region is not None and self._share.is_asked():
            self._share.serve_one(self.channel.memory_fd, self.channel.region_offset, len(region))

    def _serve(self, poll_s: float) -> bool:
        """Waits at most `poll_s` for messages and handles them. Returns False at the end of the channel."""
        channel = self.channel
        for ready, _ in self._poll.poll(poll_s * 1000):
            if ready == self._channel_fd:
                if not self._serve_one():
                    return False
            elif channel.region is not None:
                self._share.serve_one(channel.memory_fd, channel.region_offset, len(channel.region))
        return True

    def _check_alive(self, state: LabState, now: float) -> None:
        """Raises LabError when virtual time stands still or has passed its limit."""
        if state.virtual_ns != self._standstill.virtual_ns:
            self._standstill = _Standstill(state.virtual_ns, now)
        elif lasts := self._standstill.too_long(self.pid, now, self.config.watchdog_s):
            self._places = stack.addresses(self.pid) if self.config.object is not None else []
            raise LabError(self._story(_mapped_out(self.pid, state) or _hang(state, lasts, self.programs)))
        if self._standstill.lost:
            raise LabError(self._story(_KILLED_PROCESS + self._who_kills()))
        if state.virtual_ns > self.config.virtual_limit_ns:
            raise LabError(self._story(_SLEEPS))

    def end_computation(self) -> None:
        """Ends the program that computes now, by SIGFPE. Does nothing while no program computes.

        A program that never waits takes no virtual time, so no other program in the lab can send it a signal. The lab's kernel
        passes on the one that its process on the host gets.
        """
        for pid, stat in children(self.pid).items():
            if stat.state == "R":
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGFPE)

    def close(self) -> None:
        """Kills the lab if it still runs and frees all resources. May be called twice. Does nothing in a forked child."""
        if not self._owner.is_here():
            return
        if self._borrower is not None:
            (_, ended), self._borrower = self._borrower, None
            ended()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._stack.close()

    def _start(self) -> None:
        config = self.config
        _check_run_dir(config.run_dir)
        limits.check(config.memory_bytes)
        private = config.run_dir / ".lab"
        private.mkdir(exist_ok=True)
        self._share = self._stack.enter_context(RegionServer(private))
        uid, gid = lab_user()
        writable = tuple(config.writable) or (config.run_dir,)
        for folder in (*writable, private):
            let_lab_read(folder)
        self._folders = folders = LabFolders(self._stack)
        mounts = folders.mounts(writable, private, _needed(config))
        may_write = ",".join(map(str, folders.writable_fds))
        memory = self._memory_on_disk()
        if memory is not None:
            may_write += f",{folders.open(memory)}"
        with naming(private / "boot"):
            (private / "boot").write_bytes(boot_entries(config.argv, config.env, mounts))
        let_lab_read(private)
        if os.geteuid() == 0:
            for folder in (*writable, *([] if memory is None else [memory])):
                self._hand_over(folder, uid, gid)

        with unshared() as keep:
            host_end, lab_end = map(keep, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            lifeline, held = os.pipe()
            self._stack.enter_context(keep(io.FileIO(held, "w")))
        self._channel = self._stack.enter_context(Channel(host_end))
        self._channel_fd = host_end.fileno()
        self._poll.register(host_end, select.POLLIN)
        self.cpu = cpu = self._stack.enter_context(claimed_cpu())
        argv = [
            str(config.programs / "lab-launch"), str(os.getpid()), str(lifeline), str(uid), str(gid), str(cpu), may_write,
            str(config.kernel), *_kernel_args(config, folders, lab_end.fileno()), "--", folders.reach(private),
        ]  # fmt: skip
        self._errors = errors = self._stack.enter_context(os.fdopen(os.memfd_create("lab-errors"), "w+b"))
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(lab_end.fileno(), lifeline, *folders.fds),
                env={"PATH": "/usr/bin:/bin", "HOME": "/"} | ({} if memory is None else {"TMPDIR": str(memory)}),
                cwd="/",
            )
        except OSError as error:
            if process_room.is_refusal(error):
                raise MachineError(process_room.refused()) from error
            raise MachineError(f"the lab could not be started: {argv[0]}: {with_remedy(error)}") from error
        finally:
            lab_end.close()
            os.close(lifeline)

    def _hand_over(self, folder: Path, uid: int, gid: int) -> None:
        """Gives a folder of root's to the lab's user until the lab is closed."""
        fd = open_folder(folder)
        self._stack.callback(os.close, fd)
        owner = os.fstat(fd)

        def set_owner(uid: int, gid: int) -> None:
            with naming(folder):
                os.fchown(fd, uid, gid)

        set_owner(uid, gid)
        self._stack.callback(set_owner, owner.st_uid, owner.st_gid)

    def _memory_on_disk(self) -> Path | None:
        """Returns a folder for the file of the lab's memory, or None if the machine has room for it.

        The folder above it stays this process's, so the lab's user cannot put anything in its place.
        """
        parent = memory_folder(self.config.memory_bytes)
        if parent is None:
            return None
        folder = self._stack.enter_context(scratch(parent, "dcgym-memory-")) / "memory"
        folder.mkdir()
        return folder

    def _serve_one(self) -> bool:
        """Handles one message. Returns False at the end of the channel."""
        message = self.channel.receive()
        if message is not None:
            self._take(message)
        return message is not None

    def _take(self, message: Message) -> None:
        match message.type:
            case MessageType.STEP:
                step, virtual_ns = STEP.unpack(message.payload)
                if self._keeps_questions:
                    self._asked = (step, virtual_ns)
                    return
                self.channel.reply_step(step, self._on_step(step, virtual_ns))
                self._standstill = _Standstill(-1, time.monotonic())  # the caller may have taken a long time to answer
            case MessageType.LOG:
                self._log(message.text)
            case MessageType.SEED:
                self.reseeded_ns = SEED.unpack(message.payload)[1]
            case MessageType.DEATH:
                self._death = (self._death or "") + self._folders.named(message.text)
            case MessageType.BYE:
                status, _, virtual_ns = BYE.unpack(message.payload)
                self._bye = LabExit(status, virtual_ns)
            case MessageType.HELLO:  # earlier there was nothing to give, and a waiting watcher would keep waking poll()
                self._poll.register(self._share, select.POLLIN)

    def _log(self, text: str) -> None:
        *whole, self._partial = (self._partial + text).split("\n")
        if len(self._partial) > LOG_LINE_CHARS:
            whole.append(self._partial)
            self._partial = ""
        for line in whole:
            line, is_last = _POWER_DOWN.subn("", line.rstrip("\r"))
            if is_last and not line:
                continue
            if match := _OBJECT_AT.search(line):
                self._places.append(int(match[1], 16))
                continue
            self._lines.append(self._folders.named(line))
            self._on_log(line)
            if LOST_PROCESS in line and self._bye is None and self._death is None:
                raise LabError(self._story(_KILLED_PROCESS + self._who_kills()))
            if REFUSED in line:
                _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
                self.shortage = f"the lab needs more open files than this machine allows (ulimit -n is {most}); raise that"
                if self._keeps_questions:
                    raise LabError(self._story(self.shortage))

    def _end(self) -> LabExit:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            raise LabError(self._story("the lab closed its channel and went on running")) from None
        if self._partial:
            self._log("\n")
        if self._bye is not None:
            return self._bye
        if self._death is None and code == -signal.SIGKILL:
            raise LabError(self._story(f"the lab was killed by signal 9{self._who_kills()}"))
        raise LabError(self._story(_cause(self._death, code, self.config.memory_bytes)))

    def _who_kills(self) -> str:
        """Returns words on who killed the lab, or a process of it."""
        if self._oom_kills is not None and self._oom_kills == oom_kills():
            return ", and not by this machine for want of memory"
        return "; if nobody did it, the machine or its control group ran out of memory (dmesg says so)"

    def _story(self, event: str) -> str:
        state = self.state()
        plug_in = ""
        if (tcp := self.config.object) is not None:
            place = objects.place_of(tcp, self._places)
            plug_in = f", in {place}" if place else f", with {tcp.stem}.c in its kernel"
        where = f"{event} (at {state.virtual_ns / 1e9:.6f} s of virtual time{plug_in})"
        self._errors.seek(0)
        early = self._errors.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        lines = [line for line in (*early, *self._lines) if not _TRACE.search(line)][-LAST_LINES:]
        return "\n".join([where, *(f"  lab: {line}" for line in lines)])


def _peak_bytes(pid: int) -> int:
    """Returns the largest resident set of a process so far (proc(5), VmHWM), or 0 when the process has ended."""
    try:
        match = re.search(r"^VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) << 10 if match else 0


def _check_run_dir(path: Path) -> None:
    if not path.is_absolute():
        raise ValueError(f"run_dir {path} is not absolute")
    check_place(path, "a run's folder", "choose another")


def check_place(path: Path, role: str, remedy: str) -> None:
    """Raises UsageError for a path that a lab could not use: it has its own /run and the like, so it does not see the host's."""
    if any(path.is_relative_to(hidden) for hidden in HIDDEN):
        raise UsageError(f"{path}: {role} may not be below {', '.join(HIDDEN)}, where a lab has its own files: {remedy}")


def _needed(config: LabConfig) -> Iterator[Path]:
    """Yields the folders that the lab's programs read: this package, Python, the cache, and the caller's."""
    yield from (config.programs.parent.parent, config.programs.parent, config.programs)
    yield from (Path(sys.prefix), Path(sys.base_prefix), cache_dir(), *config.reads)


def boot_entries(argv: Sequence[str], env: Mapping[str, str], mounts: Sequence[str]) -> bytes:
    """Returns the entries that lab-init reads, each ended by a zero byte."""
    entries = [*mounts, *(f"env {name}={value}" for name, value in env.items()), *(f"arg {word}" for word in argv)]
    return b"".join(os.fsencode(entry) + b"\0" for entry in entries)


def _kernel_args(config: LabConfig, folders: LabFolders, channel_fd: int) -> list[str]:
    return [
        f"mem={config.memory_bytes}",
        "root=/dev/root", "rootfstype=hostfs", f"rootflags={folders.reach(config.programs)}", "ro", "init=/lab-init",
        "quiet", "console=lab", "con=null", "con0=null", "loglevel=3",
        "time-travel=inf-cpu", f"time-travel-start={EPOCH_NS}", f"time-travel-clock-read={config.clock_read_ns}",
        "seccomp=on", "norandmaps", "random.trust_bootloader=1",
        f"lab_channel={channel_fd}", f"lab_seed={config.seed}", f"lab_event_loop={config.event_loop:d}",
        f"uml_dir={behind(folders.writable_fds[0])}/", "umid=uml",
        *(f"{NATIVE}={folders.reach(path.parent)}/{path.name}" for path in config.native),
        *(f"{OBJECT}={folders.reach(path.parent)}/{path.name}" for path in (config.object,) if path is not None),
        *([f"lab_acks={config.acks},{behind(folders.writable_fds[0])}/{ACKS}"] if config.acks else []),
        *config.kernel_args,
    ]  # fmt: skip


_KILLED_PROCESS = "a process of the lab was killed from outside"
_SLEEPS = "the lab sleeps forever: its time has run past the end of the experiment, so a program in it waits without a deadline"


def _cpu_s(lab_pid: int, below: Mapping[int, ProcessStat]) -> float:
    """Returns the CPU time, in s, that the lab and its processes `below` have used."""
    lab = ProcessStat.of(lab_pid)
    own_s = lab.cpu_s + lab.ended_children_cpu_s if lab else 0.0
    return own_s + sum(stat.cpu_s for stat in below.values())


def _hang(state: LabState, lasts: str, programs: Mapping[int, str]) -> str:
    return (
        f"the lab hangs: virtual time has stood still for {lasts} while {named_program(state, programs)} ran; a program"
        " that polls without blocking stops virtual time: let it wait in sleep, poll or read (docs/limitations.md)"
    )


def named_program(state: LabState, programs: Mapping[int, str]) -> str:
    """Returns words for the process that runs: the caller's words, or all of those if it is none of these programs itself."""
    process = f"process {state.pid} ({state.comm})"
    if state.pid in programs:
        return f"{programs[state.pid]}, {process},"
    return f"{process}, perhaps of {', or '.join(programs.values())}," if programs else process


def _mapped_out(lab_pid: int, state: LabState) -> str:
    """Returns an explanation if a process of the lab has as many memory maps as the host allows, otherwise ''.

    A lab's process has one memory map for each run of adjacent pages of the lab's memory. If a page cannot be mapped, the process
    asks for it again for ever.
    """
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    for child in children(lab_pid):
        try:
            full = Path(f"/proc/{child}/maps").read_bytes().count(b"\n") >= limit
        except OSError:  # the process has ended or belongs to another user
            continue
        if full:
            return (
                f"process {state.pid} ({state.comm}) in the lab needs more memory maps than this machine allows"
                f" (vm.max_map_count = {limit}): as root, sysctl -w vm.max_map_count={max(1 << 20, 4 * limit)}"
            )
    return ""


def _cause(death: str | None, code: int, memory_bytes: int) -> str:
    if death is not None and "ut of memory" in death:
        return f"the lab ran out of its {memory_bytes >> 20} MiB of memory: raise lab.memory ({death.strip()})"
    if death is not None and "sleep forever" in death:
        return _SLEEPS
    for parameter in (NATIVE, OBJECT):
        if death is not None and f"{parameter}: " in death:
            return f"the lab did not boot: {death[death.index(parameter) :].strip()}"
    if death is not None:
        return f"the lab kernel panicked: {death.strip()}"
    if code == -signal.SIGBUS:
        return "the lab was killed by SIGBUS: no room is left for its memory; run fewer labs at a time, or give TMPDIR more room"
    if code == -signal.SIGXFSZ:
        return f"the lab was killed by SIGXFSZ: one of its files met a limit: {USED_UP[errno.EFBIG]}"
    if code < 0:
        return f"the lab was killed by signal {-code}"
    return f"the lab ended with status {code} before it said good-bye"
