# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment: spec -> plan -> ground -> tables -> metrics -> manifest -> plot.

All of it but the plot happens in DIR.partial. The folder gets its name when it is complete; then the plot is drawn. A run that
ends early (by an error, Ctrl-C, kill -9) leaves neither processes nor files. Only an error after the traffic leaves something:
DIR.failed.

A lab needs one CPU. The run's other work happens on another one meanwhile: the plan is written while the lab boots, and the
libraries of results and plot (numpy, pyarrow, matplotlib) are loaded while it runs. This module imports none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base import process_room, trusted
from dc_gym.base.errors import MachineError
from dc_gym.base.files import in_full
from dc_gym.base.progress import Progress
from dc_gym.kernel import cache, openvswitch
from dc_gym.results.copies import copy_inputs
from dc_gym.results.folder import finish, kept_on_failure, writing
from dc_gym.run import room
from dc_gym.run.execution import Clock, execute
from dc_gym.run.grounds.ground import Ground, check_programs, make_folders
from dc_gym.run.grounds.selection import ground_of
from dc_gym.run.loading import Loading, collection_paused
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import Plan
from dc_gym.spec import Spec
from dc_gym.spec.result_code import items_of
from dc_gym.topologies.buffers import short_of_headroom
from dc_gym.topologies.graph import Graph

if TYPE_CHECKING:
    from dc_gym.results.results import Result
    from dc_gym.run.agent.driver import PolicyDriver
    from dc_gym.run.plan.nics import NicPlan


def run(
    spec: Spec, out: Path, progress: Progress, *, force: bool = False, plot: bool = True, disturb: str = "", gdb: bool = False
) -> Result:
    """Runs `spec` and leaves its result in `out`. The result may be unfit; reporting that is the caller's task.

    Raises TestbedError when the run fails; then nothing is left, except after the traffic (results/folder.py). `disturb` is a
    shell command run during set-up, for tests of determinism. With `plot=False` the plot is left out.
    With `gdb` a lab waits until gdb has attached.
    """
    out = in_full(out)
    clock = Clock()
    clock.phase("prepare")
    progress.phase("prepare")
    experiment = Experiment.of(spec.as_run())
    check_programs()
    with cache.in_use():
        return _run(
            experiment, out, clock, progress, ground_of(experiment.spec, gdb=gdb), force=force, plot=plot, disturb=disturb
        )


def _run(
    experiment: Experiment, out: Path, clock: Clock, progress: Progress, ground: Ground, *, force: bool, plot: bool, disturb: str
) -> Result:
    spec = experiment.spec
    room.check(experiment, out, progress)
    warn_of_headroom(experiment.graph, progress)
    if why := process_room.too_few():
        raise MachineError(why)
    driver = _driver(experiment, progress)
    ground.prepare(progress)
    ovs = openvswitch.ensure(progress)
    with writing(out, force) as partial, Loading(plot) as loading:
        inputs = copy_inputs(partial, spec.copies())
        private = make_folders(partial, spec)
        nics: list[NicPlan | None] = []

        def write_plan() -> Plan:
            with collection_paused():
                from dc_gym.run.plan import writer  # imports numpy

            written, nic = writer.write_plan(experiment, ovs, private, disturb)
            nics.append(nic)
            loading.begin()
            return written

        _begin("boot", clock, progress)
        execute(ground, spec.ground, partial, write_plan, clock, progress, driver)

        with kept_on_failure(partial):
            _begin("results", clock, progress)
            loading.finish()
            from dc_gym.run.result import manifest, outcome

            setup = manifest.PreparedRun(experiment, ground, ground.environment(ovs), inputs, nics[0], driver, disturb)
            outcome.conclude(setup, ovs, partial, clock, progress)
            if unkept := trusted.remember(items_of(spec)):
                progress.note(unkept)
            finish(partial)
        if plot:
            outcome.draw(out, clock, progress)
    progress.phase("done")
    from dc_gym.results.results import load_result

    return load_result(out)


def warn_of_headroom(graph: Graph, progress: Progress) -> None:
    """Warns of ports that may lose frames of lossless classes."""
    short = next(short_of_headroom(graph), None)
    if short is not None:
        port, needed = short
        progress.announce(f"warning: topology.headroom may lose frames: {port.ifname} needs {needed} bytes; leave it out")


def _driver(experiment: Experiment, progress: Progress) -> PolicyDriver | None:
    """Returns the driver that acts for controller.policy."""
    policy = experiment.spec.controller.policy
    if policy is None:
        return None
    from dc_gym.run.agent.driver import PolicyDriver  # imports Gymnasium

    driver = PolicyDriver(experiment)
    if driver.unlike:
        progress.announce(f"warning: {policy} learned with {driver.unlike}; its actions do something else here")
    return driver


def _begin(phase: str, clock: Clock, progress: Progress) -> None:
    clock.phase(phase)
    progress.phase(phase)
