# SPDX-License-Identifier: Apache-2.0
"""The queues of a SONiC switch (config_db.json) as keys of `[topology]`, for all ports of a network.

A queue that DSCP_TO_TC_MAP and TC_TO_QUEUE_MAP lead to is a class: SCHEDULER gives its weight, WRED_PROFILE its marking, and
pfc_enable of PORT_QOS_MAP makes it lossless. The ingress pools together are the shared buffer. dynamic_th n is the share 2^n of
the pool's free room: `alpha` of lossy queues (BUFFER_QUEUE), `xoff` of lossless ones (BUFFER_PG), whose profiles call the
headroom xoff. Where ports differ, the setting of most holds. The fields are those of SONiC's YANG models.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dc_gym.base import bounded
from dc_gym.topologies.buffers import PERCENT
from dc_gym.topologies.files import fault
from dc_gym.topologies.graph import DSCPS

NEEDED = ("WRED_PROFILE", "BUFFER_POOL", "BUFFER_PROFILE", "PORT_QOS_MAP", "QUEUE", "DSCP_TO_TC_MAP")
"""A file without any of these tables has no settings of queues."""
TABLES = re.compile(r"BUFFER|QUEUE|QOS|WRED|SCHEDULER|_TC_|PFC|PRIORITY|LOSSLESS|CABLE_LENGTH")
"""The names of tables about queues. Of others nothing is told."""
MARKS = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")
POWERS, LAST_QUEUE = (-8, 7), 63
"""The values of dynamic_th, and the highest number of a queue."""
PORT_FIELDS = ("dscp_to_tc_map", "tc_to_queue_map", "pfc_to_queue_map", "pfc_enable")
SOURCE = "give SONiC's config_db.json"


@dataclass(frozen=True, slots=True)
class QosSettings:
    """Keys of a spec with their values as in TOML, and what the file has and dc-gym has not, a line each."""

    values: dict[str, Any]
    not_used: tuple[str, ...]


def read(path: Path) -> QosSettings:
    """Returns the settings in a file. Raises TopologyError in one line."""
    config = _Config(path, _tables(path))
    port = config.of_ports()
    queues = _queues(config, port)
    queue_of = config.map("MAP_PFC_PRIORITY_TO_QUEUE", port.get("pfc_to_queue_map"))
    priorities = {_number(path, "PORT_QOS_MAP: pfc_enable", text) for text in port.get("pfc_enable", "").split(",") if text}
    paused = {number: queue_of.get(number, number) for number in priorities}
    paused = {number: queue for number, queue in paused.items() if queue in queues or not queues}
    lossless = set(paused.values())
    values = {"topology.shared_buffer": _shared_buffer(config), **_lossy(config, queues.keys() - lossless)}
    values |= _lossless(config, paused.keys()) if paused else {}
    if queues:
        values["topology.classes"] = list(_classes(config, queues, lossless))
    else:
        profiles = Counter(config.of_queues("QUEUE", "wred_profile").values()) or Counter([*config.rows("WRED_PROFILE")])
        marking = _marking(config, config.most("QUEUE", "wred_profile", profiles) if profiles else None)
        values |= {f"topology.{name}": value for name, value in marking.items()}
    return QosSettings({name: value for name, value in values.items() if value is not None}, tuple(config.not_used()))


def _shared_buffer(config: _Config) -> str | None:
    """Returns the size of all ingress pools together. Others limit queues within the same memory."""
    types = {name: config.text("BUFFER_POOL", name, "type") for name in config.rows("BUFFER_POOL")}
    others = [name for name, kind in types.items() if kind == "egress"]
    config.told += [f"BUFFER_POOL: {', '.join(others)}"] if others else []
    size = sum(config.number("BUFFER_POOL", name, part) or 0 for name in types.keys() - others for part in ("size", "xoff"))
    return f"{size}B" if size else None


def _tables(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = json.loads(bounded.read_text(path))
    except (ValueError, RecursionError) as error:
        raise fault(path, getattr(error, "lineno", None), f"it is not JSON: {error}; {SOURCE}") from None
    if not isinstance(tables, dict) or not any(name in tables for name in NEEDED):
        raise fault(path, None, f"it has none of the tables {', '.join(NEEDED)}; {SOURCE}")
    tables = {table: rows for table, rows in tables.items() if TABLES.search(table)}
    for table, rows in tables.items():
        if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
            raise fault(path, None, f"{table} is no table of rows with fields; {SOURCE}")
    return tables


class _Config:
    """The tables, and which of their fields have been read."""

    def __init__(self, path: Path, tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self.path = path
        self._tables = tables
        self._read = defaultdict[str, set[str]](set)
        self.told: list[str] = []
        """Lines about what is not used."""

    def rows(self, table: str) -> Mapping[str, Mapping[str, Any]]:
        return self._tables.get(table, {})

    def text(self, table: str, row: str, name: str) -> str | None:
        """Returns a field of a row; None if there is none."""
        self._read[table].add(name)
        value = self.rows(table).get(row, {}).get(name)
        return None if value is None else str(value)

    def number(self, table: str, row: str, name: str) -> int | None:
        text, bounds = self.text(table, row, name), POWERS if name.endswith("dynamic_th") else ()
        return None if text is None else _number(self.path, f"{table}|{row}: {name}", text, *bounds)

    def map(self, table: str, row: str | None) -> dict[int, int]:
        """Returns a row whose fields and values are numbers."""
        fields = self.rows(table).get(row or "", {})
        self._read[table].update(name for fields in self.rows(table).values() for name in fields)
        return {_number(self.path, table, name): _number(self.path, table, str(value)) for name, value in fields.items()}

    def of_ports(self) -> dict[str, str]:
        """Returns what PORT_QOS_MAP has for most ports."""
        votes = {name: Counter[str]() for name in PORT_FIELDS}
        for ports, row in self.rows("PORT_QOS_MAP").items():
            for name in [name for name in PORT_FIELDS if name in row]:
                votes[name][_reference(row[name])] += 0 if ports == "global" else len(ports.split(","))
        self._read["PORT_QOS_MAP"].update(PORT_FIELDS)
        return {name: self.most("PORT_QOS_MAP", name, counts) for name, counts in votes.items() if counts}

    def of_queues(self, table: str, name: str) -> dict[int, str]:
        """Returns a field of rows such as Ethernet0|3-4 by queue, as most ports have it."""
        votes = defaultdict[int, Counter[str]](Counter)
        for key, row in self.rows(table).items():
            *ports, span = key.split("|")
            first, _, last = span.partition("-")
            low, high = (_number(self.path, f"{table}|{key}", text, 0, LAST_QUEUE) for text in (first, last or first))
            for queue in range(low, high + 1) if name in row else ():
                votes[queue][_reference(row[name])] += len(ports[-1].split(",")) if ports else 1
        self._read[table].add(name)
        return {queue: self.most(table, f"{name} of queue {queue}", counts) for queue, counts in votes.items()}

    def most(self, table: str, name: str, counts: Counter[str]) -> str:
        """Returns the value that most have, and tells if others have another."""
        (value, count), *others = counts.most_common()
        if others and count:
            self.told.append(f"{table}: {name} other than {value}, which {count} of {counts.total()} have")
        return value

    def not_used(self) -> Iterator[str]:
        yield from dict.fromkeys(self.told)
        for table, rows in self._tables.items():
            fields = dict.fromkeys(name for row in rows.values() for name in row)
            if left := [name for name in fields if name not in self._read[table]]:
                yield f"{table}: {', '.join(left)}" if self._read[table] else table


def _reference(value: object) -> str:
    """Returns the name in a reference, which old files write as [TABLE|NAME]."""
    return str(value).strip("[]").rpartition("|")[2]


def _number(path: Path, where: str, text: str, least: int = 0, most: int = 2**40) -> int:
    value = int(text) if re.fullmatch("-?[0-9]{1,15}", text) else least - 1
    if not least <= value <= most:
        raise fault(path, None, f"{where}: value {text!r} is not a whole number from {least} to {most}; mend the file")
    return value


def _queues(config: _Config, port: Mapping[str, str]) -> dict[int, list[int]]:
    """Returns the DSCPs of each queue that has some; nothing if DSCPs have no map."""
    classes = config.map("DSCP_TO_TC_MAP", port.get("dscp_to_tc_map") or next(iter(config.rows("DSCP_TO_TC_MAP")), None))
    queue_of = config.map("TC_TO_QUEUE_MAP", port.get("tc_to_queue_map"))
    queues = defaultdict[int, list[int]](list)
    for dscp in range(DSCPS) if classes else ():
        traffic_class = classes.get(dscp, 0)
        queues[queue_of.get(traffic_class, traffic_class)].append(dscp)
    return dict(sorted(queues.items()))


def _classes(config: _Config, queues: Mapping[int, list[int]], lossless: set[int]) -> Iterator[dict[str, Any]]:
    """Yields the entries of topology.classes."""
    schedulers, wred = config.of_queues("QUEUE", "scheduler"), config.of_queues("QUEUE", "wred_profile")
    buffers = config.of_queues("BUFFER_QUEUE", "profile")
    percents = _percents(config, {queue: schedulers.get(queue, "") for queue in queues})
    for queue, dscps in queues.items():
        entry: dict[str, Any] = {"name": f"q{queue}", "dscp": dscps}
        if queue in percents:
            entry["weight"] = percents[queue]
        static = config.number("BUFFER_PROFILE", buffers.get(queue, ""), "static_th")
        if queue in lossless:
            entry["lossless"] = True
        elif static is not None:
            entry["buffer"] = f"{static}B"
        yield entry | (_marking(config, wred.get(queue)) or {"marking": "none"})


def _percents(config: _Config, schedulers: Mapping[int, str]) -> dict[int, int]:
    """Returns the weights of queues in percent, which sum to 100. A queue of type STRICT has none, one without scheduler 1."""
    weights = {
        queue: config.number("SCHEDULER", name, "weight") or 1
        for queue, name in schedulers.items()
        if config.text("SCHEDULER", name, "type") != "STRICT"
    }
    whole = {queue: max(1, PERCENT * weight // sum(weights.values())) for queue, weight in weights.items()}
    while whole and (left := PERCENT - sum(whole.values())):
        short, most = min(whole, key=lambda queue: Fraction(whole[queue], weights[queue])), max(whole, key=whole.__getitem__)
        whole[short if left > 0 else most] += 1 if left > 0 else -1
    return whole


def _marking(config: _Config, profile: str | None) -> dict[str, Any]:
    """Returns the keys of marking of a WRED profile for green packets; nothing if it marks none."""
    if profile is None or config.text("WRED_PROFILE", profile, "ecn") not in MARKS:
        return {}
    low, high, percent = (
        config.number("WRED_PROFILE", profile, f"green_{name}") for name in ("min_threshold", "max_threshold", "drop_probability")
    )
    if low is None or high is None:
        raise fault(config.path, None, f"WRED_PROFILE|{profile} marks and has not both green thresholds; give them")
    percent = PERCENT if percent is None else percent
    if low >= high or not percent:
        return {"marking": "step", "k_bytes": f"{high}B"}
    return {"marking": "red-instant", "kmin": f"{max(1, low)}B", "kmax": f"{high}B", "pmax": f"{percent}%"}


def _profile(config: _Config, table: str, queues: Collection[int]) -> str:
    """Returns the buffer profile of most of these queues or priority groups; "" if they have none."""
    profiles = config.of_queues(table, "profile")
    votes = Counter(name for queue, name in profiles.items() if not queues or queue in queues)
    return config.most(table, f"profiles of {sorted(queues)}", votes) if votes else ""


def _lossy(config: _Config, queues: Collection[int]) -> dict[str, Any]:
    """Returns alpha and reserve of lossy queues."""
    profile = _profile(config, "BUFFER_QUEUE", queues)
    power, size = (config.number("BUFFER_PROFILE", profile, name) for name in ("dynamic_th", "size"))
    return {"topology.alpha": None if power is None else 2.0**power, "topology.reserve": f"{size}B" if size else None}


def _lossless(config: _Config, groups: Collection[int]) -> dict[str, Any]:
    """Returns when lossless priority groups pause their peer, and the room for what still comes in."""
    profile = _profile(config, "BUFFER_PG", groups)
    power, static, headroom, below = (
        config.number("BUFFER_PROFILE", profile, name) for name in ("dynamic_th", "static_th", "xoff", "xon_offset")
    )
    if power is not None and power > 0:
        config.told.append(f"BUFFER_PROFILE: dynamic_th of {profile} above 0, the whole free room of the pool")
    share = None if power is None else f"1/{2 ** max(0, -power)}"
    return {
        "topology.pfc": "classes",
        "topology.xoff": share if static is None else f"{static}B",
        "topology.headroom": f"{headroom}B" if headroom else None,
        "topology.xon_below": None if below is None else f"{below}B",
    }
