# SPDX-License-Identifier: Apache-2.0
"""The user's side of a shell. It answers the ground's steps: reads the next command, or shows a command's output.

A lab waits for each answer, so virtual time stands still at the prompt.
"""

from __future__ import annotations

import mmap
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.errors import LabError, TestbedError, UsageError, naming
from dc_gym.base.terminal import STANDARD_OUTPUT, say
from dc_gym.cli.shell import commands, programs
from dc_gym.cli.shell.keeping import Keeping, lost
from dc_gym.cli.shell.keyboard import Keyboard
from dc_gym.cli.shell.sources import Source, command_in, lines_of
from dc_gym.cli.shell.visitors import GONE, Visitors
from dc_gym.cli.shell.visitors import INTERRUPT as INTERRUPT_LINE
from dc_gym.run.grounds.guest.shell_memory import (
    DATA,
    ENDED,
    ERR,
    FILES,
    INPUT,
    INPUT_S,
    INTERRUPT,
    MOST_BYTES,
    NOTHING,
    OUT,
    PROMPT,
    TERMINAL,
    VISIT,
    VISITOR_BIT,
    Order,
    Report,
    ShellMemory,
    packed,
)
from dc_gym.run.plan.plan import END_OF_RUN, GO_ON
from dc_gym.topologies.graph import Graph

if TYPE_CHECKING:
    from dc_gym.monitors.state_matrix import Buffer

MISTAKE, NOT_FOUND = 2, 127
"""Exit statuses of a line that is no command, and of a program that is not there."""
WARNED_AT, ENDED_AT = 3, 4
"""The numbers of Ctrl-C, during one command, at which the user is warned and at which the network ends."""
MOST_LINES = 100_000
"""The most commands that files may give at once."""
HERE_DOCUMENT = re.compile(r"(?<!<)<<(-?)\s*(['\"]?)(\w+)\2")
"""A command whose further lines, up to one that is this word, are its input."""
STILL_S = 1.0
"""Wall time without virtual time, after Ctrl-C, after which a command is taken for one that computes without a pause."""
COMPUTES_S = 3.0
"""The same without Ctrl-C, after which the user gets a message."""
COMPUTES = "has computed for 3 s without a pause, and virtual time stands still meanwhile: wait, or press Ctrl-C"
COMPUTED = "the command computed without a pause, for which virtual time stands still: interrupted"
SIGFPE_WORDS, SIGFPE_STATUS, INTERRUPTED = b"Floating point exception", 128 + signal.SIGFPE, 128 + signal.SIGINT
"""Words and status of a shell for the signal by which a computation is ended, and its status for Ctrl-C."""
DEAF = "the command did not end at Ctrl-C; the network was ended with it"


