# SPDX-License-Identifier: Apache-2.0
"""One TCP connection of a script: it maps the script's relative numbers to live ones, and compares packets.

A sequence number in a SYN is written as it is. Any other counts from the initial one of its direction. A timestamp that the
kernel sent is stored under the value that the script has for it, so that the script can echo it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from dc_gym.cli.conformance.packets import ECN_BITS, FLAG_BITS, Segment, decode, decode_options, encode_options
from dc_gym.cli.conformance.script import Tcp, TcpOption
from dc_gym.cli.conformance.tun import Family

__all__ = ["Connection", "State"]

PORT = 8080
FIRST_REMOTE_PORT = 40_001
ACE = (FLAG_BITS["E"], FLAG_BITS["W"], FLAG_BITS["A"])
"""The three bits of the ACE counter, lowest first (RFC 9768)."""
WORD = 1 << 32


class State(Enum):
    LISTENING = auto()
    SYN_RECEIVED = auto()
    SYNACK_SENT = auto()
    CONNECTING = auto()
    SYN_SENT = auto()
    ESTABLISHED = auto()


@dataclass(slots=True)
class Connection:
    state: State
    fd: int | None = None
    local_port: int = 0
    remote_port: int = PORT
    local_isn: int = 0
    script_local_isn: int = 0
    remote_isn: int = 0
    timestamps: dict[int, int] = field(default_factory=dict)
    """The script's timestamps, mapped to live ones."""
    first_timestamps: tuple[int, int] | None = None
    """The first timestamp that the kernel sent: the script's value, and the live one."""

    @classmethod
    def accepted(cls, remote_isn: int, number: int) -> Connection:
        """Returns a connection that the peer opens. Each has another port."""
        return cls(State.SYN_RECEIVED, local_port=PORT, remote_port=FIRST_REMOTE_PORT + number, remote_isn=remote_isn)

    def on_inbound(self, packet: Tcp) -> None:
        """Is called before a packet of the peer goes in."""
        if self.state is State.SYNACK_SENT and "." in packet.flags:
            self.state = State.ESTABLISHED
        elif self.state is State.SYN_SENT and "S" in packet.flags and "." in packet.flags:
            self.state, self.remote_isn = State.ESTABLISHED, packet.seq

    def on_expected(self, packet: Tcp) -> None:
        """Is called before waiting for a packet of the kernel."""
        if self.state is State.CONNECTING and "S" in packet.flags and "." not in packet.flags:
            self.state, self.script_local_isn = State.SYN_SENT, packet.seq
        elif self.state is State.SYN_RECEIVED and "S" in packet.flags and "." in packet.flags:
            self.script_local_isn = packet.seq

    def match(self, data: bytes, family: Family) -> Segment | None:
        """Returns the segment if the packet belongs to this connection.

        The first SYN or SYN-ACK gives the kernel's own numbers.
        """
        segment = decode(data)
        if segment is None or (segment.src, segment.dst) != (family.wire_local, family.wire_remote):
            return None
        syn, ack = bool(segment.flags & FLAG_BITS["S"]), bool(segment.flags & FLAG_BITS["."])
        if segment.dst_port != self.remote_port:
            return None
        if self.state is State.SYN_SENT and syn and not ack:
            self.local_port, self.local_isn = segment.src_port, segment.seq
        if segment.src_port != self.local_port:
            return None
        if self.state is State.SYN_RECEIVED and syn and ack:
            self.state, self.local_isn = State.SYNACK_SENT, segment.seq
        return segment

    def joined(self, parts: Sequence[Segment]) -> Segment:
        """Joins consecutive segments into one. TCP may split the data of a script's one segment anywhere."""
        first, last = parts[0], parts[-1]
        at_end = FLAG_BITS["F"] | FLAG_BITS["P"]
        payload = b"".join(part.payload for part in parts)
        return replace(first, flags=first.flags & ~at_end | last.flags & at_end, payload=payload)

    def to_live(self, packet: Tcp, family: Family, defines: Mapping[str, str], scaled: bool = False) -> Segment:
        """Returns a packet of the peer with the kernel's numbers in it.

        Raises ValueError for an echo of a timestamp that was never sent, unless it is `scaled`: counted from the first that was.
        """
        syn, ack = "S" in packet.flags, "." in packet.flags
        ack_offset = self.local_isn - self.script_local_isn if syn else self.local_isn
        options = [self._live_option(option, ack, ack_offset, defines, scaled) for option in packet.options or ()]
        return Segment(
            src=family.wire_remote,
            dst=family.wire_local,
            src_port=self.remote_port,
            dst_port=self.local_port,
            seq=packet.seq + (0 if syn else self.remote_isn),
            ack=(packet.ack or 0) + (ack_offset if ack else 0),
            flags=_flag_bits(packet.flags),
            window=packet.window or 0,
            urgent=packet.urgent,
            options=encode_options(options),
            payload=bytes(packet.length),
            tos=_tos(packet.ecn),
        )

    def _live_option(self, option: TcpOption, ack: bool, offset: int, defines: Mapping[str, str], scaled: bool) -> TcpOption:
        if option.kind == "sack":
            return TcpOption("sack", tuple((left + offset, right + offset) for left, right in option.values))
        if option.kind == "TS" and ack:
            value, echo = option.values
            if echo not in self.timestamps and scaled and self.first_timestamps is not None:
                script, live = self.first_timestamps
                return TcpOption("TS", (value, (live + echo - script) % WORD))
            if echo not in self.timestamps:
                raise ValueError(f"no packet before had the timestamp {echo} that is echoed here")
            return TcpOption("TS", (value, self.timestamps[echo]))
        return _defined(option, defines)

    def compare(
        self, packet: Tcp, segment: Segment, defines: Mapping[str, str], tick_us: int, tolerance_us: int
    ) -> Sequence[str]:
        """Returns the differences between a segment and the script, in words."""
        return [
            *self._compare_header(packet, segment),
            *self._compare_options(packet, segment, defines, tick_us, tolerance_us),
        ]

    def _compare_header(self, packet: Tcp, segment: Segment) -> Iterator[str]:
        syn, ack = bool(segment.flags & FLAG_BITS["S"]), bool(segment.flags & FLAG_BITS["."])
        if segment.flags != _flag_bits(packet.flags):
            yield f"flags {_flag_letters(segment.flags, packet.flags)}"
        seq = (segment.seq - self.local_isn + (self.script_local_isn if syn else 0)) % WORD
        if (seq, len(segment.payload)) != (packet.seq, packet.length):
            yield f"{seq}:{seq + len(segment.payload)}({len(segment.payload)})"
        acked = (segment.ack - (0 if syn else self.remote_isn)) % WORD if ack else segment.ack
        if acked != (packet.ack or 0):
            yield f"ack {acked}"
        if packet.window is not None and segment.window != packet.window:
            yield f"win {segment.window}, not {packet.window}"
        if segment.urgent != packet.urgent:
            yield f"urg {segment.urgent}"
        if segment.payload.strip(b"\0"):
            yield "payload that is not zero"
        yield from _compare_ecn(packet.ecn, segment.tos)

    def _compare_options(
        self, packet: Tcp, segment: Segment, defines: Mapping[str, str], tick_us: int, tolerance_us: int
    ) -> Iterator[str]:
        try:
            live_options = [self._script_option(option) for option in decode_options(segment.options)]
        except ValueError as error:
            yield str(error)
            return
        script_options = None if packet.options is None else [_defined(option, defines) for option in packet.options]
        if script_options is None:
            return
        if [option.kind for option in live_options] != [option.kind for option in script_options]:
            yield f"options <{','.join(map(_option_words, live_options))}>, not <{','.join(map(_option_words, script_options))}>"
            return
        for option, want in zip(live_options, script_options, strict=True):
            if option.kind == "TS":
                yield from self._compare_timestamp(option, want, tick_us, tolerance_us)
            elif option != want:
                yield f"option {_option_words(option)}, not {_option_words(want)}"

    def _script_option(self, option: TcpOption) -> TcpOption:
        """Returns a live option in the script's numbers, except for its timestamp."""
        if option.kind != "sack":
            return option
        blocks = (((left - self.remote_isn) % WORD, (right - self.remote_isn) % WORD) for left, right in option.values)
        return TcpOption("sack", tuple(blocks))

    def _compare_timestamp(self, option: TcpOption, want: TcpOption, tick_us: int, tolerance_us: int) -> Iterator[str]:
        """Stores the value. With --tcp_ts_tick_usecs, it must have advanced as in the script."""
        live, script = option.values[0], want.values[0]
        self.timestamps[script] = live
        if self.first_timestamps is None:
            self.first_timestamps = (script, live)
        expected = (self.first_timestamps[1] + script - self.first_timestamps[0]) % WORD
        off = (live - expected + WORD // 2) % WORD - WORD // 2
        if tick_us and abs(off) * tick_us > tolerance_us:
            yield f"TS val {script + off}, not {script}"


def _flag_bits(flags: str) -> int:
    """Parses letters, and a digit for the ACE counter."""
    bits = sum(FLAG_BITS[letter] for letter in flags if letter in FLAG_BITS)
    for digit in filter(str.isdigit, flags):
        bits |= sum(bit for position, bit in enumerate(ACE) if int(digit) >> position & 1)
    return bits


def _flag_letters(bits: int, like: str) -> str:
    """Returns flags as the script writes them: with a digit for the ACE counter if the script has one."""
    counted = any(map(str.isdigit, like))
    letters = "".join(letter for letter, bit in FLAG_BITS.items() if bits & bit and not (counted and bit in ACE))
    ace = sum(1 << position for position, bit in enumerate(ACE) if bits & bit)
    reserved = "" if bits >> 9 == 0 else f" and reserved bits {bits >> 9:#x}"
    return (f"{letters}{ace}" if counted else letters or "-") + reserved


def _tos(ecn: str | None) -> int:
    if ecn is None:
        return 0
    return int(ecn.removeprefix("tos "), 16) if ecn.startswith("tos ") else ECN_BITS[ecn]


def _compare_ecn(ecn: str | None, tos: int) -> Iterator[str]:
    if ecn is None:
        return
    names = {bits: name for name, bits in ECN_BITS.items()}
    if ecn.startswith("tos ") and tos != _tos(ecn):
        yield f"[tos {tos:#x}], not [{ecn}]"
    elif ecn == "ect01" and tos & 3 not in (1, 2):
        yield f"[{names[tos & 3]}], not [ect01]"
    elif ecn in ECN_BITS and tos & 3 != ECN_BITS[ecn]:
        yield f"[{names[tos & 3]}], not [{ecn}]"


def _defined(option: TcpOption, defines: Mapping[str, str]) -> TcpOption:
    """Returns an option in which names of cookies are replaced by their values."""
    if option.kind in ("FO", "FOEXP"):
        return TcpOption(option.kind, (defines.get(option.values[0], option.values[0]).lower(),))
    return option


def _option_words(option: TcpOption) -> str:
    return " ".join([option.kind, *(" ".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in option.values)]).strip()
