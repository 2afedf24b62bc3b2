# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench steps`: how many steps of 1 ms an agent makes per second, compared with the rate of the lab and its channel alone.

The bare lab has the same network but no traffic and no agent. A C program dumps every qdisc, namespace by namespace, and asks the
host for a step; a Python loop answers at once. `gymnasium.make` adds traffic, rates that are set and read back, and all of
Python. Wall times depend on the machine and its load at the time. So the compared programs run in turns, and each check is a
ratio of medians. CPU time, which other load affects less, is reported beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

import dc_gym.learn  # noqa: F401 - the ids
from dc_gym.base import processes
from dc_gym.base.checks import Check
from dc_gym.kernel.lab import LabConfig
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.learn.registration import SPECS
from dc_gym.learn.session import Session
from dc_gym.run.plan.plan import GO_ON

ID = "dcgym/Dumbbell10m-v0"
STEP = "agent.interval=1ms"
ROUNDS, STEPS, WARM_UP = 11, 400, 50
RLLIB_ENVS, RLLIB_ROUNDS, RLLIB_STEPS = 16, 3, 1600
BARE_SHARE, PAIR_GAIN, RLLIB_SHARE = 0.85, 1.7, 0.5
RLLIB = f"RLlib, {RLLIB_ENVS} labs in one vector / one vector of {RLLIB_ENVS} free envs"


WITHOUT_AIO = 'echo 0 >/proc/sys/fs/aio-max-nr; exec "$@"'
"""Becomes the program of its arguments, for which queues are dumped with a system call or two per namespace."""


class BareSession(Session):
    """The same network at rest; it only makes steps."""

    def __init__(self, *, plain: bool) -> None:
        """Makes the session. `plain`: one dump per namespace; otherwise all dumps in one system call, as agentd does it."""
        super().__init__(as_spec({**SPECS[ID], "workload": {"kind": "none"}}, [STEP]))
        self._plain = plain

    def lab_config(self, *args: Any) -> LabConfig:
        config = super().lab_config(*args)
        if not self._plain:
            return config
        return replace(config, argv=["/bin/sh", "-c", WITHOUT_AIO, "sh", *config.argv])


@dataclass(frozen=True, slots=True)
class Racer:
    """A way to make steps: `start` runs before the measurement, then `step` makes the step of a number."""

    name: str
    start: Callable[[], object]
    step: Callable[[int], object]
    sessions: Sequence[Session] = ()
    """Its labs. A step of all of them counts as that many steps."""

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.step(number)


@dataclass(frozen=True, slots=True)
class RacerPace:
    """The pace of one racer: medians over the rounds, means for CPU time."""

    steps_per_s: float
    python_us: float
    """CPU time per step of this process; `lab_us` is the CPU time of the lab's processes."""
    lab_us: float

    @property
    def us(self) -> float:
        return 1e6 / self.steps_per_s

    @property
    def cpu_us(self) -> float:
        return self.python_us + self.lab_us


def race(racers: Sequence[Racer], rounds: int = ROUNDS, steps: int = STEPS) -> dict[str, RacerPace]:
    """Returns the pace of each racer by name. In each round all racers take turns."""
    samples: dict[str, list[tuple[float, float, float]]] = {racer.name: [] for racer in racers}
    for _ in range(rounds):
        for racer in racers:
            racer.start()
            racer.run(WARM_UP)
            before = _times(racer)
            racer.run(steps)
            taken = [(now - then) / (steps * len(racer.sessions)) for now, then in zip(_times(racer), before, strict=True)]
            samples[racer.name].append((taken[0], taken[1], taken[2]))
    return {name: _pace(taken) for name, taken in samples.items()}


def _pace(taken: Sequence[tuple[float, float, float]]) -> RacerPace:
    wall_s, python_s, lab_s = zip(*taken, strict=True)
    return RacerPace(1 / statistics.median(wall_s), 1e6 * statistics.mean(python_s), 1e6 * statistics.mean(lab_s))


