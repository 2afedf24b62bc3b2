# SPDX-License-Identifier: Apache-2.0
"""Networks in other tools' files, for topology.kind `file`. A format is a file of this folder with a READER (base/readers.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dc_gym.base import bounded, readers
from dc_gym.base.errors import TopologyError
from dc_gym.topologies.files.model import FileTopology

__all__ = ["fault", "is_network", "read"]

MOST_TOLD = 4


def is_network(path: Path) -> bool:
    """Returns whether a file holds a network in one of the formats. Specs are TOML, or a result's manifest."""
    if path.suffix == ".toml" or path.name == "manifest.json":
        return False
    return FORMATS.find(readers.head_of(path).decode(errors="replace").replace("\r\n", "\n")) is not None


def read(path: Path) -> FileTopology:
    """Returns the network in a file. Raises TopologyError in one line."""
    network: FileTopology = FORMATS.read(path)
    return network


def _read(path: Path) -> FileTopology:
    text = bounded.read_text(path)
    topology: FileTopology = FORMATS.require(path, text[: readers.HEAD_BYTES]).read(path, text)
    ends = {node for link in topology.links for node in (link.a, link.b)}
    if not (alone := [node for node in (*topology.hosts, *topology.switches) if node not in ends]):
        return topology
    hosts, switches = (tuple(node for node in nodes if node in ends) for nodes in (topology.hosts, topology.switches))
    some = ", ".join(alone if len(alone) <= MOST_TOLD else [*alone[:MOST_TOLD], "..."])
    not_used = (*topology.not_used, f"{len(alone)} nodes without a link: {some}")
    return replace(topology, hosts=hosts, switches=switches, not_used=not_used)


FORMATS = readers.Formats(__name__, TopologyError, _read)
fault = FORMATS.fault
