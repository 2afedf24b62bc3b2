# SPDX-License-Identifier: Apache-2.0
"""Runs one script: makes its system calls, plays the peer on tun0, and compares the kernel's packets with the script.

The semantics follow google/packetdrill's local mode. A relative time counts from now, but between two inbound packets from
the time of the first. An event's timing error may be up to the tolerance, or an eighth of the time since the previous event,
whichever is more (timers of the kernel's wheel are that coarse). In a lab computing takes no time, so every timing error is the
kernel's.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import subprocess
import textwrap
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dc_gym.cli.conformance.calls import CALLS, NEW_DESCRIPTORS, Mismatch, ScriptState, Unsupported
from dc_gym.cli.conformance.connection import PORT, Connection, State
from dc_gym.cli.conformance.packets import Segment, encode, encode_icmp, icmp_numbers
from dc_gym.cli.conformance.script import Anything, Code, Command, Event, Icmp, Script, Syscall, Tcp
from dc_gym.cli.conformance.symbols import SYMBOLS, TcpInfo, code_symbols
from dc_gym.cli.conformance.tun import Family, Tun

__all__ = ["DEFAULT_TCP", "Failure", "Interpreter", "unsupported"]

KNOWN_OPTIONS = (
    *("ip_version", "mss", "mtu", "tolerance_usecs", "tcp_ts_tick_usecs", "send_omit_free"),
    *("local_ip", "remote_ip", "strict_segments", "tcp_ts_ecr_scaled"),
)
DEFAULT_TCP, CHOSEN = "cubic", Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""Linux' default, which the kernel's scripts set, and where they set it."""
TOLERANCE_NS = 4_000_000
TOLERANCE_PART = 8
JIFFY_NS = 1_000_000
START_EVERY_NS = 32_768 * JIFFY_NS
INTO_JIFFY_NS = 250_000
SHELL = shutil.which("bash") or "sh"
"""Google's scripts are written for a machine on which sh is bash: they contain &> file."""
PATIENCE_NS = 20 * 10**9
"""Virtual time, in ns, by which an outbound packet may be late before the interpreter stops waiting for it."""
SETTLE_S = 1e-6
"""Virtual time, in s. A thread that sleeps this long wakes when all others have got as far as they can."""


class Failure(Exception):
    """The kernel did not behave as the script requires. The text names the place."""


class _Blocking:
    """A system call that may block, in a thread of its own."""

    def __init__(self, event: Event, call: Syscall, started_ns: int, end_ns: int, process: ScriptState) -> None:
        self.event, self.call, self.started_ns, self.end_ns = event, call, started_ns, end_ns
        self.result: tuple[int, int] | Exception = (0, 0)
        self.ended_ns = 0
        self._thread = threading.Thread(target=self._run, args=(process,), daemon=True)
        self._thread.start()
        time.sleep(SETTLE_S)

    def _run(self, process: ScriptState) -> None:
        try:
            self.result = _invoke(process, self.call)
        except (Mismatch, Unsupported) as error:
            self.result = error
        self.ended_ns = time.monotonic_ns()

    def running(self) -> bool:
        return self._thread.is_alive()


