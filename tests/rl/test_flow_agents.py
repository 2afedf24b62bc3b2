# SPDX-License-Identifier: Apache-2.0
"""Flows as agents on RLlib: its environment, our runners, RL-CC's gradient against the one in numpy, and `--agents flows`."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.envs.policy_file import PolicyFile
from dc_gym.methods.rlcc import gradient
from dc_gym.methods.rlcc.flows import Case, Flows
from dc_gym.methods.rlcc.gradient import Bottlenecks, Training
from dc_gym.nets import policy_file
from dc_gym.nets.decision import Scaling
from dc_gym.nets.mlp import Mlp, start
from dc_gym.rl import quiet, train

MODEL = Training(bottlenecks=((2, 2), (4, 2)), renewal=0.05, seed=1)
CASE = Case(flows=(2, 4), model=MODEL)


@pytest.fixture
def one_ray(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All trainings of this module share the tests' Ray."""

    @contextlib.contextmanager
    def session(address: str | None, labs: int, processes: int) -> Iterator[Any]:
        yield ray

    monkeypatch.setattr(quiet, "session", session)


def configured(name: str, case: Case = CASE, **training: Any) -> Any:
    """Returns an AlgorithmConfig on flows, as the command makes it."""
    from dc_gym.rl import flow_task
    from dc_gym.rl.algorithms import choose
    from dc_gym.rl.settings import Configuration, Settings

    told = Settings(labs=2, steps=10_000)
    task = flow_task.register(flow_task.Subject(name, case), told)
    return train.configure(choose(name), Configuration(told, {"training": training}), task)


def test_rllibs_environment_has_an_agent_when_it_decides_or_ends() -> None:
    from dc_gym.rl.flows import ALL, CASE, FlowsMultiAgentEnv

    case = Case(round_trips=60, model=MODEL)
    env, flows = FlowsMultiAgentEnv({CASE: case}), Flows(case)
    seen, _ = env.reset(seed=9)
    turn = flows.begin(9)
    known = set(turn.decides)
    while not turn.over:
        assert all((seen[name] == turn.observations[name]).all() for name in turn.decides)
        seen, paid, ended, cut, infos = env.step({name: [0.97] for name in turn.decides})
        turn = flows.step({name: [0.97] for name in turn.decides})
        known |= set(turn.decides)
        assert seen.keys() == paid.keys() == {*turn.decides, *(name for name in turn.ended if name in known)}
        assert {name for name in {**ended, **cut} if name != ALL} == {name for name in turn.ended if name in known}
    assert cut[ALL] and not ended[ALL] and next(iter(infos.values()))["network"]["episode_totals"] == turn.totals


def test_pieces_of_a_flows_episode_fit_together() -> None:
    """A flow's inputs show what it did: the next input holds the action, and its error gives the reward."""
    from dc_gym.rl.flow_runners import EpisodeRunner, to_factors

    runner = EpisodeRunner(config=configured("PPO"), worker_index=0)
    pieces: dict[str, list[Any]] = {}
    for _ in range(3):
        sampled = runner.sample(num_timesteps=300)
        assert sum(map(len, sampled)) == runner.get_metrics()["num_env_steps_sampled"].peek()
        for each in sampled:
            pieces.setdefault(each.id_, []).append(each)
    assert max(map(len, pieces.values())) > 1 and any(own[-1].is_truncated for own in pieces.values())
    for own in pieces.values():
        assert [each.is_done for each in own[:-1]] == [False] * (len(own) - 1)
        for each, after in itertools.pairwise(own):
            assert (each.get_observations(-1) == after.get_observations(0)).all()
            assert after.t_started == each.t_started + len(each)
        for each in own:
            seen, acted = each.get_observations(), each.get_actions()
            assert seen[1:, 2] == pytest.approx(to_factors(acted[:, 0]), abs=1e-6)
            assert each.get_rewards() == pytest.approx(CASE.rewards(seen[1:, 3]), rel=1e-5)
            assert len(each.get_extra_model_outputs("action_logp")) == len(each)


def test_the_gradient_of_a_batch_is_that_of_the_numpy_trainer() -> None:
    """From the same first weights, on the same decisions."""
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    from dc_gym.rl.algorithms.rlcc import RlccLearner, batch_of
    from dc_gym.rl.flow_runners import DeltaRunner

    config = configured("RLCC", train_batch_size_per_learner=200)
    runner = DeltaRunner(config=config, worker_index=0)
    net = runner.module.mlp()
    first = start(np.random.default_rng(1)).weights
    assert all((mine == weight.astype(np.float32)).all() for mine, weight in zip(net.weights, first, strict=True))
    rows = runner.sample()
    found = gradient._collect(Bottlenecks(MODEL, Scaling()), net, 200)
    assert (rows["inputs"] == found.inputs[0]).all() and (rows["errors"] == found.errors[0]).all()

    learner = SimpleNamespace(module={"default_policy": runner.module}, metrics=MetricsLogger(root=False))
    batch = batch_of([rows], Scaling().unit)["default_policy"]
    told = {"module_id": "default_policy", "config": config, "batch": batch, "fwd_out": {}}
    RlccLearner.compute_loss_for_module(learner, **told).backward()
    slopes = gradient._against(net, found, Scaling(), MODEL)
    for number, slope in zip((0, 2, 4), slopes, strict=True):
        assert np.abs(slope).max() > 1e-4
        assert runner.module.net[number].weight.grad.numpy() == pytest.approx(slope, rel=1e-3, abs=1e-6)


