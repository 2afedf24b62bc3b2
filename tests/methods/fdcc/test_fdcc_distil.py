# SPDX-License-Identifier: Apache-2.0
"""FDCC's network as trees: who moves the flows, what is fitted, what the command writes and refuses, and the file's form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.cli.main import main
from dc_gym.methods.fdcc.net import OBSERVATIONS
from dc_gym.methods.fdcc.offline import distil, incasts, model_incasts, rollouts
from dc_gym.methods.fdcc.offline.distil import Distillation
from dc_gym.methods.fdcc.offline.episodes import Flows
from dc_gym.methods.fdcc.offline.presets import preset
from dc_gym.methods.fdcc.scripted import scripted_network
from dc_gym.methods.fdcc.trees import FdccTrees
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.nets.trees import ObliviousTrees

NET = nic_policy.load("fdcc")
QUEUE = OBSERVATIONS.index("queue")


class TreesOfFourInputs(ObliviousTrees):
    AT_ZERO, RANGE = (0.0,) * 4, (-1.0, 1.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes distillations of two rounds with one small episode each, and short incasts."""
    for name, value in (("ROUNDS", 2), ("EPISODES", 1)):
        monkeypatch.setattr(distil, name, value)
    for name, value in (("FLOWS", 32), ("STEPS", 80)):
        monkeypatch.setattr(rollouts, name, value)
    monkeypatch.setattr(model_incasts, "MOST_SIZE_BDP", 10.0)
    monkeypatch.setattr(distil, "HELD_OUT", (4,))
    monkeypatch.setattr(distil.fidelity, "__defaults__", ((4,),))


def steps_of(*outputs: float) -> FdccTrees:
    """Returns a tree that answers one output for short queues, and another for queues above 1 BDP."""
    leaves = np.array([[outputs[number & 1] for number in range(16)]])
    return FdccTrees(np.full((1, 4), QUEUE), np.array([[0.0, 99.0, 99.0, 99.0]]), leaves, 0.0)


def test_one_seed_gives_one_file_and_another_seed_another(small: None) -> None:
    policies = [distil.make(NET, Distillation(3, seed)) for seed in (1, 1, 2)]
    assert policies[0].sha256() == policies[1].sha256() != policies[2].sha256()
    assert policies[0].provenance["source_sha256"] == NET.sha256() and policies[0].kind == "fdcc-tree"


def test_more_trees_are_nearer(small: None) -> None:
    fidelities = [distil.fidelity(NET, distil.make(NET, Distillation(count)))[0] for count in (1, 20)]
    assert fidelities[1].rms < 0.7 * fidelities[0].rms and fidelities[1].same > fidelities[0].same


def test_the_network_follows_flows_that_trees_move_with_its_memory() -> None:
    """A follower that is the driver answers what the flows do; of another driver's flows it remembers what they saw."""
    teacher, random = TablePolicy(NET.table()), np.random.default_rng(3)
    networks = incasts.drawn(random, 2, 4, preset("ours"))
    flows, follower = Flows(networks, teacher), rollouts.Follower(teacher, 8)
    for _ in range(60):
        if decided := flows.step():
            follower(decided)
    assert len(follower.done) > 20 and (follower.outputs == follower.done).all()
    forgetful = teacher.step(follower.inputs, np.zeros((len(follower.inputs), teacher.memory)))[0]
    assert np.abs(forgetful - follower.outputs).max() > 0.01, "the memory counts"


def test_rows_of_later_rounds_are_of_the_driver_s_states() -> None:
    def generator(number: int) -> np.random.Generator:
        return np.random.default_rng(number)

    teacher, grows = TablePolicy(NET.table()), TablePolicy(NicPolicy(steps_of(1.0, 1.0)).table())
    (grown_rows, answered), (teacher_rows, _) = (rollouts.episodes(driver, teacher, 1, generator) for driver in (grows, teacher))
    assert (grown_rows[5000:, -1] == 1).all() and grown_rows[:, QUEUE].mean() > teacher_rows[:, QUEUE].mean()
    assert answered[grown_rows[:, QUEUE] > 1.5].mean() < -0.2, "the network would cut"


def test_borders_lie_between_a_nic_s_integers() -> None:
    rows = np.rint(np.random.default_rng(1).normal(size=(4000, 8)) * Q16) / Q16
    rows[:, 2] = 1.0
    borders = distil.borders(rows)
    assert len(borders) == 8 and len(borders[2]) == 1 and all(len(column) > 60 for column in (borders[0], borders[7]))
    assert all((column * Q16 % 1 == 0.5).all() for column in borders)


def test_trees_over_eight_inputs_in_integers_are_those_in_floats() -> None:
    random = np.random.default_rng(5)
    inputs = np.rint(random.normal(size=(3000, 8)) * Q16) / Q16
    target = np.clip(inputs[:, 7] - inputs[:, QUEUE], -1, 1)
    trees = FdccTrees.fit(inputs, target, np.ones(3000), distil.borders(inputs), 12)
    assert set(np.unique(trees.inputs)) >= {QUEUE, 7}
    deployed = TablePolicy(NicPolicy(trees).table())
    output, memory = deployed.step(inputs, np.zeros((3000, 0)))
    assert memory.shape == (3000, 0) and np.abs(output - trees(inputs)).max() < 13 / Q16
    assert np.sqrt(np.square(output - target).mean()) < 0.2 * target.std()


