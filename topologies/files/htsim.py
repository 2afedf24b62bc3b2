# SPDX-License-Identifier: Apache-2.0
"""Topology files (.topo) of htsim: Clos networks of two or three tiers, by the numbers of the links of their switches.

Hosts are 0, 1, ...; switches LS0, ... (ToR), US0, ... (aggregation) and CS0, ... (core), joined as htsim joins them. A switch's
latency is added to the delays of its links, half to each, so a path takes as long as in htsim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dc_gym.topologies.files import fault
from dc_gym.topologies.files.model import FileLink, FileTopology, TopologyReader

HEADER = ("nodes", "tiers", "podsize")
NEEDED = ("downlink_speed_gbps", "downlink_latency_ns", "radix_down")
DEFAULTS = {"bundle": 1, "oversubscribed": 1, "switch_latency_ns": 0}
USED = {*HEADER, *NEEDED, *DEFAULTS, "radix_up"}
GBIT = 10**9
MOST_DIGITS, MOST_LINKS = 6, 250_000


def recognizes(text: str) -> bool:
    """Returns whether the text has htsim's header and a tier."""
    names = {line.split()[0].lower() for line in text.split("\n") if line.strip()}
    return {"nodes", "tier"} <= names and bool({"tiers", "podsize"} & names)


def read(path: Path, text: str) -> FileTopology:
    """Returns the network in a text."""
    header, tiers = _tables(path, text)
    header.require(HEADER, "")
    header.check(header["tiers"] in (2, 3), "tiers", "is not 2 or 3; give one of them")
    tiers = tiers[: header["tiers"]]
    for number, tier in enumerate(tiers):
        tier.require(NEEDED if tier is tiers[-1] else (*NEEDED, "radix_up"), f" of tier {number}")
    clos = _clos(header, tiers)
    not_used = dict.fromkeys(name for table in (header, *tiers) for name in table if name not in USED)
    return FileTopology(tuple(map(str, range(clos.hosts))), tuple(clos.switches()), tuple(clos.links()), tuple(not_used))


class _Table(dict[str, int]):
    """The values of a part of the file. Its errors have their lines."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.lines = path, dict[str, int]()

    def __missing__(self, name: str) -> int:
        return DEFAULTS[name]

    def require(self, names: tuple[str, ...], where: str) -> None:
        for name in names:
            if not self.get(name):
                raise fault(self.path, self.lines.get(name), f"{name}{where} is missing or 0; give a number above 0")

    def check(self, holds: bool, name: str, why: str) -> None:
        if not holds:
            raise fault(self.path, self.lines.get(name, self.lines.get("radix_down")), f"{name} {self[name]} {why}")


def _tables(path: Path, text: str) -> tuple[_Table, list[_Table]]:
    """Returns the values before the first tier, and those of three tiers."""
    header, tiers = _Table(path), [_Table(path) for _ in range(3)]
    table = header
    for line, words in enumerate((line.split() for line in text.split("\n")), 1):
        if not words or words[0].startswith("#"):
            continue
        name = words[0].lower()
        if len(words) < 2 or not words[1].isdecimal() or len(words[1]) > MOST_DIGITS:
            raise fault(path, line, f"{' '.join(words)!r} is not a word and a whole number; write it like 'Radix_Down 2'")
        value = int(words[1])
        if name == "tier":
            if value >= len(tiers):
                raise fault(path, line, f"tier {value} is not one of 0, 1 and 2; correct it")
            table = tiers[value]
        elif name in table:
            raise fault(path, line, f"{words[0]} is in line {table.lines[name]} already; remove one")
        else:
            table[name], table.lines[name] = value, line
    return header, tiers


def _clos(header: _Table, tiers: list[_Table]) -> _Clos:
    """Returns the network that the numbers give. Raises TopologyError if they contradict one another."""
    hosts, pod, low = header["nodes"], header["podsize"], tiers[0]
    header.check(hosts % pod == 0, "podsize", f"does not divide nodes, {hosts}; change one")
    header.check(len(tiers) == 3 or hosts == pod, "podsize", f"is not nodes, {hosts}; with two tiers give the same")
    low.check(low["bundle"] == 1, "bundle", "is not 1; a host has one link")
    low.check(pod % low["radix_down"] == 0, "radix_down", f"does not divide podsize, {pod}; change one")
    counts = [pod // low["radix_down"], hosts // pod]
    for lower, upper, below in zip(tiers, tiers[1:], counts, strict=False):
        bundle, name = upper["bundle"], "oversubscribed"
        lower.check(bundle > 0 and lower["radix_up"] % bundle == 0, "radix_up", f"is no multiple of bundle {bundle}; change one")
        down, up = lower["radix_down"] * lower["downlink_speed_gbps"], lower["radix_up"] * upper["downlink_speed_gbps"]
        lower.check(down == up * lower[name], name, f"does not fit {down} Gbit/s down and {up} Gbit/s up of a switch; change one")
        upper.check(upper["radix_down"] == below * bundle, "radix_down", f"is not bundle x {below} below it; change one")
    aggs = low["radix_up"] // tiers[1]["bundle"]
    cores = aggs * tiers[1]["radix_up"] // tiers[2]["bundle"] if len(tiers) == 3 else 0
    links = hosts + hosts // pod * (counts[0] * low["radix_up"] + aggs * tiers[1].get("radix_up", 0))
    header.check(links <= MOST_LINKS, "nodes", f"gives {links} links, above {MOST_LINKS}; give fewer")
    return _Clos(tiers, hosts, hosts // pod, counts[0], aggs, cores)


@dataclass(frozen=True, slots=True)
class _Clos:
    """A Clos network. `tors` and `aggs` are the numbers of switches in a pod."""

    tiers: list[_Table]
    hosts: int
    pods: int
    tors: int
    aggs: int
    cores: int

    def switches(self) -> Iterator[str]:
        for letter, count in (("L", self.pods * self.tors), ("U", self.pods * self.aggs), ("C", self.cores)):
            yield from (f"{letter}S{number}" for number in range(count))

    def links(self) -> Iterator[FileLink]:
        for host in range(self.hosts):
            yield self._link(str(host), f"LS{host // self.tiers[0]['radix_down']}", 0)
        for tor in range(self.pods * self.tors):
            first = tor // self.tors * self.aggs
            for agg in range(first, first + self.aggs):
                yield from [self._link(f"LS{tor}", f"US{agg}", 1)] * self.tiers[1]["bundle"]
        for agg in range(self.pods * self.aggs if self.cores else 0):
            for core in range(agg % self.aggs, self.cores, self.aggs):
                yield from [self._link(f"US{agg}", f"CS{core}", 2)] * self.tiers[2]["bundle"]

    def _link(self, lower: str, upper: str, tier: int) -> FileLink:
        """Returns a link between a tier and that below it."""
        latencies_ns = sum(table["switch_latency_ns"] for table in self.tiers[max(0, tier - 1) : tier + 1])
        delay_ns = self.tiers[tier]["downlink_latency_ns"] + latencies_ns // 2
        return FileLink(lower, upper, self.tiers[tier]["downlink_speed_gbps"] * GBIT, delay_ns)


READER = TopologyReader("htsim", "htsim (.topo)", recognizes, read)
