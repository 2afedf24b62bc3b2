# SPDX-License-Identifier: Apache-2.0
"""A network that an agent steps from outside. It boots once and runs episode after episode on the same network.

    with Session(spec) as session:
        frame = session.begin(seed=1)            # step 0: before the first action
        frame = session.step(values)             # enforced for one interval, then measured

`post` and `collect` are the two halves of `step`. A caller that steps many labs posts to all of them first, so that they run at
the same time.

On the host ground the same happens in real time. `post` commands at once; `collect` waits for the end of the next interval and
returns the newest frame. Steps for which the agent was too late are missed (`pace`).
"""

from __future__ import annotations

import os
import signal
import tempfile
import weakref
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base import record_file
from dc_gym.base.errors import AgentError, LabError, UnfitError
from dc_gym.base.files import in_full, scratch
from dc_gym.base.process_bound import this_process
from dc_gym.base.progress import Quiet
from dc_gym.ctrl.actuators.selection import sets_flows
from dc_gym.kernel import build, cache, openvswitch
from dc_gym.kernel.lab import Lab, LabConfig
from dc_gym.kernel.user import let_lab_read
from dc_gym.monitors.state_matrix import Buffer
from dc_gym.run.agent.console import Console
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import reads_flows
from dc_gym.run.agent.pace import AgentTiming
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.grounds.by_hand import ARGV, ByHand
from dc_gym.run.grounds.ground import check_programs, make_folders
from dc_gym.run.grounds.lab import kernel_of, lab_config
from dc_gym.run.plan import changes, inputs, nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.forwarding import may_be_direct
from dc_gym.run.plan.nics import NicPlan
from dc_gym.run.plan.plan import EVENTS, GO_ON, NEXT_EPISODE, REASON, UNFIT, Episode, Plan
from dc_gym.run.plan.writer import write_plan
from dc_gym.spec import EXTERNAL, LARGEST_SEED, MonitorSpec, Spec

FEWEST_ROWS, MOST_ROWS = 64, 32768
ROOM = 2
"""Factor by which a lab has more rows of flows than its first episode needs, for episodes of other seeds."""
FOREVER_NS = 1 << 62
SCRATCH = "dcgym-env-"
SELDOM_NS = 10_000_000
"""The interval of flow samples if neither observation nor reward needs them: for metrics and for watching."""


def external(spec: Spec) -> Spec:
    """Returns the same experiment with actions from outside and one sweep of the counters in each step."""
    monitor = MonitorSpec(interval_ns=spec.agent.interval_ns)
    return replace(spec, controller=replace(spec.controller, policy=EXTERNAL, own=()), monitor=monitor)


