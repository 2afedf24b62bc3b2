# SPDX-License-Identifier: Apache-2.0
"""Topology files of HPCC's simulator (SIGCOMM 2019), and of ConWeave, astra-sim's ns-3 and SimAI, which follow it.

Words with blanks and line ends between them: the numbers of nodes, switches and links, the switches, and for each link its two
nodes, rate, delay and the share of packets that it loses. SimAI's first line has six words: nodes, GPUs of a server, NVSwitches,
switches, links, the kind of GPU. Its NVSwitches come before the switches. Rates and times are written as in ns-3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path

from dc_gym.base.units import PPB
from dc_gym.topologies.files import fault
from dc_gym.topologies.files.model import FileLink, FileTopology, TopologyReader

RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKMG]i?)?(b|B)(?:ps|/s)")
TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s)?")
PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "ki": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "": 10**9}
MOST_DIGITS = 6


def recognizes(text: str) -> bool:
    """Returns whether the first line has the numbers of nodes, switches and links, as HPCC's or as SimAI's."""
    words = text.partition("\n")[0].split()
    return len(words) in (3, 6) and all(word.isdecimal() for word in words[:5])


def read(path: Path, text: str) -> FileTopology:
    """Returns the network in a text."""
    words = _Words(path, text)
    nodes, *counts = (
        words.number("a number of nodes, switches or links") for _ in range(len(text.partition("\n")[0].split()[:5]))
    )
    _, nv_count, switch_count, link_count = counts if len(counts) == 4 else (0, 0, *counts)
    not_used = []
    if len(counts) == 4:
        not_used.append(f"{nv_count} NVSwitches and their links; the kind of GPU, {words.next('the kind of GPU')}")
    nv_switches = {words.node(nodes, "an NVSwitch") for _ in range(nv_count)}
    switches = dict.fromkeys(words.node(nodes, "a switch") for _ in range(switch_count))
    links = [words.link(nodes) for _ in range(link_count)]
    if rest := sum(1 for _ in words):
        not_used.append(f"{rest} words after the last of the {link_count} links")
    hosts = (str(node) for node in range(nodes) if str(node) not in switches and str(node) not in nv_switches)
    kept = (link for link in links if not {link.a, link.b} & nv_switches)
    return FileTopology(tuple(hosts), tuple(switches), tuple(kept), tuple(not_used))


class _Words:
    """The words of a file, one after the other. Errors have the line of the word that was read last."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._line = path, 1
        self._rest = ((word, number) for number, line in enumerate(text.split("\n"), 1) for word in line.split())

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return self._rest

    def next(self, what: str) -> str:
        """Returns the next word. `what` is what it should be."""
        word, self._line = next(self._rest, ("", self._line))
        if not word:
            raise fault(self._path, self._line, f"the file ends where {what} should be; correct the numbers in line 1")
        return word

    def number(self, what: str) -> int:
        word = self.next(what)
        if not word.isdecimal() or len(word) > MOST_DIGITS:
            raise fault(self._path, self._line, f"{word!r} is not {what}; write a whole number of at most {MOST_DIGITS} digits")
        return int(word)

    def node(self, nodes: int, what: str) -> str:
        number = self.number(what)
        if number >= nodes:
            raise fault(self._path, self._line, f"{what} is {number}, and nodes are 0 .. {nodes - 1}; correct one of them")
        return str(number)

    def link(self, nodes: int) -> FileLink:
        a, b = self.node(nodes, "a node of a link"), self.node(nodes, "a node of a link")
        rate = self._quantity(RATE, "a rate", "100Gbps")
        delay = self._quantity(TIME, "a delay", "1000ns")
        rate_bps = Decimal(rate[1]) * PREFIXES[rate[2] or ""] * (8 if rate[3] == "B" else 1)
        return FileLink(a, b, round(rate_bps), round(Decimal(delay[1]) * UNITS_NS[delay[2] or ""]), self._loss(), self._line)

    def _quantity(self, form: re.Pattern[str], what: str, example: str) -> re.Match[str]:
        word = self.next(what)
        if (match := form.fullmatch(word)) is None:
            raise fault(self._path, self._line, f"{word!r} is not {what}; write it like {example}")
        return match

    def _loss(self) -> int:
        word = self.next("a share of lost packets")
        try:
            share = Decimal(word)
        except InvalidOperation:
            share = Decimal(-1)
        if not (share.is_finite() and 0 <= share <= 1):
            raise fault(self._path, self._line, f"{word!r} is not a share of lost packets; write it like 0 or 0.001")
        return round(share * PPB)


READER = TopologyReader("hpcc", "HPCC, ConWeave, astra-sim and SimAI (ns-3)", recognizes, read)
