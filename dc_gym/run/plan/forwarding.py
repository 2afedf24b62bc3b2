# SPDX-License-Identifier: Apache-2.0
"""The forwarding of a run's switches: group ports, and rules for Open vSwitch's daemons, or flows for the kernel's datapath.

The *direct way* gives the kernel its flows before any packet. The daemons run where somebody may look at them, or at rules that
packets make the kernel ask for: a shell, programs in hosts, the host ground.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from dc_gym.run.plan import rerouting
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import DAEMONS
from dc_gym.spec import Spec
from dc_gym.topologies import buckets
from dc_gym.topologies.ecmp import Groups, crossings, hops_of, rules
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.realize import datapath
from dc_gym.traffic.schedule import both_ways

ALL_BITS = 0xFFFF
MOST_FOR_ALL = 1 << 14
"""Most switches times addresses for which every switch has a flow to every address: a fat-tree with k = 8. Larger networks have
those alone that packets of the run need."""


def is_direct(experiment: Experiment, shell: bool) -> bool:
    """Returns True if a run needs no daemons of Open vSwitch. `shell`: it is a shell."""
    if experiment.reactions:  # they change flows of the kernel's datapath, which daemons would take for their own
        return True
    if experiment.router.balance and not experiment.spec.workload.exec and not shell:  # frames that warm take one path a flow
        return True
    return may_be_direct(experiment.spec, shell)


def may_be_direct(spec: Spec, shell: bool) -> bool:
    """Returns True if nothing in a spec asks for daemons."""
    return spec.ground == "lab" and not spec.workload.exec and not shell and not os.environ.get(DAEMONS)


def groups_of(experiment: Experiment) -> Groups:
    """Returns the group ports that the run's routing needs, reactions included. The host ground has none."""
    if isinstance(experiment.router.spread, buckets.Buckets):
        return Groups((), 0)
    after_reactions = ((entry.switch, entry.hops) for reaction in experiment.reactions for entry in reaction.entries)
    return Groups(chain(hops_of(experiment.router), after_reactions), experiment.router.spread.seed, experiment.router.balance)


def rules_of(experiment: Experiment, groups: Groups) -> dict[str, list[str]]:
    """Returns the rules of each switch for the daemons, as lines for ovs-ofctl."""
    if isinstance(experiment.router.spread, buckets.Buckets):
        return buckets.flows(experiment.router)
    lines: dict[str, list[str]] = {switch.name: [] for switch in experiment.graph.switches}
    for rule in rules(experiment.router, groups):
        lines[rule.switch].append(rule.flow())
    return lines


def warm_mask(experiment: Experiment, groups: Groups) -> int:
    """Returns the bits of TCP's and UDP's ports on which a packet's way depends."""
    if isinstance(experiment.router.spread, buckets.Buckets):
        return buckets.PORT_MASK
    return ALL_BITS if any(groups) else 0


def write(experiment: Experiment, groups: Groups, path: Path, *, may_change: bool) -> dict[str, int]:
    """Writes the flows of all switches for the kernel's datapath. Returns how many each switch has.

    `may_change` is True if traffic comes that the experiment does not have: traffic of other episodes.
    """
    graph, router, spec = experiment.graph, experiment.router, experiment.spec
    addresses = [nic.address for host in graph.hosts for nic in host.nics]
    if may_change or spec.controller.nic or len(graph.switches) * len(addresses) <= MOST_FOR_ALL:
        pairs: Iterable[tuple[str, str]] = ((switch.name, address) for switch in graph.switches for address in addresses)
    else:
        pairs = _needed(experiment)
    flows: dict[str, list[bytes]] = {switch.name: [] for switch in graph.switches}
    for switch, address in pairs:
        if numbers := router.hops[switch].get(address):
            flows[switch].append(datapath.flow(address, groups.out_port(switch, numbers)))
    path.write_bytes(b"".join(chain.from_iterable(flows.values())))
    return {switch: len(switch_flows) for switch, switch_flows in flows.items()}


def _needed(experiment: Experiment) -> dict[tuple[str, str], None]:
    """Returns each switch that packets of the run's flows come to, with the address that they are for."""
    flows, graph = experiment.schedule.flows, experiment.graph
    if experiment.router.balance:
        sent = rerouting.sent(graph, experiment.schedule)
        return dict.fromkeys(
            (graph.peer(before).node, address) for before, _, address in crossings(graph, experiment.router, sent)
        )
    pairs: dict[tuple[str, str], None] = {}
    for flow, (there, back) in zip(flows, both_ways(flows, graph, experiment.router), strict=True):
        pairs |= dict.fromkeys((switch, flow.dst_addr) for switch in _switches(graph, there))
        pairs |= dict.fromkeys((switch, flow.src_addr) for switch in _switches(graph, back))
    return pairs


def _switches(graph: Graph, way: Iterable[str]) -> Iterator[str]:
    """Yields the switches that a way crosses: all its ports but the first, which is the sender's, are of switches."""
    ports = iter(way)
    next(ports)
    return (graph.port(port).node for port in ports)