def test_outputs_end_at_one() -> None:
    trees = steps_of(3.0, -3.0)
    inputs = np.zeros((2, 8))
    inputs[1, QUEUE] = 1.0
    assert trees(inputs).tolist() == [1, -1] == TablePolicy(NicPolicy(trees).table())(inputs).tolist()


# --- files


def test_the_shipped_trees_are_what_the_command_makes_of_the_shipped_network() -> None:
    file = nic_policy.load("fdcc-tree")
    assert file.provenance["source_sha256"] == NET.sha256() and file.provenance["command"] == distil.COMMAND
    assert file.provenance["settings"] == {"trees": Distillation().trees, "seed": Distillation().seed}
    assert "over FDCC's 8 observations" in file.describe()


@pytest.mark.long
def test_the_shipped_trees_are_made_again() -> None:
    assert (distil.make(NET, Distillation()).table() == nic_policy.load("fdcc-tree").table()).all()


def test_a_file_keeps_its_trees(tmp_path: Path) -> None:
    NicPolicy(steps_of(0.25, -0.5)).write(tmp_path / "t.npz")
    again = NicPolicy.read(tmp_path / "t.npz")
    assert again.kind == "fdcc-tree" and (again.table() == NicPolicy(steps_of(0.25, -0.5)).table()).all()


@pytest.mark.parametrize(
    ("algorithm", "name", "message"),
    [
        ("fdcc-tree", "fdcc", "kind 'fdcc', which fdcc runs; fdcc-tree was asked for"),
        ("fdcc", "fdcc-tree", "kind 'fdcc-tree', which fdcc-tree runs; fdcc was asked for"),
        ("fdcc-tree", "rlcc-tree", "kind 'tree', which rlcc-tree runs; fdcc-tree was asked for"),
        ("rlcc-tree", "fdcc-tree", "kind 'fdcc-tree', which fdcc-tree runs; rlcc-tree was asked for"),
    ],
)
def test_a_policy_of_another_kind_is_refused(algorithm: str, name: str, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        nic_policy.load(algorithm, nic_policy.shipped(name))


def test_rl_cc_s_trees_have_four_inputs_and_fdcc_s_eight() -> None:
    parts = np.full((1, 4), 7), np.zeros((1, 4)), np.zeros((1, 16)), 0.0
    FdccTrees(*parts)
    with pytest.raises(AgentError, match="none of 0 to 3"):
        TreesOfFourInputs(*parts)
    with pytest.raises(AgentError, match="none of 0 to 7"):
        replace(FdccTrees(*parts), inputs=np.full((1, 4), 8))


def test_rl_cc_s_commands_refuse_them_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["method", "rlcc", "explain", "fdcc-tree"]) == 2
    stderr = capsys.readouterr().err
    assert len(stderr.splitlines()) == 1 and "is a policy of FDCC" in stderr and "controller=fdcc-tree" in stderr


# --- the command


def test_the_command_writes_trees_and_says_how_far_they_are_off(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t.npz"
    argv = ["method", "fdcc", "distil", "--trees", "3", "--out", str(out), "--quiet"]
    assert main(argv) == 0
    stdout = capsys.readouterr().out
    assert "3 trees of depth 4, 12 compares" in stdout and "held-out incasts" in stdout and "same way" in stdout
    first = out.read_bytes()
    assert main(argv) == 0 and out.read_bytes() == first
    assert main(["method", "fdcc", "distil", "--policy", "fdcc-scripted", "--trees", "3", "--out", str(out), "--quiet"]) == 2
    assert out.read_bytes() == first and "--force" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--trees", "0"), "--trees 0: give 1 to 64"),
        (("--trees", "65"), "--trees 65: give 1 to 64"),
        (("--seed", "-1"), "--seed -1: give 0 or more"),
        (("--policy", "rlcc-mlp"), "a policy of the kind 'mlp' is not distilled here; give one of the kind 'fdcc'"),
        (("--policy", "fdcc-tree"), "a policy of the kind 'fdcc-tree' is not distilled here"),
        (("--policy", "nobody"), "no policy of that name comes with dc-gym"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["method", "fdcc", "distil", *options, "--out", str(tmp_path / "t.npz")]) == 2
    words = capsys.readouterr().err.strip()
    assert message in words and "\n" not in words and not (tmp_path / "t.npz").exists()


def test_a_distillation_of_the_policy_by_hand_cuts_with_the_queue(small: None) -> None:
    trees = distil.make(NicPolicy(scripted_network()), Distillation(20)).policy
    inputs = np.zeros((2, 8))
    inputs[:, [0, 1, 6]] = [[0.0, -2.0, -1.0], [1.0, 1.5, -1.0]]
    short, long = np.asarray(trees(inputs))  # type: ignore[operator]
    assert short > 0.1 and long < -0.1


def test_a_distillation_s_numbers_are_checked() -> None:
    with pytest.raises(UsageError, match="--trees 65"):
        Distillation(65)
