# SPDX-License-Identifier: Apache-2.0
"""Flows as agents on RLlib: its environment, our runner, and `--agents flows`."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.learn.rllib import ray_session, train
from dc_gym.methods.rlcc.offline.flows import Flows, FlowsConfig
from dc_gym.methods.rlcc.offline.on_fluid import FluidTrainingSettings as FluidSettings
from dc_gym.nets.agent_policy import AgentPolicy

MODEL = FluidSettings(bottlenecks=((2, 2), (4, 2)), flow_end_probability=0.05, seed=1)
CASE = FlowsConfig(flows=(2, 4), model=MODEL)


@pytest.fixture
def one_ray(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All trainings of this module share the tests' Ray."""

    @contextlib.contextmanager
    def session(address: str | None, labs: int, processes: int) -> Iterator[Any]:
        yield ray

    monkeypatch.setattr(ray_session, "session", session)


def configured(name: str, case: FlowsConfig = CASE, **training: Any) -> Any:
    """Returns an AlgorithmConfig on flows, as the command makes it."""
    from dc_gym.learn.rllib.algorithms import resolve
    from dc_gym.learn.rllib.settings import Configuration, TrainingSettings
    from dc_gym.methods.rlcc.offline import flow_task

    settings = TrainingSettings(labs=2, steps=10_000)
    task = flow_task.register(case, settings)
    return train.configure(resolve(name), Configuration(settings, {"training": training}), task)


def test_rllibs_environment_has_an_agent_when_it_decides_or_ends() -> None:
    from dc_gym.methods.rlcc.offline.flows_rllib import ALL, FlowsMultiAgentEnv

    case = FlowsConfig(round_trips=60, model=MODEL)
    env, flows = FlowsMultiAgentEnv({"round_trips": 60, "model": MODEL}), Flows(case)
    observations, _ = env.reset(seed=9)
    turn = flows.begin(9)
    known = set(turn.decides)
    while not turn.over:
        assert all((observations[name] == turn.observations[name]).all() for name in turn.decides)
        observations, paid, ended, cut, infos = env.step({name: [0.97] for name in turn.decides})
        turn = flows.step({name: [0.97] for name in turn.decides})
        known |= set(turn.decides)
        assert observations.keys() == paid.keys() == {*turn.decides, *(name for name in turn.ended if name in known)}
        assert {name for name in {**ended, **cut} if name != ALL} == {name for name in turn.ended if name in known}
    assert cut[ALL] and not ended[ALL] and next(iter(infos.values()))["network"]["episode_totals"] == turn.totals


def test_pieces_of_a_flows_episode_fit_together() -> None:
    """A flow's inputs show what it did: the next input holds the action, and its error gives the reward."""
    from dc_gym.methods.rlcc.offline.flow_runner import FlowRunner, to_factors

    runner = FlowRunner(config=configured("PPO"), worker_index=0)
    pieces: dict[str, list[Any]] = {}
    for _ in range(3):
        sampled = runner.sample(num_timesteps=300)
        assert sum(map(len, sampled)) == runner.get_metrics()["num_env_steps_sampled"].peek()
        for piece in sampled:
            pieces.setdefault(piece.id_, []).append(piece)
    assert max(map(len, pieces.values())) > 1 and any(flow_pieces[-1].is_truncated for flow_pieces in pieces.values())
    for flow_pieces in pieces.values():
        assert [piece.is_done for piece in flow_pieces[:-1]] == [False] * (len(flow_pieces) - 1)
        for piece, after in itertools.pairwise(flow_pieces):
            assert (piece.get_observations(-1) == after.get_observations(0)).all()
            assert after.t_started == piece.t_started + len(piece)
        for piece in flow_pieces:
            inputs, acted = piece.get_observations(), piece.get_actions()
            assert inputs[1:, 2] == pytest.approx(to_factors(acted[:, 0]), abs=1e-6)
            assert piece.get_rewards() == pytest.approx(CASE.rewards(inputs[1:, 3]), rel=1e-5)
            assert len(piece.get_extra_model_outputs("action_logp")) == len(piece)


