# SPDX-License-Identifier: Apache-2.0
"""The network in another tool's file. Its format is found by its content (topologies/files/).

Node 13 of a file is h13 if it is a host, s13 if it is a switch. Layers follow from the distance to the hosts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import PATH, key
from dc_gym.base.readers import node_name
from dc_gym.topologies import files
from dc_gym.topologies.builder import Builder, layers_by_distance
from dc_gym.topologies.files.model import FileLink, FileTopology
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.links import LinkSpec
from dc_gym.topologies.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Keys of kind file."""

    file: Path = key(PATH, needed=True, help="another tool's file, relative to the spec ([formats](coming-from.md))")


def build(wiring: Wiring, keys: FileKeys) -> Graph:
    """The network in another tool's `file`. The keys of links hold where the file gives none."""
    path, topology = keys.file, files.read(keys.file)
    names = {host: node_name(host, "h") for host in topology.hosts} | {name: node_name(name, "s") for name in topology.switches}
    if twice := [name for name, count in Counter(names.values()).items() if count > 1]:
        alike = " and ".join(repr(node) for node, name in names.items() if name == twice[0])
        raise files.fault(path, None, f"nodes {alike} have the same letters and digits; rename one")
    links = _checked_links(path, topology)
    layers = layers_by_distance(set(topology.switches), ((link.a, link.b) for link in links))
    builder = Builder(wiring)
    for host in topology.hosts:
        builder.host(names[host])
    for switch in topology.switches:
        builder.switch(layers[switch], names[switch])
    for link in links:
        _connect(builder, path, names, link)
    try:
        return builder.graph()
    except TopologyError as error:
        raise files.fault(path, None, str(error)) from None


def _checked_links(path: Path, topology: FileTopology) -> tuple[FileLink, ...]:
    """Returns the links. Raises TopologyError for one that no network here can have."""
    hosts, nodes = set(topology.hosts), {*topology.hosts, *topology.switches}
    for link in topology.links:
        for node in (link.a, link.b):
            if node not in nodes:
                raise files.fault(path, link.line, f"node {node!r} of a link is not one of the {len(nodes)} nodes; add it")
        if link.a == link.b:
            raise files.fault(path, link.line, f"node {link.a!r} is at both ends of a link; join two nodes")
        if link.rate_bps == 0:
            raise files.fault(path, link.line, "the rate of the link is 0; give one above it")
        if {link.a, link.b} <= hosts:
            raise files.fault(path, link.line, f"hosts {link.a!r} and {link.b!r} are joined directly; put a switch between them")
    return topology.links


def _connect(builder: Builder, path: Path, names: dict[str, str], link: FileLink) -> None:
    properties = LinkSpec(rate_bps=link.rate_bps, delay_ns=link.delay_ns, loss_ppb=link.loss_ppb or None)
    try:
        builder.connect(names[link.a], names[link.b], link=properties)
    except TopologyError as error:
        if str(error).startswith("topology."):  # a key of the spec
            raise
        raise files.fault(path, link.line, str(error)) from None


register("file", build, FileKeys)
