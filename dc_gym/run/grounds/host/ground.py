# SPDX-License-Identifier: Apache-2.0
"""The host as a ground: namespaces of this machine's own kernel, as root, in real time.

The whole network lives in network, mount and PID namespaces of its own (dc_gym.run.grounds.host.inside). Its names cannot collide
with others, and it changes nothing on the machine. When the first process of the PID namespace dies for any reason, the kernel
removes everything. That process ends together with this one: it waits for the end of a pipe.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dc_gym.base.errors import KernelError, UsageError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Progress
from dc_gym.kernel import cable_module, openvswitch
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.results import fingerprint
from dc_gym.run.grounds.ground import Driver
from dc_gym.run.grounds.host import calibration, needs
from dc_gym.run.grounds.host.live import GRACE_S, SETUP_LIMIT_S, Ended, LiveNetwork
from dc_gym.run.plan.plan import GO_ON, Plan
from dc_gym.spec import Spec
from dc_gym.topologies.realize import qdisc_fabric
from dc_gym.topologies.waits import Waits

NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class HostGround:
    """A `ground.Ground`."""

    def __init__(self, spec: Spec, asks: bool = False) -> None:
        """`asks` is True if the process in the ground asks for each step. Otherwise steps come by the clock."""
        self._spec, self._asks = spec, asks
        self._links = spec.host.links
        self._module: Path | None = None

    def prepare(self, progress: Progress) -> None:
        if os.geteuid() != 0:
            raise UsageError('ground "host" needs root: run it with sudo, or in a VM: dcgym vm -- run ...; a lab needs none')
        if shutil.which("unshare") is None:
            raise UsageError("unshare is not installed: apt-get install util-linux")
        openvswitch.ensure(progress).check_contents()
        self._module = self._choose_links(progress)
        graph = self._spec.graph()
        if self._module is None:
            qdisc_fabric.check(graph, self._links)
        queues = {port.queue.kind for port in graph.ports()}
        needs.require(needs.modules_for(self._links, queues, [self._spec.tcp_name], self._spec.controller.nic))

    def _choose_links(self, progress: Progress) -> Path | None:
        """Chooses the kind of links: cables, netem or tbf. Returns the cable's module if they are cables."""
        if self._spec.host.links not in ("auto", "cable"):
            self._links = self._spec.host.links
            return None
        release = platform.release()
        try:
            module = cable_module.ensure(release, cable_module.headers_of(release))
        except KernelError as error:
            if self._spec.host.links == "cable":
                raise
            progress.note(f"links are made of veth, tbf and netem, with their errors: no cable here ({error})")
            self._links = "netem"
            return None
        self._links = "cable"
        return module

    def run(
        self,
        partial: Path,
        plan: Callable[[], Plan],
        on_line: Callable[[str], None],
        progress: Progress,
        driver: Driver | None = None,
    ) -> int:
        plan()
        duration_ns = self._spec.time.duration_ns
        with self.live(partial, on_line, progress.note) as network:
            if driver is not None and self._asks:
                return network.converse(driver.step)
            if driver is not None:
                with suppress(Ended):  # its exit status gives the reason
                    _drive(network, driver, lambda since_ns: progress.virtual(since_ns, duration_ns))
            return network.wait(duration_ns, progress.virtual)

    def live(
        self, folder: Path, on_line: Callable[[str], None] = lambda line: None, on_note: Callable[[str], None] = lambda note: None
    ) -> LiveNetwork:
        """Returns the network of the plan in `folder`/.lab, not yet entered. Call `prepare` first."""

        def argv(matrix: int) -> list[str]:
            return self._argv(folder, matrix)

        graph = self._spec.graph()
        limits_s = SETUP_LIMIT_S + calibration.longest_s(graph), GRACE_S + Waits.of(graph).drain_ns / 1e9
        return LiveNetwork(argv, folder, self._module, self._spec.agent.interval_ns, on_line, on_note, limits_s)

    def end_computation(self) -> None:
        """Does nothing: on a real clock every program hears its signals."""

    def unfit(self) -> list[str]:
        return []

    def environment(self, ovs: OpenVSwitch) -> dict[str, str]:
        return {
            "kernel": f"{platform.release()} {platform.version()}",
            "links": f"cable-{cable_module.key()}" if self._links == "cable" else self._links,
            "openvswitch": ovs.fingerprint,
            "libc": " ".join(platform.libc_ver()),
            "python": platform.python_version(),
            "programs": fingerprint.programs(),
            **fingerprint.acting(self._spec),
        }

    def facts(self) -> dict[str, Any]:
        return {"links": self._links, "machine": _machine()}

    def _argv(self, partial: Path, matrix: int) -> list[str]:
        arguments = [str(partial), str(matrix), self._links, str(self._spec.host.lead_ns)]
        return ["unshare", *NAMESPACES, "--", *python("-m", "dc_gym.run.grounds.host.inside", *arguments)]


def _drive(network: LiveNetwork, driver: Driver, on_step: Callable[[int], None]) -> None:
    """Passes each step to the driver when it comes. A step for which the driver is late is missed, and the traffic goes on."""
    code = GO_ON
    while code == GO_ON:
        step, t_ns = network.until_step()
        code = driver.step(network.region, step)
        network.answer(code)
        assert network.t0_ns is not None, "there was a step"
        on_step(t_ns - network.t0_ns)


def _machine() -> dict[str, Any]:
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "clocksource": clock.read_text().strip() if clock.exists() else "unknown",
    }
