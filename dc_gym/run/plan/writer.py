# SPDX-License-Identifier: Apache-2.0
"""Writes the files that contain a ground's plan (plan.py)."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

from dc_gym.base import record_file
from dc_gym.base.package import PROGRAMS
from dc_gym.kernel import openvswitch
from dc_gym.run.plan import actuation, changes, forwarding, inputs, nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.nics import NicPlan
from dc_gym.run.plan.plan import ACTUATORS, CAPTURED, DATAPATH, EVENTS, FLOWS, PORTS, AgentPlan, ControlPlan, Episode, Plan
from dc_gym.topologies.ecmp import Groups
from dc_gym.topologies.waits import Waits
from dc_gym.traffic import execs

REFLECT_DSCP = {"net/ipv4/tcp_reflect_tos": "1"}
"""The receiving end of a TCP connection uses the DSCP of the SYN, since its listener serves flows of several DSCPs."""
MOST_SHOWN = 1 << 14
"""Most flows for which the state matrix of a run has rows: 1 MiB of the 4 that a lab has. With more flows it has none."""


def write_plan(
    experiment: Experiment,
    ovs: openvswitch.OpenVSwitch,
    folder: Path,
    disturb: str = "",
    flow_rows: int | None = None,
    publish_ns: int = 0,
    seed: int | None = None,
    nic_step_ns: int = 0,
    shell_folder: Path | None = None,
) -> tuple[Plan, NicPlan | None]:
    """Writes the files that the ground reads: plan.json, and record files of the flows and ports.

    Under an agent it also writes the actuators and the first episode. Under an algorithm of the NICs it also writes their
    loader's files. It returns the plan, and the settings of the NICs, or None if there are none.

    `flow_rows` is the largest number of flows in an episode; None means as many as in this one. It is only for an environment,
    which keeps nothing but its frames. `publish_ns` is the time between updates of the flows where agent.publish gives none; 0
    means each step. `seed` is the seed of the first episode; None means the spec's. `nic_step_ns` is the time between the
    barriers of the NICs; 0 means that there are none. `shell_folder` is where a shell's commands work; None means that the
    experiment's traffic runs.
    """
    spec, graph = experiment.spec, experiment.graph
    groups = forwarding.groups_of(experiment)
    is_direct = forwarding.is_direct(experiment, shell_folder is not None)
    direct = forwarding.write(experiment, groups, folder / DATAPATH, may_change=flow_rows is not None) if is_direct else None
    nic = nics.write(experiment, folder, nic_step_ns, seed) if spec.controller.nic else None
    plan = Plan(
        graph=graph,
        rules={} if is_direct else forwarding.rules_of(experiment, groups),
        groups=[list(astuple(group)) for group in groups],
        direct=direct,
        warm_mask=forwarding.warm_mask(experiment, groups),
        peers=_peers(experiment),
        ecn=spec.tcp_ecn,
        sysctls=spec.controller.sysctls | (REFLECT_DSCP if any(flow.request.dscp for flow in experiment.schedule.flows) else {}),
        seed=spec.seed,
        t0_ns=spec.lab.t0_ns,
        warmup_ns=spec.time.warmup_ns,
        duration_ns=spec.time.duration_ns,
        interval_ns=spec.monitor.interval_ns,
        tcp_interval_ns=spec.monitor.tcp_interval_ns,
        programs=str(PROGRAMS),
        openvswitch=str(ovs.folder),
        disturb=disturb,
        execs=execs.to_json(spec.execs(graph)),
        agent=None if spec.controller.policy is None else _agent_plan(experiment, flow_rows, publish_ns).to_json(),
        nic=None if nic is None else nic.to_json(),
        capture={"snap_bytes": spec.capture.snap_bytes, "direction": spec.capture.direction} if spec.capture.ports else None,
        events=changes.touched(experiment.changes) if experiment.changes else None,
        reactions=_reactions(experiment, groups),
        default_tcp=spec.tcp_name if (shell_folder is not None or spec.workload.exec) and not spec.rdma else "",
        shell=None if shell_folder is None else {"folder": str(shell_folder)},
        flow_rows=len(experiment.schedule.flows) if len(experiment.schedule.flows) <= MOST_SHOWN else 0,
        waits=Waits.of(graph),
    )
    plan.write(folder / "plan.json")
    traced = spec.monitor.traced(flow.request for flow in experiment.schedule.flows)
    inputs.write_flows(folder / FLOWS, experiment.schedule, experiment.graph, traced)
    inputs.write_rows(folder / PORTS, graph)
    if spec.capture.ports:
        inputs.write_ports(folder / CAPTURED, graph, spec.capture.ports)
    if experiment.changes:
        record_file.write(folder / EVENTS, *changes.tables(experiment.changes, graph))
    if spec.controller.policy is not None:
        record_file.write(folder / ACTUATORS, *actuation.tables(experiment))
        Episode(spec.seed if seed is None else seed, spec.steps, FLOWS).write(folder, 0)
    return plan, nic


def _agent_plan(experiment: Experiment, flow_rows: int | None, publish_ns: int) -> AgentPlan:
    agent, keeps = experiment.spec.agent, flow_rows is None
    return AgentPlan(
        step_ns=agent.interval_ns,
        latency_ns=agent.latency_ns,
        publish_ns=agent.publish_ns or publish_ns or agent.interval_ns,
        flow_rows=len(experiment.schedule.flows) if flow_rows is None else flow_rows,
        keeps=keeps,
        control=ControlPlan(agent.control_delay_ns, agent.control_loss_ppb, agent.control_timeout_ns)
        if agent.control == "network"
        else None,
    )


def _reactions(experiment: Experiment, groups: Groups) -> list[dict[str, Any]] | None:
    """Returns the new rules of the switches: for each the switch, the address and the number of the port."""
    return [
        {
            "at_ns": reaction.at_ns,
            "event": reaction.event,
            "entries": [(rule.switch, rule.destination, groups.out_port(rule.switch, rule.hops)) for rule in reaction.entries],
        }
        for reaction in experiment.reactions
    ] or None


def _peers(experiment: Experiment) -> dict[str, list[str]]:
    """Returns for each host the hosts that it must be able to reach. A program may communicate with any host."""
    peers = experiment.schedule.peers()
    hosts = [host.name for host in experiment.graph.hosts]
    for command in experiment.spec.workload.exec or ():
        for other in hosts:
            if other != command.host:
                peers[command.host] = [*dict.fromkeys([*peers.get(command.host, []), other])]
                peers[other] = [*dict.fromkeys([*peers.get(other, []), command.host])]
    return peers
