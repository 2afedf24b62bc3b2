# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment: spec -> plan -> ground -> tables -> result folder.

All of it happens in DIR.partial. The folder gets its name when it is complete. Whatever ends the run early (an error, Ctrl-C,
kill -9) leaves neither processes nor files.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from dc_gym import __version__
from dc_gym.base import usercode
from dc_gym.base.errors import MachineError, ResultError, TestbedError
from dc_gym.base.progress import Progress, VirtualOnly
from dc_gym.grounds import nics
from dc_gym.grounds.ground import check_programs, ground_of
from dc_gym.grounds.nics import NicPlan
from dc_gym.grounds.plan import Experiment, write_plan
from dc_gym.kernel import cache, openvswitch
from dc_gym.metrics import LinkLosses, ideal
from dc_gym.monitors.trace import read_trace
from dc_gym.records import fingerprint, results
from dc_gym.records.digest import Tables
from dc_gym.records.results import Result
from dc_gym.run import analysis, calibration
from dc_gym.run.conservation import account, lost_on_links, violations
from dc_gym.spec import MetricsSpec, MonitorSpec, Spec, TimeSpec, WorkloadSpec
from dc_gym.spec.nic import FRAME_HEADERS_BYTES
from dc_gym.topologies.paths import base_rtt_ns
from dc_gym.topologies.scale import not_scale_free
from dc_gym.traffic import tgen_log
from dc_gym.traffic.schedule import Schedule

if TYPE_CHECKING:
    from dc_gym.envs.driver import Driver

KEPT_LOG_LINES = 100_000
IDLE_SEED = 1  # seed of the runs that measure single flows: their findings serve every seed
NS = 1e-9


@dataclass(slots=True)
class Clock:
    """Wall-clock seconds by phase."""

    wall_s: dict[str, float] = field(default_factory=dict)
    _phase: str = ""
    _since: float = 0.0

    def phase(self, name: str) -> None:
        now = time.perf_counter()
        if self._phase:
            self.wall_s[self._phase] = self.wall_s.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = name, now


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
    driver = _driver(experiment)
    if driver is not None and driver.unlike:
        progress.note(f"{spec.controller.policy} learned with {driver.unlike}; its actions do something else here")
    ground = ground_of(spec)
    ground.prepare(progress)
    ovs = openvswitch.ensure(progress)
    with results.writing(out, force) as partial:
        private = partial / ".lab"
        private.mkdir()
        inputs = results.copy_inputs(partial, spec.copies())
        nic = write_plan(experiment, ovs, private, disturb)
        log = partial / f"{spec.ground}.log"
        with log.open("w") as file:
            clock.phase("boot")
            progress.phase("boot")
            status = ground.run(partial, _log_to(file, clock, progress), progress, driver)
        clock.phase("results")
        progress.phase("results")
        _check_end(status, log, spec.ground)
        tables, counts = read_back(experiment, private)
        unfit = violations(experiment.graph, counts["before"], counts["after"], counts["losses"]) + counts.get("unfit", [])
        parts = ground.environment(ovs)
        shutil.rmtree(private)
        clock.phase("ideal")
        schedule = analysis.recorded(experiment.schedule, tables)
        ideals = _ideals(replace(experiment, schedule=schedule), partial, ovs, parts, progress, nic)
        clock.phase("results")
        conservation = account(experiment.graph, counts["before"], counts["after"], counts["losses"])
        lost = lost_on_links(experiment.graph, counts["before"], counts["after"])
        links = LinkLosses(lost, conservation["sent_by_hosts"])
        found = analysis.analyse(spec, schedule, tables, ideals, links)
        summary = found.summary
        facts = {
            "workload": dict(experiment.notes),
            "ideal": None if ideals is None else ideals.facts,
            "conservation": conservation,
            "calibration": calibration.rows(tables.ports, counts["read_back"]) + counts.get("calibration", []),
        } | {name: counts[name] for name in ("fidelity", "exec") if counts.get(name)}
        manifest = _manifest(spec, parts, counts["t0_ns"], clock, unfit, disturb) | facts | ground.facts() | _scale(experiment)
        if nic is not None:
            manifest["nic"] = nic.facts
        if driver is not None:
            manifest["agent"] = driver.totals()
        if inputs:
            manifest["inputs"] = inputs
        if policies := results.policies(spec.copies()):
            manifest["policies"] = policies
        if code := usercode.keep([*spec.code(), *(driver.code if driver is not None else ())], partial):
            manifest["code"] = code
        manifest = results.write_result(partial, tables, manifest, summary)
        if driver is not None:
            results.write_derived(partial, "agent", driver.table())
        results.write_derived(partial, "port_metrics", found.ports)
        results.write_derived(partial, "flow_metrics", found.flows)
        if plot:
            from dc_gym.figures import plots  # matplotlib takes a second to import

            plots.plot_result(Result(partial, manifest, summary, tables.ports), partial / "plot.png")
        clock.phase("")
        _set_times(partial / "manifest.json", clock)
        results.finish(partial)
    progress.phase("done")
    return results.load_result(out)