class Conversation:
    """A `ground.Driver` whose steps are prompts and output."""

    def __init__(
        self,
        graph: Graph,
        source: Source,
        host: str | None,
        tools: Path,
        on_prompt: Callable[[], None],
        scale: int = 1,
        keeping: Keeping | None = None,
    ) -> None:
        """`host` is where all commands run; None: each begins with its node.

        `tools` is a folder with further programs. `on_prompt` is called before the first prompt. `scale` is the topology's scale.
        `keeping` keeps files; None: commands write to the machine's files.
        """
        self.status = 0
        """Exit status of the last command."""
        self._graph, self._source, self._host, self._tools = graph, source, host, tools
        self._on_prompt: Callable[[], None] | None = on_prompt
        self._scale = scale
        self._keyboard = Keyboard() if source.is_terminal and os.isatty(0) and os.isatty(1) else None
        self._at_line_start = True
        """False if the terminal shows output without a line end."""
        self._keeping = keeping
        self._listing = b"[]"
        self._farewell: Iterator[Order] | None = None
        """The orders after the last command."""
        self._changed: dict[str, dict[str, int]] = {}
        """The quantities that `link` has changed, by port."""
        self._visitors: Visitors | None = None
        self._reader = 0
        """The visitor who is answered now; 0: the user at the prompt."""
        self._runs = False
        """True while a command of the user's runs."""
        self._sourced: list[str] = []
        """Lines of files that are yet to run, the next one last."""
        self._read_lines = 0
        """The number of files' commands read since the user typed."""
        self._memory: ShellMemory
        self._clock_ns = 0
        self._presses = 0
        self._still: tuple[int, float] | None = None
        """Virtual time, in ns, at the last look, and since when (wall clock, in s) it is that."""
        self._running = ""
        """Node and line of the command that runs. Empty: none, or the user has the message that it computes."""
        self._ended = False
        """True if this side has ended the command because it computed."""

    def step(self, region: Buffer, step: int) -> int:
        """Answers a step of the ground (shell_memory.py)."""
        assert isinstance(region, mmap.mmap), "that of a ground"
        self._memory = ShellMemory(region)
        if step == PROMPT:
            return self._prompt()
        if step == VISIT:
            return GO_ON if self._order_of_a_visitor() else NOTHING
        self._still = None
        if step >> VISITOR_BIT:
            self._answer(step >> VISITOR_BIT, step & (1 << VISITOR_BIT) - 1)
        elif step == INPUT:
            self._type()
        elif step == FILES:
            self._listing = self._memory.read()
        elif step == DATA:
            more_wanted = self._keeping is not None and self._keeping.take(self._memory.read())
            return GO_ON if more_wanted else END_OF_RUN
        else:
            data = self._memory.read()
            self._show(step, data.replace(SIGFPE_WORDS, b"Interrupted") if self._ended else data)
        return GO_ON

    def receive(self, visitors: Visitors) -> None:
        """Lets others have prompts of their own."""
        self._visitors = visitors

    def _answer(self, visitor: int, kind: int) -> None:
        if self._visitors is not None and kind in (OUT, ERR, ENDED):
            self._visitors.show(visitor, kind, self._memory.read())

    def _order_of_a_visitor(self) -> bool:
        """Leaves a visitor's next order for the ground, if there is one. Lines that need none are answered here."""
        while self._visitors is not None and self._visitors.waiting() and (come := self._visitors.take()):
            self._reader, line = come
            try:
                order = self._understand_visitor(line)
            finally:
                visitor, self._reader = self._reader, 0
            if order is not None:
                self._visitors.busy.add(visitor)
                self._memory.tell(replace(order, visitor=visitor))
                return True
        return False

    def _understand_visitor(self, line: str) -> Order | None:
        assert self._visitors is not None, "one has come"
        if line in (INTERRUPT_LINE, GONE):
            return Order(INTERRUPT, words=(GONE,) if line == GONE else ())
        status, self.status = self.status, 0
        order = None
        if line.partition(" ")[0] in (commands.GET, commands.SOURCE):
            self._refuse("files are for the shell's first prompt", MISTAKE)
        elif line:
            order = self._understand(line)
        if order is None:
            self._visitors.show(self._reader, ENDED, packed(Report(self.status, self._clock_ns)))
        self.status = status
        return order

    def _say(self, text: str) -> None:
        if self._reader and self._visitors is not None:
            self._visitors.show(self._reader, OUT, f"{text}\n".encode())
        else:
            say(text, flush=True)

    def close(self) -> None:
        """Gives the user the terminal back, and gives up half-done work."""
        if self._keeping is not None:
            self._keeping.end(is_whole=False)
        self._lend_no_more()

    def _lend_no_more(self) -> None:
        if self._keyboard is not None:
            self._keyboard.take_back()

    def _type(self) -> None:
        """Leaves the user's typing to the command, which waits for it."""
        self._presses, self._still = 0, None
        keyboard = self._keyboard
        if keyboard is None or not keyboard.lent or not self._runs:  # no command of this shell asks then
            self._memory.write(b"")
            return
        self._memory.resize(*keyboard.window())
        self._memory.write(keyboard.read(INPUT_S))

    def _show(self, step: int, data: bytes) -> None:
        """Writes output of a command as it is, as any shell does."""
        if self._keyboard is not None and self._keyboard.lent:
            self._memory.resize(*self._keyboard.window())
            self._at_line_start = data.endswith(b"\n")
            if step != TERMINAL:
                data = data.replace(b"\n", b"\r\n")
        _write(sys.stderr.fileno() if step == ERR else sys.stdout.fileno(), data)

    def look(self, now_ns: int, end_computation: Callable[[], None]) -> None:
        """Gets the lab's time, now and then. Reports a command for which it stands still, and after Ctrl-C ends the command."""
        self._clock_ns = now_ns
        if self._called_away() or (
            not self._runs and self._keyboard is not None and self._keyboard.lent and self._keyboard.typed()
        ):
            self._memory.tell_news()
        wall_s = time.monotonic()
        if self._still is None or self._still[0] != now_ns:
            self._still = now_ns, wall_s
        elif self._presses and wall_s > self._still[1] + STILL_S:
            self._still, self._ended = None, True
            end_computation()
            self._show(ERR, f"dcgym: {COMPUTED}\n".encode())
        elif self._running and not self._presses and wall_s > self._still[1] + COMPUTES_S:
            self._show(ERR, f"dcgym: {self._running} {COMPUTES}\n".encode())
            self._running = ""

    def complete(self, before: str, word: str) -> list[str]:
        """Returns the possible completions of `word` after `before`."""
        nodes = [*(host.name for host in self._graph.hosts), *(switch.name for switch in self._graph.switches)]
        position = len(before.split()) + (self._host is not None)
        known: Sequence[str] = [*nodes, *commands.NAMES] if position == 0 else nodes
        if position == 1:  # of programs there are too many to show them all
            known = [*(programs.installed(self._tools) if word else ()), *(commands.ANYWHERE if self._host else ())]
        return [candidate for candidate in known if candidate.startswith(word)]

    def _prompt(self) -> int:
        report = self._memory.report()
        self._clock_ns = report.clock_ns
        if self._runs or self._on_prompt is not None:
            self._return_to_the_user(report)
        name = self._host or "dcgym"
        while self._farewell is None:
            if self._order_of_a_visitor():
                return GO_ON
            if self._lets_visitors_go_on():
                return NOTHING
            self._lend_no_more()
            line = self._next(f"{report.clock_ns / 1e9:.3f}s {name}> ")
            if line is None or line in commands.END:
                break
            if line and (order := self._understand(line)) is not None:
                self._give(order)
                return GO_ON
        return self._leave()

    def _give(self, order: Order) -> None:
        """Gives the ground an order of the user's."""
        self._memory.tell(order)
        if order.terminal is not None and self._keyboard is not None:
            self._memory.resize(*self._keyboard.window())
            self._keyboard.lend()
        self._presses, self._still, self._ended, self._runs = 0, None, False, True
        self._running = f"{order.node}: {order.line}"
        signal.signal(signal.SIGINT, self._interrupt)

    def _return_to_the_user(self, report: Report) -> None:
        """Ends the user's last command on this side: its keyboard, its line of output, its status and its file."""
        self._runs = False
        self._lend_no_more()
        if not self._at_line_start and self._presses:
            _write(sys.stdout.fileno(), b"\n")
        self._at_line_start = True
        if self._on_prompt is not None:
            self._on_prompt()
            self._on_prompt = None
        elif self._farewell is None:
            self.status = INTERRUPTED if self._ended and report.status == SIGFPE_STATUS else report.status
        self._running = ""
        if self._keeping is not None and (why := self._keeping.end(is_whole=report.status == 0)):
            self._refuse(f"get: {why}", MISTAKE)
        self._be_interruptible()
        self._presses = 0

    def _leave(self) -> int:
        """Gives the orders after the last command, one after another."""
        if self._keeping is None:
            return END_OF_RUN
        if self._farewell is None:
            self._farewell = self._last_orders(self._keeping)
        if (order := next(self._farewell, None)) is None:
            return END_OF_RUN
        self._runs = True
        self._memory.tell(order)
        return GO_ON

    def _last_orders(self, keeping: Keeping) -> Iterator[Order]:
        """Keeps all files that commands have written, or names them."""
        yield Order("written")
        names = keeping.names(self._listing)
        for name in names if keeping.keeps_all else ():
            keeping.begin_below(name)
            yield Order(commands.GET, words=(name,))
        for line in lost([] if keeping.keeps_all else names):
            say(f"dcgym: {line}", file=sys.stderr, flush=True)

    def _be_interruptible(self) -> None:
        """Lets Ctrl-C end a line that is typed, or a script of which it has ended a command."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._presses and not self._source.is_terminal:
            raise KeyboardInterrupt
        if self._presses:
            self._sourced.clear()

    def _next(self, prompt: str) -> str | None:
        """Returns the next command, with the lines of its here-documents; None at the end."""
        while self._sourced:
            if sourced := command_in(self._sourced.pop()):
                return self._whole(sourced, prompt)
        self._read_lines = 0
        command = self._source.read(prompt, self._called_away)
        return self._whole(command, prompt) if command else command

    def _called_away(self) -> bool:
        return self._visitors is not None and self._visitors.waiting()

    def _lets_visitors_go_on(self) -> bool:
        """Returns True while visitors' commands run and the user types nothing."""
        if self._visitors is None or not self._visitors.busy or self._keyboard is None:
            return False
        if self._keyboard.lent and self._keyboard.typed():
            self._keyboard.take_back()
            return False
        if not self._keyboard.lent:
            self._keyboard.lend()
        return True

    def _whole(self, command: str, prompt: str) -> str | None:
        lines = [command]
        for indented, _, end in HERE_DOCUMENT.findall(command):
            line: str | None = ""
            while line != end:
                line = self._sourced.pop() if self._sourced else self._source.read_on()
                if line is None:
                    self._refuse(f"{command}: its input has no end; give a line {end} after it", MISTAKE)
                    return self._next(prompt)
                lines.append(line)
                line = line.lstrip("\t") if indented else line
        return "\n".join(lines)

    def _understand(self, line: str) -> Order | None:
        """Returns the order for the ground. A line that needs none is answered here, and a mistake is reported."""
        reply = commands.help_lines() if line == commands.HELP else None
        if self._host is None and line in commands.SHOWN:
            reply = commands.SHOWN[line](self._graph, self._changed)
        if reply is not None:
            self._say("\n".join(reply))
            self.status = 0
            return None
        try:
            if self._host is None and line.partition(" ")[0] == commands.SOURCE:
                self._read_file(" ".join(commands.words_of(line.partition(" ")[2])))
                return None
            order = self._order(line)
        except UsageError as error:
            self._refuse(str(error), MISTAKE)
            return None
        if order.kind == "run" and (why := programs.why_missing(order.line, self._tools)):
            self._refuse(f"{order.node}: {why}", NOT_FOUND)
            return None
        if len(packed(order)) > MOST_BYTES:
            self._refuse(f"the command is too long ({len(line):,} characters); put it into a file", MISTAKE)
            return None
        if order.kind == commands.GET and not self._receives(order.words[0], order.words[-1]):
            return None
        for port, values in order.changes:
            self._changed.setdefault(port, {}).update(values)
        return order

    def _receives(self, name: str, copy: str) -> bool:
        """Prepares for a file. Returns False if it cannot be had."""
        try:
            if self._keeping is None:
                raise UsageError(f"get {name}: files that commands write on the host ground are this machine's own already")
            self._keeping.begin(name, Path(Path(copy).name if copy == name else copy))
        except UsageError as error:
            self._refuse(str(error), MISTAKE)
            return False
        return True

    def _read_file(self, name: str) -> None:
        """Lets the lines of a file come next. Raises UsageError if it cannot be read."""
        lines = lines_of(name)
        self._read_lines += len(lines)
        if self._read_lines > MOST_LINES:
            self._sourced.clear()
            raise UsageError(f"source {name}: more than {MOST_LINES:,} commands at once; does the file run itself?")
        self._sourced += reversed(lines)
        self.status = 0

    def _order(self, line: str) -> Order:
        terminal = None if self._keyboard is None or self._reader else os.environ.get("TERM", "dumb")
        if self._host is not None and line != commands.JOBS:
            return commands.on_node(self._host, line, terminal)
        return commands.order(line, self._graph, terminal, self._scale)

    def _refuse(self, why: str, status: int) -> None:
        if self._reader and self._visitors is not None:
            self._visitors.show(self._reader, ERR, f"dcgym: {why}\n".encode())
        else:
            say(f"dcgym: {why}", file=sys.stderr, flush=True)
        self.status = status

    def _interrupt(self, _number: int, _frame: object) -> None:
        """Passes Ctrl-C on to the command that runs."""
        self._presses += 1
        if self._source.is_terminal and (self._keyboard is None or not self._keyboard.lent):
            _write(sys.stdout.fileno(), b"\n")  # after the terminal's ^C
        if self._presses >= ENDED_AT:
            raise LabError(DEAF)
        if self._presses == WARNED_AT:
            with suppress(OSError, TestbedError):
                self._show(ERR, b"dcgym: Ctrl-C once more ends the network\n")
        self._memory.interrupt()


def _write(fd: int, data: bytes) -> None:
    """Writes output of a command as it is, as any shell does."""
    with naming(STANDARD_OUTPUT):
        while data:
            data = data[os.write(fd, data) :]
