# SPDX-License-Identifier: Apache-2.0
"""The host as a ground: namespaces of this machine's own kernel, as root, in real time.

The whole network lives in a network, a mount and a PID namespace of its own (dc_gym.host.inside): no name in it can collide with
anybody's, nothing of the machine's is changed, and when its first process dies, however that comes, the kernel takes all of it
away. That process dies with this one: it waits for the end of a pipe.
"""

from __future__ import annotations

import os
import platform
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym.errors import FabricError, KernelError, UsageError
from dc_gym.host import needs, state
from dc_gym.kernel import cable_module
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.kernel.share import RegionServer
from dc_gym.progress import Progress
from dc_gym.repeat import fingerprint
from dc_gym.run.grounds import PROGRAMS
from dc_gym.spec import Spec
from dc_gym.topologies import qdisc_fabric

if TYPE_CHECKING:
    from dc_gym.envs.driver import Driver

SETUP_LIMIT_S = 600.0
GRACE_S = 120.0  # after the traffic, for counting
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class HostGround:
    """A `grounds.Ground`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._links = spec.host.links
        self._module: Path | None = None
        self._t0_ns: int | None = None

    def prepare(self, progress: Progress) -> None:
        if os.geteuid() != 0:
            raise UsageError('ground "host" needs root: run it with sudo, or in a VM: dcgym vm -- run ...; a lab needs none')
        if shutil.which("unshare") is None:
            raise UsageError("unshare is not installed: apt-get install util-linux")
        self._module = self._choose_links(progress)
        graph = self._spec.graph()
        if self._module is None:
            qdisc_fabric.check(graph, self._links)
        queues = {port.queue.kind for port in graph.ports()}
        needs.require(needs.modules_for(self._links, queues, [self._spec.controller.kernel_name]))

    def _choose_links(self, progress: Progress) -> Path | None:
        """What links are made of; the cable's module if they are cables."""
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

    def run(self, partial: Path, on_line: Callable[[str], None], progress: Progress, driver: Driver | None = None) -> int:
        with ExitStack() as stack:
            in_ground = stack.enter_context(state.registered(partial))
            if self._module is not None:
                state.use_cable(self._module)
            matrix = os.memfd_create("dcgym-matrix", os.MFD_CLOEXEC)
            stack.callback(os.close, matrix)
            share = _share(partial / ".lab", stack, progress)
            process = subprocess.Popen(
                self._argv(partial, matrix),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=[matrix], env=_environment(), cwd="/", start_new_session=True,
            )  # fmt: skip
            stack.callback(_end, process)
            in_ground(process.pid)
            return self._attend(process, share, matrix, on_line, progress)

    def environment(self, ovs: OpenVSwitch) -> dict[str, str]:
        return {
            "kernel": f"{platform.release()} {platform.version()}",
            "links": f"cable-{cable_module.key()}" if self._links == "cable" else self._links,
            "openvswitch": ovs.fingerprint,
            "libc": " ".join(platform.libc_ver()),
            "python": platform.python_version(),
            "programs": fingerprint.programs(),
        }

    def facts(self) -> dict[str, Any]:
        return {"links": self._links, "machine": _machine()}

    def _argv(self, partial: Path, matrix: int) -> list[str]:
        inside = [
            sys.executable,
            "-m",
            "dc_gym.host.inside",
            str(partial),
            str(matrix),
            self._links,
            str(self._spec.host.lead_ns),
        ]
        return ["unshare", *NAMESPACES, "--", *inside]

    def _attend(
        self,
        process: subprocess.Popen[bytes],
        share: RegionServer | None,
        matrix: int,
        on_line: Callable[[str], None],
        progress: Progress,
    ) -> int:
        """Passes lines on and serves whoever watches, until the end; FabricError when that does not come."""
        assert process.stdout is not None
        began, rest = time.monotonic(), b""
        while True:
            sources: list[Any] = [process.stdout] if share is None else [process.stdout, share]
            ready, _, _ = select.select(sources, [], [], 0.2)
            if process.stdout in ready:
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return process.wait()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(line.decode(errors="replace"), on_line)
            if share is not None and share in ready:
                share.serve_one(matrix, 0, os.fstat(matrix).st_size)
            self._check_time(began)
            if self._t0_ns is not None:
                progress.virtual(time.monotonic_ns() - self._t0_ns, self._spec.time.duration_ns)

    def _take(self, line: str, on_line: Callable[[str], None]) -> None:
        if line.startswith("::t0 "):
            self._t0_ns = int(line.removeprefix("::t0 "))
        else:
            on_line(line)

    def _check_time(self, began: float) -> None:
        if self._t0_ns is None:
            if time.monotonic() - began > SETUP_LIMIT_S:
                raise FabricError(f"the network did not stand within {SETUP_LIMIT_S:g} s")
        elif time.monotonic_ns() > self._t0_ns + self._spec.time.duration_ns + int(GRACE_S * 1e9):
            raise FabricError(f"the run has not ended {GRACE_S:g} s after its traffic should have")


def _share(folder: Path, stack: ExitStack, progress: Progress) -> RegionServer | None:
    """Where `dcgym watch` attaches; a file system without sockets (9p) has none."""
    try:
        return stack.enter_context(RegionServer(folder))
    except OSError as error:
        progress.note(f"{folder}: no socket can be made here ({error.strerror}): dcgym watch will not find this run")
        return None


def _environment() -> dict[str, str]:
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(PROGRAMS.parent.parent),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "HOME": "/run",
        "TMPDIR": "/run",
    }


def _machine() -> dict[str, Any]:
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "clocksource": clock.read_text().strip() if clock.exists() else "unknown",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Closing the pipe ends the ground; what hangs is killed, and all in its namespaces with it."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    if process.poll() is None:
        process.kill()
    process.wait()
