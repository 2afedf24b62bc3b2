# SPDX-License-Identifier: Apache-2.0
"""The functions that notebooks call: they run experiments and commands, and show their figures in a cell (docs/notebooks.md).

    from dc_gym.notebook import run, timeline

    result = run("examples/dumbbell.toml", "results/first", "time.duration=1s")
    timeline(result)

A cell that is executed again does not repeat runs whose results exist, as `dcgym sweep` does not. This module needs no Jupyter.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym.base import interpreter
from dc_gym.base.errors import SpecError, TestbedError
from dc_gym.base.files import in_full
from dc_gym.base.progress import Quiet, short_time
from dc_gym.base.terminal import say
from dc_gym.results import learning_curve
from dc_gym.results.figures import curves, kit, learning, pauses, sweep_figure
from dc_gym.results.figures import timeline as one_run
from dc_gym.results.results import Result, load_result
from dc_gym.run.sweep import cpus, grid, local, run_grid, summary
from dc_gym.run.sweep.state import RunState

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "curve", "dcgym", "pause_map", "run", "sweep", "timeline", "training"]

Experiment = str | Path | Mapping[str, Any]
"""An experiment: the path of a spec, a spec's text in TOML (it has line breaks), or a dict of its keys."""
NAMED = "notebook"
"""The name of an experiment that gives none, and of its spec in errors."""


class Picture:
    """A figure that Jupyter shows when it is a cell's value."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def png(self) -> bytes:
        """Returns the figure as a PNG file."""
        kit.take_literally(self.figure)
        stream = io.BytesIO()
        with kit.style():
            self.figure.savefig(stream, format="png", dpi=kit.DPI, metadata=kit.FORMATS[".png"])
        return stream.getvalue()

    def save(self, path: str | Path) -> Path:
        """Writes the figure to a file: .png, .pdf or .svg. An existing file is replaced."""
        return kit.save(self.figure, Path(path))

    def _repr_mimebundle_(self, **_kinds: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns Jupyter's representations: the picture, with more pixels than it takes on the page, and a line of text."""
        width, height = (round(inches * kit.DPI * 2 / 3) for inches in self.figure.get_size_inches())
        return {"image/png": self.png(), "text/plain": repr(self)}, {"image/png": {"width": width, "height": height}}

    def __repr__(self) -> str:
        return f"<picture: {self.figure.get_suptitle()}>"


def run(experiment: Experiment, out: str | Path, *overrides: str) -> Result:
    """Runs an experiment, unless its result is there already, and returns the result.

    Args:
        experiment: a spec, as a path, as text or as a dict.
        out: the folder for the result, which gets a folder of its own in it.
        overrides: keys to replace, such as "time.duration=1s".

    Raises TestbedError if the spec is wrong, the run fails, or the folder holds another experiment's result.
    """
    return sweep(experiment, out, {}, *overrides)[0]


def sweep(experiment: Experiment, out: str | Path, keys: Mapping[str, Any], *overrides: str) -> list[Result]:
    """Runs an experiment with some keys varied, each value with every other, and returns the results in order.

    Args:
        experiment: a spec, as a path, as text or as a dict.
        out: the folder for the results, with a table of all of them in summary.parquet and summary.csv.
        keys: for each dotted key its values, such as {"seed": "1..3", "controller.name": ["cubic", "dctcp"]}.
        overrides: keys to replace in all runs.

    Results that are there already are not made again. Raises TestbedError as `run` does.
    """
    folder, begun_s = in_full(Path(out)), time.monotonic()
    asked = grid.of({"base": _base(experiment), "grid": dict(keys)}, Path(NAMED).absolute(), overrides)
    real_time = any(point.clock == "real" for point in asked.points)
    statuses = run_grid(asked, folder, local(1 if real_time else cpus()), Quiet())
    say(f"{out}: {summary.counts(statuses)}, in {short_time(time.monotonic() - begun_s)}")
    for status in statuses:
        if status.state is RunState.UNFIT:
            say(f"{status.point.name}: {status.message}")
        elif status.state is not RunState.DONE:
            raise TestbedError(f"{status.point.name}: {status.message or status.state}; `dcgym sweep --retry` tries it again")
    return [load_result(folder / status.point.name) for status in statuses]


def dcgym(command: str, makes: str | Path | None = None) -> None:
    """Runs a command of the command line and prints its output.

    Args:
        command: The command and its options, such as "list controllers".
        makes: A file that the command makes at its end. If it is there, the command does not run.

    Raises:
        TestbedError: The command failed; the text is its last line.
    """
    if makes is not None and Path(makes).exists():
        say(f"{makes} is there already; remove it to make it again")
        return
    argv = interpreter.dcgym(*shlex.split(command))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.stdout:
        say(done.stdout.rstrip("\n"))
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2].removeprefix("dcgym: ")
        raise TestbedError(f"dcgym {command}: exit code {done.returncode}: {last}")


def timeline(result: Result) -> Picture:
    """Returns the picture of a run over time: queue, goodput, round trips, fairness."""
    return Picture(one_run.draw(result))


def curve(out: str | Path, x: str, *metrics: str, by: str = "controller.name", where: Sequence[str] = ()) -> Picture:
    """Returns the picture of a sweep, with a line for each value of a key.

    Args:
        out: The sweep's folder.
        x: The key on the x axis, such as "topology.buffer".
        *metrics: Metrics of summary.json, each a panel.
        by: The key whose values are the lines.
        where: Conditions such as "topology.hosts=8", for some of its runs alone.
    """
    sheets, _ = curves.sheets_of(Path(out), x, metrics, by, where)
    return Picture(sweep_figure.draw_panels(sheets))


def pause_map(result: Result) -> Picture:
    """Returns the picture of a lossless fabric's pauses: which port was paused when."""
    return Picture(pauses.draw(result))


def training(out: str | Path, *columns: str) -> Picture:
    """Returns the picture of a training's learning curve, as `dcgym plot` draws it."""
    return Picture(learning.draw(learning_curve.read(out), columns or None))


def _base(experiment: Experiment) -> str | dict[str, Any]:
    """Returns the experiment as a grid's base: an absolute path, or the spec's keys."""
    if isinstance(experiment, Mapping):
        return {"name": NAMED, **experiment}
    if isinstance(experiment, str) and "\n" in experiment:
        try:
            return {"name": NAMED, **tomllib.loads(experiment)}
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"the text of the spec is not TOML: {error}") from None
    return str(Path(experiment).absolute())
