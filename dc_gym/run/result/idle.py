# SPDX-License-Identifier: Apache-2.0
"""The ideal completion times of a run's flows: their closed form, or measured alone on the idle network."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dc_gym.base.errors import TestbedError
from dc_gym.base.progress import Progress, VirtualOnly
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.results.metrics import ideal
from dc_gym.run.execution import Clock, execute
from dc_gym.run.grounds.ground import make_folders
from dc_gym.run.grounds.selection import ground_of
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.nics import NicPlan
from dc_gym.run.plan.plan import OUT, Plan
from dc_gym.run.plan.writer import write_plan
from dc_gym.run.result import tgen_log
from dc_gym.spec import CaptureSpec, ControllerSpec, MetricsSpec, MonitorSpec, TimeSpec, WorkloadSpec
from dc_gym.traffic.flows import NIC_TRANSPORTS
from dc_gym.traffic.schedule import Schedule

SEED = 1  # seed of the runs that measure single flows: their findings serve every seed


def ideal_times(
    experiment: Experiment,
    partial: Path,
    ovs: OpenVSwitch,
    environment: Mapping[str, str],
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
        "environment": environment,
        "ground": spec.ground,
        "ecn": spec.tcp_ecn,
        "mtu_bytes": experiment.graph.mtu_bytes,
        "sysctls": spec.controller.sysctls,
        "clock_read_ns": spec.lab.clock_read_ns,
        **({} if nic is None else {"nic": nic.lasting()}),
        **({"balance": _balance(experiment)} if experiment.router.balance or spec.sprays else {}),
    }
    if measured:
        progress.phase("ideal")
    measure = _on_idle_network(experiment, partial, ovs, progress) if measured else None
    of_nic = ideal.Framing(spec.payload_bytes, spec.frame_headers_bytes, handshake=False)
    framings: dict[str | None, ideal.Framing] = dict.fromkeys(NIC_TRANSPORTS, of_nic)
    try:
        return ideal.of(experiment.schedule, experiment.graph, experiment.router, depends_on, measure, spec.seed, framings)
    except TestbedError as error:
        progress.note(f"no slowdown: {error}")
        return ideal.unknown(experiment.schedule, str(error))


def _balance(experiment: Experiment) -> str:
    """Returns what a lone flow depends on whose frames take several paths: all of the network, and the draws."""
    network = json.dumps(experiment.graph.unimpaired().to_json(), sort_keys=True)
    return hashlib.sha256(f"{experiment.router.balance} {experiment.spec.seed} {network}".encode()).hexdigest()


def _controller(controller: ControllerSpec, schedule: Schedule) -> ControllerSpec:
    """Returns the controller of lone flows. NICs without a flow do not run: TCP beside RDMA is then a run's controller."""
    has_nics = any(flow.request.by_nic for flow in schedule.flows)
    if controller.tcp is None or has_nics:
        return replace(controller, policy=None, own=())
    return replace(controller, policy=None, own=(), name=controller.tcp, tcp=None)


def _sprayed(schedule: Schedule) -> str | None:
    return "uec" if any(flow.request.transport == "uec" for flow in schedule.flows) else None


def _on_idle_network(experiment: Experiment, partial: Path, ovs: OpenVSwitch, progress: Progress) -> ideal.Measure:
    """Returns the function that measures single flows.

    It runs them on the same network (under an agent with its token buckets at line rate) without impairments and events, on the
    same ground, with another schedule, no samples and no agent.
    """

    def measure(schedule: Schedule, duration_ns: int) -> Any:
        spec = replace(
            experiment.spec,
            seed=SEED,
            controller=_controller(experiment.spec.controller, schedule),
            nic=replace(experiment.spec.nic, trace="off"),
            workload=WorkloadSpec(kind="pairs", transport=_sprayed(schedule)),  # the schedule is given
            time=TimeSpec(duration_ns=duration_ns),
            monitor=MonitorSpec(interval_ns=duration_ns),
            metrics=MetricsSpec(),
            capture=CaptureSpec(),
            events=(),
        )
        ground = ground_of(spec)
        ground.prepare(progress)
        folder = partial / ".idle"
        private = make_folders(folder, spec)
        try:
            idle = replace(
                experiment, spec=spec, graph=experiment.graph.unimpaired(), schedule=schedule, changes=(), reactions=()
            )

            def plan() -> Plan:
                return write_plan(idle, ovs, private)[0]

            execute(ground, spec.ground, folder, plan, Clock(), VirtualOnly(progress))
            return tgen_log.read_flows(private / OUT / "flows.bin")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return measure
