# SPDX-License-Identifier: Apache-2.0
"""examples/evolution.py: two generations on two labs, the same twice; its policy file acts in a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from doc_pages import ROOT

from dc_gym.base.errors import AgentError
from dc_gym.cli import main
from dc_gym.learn.dense_policy import policy_of
from dc_gym.learn.env import DataCenterEnv
from dc_gym.results.results import load_result

SHORT = ["--generations", "2", "--nets", "4", "--labs", "2", "--set", "time.duration=100ms"]


def evolve(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "examples" / "evolution.py"), *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.lab
def test_one_seed_is_one_policy_that_runs(tmp_path: Path) -> None:
    runs = [
        evolve(tmp_path, *SHORT, "--seed", seed, "--save", f"{name}.npz") for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    ]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len(runs[0].stdout.splitlines()) == 3 and runs[0].stdout.startswith("generation 1, return ")
    first, again, other = ((tmp_path / f"{name}.npz").read_bytes() for name in "abc")
    assert first == again != other
    words = ["--set", "time.duration=100ms", "--set", "time.warmup=0s", "--no-plot", "--quiet"]
    policy = f"controller={tmp_path / 'a.npz'}"
    argv = ["run", str(ROOT / "examples" / "gym.toml"), "--set", policy, *words, "--out", str(tmp_path / "run")]
    assert main.main(argv) == 0
    assert load_result(tmp_path / "run").manifest["agent"]["steps"] == 10


def test_a_number_of_nets_that_does_not_fit(tmp_path: Path) -> None:
    child = evolve(tmp_path, "--nets", "9", "--labs", "4")
    assert child.returncode == 1 and child.stderr.strip() == "--nets 9: give a multiple of --labs 4, and at least 4"


def test_a_policy_has_the_names_of_its_environment() -> None:
    """The environment need not boot for it."""
    env = DataCenterEnv(ROOT / "examples" / "gym.toml")
    inputs, outputs = env.observation_space.shape[0], env.action_space.shape[0]
    layers = [(np.ones((3, inputs)), np.zeros(3)), (np.ones((outputs, 3)), np.zeros(outputs))]
    policy = policy_of(env, layers, activation="relu", output="tanh", provenance={"seed": 1})
    assert policy.observation == env.observation_names and policy.hosts == env.session.scene.value_names
    assert policy.settings["action"] == env.episode.action.name and policy.weights[0].dtype == np.float32
    with pytest.raises(AgentError, match="has the shape"):
        policy_of(env, layers[:1] + layers[:1])
    with pytest.raises(AgentError, match="is no environment of dc-gym"):
        policy_of(type("Foreign", (), {"unwrapped": 1})(), layers)
    env.close()
