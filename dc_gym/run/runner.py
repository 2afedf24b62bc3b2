# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment: spec -> plan -> ground -> tables -> metrics -> manifest -> plot.

All of it happens in DIR.partial. The folder gets its name when it is complete. Whatever ends the run early (an error, Ctrl-C,
kill -9) leaves neither processes nor files.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.npz import write_arrays
from dc_gym.base.progress import Progress
from dc_gym.grounds.experiment import Experiment
from dc_gym.grounds.ground import check_programs
from dc_gym.grounds.plan import write_plan
from dc_gym.grounds.selection import ground_of
from dc_gym.kernel import cache, openvswitch
from dc_gym.records import results
from dc_gym.records.folder import LEARNED
from dc_gym.records.results import Result
from dc_gym.run import analysis
from dc_gym.run.execution import Clock, execute
from dc_gym.run.idle import ideal_times
from dc_gym.run.manifest import PreparedRun, manifest, set_times
from dc_gym.run.read_back import read_back
from dc_gym.spec import Spec

if TYPE_CHECKING:
    from dc_gym.envs.driver import PolicyDriver


def run(spec: Spec, out: Path, progress: Progress, *, force: bool = False, plot: bool = True, disturb: str = "") -> Result:
    """Runs `spec` and leaves its result in `out`. The result may be unfit; reporting that is the caller's task.

    Raises TestbedError when the run fails; then nothing is left. `disturb` is a shell command run during set-up, for tests of
    determinism. With `plot=False` the plot is left out.
    """
    out = out.absolute()
    clock = Clock()
    clock.phase("prepare")
    progress.phase("prepare")
    experiment = Experiment.of(spec)
    check_programs()
    with cache.in_use():
        return _run(experiment, out, clock, progress, force=force, plot=plot, disturb=disturb)


def _run(experiment: Experiment, out: Path, clock: Clock, progress: Progress, *, force: bool, plot: bool, disturb: str) -> Result:
    spec = experiment.spec
    driver = _driver(experiment, progress)
    ground = ground_of(spec)
    ground.prepare(progress)
    ovs = openvswitch.ensure(progress)
    with results.writing(out, force) as partial:
        inputs = results.copy_inputs(partial, spec.copies())
        private = partial / ".lab"
        private.mkdir()
        nic = write_plan(experiment, ovs, private, disturb)

        _begin("boot", clock, progress)
        execute(ground, spec.ground, partial, clock, progress, driver)

        _begin("results", clock, progress)
        tables, counts = read_back(experiment, private)
        shutil.rmtree(private)
        setup = PreparedRun(experiment, ground, ground.environment(ovs), inputs, nic, driver, disturb)

        clock.phase("ideal")
        schedule = analysis.recorded(experiment.schedule, tables)
        ideals = ideal_times(replace(experiment, schedule=schedule), partial, ovs, setup.environment, progress, nic)

        clock.phase("results")
        found = analysis.analyse(spec, schedule, tables, ideals, counts.links)
        made = manifest(setup, tables.ports, counts, ideals, clock, partial)
        made = results.write_result(partial, tables, made, found.summary)
        if driver is not None:
            results.write_derived(partial, "agent", driver.table())
            if learned := driver.learned():
                write_arrays(partial / LEARNED, learned)
        results.write_derived(partial, "port_metrics", found.ports)
        results.write_derived(partial, "flow_metrics", found.flows)
        if plot:
            _plot(Result(partial, made, found.summary, tables.ports))
        clock.phase("")
        set_times(partial / "manifest.json", clock)
        results.finish(partial)
    progress.phase("done")
    return results.load_result(out)


def _driver(experiment: Experiment, progress: Progress) -> PolicyDriver | None:
    """Returns the driver that acts for controller.policy."""
    policy = experiment.spec.controller.policy
    if policy is None:
        return None
    from dc_gym.envs.driver import PolicyDriver  # imports Gymnasium

    driver = PolicyDriver(experiment)
    if driver.unlike:
        progress.note(f"{policy} learned with {driver.unlike}; its actions do something else here")
    return driver


def _begin(phase: str, clock: Clock, progress: Progress) -> None:
    clock.phase(phase)
    progress.phase(phase)


def _plot(result: Result) -> None:
    from dc_gym.figures import timeline  # matplotlib takes a second to import

    timeline.plot_result(result, result.path / "plot.png")