def _times(racer: Racer) -> tuple[float, float, float]:
    """Returns seconds of wall time, of this process' CPU time, and of its labs' CPU time."""
    pids = [process.pid for session in racer.sessions if session.pid for process in processes.descendants(session.pid)]
    return time.perf_counter(), time.process_time(), sum(processes.cpu_s(pid) for pid in pids)


def channel_racer(name: str, session: Session) -> Racer:
    """Returns a racer that answers steps and does nothing else."""

    def step(_: int) -> None:
        session.lab.answer(GO_ON)
        session.lab.until_step()

    return Racer(name, lambda: session.begin(1), step, (session,))


def lab_racer(name: str, session: Session, rates_bps: Any) -> Racer:
    """Returns a racer with traffic, and with rates that change every step."""

    def step(number: int) -> None:
        session.post(rates_bps[number])
        session.lab.until_step()

    return Racer(name, lambda: session.begin(1), step, (session,))


def env_racer(name: str, env: Any, actions: Any) -> Racer:
    """Returns a racer that uses an environment, or a vector of them, through its public interface."""
    base_env = env.unwrapped
    sessions = base_env.sessions if hasattr(base_env, "sessions") else (base_env.session,)
    return Racer(name, lambda: env.reset(seed=1), lambda step: env.step(actions[step]), sessions)


def drawn(space: Any, steps: int = STEPS + WARM_UP) -> Any:
    """Returns random actions."""
    low, high = space.low, space.high
    return np.random.default_rng(1).uniform(low, high, (steps, *space.shape)).astype(np.float32)


def checks() -> Iterator[Check]:
    yield from single_checks()
    yield pair_check()
    yield from rllib_checks()


def single_checks() -> Iterator[Check]:
    with ExitStack() as stack:
        env: Any = gymnasium.make(ID, overrides=[STEP])
        stack.callback(env.close)
        plain = stack.enter_context(BareSession(plain=True))
        swept = stack.enter_context(BareSession(plain=False))
        base_env: DataCenterEnv = env.unwrapped
        env.reset(seed=1)
        actions = drawn(env.action_space)
        rates_bps = [base_env.episode.action.to_values(action) for action in actions]
        paces = race(
            [
                channel_racer("bare", plain),
                channel_racer("sweep", swept),
                lab_racer("lab", base_env.session, rates_bps),
                env_racer("env", env, actions),
            ]
        )
        costs = python_parts(env, actions)
    yield from step_checks(paces, costs)


def step_checks(paces: Mapping[str, RacerPace], costs: Mapping[str, float]) -> Iterator[Check]:
    """Yields the checks on steps. `paces`: paces by racer; `costs`: us per step of Python's parts."""
    bare, swept, lab, env = (paces[name] for name in ("bare", "sweep", "lab", "env"))
    share = env.steps_per_s / bare.steps_per_s
    measured = f"{share:.2f} ({env.steps_per_s:.0f} of {bare.steps_per_s:.0f} steps/s)"
    yield Check("one lab, random actions / bare channel and a dump a step", f">= {BARE_SHARE}", measured, share >= BARE_SHARE)
    words = f"{bare.cpu_us / env.cpu_us:.2f} ({bare.cpu_us:.0f} of {env.cpu_us:.0f} us a step)"
    yield Check("the same in CPU time", "recorded", words, ok=True)
    words = f"{env.steps_per_s / swept.steps_per_s:.2f} ({swept.steps_per_s:.0f} steps/s)"
    yield Check("one lab / bare channel and agentd's sweep, all dumps by one call", "recorded", words, ok=True)
    traffic = f"channel and sweep {swept.us:.0f} us, traffic and rates {lab.us - swept.us:.0f} us"
    words = f"{lab.us:.0f} us ({lab.steps_per_s:.0f} steps/s): {traffic}; CPU {lab.lab_us:.0f} us"
    yield Check("a step of the lab", "recorded", words, ok=True)
    parts_text = ", ".join(f"{name} {cost:.1f}" for name, cost in costs.items())
    words = f"{env.us - lab.us:.0f} us in turn with the lab, CPU {env.python_us:.0f} us; alone, in us: {parts_text}"
    yield Check("a step of Python", "recorded", words, ok=True)


