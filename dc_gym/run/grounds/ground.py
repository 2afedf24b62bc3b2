# SPDX-License-Identifier: Apache-2.0
"""A ground, on which a network can run: its interface to the runner, and the functions that all grounds need.

`dc_gym.run.grounds.guest.main` runs inside each of them. The grounds differ in how they start it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dc_gym.base import contents
from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.package import PROGRAMS
from dc_gym.base.progress import Progress, Quiet
from dc_gym.kernel import openvswitch
from dc_gym.kernel.lab import check_place
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.results import fingerprint
from dc_gym.run.plan.plan import CAPTURES, OUT, Plan
from dc_gym.spec import Spec
from dc_gym.traffic import execs

if TYPE_CHECKING:  # imports numpy
    from dc_gym.monitors.state_matrix import Buffer

MOVE = "move it, and run `make setup` there again"
NEEDED = ("lab-init", "lab-launch", "lab-hand", "qmon", "capd", "agentd", "hostd", "eventd", "tgen", "nicd")


class Driver(Protocol):
    """Answers the steps of a run whose plan has an agent."""

    def step(self, region: Buffer, step: int) -> int:
        """Answers a step of the network with this state matrix. Returns the order that follows the step (plan/plan.py)."""


class Ground(Protocol):
    """One ground for one run."""

    def prepare(self, progress: Progress) -> None:
        """Gets the files and programs that the run needs, or raises TestbedError. It does not change the machine yet."""

    def run(
        self,
        partial: Path,
        plan: Callable[[], Plan],
        on_line: Callable[[str], None],
        progress: Progress,
        driver: Driver | None = None,
    ) -> int:
        """Runs the plan in `partial`/.lab to its end and returns its exit status. `on_line` gets each line that it prints.

        `plan` writes the plan and returns it. It is called once, and a ground may start meanwhile.
        `driver` is the policy that answers the steps of a plan with an agent.
        """

    def end_computation(self) -> None:
        """Ends a program that computes without a pause, where virtual time stands still for it."""

    def unfit(self) -> list[str]:
        """Returns the reasons why this run is unfit that the host has seen."""

    def environment(self, ovs: OpenVSwitch) -> dict[str, str]:
        """Returns by name the identities of everything that results may depend on besides the spec."""

    def facts(self) -> dict[str, Any]:
        """Returns further facts about this run for the manifest."""


def make_folders(folder: Path, spec: Spec) -> Path:
    """Makes a ground's folders in a run's folder, and returns the private folder `.lab`, in which the plan belongs.

    The ground writes to `.lab/out`, to `exec` if the spec has programs in hosts, and to `capture` if it captures ports.
    """
    private = folder / ".lab"
    (private / OUT).mkdir(parents=True)
    if spec.workload.exec:
        (folder / execs.FOLDER).mkdir()
    if spec.capture.ports:
        (folder / CAPTURES).mkdir()
    return private


def written_by_ground(folder: Path) -> list[Path]:
    """Returns the folders of a run to which its ground writes."""
    return [path for path in (folder / ".lab" / OUT, folder / execs.FOLDER, folder / CAPTURES) if path.is_dir()]


def inside(tmp: str) -> dict[str, str]:
    """Returns the environment of Python inside a ground, whatever the user's environment is.

    `tmp` is its folder for temporary files. Python can import this package and the Mininet that comes with Open vSwitch.
    """
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": f"{openvswitch.ensure(Quiet()).python}:{PROGRAMS.parent.parent}",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "HOME": "/run",
        "TMPDIR": tmp,
    }


def check_programs() -> None:
    """Raises MachineError unless the C programs are built, and UsageError where a lab could not run them from their folder."""
    missing = [name for name in NEEDED if not (PROGRAMS / name).is_file()]
    if missing:
        raise MachineError(f"{PROGRAMS}: {', '.join(missing)} not built; run `make programs`")
    if source := fingerprint.stale():
        raise MachineError(f"{PROGRAMS}: built from another {source} than is here now; run `make programs`")
    if os.geteuid() == 0:
        contents.check(PROGRAMS, "run `make programs`, or install dc-gym again", NEEDED)
    check_place(checkout := PROGRAMS.parent.parent, "the checkout", MOVE)
    if ":" in str(checkout):
        raise UsageError(f"'{checkout}': the checkout may have no colon in its path, as Python takes none: {MOVE}")
