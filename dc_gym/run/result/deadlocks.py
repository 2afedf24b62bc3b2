# SPDX-License-Identifier: Apache-2.0
"""Looks for a deadlock of pauses at the end of a run: ports that wait for one another in a circle.

The state of classes comes from the last sweep. A circle counts only if none of its ports has sent anything of the class since the
sweep before: PAUSE frames that are under way look alike for a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.monitors.trace import read_trace
from dc_gym.run.plan.rerouting import sent
from dc_gym.topologies.deadlock import PortState, find_deadlock
from dc_gym.topologies.ecmp import Router, crossings
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.schedule import Schedule

LAST_SWEEPS = 2


def at_end(
    graph: Graph, router: Router, schedule: Schedule, trace: Path, paused_classes: Mapping[str, int]
) -> tuple[str, ...] | None:
    """Returns the ports of a deadlock at the end of a run, each waiting for the next, or None.

    `trace` is qmon's file. `paused_classes` has, for each port, the classes that its peer had it hold at the end, a bit each.
    """
    if not any(paused_classes.values()):
        return None
    sweeps, ports = read_trace(trace), [port.ifname for port in graph.ports()]
    rows: dict[str, list[int]] = {port: [] for port in ports}
    for index, row in enumerate(graph.rows()):
        if row.number is not None:
            rows[row.port.ifname].append(index)
    backlogs, charged = (sweeps.column(name)[-1] for name in ("backlog_bytes", "charged_bytes"))
    states = {
        port: PortState(paused_classes.get(port, 0), tuple(backlogs[rows[port]].tolist()), tuple(charged[rows[port]].tolist()))
        for port in ports
    }
    circle = find_deadlock(states, {port: graph.peer(port).ifname for port in ports}, leads_to(graph, router, schedule))
    sent = sweeps.column("tx_bytes")[-LAST_SWEEPS:]
    if circle is None or any(_moved(states[port], sent[:, rows[port]]) for port in circle):
        return None
    return circle


def _moved(state: PortState, sent: npt.NDArray[np.uint64]) -> bool:
    """Returns True if a class that the port has to hold has sent something. `sent` is bytes as [sweeps, classes]."""
    held = [number for number in range(sent.shape[1]) if state.paused_classes >> number & 1 and state.backlog(number)]
    return bool((sent[0, held] != sent[-1, held]).any())


def leads_to(graph: Graph, router: Router, schedule: Schedule) -> dict[str, set[str]]:
    """Returns, for each port of a switch where packets of flows or their answers come in, the ports by which they leave."""
    next_ports: dict[str, set[str]] = {}
    for before, after, _ in crossings(graph, router, sent(graph, schedule)):
        next_ports.setdefault(graph.peer(before).ifname, set()).add(after)
    return next_ports
