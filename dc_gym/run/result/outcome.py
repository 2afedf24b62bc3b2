# SPDX-License-Identifier: Apache-2.0
"""Turns a ground's records of a run into its result: tables -> ideal times -> metrics -> manifest, and then the plot.

It imports numpy, pyarrow and, for a plot, matplotlib; the runner loads it while the traffic runs.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from dc_gym import monitors
from dc_gym.base.errors import in_one_line
from dc_gym.base.npz import write_arrays
from dc_gym.base.progress import Progress
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.results import results
from dc_gym.results.agent_digest import agent_digest
from dc_gym.results.folder import LEARNED
from dc_gym.results.metrics import Window, queue_times
from dc_gym.results.results import load_result
from dc_gym.results.stored import StoredTables
from dc_gym.results.tables import Names
from dc_gym.run.execution import Clock
from dc_gym.run.plan.plan import CAPTURES, OUT
from dc_gym.run.result import analysis
from dc_gym.run.result.idle import ideal_times
from dc_gym.run.result.manifest import PreparedRun, manifest, set_times
from dc_gym.run.result.read_back import read_counts, read_tables

DISSECTOR = Path(monitors.__file__).parent / "dcgym.lua"
"""For Wireshark; a result with captured ports has a copy beside their files."""


def conclude(run: PreparedRun, ovs: OpenVSwitch, partial: Path, clock: Clock, progress: Progress) -> None:
    """Writes everything that a result needs into its folder, in which the ground has left its files."""
    experiment, driver, private = run.experiment, run.driver, partial / ".lab"
    counts, ports = read_counts(experiment, private / OUT), results.port_rows(experiment.graph)
    counts = replace(counts, unfit=counts.unfit + run.ground.unfit())
    if counts.deadlock is not None:
        circle = ", ".join(counts.deadlock)
        progress.announce(f"warning: a deadlock of pauses: {circle} wait for one another, and the last for the first")
    if lost := counts.found["acks"].get("lost"):
        room = f"the record of ACKs has room for {counts.found['acks']['kept']:,}, and {lost:,} later ones are not in it"
        progress.announce(f"warning: {room}; name fewer flows in monitor.tcp_flows, or shorten time.duration")
    digest = results.write_tables(partial, Names.of(ports), read_tables(experiment, private / OUT, counts))
    shutil.rmtree(private)
    if experiment.spec.capture.ports:
        shutil.copyfile(DISSECTOR, partial / CAPTURES / DISSECTOR.name)
    tables = StoredTables(partial, ports)

    clock.phase("ideal")
    schedule = analysis.recorded(experiment.schedule, tables)
    ideals = ideal_times(replace(experiment, schedule=schedule), partial, ovs, run.environment, progress, run.nic)

    clock.phase("results")
    times = queue_times.by_port(counts.found.get("queue_times", {}), Window.of(experiment.spec).length_ns)
    metrics = analysis.analyse(experiment.spec, schedule, tables, ideals, counts.links, times)
    facts = manifest(run, tables.ports, counts, ideals, clock, partial)
    results.write_graph(partial, experiment.graph)
    if driver is not None:
        table, learned = driver.table(), driver.learned()
        facts |= {"agent_digest": agent_digest(table, learned)}
        metrics.summary["return"] = facts["agent"]["return"]
        results.write_derived(partial, "agent", table)
        if learned:
            write_arrays(partial / LEARNED, learned)
    results.write_facts(partial, tables, facts | {"digest": digest}, metrics.summary)
    results.write_derived(partial, "port_metrics", metrics.ports)
    results.write_derived(partial, "flow_metrics", metrics.flows)
    clock.phase("")
    set_times(partial / "manifest.json", clock)


def draw(out: Path, clock: Clock, progress: Progress) -> None:
    """Draws the plot of a finished result. A plot that fails costs no result: a message shows the user how to draw it again."""
    clock.phase("plot")
    try:
        from dc_gym.results.figures import timeline

        timeline.plot_result(load_result(out))
        clock.phase("")
        set_times(out / "manifest.json", clock)
    except Exception as error:
        progress.announce(f"warning: no plot.png: {in_one_line(error)}; the result is complete, draw it by `dcgym plot {out}`")
