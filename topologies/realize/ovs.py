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
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dc_gym.base.errors import FabricError
from dc_gym.kernel.openvswitch import SCHEMA, argv

RUN_DIR = Path("/run/openvswitch")
SWITCHD_CONTROL = RUN_DIR / "ovs-vswitchd.ctl"
CPU_COUNT_AFTER_S = 11.0  # vswitchd starts no handler threads while the monotonic clock is below 10 s
LONG_MS = 10**9  # flows do not expire
MOST_FLOWS = 10**6  # limit of the datapath
START_DEADLINE_S = 30.0


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


class OpenVSwitchDaemons:
    """The daemons, which run while the context is open."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._daemons: list[subprocess.Popen[bytes]] = []
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

    def vsctl(self, *words: str) -> str:
        return self.run("ovs-vsctl", *words)

    def add_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Installs all rules of a bridge in one bundle. Either all of them take effect, or it raises FabricError."""
        self.run(
            "ovs-ofctl", "-O", "OpenFlow14", "--bundle", "add-flows", bridge, "-", text="".join(f"{flow}\n" for flow in flows)
        )

    def lift_flow_limit(self) -> None:
        """Lets the datapath have all the flows that it may, at once. A bridge must exist.

        By default vswitchd starts with a limit of 10,000 flows and adds 1,000 each time that it has looked through them.
        """
        self.run("ovs-appctl", "-t", str(SWITCHD_CONTROL), "upcall/set-flow-limit", str(MOST_FLOWS))

    def misses(self) -> tuple[int, int]:
        """Returns the packets since the start that found no flow in the datapath, and those that were lost for that reason."""
        found = re.search(r"lookups: hit:\d+ missed:(\d+) lost:(\d+)", self.run("ovs-dpctl", "show"))
        if found is None:
            raise FabricError("ovs-dpctl show: no line 'lookups: hit:... missed:... lost:...' in its output")
        return int(found[1]), int(found[2])

    def freeze(self) -> None:
        """Stops both daemons (SIGSTOP)."""
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGCONT)

    def run(self, program: str, *words: str, text: str | None = None) -> str:
        argv = [*self._programs.argv(program), *words]
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, env=self._programs.environment(), timeout=START_DEADLINE_S
        )
        if done.returncode:
            raise FabricError(f"{program} {' '.join(words)[:200]}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def _start(self) -> None:
        RUN_DIR.mkdir(parents=True, exist_ok=True)
        time.sleep(max(0.0, CPU_COUNT_AFTER_S - time.monotonic()))
        database, socket = RUN_DIR / "conf.db", RUN_DIR / "db.sock"
        self.run("ovsdb-tool", "create", str(database), str(self._programs.schema))
        self._spawn(
            "ovsdb-server", str(database), f"--remote=punix:{socket}", f"--unixctl={RUN_DIR}/ovsdb-server.ctl", "-vconsole:err"
        )
        _wait_for(socket)
        self.vsctl(
            "--no-wait", "init", "--", "set", "Open_vSwitch", ".", f"other_config:max-idle={LONG_MS}",
            "other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1",
            "other_config:max-revalidator=10000", f"other_config:flow-limit={MOST_FLOWS}",
        )  # fmt: skip
        self._spawn(
            "ovs-vswitchd",
            f"unix:{socket}",
            f"--unixctl={SWITCHD_CONTROL}",
            "-vconsole:err",
            "-vnetlink_socket:off",
            "--disable-system-route",
        )

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
