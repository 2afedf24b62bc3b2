# SPDX-License-Identifier: Apache-2.0
"""Turns what a ground has left of a run into its result: tables -> ideal times -> metrics -> manifest -> plot.

It imports numpy, pyarrow and, for a plot, matplotlib; the runner loads it while the traffic runs.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from dc_gym.base.npz import write_arrays
from dc_gym.base.progress import Progress
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.records import results
from dc_gym.records.folder import LEARNED
from dc_gym.records.results import Result
from dc_gym.run import analysis
from dc_gym.run.execution import Clock
from dc_gym.run.idle import ideal_times
from dc_gym.run.manifest import PreparedRun, manifest, set_times
from dc_gym.run.read_back import read_back


def conclude(run: PreparedRun, ovs: OpenVSwitch, partial: Path, clock: Clock, progress: Progress, *, plot: bool) -> None:
    """Writes everything that a result consists of into its folder, in which the ground has left its files."""
    experiment, driver, private = run.experiment, run.driver, partial / ".lab"
    tables, counts = read_back(experiment, private)
    shutil.rmtree(private)

    clock.phase("ideal")
    schedule = analysis.recorded(experiment.schedule, tables)
    ideals = ideal_times(replace(experiment, schedule=schedule), partial, ovs, run.environment, progress, run.nic)

    clock.phase("results")
    found = analysis.analyse(experiment.spec, schedule, tables, ideals, counts.links)
    made = manifest(run, tables.ports, counts, ideals, clock, partial)
    made = results.write_result(partial, tables, made, found.summary)
    if driver is not None:
        results.write_derived(partial, "agent", driver.table())
        if learned := driver.learned():
            write_arrays(partial / LEARNED, learned)
    results.write_derived(partial, "port_metrics", found.ports)
    results.write_derived(partial, "flow_metrics", found.flows)
    if plot:
        clock.phase("plot")
        _plot(Result(partial, made, found.summary, tables.ports))
    clock.phase("")
    set_times(partial / "manifest.json", clock)


def _plot(result: Result) -> None:
    from dc_gym.figures import timeline

    timeline.plot_result(result, result.path / "plot.png")
