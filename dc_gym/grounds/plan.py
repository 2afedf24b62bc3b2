# SPDX-License-Identifier: Apache-2.0
"""From a spec to what a ground runs: everything that follows from it before anything boots, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym.base.package import PROGRAMS
from dc_gym.grounds import nics
from dc_gym.grounds.guest.episodes import AgentPlan, ControlPlan, Episode
from dc_gym.grounds.guest.main import FLOWS, Plan
from dc_gym.grounds.nics import NicPlan
from dc_gym.kernel import openvswitch
from dc_gym.spec import Spec
from dc_gym.topologies.ecmp import Router, route
from dc_gym.topologies.graph import NETNS_FOLDER, Graph
from dc_gym.traffic import execs, workloads
from dc_gym.traffic.schedule import Schedule, make_schedule

DISTURB = "DCGYM_DISTURB"
"""A shell command that every run carries out in its lab before traffic starts; how determinism is tested."""
MOST_SHOWN = 1 << 14
"""Flows of a run that its state matrix has rows for, 1 MiB of the 4 that a lab has; of more it has none."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that follows from a spec before anything runs."""

    spec: Spec
    graph: Graph
    router: Router
    schedule: Schedule
    notes: Mapping[str, Any]
    """What the workload has to say of itself."""

    @classmethod
    def of(cls, spec: Spec) -> Experiment:
        graph = spec.graph()
        router = route(graph, spec.seed, spec.topology.routing)
        flows, notes = spec.flows_with_notes(graph)
        schedule = make_schedule(flows, graph, router, spec.tcp_name, spec.seed, one_path=spec.nic.keeps_pairs)
        nic_flows = len(schedule.flows) if spec.controller.nic else 0
        sized = replace(spec, lab=spec.lab.sized(len(graph.hosts), schedule.paths(), nic_flows)) if spec.ground == "lab" else spec
        return cls(sized, graph, router, schedule, notes)

    def episode(self, seed: int) -> Experiment:
        """The same network with the traffic of another seed: an episode of an environment."""
        params, duration_ns = self.spec.workload.params(), self.spec.time.duration_ns
        flows, notes = workloads.generate_with_notes(self.graph, params, duration_ns, seed, may_be_idle=True)
        schedule = make_schedule(flows, self.graph, self.router, self.spec.tcp_name, seed, one_path=self.spec.nic.keeps_pairs)
        return replace(self, schedule=schedule, notes=notes)


def write_plan(
    experiment: Experiment,
    ovs: openvswitch.OpenVSwitch,
    folder: Path,
    disturb: str = "",
    flow_rows: int | None = None,
    publish_ns: int = 0,
    seed: int | None = None,
    nic_step_ns: int = 0,
) -> NicPlan | None:
    """The files that the ground reads: plan.json, flows.csv, ports.csv, and under an agent hosts.csv and the first episode.

    Under an algorithm of the NICs also what their loader reads; answers what they are told, None: there are none.

    `flow_rows`: flows that an episode may have at the most, None: as many as this one; only for an environment, which keeps
    nothing but what it is shown. `publish_ns`: how often flows are looked at, where agent.publish does not say; 0: each step.
    `seed`: of the first episode, None: the spec's.
    `nic_step_ns`: between the barriers of the NICs, 0: there are none.
    """
    spec, graph = experiment.spec, experiment.graph
    rules: dict[str, list[str]] = {switch.name: [] for switch in graph.switches}
    for rule in experiment.router.rules:
        rules[rule.switch].append(rule.flow())
    nic = nics.write(experiment, folder, nic_step_ns) if spec.controller.nic else None
    plan = Plan(
        graph=graph,
        rules=rules,
        peers=_peers(experiment),
        ecn=spec.tcp_ecn,
        sysctls=spec.controller.sysctls,
        seed=spec.seed,
        t0_ns=spec.lab.t0_ns,
        duration_ns=spec.time.duration_ns,
        interval_ns=spec.monitor.interval_ns,
        tcp_interval_ns=spec.monitor.tcp_interval_ns,
        programs=str(PROGRAMS),
        openvswitch=str(ovs.folder),
        disturb=disturb,
        execs=execs.to_json(spec.execs(graph)),
        agent=None if spec.controller.policy is None else _agent_plan(experiment, flow_rows, publish_ns).to_json(),
        nic=None if nic is None else nic.to_json(),
        flow_rows=len(experiment.schedule.flows) if len(experiment.schedule.flows) <= MOST_SHOWN else 0,
    )
    plan.write(folder / "plan.json")
    (folder / FLOWS).write_text(experiment.schedule.csv())
    hosts = {host.name for host in graph.hosts}
    rows = [
        f"{row},{port.ifname},{f'{NETNS_FOLDER}/{port.node}' if port.node in hosts else '-'},{port.ifname}"
        for row, port in enumerate(graph.ports())
    ]
    (folder / "ports.csv").write_text("\n".join(["row,name,netns,ifname", *rows]) + "\n")
    if spec.controller.policy is not None:
        (folder / "hosts.csv").write_text(_hosts_csv(experiment))
        Episode(spec.seed if seed is None else seed, spec.steps, FLOWS).write(folder, 0)
    return nic


def _agent_plan(experiment: Experiment, flow_rows: int | None, publish_ns: int) -> AgentPlan:
    agent, keeps = experiment.spec.agent, flow_rows is None
    return AgentPlan(
        step_ns=agent.interval_ns,
        latency_ns=agent.latency_ns,
        publish_ns=agent.publish_ns or publish_ns or agent.interval_ns,
        flow_rows=len(experiment.schedule.flows) if flow_rows is None else flow_rows,
        stock_tbf=agent.tbf == "stock",
        keeps=keeps,
        control=ControlPlan(agent.control_delay_ns, agent.control_loss_ppb, agent.control_timeout_ns)
        if agent.control == "network"
        else None,
    )


def _hosts_csv(experiment: Experiment) -> str:
    """The egresses that carry a token bucket, in the order of `Scene.host_row`: every port of every host."""
    graph, agent = experiment.graph, experiment.spec.agent
    lines = ["row,name,netns,ifname,line_bps,floor_bps,burst_bytes,limit_bytes"]
    hosts = {host.name for host in graph.hosts}
    for row, port in enumerate(graph.ports()):
        if port.node in hosts:
            line_bps, queue = graph.cable_of(port).rate_bps, port.queue
            numbers = (line_bps, min(agent.floor_bps, line_bps), queue.burst_bytes, queue.limit_bytes)
            lines.append(",".join(map(str, (row, port.ifname, f"{NETNS_FOLDER}/{port.node}", port.ifname, *numbers))))
    return "\n".join(lines) + "\n"


def _peers(experiment: Experiment) -> dict[str, list[str]]:
    """By host: whom it must be able to reach. A program may talk to anybody."""
    peers = experiment.schedule.peers()
    hosts = [host.name for host in experiment.graph.hosts]
    for each in experiment.spec.workload.exec or ():
        for other in hosts:
            if other != each.host:
                peers[each.host] = [*dict.fromkeys([*peers.get(each.host, []), other])]
                peers[other] = [*dict.fromkeys([*peers.get(other, []), each.host])]
    return peers
