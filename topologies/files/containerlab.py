# SPDX-License-Identifier: Apache-2.0
"""A containerlab topology (*.clab.yml): its nodes, and the links between them in the brief and the extended form.

A node of kind linux, or of another kind of end system, is a host, unless its image is a router's, or one of its several links
leads to another such node. Other kinds are switches. Nodes without links, such as collectors in the management network, and links
to the outside are left out. containerlab's links have no rates and delays; they are read from a link's `vars` or `labels`, in
the units of `containerlab tools netem set`: delay 5ms, loss in percent, rate in kbit/s or with a unit.

YAML is composed and never constructed, so no tag makes an object, and a file with anchors is unfolded to MOST_VALUES at most.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import SpecError
from dc_gym.base.units import PPB, parse_rate_bps, parse_share, parse_time_ns
from dc_gym.topologies.files import fault
from dc_gym.topologies.files.model import FileLink, FileTopology, TopologyReader, host_each

HOST_KINDS = {"linux", "ext-container", "k8s-kind", "freebsd", "openbsd", "generic_vm", "border0"}
HOST_KINDS |= {"keysight_ixia-c-one", "spirent_stc", "ostinato"}
ROUTER_IMAGES = re.compile(r"\b(frr|frrouting|bird2?|gobgp|openbgpd|quagga|vyos|openvswitch)\b")
BETWEEN_NODES = ("brief", "veth", "veth-stitch")
NO_NODES = ("host", "mgmt-net", "macvlan")
"""What a brief link may have in place of a node."""
END, SWITCH, OUTSIDE = "end system", "switch", "outside"
NETEM, NOT_HERE = ("rate", "delay", "loss", "jitter", "corruption"), ("jitter", "corruption")
NULL, MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"
MOST_VALUES, DEEPEST = 1_000_000, 100


class Table(dict[str, Any]):
    """A mapping of a YAML file, and the line where it begins."""

    line: int | None = None


@dataclass(slots=True)
class _Plain:
    """Turns composed YAML into texts, lists and tables. All scalars are texts."""

    path: Path
    left: int = MOST_VALUES

    def of(self, node: Any, depth: int = 0) -> Any:
        self.left -= 1
        if self.left < 0 or depth > DEEPEST:
            line = node.start_mark.line + 1
            raise fault(self.path, line, f"with its anchors it unfolds to over {MOST_VALUES} values; write them out")
        if node.id == "scalar":
            return "" if node.tag == NULL else node.value
        if node.id == "sequence":
            return [self.of(part, depth + 1) for part in node.value]
        return self._table(node, depth + 1)

    def _table(self, node: Any, depth: int) -> Table:
        table, merged = Table(), Table()
        table.line = node.start_mark.line + 1
        for name_node, value_node in node.value:
            name, value = self.of(name_node, depth), self.of(value_node, depth)
            if name_node.tag == MERGE:
                for part in reversed(value if isinstance(value, list) else [value]):
                    merged.update(part if isinstance(part, Table) else {})
            elif not isinstance(name, str) or name in table:
                raise fault(self.path, name_node.start_mark.line + 1, f"key {name!r} is there already, or no name; rename one")
            else:
                table[name] = value
        for name in merged.keys() - table.keys():
            table[name] = merged[name]
        return table


def recognizes(beginning: str) -> bool:
    """Returns True for YAML with a topology of containerlab's."""
    return re.search(r"^topology:", beginning, re.MULTILINE) is not None


def read(path: Path, text: str) -> FileTopology:
    """Returns the network in a file."""
    topology = _table(path, _document(path, text), "topology")
    roles, told = _roles(path, topology), Counter[str]()
    links = tuple(_links(path, topology, roles, told))
    if not links:
        raise fault(path, topology.line, "topology.links joins 0 pairs of nodes; give links between nodes")
    hosts, not_used = tuple(_hosts(roles, links)), tuple(f"{count} {what}" for what, count in told.items())
    switches = tuple(name for name in roles if name not in hosts)
    if hosts:
        return FileTopology(hosts, switches, links, not_used)
    linked = {name for link in links for name in (link.a, link.b)}
    made, more = host_each(name for name in switches if name in linked)
    return FileTopology(made, switches, links + more, not_used, ("no node is of kind linux, so each has a host of its own",))


def _document(path: Path, text: str) -> Table:
    try:
        import yaml
    except ImportError:
        raise fault(path, None, "YAML needs PyYAML; pip install 'dc-gym[files]'") from None
    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        mark, why = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = None if mark is None else mark.line + 1
        raise fault(path, line, f"it is not YAML: {why or 'it lies too deep'}; write it as containerlab takes it") from None
    document = None if node is None else _Plain(path).of(node)
    if not isinstance(document, Table):
        raise fault(path, None, "it holds no table; write topology: with nodes: and links: below it")
    return document


