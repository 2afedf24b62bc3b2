# SPDX-License-Identifier: Apache-2.0
"""Runs a lab whose NICs follow a policy that is changed from outside, from barrier to barrier of virtual time.

    with DataPath(spec, folder, step_ns=1_000_000) as path:
        path.begin(seed=1, table=policy.table())
        rows = path.advance()             # all decisions of the first millisecond (STEP_DTYPE); the lab stands still
        path.set_table(better.table())        # the NICs decide by this table from here on
        rows = path.advance()

`post` and `collect` are the two halves of `advance`. A caller with many labs posts to all of them first, so that they run at the
same time.

One seed and the same tables at the same barriers give the same decisions, bit for bit. So a lab that dies is started again and
given the same tables, and the caller of `collect` does not notice. A lab that dies twice at the same place is an error.
"""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError, LabError, ProtocolError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.progress import Quiet
from dc_gym.ctrl.nic import algorithms
from dc_gym.kernel import cache, openvswitch
from dc_gym.kernel.lab import Lab
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import TABLE_WORDS, Words
from dc_gym.run.grounds.ground import check_programs, make_folders
from dc_gym.run.grounds.lab import GRACE_NS, kernel_of, lab_config
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.nics import STEP_DTYPE, base_rtts_ns
from dc_gym.run.plan.plan import NIC_TABLE
from dc_gym.run.plan.writer import write_plan
from dc_gym.spec import Spec

Rows = npt.NDArray[np.void]
SAME_TABLE, NEW_TABLE = 0, 1
"""enum nic_barrier of ctrl/nic/shim.h."""
EXCHANGE_BYTES = 2 << 20
EXCHANGE = np.dtype([("count", "<u8"), ("lost", "<u8"), ("table", "<u4", (TABLE_WORDS,))])
"""struct nic_exchange, up to its steps."""