def _driver(experiment: Experiment) -> Driver | None:
    """Returns the driver that acts for controller.policy."""
    if experiment.spec.controller.policy is None:
        return None
    from dc_gym.envs.driver import Driver  # imports Gymnasium

    return Driver(experiment)


def read_back(experiment: Experiment, folder: Path) -> tuple[Tables, dict[str, Any]]:
    """Returns the tables of a run, and the counters before and after it."""
    counts: dict[str, Any] = json.loads((folder / "ground.json").read_text())
    trace = read_trace(folder / "queues.trace")
    columns = {name: trace.column(name) for name in trace.columns}
    queues = results.queue_records(trace.t_ns.astype(np.int64) - counts["t0_ns"], columns)
    flows, samples = tgen_log.read_flows(folder / "flows.bin"), tgen_log.read_samples(folder / "samples.bin")
    tables = Tables.build(
        flows=_flow_table(experiment, flows),
        queues=queues,
        tcp=samples,
        nic_flows=nics.read_counts(folder, experiment.spec.time.duration_ns, flows["flow"][flows["start_ns"] >= 0]),
        decisions=nics.read_trace(folder, counts["t0_ns"], nics.lines_bps(experiment.schedule, experiment.graph)),
        ports=results.port_rows(experiment.graph),
    )
    return tables, counts


def _ideals(
    experiment: Experiment,
    partial: Path,
    ovs: openvswitch.OpenVSwitch,
    parts: dict[str, str],
    progress: Progress,
    nic: NicPlan | None,
) -> ideal.Ideal | None:
    """Returns the ideal completion time of each flow as the spec asks for it.

    Returns None if it does not ask, or if no flow has one.
    """
    spec, how = experiment.spec, experiment.spec.metrics.slowdown
    if how == "off" or not any(map(ideal.has_ideal, experiment.schedule.flows)):
        return None
    measured = how == "measured" or (how == "auto" and spec.clock == "virtual")
    depends_on = {
        "environment": parts,
        "ground": spec.ground,
        "ecn": spec.tcp_ecn,
        "sysctls": spec.controller.sysctls,
        "clock_read_ns": spec.lab.clock_read_ns,
        **({} if nic is None else {"nic": nic.lasting()}),
    }
    if measured:
        progress.phase("ideal")
    measure = _on_idle_network(experiment, partial, ovs, progress) if measured else None
    nic_framing = ideal.Framing(spec.nic.payload_bytes, FRAME_HEADERS_BYTES, handshake=False)
    framing = nic_framing if spec.rdma else ideal.TCP
    try:
        return ideal.of(experiment.schedule, experiment.graph, experiment.router, depends_on, measure, spec.seed, framing)
    except TestbedError as error:
        progress.note(f"no slowdown: {error}")
        return ideal.unknown(experiment.schedule, str(error))


def _on_idle_network(experiment: Experiment, partial: Path, ovs: openvswitch.OpenVSwitch, progress: Progress) -> ideal.Measure:
    """Returns the function that measures single flows.

    It runs them on the same network (under an agent with its token buckets at line rate) without impairments, on the same ground,
    with another schedule, no samples and no agent.
    """

    def measure(schedule: Schedule, duration_ns: int) -> Any:
        spec = replace(
            experiment.spec,
            seed=IDLE_SEED,
            controller=replace(experiment.spec.controller, policy=None),
            nic=replace(experiment.spec.nic, trace="off"),
            workload=WorkloadSpec(kind="pairs"),  # the schedule is given
            time=TimeSpec(duration_ns=duration_ns),
            monitor=MonitorSpec(interval_ns=duration_ns),
            metrics=MetricsSpec(),
        )
        ground = ground_of(spec)
        ground.prepare(progress)
        idle = partial / ".idle"
        (idle / ".lab").mkdir(parents=True)
        try:
            write_plan(replace(experiment, spec=spec, graph=experiment.graph.unimpaired(), schedule=schedule), ovs, idle / ".lab")
            log = idle / f"{spec.ground}.log"
            with log.open("w") as file:
                status = ground.run(idle, _log_to(file, Clock(), VirtualOnly(progress)), VirtualOnly(progress))
            _check_end(status, log, spec.ground)
            return tgen_log.read_flows(idle / ".lab" / "flows.bin")
        finally:
            shutil.rmtree(idle, ignore_errors=True)

    return measure


