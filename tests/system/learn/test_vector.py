# SPDX-License-Identifier: Apache-2.0
"""Vectors of labs: the same trajectories as single environments and as frames, specs of their own, and labs that disturb."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, LabError, ProtocolError
from dc_gym.kernel.share import Request
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.learn.native import Flags, LabState
from dc_gym.learn.registration import SPECS
from dc_gym.learn.session import Session
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.metrics import BLANK
from dc_gym.spec import Spec

pytestmark = pytest.mark.lab
SPEC = SPECS["dcgym/Dumbbell10m-v0"] | {"agent": {"interval": "1ms"}, "time": {"duration": "2s"}}
FULL = ["agent.observe=full", "agent.history=3", "agent.reward=goodput - 0.1*queueing_delay - 0.2*gini", "agent.latency=1500us"]
CALM = [f"plugins=['{Path(__file__).parents[3] / 'examples' / 'calm.py'}']", "agent.observe=default,switch:standing,srtt"]
CALM += ["agent.history=3", "agent.reward=goodput - 5*unrest"]
CASES = {
    "default": (SPEC, [], 150),
    "commands by packets": (SPEC, ["agent.control=network", "agent.reward=thesis - drops"], 20),
    "all features, a reward of Python's, and latency": (SPEC, FULL, 140),
    "a user's feature": (SPEC, CALM, 20),
    "udp": (SPEC, ["workload.transport=udp", "workload.rate=6Mbit/s", "agent.action=thesis"], 30),
    "flows that end": (
        SPEC | {"workload": {"kind": "poisson", "load": 0.5, "size": "2kB"}, "time": {"duration": "40ms"}},
        ["agent.reward=goodput - 0.05*slowdown"],
        45,
    ),
    "one flow that ends": (
        SPEC | {"workload": {"kind": "pairs", "size": "1448B"}},
        ["agent.reward=goodput - 0.1*switch_delay", "agent.hosts=senders"],
        60,
    ),
    "marking": (SPECS["dcgym/EcnDumbbell1g-v0"], ["time.duration=30ms"], 35),
}


def by_frames(spec: Any, overrides: list[str], seeds: list[int], actions: Any, folder: Path) -> Generator[Any, None, None]:
    """Yields the results of single networks, frame by frame in Python: each one's first observation, then its steps."""
    for lab, seed in enumerate(seeds):
        with Session(as_spec(spec, overrides), folder) as session:
            episode = EpisodeTracker(session.experiment.spec, session.scene)
            yield episode.begin(session.begin(seed), seed)
            for action in actions:
                turn = episode.advance(session.step(episode.action.to_values(action[lab])))
                yield turn
                if turn[2] or turn[3]:
                    break


@pytest.mark.parametrize("name", CASES)
def test_a_vector_is_its_single_environments_and_their_frames(name: str, tmp_path: Path, registries: None) -> None:
    spec, overrides, count = CASES[name]
    seeds, rng = [3, 4, 5], np.random.default_rng(1)
    with ExitStack() as stack:
        labs = LabVectorEnv(3, spec, overrides, folder=tmp_path)
        stack.callback(labs.close)
        actions = rng.uniform(-1.2, 1.2, (count, 3, *labs.single_action_space.shape)).astype(np.float32)
        begun = labs.reset(seed=seeds)
        steps = [labs.step(action) for action in actions]
        one = DataCenterEnv(spec, overrides, folder=tmp_path)
        stack.callback(one.close)
        turns = by_frames(spec, overrides, seeds, actions, tmp_path)
        for lab, seed in enumerate(seeds):
            observation, info = one.reset(seed=seed)
            expected, expected_info = next(turns)
            assert np.array_equal(observation, expected) and np.array_equal(begun[0][lab], expected)
            assert info == expected_info == {key: begun[1][key][lab] for key in expected_info}
            for action, (observations, rewards, terminated, truncated, infos) in zip(actions, steps, strict=True):
                single, expected = one.step(action[lab]), next(turns)
                assert np.array_equal(single[0], expected[0]) and np.array_equal(observations[lab], expected[0])
                assert single[1:4] == expected[1:4] == (rewards[lab], terminated[lab], truncated[lab])
                assert type(single[1]) is float and type(single[2]) is bool
                assert dict(single[4]) == dict(expected[4])
                assert {key: infos[key][lab] for key in BLANK} == {key: expected[4][key] for key in BLANK}
                if expected[2] or expected[3]:
                    totals = infos["episode_totals"]
                    assert {key: totals[key][lab] for key in single[4]["episode_totals"]} == expected[4]["episode_totals"]
                    break
            else:
                assert name not in ("flows that end", "one flow that ends", "marking"), "this episode ends in time"
        turns.close()
    assert not list(tmp_path.iterdir())


