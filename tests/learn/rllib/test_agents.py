# SPDX-License-Identifier: Apache-2.0
"""`dcgym train --agents hosts`: on the toy and on a stand-in for labs; what is trained acts in a lab as RLlib has it act."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_hosts
from test_train import CONFIG, one_ray, order, refused, rows

from dc_gym.base.errors import LabError
from dc_gym.base.progress import Quiet
from dc_gym.learn import multi_agent as hosts
from dc_gym.learn.rllib import train
from dc_gym.learn.rllib.multi_agent import ALL, DataCenterMultiAgentEnv
from dc_gym.nets.agent_policy import AgentPolicy

__all__ = ["one_ray"]
HOSTS = {"agents": "hosts"}


def run(order: train.TrainingRequest) -> Path:
    return train.run(order, Quiet(), toy_hosts.register)


def test_one_policy_for_all_hosts_is_trained_and_goes_on(tmp_path: Path) -> None:
    first, second = (run(order(tmp_path, name, options=HOSTS)) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes(), "one seed is one training"
    assert rows(tmp_path / "a" / "progress.csv") == rows(tmp_path / "b" / "progress.csv")
    policy = AgentPolicy.read(first)
    assert (policy.agents, policy.settings["see"], policy.hosts) == ("hosts", "path", ("h1", "h2"))
    assert policy.observation == ("path/queue", "path/capacity", "own/rate")

    evaluated = rows(tmp_path / "a" / "evaluation.csv")
    assert [row["seed"] for row in evaluated] == ["1000001", "1000002"] * 2
    for row in evaluated[2:]:
        assert float(row["return"]) == pytest.approx(_return_of(policy, int(row["seed"])), rel=1e-5)

    run(order(tmp_path, options=HOSTS | {"steps": 1000}, resume=True))
    assert [int(row["steps"]) for row in rows(tmp_path / "a" / "progress.csv")] == [256, 512, 768, 1024]
    assert 'settings.agents was "hosts" and now is "central"' in refused(order(tmp_path, resume=True))


def _return_of(policy: AgentPolicy, seed: int) -> float:
    """Returns the return of an episode of the toy: the sum over steps of the reward, which is the same for each host."""
    env = toy_hosts.ToyHosts()
    observations, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        observations, rewards, _, ends, _ = env.step({name: policy.act(values) for name, values in observations.items()})
        total, over = total + rewards["h1"], ends[ALL]
    return total


def test_policies_of_their_own_are_no_file(tmp_path: Path) -> None:
    checkpoint = run(order(tmp_path, options=HOSTS | {"policies": "own", "steps": 256}))
    assert checkpoint.name == "iteration-000001" and not (tmp_path / "a" / "policy.npz").exists()
    with (tmp_path / "a" / "progress.csv").open() as file:
        assert {"learner_h1_vf_loss", "learner_h2_vf_loss"} <= set(next(csv.reader(file)))


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "levels"), [("SAC", 0), ("DQN", 5), ("DDPG", 0), ("REINFORCE", 0)])
def test_other_algorithms(tmp_path: Path, algorithm: str, levels: int) -> None:
    config = "[run]\nevaluate_episodes = 1\n"
    if algorithm != "REINFORCE":
        config += "[training]\nnum_steps_sampled_before_learning_starts = 100\ntraining_intensity = 4.0"
    policy = AgentPolicy.read(run(order(tmp_path, "a", algorithm, config, options=HOSTS | {"levels": levels})))
    last = rows(tmp_path / "a" / "evaluation.csv")[-1]
    assert float(last["return"]) == pytest.approx(_return_of(policy, int(last["seed"])), rel=1e-4)
    assert policy.output == ("argmax" if levels else policy.output)


def test_whole_episodes_are_new_ones_in_each_lab(tmp_path: Path) -> None:
    toy_hosts.BEGUN.clear()
    config = CONFIG.replace("[training]", "[env_runners]\nbatch_mode = 'complete_episodes'\n[training]")
    run(order(tmp_path, config=config, options=HOSTS))
    assert len(toy_hosts.BEGUN) == len(set(toy_hosts.BEGUN)) == 2, "each of two labs begins its series once"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agents": "host"}, "run.agents 'host' is unknown; did you mean hosts?"),
        ({"policies": "own"}, "run.policies = 'own' is for many agents; give --agents hosts, too"),
    ],
)
def test_one_line(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    assert words in refused(order(tmp_path, options=options))


class Frail:
    """A stand-in for a lab's hosts: keeps the seeds that it is given, and fails when told to."""

    names = ("h1", "h2")
    dies = ""

    def __init__(self, **config: Any) -> None:
        env = toy_hosts.ToyHosts()
        self.observation_spaces, self.action_spaces = env.observation_spaces, env.action_spaces
        self.acted: list[dict[str, Any]] = []
        self.begun: list[int | None] = []
        self.seed = 7

    def begin(self, seed: int | None = None, *, fresh: bool = False) -> hosts.StepResults:
        self.begun.append(seed)
        return self._turn("reset")

    def step(self, actions: dict[str, Any]) -> hosts.StepResults:
        self.acted.append(actions)
        return self._turn("step")

    def _turn(self, when: str) -> hosts.StepResults:
        if self.dies == when:
            Frail.dies = ""
            raise LabError("lab 3 died\nits last words")
        observations = {name: np.zeros(3, np.float32) for name in self.names}
        return hosts.StepResults(observations, dict.fromkeys(self.names, 1.0), False, False, {name: {} for name in self.names})


