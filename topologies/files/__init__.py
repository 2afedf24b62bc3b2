# SPDX-License-Identifier: Apache-2.0
"""Networks in other tools' files, for topology.kind `file`. A format is a file of this folder with a READER (base/readers.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dc_gym.base import bounded, readers
from dc_gym.base.errors import TopologyError
from dc_gym.topologies.files.model import FileLink, FileTopology, TopologyReader

__all__ = ["FileLink", "FileTopology", "TopologyReader", "fault", "formats", "is_network", "read"]


MOST_TOLD = 4


def formats() -> tuple[TopologyReader, ...]:
    """Returns the readers of all formats."""
    return readers.in_folder(__name__)


def fault(path: Path, line: int | None, why: str) -> TopologyError:
    """Returns an error about a place in a file: what is wrong there, and the remedy."""
    return TopologyError(readers.place(path, line, why))


def _reader_of(text: str) -> TopologyReader | None:
    """Returns the reader of the format in which a text begins, if there is one."""
    return next((reader for reader in formats() if reader.recognizes(text[: readers.HEAD_BYTES])), None)


def is_network(path: Path) -> bool:
    """Returns whether a file holds a network in one of the formats. Specs are TOML, or a result's manifest."""
    if path.suffix == ".toml" or path.name == "manifest.json":
        return False
    return _reader_of(readers.head_of(path).decode(errors="replace").replace("\r\n", "\n")) is not None


def read(path: Path) -> FileTopology:
    """Returns the network in a file. Raises TopologyError in one line."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except (OSError, UnicodeDecodeError) as error:
        raise fault(path, None, f"cannot read it: {error}; give a file of text") from None


@lru_cache(maxsize=4)  # a network is built several times
def _read(path: Path, mtime_ns: int, size_bytes: int) -> FileTopology:
    text = bounded.read_text(path)
    reader = _reader_of(text)
    if reader is None:
        known = "; ".join(reader.title for reader in formats())
        raise fault(path, None, f"is in no known format; give a file of one of these: {known}")
    return _without_isolated(reader.read(path, text))


def _without_isolated(topology: FileTopology) -> FileTopology:
    """Returns a network without the nodes that have no link. They are not used."""
    ends = {node for link in topology.links for node in (link.a, link.b)}
    if not (alone := [node for node in (*topology.hosts, *topology.switches) if node not in ends]):
        return topology
    hosts, switches = (tuple(node for node in nodes if node in ends) for nodes in (topology.hosts, topology.switches))
    some = ", ".join(alone if len(alone) <= MOST_TOLD else [*alone[:MOST_TOLD], "..."])
    return replace(
        topology, hosts=hosts, switches=switches, not_used=(*topology.not_used, f"{len(alone)} nodes without a link: {some}")
    )
