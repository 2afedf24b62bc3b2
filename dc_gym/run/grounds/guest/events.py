# SPDX-License-Identifier: Apache-2.0
"""The events of a run or of an episode (docs/events.md): starts eventd before traffic, and ends it; undoes its changes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym.run.grounds.guest.programs import EVENTD_PRIORITY, Companion
from dc_gym.run.grounds.guest.site import Site
from dc_gym.run.plan.plan import EVENTS, EVENTS_DONE, OUT, PORTS, REACTING_EVENTS, REACTION_TAG, Plan
from dc_gym.topologies.realize.datapath import DirectSwitches

if TYPE_CHECKING:
    from dc_gym.topologies.realize.fabric import Fabric
    from dc_gym.topologies.realize.ovs import Switches

HEADER, ROW = struct.Struct("=8sIIQ"), struct.Struct("=Q8I")
"""The header of record files, and `struct event_change`. inputs.py has them, too, but numpy takes long to import in a lab."""


class Events(Companion):
    """eventd, while the context is open; nothing if no event changes the network. Each episode writes its file anew."""

    def __init__(self, plan: Plan, folder: Path, t0_ns: int, ovs: Switches, site: Site, name: str = EVENTS) -> None:
        """`ovs` is direct if routing reacts. `name` is that of the file with the changes."""
        self.lossy: list[str] = [] if plan.events is None else plan.events["lossy"]
        """The ports that may become lossy."""
        argv = None if plan.events is None else _argv(plan, folder, t0_ns, ovs, site, name)
        super().__init__(argv, EVENTD_PRIORITY, site.system)

    def finish(self) -> None:
        """Ends it. Its records are written then."""
        self.terminate()
        self.expect_end()


def _argv(plan: Plan, folder: Path, t0_ns: int, ovs: Switches, site: Site, name: str) -> list[str]:
    """Returns eventd's command. Writes its file with the reactions of routing if there are any."""
    path = folder / name
    if plan.reactions:
        assert isinstance(ovs, DirectSwitches), "routing reacts where no daemons run"
        path = site.hand_over(folder, REACTING_EVENTS, with_reactions(path.read_bytes(), plan.reactions, ovs))
    return [
        f"{plan.programs}/eventd", "--ports", str(folder / PORTS), "--events", str(path),
        "--t0", str(t0_ns), "--out", str(folder / OUT / EVENTS_DONE),
    ]  # fmt: skip


def with_reactions(file: bytes, reactions: Sequence[Mapping[str, Any]], switches: DirectSwitches) -> bytes:
    """Returns the events file with the reactions of routing, whose requests are known only where the network stands."""
    count = HEADER.unpack_from(file)[3]
    at = HEADER.size + count * ROW.size
    rows = [ROW.unpack_from(file, HEADER.size + number * ROW.size) for number in range(count)]
    length = HEADER.unpack_from(file, at)[3]
    message = bytearray(file[at + HEADER.size : at + HEADER.size + length])
    for reaction in reactions:
        for switch, address, out_port in reaction["entries"]:
            request = switches.change(switch, address, out_port)
            rows.append((reaction["at_ns"], 0, REACTION_TAG + reaction["event"], len(message), len(request), 0, 0, 1, 0))
            message += request
    rows.sort(key=lambda row: row[0])
    head, bytes_head = HEADER.unpack_from(file), HEADER.unpack_from(file, at)
    table = HEADER.pack(*head[:3], len(rows)) + b"".join(ROW.pack(*row) for row in rows)
    return table + HEADER.pack(*bytes_head[:3], len(message)) + bytes(message) + bytes(-len(message) % 8)


def undo(plan: Plan, fabric: Fabric) -> None:
    """Undoes the events' changes of the network."""
    if plan.events is not None:
        fabric.restore(plan.events["cables"], plan.events["queues"])
