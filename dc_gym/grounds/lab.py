# SPDX-License-Identifier: Apache-2.0
"""The lab as a ground: one lab kernel for one run, on virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dc_gym.base.package import PROGRAMS
from dc_gym.base.progress import Progress
from dc_gym.grounds.ground import Driver, inside
from dc_gym.kernel import build
from dc_gym.kernel.build import KernelBuild
from dc_gym.kernel.lab import Lab, LabConfig, LabExit
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.records import fingerprint
from dc_gym.spec import Spec, nic_configuration

GRACE_NS = 600 * 10**9  # virtual time after the traffic, for counting
NS = 1e-9


def lab_config(spec: Spec, kernel: KernelBuild, folder: Path, virtual_limit_ns: int) -> LabConfig:
    """Returns the settings of the lab that runs the plan in `folder`/.lab."""
    assert spec.lab.memory_bytes is not None, "an Experiment's is given"
    native = nic_configuration.native_object(spec)
    return LabConfig(
        kernel=kernel.path,
        programs=PROGRAMS,
        run_dir=folder,
        argv=[sys.executable, "-m", "dc_gym.grounds.guest.main", str(folder)],
        env=inside("/tmp"),
        seed=spec.seed,
        memory_bytes=spec.lab.memory_bytes,
        clock_read_ns=spec.lab.clock_read_ns,
        watchdog_s=spec.lab.watchdog_ns * NS,
        virtual_limit_ns=virtual_limit_ns,
        native=() if native is None else (native,),
    )


class LabGround:
    """A `ground.Ground`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._kernel: KernelBuild
        self._lab: Lab
        self._ended: LabExit

    def prepare(self, progress: Progress) -> None:
        self._kernel = build.ensure(progress)

    def run(self, partial: Path, on_line: Callable[[str], None], progress: Progress, driver: Driver | None = None) -> int:
        spec = self._spec
        limit_ns = spec.lab.t0_ns + spec.time.duration_ns + GRACE_NS

        def answer(step: int, _virtual_ns: int) -> int:
            assert driver is not None, "only an agent asks"
            return driver.step(self._lab.region, step)

        with Lab(lab_config(spec, self._kernel, partial, limit_ns), on_line, answer) as lab:
            self._lab = lab
            self._ended = lab.wait(lambda state: progress.virtual(state.virtual_ns - spec.lab.t0_ns, spec.time.duration_ns))
        return self._ended.status

    def environment(self, ovs: OpenVSwitch) -> dict[str, str]:
        return fingerprint.environment(self._kernel, ovs)

    def facts(self) -> dict[str, Any]:
        return {"lab_virtual_s": self._ended.virtual_ns * NS, "lab_peak_bytes": self._lab.peak_bytes}
