# SPDX-License-Identifier: Apache-2.0
"""The hosts' NICs in a ground: their devices, and nicd, which loads the data path and the algorithm into them (docs/nic.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dc_gym.run.grounds.guest.programs import NICD_PRIORITY, Program
from dc_gym.run.grounds.guest.site import Site
from dc_gym.run.plan.plan import DECISIONS, NIC_TABLE, OUT
from dc_gym.topologies.realize import nics
from dc_gym.topologies.realize.fabric import Fabric


def make_devices(nic: dict[str, Any] | None, fabric: Fabric) -> None:
    """Makes every host's NIC. `nic` holds the plan's settings of the NICs; None: there are none."""
    if nic is not None:
        nics.make(fabric, nic["caps"], nic["ring_classes"])


class NicLoader(Program):
    """nicd, from its start to its end. The NICs work until `finish`."""

    def __init__(
        self,
        nic: dict[str, Any],
        programs: str,
        folder: Path,
        records: str,
        matrix: str,
        t0_ns: int,
        site: Site,
        *,
        trace: bool = True,
    ) -> None:
        """`records` names the file of NICs and flows in `folder`. `trace`: decisions are kept if the plan asks for them."""
        argv = [f"{programs}/nicd", "--object", nic["object"], "--nics", str(folder / records)]
        argv += ["--native", nic["native"]] if nic["native"] else []
        argv += ["--table", str(folder / NIC_TABLE)] if nic["table"] else []
        if step_ns := nic["step_ns"]:
            argv += ["--channel", matrix, "--t0", str(t0_ns), "--step", str(step_ns)]
        elif trace and nic["trace"]:
            argv += ["--trace", str(folder / OUT / DECISIONS), "--t0", str(t0_ns)]
        super().__init__(argv, NICD_PRIORITY, site.system)

    def tables(self) -> str:
        """Waits until the NICs work. Returns the ids of the tables that they share with tgen."""
        return self.hear().removeprefix("ready ").replace(" ", ",")

    def finish(self) -> None:
        """Ends the NICs."""
        self.hang_up()
        self.expect_end()