@pytest.fixture
def frail(monkeypatch: pytest.MonkeyPatch) -> type[Frail]:
    monkeypatch.setattr("dc_gym.learn.rllib.multi_agent.Agents", Frail)
    return Frail


def test_a_lab_that_dies_ends_its_episode_and_is_replaced(frail: type[Frail]) -> None:
    env = DataCenterMultiAgentEnv({"spec": {}})
    env.reset(seed=1)
    frail.dies = "step"
    observations, rewards, terminated, truncated, infos = env.step({"h1": 0, "h2": 0})
    assert truncated == {"h1": True, "h2": True, ALL: True} and not any(terminated.values())
    assert set(observations) == {"h1", "h2"} and rewards == {"h1": 0.0, "h2": 0.0}
    assert infos["h2"]["network"] == {"lab_died": "lab 3 died"}
    frail.dies = "reset"
    env.reset()
    assert env.lab.begun == [1, None, 7], "the same episode, in the next lab"


def test_no_two_labs_have_the_same_episodes(frail: type[Frail]) -> None:
    from ray.rllib.env.env_context import EnvContext

    begun = []
    for worker in (1, 2):
        for lab in range(3):
            env = DataCenterMultiAgentEnv(EnvContext({"spec": {}, "stream": (1, 0)}, worker_index=worker))
            for seed in (1 + worker + lab, 1 + worker + lab, None):  # as RLlib and its vectors give them
                env.reset(seed=seed)
            assert env.lab.begun[1:] == [None, None]
            begun.append(env.lab.begun[0])
    assert len(set(begun)) == 6 and min(begun) >= 2**40


def test_levels_of_each_host(frail: type[Frail]) -> None:
    env = DataCenterMultiAgentEnv({"spec": {}, "levels": 5})
    env.reset()
    env.step({"h1": np.int64(0), "h2": np.array([3])})
    assert {name: action.tolist() for name, action in env.lab.acted[0].items()} == {"h1": [0.0], "h2": [0.75]}


@pytest.mark.lab
@pytest.mark.long
def test_in_labs(tmp_path: Path) -> None:
    """The exported policy file reaches the same returns as RLlib's evaluation."""
    from dc_gym.learn.evaluate import evaluate
    from dc_gym.learn.rllib import environment
    from dc_gym.learn.session import external
    from dc_gym.spec import load

    example = Path(__file__).resolve().parents[3] / "examples" / "gym.toml"
    spec = load(example, ["time.duration=200ms"])
    (tmp_path / "train.toml").write_text(CONFIG)
    options = {"steps": 256, "labs": 2, "agents": "hosts"}
    request = train.TrainingRequest(external(spec), "PPO", tmp_path / "a", tmp_path / "train.toml", options, {}, False, None)
    policy = train.run(request, Quiet(), environment.register)
    last = rows(tmp_path / "a" / "evaluation.csv")[-1]
    assert float(last["return"]) == pytest.approx(evaluate(spec, policy, [int(last["seed"])])[0]["return"], rel=1e-5)
    assert json.loads((tmp_path / "a" / "train.json").read_text())["settings"]["see"] == "path"
