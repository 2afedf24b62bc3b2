# SPDX-License-Identifier: Apache-2.0
"""The first process of a host ground: process 1 of its PID namespace, in a network and a mount namespace of its own.

    unshare --net --mount --pid --fork --kill-child --mount-proc -- python -m dc_gym.host.inside RUN_FOLDER FD LINKS LEAD_NS

FD is the memory of the state matrix. Standard input is a pipe from the runner: its end is the end of everything here.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dc_gym.errors import FabricError
from dc_gym.host import calibration, fidelity
from dc_gym.run import ground
from dc_gym.run.ground import Plan, count
from dc_gym.topologies.fabric import GROUND_SYSCTLS, Fabric
from dc_gym.topologies.ovs import OpenVSwitch
from dc_gym.topologies.qdisc_fabric import QdiscFabric

OWN_SYSCTLS: Mapping[str, str] = {
    name: value
    for name, value in GROUND_SYSCTLS.items()
    if name.startswith(("net/ipv6/", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"))
}
"""Of the ground's, those that a network namespace has for itself; what is the machine's is left alone."""
SETTLE_LIMIT_S, SETTLE_STEP_S = 20.0, 0.1
MOST_FAULTS = 5
NO_CHANGE = ("queue_backlog_packets", "flight_packets")
MS_NOSUID, MS_NODEV = 2, 4


class HostFabric(Fabric):
    """Cables in this machine's kernel."""

    SYSCTLS = OWN_SYSCTLS


class HostQdiscFabric(QdiscFabric):
    SYSCTLS = OWN_SYSCTLS


class HostSite:
    """A `ground.Site`."""

    qmon_options: tuple[str, ...] = ("--check-late",)

    def __init__(self, matrix: str, links: str, lead_ns: int) -> None:
        self.matrix = matrix
        self._links = links
        self._lead_ns = lead_ns
        self._links_found: list[calibration.Measured] = []
        self._duration_ns = 0
        self._watch: fidelity.Watch | None = None
        self._fidelity: fidelity.Fidelity | None = None

    def fabric(self, plan: Plan, ovs: OpenVSwitch) -> Fabric:
        self._duration_ns = plan.duration_ns
        if self._links == "cable":
            return HostFabric(plan.graph, plan.rules, ovs, plan.ecn, plan.peers, plan.sysctls)
        return HostQdiscFabric(plan.graph, plan.rules, ovs, plan.ecn, plan.peers, plan.sysctls, self._links)

    def agree_t0(self, plan: Plan, fabric: Fabric) -> int:
        """After the links are calibrated."""
        print("::phase calibration", flush=True)
        self._links_found = calibration.measure(fabric)
        print("::phase programs", flush=True)
        return time.monotonic_ns() + self._lead_ns

    def arm(self, t0_ns: int, seed: int | None = None) -> None:
        if time.monotonic_ns() >= t0_ns:
            raise FabricError(f"set-up was late: programs were not ready within {self._lead_ns / 1e9:g} s; raise host.lead")
        print(f"::t0 {t0_ns}", flush=True)
        self._watch = fidelity.Watch(t0_ns, t0_ns + self._duration_ns)
        self._watch.start()

    def settle(self, fabric: Fabric, late_sweeps: int) -> None:
        """Real packets drain in real time; those of closed connections are few."""
        assert self._watch is not None
        self._fidelity = self._watch.result(late_sweeps)
        deadline = time.monotonic() + SETTLE_LIMIT_S
        last: Any = None
        while time.monotonic() < deadline:
            now = count(fabric)
            if now == last and not any(port[name] for port in now.values() for name in NO_CHANGE):
                return
            last = now
            time.sleep(SETTLE_STEP_S)

    def findings(self) -> dict[str, Any]:
        assert self._fidelity is not None
        links = [fault for measured in self._links_found for fault in measured.faults()]
        if len(links) > MOST_FAULTS:
            links[MOST_FAULTS:] = [
                f"and {len(links) - MOST_FAULTS} more ports are not what was asked for (manifest: calibration)"
            ]
        return {
            "calibration": [measured.row() for measured in self._links_found],
            "fidelity": self._fidelity.to_dict(),
            "unfit": links + self._fidelity.faults(),
        }


def main(argv: Sequence[str] = sys.argv) -> int:
    folder, matrix, links, lead_ns = argv[1:5]
    _die_with_the_runner()
    _own_run_folder()
    site = HostSite(f"/proc/{os.getpid()}/fd/{matrix}", links, int(lead_ns))
    return ground.main(["ground", folder], site)


def _die_with_the_runner() -> None:
    """Process 1 ends, and with it everything in its namespaces, when the runner's end of the pipe is closed."""

    def wait() -> None:
        while os.read(0, 64):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _own_run_folder() -> None:
    """/run is this ground's: its namespaces' names, and the sockets of its Open vSwitch."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"dcgym", b"/run", b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755"):
        raise FabricError(f"mount a tmpfs at /run: {os.strerror(ctypes.get_errno())}")
    Path("/run/netns").mkdir()


if __name__ == "__main__":
    sys.exit(main())
