# SPDX-License-Identifier: Apache-2.0
"""Common code of the benches: experiments as TOML texts, run as cells in a scratch folder, and read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from dc_gym.base import files
from dc_gym.base.outputs import free_place, is_marked
from dc_gym.base.progress import Progress, choose
from dc_gym.results.results import Result, load_result
from dc_gym.run import sweep

START_PHASES = ("prepare", "boot", "switches", "fabric", "programs")
"""The phases of a run before the traffic, by their names in its manifest."""
PLAIN_SPEC = """
spec_version = 1
name = "{name}"
topology.preset = "{preset}"
controller.name = "cubic"
workload.kind = "pairs"
time.duration = "{duration}"
"""


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Yields a folder below results/ that is removed afterwards, whatever ends the bench."""
    with files.scratch(Path("results"), "dcgym-bench-", name) as path:
        yield path


def mark_of(bench: str) -> str:
    """Returns the mark in a figure of a bench, by which the bench recognizes it."""
    return f"dcgym bench {bench}"


def figure_place(path: Path, bench: str) -> Path:
    """Returns where a bench saves its figure. It replaces its own figure, and keeps anybody else's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return free_place(path, is_marked(mark_of(bench)))


def write_spec(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text.lstrip())
    return path


def plain_spec(name: str, preset: str, duration: str) -> str:
    """Returns the spec of a plain run: TCP Cubic between the pairs of hosts of a preset."""
    return PLAIN_SPEC.format(name=name, preset=preset, duration=duration)


def run_all(cells: Sequence[sweep.Cell], jobs: int | None = None, progress: Progress | None = None) -> dict[str, Result]:
    """Returns all cells' results by name. Raises TestbedError if one failed or is unfit."""
    with choose(quiet=False) if progress is None else nullcontext(progress) as display:
        sweep.require_all(sweep.run_cells(cells, jobs or sweep.cpus(), display))
    return {cell.name: load_result(cell.out) for cell in cells}
