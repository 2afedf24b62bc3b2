# SPDX-License-Identifier: Apache-2.0
"""Steps many labs by one call of the C library of steps (native/).

A step of all labs is: the values to set, one call, and arrays of results. Only rare events are handled lab by lab: a message from
a lab, a lab's death, an episode's end, other flows at work, a full recording. Frames and infos are made when somebody reads them.

Values that the library lacks are computed from frames, lab by lab: rewards such as `jain`, features and rewards of users, and
commands in force under agent.latency.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError, LabError
from dc_gym.base.process_bound import this_process
from dc_gym.kernel.channel import HEADER, MESSAGE_MAX_BYTES
from dc_gym.learn.native import LAB, Flags, LabState, RewardKind, address, load
from dc_gym.learn.native.network import Network
from dc_gym.learn.native.team import Team
from dc_gym.learn.recording import Recorder, Recording
from dc_gym.learn.session import Session
from dc_gym.run.agent.console import InForce
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.measures import fair_total_bps
from dc_gym.run.agent.metrics import BLOCK_STEPS, Block, metrics
from dc_gym.run.agent.totals import EpisodeTotals

Bools = npt.NDArray[np.bool_]
LOOK_S = 0.1
"""The interval at which a silent lab is checked, and readers of its state matrix (`dcgym watch`) are served, in s."""
RUN, DIED, OVER, CHANGED = map(int, (Flags.RUN, Flags.DIED, Flags.OVER, Flags.CHANGED))


@dataclass(slots=True)
class Steps:
    """The results of a step: arrays over the labs, which belong to the caller. Labs that took no part have zeros."""

    observations: npt.NDArray[np.float32]
    rewards: Floats
    terminated: Bools
    truncated: Bools
    ends: dict[int, dict[str, Any]]
    """For each lab whose episode is over: the metrics of the step, and `episode_totals`."""
    died: dict[int, LabError]
    """For each lab that has died or hung: how. Its episode is truncated; its last observation stays."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """The arrays that a lab's record points to, and the rest of its episode."""

    recorder: Recorder
    recording: Recording
    block: Block
    arrays: tuple[Any, ...]
    at_work: Bools
    force: InForce | None
    """Computes the values in force, where commands take effect some time after they were given."""
    first_ns: int


