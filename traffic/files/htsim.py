# SPDX-License-Identifier: Apache-2.0
"""Connection matrices (.cm) of htsim: `13->6 id 1 start 0 size 2000000`, a flow a line.

Starts are in ps, sizes in bytes; 0 is no limit. A flow with `trigger 3` waits for the flow with `send_done_trigger 3` or
`recv_done_trigger 3`, or for all of them if trigger 3 is a barrier.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dc_gym.traffic.files import fault, text_of
from dc_gym.traffic.files.model import FileFlow, FileFlows, FlowReader
from dc_gym.traffic.flows import NO_GATE

HEADER = ("Nodes", "Connections", "Triggers", "Failures")
ENDS = re.compile(r"([0-9]{1,9})->([0-9]{1,9})")
NUMBER = re.compile(r"[0-9]{1,18}")
START = re.compile(r"([0-9]{1,18})(\.[0-9]*)?")
DONE = ("send_done_trigger", "recv_done_trigger")
NUMBERS = ("id", "start", "size", "trigger", "prio", *DONE)
"""Words of a flow behind which a number stands."""
NOT_USED = {
    "prio": "priorities of flows",
    "msg": "numbers of messages",
    "addon": "addon of flows",
    "send_done_trigger": "the end of sending: a trigger waits until all is received",
}
TYPES = ("oneshot", "multishot", "barrier")
PS_PER_NS = 1000


def recognizes(head: bytes) -> bool:
    """Returns whether it begins with htsim's header."""
    return all(re.search(rb"^%s[ \t]" % name, head, re.MULTILINE) for name in (b"Nodes", b"Connections"))


def read(path: Path) -> FileFlows:
    """Returns the flows of a file."""
    matrix = _Matrix(path)
    for line, text in enumerate(text_of(path).split("\n"), 1):
        if (words := text.split()) and not words[0].startswith("#"):
            matrix.add(line, words)
    return matrix.flows()


@dataclass(frozen=True, slots=True)
class _Trigger:
    """A trigger. A barrier has the number of flows that start it."""

    line: int
    type: str
    count: int | None


class _Matrix:
    """A connection matrix while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = dict[str, tuple[int, int]]()
        """Number and line of each word."""
        self._flows = list[FileFlow]()
        self._triggers = dict[int, _Trigger]()
        self._failures = 0
        self._ignored = dict[str, None]()

    def add(self, line: int, words: list[str]) -> None:
        """Adds what a line says."""
        if ends := ENDS.fullmatch(words[0]):
            self._flows.append(self._flow(line, words, *ends.groups()))
        elif words[0] in HEADER:
            self._header[words[0]] = self._number(line, words[0], words[1:]), line
        elif words[0] == "trigger":
            self._add_trigger(line, words[1:])
        elif words[0] == "failure":
            self._failures += 1
        else:
            raise fault(self._path, line, f"{words[0]!r} is not known here; write a flow like '13->6 start 0 size 2000000'")

    def _flow(self, line: int, words: list[str], source: str, destination: str) -> FileFlow:
        values, opens = dict[str, int](), dict[int, None]()
        rest = iter(words[1:])
        before = ""
        for word in rest:
            if word == "start":
                values[word] = self._start(line, next(rest, ""))
            elif word in NUMBERS:
                values[word] = self._number(line, word, [next(rest, "")])
            elif word not in NOT_USED and not (before == "msg" and word.isdecimal()):
                raise fault(self._path, line, f"{word!r} of a flow is not known; write one of: {', '.join(NUMBERS)}")
            if word in DONE:
                opens[values[word]] = None
            if word in NOT_USED:
                self._ignored[word] = None
            before = word
        if "size" not in values:
            raise fault(self._path, line, "the flow has no size; write size and a number of bytes, 0 for no limit")
        if ("start" in values) == ("trigger" in values):
            raise fault(self._path, line, "the flow needs start or trigger, and not both; correct it")
        return FileFlow(
            source, destination, values.get("start", 0), values["size"], line, values.get("trigger", NO_GATE), tuple(opens)
        )

    def _add_trigger(self, line: int, words: list[str]) -> None:
        kind = next((word for word in words if word in TYPES), None)
        if "id" not in words or kind is None:
            raise fault(self._path, line, f"the trigger lacks its id or type; write id, a number, and one of: {', '.join(TYPES)}")
        number = self._number(line, "id", words[words.index("id") + 1 :])
        if number in self._triggers:
            raise fault(self._path, line, f"trigger {number} is in line {self._triggers[number].line} already; remove one")
        count = self._number(line, "count", words[words.index("count") + 1 :]) if "count" in words else None
        self._triggers[number] = _Trigger(line, kind, count)

    def _number(self, line: int, name: str, words: list[str]) -> int:
        if not words or NUMBER.fullmatch(words[0]) is None:
            raise fault(self._path, line, f"{name} {''.join(words[:1])!r} is not a whole number; give one")
        return int(words[0])

    def _start(self, line: int, word: str) -> int:
        if (match := START.fullmatch(word)) is None:
            raise fault(self._path, line, f"start {word!r} is not a number of picoseconds; give one")
        return round(int(match[1]) / PS_PER_NS)

    def flows(self) -> FileFlows:
        """Returns the flows. Raises WorkloadError if they are not what the header says."""
        for name, number in (("Connections", len(self._flows)), ("Triggers", len(self._triggers)), ("Failures", self._failures)):
            told, line = self._header.get(name, (0, None))
            if told != number:
                raise fault(self._path, line, f"it has {number} {name.lower()}, and {name} says {told}; correct the number")
        nodes, _ = self._header["Nodes"]
        for flow in self._flows:
            if nodes <= max(int(flow.source), int(flow.destination)):
                raise fault(
                    self._path, flow.line, f"{flow.source}->{flow.destination} is not among the {nodes} nodes; correct it"
                )
        self._check_triggers()
        gates = {number: gate for gate, number in enumerate(self._triggers)} | {NO_GATE: NO_GATE}
        for flow in self._flows:
            flow.gate, flow.opens = gates[flow.gate], tuple(gates[number] for number in flow.opens)
        failures = [f"{self._failures} failures of links"] if self._failures else []
        return FileFlows(self._flows, (*(NOT_USED[word] for word in self._ignored), *failures))

    def _check_triggers(self) -> None:
        """Raises WorkloadError for a trigger that no gate can stand for: a gate opens when all flows that name it have ended."""
        openers = Counter(number for flow in self._flows for number in flow.opens)
        for flow in self._flows:
            for number in (*flow.opens, *([] if flow.gate == NO_GATE else [flow.gate])):
                if number not in self._triggers:
                    raise fault(self._path, flow.line, f"there is no trigger {number}; add 'trigger id {number} oneshot'")
            if flow.gate != NO_GATE and not openers[flow.gate]:
                raise fault(self._path, flow.line, f"no flow starts trigger {flow.gate}; give one send_done_trigger {flow.gate}")
        for number, trigger in self._triggers.items():
            if trigger.type == "barrier" and trigger.count != openers[number]:
                why = f"its count is {trigger.count}, and {openers[number]} flows start it; correct the count"
                raise fault(self._path, trigger.line, f"barrier {number}: {why}")
            if trigger.type != "barrier" and openers[number] > 1:
                why = f"{openers[number]} flows start it; make it a barrier, or let one flow start it"
                raise fault(self._path, trigger.line, f"{trigger.type} trigger {number}: {why}")


READER = FlowReader("htsim", "htsim (.cm)", recognizes, read)
