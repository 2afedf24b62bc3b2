# SPDX-License-Identifier: Apache-2.0
"""The ground's reports to the runner: the phase that begins, and the counters of all ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from dc_gym.topologies.realize import tc
from dc_gym.topologies.realize.rtnl import QDISCS

if TYPE_CHECKING:
    from dc_gym.topologies.realize.cables import Device
    from dc_gym.topologies.realize.fabric import Fabric

Counts = dict[str, dict[str, int]]
"""The counters of all ports, by port name."""


def phase(name: str) -> None:
    """Notifies the runner that a phase begins."""
    print(f"::phase {name}", flush=True)


def count(fabric: Fabric, devices: Mapping[str, Device] | None = None) -> Counts:
    """Returns every counter of every port at one instant of virtual time, by port name: the cable's and its queue's.

    `devices`: the result of `fabric.devices()` at that instant; None asks for them.
    """
    queues = {}
    fabric.asked(QDISCS)
    for node in ("", *(host.name for host in fabric.graph.hosts)):
        queues[node] = tc.queue_counters(fabric.socket_of(node))
    hosts = {host.name for host in fabric.graph.hosts}
    ports = {}
    devices = devices or fabric.devices()
    for port in fabric.graph.ports():
        device = devices[port.ifname]
        queue = queues[port.node if port.node in hosts else ""][device.ifindex]
        ports[port.ifname] = {
            **{name: getattr(device, name) for name in device.__slots__ if isinstance(getattr(device, name), int)},
            **{f"queue_{name}": value for name, value in asdict(queue).items()},
        }
    return ports
