# SPDX-License-Identifier: Apache-2.0
"""packetdrill scripts as plain data: options, commands, and events in the order of the file.

It is the language of google/packetdrill (Cardwell et al., USENIX ATC 2013) and of the kernel's selftests; the grammar is
grammar.lark. Times are nanoseconds. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError

from dc_gym.base.errors import UsageError

__all__ = [
    "ANYTHING",
    "Anything",
    "Call",
    "Code",
    "Command",
    "Either",
    "Event",
    "Field",
    "Icmp",
    "Name",
    "Script",
    "ScriptError",
    "Struct",
    "Syscall",
    "Tcp",
    "TcpOption",
    "When",
    "parse",
]


SHOWN = 100
"""Number of characters of a quoted line."""


class ScriptError(UsageError):
    """The grammar does not accept a script."""


class Anything:
    """`...`: matches anything."""

    def __repr__(self) -> str:
        return "..."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anything)

    __hash__ = None  # type: ignore[assignment]


ANYTHING = Anything()


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol such as SOCK_STREAM."""

    name: str


@dataclass(frozen=True, slots=True)
class Either:
    """FLAG | FLAG."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """msg_name(...), inet_addr("1.2.3.4")."""

    name: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """name = value, in a struct."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Struct:
    """{...}: fields by name, or values by place."""

    items: tuple[Any, ...]

    def get(self, name: str) -> Any:
        """Returns the value of a field, or None if it is not there."""
        return next((item.value for item in self.items if isinstance(item, Field) and item.name == name), None)


@dataclass(frozen=True, slots=True)
class When:
    """The time of an event.

    `relative` counts from the previous event. `end_ns` makes it a range. If both are None, any time is right.
    """

    start_ns: int | None
    end_ns: int | None = None
    relative: bool = False


@dataclass(frozen=True, slots=True)
class TcpOption:
    """A TCP option. kind: nop, eol, mss, wscale, sackOK, sack, TS, FO, FOEXP, md5, ECN. The values depend on the kind."""

    kind: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Tcp:
    """A TCP segment. Its sequence numbers are relative to the initial ones."""

    inbound: bool
    ecn: str | None
    flags: str
    seq: int
    length: int
    ack: int | None
    window: int | None
    urgent: int
    options: tuple[TcpOption, ...] | None
    """The options. None: <...>, not checked."""


@dataclass(frozen=True, slots=True)
class Icmp:
    """An ICMP error about a segment of the connection."""

    inbound: bool
    type: str
    code: str | None
    mtu: int | None
    seq: int
    length: int


