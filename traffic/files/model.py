# SPDX-License-Identifier: Apache-2.0
"""Flows as another tool's file describes them, and the reader of a format. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.traffic.flows import NO_GATE


@dataclass(slots=True)
class FileFlow:
    """A flow. Its ends have the names of the file."""

    source: str
    destination: str
    start_ns: int
    """After the start of traffic, or after its gate opens."""
    size_bytes: int
    line: int | None = None
    """The line of the file, for errors."""
    gate: int = NO_GATE
    opens: tuple[int, ...] = ()
    """As those of a FlowRequest (traffic/flows.py)."""


@dataclass(frozen=True, slots=True)
class FileFlows:
    """All flows of a file."""

    flows: Sequence[FileFlow]
    not_used: tuple[str, ...] = ()
    """What the file has and dc-gym has not, a line each."""
    assumed: tuple[str, ...] = ()
    """What holds because the file does not say it, a line each."""
    addresses: tuple[str, ...] = ()
    """The IP addresses among the ends, in the order of appearance. `files.read` fills it in."""


@dataclass(frozen=True, slots=True)
class FlowReader:
    """A format."""

    name: str
    title: str
    """The tools that use it, for users."""
    recognizes: Callable[[bytes], bool]
    """Returns whether a file that begins with these bytes is of this format. It gets the first 64 KiB."""
    read: Callable[[Path], FileFlows]
    """Returns the flows of a file. Raises WorkloadError."""
