# SPDX-License-Identifier: Apache-2.0
"""GOAL (Group Operation Assembly Language) as text: what Schedgen writes, and LogGOPSim and ATLAHS read.

The grammar is that of LogGOPSim's txt2bin: `num_ranks N`, and for each rank `rank R { ... }` with a statement a line:

    l1: calc 100 cpu 0              ns
    l2: send 8b to 1 tag 0
    l3: recv 8b from 1 tag 0
    l2 requires l1                  l2 begins after the end of l1
    l3 irequires l2                 l3 begins after the beginning of l2

Labels are of their rank, and optional. `nic` has no effect: a host has the NICs of its network.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base import bounded
from dc_gym.traffic.flows import LARGEST
from dc_gym.traffic.job_files import fault
from dc_gym.traffic.job_graph import CALC, EDGE_DTYPE, LARGEST_MESSAGE, NODE_DTYPE, RECV, SEND, GraphFault, JobGraph

KINDS = {"calc": CALC, "send": SEND, "recv": RECV}
TOWARDS = {"send": "to", "recv": "from"}
DEPENDENCIES = {"requires": False, "irequires": True}
OPTIONS = {"tag": 2**32, "cpu": 256, "nic": 256}
"""The words that end a statement, each with a number below this."""
MOST_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class GoalReader:
    """The format."""

    name: str = "goal"
    title: str = "GOAL text (Schedgen, ATLAHS)"

    def recognizes(self, head: bytes) -> bool:
        """Returns whether the file names its number of ranks."""
        return b"num_ranks" in head

    def read(self, path: Path) -> JobGraph:
        """Returns the job of a file. It is read line by line: a line takes about 30 bytes of memory."""
        bounded.require(f"{path}:", path.stat().st_size, bounded.TABLE_BYTES)
        return _Parser(path).graph()


class _Parser:
    """A file being read, in columns."""

    def __init__(self, path: Path) -> None:
        self._path, self._line = path, 0
        self._ranks, self._rank = 0, -1
        self._seen: set[int] = set()
        self._labels: dict[str, int] = {}
        self._step = 0
        self._nodes = {name: array(NODE_DTYPE[name].char) for name in NODE_DTYPE.names or ()}
        self._edges = {name: array("B" if name == "for_start" else "I") for name in EDGE_DTYPE.names or ()}
        self._lines = array("I")

    def graph(self) -> JobGraph:
        with self._path.open(encoding="utf-8-sig") as file:
            for words in self._statements(file):
                self._take(words)
        if self._rank >= 0 or len(self._seen) < self._ranks:
            where = f"within rank {self._rank}" if self._rank >= 0 else f"after {len(self._seen)} of {self._ranks} ranks"
            raise self._fault(f"the file ends {where}; get it whole")
        graph = JobGraph(self._ranks, _columns(self._nodes, NODE_DTYPE), _columns(self._edges, EDGE_DTYPE))
        if not len(graph.nodes):
            raise self._fault("it has no calc, send or recv; give another file")
        try:
            graph.require_sound()
        except GraphFault as error:
            raise fault(self._path, self._lines[error.node], str(error)) from None
        return graph

    def _fault(self, why: str) -> Exception:
        return fault(self._path, self._line, why)

    def _statements(self, file: Any) -> Iterator[list[str]]:
        """Yields the words of each line, without comments: // up to the end of a line, and /* up to */."""
        inside = False
        for line in file:
            self._line += 1
            if "/" in line or inside:
                line, inside = _without_comments(line, inside)
            if words := line.replace(":", " : ").split():
                yield words

    def _take(self, words: list[str]) -> None:
        if words[0] == "num_ranks":
            self._ranks = self._number(words[1:], "num_ranks", 1, MOST_RANKS)
        elif words[0] == "rank":
            self._begin(words[1:])
        elif words[0] == "}" and len(words) == 1 and self._rank >= 0:
            self._rank = -1
        elif self._rank < 0:
            raise self._fault(f"{words[0]!r} is in no rank; write num_ranks N, then rank R {{ ... }}")
        elif len(words) == 3 and words[1] in DEPENDENCIES:
            self._depend(*words)
        elif len(words) > 2 and words[1] == ":":
            if words[0] in self._labels:
                raise self._fault(f"label {words[0]!r} comes twice in rank {self._rank}; give each node its own")
            self._labels[words[0]] = len(self._lines)
            self._node(words[2:])
        else:
            self._node(words)

    def _begin(self, words: list[str]) -> None:
        if self._rank >= 0 or words[1:] != ["{"]:
            raise self._fault("a rank begins here; write rank R {, and } behind the one before")
        self._rank = self._number(words[:1], "rank", 0, self._ranks - 1)
        if self._rank in self._seen:
            raise self._fault(f"rank {self._rank} comes twice; give each rank once")
        self._seen.add(self._rank)
        self._labels, self._step = {}, 0

    def _number(self, words: list[str], name: str, low: int, high: int) -> int:
        if len(words) != 1 or not words[0].isdecimal() or len(words[0]) > 20 or not low <= int(words[0]) <= high:
            raise self._fault(f"{name} {' '.join(words) or 'without a number'} is not a whole number in {low}..{high}")
        return int(words[0])

    def _depend(self, waits: str, how: str, before: str) -> None:
        for label in (waits, before):
            if label not in self._labels:
                raise self._fault(f"label {label!r} is not one of rank {self._rank} up to here; write its node first")
        values = (self._labels[before], self._labels[waits], DEPENDENCIES[how])
        for column, value in zip(self._edges.values(), values, strict=True):
            column.append(value)

    def _node(self, words: list[str]) -> None:
        word = words[0]
        if word not in KINDS:
            raise self._fault(f"{word!r} is none of calc, send, recv; write one of these")
        options = self._options(words, 2 if word == "calc" else 4)
        if word == "calc":
            amount, peer = self._number(words[1:2], "calc", 0, LARGEST), self._rank
        else:
            amount, peer = self._message(words)
        values = (amount, self._rank, peer, options["tag"], 0, self._step, KINDS[word], options["cpu"])
        for column, value in zip(self._nodes.values(), values, strict=True):
            column.append(value)
        self._lines.append(self._line)
        self._step += 1

    def _message(self, words: list[str]) -> tuple[int, int]:
        """Returns the bytes of a message, and the rank at its other end."""
        kind, size = words[0], words[1] if len(words) > 3 else ""
        if words[2:3] != [TOWARDS[kind]]:
            raise self._fault(f"write {kind} 8b {TOWARDS[kind]} RANK tag 0")
        amount = self._number([size.removesuffix("b")], f"{kind} of", 1, LARGEST_MESSAGE)
        peer = self._number(words[3:4], f"{TOWARDS[kind]} rank", 0, self._ranks - 1)
        if peer == self._rank:
            raise self._fault(f"rank {peer} sends to itself; leave it out")
        return amount, peer

    def _options(self, words: list[str], at: int) -> dict[str, int]:
        options = dict.fromkeys(OPTIONS, 0)
        for place in range(at, len(words), 2):
            if words[place] not in OPTIONS:
                raise self._fault(f"{words[place]!r} is not one of: {', '.join(OPTIONS)}; leave it out")
            options[words[place]] = self._number(words[place + 1 : place + 2], words[place], 0, OPTIONS[words[place]] - 1)
        return options


def _without_comments(line: str, inside: bool) -> tuple[str, bool]:
    """Returns a line without its comments, and whether one goes on in the next line."""
    kept = ""
    while line:
        if inside:
            _, end, line = line.partition("*/")
            inside = not end
        else:
            at = min((at for at in (line.find("//"), line.find("/*")) if at >= 0), default=len(line))
            kept, inside, line = kept + line[:at] + " ", line[at : at + 2] == "/*", line[at:]
            if not inside:
                break
            line = line[2:]
    return kept, inside


def _columns(columns: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    records = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, column in columns.items():
        records[name] = np.frombuffer(column, column.typecode) if len(column) else 0
    return records


READER = GoalReader()
