# SPDX-License-Identifier: Apache-2.0
"""--algo: names, modules and files, and one line for what cannot be."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from facts import states

from dc_gym.base.errors import TestbedError

FILE = """
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
class Mine(PPO):
    @classmethod
    def get_default_config(cls):
        return PPOConfig(algo_class=cls)
class Heir(PPO):
    pass
class Fixed(PPO):
    @classmethod
    def get_default_config(cls):
        return PPOConfig(algo_class=PPO)
class Unfinished(PPO):
    @classmethod
    def get_default_config(cls):
        PPOConfig(algo_class=cls)
class Bare(AlgorithmConfig):
    pass
class OwnConfig(PPOConfig):
    pass
class Other:
    pass
"""


def built(text: str) -> str:
    """The name of the class that --algo builds."""
    from dc_gym.learn.rllib.algorithms import resolve

    return str(resolve(text).config().algo_class.__name__)


def test_the_named_class_is_the_one_that_is_built(tmp_path: Path) -> None:
    """A class that leaves the config to its parent, or whose config names the parent, is built all the same."""
    (tmp_path / "mine.py").write_text(FILE)
    names = ("Mine", "Heir", "Fixed")
    assert tuple(built(f"{tmp_path / 'mine.py'}:{name}") for name in names) == names
    assert built(f"{tmp_path / 'mine.py'}:OwnConfig") == "PPO", "a config says itself what it builds"
    for name, cls in (
        ("PPO", "PPO"),
        ("DDPG", "DDPG"),
        ("SAC", "ReplayingSAC"),
        ("ray.rllib.algorithms.impala:IMPALA", "IMPALA"),
    ):
        assert built(name) in (cls, name)


def config_name(text: str) -> str:
    from dc_gym.learn.rllib.algorithms import resolve

    return type(resolve(text).config()).__name__


def test_names_modules_and_files(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    assert config_name("ppo") == "PPOConfig"
    assert config_name("REINFORCE") == "ReinforceConfig"
    assert config_name("ray.rllib.algorithms.impala:IMPALA") == "IMPALAConfig"
    assert config_name("ray.rllib.algorithms.impala:IMPALAConfig") == "IMPALAConfig"
    assert config_name(f"{tmp_path / 'mine.py'}:Mine") == "PPOConfig"


def test_a_module_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_here.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # undone afterwards
    assert config_name("mine_here:Mine") == "PPOConfig"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PPPO", "'PPPO' ... PPO or APPO?"),
        ("xyz", "'xyz' ... one of: PPO, APPO, SAC, DQN, DDPG, TD3, REINFORCE"),
        ("nowhere.at.all:Class", "cannot import nowhere.at.all"),
        ("ray.rllib.algorithms.ppo:Nothing", "Nothing ... it has: "),
        ("FILE:Other", "Other ... it has: Mine, Heir, Fixed, Unfinished"),
        ("FILE:Unfinished", "get_default_config ... None ... AlgorithmConfig"),
        ("FILE:Bare", "algo_class"),
        ("missing.py:Class", "missing.py: "),
    ],
)
def test_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    with pytest.raises(TestbedError) as refusal:
        config_name(text.replace("FILE", str(tmp_path / "mine.py")))
    assert states(str(refusal.value), words) and "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 2


def test_a_built_in_algorithm_is_not_looked_for_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = list(sys.path)
    config_name("REINFORCE")
    assert sys.path == before


def test_a_module_of_the_working_directory_does_not_bring_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text(FILE)
    (tmp_path / "mine_packed").mkdir()
    (tmp_path / "mine_packed" / "__init__.py").write_text("")
    (tmp_path / "mine_packed" / "part.py").write_text("from mine_packed.base import Mine\n")
    (tmp_path / "mine_packed" / "base.py").write_text(FILE)
    (tmp_path / "neighbour.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert config_name("mine_alone:Mine") == config_name("mine_packed.part:Mine") == "PPOConfig"
    assert sys.path == before and find_spec("neighbour") is None
