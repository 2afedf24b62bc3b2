# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch inside a ground: its two daemons, all bridges in one batch, and the rules of each bridge in one bundle.

Once the datapath has its flows, the daemons take no part in forwarding. `freeze()` stops them while traffic runs, so that their
work cannot disturb a measurement. A packet that then finds no flow is lost and counted as a miss.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from dc_gym.base.errors import FabricError
from dc_gym.kernel.openvswitch_layout import SCHEMA, argv
from dc_gym.topologies.realize import jsonrpc, openflow, ovsdb
from dc_gym.topologies.realize.ovsdb import Bridge, Database

RUN_DIR = Path("/run/openvswitch")
SWITCHD_CONTROL, DATABASE_SOCKET = RUN_DIR / "ovs-vswitchd.ctl", RUN_DIR / "db.sock"
CPU_COUNT_AFTER_S = 11.0  # vswitchd starts no handler threads while the monotonic clock is below 10 s
LONG_MS = 10**9  # flows do not expire
MOST_FLOWS = 10**6  # limit of the datapath
START_DEADLINE_S = 30.0
SETTINGS = {
    "max-idle": str(LONG_MS),
    "n-handler-threads": "1",
    "n-revalidator-threads": "1",
    "max-revalidator": "10000",
    "flow-limit": str(MOST_FLOWS),
}
"""Settings of ovs-vswitchd (other_config of ovs-vswitchd.conf.db(5))."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Open vSwitch's programs in their folder (kernel/openvswitch.py)."""

    folder: Path

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "OVS_RUNDIR": str(RUN_DIR),
            "OVS_DBDIR": str(RUN_DIR),
            "OVS_LOGDIR": str(RUN_DIR),
            "OVS_SYSCONFDIR": str(RUN_DIR),
            "OVS_PKGDATADIR": f"{self.folder}/share",
        }

    def argv(self, name: str) -> list[str]:
        return argv(self.folder, name)

    @property
    def schema(self) -> Path:
        return self.folder / SCHEMA


class Switches(Protocol):
    """The switches of a network, which run while the context is open."""

    def add_bridges(self, bridges: Sequence[Bridge]) -> None:
        """Makes all switches with their ports. The devices exist already."""

    def add_flows(self, flows: Mapping[str, Any]) -> None:
        """Installs all rules, given by switch."""

    def lift_flow_limit(self) -> None:
        """Lets the datapath have all the flows that it may, at once. A bridge must exist."""

    def misses(self) -> tuple[int, int]:
        """Returns the packets since the start that found no flow in the datapath, and those that were lost for that reason."""

    def freeze(self) -> None:
        """Stops daemons that are not needed while traffic runs."""

    def thaw(self) -> None:
        """Undoes `freeze`."""


class OpenVSwitchDaemons:
    """The daemons, which run while the context is open."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._database = Database(DATABASE_SOCKET, START_DEADLINE_S)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add_bridges(self, bridges: Sequence[Bridge]) -> None:
        """Makes all bridges with their ports. The devices exist already."""
        self._database.add_bridges(bridges)

    def add_flows(self, flows: Mapping[str, Sequence[str]]) -> None:
        """Installs all rules, given by bridge. Those of a bridge take effect together; FabricError is raised for a refusal."""
        openflow.add_flows({RUN_DIR / f"{bridge}.mgmt": rules for bridge, rules in flows.items()}, START_DEADLINE_S)

    def lift_flow_limit(self) -> None:
        """Lets the datapath have all the flows that it may, at once. A bridge must exist.

        By default vswitchd starts with a limit of 10,000 flows and adds 1,000 each time that it has looked through them.
        """
        self._switchd("upcall/set-flow-limit", str(MOST_FLOWS))

    def misses(self) -> tuple[int, int]:
        """Returns the packets since the start that found no flow in the datapath, and those that were lost for that reason."""
        match = re.search(r"lookups: hit:\d+ missed:(\d+) lost:(\d+)", self._switchd("dpctl/show"))
        if match is None:
            raise FabricError("dpctl/show: no line 'lookups: hit:... missed:... lost:...' in its output")
        return int(match[1]), int(match[2])

    def freeze(self) -> None:
        """Stops both daemons (SIGSTOP)."""
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGCONT)

    def _start(self) -> None:
        RUN_DIR.mkdir(parents=True, exist_ok=True)
        time.sleep(max(0.0, CPU_COUNT_AFTER_S - time.monotonic()))
        database, socket = RUN_DIR / "conf.db", DATABASE_SOCKET
        ovsdb.create(database, self._programs.schema)
        self._spawn(
            "ovsdb-server", str(database), f"--remote=punix:{socket}", f"--unixctl={RUN_DIR}/ovsdb-server.ctl", "-vconsole:err"
        )
        _wait_for(socket)
        self._database.init(SETTINGS)
        self._spawn(
            "ovs-vswitchd",
            f"unix:{socket}",
            f"--unixctl={SWITCHD_CONTROL}",
            "-vconsole:err",
            "-vnetlink_socket:off",
            "--disable-system-route",
        )

    def _switchd(self, command: str, *words: str) -> str:
        """Runs a command of ovs-vswitchd (ovs-appctl(8)) and returns its output."""
        return str(jsonrpc.call(SWITCHD_CONTROL, command, list(words), START_DEADLINE_S))

    def _spawn(self, name: str, *words: str) -> None:
        argv = [*self._programs.argv(name), *words]
        daemon = subprocess.Popen(argv, env=self._programs.environment(), stdin=subprocess.DEVNULL)
        self._daemons.append(daemon)
        self._stack.callback(_end, daemon)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGCONT)
        daemon.kill()
        daemon.wait()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise FabricError(f"{path} has not appeared within {START_DEADLINE_S:g} s: ovsdb-server did not start")
        time.sleep(0.01)
