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
    start_ns: int  # after the start of traffic, or after its gate opens
    size_bytes: int  # 0: no limit
    line: int | None = None  # of the file, for errors
    gate: int = NO_GATE  # gates as those of a FlowRequest (traffic/flows.py)
    opens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFlows:
    """All flows of a file."""

    flows: Sequence[FileFlow]
    not_used: tuple[str, ...] = ()  # what the file has and dc-gym has not, a line each
    assumed: tuple[str, ...] = ()  # what holds because the file does not say it, a line each
    addresses: tuple[str, ...] = ()  # the IP addresses among the ends, in the order of appearance; `files.read` fills it in


@dataclass(frozen=True, slots=True)
class FlowReader:
    """A format."""

    name: str
    title: str  # the tools that use it
    recognizes: Callable[[bytes], bool]  # of the first 64 KiB of a file
    read: Callable[[Path], FileFlows]
