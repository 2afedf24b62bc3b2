# SPDX-License-Identifier: Apache-2.0
"""The events file of a run, which eventd reads (ctrl/agent/events_file.h), and eventd's record of its work.

For each change the file has the netlink request that makes it, and the one that reads it back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base import record_file
from dc_gym.base.record_file import Table
from dc_gym.run.plan import inputs
from dc_gym.run.plan.plan import REACTION_TAG
from dc_gym.topologies import telemetry
from dc_gym.topologies.changes import (
    CABLE,
    CUT,
    DELAY,
    KMAX,
    KMIN,
    LIMIT,
    LOSS,
    PMAX,
    QUEUE,
    RATE,
    TELLS,
    Change,
    ports_of,
    rates_of,
)
from dc_gym.topologies.graph import Graph, Telemetry
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.rtnl import NLMSG_HDR, NetlinkRequest

HERE = 0
"""The index of a device, until eventd fills it in."""


def touched(changes: Sequence[Change]) -> dict[str, list[str]]:
    """Returns the ports whose cables and whose queues change, and the ports that may become lossy."""
    groups = {"cables": CABLE, "queues": QUEUE, "lossy": (LOSS,)}
    return {name: list(ports_of(changes, *quantities)) for name, quantities in groups.items()}


def tables(changes: Sequence[Change], graph: Graph) -> tuple[Table, Table]:
    """Returns the tables of the events file: the changes, and the bytes of their requests."""
    rows: list[dict[str, Any]] = []
    numbers = {port.ifname: row for row, port in enumerate(graph.ports())}
    message = b""
    telemetry_by_rate = _told(changes, graph)
    for tag, change in enumerate(changes):
        row: dict[str, Any] = {"at_ns": change.at_ns, "row": numbers[change.port], "tag": tag, "generic": 0}
        for name, request in zip(("set", "get"), _requests(change, graph, telemetry_by_rate), strict=True):
            packed = request.message()
            row |= {f"{name}_start": len(message), f"{name}_len": len(packed)}
            message += packed
        rows.append(row)
    return inputs.EVENT.table(rows), Table(inputs.REQUEST_BYTE, np.frombuffer(message, inputs.REQUEST_BYTE.dtype))


def _told(changes: Sequence[Change], graph: Graph) -> dict[int, Telemetry]:
    """Returns the telemetry of a port by its rate; none where no port's rate changes."""
    if not ports_of(changes, TELLS):
        return {}
    return telemetry.told_of(telemetry.rate_table(graph, rates_of(changes)))


def _requests(change: Change, graph: Graph, telemetry_by_rate: Mapping[int, Telemetry]) -> tuple[NetlinkRequest, NetlinkRequest]:
    """Returns the request that makes a change, and the one that reads it back."""
    values, port = dict(change.values), change.port
    if not change.of_queue:
        arguments = {cables.ARGUMENTS[name]: value for name, value in values.items()}
        return cables.change(HERE, port, **arguments), cables.describe(HERE, port)
    if TELLS in values:
        return tc.change_port(HERE, port, telemetry=telemetry_by_rate[values[TELLS]]), tc.describe(HERE, port)
    at = graph.port(port).queue.marking.at
    marking = (values[KMIN], values[KMAX], values[PMAX], at) if KMIN in values else None
    return tc.change_port(HERE, port, values.get(LIMIT), marking), tc.describe(HERE, port)


def reacted(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yields eventd's changes of the switches' rules: the number of the event, the time after t0, and an errno or 0."""
    for record in _done(path)[0]:
        if record["tag"] >= REACTION_TAG:
            yield int(record["tag"]) - REACTION_TAG, int(record["t_ns"]), -int(record["error"])


def _done(path: Path) -> tuple[Any, bytes]:
    records, answers = (table.records for table in record_file.read(path, (inputs.EVENT_DONE, inputs.REQUEST_BYTE)))
    return records, answers.tobytes()


def done(path: Path, changes: Sequence[Change], graph: Graph) -> Iterator[tuple[Change, int, int, Mapping[str, int]]]:
    """Yields eventd's changes of ports: the change, its time after t0, the errno of a refusal or 0, and the values read back."""
    records, data = _done(path)
    rates_bps = {port_telemetry: rate_bps for rate_bps, port_telemetry in _told(changes, graph).items()}
    for record in records[records["tag"] < REACTION_TAG]:
        change, start = changes[record["tag"]], int(record["answer_start"])
        payload = data[start + NLMSG_HDR.size : start + int(record["answer_len"])]
        quantities = {} if record["error"] else _read_back(change, payload, rates_bps)
        yield change, int(record["t_ns"]), -int(record["error"]), quantities


def _read_back(change: Change, payload: bytes, rates_bps: Mapping[Telemetry, int]) -> dict[str, int]:
    """Returns the quantities of a change as the kernel describes them."""
    try:
        if change.values[0][0] == TELLS:
            quantities = {TELLS: rates_bps[tc.told_by(payload)]}
        elif change.of_queue:
            quantities = dict(zip((LIMIT, KMIN, KMAX, PMAX), tc.port_of(payload), strict=True))
        else:
            device = cables.device_of(payload)
            assert device is not None, "a change of a cable"
            quantities = {RATE: device.rate_bps, DELAY: device.delay_ns, LOSS: device.impairment.loss_ppb, CUT: device.cut}
    except (KeyError, struct.error):
        return {}
    return {name: quantities[name] for name, _ in change.values}