def test_labs_of_one_vector_may_differ_in_all_but_the_agent(tmp_path: Path) -> None:
    """One has other traffic, one a longer link and a later end: each is what it is alone."""
    changes = [[], ["workload.kind=all_to_all"], ["topology.delay=5ms", "time.duration=30ms", "seed=7"]]
    labs = LabVectorEnv(3, SPEC, [["time.duration=20ms", *overrides] for overrides in changes], folder=tmp_path)
    actions = np.random.default_rng(1).uniform(-1, 1, (20, 3, 4)).astype(np.float32)
    labs.reset(seed=[1, 1, 1])
    steps = [labs.step(action) for action in actions]
    assert [bool(flag) for flag in steps[-1][3]] == [True, True, False]
    labs.step(actions[0])
    assert [episode.frame and episode.frame.step for episode in labs.episodes] == [0, 0, 21]
    labs.close()
    for lab, overrides in enumerate(changes):
        env = DataCenterEnv(SPEC, ["time.duration=20ms", *overrides], folder=tmp_path)
        env.reset(seed=1)
        for action, step in zip(actions, steps, strict=True):
            observation, reward, *_ = env.step(action[lab])
            assert np.array_equal(observation, step[0][lab]) and reward == step[1][lab]
        env.close()


def spec_of(*overrides: str) -> Spec:
    return as_spec(SPEC, overrides)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (
            [spec_of(), spec_of("agent.observe=thesis")],
            "labs 0 and 1 of one vector differ in agent.observe: 'default' and 'thesis'",
        ),
        ([spec_of(), spec_of(), spec_of("agent.interval=2ms")], "labs 0 and 2 .* agent.interval"),
        ([spec_of(), spec_of("agent.hosts=senders")], "agent.hosts"),
        ([spec_of(), spec_of("topology.pairs=3")], "the observation: element 2 is s1-eth3/backlog and s1-eth3/backlog|element"),
        ([spec_of()], "spec: 1 for 2 labs; give one for all, or one for each"),
    ],
)
def test_labs_that_do_not_fit_together_are_one_line(specs: list[Spec], message: str) -> None:
    with pytest.raises(AgentError, match=message) as excinfo:
        LabVectorEnv(max(2, len(specs)), specs)
    assert "\n" not in str(excinfo.value)


def test_overrides_for_each_lab_are_as_many_as_labs() -> None:
    with pytest.raises(AgentError, match=r"overrides: 3 .*2 labs.*one for each"):
        LabVectorEnv(2, SPEC, [["seed=1"], ["seed=2"], ["seed=3"]])


def test_infos_are_those_of_their_step_also_when_read_late(tmp_path: Path) -> None:
    """They outlive the recording that they are in, and the episode."""
    calm, curious = (LabVectorEnv(2, SPEC, ["time.duration=140ms"], folder=tmp_path) for _ in range(2))
    actions = np.random.default_rng(2).uniform(-1, 1, (150, 2, 4)).astype(np.float32)
    for labs in (calm, curious):
        labs.reset(seed=1)
    late = [calm.step(action)[4] for action in actions]
    early = [{key: value for key, value in curious.step(action)[4].items()} for action in actions]
    for one, other in zip(late, early, strict=True):
        assert set(one) == set(other)
        for key in set(one) - {"episode_totals"}:
            assert np.array_equal(one[key], other[key]), key
    assert late[139]["episode_totals"]["return"].tolist() == early[139]["episode_totals"]["return"].tolist()
    calm.close()
    curious.close()


def test_frames_stay_what_they_were(tmp_path: Path) -> None:
    with ExitStack() as stack:
        env = DataCenterEnv(SPEC, folder=tmp_path)
        stack.callback(env.close)
        env.reset(seed=1)
        copies = []
        for _ in range(140):
            env.step(np.full(4, 0.5, np.float32))
            assert env.episode.frame is not None
            copies.append((env.episode.frame, env.episode.frame.cells.copy(), env.episode.frame.before.copy()))
        env.reset(seed=2)
        env.step(np.ones(4, np.float32))
    for number, (frame, cells, before) in enumerate(copies, 1):
        assert frame.step == number and np.array_equal(frame.cells, cells) and np.array_equal(frame.before, before)


def test_a_reader_is_served_while_labs_are_stepped(tmp_path: Path) -> None:
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    labs.reset(seed=1)
    requests = [Request(session._folder / ".lab", 10.0) for session in labs.sessions]
    for _ in range(2000):
        labs.step(np.ones((2, 4), np.float32))
        if all(request.is_answered() for request in requests):
            break
        if labs.episodes[0].frame and labs.episodes[0].frame.step == 2000:
            labs.reset(seed=1)
    assert all(request.is_answered() for request in requests)
    labs.close()


