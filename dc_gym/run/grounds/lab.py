# SPDX-License-Identifier: Apache-2.0
"""The lab as a ground: one lab kernel for one run, on virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dc_gym.base.errors import KernelError, LabError, UnbuildableError
from dc_gym.base.files import whole
from dc_gym.base.interpreter import python
from dc_gym.base.package import PROGRAMS
from dc_gym.base.progress import Progress
from dc_gym.base.taken import take_over
from dc_gym.kernel import build, objects
from dc_gym.kernel.build import KernelBuild
from dc_gym.kernel.channel import LabState
from dc_gym.kernel.confinement import landlock_abi
from dc_gym.kernel.lab import Lab, LabConfig, LabExit, named_program
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.kernel.user import ENTER_AND_READ, lab_user_may, let_lab_read
from dc_gym.results import fingerprint
from dc_gym.run.grounds import debugger, frozen
from dc_gym.run.grounds.by_hand import ARGV, ByHand
from dc_gym.run.grounds.ground import Driver, inside, written_by_ground
from dc_gym.run.grounds.guest import start
from dc_gym.run.plan.forwarding import may_be_direct
from dc_gym.run.plan.plan import ASK, GO_ON, GROUND, OUT, PLAN_STEP, Plan
from dc_gym.spec import Spec, nic_configuration
from dc_gym.traffic import execs

MOST_ACKS = 1 << 23
"""The most ACKs of a run that are recorded: 400 MB."""
GRACE_NS = 600 * 10**9  # virtual time after the traffic, for counting
NS = 1e-9
MOST_SHOWN = 5
STILL_S = 3.0
"""Wall time without virtual time after which the user sees which program computes."""


def kernel_of(spec: Spec, progress: Progress) -> KernelBuild:
    """Returns the lab kernel with the patches of the spec, of the user's own tree if there is one."""
    tree, patches = spec.kernel.tree, spec.kernel.patch
    options = build.Options(incremental=bool(tree or patches))
    try:
        return build.ensure(progress, tree, options=options, parts=build.Parts(own=patches))
    except KernelError as error:
        if tree is None:
            raise
        raise UnbuildableError(str(error)) from error


def lab_config(
    spec: Spec, kernel: KernelBuild, folder: Path, virtual_limit_ns: int, argv: Sequence[str] | None = None
) -> LabConfig:
    """Returns the settings of the lab that runs the plan in `folder`/.lab. `argv`: its program; None: the one in Python."""
    assert spec.lab.memory_bytes is not None, "an Experiment's is given"
    env = inside("/tmp")
    native = nic_configuration.native_object(spec)
    tcp = objects.ensure(kernel.folder, spec.controller.tcp_sources) if spec.controller.tcp_sources else None
    files = [path for path in (native, tcp) if path is not None]
    return LabConfig(
        kernel=kernel.path,
        programs=PROGRAMS,
        run_dir=folder,
        argv=_program(folder, env) if argv is None else argv,
        env=env,
        seed=spec.seed,
        memory_bytes=spec.lab.memory_bytes,
        clock_read_ns=spec.lab.clock_read_ns,
        event_loop=spec.lab.event_loop == "on",
        watchdog_s=spec.lab.watchdog_ns * NS,
        virtual_limit_ns=virtual_limit_ns,
        native=() if native is None else (native,),
        object=tcp,
        acks=MOST_ACKS if spec.monitor.records_acks else 0,
        writable=written_by_ground(folder),
        reads=[*_folders_of_programs(spec), *(path.parent for path in files)],
    )


def _folders_of_programs(spec: Spec) -> list[Path]:
    requests = spec.execs(spec.graph()) if spec.workload.exec else []
    programs = (execs.find_program(request.argv[0]) for request in requests)
    return [Path(program).parent for program in programs if program is not None]


def _readable(folder: Path | None) -> list[Path]:
    """Returns the folder of a shell if the lab's user may read it. Without it the shell works in /tmp."""
    return [folder] if folder is not None and lab_user_may(ENTER_AND_READ, folder) else []


def _program(folder: Path, env: Mapping[str, str]) -> list[str]:
    """Returns the command that runs the plan. `-S`: nothing in a lab is imported from the packages that a user has installed."""
    modules = frozen.modules(env)
    if modules is None:
        return python("-S", "-m", start.PROGRAM, str(folder))
    return python("-S", str(start.__file__), str(modules), str(folder))


class StillProgram:
    """Reports once a program in a host that computes without a pause, long before the lab counts as hung."""

    def __init__(self, t0_ns: int, tell: Callable[[str], None]) -> None:
        self._t0_ns, self._tell = t0_ns, tell
        self._virtual_ns, self._since_s = -1, 0.0
        self._told = False

    def look(self, state: LabState, programs: Mapping[int, str]) -> None:
        """Receives, now and then, the lab's state, and the words for its programs."""
        now_s = time.monotonic()
        if state.virtual_ns != self._virtual_ns:
            self._virtual_ns, self._since_s = state.virtual_ns, now_s
        elif programs and not self._told and state.virtual_ns >= self._t0_ns and now_s > self._since_s + STILL_S:
            self._told = True
            self._tell(
                f"{named_program(state, programs)} has computed for {STILL_S:g} s without a pause, and virtual time stands still:"
                " if it waits for time or for others, let it sleep, poll or read; Ctrl-C ends the run"
            )


