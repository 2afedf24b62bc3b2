# SPDX-License-Identifier: Apache-2.0
"""The algorithms by name. A line in ALGORITHMS adds one. Algorithms that are not listed are named as module:Class or
file.py:Class."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import hint

__all__ = ["ALGORITHMS", "Choice", "choose"]

VECTOR, BOUNDED, DISCRETE, ANY = "vector", "bounded vector", "discrete", "any"


@dataclass(frozen=True, slots=True)
class ListedAlgorithm:
    """An algorithm of the list."""

    config: str
    """The module:Class of its AlgorithmConfig."""
    actions: str
    """The kind of action space that it supports."""


ALGORITHMS = {
    "PPO": ListedAlgorithm("ray.rllib.algorithms.ppo:PPOConfig", ANY),
    "APPO": ListedAlgorithm("ray.rllib.algorithms.appo:APPOConfig", ANY),
    "SAC": ListedAlgorithm("dc_gym.learn.rllib.algorithms.sac:SACConfig", BOUNDED),
    "DQN": ListedAlgorithm("ray.rllib.algorithms.dqn:DQNConfig", DISCRETE),
    "DDPG": ListedAlgorithm("dc_gym.learn.rllib.algorithms.ddpg:DDPGConfig", BOUNDED),
    "TD3": ListedAlgorithm("dc_gym.learn.rllib.algorithms.td3:TD3Config", BOUNDED),
    "REINFORCE": ListedAlgorithm("dc_gym.learn.rllib.algorithms.reinforce:ReinforceConfig", VECTOR),
}


@dataclass(frozen=True, slots=True)
class ResolvedAlgorithm:
    """The algorithm that --algo chose."""

    name: str
    """A key of ALGORITHMS, or the given module:Class."""
    actions: str
    config_class: Any
    """Makes its AlgorithmConfig."""
    algorithm_class: Any = None
    """The class of the Algorithm that --algo names; None: --algo names the config, which names the class."""
    source: usercode.UserFile | None = None
    """The user's file that defines it."""

    def config(self) -> Any:
        """Returns its AlgorithmConfig. It builds the class that --algo names, also if that class inherits the config of its
        parent."""
        from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

        with usercode.blamed():
            config = self.config_class()
        if not isinstance(config, AlgorithmConfig):
            gives = f"its get_default_config gives {usercode.shown(config)}"
            raise UsageError(f"--algo {self.name}: {gives}; return an AlgorithmConfig")
        config.algo_class = self.algorithm_class or config.algo_class
        if config.algo_class is None:
            raise UsageError(f"--algo {self.name}: this config builds no Algorithm; set its algo_class, or name the Algorithm")
        return config

    def require_built_by(self, config: Any) -> None:
        """Raises UsageError if a config that the user's settings changed builds another algorithm."""
        cls, other = self.config().algo_class, config.algo_class
        if other is not cls:
            why = f"configure(config) gives a config that builds {_name_of(other)}, and --algo {self.name} is {_name_of(cls)}"
            raise UsageError(f"--config: {why}; change the config that it is given, or name the class with --algo")


def resolve(text: str) -> ResolvedAlgorithm:
    """Returns the algorithm of a name, in upper or lower case, or of module:Class or file.py:Class. The class is an Algorithm or
    its AlgorithmConfig."""
    entry = ALGORITHMS.get(text.upper())
    if entry:
        return ResolvedAlgorithm(text.upper(), entry.actions, *_classes(text, *_import(text, entry.config)))
    if ":" not in text:
        near = hint(text, ALGORITHMS)
        raise UsageError(f"--algo {text!r} is unknown; {near} (or module:Class, or file.py:Class)")
    module_path, _, name = text.rpartition(":")
    if module_path.endswith(".py"):
        source = usercode.load(Path(module_path))
        _pickle_by_value(source.module)
        return ResolvedAlgorithm(text, ANY, *_classes(text, source.module, name), source)
    return ResolvedAlgorithm(text, ANY, *_classes(text, *_import(text, text)))


def _import(text: str, path: str) -> tuple[Any, str]:
    """Imports the module, also one of the user's in the working directory. Returns it and the name within it."""
    module_name, _, name = path.rpartition(":")
    top = module_name.partition(".")[0]
    try:
        is_installed = find_spec(top) is not None
        module = usercode.find_module(module_name, Path.cwd()) if path == text else importlib.import_module(module_name)
    except ImportError as error:
        remedy = "run it where that module is found, or give file.py:Class"
        raise UsageError(f"--algo {text}: cannot import {module_name} ({error}); {remedy}") from None
    if not is_installed or Path(module.__file__ or "").parent == Path.cwd():
        _pickle_by_value(sys.modules[top])
    return module, name


def _classes(text: str, module: Any, name: str) -> tuple[Any, Any]:
    """Returns the function that makes the config of the class of that name, and the class if it is an Algorithm."""
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    cls: Any = getattr(module, name, None)
    if _is_a(cls, AlgorithmConfig):
        return cls, None
    if _is_a(cls, Algorithm):
        return cls.get_default_config, cls
    known = [key for key, member in vars(module).items() if _is_a(member, Algorithm) and member.__module__ == module.__name__]
    fault = "is not there" if cls is None else "is not an RLlib Algorithm or AlgorithmConfig"
    raise UsageError(f"--algo {text}: {name} {fault}; it has: {', '.join(known) or 'no Algorithm'}")


def _is_a(candidate: Any, base: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, base)


def _name_of(cls: Any) -> str:
    return getattr(cls, "__name__", str(cls))


def _pickle_by_value(module: Any) -> None:
    """Lets Ray pickle a module by value, so that Ray's other processes, also on other machines, need no copy of the file."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(module)