def test_what_a_lab_says_in_a_step_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of another kind does not disturb the step that it falls into."""
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    labs.reset(seed=1)
    stepper, lab = labs._stepper, labs.sessions[1].lab
    assert stepper is not None
    exchange, hear, message = stepper._library.exchange, lab.hear, b"\x02\0\0\0\x03\0\0\0hi\n"
    heard: list[bytes] = []

    def interrupted(team: int) -> int:
        """Makes an exchange, and then as if lab 1 had said something first."""
        flags = int(exchange(team))
        if not heard:
            stepper._messages[1, : len(message)] = np.frombuffer(message, np.uint8)
            stepper._records["said"][1], stepper._state[1] = len(message), LabState.SAID
            flags |= Flags.RUN
        return flags

    def heard_by(data: bytes) -> None:
        heard.append(data)
        hear(data)
        stepper._state[1] = LabState.STANDS

    monkeypatch.setattr(stepper._library, "exchange", interrupted)
    monkeypatch.setattr(lab, "hear", heard_by)
    labs.step(np.ones((2, 4), np.float32))
    assert heard == [message] and lab._lines[-1] == "hi"
    monkeypatch.undo()
    for kind in (1, 3):
        with pytest.raises(ProtocolError, match=r"came while the lab runs|carries 0 bytes"):
            lab.hear(kind.to_bytes(4, "little") + bytes(4))
    labs.step(np.ones((2, 4), np.float32))
    assert [episode.frame and episode.frame.step for episode in labs.episodes] == [2, 2]
    labs.close()


def test_a_lab_that_goes_on_without_its_agent_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program asked where agentd should, and then there was another episode."""
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    labs.reset(seed=1)
    stepper = labs._stepper
    assert stepper is not None
    exchange = stepper._library.exchange

    def gone(team: int) -> int:
        flags = int(exchange(team)) | Flags.DIED
        stepper._state[1] = LabState.ENDED
        return flags

    monkeypatch.setattr(stepper._library, "exchange", gone)
    monkeypatch.setattr(labs.sessions[1], "collect", lambda: None)
    *_, truncated, info = labs.step(np.ones((2, 4), np.float32))
    assert truncated.tolist() == [False, True] and info["lab_died"][1] == "the lab began an episode that nobody had asked for"
    monkeypatch.undo()
    labs.close()


@pytest.mark.parametrize(("act", "boots"), [("step", [2, 1]), ("reset", [2, 2])])
def test_ctrl_c_closes_the_labs_that_run_and_the_next_reset_boots_new_ones(act: str, boots: list[int], tmp_path: Path) -> None:
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    labs.reset(seed=1)
    acts = {"step": lambda: labs.step(np.ones((2, 4), np.float32)), "reset": lambda: labs.reset(seed=2)}
    os.kill(labs.sessions[0].pid or 0, signal.SIGSTOP)  # the act lasts until the signal
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        acts[act]()
    timer.join()
    with pytest.raises(AgentError, match="reset first"):
        labs.step(np.ones((2, 4), np.float32))
    labs.reset(seed=1)
    assert [session.boots for session in labs.sessions] == boots
    labs.step(np.ones((2, 4), np.float32))
    labs.close()
    assert not list(tmp_path.iterdir())


def test_a_lab_that_hangs_is_truncated_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    labs.reset(seed=1)
    os.kill(labs.sessions[0].pid or 0, signal.SIGSTOP)

    def hangs(*_: object) -> None:
        raise LabError("the lab hangs\nand more")

    monkeypatch.setattr(labs.sessions[0].lab, "attend", hangs)
    _, rewards, _, truncated, infos = labs.step(np.ones((2, 4), np.float32))
    assert truncated.tolist() == [True, False] and rewards[0] == 0 and infos["lab_died"][0] == "the lab hangs"
    _, _, _, truncated, _ = labs.step(np.ones((2, 4), np.float32))
    assert not truncated.any() and [session.boots for session in labs.sessions] == [2, 1]
    assert [episode.frame and episode.frame.step for episode in labs.episodes] == [0, 2]
    labs.close()


def test_a_closed_lab_is_not_stepped(tmp_path: Path) -> None:
    env = DataCenterEnv(SPEC, folder=tmp_path)
    env.reset(seed=1)
    env.step(np.ones(4, np.float32))
    env.session.close()
    with pytest.raises(AgentError, match="reset first"):
        env.step(np.ones(4, np.float32))
    env.reset(seed=1)
    os.kill(env.session.pid or 0, signal.SIGKILL)
    with pytest.raises(LabError, match="killed by signal 9"):
        env.step(np.ones(4, np.float32))
    with pytest.raises(AgentError, match="reset first"):
        env.step(np.ones(4, np.float32))
    env.close()
