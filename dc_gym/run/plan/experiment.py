# SPDX-License-Identifier: Apache-2.0
"""An experiment: everything that follows from a spec before anything boots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dc_gym.ctrl.actuators.selection import ActuatedPort
from dc_gym.run.plan import rerouting
from dc_gym.spec import Spec
from dc_gym.topologies.buckets import Buckets
from dc_gym.topologies.changes import Change
from dc_gym.topologies.ecmp import Hashed, Router, route
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.rerouting import Reaction
from dc_gym.topologies.waits import Waits
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import Schedule, make_schedule


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that follows from a spec before anything runs."""

    spec: Spec
    graph: Graph
    router: Router
    schedule: Schedule
    notes: Mapping[str, Any]
    """Notes of the workload about itself."""
    actuated: tuple[ActuatedPort, ...]
    """The rows that agents may set, in the order of their commands; empty without an agent."""
    changes: tuple[Change, ...] = ()
    """The changes that events make in the network, in the order of their times."""
    reactions: tuple[Reaction, ...] = ()
    """New rules of the switches, likewise."""

    @classmethod
    def of(cls, spec: Spec) -> Experiment:
        graph = spec.graph()
        spread = Buckets if spec.ground == "host" else Hashed
        balance, weighted = spec.balance(graph), spec.topology.weighs_rates
        router = route(graph, spec.seed, spec.topology.routing, spread=spread, balance=balance, weighted=weighted)
        flows, notes = spec.flows_with_notes(graph)
        schedule = _schedule(spec, flows, graph, router, spec.seed)
        nic_flows = len(schedule.flows) if spec.controller.nic else 0
        jobs = {id(flow.job): flow.job for flow in flows if flow.job is not None}
        lab = spec.lab.sized(len(graph.hosts), nic_flows, sum(len(job.graph.nodes) for job in jobs.values()))
        lab = replace(lab, t0_ns=Waits.of(graph).t0_ns(lab.t0_ns, len(schedule.flows)))
        sized = replace(spec, lab=lab) if spec.ground == "lab" else spec
        changes = spec.changes(graph)
        reactions = rerouting.reactions(spec, graph, router, schedule, changes)
        return cls(sized, graph, router, schedule, notes, spec.actuated(graph), changes, reactions)

    def episode(self, seed: int) -> Experiment:
        """Returns the same network with the traffic, and the drawn values, of another seed, as an episode of an environment."""
        spec = self.spec.episode(seed)
        flows, notes = spec.flows_with_notes(self.graph, seed, may_be_idle=True)
        schedule = _schedule(spec, flows, self.graph, self.router, seed)
        changes = self.changes if spec is self.spec else spec.changes(self.graph)
        return replace(self, spec=spec, schedule=schedule, notes=notes, changes=changes)


def _schedule(spec: Spec, flows: Sequence[FlowRequest], graph: Graph, router: Router, seed: int) -> Schedule:
    beside = spec.controller.beside
    if beside is None:
        return make_schedule(flows, graph, router, spec.tcp_name, seed, one_path=spec.nic.keeps_pairs)
    name = spec.controller.kernel_name
    return make_schedule(flows, graph, router, name, seed, one_path=spec.nic.keeps_pairs, beside=beside.kernel_name)
