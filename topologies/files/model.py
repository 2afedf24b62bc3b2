# SPDX-License-Identifier: Apache-2.0
"""A network as another tool's file describes it, and the reader of a format. Plain data.

Nodes have the names of the file. Rates are bit/s, delays ns; None where the file has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileLink:
    """A full-duplex link."""

    a: str
    b: str
    rate_bps: int | None = None
    delay_ns: int | None = None
    loss_ppb: int = 0
    line: int | None = None  # of the file, for errors


@dataclass(frozen=True, slots=True)
class FileTopology:
    """A network."""

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[FileLink, ...]
    not_used: tuple[str, ...] = ()  # what the file has and dc-gym has not, a line each
    assumed: tuple[str, ...] = ()  # what holds because the file does not say it, a line each


def host_each(switches: Iterable[str]) -> tuple[tuple[str, ...], tuple[FileLink, ...]]:
    """Returns a host for each switch, which has its name after an h, and the links between them."""
    links = tuple(FileLink(f"h {name}", name) for name in switches)
    return tuple(link.a for link in links), links


@dataclass(frozen=True, slots=True)
class TopologyReader:
    """A format."""

    name: str
    title: str  # the tools that use it
    recognizes: Callable[[str], bool]  # of the first 64 KiB of a text
    read: Callable[[Path, str], FileTopology]  # the network in a text; the path is for errors