def publish_ns(spec: Spec) -> int:
    """Returns the interval at which flows are sampled. If actions, observation or reward read the samples, it is one step.
    Otherwise it is the longest number of whole steps up to 10 ms (at least one step) that divides the episode, so that the
    episode's end is sampled."""
    step_ns = spec.agent.interval_ns
    if sets_flows(spec.agent.sets) or reads_flows(spec.agent.observe) or WeightedReward.of(spec.agent.reward).reads_flows:
        return step_ns
    return step_ns * max(steps for steps in range(1, max(1, SELDOM_NS // step_ns) + 1) if spec.steps % steps == 0)


def check_seed(seed: int) -> None:
    """Raises AgentError for a seed that is out of range."""
    if not 0 <= seed <= LARGEST_SEED:
        raise AgentError(f"reset: seed {seed} is out of range; give 0 .. {LARGEST_SEED}")


class SteppedNetwork(Protocol):
    """A network that an agent steps: a Lab, or a LiveNetwork in real time."""

    @property
    def pid(self) -> int: ...

    @property
    def region(self) -> Buffer: ...

    def until_step(self) -> tuple[int, int]:
        """Returns number and time of the next step; raises LabError if there is none."""

    def answer(self, code: int) -> None:
        """Answers the step with the order that follows it."""


class Session:
    """One lab, or one network on the host. It starts at the first `begin`. After `close`, or if it has died, the next `begin`
    starts a new one. In a forked child of the process that started it, it is refused, and `close` does nothing."""

    def __init__(self, spec: Spec, parent: Path | None = None, like: Session | None = None) -> None:
        """`parent`: where the lab's folder is created; None: the folder for temporary files. `like`: another Session of this
        spec, whose routes and schedule are reused."""
        check_programs()
        if spec.workload.exec:
            raise AgentError("workload.exec: an environment starts flows anew with each episode, programs not; leave them out")
        if spec.capture.ports:
            raise AgentError("capture.ports: an environment keeps no frames, a run with controller.policy does; leave it out")
        if spec.monitor.records_acks:
            raise AgentError("monitor.tcp: an environment keeps no ACKs, a run with controller.policy does; leave it out")
        self.experiment: Experiment = Experiment.of(external(spec)) if like is None else like.experiment
        self.scene: Scene = Scene.of(self.experiment) if like is None else like.scene
        self.boots = 0
        """Number of labs started so far."""
        self.label = ""
        """Part of the name of the lab's folder: the lab's purpose, such as training-2 or evaluation."""
        self._parent = in_full(parent or Path(tempfile.gettempdir()))
        self._stack, self._owner = ExitStack(), this_process()
        self._lab: SteppedNetwork | None = None
        self._by_hand: ByHand | None = None
        """Carries out the plan in a lab in which no program of ours does; None if one does."""
        self._plan: Plan
        self._folder: Path
        self._console: Console
        self._nic: NicPlan | None = None
        self._episodes = 0
        self._flow_rows = 0
        self._reasons: deque[str] = deque(maxlen=1)
        """Why the network's process ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def steps(self) -> int:
        """The number of steps of an episode."""
        return self.experiment.spec.steps

    @property
    def pid(self) -> int | None:
        """The process id of the lab; None if there is no lab."""
        return None if self._lab is None else self._lab.pid

    @property
    def lab(self) -> Lab:
        """The lab, for callers that serve the lab's steps themselves."""
        assert isinstance(self._lab, Lab), "begin comes first, and a network on the host is none"
        return self._lab

    @property
    def console(self) -> Console:
        """The access to the network that runs, for callers that serve its steps themselves."""
        return self._console

    @property
    def pace(self) -> AgentTiming | None:
        """The agent's timing in this episode; None if the clock waits for it."""
        return self._console.pace

    def lab_config(self, spec: Spec, kernel: build.KernelBuild, folder: Path) -> LabConfig:
        """Returns the configuration of the lab to boot."""
        return lab_config(spec, kernel, folder, FOREVER_NS, ARGV if may_be_direct(spec, shell=False) else None)

    def begin(self, seed: int, *, fresh: bool = False) -> Frame:
        """Begins an episode with the traffic of `seed` and returns its first frame. `fresh`: in a newly booted lab."""
        self.post_begin(seed, fresh=fresh)
        return self.collect()

    def post_begin(self, seed: int, *, fresh: bool = False) -> None:
        """Starts the work of `begin`; `collect` returns the frame."""
        check_seed(seed)
        seed = self.experiment.spec.episodes.seed_of(seed)
        if self._lab is not None:
            self._owner.require_here("reset")
        experiment = self.experiment.episode(seed)
        flows, settable = len(experiment.schedule.flows), len(self.scene.flow_row)
        if 0 < settable < flows:
            raise AgentError(
                f"reset: seed {seed} has {flows} flows, and agents set {settable}; give agent.flows = {flows} or more"
            )
        if fresh or not self._has_room(experiment):
            self.close()
        if self._lab is None:
            self._start(experiment, seed)
        else:
            self._next(self._lab, experiment, seed)

    def step(self, values: npt.NDArray[np.float64]) -> Frame:
        """Enforces `values` ([values] of the scene) for one interval and returns the measurements at its end."""
        self.post(values)
        return self.collect()

    def post(self, values: npt.NDArray[np.float64]) -> None:
        """Lets the lab run for one interval with these values in force; `collect` waits for its end."""
        if self._lab is None:  # no episode was begun, or the lab has died
            raise AgentError("step: there is no episode under way; reset first")
        self._owner.require_here("step")
        self._console.send(values)
        self._lab.answer(GO_ON)

    def collect(self) -> Frame:
        """Waits until the lab stands still again and returns the measurements. If the lab died or hung, raises LabError and
        closes the lab."""
        assert self._lab is not None, "post comes first"
        try:
            step = self._until_step(self._lab)
            if not self._console.is_open:
                self._console.open(self._lab.region, self._flow_rows)
            return self._console.frame(step)
        except LabError as error:
            self.close()
            raise self._explained(error) from error
        except BaseException:
            self.close()
            raise

    def _until_step(self, network: SteppedNetwork) -> int:
        """Lets the network run up to the agent's next step, through the set-up of an episode, and returns the step's number."""
        if self._by_hand is None:
            return network.until_step()[0]
        if (step := self._by_hand.next_step()) is not None:
            return step
        self._by_hand.end_failed()
        network.until_step()  # raises the story of the lab's end
        raise LabError("the lab was told to end and went on: it is no run")

    def _explained(self, error: LabError) -> LabError:
        """Returns the error with the reason of the network's own process first, if it gave one."""
        if not self._reasons:
            return error
        reason = self._reasons[-1]
        return (UnfitError if UNFIT in reason else LabError)(f"{reason}\n{error}")

    def kill(self) -> None:
        """Kills the lab. Code that waits for it then gets an error."""
        if self._owner.is_here() and (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the lab and removes its folder. It may be called twice; the next `begin` boots another lab."""
        if not self._owner.is_here():
            return
        if self._lab is not None:
            self._console.close()
            self._lab = self._by_hand = None
        self._stack.close()

    def _start(self, experiment: Experiment, seed: int) -> None:
        self._stack, self._owner = ExitStack(), this_process()
        weakref.finalize(self, self._stack.close)  # at exit it runs before the modules that closing needs are unloaded
        try:
            self._boot(experiment, seed)
        except BaseException:
            self.close()
            raise

    def _boot(self, experiment: Experiment, seed: int) -> None:
        self._stack.enter_context(cache.in_use())
        start = self._on_host if experiment.spec.ground == "host" else self._in_lab
        ovs = openvswitch.ensure(Quiet())
        self._folder = self._stack.enter_context(scratch(self._parent, SCRATCH, self.label and f"{self.label}-", mode=0o700))
        private = make_folders(self._folder, experiment.spec)
        self._flow_rows = _rows(len(experiment.schedule.flows))
        publish = publish_ns(experiment.spec)
        self._plan, self._nic = write_plan(experiment, ovs, private, flow_rows=self._flow_rows, publish_ns=publish, seed=seed)
        self._episodes = 1
        self._reasons.clear()
        spec = experiment.spec
        self._console = Console(self.scene, flow_info(experiment, self.scene), spec.agent, spec.clock)
        self._lab = start(experiment)
        self.boots += 1

    def _in_lab(self, experiment: Experiment) -> SteppedNetwork:
        spec = experiment.spec
        lab = self._stack.enter_context(Lab(self.lab_config(spec, kernel_of(spec, Quiet()), self._folder), self._hear))
        if may_be_direct(spec, shell=False):
            self._by_hand = ByHand(lab, self._plan, self._folder / ".lab", self._hear)
        return lab

    def _on_host(self, experiment: Experiment) -> SteppedNetwork:
        from dc_gym.run.grounds.host.ground import HostGround

        ground = HostGround(experiment.spec)
        ground.prepare(Quiet())
        return self._stack.enter_context(ground.live(self._folder, self._hear))

    def _hear(self, line: str) -> None:
        if line.startswith(REASON):
            self._reasons.append(line.removeprefix(REASON))

    def _next(self, lab: SteppedNetwork, experiment: Experiment, seed: int) -> None:
        private, name = self._folder / ".lab", f"flows-{self._episodes}.records"
        Episode.remove(private, self._episodes - 2)  # this one ended before the current one began
        inputs.write_flows(private / name, experiment.schedule, experiment.graph)
        nics_name = f"nics-{self._episodes}.records"
        if self._nic is not None:
            nics.write_episode(experiment, self._nic, private / nics_name, seed)
        events = EVENTS
        if experiment.changes and experiment.spec is not self.experiment.spec:  # they may be drawn
            events = f"events-{self._episodes}.records"
            record_file.write(private / events, *changes.tables(experiment.changes, experiment.graph))
        Episode(seed, self.steps, name, nics_name, events).write(private, self._episodes)
        let_lab_read(private)
        self._console.info = flow_info(experiment, self.scene)
        self._episodes += 1
        lab.answer(NEXT_EPISODE)

    def _has_room(self, experiment: Experiment) -> bool:
        """Returns whether the running network has room for this episode."""
        return len(experiment.schedule.flows) <= self._flow_rows


def _rows(flows: int) -> int:
    """Returns the number of flow rows, with room for the flows of other seeds."""
    rows = FEWEST_ROWS
    while rows < ROOM * flows and rows < MOST_ROWS:
        rows *= 2
    return max(rows, flows)
