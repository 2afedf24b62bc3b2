# SPDX-License-Identifier: Apache-2.0
"""Flows in other tools' files, for workload.kind `file`. A format is a file of this folder with a READER (base/readers.py)."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dc_gym.base import bounded, readers
from dc_gym.base.errors import WorkloadError
from dc_gym.traffic.files.model import FileFlow, FileFlows, FlowReader

__all__ = ["FileFlow", "FileFlows", "FlowReader", "fault", "formats", "read", "text_of"]


ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]+")


def formats() -> tuple[FlowReader, ...]:
    """Returns the readers of all formats."""
    return readers.in_folder(__name__)


def fault(path: Path, line: int | None, why: str) -> WorkloadError:
    """Returns an error about a place in a file: what is wrong there, and the remedy."""
    return WorkloadError(readers.place(path, line, why))


def text_of(path: Path) -> str:
    """Returns the text of a file of flows."""
    return bounded.read_text(path, bounded.TABLE_BYTES)


def read(path: Path) -> FileFlows:
    """Returns the flows of a file. Raises WorkloadError in one line."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except (OSError, UnicodeDecodeError) as error:
        raise fault(path, None, f"cannot read it: {error}; give a file of flows") from None


@lru_cache(maxsize=4)  # flows are made several times
def _read(path: Path, mtime_ns: int, size_bytes: int) -> FileFlows:
    head = readers.head_of(path)
    reader = next((reader for reader in formats() if reader.recognizes(head)), None)
    if reader is None:
        known = "; ".join(reader.title for reader in formats())
        raise fault(path, None, f"is in no known format; give a file of one of these: {known}")
    return _with_addresses(reader.read(path))


def _with_addresses(content: FileFlows) -> FileFlows:
    ends = dict.fromkeys(end for flow in content.flows for end in (flow.source, flow.destination))
    if not (addresses := tuple(end for end in ends if ADDRESS.fullmatch(end))):
        return content
    told = f"its {len(addresses)} addresses are the hosts in the order of appearance, unless hosts have them all"
    return replace(content, addresses=addresses, assumed=(*content.assumed, told))