@dataclass(frozen=True, slots=True)
class Syscall:
    name: str
    args: tuple[Any, ...]
    result: Any
    errno: str | None
    end_ns: int | None
    """Time at which a blocking call returns. None: at once."""


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Python code, with the fields of tcp_info as variables."""

    text: str


@dataclass(frozen=True, slots=True)
class Event:
    line: int
    when: When
    action: Tcp | Icmp | Syscall | Command | Code


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    options: tuple[tuple[str, str], ...]
    init: str | None
    events: tuple[Event, ...]
    cleanup: str | None

    def option(self, name: str) -> str | None:
        """Returns the value of --name=value, or None if the option is not there."""
        return dict(self.options).get(name)


def parse(text: str, name: str) -> Script:
    """Parses a script. Raises a one-line ScriptError when the grammar does not accept it."""
    try:
        return _Build(name).transform(_parser().parse(text))  # type: ignore[no-any-return]
    except UnexpectedInput as error:
        lines = text.splitlines()
        line = lines[error.line - 1].strip() if 0 < error.line <= len(lines) else "end of file"
        excerpt = line[:SHOWN] if line.isprintable() else ascii(line[:SHOWN])
        raise ScriptError(f"{name}:{max(error.line, 1)}: not understood: {excerpt}") from None
    except RecursionError:
        raise ScriptError(f"{name}: its lists lie too deep in one another") from None
    except VisitError as error:
        raise ScriptError(f"{name}: {error.orig_exc}") from None


@cache
def _parser() -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)


def _ns(number: str) -> int:
    """Returns a decimal number of seconds as nanoseconds."""
    return int(Decimal(number) * 10**9)


def _named(children: Sequence[Any], kind: str) -> Any:
    """Returns the value of the one child ('kind', value), or None if there is none."""
    return next((child[1] for child in children if isinstance(child, tuple) and child[0] == kind), None)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Converts lark's tree to the dataclasses, rule by rule."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def start(self, *children: Any) -> Script:
        options = tuple(_option(child) for child in children if isinstance(child, Token))
        events = tuple(child for child in children if isinstance(child, Event))
        return Script(self._name, options, _named(children, "init"), events, _named(children, "cleanup"))

    def init(self, command: Token) -> tuple[str, str]:
        return ("init", command[1:-1])

    def cleanup(self, command: Token) -> tuple[str, str]:
        return ("cleanup", command[1:-1])

    @v_args(meta=True, inline=True)
    def event(self, meta: Any, when: When, action: Any) -> Event:
        return Event(meta.line, when, action)

    def relative(self, start: Token) -> When:
        return When(_ns(start), relative=True)

    def absolute(self, start: Token) -> When:
        return When(_ns(start))

    def any_time(self) -> When:
        return When(None)

    def absolute_range(self, start: Token, end: Token) -> When:
        return When(_ns(start), _ns(end))

    def relative_range(self, start: Token, end: Token) -> When:
        return When(_ns(start), _ns(end), relative=True)

    def command(self, text: Token) -> Command:
        return Command(text[1:-1])

    def code(self, text: Token) -> Code:
        return Code(text[2:-2])

    def packet(self, direction: Token, *rest: Any) -> Tcp | Icmp:
        *info, body = rest
        inbound = direction == "<"
        if body[0] == "icmp":
            return _icmp(inbound, body[1])
        return _tcp(inbound, info[0] if info else None, *body[1])

    def ip_info(self, ecn: Token) -> str:
        return str(ecn)

    def tcp(self, flags: Token, *parts: Any) -> tuple[str, Any]:
        return ("tcp", (str(flags), parts))

    def seq(self, start: Token, end: Token, length: Token) -> tuple[str, Any]:
        if int(end) != int(start) + int(length):
            raise ScriptError(f"line {start.line}: {start}:{end}({length}) does not add up")
        return ("seq", (int(start), int(length)))

    def ack(self, number: Token) -> tuple[str, int]:
        return ("ack", int(number))

    def window(self, number: Token) -> tuple[str, int]:
        return ("window", int(number))

    def urgent(self, number: Token) -> tuple[str, int]:
        return ("urgent", int(number))

    def any_options(self) -> tuple[str, Any]:
        return ("options", None)

    def options(self, *options: TcpOption) -> tuple[str, Any]:
        return ("options", options)

    def nop(self) -> TcpOption:
        return TcpOption("nop")

    def eol(self) -> TcpOption:
        return TcpOption("eol")

    def mss(self, size: Token) -> TcpOption:
        return TcpOption("mss", (int(size),))

    def wscale(self, shift: Token) -> TcpOption:
        return TcpOption("wscale", (int(shift),))

    def sack_ok(self) -> TcpOption:
        return TcpOption("sackOK")

    def sack(self, *blocks: tuple[int, int]) -> TcpOption:
        return TcpOption("sack", blocks)

    def block(self, left: Token, right: Token) -> tuple[int, int]:
        return (int(left), int(right))

    def timestamp(self, value: Token, echo: Token) -> TcpOption:
        return TcpOption("TS", (int(value), int(echo)))

    def fast_open(self, cookie: Token | None = None) -> TcpOption:
        return TcpOption("FO", (str(cookie or ""),))

    def fast_open_exp(self, cookie: Token | None = None) -> TcpOption:
        return TcpOption("FOEXP", (str(cookie or ""),))

    def md5(self, digest: Token) -> TcpOption:
        return TcpOption("md5", (str(digest),))

    def accecn(self, *counters: tuple[str, int]) -> TcpOption:
        return TcpOption("ECN", counters)

    def counter(self, name: Token, value: Token) -> tuple[str, int]:
        return (str(name), int(value))

    def icmp(self, *parts: Any) -> tuple[str, Any]:
        return ("icmp", parts)

    def mtu(self, size: Token) -> tuple[str, int]:
        return ("mtu", int(size))

    def echoed(self, seq: tuple[str, Any]) -> tuple[str, Any]:
        return seq

    def syscall(self, *parts: Any) -> Syscall:
        until = _named(parts, "until")
        name, items, result, *rest = parts if until is None else parts[1:]
        errno = next((str(token) for token in rest if token.type == "NAME"), None)
        return Syscall(str(name), items or (), result, errno, until)

    def until(self, end: Token) -> tuple[str, int]:
        return ("until", _ns(end))

    def items(self, *items: Any) -> tuple[Any, ...]:
        return items

    def field(self, name: Any, value: Any) -> Field:
        return Field(name.name, value)

    def either(self, one: Any, other: Any) -> Either:
        return Either((*one.parts, other) if isinstance(one, Either) else (one, other))

    def anything(self) -> Anything:
        return ANYTHING

    def integer(self, number: Token) -> int:
        return int(number, 0)

    def name(self, word: Token) -> Name:
        return Name(str(word))

    def text(self, *strings: Token) -> bytes:
        return b"".join(string[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1") for string in strings)

    def array(self, items: Any) -> list[Any]:
        return list(items or ())

    def struct(self, items: Any) -> Struct:
        return Struct(tuple(items or ()))

    def call(self, name: Token, items: Any) -> Call:
        return Call(str(name), tuple(items or ()))


def _option(token: Token) -> tuple[str, str]:
    name, _, value = token[2:].partition("=")
    return name, value


def _tcp(inbound: bool, ecn: str | None, flags: str, parts: Sequence[Any]) -> Tcp:
    seq, length = _named(parts, "seq")
    options = _named(parts, "options") if any(part[0] == "options" for part in parts) else ()
    if inbound and options is None:
        raise ScriptError("<...> stands for options of outbound packets only")
    numbers = {name: _named(parts, name) for name in ("ack", "window", "urgent")}
    return Tcp(
        inbound, ecn, flags.replace("-", ""), seq, length, numbers["ack"], numbers["window"], numbers["urgent"] or 0, options
    )


def _icmp(inbound: bool, parts: Sequence[Any]) -> Icmp:
    words = [str(part) for part in parts if isinstance(part, Token)]
    seq, length = _named(parts, "seq") or (0, 0)
    return Icmp(inbound, words[0], words[1] if len(words) > 1 else None, _named(parts, "mtu"), seq, length)
