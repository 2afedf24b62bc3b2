# SPDX-License-Identifier: Apache-2.0
"""Jobs in other tools' files, for workload.kind `job`. A format is a file of this folder with a READER (base/readers.py)."""

from __future__ import annotations

from pathlib import Path

from dc_gym.base import readers
from dc_gym.base.errors import WorkloadError
from dc_gym.traffic.job_graph import JobGraph

__all__ = ["fault", "read"]


def read(path: Path) -> JobGraph:
    """Returns the job in a file. Raises WorkloadError in one line."""
    graph: JobGraph = FORMATS.read(path)
    return graph


def _read(path: Path) -> JobGraph:
    graph: JobGraph = FORMATS.require(path, readers.head_of(path)).read(path)
    return graph


FORMATS = readers.Formats(__name__, WorkloadError, _read)
fault = FORMATS.fault
