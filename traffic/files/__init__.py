# SPDX-License-Identifier: Apache-2.0
"""Flows in other tools' files, for workload.kind `file`. A format is a file of this folder with a READER (base/readers.py)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from dc_gym.base import bounded, readers
from dc_gym.base.errors import WorkloadError
from dc_gym.traffic.files.model import FileFlows

__all__ = ["fault", "read", "text_of"]

ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]+")


def text_of(path: Path) -> str:
    """Returns the text of a file of flows."""
    return bounded.read_text(path, bounded.TABLE_BYTES)


def read(path: Path) -> FileFlows:
    """Returns the flows of a file. Raises WorkloadError in one line."""
    flows: FileFlows = FORMATS.read(path)
    return flows


def _read(path: Path) -> FileFlows:
    content: FileFlows = FORMATS.require(path, readers.head_of(path)).read(path)
    ends = dict.fromkeys(end for flow in content.flows for end in (flow.source, flow.destination))
    if not (addresses := tuple(end for end in ends if ADDRESS.fullmatch(end))):
        return content
    told = f"its {len(addresses)} addresses are the hosts in the order of appearance, unless hosts have them all"
    return replace(content, addresses=addresses, assumed=(*content.assumed, told))


FORMATS = readers.Formats(__name__, WorkloadError, _read)
fault = FORMATS.fault
