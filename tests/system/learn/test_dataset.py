# SPDX-License-Identifier: Apache-2.0
"""`dcgym record`: episodes of the suite as datasets of Minari, and a net that learns from one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dc_gym.cli.main import main
from dc_gym.learn.dataset import ROOT
from dc_gym.nets.agent_policy import AgentPolicy

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.lab
EXAMPLE = Path(__file__).parents[3] / "examples" / "behaviour_cloning.py"
RECORD = ("record", "ChangingLink", "--episodes", "3", "--seed", "7", "--quiet")


def test_a_dataset_repeats_and_a_net_learns_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = []
    for root in ("one", "two"):
        assert main([*RECORD, "--out", str(tmp_path / root)]) == 0
        digests.append(capsys.readouterr().out.split()[-1])
    monkeypatch.setenv(ROOT, str(tmp_path / "one"))
    dataset = minari.load_dataset("ChangingLink/oracle-v0")
    assert digests == [dataset.storage.metadata["digest"]] * 2
    episodes = list(dataset)
    assert len(episodes) == 3 and dataset.storage.metadata["seeds"] == [7, 8, 9]
    for one in episodes:
        assert one.observations.dtype == one.actions.dtype == np.float32
        assert len(one.observations) == len(one.actions) + 1 == len(one.rewards) + 1
        assert one.truncations.tolist() == [False] * (len(one.rewards) - 1) + [True]
    env = dataset.recover_environment()
    assert env.spec.kwargs["spec"] == "dcgym/ChangingLink-v1", "it goes to another machine"
    observation, _ = env.reset(seed=7)
    assert np.array_equal(observation, episodes[0].observations[0])
    stepped, reward, *_ = env.step(episodes[0].actions[0])
    assert np.array_equal(stepped, episodes[0].observations[1]) and reward == episodes[0].rewards[0]
    env.close()

    pytest.importorskip("sklearn")
    clone = tmp_path / "clone.npz"
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "one"), "ChangingLink/oracle-v0", "--save", str(clone)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith(
        "episodes     2 learnt, 1 others"
    )
    assert AgentPolicy.read(clone).provenance["digest"] == digests[0]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--set", "episodes.split=held-out"], "--set episodes.split=held-out: no learner may see held-out episodes"),
        (["--episodes", "0"], "--episodes 0: a dataset has one or more"),
        (["--name", "a/b"], "--name 'a/b': Minari takes letters"),
        (["--policy", "mine.npz"], "mine.npz"),
    ],
)
def test_what_cannot_be_recorded_is_told_in_a_line(
    words: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RECORD, "--out", str(tmp_path), *words]) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_dataset_that_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept := tmp_path / "ChangingLink" / "oracle-v0" / "mine").mkdir(parents=True)
    assert main([*RECORD, "--out", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err and kept.is_dir()
