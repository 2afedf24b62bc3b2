# SPDX-License-Identifier: Apache-2.0
"""The database of Open vSwitch (RFC 7047, ovs-vswitchd.conf.db(5)): an empty one as a file, its settings, and its bridges.

It replaces `ovsdb-tool create`, `ovs-vsctl init` and `ovs-vsctl add-br ... add-port ...`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize import jsonrpc

DATABASE = "Open_vSwitch"


@dataclass(frozen=True, slots=True)
class Bridge:
    """A switch as the database describes it."""

    name: str
    datapath_id: str
    """Sixteen hexadecimal digits."""
    ports: Mapping[str, int]
    """OpenFlow numbers of its ports, by device."""


def create(path: Path, schema: Path) -> None:
    """Writes an empty database of this schema (ovsdb(5), "Standalone Database Model")."""
    text = json.dumps(json.loads(schema.read_text()), separators=(",", ":")) + "\n"
    path.write_text(f"OVSDB JSON {len(text)} {hashlib.sha1(text.encode()).hexdigest()}\n{text}")


class Database:
    """The database that ovsdb-server serves at a socket."""

    def __init__(self, socket: Path, deadline_s: float) -> None:
        self._socket = socket
        self._deadline_s = deadline_s

    def init(self, other_config: Mapping[str, str]) -> None:
        """Adds the one row of Open_vSwitch, with these settings of the daemon."""
        row = {"other_config": _map(other_config)}
        self._transact({"op": "insert", "table": DATABASE, "row": row})

    def add_bridges(self, bridges: Sequence[Bridge]) -> None:
        """Adds all bridges in one transaction, and returns when ovs-vswitchd has made them."""
        operations = [operation for number, bridge in enumerate(bridges) for operation in _inserts(bridge, number)]
        added = ["set", [["named-uuid", _name("bridge", number)] for number in range(len(bridges))]]
        self._transact(
            *operations,
            {"op": "mutate", "table": DATABASE, "where": [], "mutations": [["bridges", "insert", added], ["next_cfg", "+=", 1]]},
        )
        (row,) = self._select(DATABASE, ["next_cfg"])
        self._transact(
            {
                "op": "wait",
                "timeout": int(self._deadline_s * 1000),
                "table": DATABASE,
                "where": [["cur_cfg", "<", row["next_cfg"]]],
                "columns": ["cur_cfg"],
                "until": "==",
                "rows": [],
            }
        )
        self._check(bridges)

    def _check(self, bridges: Sequence[Bridge]) -> None:
        """Raises FabricError unless each port has the number that was asked for."""
        interfaces = {row["name"]: row for row in self._select("Interface", ["name", "ofport", "error"])}
        for bridge in bridges:
            for port, number in bridge.ports.items():
                row = interfaces.get(port, {})
                if row.get("ofport") != number:
                    why = row.get("error") or f"it has the number {row.get('ofport')}"
                    raise FabricError(f"{bridge.name}: add port {port} as number {number}: {why}")

    def _select(self, table: str, columns: list[str]) -> list[dict[str, Any]]:
        """Returns these columns of all rows of a table."""
        results = self._transact({"op": "select", "table": table, "where": [], "columns": columns})
        rows: list[dict[str, Any]] = results[0]["rows"]
        return rows

    def _transact(self, *operations: dict[str, Any]) -> list[dict[str, Any]]:
        """Runs a transaction and returns the results of its operations."""
        results: list[dict[str, Any]] = jsonrpc.call(self._socket, "transact", [DATABASE, *operations], self._deadline_s)
        for result in results:
            if result and result.get("error"):
                raise FabricError(f"{self._socket}: {result['error']}: {result.get('details', 'no details')}")
        return results


def _map(values: Mapping[str, str]) -> list[Any]:
    """Returns a map in the database's notation."""
    return ["map", [list(item) for item in values.items()]]


def _name(kind: str, *numbers: int) -> str:
    """Returns the name by which the operations of a transaction refer to a new row."""
    return "_".join([kind, *map(str, numbers)])


def _inserts(bridge: Bridge, number: int) -> list[dict[str, Any]]:
    """Returns the operations that add a bridge's rows. Like ovs-vsctl they add a port for the bridge itself."""
    operations: list[dict[str, Any]] = []
    ports: list[tuple[str, dict[str, Any]]] = [(bridge.name, {"type": "internal"})]
    ports += [(name, {"ofport_request": ofport}) for name, ofport in bridge.ports.items()]
    for index, (name, settings) in enumerate(ports):
        interface, port = _name("interface", number, index), _name("port", number, index)
        operations.append({"op": "insert", "table": "Interface", "uuid-name": interface, "row": {"name": name, **settings}})
        row = {"name": name, "interfaces": ["named-uuid", interface]}
        operations.append({"op": "insert", "table": "Port", "uuid-name": port, "row": row})
    config = {"datapath-id": bridge.datapath_id, "disable-in-band": "true", "dp-desc": bridge.name}
    bridge_row: dict[str, Any] = {
        "name": bridge.name,
        "fail_mode": "secure",
        "other_config": _map(config),
        "ports": ["set", [["named-uuid", _name("port", number, index)] for index in range(len(ports))]],
    }
    return [*operations, {"op": "insert", "table": "Bridge", "uuid-name": _name("bridge", number), "row": bridge_row}]
