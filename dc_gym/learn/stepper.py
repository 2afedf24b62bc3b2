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
        for each in self.episodes:
            shared.setdefault(id(each.scene), Network(each.scene, each.observer, each.mix))
        self._networks = tuple(shared[id(each.scene)] for each in self.episodes)
        width = self.episodes[0].observer.space.shape[0]
        self._observations: npt.NDArray[np.float32] = np.zeros((count, width), np.float32)
        self._rewards, self._returns = np.zeros(count), np.zeros(count)
        self._values: Floats = np.zeros((count, self._networks[0].size))
        self._parts: Floats = np.zeros((count, max(len(network.kinds) for network in self._networks)))
        self._messages = np.zeros((count, HEADER.size + MESSAGE_MAX_BYTES), np.uint8)
        self._records = np.zeros(count, LAB)
        self._address = address(self._records)
        self._team = Team(self._library, self._records)
        self._state, self._slot, self._step = (self._records[name] for name in ("state", "slot", "step"))
        for place, own in enumerate(self._records):
            own["values"], own["reward"] = address(self._values[place:]), address(self._rewards[place:])
            own["seen"], own["rewards"] = address(self._observations[place:]), address(self._parts[place:])
            own["message"], own["network"] = address(self._messages[place:]), address(self._networks[place].record)
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
        """A copy of the last observations."""
        return self._observations.copy()

    def begin(self, place: int, frame: Frame, seed: int) -> dict[str, Any]:
        """Begins an episode of one lab, which stands still at this frame. Returns the info of the frame."""
        self._owner = this_process()
        session, episode, info = self.sessions[place], self.episodes[place], frame.info
        agent, matrix, lab = session.experiment.spec.agent, session.console.matrix, session.lab
        by_kernel = agent.control == "network"
        late = agent.latency_ns > 0 and not by_kernel
        recorder = Recorder(episode.scene, info, self._networks[place].size, by_kernel, late)
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
        own: Any = self._records[place]
        for name, array in arrays.items():
            own[name] = address(array)
        own["fd"], own["cpu"], own["steps"], own["fair_bps"] = lab.fileno(), lab.cpu, episode.steps, 0.0
        own["flows"], own["path_ports"] = len(info), len(info.switch_rows)
        own["step"], own["virtual_ns"] = lab.question
        own["state"] = LabState.STANDS
        self._networks[place].place_commands(session.console.offsets)
        force = InForce(episode.scene, agent) if late else None
        block, held = Block(episode.scene, recording), tuple(arrays.values())
        self._own(place, _Owned(recorder, recording, block, held, arrays["at_work"], force, frame.t_ns))
        self._team.use(int(each["cpu"]) for each, held in zip(self._records, self._owned, strict=True) if held is not None)
        weak = weakref.ref(self)
        lab.lend(partial(_question, weak, place), partial(_forget, weak, place), LOOK_S)
        episode.totals, episode.frame = EpisodeTotals(episode.scene), partial(_frame, weak, place)
        self._returns[place] = 0.0
        self.measure(place)
        self._share_anew(place)
        self._observe_by_python(place)
        return {"seed": seed, **metrics(frame, episode.scene)}

    def frame(self, place: int) -> Frame:
        """Returns the frame of a lab's last step."""
        return self._of(place).recording.frame(int(self._slot[place]))

    def question(self, place: int) -> tuple[int, int]:
        """Returns number and time of the step in which a lab stands still."""
        own = self._records[place]
        return int(own["step"]), int(own["virtual_ns"])

    def info(self, place: int) -> partial[dict[str, Any]]:
        """Returns a function that returns the metrics of a lab's last step, also when later steps were taken."""
        return partial(self._of(place).block.of, int(self._slot[place]) - 1)

    def infos(self) -> list[partial[dict[str, Any]] | None]:
        """Returns the same for all labs; None for one that has no episode or has not made a step."""
        slots = self._slot.tolist()
        return [partial(own.block.of, slot - 1) if own and slot else None for own, slot in zip(self._owned, slots, strict=True)]

    def step(self, values: Floats, places: Iterable[int] | None = None) -> Steps:
        """Lets the labs of `places` (None: all) run for one interval with these values in force, [labs, values], and returns the
        results."""
        self._owner.require_here("step")
        chosen = range(self._count) if places is None else list(places)
        if self._room <= 0:
            if any(self._owned[place] is None for place in chosen):
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

    def measure(self, place: int) -> None:
        """Works out the last step of a lab again."""
        self._library.measure(self._address + place * LAB.itemsize)

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
        return [int(place) for place in np.flatnonzero(going)]

    def forget(self, place: int) -> None:
        """Lets go of a lab, which has ended. The next `begin` takes another one."""
        self._state[place], self._slot[place], self._owned[place] = LabState.IDLE, 0, None
        self._room = 0
        if not any(self._owned):
            self._team.close()

    def _of(self, place: int) -> _Owned:
        found = self._owned[place]
        if found is None:
            raise AgentError("there is no episode under way; reset first")
        return found

    def _results(self, flags: int) -> Steps:
        """Returns the results of the labs that stand still now, after Python has done the library's remaining work."""
        died: dict[int, LabError] = {}
        while flags & RUN:
            self._attend(died)
            flags = self._library.exchange(self._team.address)
        if flags & DIED:
            self._bury(died)
        if flags & CHANGED:
            for place in self._standing():
                self._share_anew(place)
        if self._by_python:
            for place in self._standing():
                self._observe_by_python(place)
                self._reward_by_python(place)
        if (now_s := time.monotonic()) >= self._look_at_s:
            self._serve_readers(now_s)
        rewards = self._rewards.copy()
        if self._some or died:
            rewards[self._state != LabState.STANDS] = 0.0
        self._returns += rewards
        none = np.zeros((2, self._count), bool)
        found = Steps(self._observations.copy(), rewards, none[0], none[1], {}, died)
        if flags & OVER or died:
            self._end(found)
        return found

    def _standing(self) -> list[int]:
        return np.flatnonzero(self._state == LabState.STANDS).tolist()

    def _end(self, found: Steps) -> None:
        """Enters the episodes that are over."""
        for place in found.died:
            found.truncated[place] = True
        for place in self._standing():
            own, step = self._records[place], int(self._step[place])
            truncated = step >= self.episodes[place].steps  # the end of the duration stops the remaining flows
            if truncated or own["ended"]:
                found.truncated[place], found.terminated[place] = truncated, not truncated
                found.ends[place] = self._last_info(place)
        self._room = 0  # a block that has been added up is not continued

    def _last_info(self, place: int) -> dict[str, Any]:
        own, totals, slot = self._of(place), self.episodes[place].totals, int(self._slot[place])
        own.recording.count = slot
        last = own.recording.frame(slot)
        totals.add_up(own.block)
        steps = int(self._step[place])
        return {
            **own.block.of(slot - 1),
            "episode_totals": totals.finish(float(self._returns[place]), steps, last, own.first_ns),
        }

    def _attend(self, died: dict[int, LabError]) -> None:
        """Reads other messages of labs, and checks the labs: a lab that talks for ever hangs, too."""
        for place in np.flatnonzero((self._state == LabState.RUNS) | (self._state == LabState.SAID)).tolist():
            own, lab = self._records[place], self.sessions[place].lab
            try:
                if own["state"] == LabState.SAID:
                    own["state"] = LabState.RUNS
                    if lab.hear(self._messages[place, : own["said"]].tobytes()):
                        own["state"] = LabState.ENDED
                lab.attend(int(own["step"]))
            except LabError as error:
                self._let_die(place, error, died)

    def _bury(self, died: dict[int, LabError]) -> None:
        """Reads the reason from each lab that has closed its channel, or whose agent is gone."""
        for place in np.flatnonzero(self._state == LabState.ENDED).tolist():
            try:
                self.sessions[place].collect()
                error = LabError("the lab began an episode that nobody had asked for")
            except LabError as told:
                error = told
            self._let_die(place, error, died)

    def _let_die(self, place: int, error: LabError, died: dict[int, LabError]) -> None:
        self.sessions[place].close()
        self.forget(place)
        died[place] = error

    def _serve_readers(self, now_s: float) -> None:
        self._look_at_s = now_s + LOOK_S
        for session, own in zip(self.sessions, self._owned, strict=True):
            if own is not None:
                session.lab.serve_readers()

    def _share_anew(self, place: int) -> None:
        """Computes the fair total of a lab if other flows are at work, and its reward by it."""
        own: Any = self._records[place]
        if own["work_changed"] and RewardKind.GOODPUT in self._networks[place].kinds:
            held = self._of(place)
            own["fair_bps"] = fair_total_bps(held.recorder.info, held.recorder.scene, held.at_work)
            self._library.reward(self._address + place * LAB.itemsize)

    def _observe_by_python(self, place: int) -> None:
        network, slot = self._networks[place], int(self._slot[place])
        if not network.python_parts:
            return
        frame, observer = self.frame(place), network.observer
        seen = self._observations[place].reshape(observer.history, -1)
        for each in network.python_parts:
            seen[slice(-1, None) if slot else slice(None), each.place] = observer.values(each.part, frame)

    def _reward_by_python(self, place: int) -> None:
        network = self._networks[place]
        if not network.python_rewards:
            return
        own, frame, scene = self._records[place], self.frame(place), network.scene
        share, fair, total = scene.share(frame.in_force_bps), float(own["fair_bps"]), 0.0
        for (weight, reward), kind, part in zip(network.mix.terms, network.kinds, self._parts[place].tolist(), strict=False):
            if kind is RewardKind.NONE:
                total += weight * reward.value(frame, scene, share)
            elif kind is RewardKind.GOODPUT:
                total += weight * (part / fair if fair else 0.0)
            else:
                total += weight * part
        self._rewards[place] = total

    def _set_in_force(self, places: Sequence[int]) -> None:
        for place in places:
            own = self._of(place)
            if own.force is not None:
                rates = own.recorder.scene.rates
                wanted = own.recorder.scene.line_bps if rates is None else self._values[place, rates].copy()
                own.recording.in_force_bps[int(self._slot[place]) + 1] = own.force.over(wanted, wanted)

    def _turn_over(self) -> None:
        """Begins another recording where one is full, or has been added up."""
        for place, own in enumerate(self._owned):
            slot = int(self._slot[place])
            if own is None or (slot < BLOCK_STEPS and own.block.columns is None):
                continue
            own.recording.count = slot
            recording = Recording(own.recorder, own.recording.frame(slot))
            self.episodes[place].totals.add_up(own.block)
            self._own(place, replace(own, recording=recording, block=Block(own.recorder.scene, recording)))
        self._count_room()

    def _own(self, place: int, owned: _Owned) -> None:
        """Lets the library write to a recording from its first slot on."""
        self._owned[place] = owned
        recording, own = owned.recording, self._records[place]
        own["cells"] = address(recording.rows)
        for name in ("t_ns", "numbers", "wanted", "enforced"):
            own[name] = address(getattr(recording, name))
        own["recorded"], own["slot"] = address(recording.flows), 0
        force = recording.in_force_bps
        own["in_force"], own["force_stride"] = address(force), force.strides[0] // force.itemsize
        self._count_room()

    def _count_room(self) -> None:
        slots = [int(self._slot[place]) for place, own in enumerate(self._owned) if own is not None]
        self._room = BLOCK_STEPS - max(slots) if len(slots) == self._count else 0
        self._late = any(own is not None and own.force is not None for own in self._owned)


def _question(stepper: weakref.ref[LabStepper], place: int) -> tuple[int, int]:
    found = stepper()
    assert found is not None, "who holds the lab holds the stepper"
    return found.question(place)


def _forget(stepper: weakref.ref[LabStepper], place: int) -> None:
    if (found := stepper()) is not None:
        found.forget(place)


def _frame(stepper: weakref.ref[LabStepper], place: int) -> Frame:
    found = stepper()
    assert found is not None, "who holds the episode holds the stepper"
    return found.frame(place)
