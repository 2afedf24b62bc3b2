# SPDX-License-Identifier: Apache-2.0
"""A graph in GML or GraphML, read by networkx, such as those of the Topology Zoo, of FNSS and of networkx itself.

Hosts are the nodes that an attribute such as `type` calls so. Where it calls none so, the nodes of a map (with Internal, Latitude
or Longitude) are switches with a host each. In other graphs the nodes with one link are hosts; if there are none, all nodes are
switches with a host each. Nodes are called by their labels, and where a label is not unique, by label and id.

Attributes of edges may give rate, delay and loss: texts with a unit, or numbers whose unit is known (LinkSpeedRaw is bit/s;
`delay_ms` and FNSS' `capacity_unit` name theirs). In a directed graph an edge and one in the other direction are one link.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dc_gym.base.errors import SpecError, in_one_line
from dc_gym.base.units import PPB, TIME_UNITS, parse_share
from dc_gym.topologies.files import fault
from dc_gym.topologies.files.model import FileLink, FileTopology, TopologyReader, host_each

ROLES = ("type", "kind", "role", "node_type", "device_type")
HOST_WORDS = {"host", "server", "client", "end_host", "endhost", "end-host", "computer"}
PLACES = {"Internal", "Latitude", "Longitude"}
RATES = ("rate", "capacity", "bandwidth", "bw", "data_rate", "speed", "link_speed", "linkspeed")
DELAYS = ("delay", "latency", "propagation_delay")
LOSSES = ("packet_loss", "loss")
LABELS = ("linklabel", "label")
"""Texts that are rates in some files."""
RATE_UNITS = dict.fromkeys(("bit/s", "bps", "b/s", "bits/s"), 1) | {
    letter + word: factor
    for letters, factor in (("kK", 10**3), ("mM", 10**6), ("gG", 10**9), ("tT", 10**12))
    for letter in letters
    for word in ("", "b", "bps", "b/s", "bit", "bit/s", "bits", "bits/s")
}
DELAY_UNITS = {**TIME_UNITS, "sec": 10**9, "msec": 10**6, "usec": 10**3, "\u00b5s": 10**3}
RATE_KEYS = {"linkspeedraw": "bps"} | {f"{name}_{unit}": unit for name in RATES for unit in ("bps", "kbps", "mbps", "gbps")}
DELAY_KEYS = {f"{name}_{unit}": unit for name in DELAYS for unit in TIME_UNITS}
RATE_KEYS |= dict.fromkeys(RATES, "")
DELAY_KEYS |= dict.fromkeys(DELAYS, "")
"""Names of attributes in small letters, and the unit that each names."""
QUANTITY = re.compile(r"[<>~=\s]*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)\s*(.*?)\s*")


def recognizes(beginning: str) -> bool:
    """Returns True for GML and GraphML."""
    return "<graphml" in beginning or re.search(r"^\s*graph\s*\[", beginning, re.MULTILINE) is not None


def read(path: Path, text: str) -> FileTopology:
    """Returns the network in a file."""
    graph = _graph(path, text)
    names = _names(graph)
    edges = list(_edges(graph))
    inside = [(a, b, data) for a, b, data in edges if a != b]
    degrees = Counter(node for a, b, _ in inside for node in (a, b))
    if not inside:
        raise fault(path, None, f"it has {len(names)} nodes and 0 links between two of them; give it edges")
    unread = Counter[str]()
    links = [_link(path, (names[a], names[b]), data, graph.graph, unread) for a, b, data in inside]
    notes = [f"{name} of {count} edges" for name, count in unread.items()]
    notes += [f"{len(edges) - len(inside)} edges from a node to itself"] if len(edges) > len(inside) else []
    hosts, why = _hosts(graph, degrees)
    switches = tuple(name for node, name in names.items() if node not in hosts)
    if hosts:
        return FileTopology(tuple(names[node] for node in names if node in hosts), switches, tuple(links), tuple(notes), why)
    made, more = host_each(names[node] for node in names if node in degrees)
    return FileTopology(made, switches, (*links, *more), tuple(notes), why)


def _graph(path: Path, text: str) -> Any:
    try:
        import networkx
    except ImportError:
        raise fault(path, None, "GML and GraphML need networkx; pip install 'dc-gym[files]'") from None
    xml = "<graphml" in text
    if "<!DOCTYPE" in text:
        raise fault(path, None, "it has a document type, which could name other files; remove <!DOCTYPE ...>")
    try:
        if xml:
            with warnings.catch_warnings(action="ignore"):  # of attributes without a type
                return networkx.parse_graphml(text.encode())
        # Files of the Topology Zoo have parallel edges and do not say so.
        return networkx.parse_gml(re.sub(r"(?m)^(\s*graph\s*\[)", r"\1 multigraph 1 ", text, count=1).split("\n"), label="id")
    except (networkx.NetworkXException, SyntaxError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = in_one_line(error).partition(": ")[2] or in_one_line(error)
        raise fault(path, None, f"networkx does not read it: {why}; write it with networkx") from None


def _names(graph: Any) -> dict[Any, str]:
    """Returns the name of each node."""
    labels = {node: str(data.get("label", data.get("name", node))).strip() for node, data in graph.nodes(data=True)}
    count = Counter(_plain(label) for label in labels.values())
    return {node: label if count[_plain(label)] == 1 and _plain(label) else f"{label} {node}" for node, label in labels.items()}


def _plain(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", label)


def _edges(graph: Any) -> Iterator[tuple[Any, Any, Mapping[str, Any]]]:
    """Yields the edges; of a directed graph without those that are the other direction of one before."""
    one_way = Counter[tuple[Any, Any]]()
    for a, b, data in graph.edges(data=True):
        if graph.is_directed() and one_way[b, a]:
            one_way[b, a] -= 1
            continue
        one_way[a, b] += a != b
        yield a, b, data


def _hosts(graph: Any, degrees: Mapping[Any, int]) -> tuple[set[Any], tuple[str, ...]]:
    """Returns the nodes that are hosts, and why if the file does not say it."""
    nodes = graph.nodes(data=True)
    named = {node for node, data in nodes if any(str(data.get(role, "")).lower() in HOST_WORDS for role in ROLES)}
    if named:
        return named, ()
    leaves = {node for node, links in degrees.items() if links == 1}
    if PLACES & {name for _, data in nodes for name in data} or not leaves or len(leaves) == len(degrees):
        return set(), ("no node has type host, so each has a host of its own",)
    return leaves, (f"no node has type host, so the {len(leaves)} nodes with one link are hosts",)


def _link(path: Path, ends: tuple[str, str], data: Mapping[str, Any], graph: Mapping[str, Any], unread: Counter[str]) -> FileLink:
    given = {str(name).lower(): value for name, value in data.items()}
    units = {str(name).lower(): str(unit) for name, unit in graph.items()}
    try:
        measured_bps = _measured(given, units, RATE_KEYS, RATE_UNITS, unread)
        rate_bps = _labelled(given) if measured_bps is None else measured_bps
        delay_ns = _measured(given, units, DELAY_KEYS, DELAY_UNITS, unread)
        losses = [_loss_ppb(given[name]) for name in LOSSES if name in given]
    except (SpecError, ValueError) as error:
        raise fault(path, None, f"edge {' -- '.join(map(repr, ends))}: {error}; mend the file") from None
    return FileLink(*ends, rate_bps, delay_ns, losses[0] if losses else 0)


def _measured(
    given: Mapping[str, Any], graph: Mapping[str, str], keys: Mapping[str, str], units: Mapping[str, int], unread: Counter[str]
) -> int | None:
    """Returns the first of the attributes that an edge has, in base units. One without a unit is not read."""
    for name, own_unit in keys.items():
        if name in given:
            unit = own_unit or str(given.get(f"{name}units") or graph.get(f"{name}_unit") or "")
            if (value := _quantity(name, given[name], unit, units)) is not None:
                return value
            unread[f"{name}, a number without a unit,"] += 1
    return None


def _quantity(name: str, value: object, unit: str, units: Mapping[str, int]) -> int | None:
    match = QUANTITY.fullmatch(str(value))
    if match is None or (match[2] or unit or next(iter(units))) not in units:
        raise ValueError(f"{name} {value!r} is no number with a unit such as {next(iter(units))!r}")
    word = match[2] or unit
    return round(Fraction(match[1]) * units[word]) if word else None


def _labelled(given: Mapping[str, Any]) -> int | None:
    """Returns the rate in an edge's label, such as 10 Gbps."""
    for name in LABELS:
        match = QUANTITY.fullmatch(str(given.get(name, "")))
        if match is not None and match[2] in RATE_UNITS:
            return _quantity(name, match[0], "", RATE_UNITS)
    return None


def _loss_ppb(value: object) -> int:
    share = parse_share(value if isinstance(value, str) and "%" in value else float(str(value)), PPB, "loss")
    if not 0 <= share <= PPB:
        raise ValueError(f"loss {value!r} is no share from 0 to 1")
    return share


READER = TopologyReader("graphs", "GML or GraphML (networkx, the Topology Zoo)", recognizes, read)
