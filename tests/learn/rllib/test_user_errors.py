# SPDX-License-Identifier: Apache-2.0
"""A user's mistake in a training is one line with file and line number, in whichever process and file it happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.base import usercode
from dc_gym.base.errors import LabError, SpecError
from dc_gym.learn.rllib import user_errors

SPEC = """
plugins = ["mine.py"]
[topology]
preset = "dumbbell-10m"
[controller]
name = "cubic"
[agent]
reward = "mine"
[workload]
kind = "pairs"
[time]
duration = "100ms"
"""
PLUG_IN = """calls = 0
def act():
    global calls
    calls += 1
    if calls == {at}:
        raise ValueError("broken")
from dc_gym.run.agent import reward
reward.register("mine", (0, 1), "x", lambda frame, scene, share: act() or 0.5)
"""
CONFIG = """
[run]
labs = 1
evaluate_episodes = {evaluations}
[training]
train_batch_size_per_learner = 200
num_epochs = 1
"""
ALGORITHM = """from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
class Learner(PPOTorchLearner):
    def compute_loss_for_module(self, **kwargs):
        return kwargs["nothing"]
class Mine(PPO):
    @classmethod
    def get_default_config(cls):
        return PPOConfig(algo_class=cls).learners(learner_class=Learner)
"""


def trained(folder: Path, at: int, *more: str, evaluations: int = 0, deadline_s: float = 300) -> list[str]:
    """Runs `dcgym train`, which must fail as for a user's mistake (exit code 2); returns its lines on stderr."""
    (folder / "mine.py").write_text(PLUG_IN.format(at=at))
    (folder / "spec.toml").write_text(SPEC)
    (folder / "train.toml").write_text(CONFIG.format(evaluations=evaluations))
    argv = ["train", str(folder / "spec.toml"), "--steps", "1000", "--out", str(folder / "out"), "--quiet"]
    argv += [] if "--config" in more else ["--config", str(folder / "train.toml")]
    process = subprocess.run(
        [sys.executable, "-m", "dc_gym.cli.main", *argv, *more], capture_output=True, text=True, timeout=deadline_s
    )
    assert (process.returncode, process.stdout) == (2, ""), process.stdout + process.stderr
    return process.stderr.splitlines()


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "evaluations"),
    [(["--runners", "0"], 0), (["--runners", "1"], 0), (["--runners", "1"], 1), (["--runners", "0", "--agents", "hosts"], 0)],
    ids=["in the training's process", "in a runner", "in an evaluation elsewhere", "of hosts that act"],
)
def test_in_a_plug_in(more: list[str], evaluations: int, tmp_path: Path) -> None:
    assert trained(tmp_path, 20, *more, evaluations=evaluations) == [f"dcgym: {tmp_path}/mine.py:6: ValueError: broken"]


@pytest.mark.lab
@pytest.mark.long
def test_in_an_algorithm_s_file(tmp_path: Path) -> None:
    file = tmp_path / "algorithm.py"
    file.write_text(ALGORITHM)
    assert trained(tmp_path, 0, "--algo", f"{file}:Mine") == [f"dcgym: {file}:5: KeyError: 'nothing'"]
    file.write_text(ALGORITHM.replace("        return PPOConfig", "        1 / 0\n        return PPOConfig"))
    lines = trained(tmp_path, 0, "--algo", f"{file}:Mine", "--out", str(tmp_path / "second"))
    assert lines == [f"dcgym: {file}:9: ZeroDivisionError: division by zero"]
    file.write_text("1 / 0\n")
    assert trained(tmp_path, 0, "--algo", f"{file}:Mine") == [f"dcgym: {file}:1: ZeroDivisionError: division by zero"]


@pytest.mark.long
def test_in_a_configuration_s_file(tmp_path: Path) -> None:
    file = tmp_path / "configuration.py"
    file.write_text("def configure(config):\n    return config.nothing\n")
    (line,) = trained(tmp_path, 0, "--config", str(file))
    assert line.startswith(f"dcgym: {file}:2: AttributeError: ")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's file that has been run."""
    (tmp_path / "mine.py").write_text("def broken():\n    raise ValueError('broken')\n")
    return usercode.load(tmp_path / "mine.py").path


def test_what_another_process_printed(mine: Path) -> None:
    """Ray hands on the text of an exception with its cause first."""
    text = f"""ray::Examiner.run() (pid=1, ip=192.0.2.2)
  File "/elsewhere/env.py", line 82, in step
    act()
  File "{mine}", line 2, in broken
    raise ValueError('broken')
ValueError: broken

The above exception was the direct cause of the following exception:

  File "/elsewhere/runner.py", line 291, in _try_env_step
    raise RuntimeError from e
RuntimeError"""
    error = usercode.in_words_of(text)
    assert str(error) == f"{mine}:2: ValueError: broken"
    assert usercode.in_words_of(text.replace(str(mine), "/elsewhere/mine.py")) is None


def test_what_it_was_raised_from(mine: Path) -> None:
    def raised(error: Exception, cause: Exception | None = None) -> Exception:
        try:
            raise error from cause
        except Exception as exception:
            return exception

    lab = LabError("the lab hangs")
    assert user_errors.in_words(raised(RuntimeError(), raised(lab))) is lab
    try:
        usercode.load(mine).module.broken()
    except ValueError as error:
        refusal = user_errors.in_words(raised(RuntimeError(), error))
    assert isinstance(refusal, SpecError) and str(refusal) == f"{mine}:2: ValueError: broken"
    assert user_errors.in_words(raised(RuntimeError("ours"))) is None