def order(tmp_path: Path, name: str, algorithm: str, steps: int, config: str = "", **changes: Any) -> train.Order:
    from dc_gym.rl import flow_task

    file = tmp_path / "train.toml"
    file.write_text(f"[run]\nevaluate_episodes = {changes.get('evaluate', 1)}\ncheckpoint_every = 4\n{config}")
    subject = flow_task.subject(changes.pop("ground", "fluid"), algorithm, ())
    options = {"steps": steps, "labs": 2, "seed": 1}
    return train.Order(subject, algorithm, tmp_path / name, file, options, {}, changes.pop("resume", False), None)


def run(order: train.Order) -> Path:
    from dc_gym.rl import flow_task

    return train.run(order, Quiet(), flow_task.register)


def outcomes(folder: Path) -> list[dict[str, float]]:
    with (folder / "evaluation.csv").open(newline="") as file:
        return [{key: float(value) for key, value in row.items() if key != "spec"} for row in csv.DictReader(file)]


SHORT = (
    "[training]\nfirst_lr = 0.01\ntrain_batch_size_per_learner = 128\n[reporting]\nmin_sample_timesteps_per_iteration = 1024\n"
)


@pytest.mark.usefixtures("one_ray")
def test_eq_3_learns_the_same_twice_and_leaves_a_policy_of_the_nic(tmp_path: Path) -> None:
    target = run(order(tmp_path, "a", "RLCC", 40_000, SHORT))
    made = policy_file.PolicyFile.read(target)
    assert made.kind == "mlp" and made.origin["training"]["algorithm"] == "RLCC" and made.origin["decisions"] >= 40_000
    rows = outcomes(tmp_path / "a")
    first, last = ({row["flows"]: row for row in rows if (row["iteration"] > 0) == late} for late in (False, True))
    for flows in (4, 8, 32):
        before, after = (abs(each[flows]["inflation_over_eq_2"] - 1) for each in (first, last))
        assert after < 0.25 < before and last[flows]["rates"] > 0.97
    congested, unused = (made.policy(np.array([[1.0, 0.0, 1.0, error]]))[0] for error in (0.768, -0.768))
    assert congested < 1 < unused
    once, again = (run(order(tmp_path, name, "RLCC", 3_000, SHORT, evaluate=0)) for name in "bc")
    assert again.read_bytes() == once.read_bytes() != target.read_bytes()


@pytest.mark.usefixtures("one_ray")
def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    run(order(tmp_path, "a", "RLCC", 5_000, SHORT, evaluate=0))
    before = json.loads((tmp_path / "a" / "train.json").read_text())
    target = run(order(tmp_path, "a", "RLCC", 9_000, SHORT, evaluate=0, resume=True))
    assert policy_file.PolicyFile.read(target).origin["decisions"] >= 9_000
    assert before["spec"]["flows"] == [2, 4, 8] and before["settings"]["steps"] == 5_000


@pytest.mark.lab
@pytest.mark.usefixtures("one_ray")
def test_eq_3_on_labs_is_the_same_twice_and_leaves_nothing(tmp_path: Path) -> None:
    once, again = (run(order(tmp_path, name, "RLCC", 1_500, SHORT, evaluate=0, ground="lab")) for name in "ab")
    assert again.read_bytes() == once.read_bytes()
    made = policy_file.PolicyFile.read(once)
    assert made.origin["made"] == "trained on lab by RL-CC's eq. 3" and made.origin["decisions"] >= 1_500
    first = start(np.random.default_rng(1)).weights
    assert all((mine != weight).any() for mine, weight in zip(made.policy.weights, first, strict=True)), "it has learned"
    told = json.loads((tmp_path / "a" / "train.json").read_text())["spec"]
    assert (told["ground"], told["preset"], told["scene"]["rate_bps"]) == ("lab", "rl-cc", 10**10)
    assert not list((tmp_path / "a").glob("dcgym-*")), "folders of labs"


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
    file = PolicyFile.read(target)
    assert file.observation == ("a_old", "e_old", "a_new", "e_new") and file.act([1, 0, 1, 0]).shape == (1,)
    assert len(outcomes(tmp_path / "a")) == 10


def test_noise_is_a_flows_own_and_begins_anew_with_it() -> None:
    import torch

    from dc_gym.rl.algorithms.ddpg import PLACES

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
    ("words", "said"),
    [
        (["fluid", "--agents", "flows", "--algo", "DQN"], "does not train flows; one of: RLCC, PPO"),
        (["fluids", "--agents", "flows"], "ground 'fluids'"),
        (["lab", "--agents", "flows", "--algo", "PPO"], "explores, and a NIC in a lab runs a table"),
        (["fluid", "--agents", "flows", "--set", "seed=2"], "--agents flows has none"),
        (["fluid", "--agents", "flows", "--levels", "11"], "flows act in numbers"),
        (["examples/dumbbell.toml", "--algo", "RLCC"], "`dcgym train fluid --agents flows` does that"),
    ],
)
def test_what_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    assert main(["train", *words, "--out", str(tmp_path / "a"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_first_net_is_the_seeds() -> None:
    """One seed, one network; the next seed has another."""
    from dc_gym.rl.algorithms.rlcc import RlccModule

    def net(seed: int) -> Mlp:
        spaces = {"observation_space": CASE.observation_space(), "action_space": CASE.action_space()}
        made = RlccModule(**spaces, model_config={"seed": seed}).mlp()
        assert isinstance(made, Mlp)
        return made

    assert (net(1).weights[0] == net(1).weights[0]).all() and (net(1).weights[0] != net(2).weights[0]).any()