def python_parts(env: Any, actions: Any) -> dict[str, float]:
    """Returns the CPU time of each part of this process in us per step, while no lab runs: the cost of a step without the
    exchange with the lab."""
    base_env: DataCenterEnv = env.unwrapped
    env.reset(seed=1)
    env.step(actions[0])
    stepper = base_env.stepper
    assert stepper is not None, "the environment is in a lab"
    with stepper.rehearsal():
        parts: dict[str, Callable[[int], object]] = {
            "actions": lambda step: base_env.episode.action.to_values(actions[step]),
            "observations and rewards": lambda step: stepper.measure(0),
            "all of a step": lambda step: env.step(actions[step]),
        }
        costs = {}
        for name, work in parts.items():
            begun_s = time.process_time()
            for step in range(len(actions)):
                work(step)
            costs[name] = (time.process_time() - begun_s) / len(actions) * 1e6
    return costs


def pair_check() -> Check:
    """Returns the check on two labs. The pair boots first, so each of its labs has its own CPU if there are two."""
    with ExitStack() as stack:
        pair, one = (gymnasium.make_vec(ID, num_envs=labs, overrides=[STEP]) for labs in (2, 1))
        for env in (pair, one):
            stack.callback(env.close)
            env.reset(seed=1)
        paces = race([env_racer(name, env, drawn(env.action_space)) for name, env in (("pair", pair), ("one", one))])
    two, single = paces["pair"].steps_per_s, paces["one"].steps_per_s
    return Check(
        "two labs in one vector env / one lab in one",
        f">= {PAIR_GAIN}",
        f"{two / single:.2f} ({two:.0f} of {single:.0f} steps/s)",
        two / single >= PAIR_GAIN,
    )


def rllib_checks() -> Iterator[Check]:
    """Yields the checks on RLlib. Free envs that RLlib makes a vector of, one by one, are reported beside them."""
    required = f">= {RLLIB_SHARE}"
    if find_spec("ray") is None or find_spec("torch") is None:
        yield Check(RLLIB, required, "RLlib is not installed: pip install 'dc-gym[rl]'", ok=True, skipped=True)
        return
    from dc_gym.learn.rllib import environment, ray_session, sampling
    from dc_gym.learn.rllib.settings import TrainingSettings

    ray_session.require()
    task = environment.register(as_spec(SPECS[ID], [STEP]), TrainingSettings())
    free = sampling.instant_task(task)
    ways = {"labs": (task, True), "single": (free, False), "together": (free, True)}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RLLIB_ROUNDS):
        for name, (racer_task, together) in ways.items():
            rates[name].append(sampling.steps_per_s(racer_task, RLLIB_ENVS, RLLIB_STEPS, together=together))
    yield from sampling_checks({name: statistics.median(values) for name, values in rates.items()})


def sampling_checks(rates: Mapping[str, float]) -> Iterator[Check]:
    """Yields the checks from steps per second of labs, of free envs that RLlib makes a vector of, and of a free vector."""
    labs, single, together = (rates[name] for name in ("labs", "single", "together"))
    own_us, ours_us = 1e6 / together, 1e6 / labs - 1e6 / together
    parts = f"RLlib's own {own_us:.0f} us a step, labs and all of ours {ours_us:.0f} us"
    words = f"{labs / together:.2f} ({labs:.0f} of {together:.0f} steps/s; {parts})"
    yield Check(RLLIB, f">= {RLLIB_SHARE}", words, labs / together >= RLLIB_SHARE)
    words = f"{labs / single:.2f} ({single:.0f} steps/s; RLlib's own {1e6 / single:.0f} us a step)"
    yield Check("the same labs / free single envs, which RLlib steps one by one", "recorded", words, ok=True)
