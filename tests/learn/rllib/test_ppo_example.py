# SPDX-License-Identifier: Apache-2.0
"""examples/ppo.py: its advantages, and a training of some updates on two labs, the same twice."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[3] / "examples" / "ppo.py"
SHORT = ["--steps", "512", "--labs", "2", "--rollout", "64", "--epochs", "2", "--minibatches", "2"]


@pytest.fixture(scope="module")
def ppo() -> Any:
    spec = importlib.util.spec_from_file_location("ppo", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_advantages_are_those_of_each_episode(ppo: Any) -> None:
    """Two labs, three steps: one is truncated after the first step, and the next one resets; the other is terminated there."""
    import torch

    rewards = torch.tensor([[1.0, 1.0], [9.0, 9.0], [2.0, 2.0]])
    values = torch.tensor([[0.5, 0.5], [0.25, 0.25], [1.0, 1.0], [4.0, 4.0]])
    terminated = torch.tensor([[False, True], [False, False], [False, False]])
    over = torch.tensor([[True, True], [True, True], [False, False]])  # the second step is a reset
    gain = ppo.advantages(rewards, values, terminated, over, 0.5, 0.5)
    assert gain[0].tolist() == [1 + 0.5 * 0.25 - 0.5, 1 - 0.5]
    assert gain[2].tolist() == [2 + 0.5 * 4 - 1] * 2


@pytest.mark.lab
def test_one_seed_is_one_training(tmp_path: Path) -> None:
    import torch

    outputs, saved = [], []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        argv = [
            sys.executable,
            str(FILE),
            *SHORT,
            "--set",
            "time.duration=300ms",
            "--seed",
            str(seed),
            "--save",
            str(tmp_path / name),
        ]
        process = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        outputs.append(process.stdout.splitlines())
        saved.append(torch.load(tmp_path / name))
    assert len(outputs[0]) == 4 and re.fullmatch(
        r"update 4 of 4, 512 steps, return -?[0-9.]+, [0-9]+ steps/s, [0-9]+ in sampling", outputs[0][-1]
    )
    assert outputs[0][0].startswith("update 1 of 4, 128 steps, return ")  # 30 steps are an episode
    first, second, other = ([line.split(" steps/s")[0].rsplit(", ", 1)[0] for line in lines] for lines in outputs)
    assert first == second != other
    assert all(torch.equal(saved[0][key], saved[1][key]) for key in saved[0])
    assert not all(torch.equal(saved[0][key], saved[2][key]) for key in saved[0])