class LabGround:
    """A `ground.Ground`."""

    def __init__(self, spec: Spec, shell_folder: Path | None = None, gdb: bool = False) -> None:
        """`shell_folder` is where a shell's commands work; None: the ground is for a run. With `gdb` the lab waits for that."""
        self._spec, self._shell_folder, self._gdb = spec, shell_folder, gdb
        self._kernel: KernelBuild
        self._lab: Lab
        self._ended: LabExit
        self._state: LabState

    def prepare(self, progress: Progress) -> None:
        if self._gdb:
            debugger.check()
        self._kernel = kernel_of(self._spec, progress)

    def run(
        self,
        partial: Path,
        plan: Callable[[], Plan],
        on_line: Callable[[str], None],
        progress: Progress,
        driver: Driver | None = None,
    ) -> int:
        """Writes the plan while the lab boots. The lab asks for it, and its question waits until the plan is there."""
        spec = self._spec
        limit_ns = spec.lab.t0_ns + spec.time.duration_ns + GRACE_NS
        outside = may_be_direct(spec, self._shell_folder is not None)

        def answer(step: int, _virtual_ns: int) -> int:
            """Answers a program in the lab. Outside, all questions come before this."""
            if step == PLAN_STEP and not outside:
                return GO_ON
            return self._decision(None if outside else driver, step)

        def hear(line: str) -> None:
            if line.startswith(execs.STARTED):
                pid, _, words = line.removeprefix(execs.STARTED).partition(" ")
                self._lab.programs[int(pid)] = words
            else:
                on_line(line)

        still = StillProgram(spec.lab.t0_ns, progress.note)

        def on_progress(state: LabState) -> None:
            progress.virtual(state.virtual_ns - spec.lab.t0_ns, spec.time.duration_ns)
            still.look(state, self._lab.programs)

        config = lab_config(spec, self._kernel, partial, limit_ns, ARGV if outside else None)
        reads = [*config.reads, *_readable(self._shell_folder)]
        argv = config.argv if outside else [*config.argv, ASK]
        counts: dict[str, Any] | None = None
        failed = 0
        with Lab(replace(config, argv=argv, reads=reads), hear, answer) as lab:
            self._lab = lab
            written_plan = plan()
            let_lab_read(partial / ".lab")
            if self._gdb:
                debugger.await_gdb(lab, partial / ".lab", progress)
                if not outside:
                    lab.answer(GO_ON)
            if outside:
                by_hand = ByHand(lab, written_plan, partial / ".lab", hear, on_progress)
                self._answer_all(by_hand, driver, on_progress)
                failed, counts = by_hand.failure, by_hand.counts
            if not failed:
                self._ended = lab.wait(on_progress)
                self._state = lab.state()
        for written in written_by_ground(partial):
            if removed := take_over(written):
                names = ", ".join(removed[:MOST_SHOWN])
                progress.note(f"{len(removed)} of what programs left is no plain file or folder and was removed: {names}")
        if counts is not None:  # only now: no link in a folder that the lab writes to leads elsewhere any more
            with whole(partial / ".lab" / OUT / GROUND) as file:
                file.write_text(json.dumps(counts))
        return failed or self._ended.status

    def _decision(self, driver: Driver | None, step: int) -> int:
        if driver is None:
            raise LabError("a program in the lab asked the host for a step of an agent, and the run has none: it is no run")
        return driver.step(self._lab.region, step)

    def _answer_all(self, by_hand: ByHand, driver: Driver | None, on_progress: Callable[[LabState], None]) -> None:
        """Answers all steps of a plan that is carried out by hand."""
        for expected, step in enumerate(iter(by_hand.next_step, None)):
            if step != expected:
                raise LabError(f"a program in the lab asked the host for step {step} where {expected} was expected: it is no run")
            self._lab.answer(self._decision(driver, step))
            on_progress(self._lab.state())

    def end_computation(self) -> None:
        self._lab.end_computation()

    def unfit(self) -> list[str]:
        return [self._lab.shortage] if self._lab.shortage else []

    def environment(self, ovs: OpenVSwitch) -> dict[str, str]:
        return fingerprint.environment(self._kernel, ovs) | fingerprint.acting(self._spec)

    def facts(self) -> dict[str, Any]:
        return {
            "lab_virtual_s": self._ended.virtual_ns * NS,
            "lab_peak_bytes": self._lab.peak_bytes,
            "lab_events": self._state.events,
            "lab_loop_events": self._state.loop_events,
            "lab_landlock_abi": landlock_abi(),
        }