def order(tmp_path: Path, name: str, algorithm: str, steps: int, config: str = "", **changes: Any) -> train.TrainingRequest:
    file = tmp_path / "train.toml"
    file.write_text(f"[run]\nevaluate_episodes = {changes.get('evaluate', 1)}\ncheckpoint_every = 4\n{config}")
    options = {"steps": steps, "labs": 2, "seed": 1}
    return train.TrainingRequest(FlowsConfig(), algorithm, tmp_path / name, file, options, {}, changes.pop("resume", False), None)


def run(order: train.TrainingRequest) -> Path:
    from dc_gym.methods.rlcc.offline import flow_task

    return train.run(order, Quiet(), flow_task.register)


def outcomes(folder: Path) -> list[dict[str, float]]:
    with (folder / "evaluation.csv").open(newline="") as file:
        return [{key: float(value) for key, value in row.items() if key != "spec"} for row in csv.DictReader(file)]


@pytest.mark.usefixtures("one_ray")
@pytest.mark.parametrize(
    ("name", "training"),
    [
        ("PPO", "train_batch_size_per_learner = 400\nminibatch_size = 200\nnum_epochs = 2"),
        ("DDPG", "train_batch_size_per_learner = 64\nnum_steps_sampled_before_learning_starts = 200"),
        ("SAC", "train_batch_size_per_learner = 64\ntraining_intensity = 2.0\nnum_steps_sampled_before_learning_starts = 200"),
    ],
)
def test_standard_algorithms_run_and_their_policies_are_files(tmp_path: Path, name: str, training: str) -> None:
    reporting = "[reporting]\nmin_sample_timesteps_per_iteration = 400\n"
    target = run(order(tmp_path, "a", name, 1_000, f"[training]\n{training}\n{reporting}"))
    file = AgentPolicy.read(target)
    record = json.loads((tmp_path / "a" / "train.json").read_text())
    assert (record["algorithm"], record["spec"]["ground"], record["spec"]["flows"]) == (name, "fluid", [2, 4, 8])
    assert file.observation == ("a_old", "e_old", "a_new", "e_new") and file.act([1, 0, 1, 0]).shape == (1,)
    assert len(outcomes(tmp_path / "a")) == 10


@pytest.mark.usefixtures("one_ray")
def test_a_training_repeats_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    short = "[training]\ntrain_batch_size_per_learner = 400\nminibatch_size = 200\nnum_epochs = 2\n"
    once, again = (run(order(tmp_path, name, "PPO", 1_200, short, evaluate=0)) for name in "ab")
    assert once.read_bytes() == again.read_bytes()
    target = run(order(tmp_path, "a", "PPO", 2_000, short, evaluate=0, resume=True))
    assert AgentPolicy.read(target).provenance["steps"] >= 2_000 and target.read_bytes() != again.read_bytes()


def test_noise_is_a_flows_own_and_begins_anew_with_it() -> None:
    import torch

    from dc_gym.learn.rllib.algorithms.ddpg import PLACES

    module = (
        configured("DDPG").get_rl_module_spec(spaces={"default_policy": (CASE.observation_space(), CASE.action_space())}).build()
    )
    torch.manual_seed(1)
    for places in ([0, 3], [1, 3], [3]):
        batch = {"obs": torch.zeros((len(places), 4)), PLACES: torch.tensor(places)}
        assert module.forward_exploration(batch)["actions"].shape == (len(places), 1)
    noise = module._noise.clone()
    assert noise[2] == 0 and noise[0] != 0 and noise[1] != 0
    module.begin_episode(3)
    assert module._noise[3] == 0 and module._noise[0] == noise[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agents", "flows", "--algo", "DQN"], "does not train flows; one of: PPO"),
        (["--agents", "flows", "--set", "seed=2"], "--agents flows has none"),
        (["--agents", "flows", "--evaluate", "examples/dumbbell.toml"], "flows are evaluated in the closed loop"),
        (["--agents", "flows", "--levels", "11"], "flows act in numbers"),
    ],
)
def test_what_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    assert main(["train", *words, "--out", str(tmp_path / "a"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