class LabStepper:
    """Steps labs whose observations and actions have the same meaning. Each session is one lab, which `begin` starts to use."""

    def __init__(self, sessions: Sequence[Session], episodes: Sequence[EpisodeTracker]) -> None:
        self._library, self._owner = load(), this_process()
        self.sessions, self.episodes = tuple(sessions), tuple(episodes)
        self._count = count = len(self.sessions)
        shared: dict[int, Network] = {}
        for episode in self.episodes:
            shared.setdefault(id(episode.scene), Network(episode.scene, episode.observer, episode.mix))
        self._networks = tuple(shared[id(episode.scene)] for episode in self.episodes)
        width = self.episodes[0].observer.space.shape[0]
        self._observations: npt.NDArray[np.float32] = np.zeros((count, width), np.float32)
        self._delivered = self._observations.copy()
        self._rewards, self._returns = np.zeros(count), np.zeros(count)
        self._values: Floats = np.zeros((count, self._networks[0].size))
        self._parts: Floats = np.zeros((count, max(len(network.kinds) for network in self._networks)))
        self._messages = np.zeros((count, HEADER.size + MESSAGE_MAX_BYTES), np.uint8)
        self._records = np.zeros(count, LAB)
        self._address = address(self._records)
        self._team = Team(self._library, self._records)
        self._state, self._slot, self._step = (self._records[name] for name in ("state", "slot", "step"))
        for number, record in enumerate(self._records):
            record["values"], record["reward"] = address(self._values[number:]), address(self._rewards[number:])
            record["seen"], record["rewards"] = address(self._observations[number:]), address(self._parts[number:])
            record["message"], record["network"] = address(self._messages[number:]), address(self._networks[number].record)
        self._owned: list[_Owned | None] = [None] * count
        self._room = 0
        """The number of steps until the first recording is full."""
        self._some = False
        """True if some labs take no part in the present step."""
        self._late = False
        """True if some lab's commands are in force late."""
        self._by_python = any(network.python_parts or network.python_rewards for network in self._networks)
        self._look_at_s = 0.0

    @property
    def observations(self) -> npt.NDArray[np.float32]:
        """A copy of the last observations, as they arrived at the agents."""
        seen = self._observations.copy()
        for number, episode in enumerate(self.episodes):
            if episode.channel is not None:
                seen[number] = self._delivered[number]
        return seen

    def begin(self, number: int, frame: Frame, seed: int) -> dict[str, Any]:
        """Begins an episode of one lab, which stands still at this frame. Returns the info of the frame."""
        self._owner = this_process()
        session, episode, info = self.sessions[number], self.episodes[number], frame.info
        agent, matrix, lab = session.experiment.spec.agent, session.console.matrix, session.lab
        by_kernel = agent.control == "network"
        late = agent.latency_ns > 0 and not by_kernel
        recorder = Recorder(episode.scene, info, self._networks[number].size, by_kernel, late)
        recording = Recording(recorder, frame)
        arrays: dict[str, npt.NDArray[Any]] = {
            "base_rtt_ns": np.ascontiguousarray(info.base_rtt_ns, np.float64),
            "payload_share": np.ascontiguousarray(info.payload_share, np.float64),
            "host": np.ascontiguousarray(info.host, np.int64),
            "first_row": np.ascontiguousarray(info.first_row, np.int64),
            "path_row": np.ascontiguousarray(info.switch_rows, np.int64),
            "path_flow": np.ascontiguousarray(info.switch_flows, np.int64),
            "scratch": np.zeros(3 * max(len(info), len(episode.scene.ports))),
            "at_work": np.zeros(len(info), bool),
            "live_cells": matrix.cells,
            "live_flows": matrix.flows,
            **matrix.live,
        }
        record: Any = self._records[number]
        for name, array in arrays.items():
            record[name] = address(array)
        record["fd"], record["cpu"], record["steps"], record["fair_bps"] = lab.fileno(), lab.cpu, episode.steps, 0.0
        record["flows"], record["path_ports"] = len(info), len(info.switch_rows)
        record["step"], record["virtual_ns"] = lab.question
        record["state"] = LabState.STANDS
        self._networks[number].place_commands(session.console.offsets)
        force = InForce(episode.scene, agent) if late else None
        block, held = Block(episode.scene, recording), tuple(arrays.values())
        self._own(number, _Owned(recorder, recording, block, held, arrays["at_work"], force, frame.t_ns))
        self._team.use(int(other["cpu"]) for other, held in zip(self._records, self._owned, strict=True) if held is not None)
        weak = weakref.ref(self)
        lab.lend(partial(_question, weak, number), partial(_forget, weak, number), LOOK_S)
        episode.totals, episode.frame = EpisodeTotals(episode.scene), partial(_frame, weak, number)
        self._returns[number] = 0.0
        self.measure(number)
        self._share_anew(number)
        self._observe_by_python(number)
        about = episode.open(seed)
        self._deliver(number)
        return about | metrics(frame, episode.scene)

    def frame(self, number: int) -> Frame:
        """Returns the frame of a lab's last step."""
        return self._of(number).recording.frame(int(self._slot[number]))

    def question(self, number: int) -> tuple[int, int]:
        """Returns number and time of the step in which a lab stands still."""
        record = self._records[number]
        return int(record["step"]), int(record["virtual_ns"])

    def info(self, number: int) -> partial[dict[str, Any]]:
        """Returns a function that returns the metrics of a lab's last step, also when later steps were taken."""
        return partial(self._of(number).block.of, int(self._slot[number]) - 1)

    def infos(self) -> list[partial[dict[str, Any]] | None]:
        """Returns the same for all labs; None for one that has no episode or has not made a step."""
        slots = self._slot.tolist()
        return [
            partial(held.block.of, slot - 1) if held and slot else None for held, slot in zip(self._owned, slots, strict=True)
        ]

    def step(self, values: Floats, places: Iterable[int] | None = None) -> Steps:
        """Lets the labs of `places` (None: all) run for one interval with these values in force, [labs, values], and returns the
        results."""
        self._owner.require_here("step")
        chosen = range(self._count) if places is None else list(places)
        if self._room <= 0:
            if any(self._owned[number] is None for number in chosen):
                raise AgentError("step: there is no episode under way; reset first")
            self._turn_over()
        self._values[...] = values
        if self._late:
            self._set_in_force(chosen)
        self._state[...], self._some = LabState.ANSWERS, places is not None
        if places is not None:
            self._state[...] = LabState.IDLE
            self._state[chosen] = LabState.ANSWERS
        self._room -= 1
        return self._results(self._library.exchange(self._team.address))

    def measure(self, number: int) -> None:
        """Works out the last step of a lab again."""
        self._library.measure(self._address + number * LAB.itemsize)

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Within it, `step` does everything but the exchange with the labs: for measurements of its own cost. Afterwards the
        episodes are over."""
        library, stage = self._library, copy(self._library)

        def exchange(team: int) -> int:
            self._state[...], self._room = LabState.STANDS, BLOCK_STEPS
            return 0

        self._library, stage.exchange = stage, exchange
        try:
            yield
        finally:
            self._library = library
            for session in self.sessions:
                session.close()

    def running(self) -> list[int]:
        """Returns the labs that run on command and have not stood still again. Nothing happens to them meanwhile."""
        self._team.settle()
        going = (self._state == LabState.RUNS) | (self._state == LabState.SAID) | (self._state == LabState.ANSWERS)
        return [int(number) for number in np.flatnonzero(going)]

    def forget(self, number: int) -> None:
        """Lets go of a lab, which has ended. The next `begin` takes another one."""
        self._state[number], self._slot[number], self._owned[number] = LabState.IDLE, 0, None
        self._room = 0
        if not any(self._owned):
            self._team.close()

    def _of(self, number: int) -> _Owned:
        held = self._owned[number]
        if held is None:
            raise AgentError("there is no episode under way; reset first")
        return held

    def _results(self, flags: int) -> Steps:
        """Returns the results of the labs that stand still now, after Python has done the library's remaining work."""
        died: dict[int, LabError] = {}
        while flags & RUN:
            self._attend(died)
            flags = self._library.exchange(self._team.address)
        if flags & DIED:
            self._bury(died)
        if flags & CHANGED:
            for number in self._standing():
                self._share_anew(number)
        if self._by_python:
            for number in self._standing():
                self._observe_by_python(number)
                self._reward_by_python(number)
        if (now_s := time.monotonic()) >= self._look_at_s:
            self._serve_readers(now_s)
        for number in self._standing() if any(episode.channel for episode in self.episodes) else ():
            self._deliver(number)
        rewards = self._rewards.copy()
        if self._some or died:
            rewards[self._state != LabState.STANDS] = 0.0
        self._returns += rewards
        none = np.zeros((2, self._count), bool)
        steps = Steps(self.observations, rewards, none[0], none[1], {}, died)
        if flags & OVER or died:
            self._end(steps)
        return steps

    def _standing(self) -> list[int]:
        return np.flatnonzero(self._state == LabState.STANDS).tolist()

    def _end(self, steps: Steps) -> None:
        """Enters the episodes that are over."""
        for number in steps.died:
            steps.truncated[number] = True
        for number in self._standing():
            record, step = self._records[number], int(self._step[number])
            truncated = step >= self.episodes[number].steps  # the end of the duration stops the remaining flows
            if truncated or record["ended"]:
                steps.truncated[number], steps.terminated[number] = truncated, not truncated
                steps.ends[number] = self._last_info(number)
        self._room = 0  # a block that has been added up is not continued

    def _last_info(self, number: int) -> dict[str, Any]:
        held, totals, slot = self._of(number), self.episodes[number].totals, int(self._slot[number])
        held.recording.count = slot
        last = held.recording.frame(slot)
        totals.add_up(held.block)
        steps = int(self._step[number])
        return {
            **held.block.of(slot - 1),
            "episode_totals": totals.finish(float(self._returns[number]), steps, last, held.first_ns),
        }

    def _attend(self, died: dict[int, LabError]) -> None:
        """Reads other messages of labs, and checks the labs: a lab that talks for ever hangs, too."""
        for number in np.flatnonzero((self._state == LabState.RUNS) | (self._state == LabState.SAID)).tolist():
            record, lab = self._records[number], self.sessions[number].lab
            try:
                if record["state"] == LabState.SAID:
                    record["state"] = LabState.RUNS
                    if lab.hear(self._messages[number, : record["said"]].tobytes()):
                        record["state"] = LabState.ENDED
                lab.attend(int(record["step"]))
            except LabError as error:
                self._let_die(number, error, died)

    def _bury(self, died: dict[int, LabError]) -> None:
        """Reads the reason from each lab that has closed its channel, or whose agent is gone."""
        for number in np.flatnonzero(self._state == LabState.ENDED).tolist():
            try:
                self.sessions[number].collect()
                error = LabError("the lab began an episode that nobody had asked for")
            except LabError as lab_error:
                error = lab_error
            self._let_die(number, error, died)

    def _let_die(self, number: int, error: LabError, died: dict[int, LabError]) -> None:
        self.sessions[number].close()
        self.forget(number)
        died[number] = error

    def _serve_readers(self, now_s: float) -> None:
        self._look_at_s = now_s + LOOK_S
        for session, held in zip(self.sessions, self._owned, strict=True):
            if held is not None:
                session.lab.serve_readers()

    def _share_anew(self, number: int) -> None:
        """Computes the fair total of a lab if other flows are at work, and its reward by it."""
        record: Any = self._records[number]
        if record["work_changed"] and RewardKind.GOODPUT in self._networks[number].kinds:
            held = self._of(number)
            record["fair_bps"] = fair_total_bps(held.recorder.info, held.recorder.scene, held.at_work)
            self._library.reward(self._address + number * LAB.itemsize)

    def _observe_by_python(self, number: int) -> None:
        network, slot = self._networks[number], int(self._slot[number])
        if not network.python_parts:
            return
        frame, observer = self.frame(number), network.observer
        history = self._observations[number].reshape(observer.history, -1)
        for part in network.python_parts:
            history[slice(-1, None) if slot else slice(None), part.place] = observer.values(part.part, frame)

    def _deliver(self, number: int) -> None:
        """Sends a lab's last observation to its agent."""
        if (channel := self.episodes[number].channel) is not None:
            self._delivered[number] = channel.deliver(self._observations[number].copy())

    def _reward_by_python(self, number: int) -> None:
        network = self._networks[number]
        if not network.python_rewards:
            return
        record, frame, scene = self._records[number], self.frame(number), network.scene
        share, fair, total = scene.share(frame.in_force_bps), float(record["fair_bps"]), 0.0
        for (weight, reward), kind, part in zip(network.mix.terms, network.kinds, self._parts[number].tolist(), strict=False):
            if kind is RewardKind.NONE:
                total += weight * reward.value(frame, scene, share)
            elif kind is RewardKind.GOODPUT:
                total += weight * (part / fair if fair else 0.0)
            else:
                total += weight * part
        self._rewards[number] = total

    def _set_in_force(self, places: Sequence[int]) -> None:
        for number in places:
            held = self._of(number)
            if held.force is not None:
                rates = held.recorder.scene.rates
                rates_bps = held.recorder.scene.line_bps if rates is None else self._values[number, rates].copy()
                held.recording.in_force_bps[int(self._slot[number]) + 1] = held.force.over(rates_bps, rates_bps)

    def _turn_over(self) -> None:
        """Begins another recording where one is full, or has been added up."""
        for number, held in enumerate(self._owned):
            slot = int(self._slot[number])
            if held is None or (slot < BLOCK_STEPS and held.block.columns is None):
                continue
            held.recording.count = slot
            recording = Recording(held.recorder, held.recording.frame(slot))
            self.episodes[number].totals.add_up(held.block)
            self._own(number, replace(held, recording=recording, block=Block(held.recorder.scene, recording)))
        self._count_room()

    def _own(self, number: int, owned: _Owned) -> None:
        """Lets the library write to a recording from its first slot on."""
        self._owned[number] = owned
        recording, record = owned.recording, self._records[number]
        record["cells"] = address(recording.rows)
        for name in ("t_ns", "numbers", "wanted", "enforced"):
            record[name] = address(getattr(recording, name))
        record["recorded"], record["slot"] = address(recording.flows), 0
        force = recording.in_force_bps
        record["in_force"], record["force_stride"] = address(force), force.strides[0] // force.itemsize
        self._count_room()

    def _count_room(self) -> None:
        slots = [int(self._slot[number]) for number, held in enumerate(self._owned) if held is not None]
        self._room = BLOCK_STEPS - max(slots) if len(slots) == self._count else 0
        self._late = any(held is not None and held.force is not None for held in self._owned)


def _question(stepper: weakref.ref[LabStepper], number: int) -> tuple[int, int]:
    referent = stepper()
    assert referent is not None, "who holds the lab holds the stepper"
    return referent.question(number)


def _forget(stepper: weakref.ref[LabStepper], number: int) -> None:
    if (referent := stepper()) is not None:
        referent.forget(number)


def _frame(stepper: weakref.ref[LabStepper], number: int) -> Frame:
    referent = stepper()
    assert referent is not None, "who holds the episode holds the stepper"
    return referent.frame(number)