class Interpreter:
    """Runs one script on one IP version, in the namespace of the caller."""

    def __init__(
        self, script: Script, family: Family, folder: Path, info: TcpInfo, defines: Mapping[str, str], tcp: str = DEFAULT_TCP
    ) -> None:
        """`tcp` takes the place of Linux' default."""
        unknown = [name for name, _ in script.options if name not in KNOWN_OPTIONS]
        if unknown:
            raise Unsupported(f"option --{unknown[0]}")
        family = family.at(script.option("local_ip"), script.option("remote_ip"))
        self._script, self._family, self._folder, self._info = script, family, folder, info
        self._tcp = tcp
        self._scaled = script.option("tcp_ts_ecr_scaled") is not None
        self._strict = script.option("strict_segments") is not None
        self._tolerance_ns = int(script.option("tolerance_usecs") or TOLERANCE_NS // 1000) * 1000
        self._tick_us = int(script.option("tcp_ts_tick_usecs") or 0)
        self._mss = int(script.option("mss") or 0)
        mtu = int(script.option("mtu") or family.mtu)
        self._tun = Tun(replace(family, mtu=mtu))
        self._connections: list[Connection] = []
        self._listening: int | None = None
        self._blocking: _Blocking | None = None
        self._names: dict[str, Any] = dict(code_symbols())
        self._start_ns = 0
        self._last: tuple[Event, int] | None = None
        self.packets = 0
        """Number of outbound packets that were compared."""
        self.worst_ns = 0
        """The largest timing error of an event, in ns."""
        self.said: list[str] = []
        """Output of commands on standard error."""
        self._process = ScriptState(
            domain=2 if family.name == "ipv4" else 10,
            local=family.socket_address(family.local),
            remote=family.socket_address(family.remote),
            defines=dict(defines),
            tolerance_ns=self._tolerance_ns,
            on_listen=self._on_listen,
            on_connect=self._on_connect,
            on_accept=self._on_accept,
        )
        self._defines = defines

    def run(self) -> None:
        """Runs the whole script. Raises Failure at the first event that does not go as written."""
        try:
            self._replace_default()
            if self._script.init is not None:
                self._shell(self._script.init)
            self._begin()
            for event in self._script.events:
                self._run_event(event)
            self._finish_blocking(PATIENCE_NS)
        finally:
            if self._script.cleanup is not None:
                self._shell(self._script.cleanup)

    # -- time ---------------------------------------------------------------

    def _begin(self) -> None:
        """Starts the clock of the script.

        It starts well into a jiffy, so that times in whole milliseconds never fall on its edge. The time is a multiple of the
        unit to which the kernel rounds timers, so that a verdict does not depend on earlier scripts. Waiting costs nothing.
        """
        self._start_ns = (time.monotonic_ns() // START_EVERY_NS + 1) * START_EVERY_NS + INTO_JIFFY_NS
        self._tun.wait_until(self._start_ns)
        self._process.realtime_start_ns = time.time_ns() - (time.monotonic_ns() - self._start_ns)

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _times(self, event: Event) -> tuple[int, int, int]:
        """Returns from and until when the event is due, and from when a relative time counts.

        All are ns since the start of the script.
        """
        when = event.when
        offset = 0
        if when.relative or when.start_ns is None:
            anchored = self._last is not None and _is_inbound(self._last[0]) and _is_inbound(event)
            offset = self._last[1] if anchored and self._last is not None else self._now_ns()
        start = offset + (when.start_ns or 0)
        return start, offset + when.end_ns if when.end_ns is not None else start, offset

    def _check_time(self, event: Event, start_ns: int, end_ns: int, live_ns: int, label: str) -> None:
        if event.when.start_ns is None:
            return
        since_ns = start_ns - self._last[1] if self._last is not None else 0
        tolerance_ns = max(self._tolerance_ns, since_ns // TOLERANCE_PART)
        off_ns = max(start_ns - live_ns, live_ns - end_ns, 0)
        self.worst_ns = max(self.worst_ns, off_ns)
        if off_ns > tolerance_ns:
            due = f"{start_ns / 1e9:.6f}" + (f"..{end_ns / 1e9:.6f}" if end_ns != start_ns else "")
            raise Failure(f"{label} at {live_ns / 1e9:.6f} s, expected at {due} s")

    # -- events -------------------------------------------------------------

    def _run_event(self, event: Event) -> None:
        start_ns, end_ns, offset_ns = self._times(event)
        try:
            match event.action:
                case Tcp(inbound=False) as packet:
                    self._expect(event, packet, start_ns, end_ns)
                case Icmp(inbound=False):
                    raise Unsupported("an outbound ICMP packet")
                case action:
                    self._tun.wait_until(self._start_ns + start_ns)
                    self._act(event, action, offset_ns)
        except (Failure, Mismatch, ValueError) as error:
            raise Failure(f"line {event.line}: {error}") from None
        except Unsupported as error:
            raise Unsupported(f"line {event.line}: {error}") from None
        self._last = (event, start_ns)

    def _act(self, event: Event, action: Any, offset_ns: int) -> None:
        match action:
            case Tcp() as packet:
                self._inject(packet)
            case Icmp() as packet:
                self._inject_icmp(packet)
            case Syscall() as call:
                self._call(event, call, offset_ns if event.when.relative else 0)
            case Command(text):
                self._shell(text)
            case Code(text):
                self._code(text)

    def _shell(self, text: str) -> None:
        environment = {**os.environ, "PACKETDRILL_PID": str(os.getpid())}
        process = subprocess.run([SHELL, "-c", text], cwd=self._folder, env=environment, capture_output=True, text=True)
        self.said += dict.fromkeys(process.stderr.splitlines())
        if process.returncode:
            last_lines = (process.stderr or process.stdout).strip().splitlines()[-1:] or [f"status {process.returncode}"]
            raise Failure(f"command `{' '.join(text.split())[:80]}`: {last_lines[0]}")
        self._replace_default()

    def _replace_default(self) -> None:
        if self._tcp != DEFAULT_TCP and CHOSEN.read_text().strip() == DEFAULT_TCP:
            CHOSEN.write_text(self._tcp)

    def _code(self, text: str) -> None:
        """Runs Python of the script, which sees tcp_info of the connection."""
        connection = self._current()
        names = self._names
        if connection.fd is not None:
            names.update(self._info.read(connection.fd))
        code = textwrap.dedent(text).strip()
        try:
            exec(compile(code + "\n\n", self._script.name, "exec"), names)
        except AssertionError as error:
            raise Failure(f"assertion failed: {_asserted(error, code.splitlines())[:120]} (is {error})") from None
        except NameError as error:
            raise Unsupported(f"code: {error}") from None

    # -- system calls -------------------------------------------------------

    def _call(self, event: Event, call: Syscall, offset_ns: int) -> None:
        self._finish_blocking(PATIENCE_NS)
        if call.name not in CALLS:
            raise Unsupported(f"system call {call.name}")
        if call.end_ns is not None:
            self._blocking = _Blocking(event, call, self._now_ns(), offset_ns + call.end_ns, self._process)
            return
        self._check_result(call, _invoke(self._process, call))

    def _finish_blocking(self, patience_ns: int) -> None:
        """Waits for a call that may still block, and checks its result and its time."""
        blocking = self._blocking
        if blocking is None:
            return
        self._blocking = None
        deadline_ns = time.monotonic_ns() + patience_ns
        while blocking.running():
            if time.monotonic_ns() > deadline_ns:
                raise Failure(f"line {blocking.event.line}: {blocking.call.name} blocks for ever")
            self._tun.wait_until(time.monotonic_ns() + JIFFY_NS)
        if isinstance(blocking.result, Exception):
            raise blocking.result
        self._check_result(blocking.call, blocking.result)
        ended_ns = blocking.ended_ns - self._start_ns
        tolerance_ns = max(self._tolerance_ns, (blocking.end_ns - blocking.started_ns) // TOLERANCE_PART)
        if abs(ended_ns - blocking.end_ns) > tolerance_ns:
            raise Failure(f"{blocking.call.name} returned at {ended_ns / 1e9:.6f} s, expected at {blocking.end_ns / 1e9:.6f} s")

    def _check_result(self, call: Syscall, answer: tuple[int, int]) -> None:
        result, number = answer
        answer_text = f"{result} {errno.errorcode.get(number, '')}".strip() if result < 0 else str(result)
        if call.errno is not None and not (result < 0 and number == _error_number(call.errno)):
            raise Failure(f"{call.name} answered {answer_text}, expected {call.errno}")
        if isinstance(call.result, Anything):
            return
        if call.name in NEW_DESCRIPTORS and call.result >= 0 and result >= 0:
            self._process.fds[call.result] = result
        elif result != call.result:
            raise Failure(f"{call.name} answered {answer_text}, expected {call.result}")

    def _on_listen(self, fd: int) -> None:
        self._connections.append(Connection(State.LISTENING, fd=fd))

    def _on_connect(self, fd: int) -> None:
        self._connections.append(Connection(State.CONNECTING, fd=fd))

    def _on_accept(self, fd: int, remote_port: int) -> None:
        for connection in self._connections:
            if connection.remote_port == remote_port and connection.state is not State.LISTENING:
                connection.fd = fd

    def _current(self) -> Connection:
        """Returns the connection to which packets belong: the latest one."""
        if not self._connections:
            self._connections.append(Connection(State.LISTENING))  # packets to a port on which nobody listens
        return self._connections[-1]

    # -- packets ------------------------------------------------------------

    def _inject(self, packet: Tcp) -> None:
        connection = self._current()
        if connection.state is State.LISTENING:
            connection = Connection.accepted(packet.seq, len(self._connections))
            self._connections.append(connection)
        connection.on_inbound(packet)
        segment = connection.to_live(packet, self._family, self._defines, self._scaled)
        large = self._mss and packet.length > self._mss
        self._tun.send(encode(segment), self._mss if large else 0)

    def _inject_icmp(self, packet: Icmp) -> None:
        connection, family = self._current(), self._family
        seq = packet.seq + connection.local_isn
        ports = (connection.local_port, connection.remote_port)
        try:
            icmp_numbers(packet.type, packet.code, len(family.wire_remote))
        except KeyError as name:
            raise Unsupported(
                f"ICMP {packet.type} {packet.code or ''}".strip() + f": {name} is no name of a type or code"
            ) from None
        data = encode_icmp(packet.type, packet.code, packet.mtu or 0, family.wire_remote, family.wire_local, seq, ports)
        self._tun.send(data)

    def _expect(self, event: Event, packet: Tcp, start_ns: int, end_ns: int) -> None:
        connection = self._current()
        connection.on_expected(packet)
        deadline_ns = self._start_ns + end_ns + PATIENCE_NS
        parts: list[Segment] = []
        t_ns = 0
        while not parts or (sum(len(part.payload) for part in parts) < packet.length and not self._strict):
            t_ns, segment = self._next_segment(connection, deadline_ns, packet)
            if parts and _breaks(parts, segment):
                lengths = "+".join(str(len(part.payload)) for part in (*parts, segment))
                raise Failure(f"sent pieces of {lengths} bytes that are not one; expected {describe(packet)}")
            parts.append(segment)
        segment = connection.joined(parts)
        self.packets += 1
        problems = connection.compare(packet, segment, self._defines, self._tick_us, self._tolerance_ns // 1000)
        if problems:
            raise Failure(f"sent {'; '.join(problems)}; expected {describe(packet)}")
        self._check_time(event, start_ns, end_ns, t_ns - self._start_ns, f"packet {describe(packet)}")

    def _next_segment(self, connection: Connection, deadline_ns: int, packet: Tcp) -> tuple[int, Segment]:
        """Returns the next packet of the connection that leaves the kernel, and its time."""
        others = {other.local_port for other in self._connections if other is not connection} - {0, PORT}
        while (captured := self._tun.receive(deadline_ns)) is not None:
            segment = connection.match(captured.data, self._family)
            if segment is not None and segment.src_port not in others:
                return captured.t_ns, segment
        raise Failure(f"no packet was sent; expected {describe(packet)}")


def _breaks(parts: Sequence[Segment], segment: Segment) -> bool:
    """Returns True if a segment does not continue where those before it end."""
    last = parts[-1]
    return segment.seq != (last.seq + len(last.payload)) % (1 << 32) or len(last.payload) != len(parts[0].payload)


def describe(packet: Tcp) -> str:
    """Returns a packet as the script writes it, without options."""
    ack = "" if packet.ack is None else f" ack {packet.ack}"
    return f"{packet.flags} {packet.seq}:{packet.seq + packet.length}({packet.length}){ack}"


def _invoke(process: ScriptState, call: Syscall) -> tuple[int, int]:
    """Returns result and errno of a call."""
    try:
        result = CALLS[call.name](process, call.args)
    except (IndexError, TypeError, AttributeError, struct.error) as error:
        raise Unsupported(f"{call.name} with these arguments ({error})") from error
    return result, ctypes.get_errno() if result < 0 else 0


def _error_number(name: str) -> int:
    """Returns the number of an error. Several names can have one: EOPNOTSUPP and ENOTSUP."""
    if name not in SYMBOLS:
        raise Unsupported(f"error {name}")
    return SYMBOLS[name]


def _asserted(error: AssertionError, lines: Sequence[str]) -> str:
    """Returns the line of a script's code whose assertion failed."""
    trace, number = error.__traceback__, 1
    while trace is not None:
        number, trace = trace.tb_lineno, trace.tb_next
    return lines[number - 1].strip() if number <= len(lines) else ""


def _is_inbound(event: Event) -> bool:
    return isinstance(event.action, Tcp | Icmp) and event.action.inbound


def unsupported(script: Script) -> Sequence[str]:
    """Returns the parts of a script that this interpreter is known not to support."""
    options = [f"option --{name}" for name, _ in script.options if name not in KNOWN_OPTIONS]
    calls = [event.action.name for event in script.events if isinstance(event.action, Syscall) and event.action.name not in CALLS]
    return [*options, *(f"system call {name}" for name in dict.fromkeys(calls))]