class DataPath:
    """One lab at a time. Call `begin` first; calling it again starts another episode in a new lab."""

    def __init__(self, spec: Spec, folder: Path, step_ns: int) -> None:
        """`folder`: where the lab's own folder is made. `spec`: its ground is the lab, and its algorithm reads a table."""
        check_programs()
        if spec.ground != "lab":
            raise UsageError(f"ground = {spec.ground!r}: no clock but a lab's waits at a barrier; leave the key out")
        if not spec.controller.nic or not algorithms.load(spec.controller.name, folder).table:
            raise AgentError(f"controller.name = {spec.controller.name!r}: reads no policy; give one such as rlcc-mlp")
        self.spec, self.step_ns = spec, step_ns
        self.steps = (spec.time.duration_ns - 1) // step_ns
        """Number of barriers in an episode."""
        if not self.steps:
            raise UsageError(f"time.duration: {spec.time.duration_ns} ns have no barrier after {step_ns} ns; run longer")
        self.boots = self.replays = 0
        """Number of labs started so far, and how many of them replaced a lab that had died."""
        self.experiment: Experiment
        """The experiment of the current episode."""
        self._parent = folder
        self._stack = ExitStack()
        self._lab: Lab | None = None
        self._step = 0
        self._pending: Words | None = None
        self._tables: dict[int, Words] = {}
        self._sums: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the lab; None if there is no lab."""
        return None if self._lab is None else self._lab.pid

    def fileno(self) -> int:
        """Returns a file descriptor for select(): it is readable when `collect` need not wait."""
        assert self._lab is not None, "post comes first"
        return self._lab.fileno()

    @property
    def step(self) -> int:
        """The number of barriers in this episode so far."""
        return self._step

    @property
    def base_rtts_ns(self) -> list[int]:
        """The base round trip of each flow's probes."""
        ran = self.experiment
        return base_rtts_ns(ran.schedule, ran.graph, ran.router, ran.spec)

    def begin(self, seed: int, table: Words) -> None:
        """Starts another episode: a lab with that seed's traffic, under this policy from the start."""
        self.close()
        self.experiment = Experiment.of(replace(self.spec, seed=seed))
        self._tables, self._sums, self._pending = {0: table.copy()}, [], None
        self._step = 0
        self._boot()

    def set_table(self, words: Words) -> None:
        """Sets the policy from the current barrier on."""
        policy = np.zeros(TABLE_WORDS, "<u4")
        policy[: len(words)] = words
        self._pending = policy

    def advance(self) -> Rows:
        """Runs to the next barrier. Returns all decisions since the previous one, in the order of their times."""
        self.post()
        return self.collect()

    def post(self) -> None:
        """Lets the lab continue; `collect` waits for its next barrier."""
        if self._lab is None:
            raise AgentError("advance: there is no episode under way; begin first")
        if self._step == self.steps:
            raise AgentError(f"advance: the episode has {self.steps} barriers, and they are over; begin another")
        if self._step:
            if self._pending is not None:
                self._tables[self._step] = self._pending
            self._answer(self._lab)
        elif self._pending is not None:
            raise AgentError("set_table: the lab runs already towards its first barrier; give begin the table")
        self._step += 1
        self._pending = None

    def collect(self) -> Rows:
        """Waits for the barrier and returns the decisions. Raises LabError if the lab died twice; the lab is then gone."""
        assert self._lab is not None, "post comes first"
        try:
            rows = self._read(self._lab, self._step)
        except LabError:
            rows = self._replay()
        except BaseException:
            self.close()
            raise
        self._sums.append(_sum(rows))
        return rows

    def close(self) -> None:
        """Ends the lab and removes its folder; may be called twice."""
        self._lab = None
        self._stack.close()

    def _replay(self) -> Rows:
        """Runs the episode up to this point again, in a new lab."""
        goal = self._step
        try:
            self._stack.close()
            self._boot()
            self.replays += 1
            for self._step in range(goal):
                assert self._lab is not None
                if self._step:
                    self._answer(self._lab)
                rows = self._read(self._lab, self._step + 1)
                if self._step < len(self._sums) and _sum(rows) != self._sums[self._step]:
                    raise ProtocolError(f"a lab that was begun anew decided otherwise at barrier {self._step + 1}; this is a bug")
        except BaseException:
            self.close()
            raise
        self._step = goal
        return rows

    def _boot(self) -> None:
        self._stack = ExitStack()
        try:
            self._stack.enter_context(cache.in_use())
            ovs = openvswitch.ensure(Quiet())
            folder = self._stack.enter_context(scratch(self._parent, "dcgym-env-", mode=0o700))
            private = make_folders(folder, self.experiment.spec)
            write_plan(self.experiment, ovs, private, nic_step_ns=self.step_ns)
            nic_policy.write_table(self._tables[0], private / NIC_TABLE)
            spec = self.experiment.spec
            limit_ns = spec.lab.t0_ns + spec.time.duration_ns + GRACE_NS
            self._lab = self._stack.enter_context(Lab(lab_config(spec, kernel_of(spec, Quiet()), folder, limit_ns)))
            self.boots += 1
        except BaseException:
            self.close()
            raise

    def _answer(self, lab: Lab) -> None:
        """Lets the lab continue from its barrier, with the table that was set there."""
        words = self._tables.get(self._step)
        if words is not None:
            head, _ = _exchange(lab)
            head["table"] = words
        lab.answer(SAME_TABLE if words is None else NEW_TABLE)

    def _read(self, lab: Lab, expected: int) -> Rows:
        step, virtual_ns = lab.until_step()
        t0_ns = self.experiment.spec.lab.t0_ns
        if step != expected or virtual_ns < t0_ns + step * self.step_ns:
            raise ProtocolError(f"the lab stands at barrier {step}, {virtual_ns - t0_ns} ns; barrier {expected} was expected")
        head, steps = _exchange(lab)
        if head["lost"]:
            raise UsageError(
                f"{int(head['count']) + int(head['lost'])} decisions between two barriers, and there is room for {head['count']};"
                f" give a shorter step than {self.step_ns} ns"
            )
        rows: Rows = steps[: int(head["count"])].copy()
        rows["t_ns"] -= np.uint64(t0_ns)
        return rows


def _exchange(lab: Lab) -> tuple[Any, Rows]:
    """Returns the two parts of struct nic_exchange in a lab's memory: its head and its steps."""
    offset = len(lab.region) - EXCHANGE_BYTES
    room = (EXCHANGE_BYTES - EXCHANGE.itemsize) // STEP_DTYPE.itemsize
    head = np.frombuffer(lab.region, EXCHANGE, 1, offset)[0]
    return head, np.frombuffer(lab.region, STEP_DTYPE, room, offset + EXCHANGE.itemsize)


def _sum(rows: Rows) -> int:
    return zlib.crc32(rows.tobytes())
