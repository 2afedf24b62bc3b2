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

ENDS = re.compile(r"([0-9]{1,9})->([0-9]{1,9})")
NUMBER = re.compile(r"([0-9]{1,18})(\.[0-9]*)?")
STARTS = ("send_done_trigger", "recv_done_trigger")
WORDS = ("id", "start", "size", "trigger", "prio", *STARTS, "msg", "addon")
"""The words of a flow. A number stands behind all but the last, and behind `msg` if there is one."""
NOT_USED = {"prio": "priorities", "msg": "numbers of messages", "addon": "addon"}
NOT_USED |= {"send_done_trigger": "the end of sending: a trigger waits until all is received"}
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
    count: int


class _Matrix:
    """A connection matrix while it is read."""

    def __init__(self, path: Path) -> None:
        self._path, self._failures = path, 0
        self._header = dict[str, tuple[int, int]]()
        """Number and line of each word."""
        self._flows, self._triggers = list[FileFlow](), dict[int, _Trigger]()
        self._not_used = dict[str, None]()

    def add(self, line: int, words: list[str]) -> None:
        """Adds what a line says."""
        if ends := ENDS.fullmatch(words[0]):
            self._flows.append(self._flow(line, self._values(line, words, WORDS), *ends.groups()))
        elif words[0] == "trigger":
            self._add_trigger(line, self._values(line, words, ("id", "count", *TYPES)))
        elif words[0] in ("Nodes", "Connections", "Triggers", "Failures"):
            self._header[words[0]] = self._values(line, ["", *words], (words[0],))[words[0]], line
        elif words[0] == "failure":
            self._failures += 1
        else:
            raise fault(self._path, line, f"{words[0]!r} is not known here; write a flow like '13->6 start 0 size 2000000'")

    def _values(self, line: int, words: list[str], known: tuple[str, ...]) -> dict[str, int]:
        """Returns the numbers behind the words of a line, and 0 for words alone."""
        values, rest = dict[str, int](), words[:0:-1]
        while rest:
            if (name := rest.pop()) not in known:
                raise fault(self._path, line, f"{name!r} is not known here; write one of: {', '.join(known)}")
            number = NUMBER.fullmatch(rest[-1]) if rest and name not in ("addon", *TYPES) else None
            if number is None and name not in ("addon", "msg", *TYPES):
                raise fault(self._path, line, f"{name} {''.join(rest[-1:])!r} is not a whole number; give one")
            values[name] = int(number[1]) if number else 0
            del rest[-1 if number else len(rest) :]
        return values

    def _flow(self, line: int, values: dict[str, int], source: str, destination: str) -> FileFlow:
        if "size" not in values:
            raise fault(self._path, line, "the flow has no size; write size and a number of bytes, 0 for no limit")
        if ("start" in values) == ("trigger" in values):
            raise fault(self._path, line, "the flow needs start or trigger, and not both; correct it")
        self._not_used |= dict.fromkeys(NOT_USED[name] for name in values if name in NOT_USED)
        opens = tuple({values[name]: None for name in STARTS if name in values})
        start_ns = round(values.get("start", 0) / PS_PER_NS)
        return FileFlow(source, destination, start_ns, values["size"], line, values.get("trigger", NO_GATE), opens)

    def _add_trigger(self, line: int, values: dict[str, int]) -> None:
        types = [name for name in values if name in TYPES]
        if "id" not in values or len(types) != 1:
            raise fault(self._path, line, f"the trigger lacks its id or type; write id, a number, and one of: {', '.join(TYPES)}")
        if (number := values["id"]) in self._triggers:
            raise fault(self._path, line, f"trigger {number} is in line {self._triggers[number].line} already; remove one")
        self._triggers[number] = _Trigger(line, types[0], values.get("count", 0))

    def flows(self) -> FileFlows:
        """Returns the flows. Raises WorkloadError if they are not what the header says."""
        found = {"Connections": len(self._flows), "Triggers": len(self._triggers), "Failures": self._failures}
        for name, number in found.items():
            told, line = self._header.get(name, (0, None))
            if told != number:
                raise fault(self._path, line, f"it has {number} {name.lower()}, and {name} says {told}; correct the number")
        nodes, _ = self._header["Nodes"]
        openers = Counter(number for flow in self._flows for number in flow.opens)
        for flow in self._flows:
            if why := self._why_not(flow, nodes, openers):
                raise fault(self._path, flow.line, why)
        for number, trigger in self._triggers.items():
            count = trigger.count if trigger.type == "barrier" else min(1, openers[number])
            if count != openers[number]:
                why = f"{trigger.type} {number} waits for {count} flows, and {openers[number]} start it; correct type or count"
                raise fault(self._path, trigger.line, why)
        gates = {number: gate for gate, number in enumerate(self._triggers)} | {NO_GATE: NO_GATE}
        for flow in self._flows:
            flow.gate, flow.opens = gates[flow.gate], tuple(gates[number] for number in flow.opens)
        return FileFlows(self._flows, (*self._not_used, *([f"{self._failures} failures of links"] if self._failures else [])))

    def _why_not(self, flow: FileFlow, nodes: int, openers: Counter[int]) -> str:
        """Returns what is wrong with a flow. A gate stands for a trigger: it opens when all flows that name it have ended."""
        if nodes <= max(int(flow.source), int(flow.destination)):
            return f"{flow.source}->{flow.destination} is not among the {nodes} nodes; correct it"
        for number in (*flow.opens, *([] if flow.gate == NO_GATE else [flow.gate])):
            if number not in self._triggers:
                return f"there is no trigger {number}; add 'trigger id {number} oneshot'"
        if flow.gate != NO_GATE and not openers[flow.gate]:
            return f"no flow starts trigger {flow.gate}; give one send_done_trigger {flow.gate}"
        return ""


READER = FlowReader("htsim", "htsim (.cm)", recognizes, read)