def _flow_table(experiment: Experiment, log: Any) -> Any:
    """Returns tgen's log with the columns that follow from the schedule."""
    scheduled = experiment.schedule.flows
    if len(log) != len(scheduled):
        raise ResultError(f"tgen logged {len(log)} flows of {len(scheduled)}")
    extra = {
        "src": np.array([flow.src for flow in scheduled], dtype=object),
        "dst": np.array([flow.dst for flow in scheduled], dtype=object),
        "controller": np.array([experiment.spec.controller.name] * len(scheduled), dtype=object),
        "transport": np.array([flow.request.transport for flow in scheduled], dtype=object),
        "group": np.array([flow.request.group for flow in scheduled], dtype=object),
        "rep": np.array([flow.request.rep for flow in scheduled], dtype=np.uint32),
    }
    columns = {name: log[name] for name in log.dtype.names if name not in extra} | extra
    table = np.empty(len(log), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        table[name] = column
    spare = np.array([flow.request.spare for flow in scheduled], dtype=bool)
    return table[~spare | (table["start_ns"] >= 0)]


def _log_to(log: TextIO, clock: Clock, progress: Progress) -> Callable[[str], None]:
    """Returns the function for the lines that a ground prints: phases go to the clock and the user, all others to the log."""
    kept = 0

    def on_line(line: str) -> None:
        nonlocal kept
        if line.startswith("::phase "):
            name = line.removeprefix("::phase ")
            clock.phase(name)
            progress.phase(name)
        elif kept < KEPT_LOG_LINES:
            kept += 1
            log.write(line + "\n")

    return on_line


def _check_end(status: int, log: Path, ground: str) -> None:
    if status == 0:
        return
    lines = log.read_text(errors="replace").splitlines()
    reasons = [line.removeprefix("ground: ") for line in lines if line.startswith("ground: ")]
    shown = [line for line in lines if not line.startswith("ground: ")][-15:]
    what = reasons[-1] if reasons else f"what ran in the {ground} ended with status {status}"
    if any(os.strerror(full) in line for full in (errno.ENOSPC, errno.EDQUOT) for line in lines):
        raise MachineError(f"{log.parent}: no room for what the run writes; free some, or give another --out ({what})")
    raise TestbedError("\n".join([what, *(f"  {ground}: {line}" for line in shown)]))


def _manifest(spec: Spec, parts: dict[str, str], t0_ns: int, clock: Clock, unfit: list[str], disturb: str) -> dict[str, Any]:
    return {
        "spec": spec.to_dict(copied=True),
        "seed": spec.seed,
        "ground": spec.ground,
        "clock": spec.clock,
        "dcgym": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": parts,
        "fingerprint": fingerprint.fingerprint(parts),
        "t0_ns": t0_ns,
        "virtual_s": spec.time.duration_ns * NS,
        "wall_s": dict(clock.wall_s),
        "fit": not unfit,
        "unfit_reasons": unfit,
    } | ({"disturb": disturb} if disturb else {})


def _scale(experiment: Experiment) -> dict[str, Any]:
    """Returns the factor by which a network is slowed down, and what does not scale with it."""
    factor = experiment.spec.topology.scale or 1
    if factor == 1:
        return {}
    lines = not_scale_free(factor, base_rtt_ns(experiment.graph), experiment.spec.controller.rto_min_ns)
    return {"scale": {"factor": factor, "not_scale_free": lines}}


def _set_times(path: Path, clock: Clock) -> None:
    """Updates the times in the manifest. It is written before the plot, which is part of the time that a run takes."""
    manifest = json.loads(path.read_text())
    manifest["wall_s"] = {name: round(seconds, 4) for name, seconds in clock.wall_s.items()}
    path.write_text(json.dumps(manifest, indent=1) + "\n")