def _table(path: Path, outer: Table, name: str) -> Table:
    """Returns the table of that name in another one; an empty one if there is none."""
    value = outer.get(name) or Table()
    if not isinstance(value, Table):
        raise fault(path, outer.line, f"{name}: value {value!r} is not a table; write names and values below it")
    return value


def _roles(path: Path, topology: Table) -> dict[str, str]:
    """Returns what each node is. It inherits kind and image from its group, its kind and the defaults."""
    tables, groups, kinds, defaults = (_table(path, topology, name) for name in ("nodes", "groups", "kinds", "defaults"))
    roles = {}
    for name in tables:
        node = _table(path, tables, name)
        group = _table(path, groups, str(node.get("group", "")))
        kind = str(node.get("kind") or group.get("kind") or defaults.get("kind", ""))
        if not kind:
            raise fault(path, node.line or tables.line, f"node {name!r} has no kind; give it one, such as kind: linux")
        image = next(
            (str(place["image"]) for place in (node, group, _table(path, kinds, kind), defaults) if place.get("image")), ""
        )
        end = kind in HOST_KINDS and not ROUTER_IMAGES.search(image)
        roles[name] = OUTSIDE if kind == "host" else END if end else SWITCH
    return roles


def _hosts(roles: Mapping[str, str], links: Iterable[FileLink]) -> list[str]:
    """Returns the hosts: end systems, but for those that forward between another one and a further node."""
    neighbours: dict[str, list[str]] = {}
    for link in links:
        neighbours.setdefault(link.a, []).append(link.b)
        neighbours.setdefault(link.b, []).append(link.a)
    ends = {name for name in neighbours if roles[name] == END}
    return [name for name in roles if name in ends and (len(neighbours[name]) == 1 or not ends & {*neighbours[name]})]


def _links(path: Path, topology: Table, roles: Mapping[str, str], told: Counter[str]) -> Iterator[FileLink]:
    """Yields the links between nodes, and counts what is not used."""
    tables, taken = topology.get("links") or [], dict[tuple[str, str], int | None]()
    for table in tables if isinstance(tables, list) else [tables]:
        if not isinstance(table, Table):
            raise fault(path, topology.line, "topology.links has one that is no table; write - endpoints: ['a:eth1', 'b:eth1']")
        kind = str(table.get("type") or "brief")
        ends = _ends(path, table) if kind in BETWEEN_NODES else []
        outside = [name for name, _ in ends if roles.get(name, OUTSIDE if name in NO_NODES else END) == OUTSIDE]
        if not ends or outside:
            told[f"links to the outside: {(outside or [kind])[0]}"] += 1
            continue
        for name, interface in ends:
            if name not in roles:
                raise fault(path, table.line, f"endpoint '{name}:{interface}' is of none of the {len(roles)} nodes; add the node")
            if (before := taken.setdefault((name, interface), table.line)) != table.line:
                raise fault(path, table.line, f"interface '{name}:{interface}' has a link in line {before} already; name another")
        netem = _netem(path, table)
        told.update(f"links with {name}" for name in netem if name in NOT_HERE)
        yield _link(path, table.line, ends, netem)


def _ends(path: Path, table: Table) -> list[tuple[str, str]]:
    """Returns node and interface of both endpoints."""
    endpoints = table.get("endpoints")
    texts = endpoints if isinstance(endpoints, list) else []
    parts = [(end.get("node"), end.get("interface")) if isinstance(end, Table) else str(end).partition(":")[::2] for end in texts]
    if len(parts) != 2 or not all(name and interface for name, interface in parts):
        raise fault(path, table.line, f"it has not two endpoints but {len(parts)}, or not each as 'node:interface'; write both")
    return [(str(name), str(interface)) for name, interface in parts]


def _netem(path: Path, link: Table) -> dict[str, str]:
    """Returns the impairments that a link's variables or labels name."""
    places = (_table(path, link, "labels"), _table(path, link, "vars"), link)
    return {name: str(place[name]) for place in places for name in NETEM if place.get(name)}


def _link(path: Path, line: int | None, ends: list[tuple[str, str]], netem: Mapping[str, str]) -> FileLink:
    rate, delay, loss = (netem.get(name) for name in ("rate", "delay", "loss"))
    try:
        rate_bps = None if rate is None else parse_rate_bps(f"{rate}kbit/s" if rate.isdecimal() else rate)
        delay_ns = None if delay is None else parse_time_ns(delay, "delay")
        loss_ppb = 0 if loss is None else parse_share(f"{loss.removesuffix('%')}%", PPB, "loss")
    except SpecError as error:
        raise fault(path, line, str(error)) from None
    return FileLink(ends[0][0], ends[1][0], rate_bps, delay_ns, loss_ppb, line)


READER = TopologyReader("containerlab", "containerlab (YAML)", recognizes, read)
