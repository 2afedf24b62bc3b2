# SPDX-License-Identifier: Apache-2.0
"""The settings of a training: options of the command override a configuration file, which overrides a preset.

A TOML file has the table `run` with the keys of TrainingSettings, and tables named after methods of RLlib's AlgorithmConfig,
whose keys are the arguments of that method; `model` configures the net. A Python file has `configure(config)`, which changes
the AlgorithmConfig itself.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dc_gym.base import bounded, usercode
from dc_gym.base.errors import UsageError, with_remedy
from dc_gym.base.spelling import hint, unknown
from dc_gym.learn.rllib import presets
from dc_gym.nets.agent_kinds import AGENTS, CENTRAL, HOSTS

METHODS = ("training", "env_runners", "learners", "reporting", "fault_tolerance", "offline_data")
"""The methods of AlgorithmConfig that a table may be named after, besides `run` and `model`."""
SET_BY_TRAINING = {
    "env_runners": {
        "num_env_runners": "run.runners",
        "num_envs_per_env_runner": "run.labs",
        "gym_env_vectorize_mode": "nothing: labs are stepped together",
    }
}
"""Arguments that the training sets itself, and the options to give instead."""
CHOICES = {"agents": AGENTS, "policies": ("shared", "own"), "see": ("path", "own"), "reward": ("shared", "own")}
"""The values of settings that are words. The first is the default."""
NET, SETS = "net", "sets"
"""The key of `model` for a net that hosts or flows share (sets.py), where they can; else the net is RLlib's."""
HELD_OUT = 1_000_000
"""The seeds of evaluation episodes begin after this number; the seed of a training is below it."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """The table `run`."""

    preset: str = "default"
    steps: int = 100_000
    """Environment steps, over all labs."""
    labs: int = 4
    """Labs of each runner, stepped at the same time. This number is part of a training's definition, so it is the same on every
    machine."""
    runners: int = 0
    """Number of sampling processes; 0: the training process samples itself."""
    seed: int = 1
    checkpoint_every: int = 10
    """Iterations between checkpoints."""
    keep_checkpoints: int = 3
    """Number of checkpoints that are kept; 0: all."""
    evaluate_every: int = 0
    """Iterations between evaluations; 0: only before the training and at its end."""
    evaluate_episodes: int = 3
    """Evaluation episodes of each spec, each with a seed of its own that no training has; 0: no evaluation."""
    levels: int = 0
    """Number of discrete actions, each an allocation that is the same for all hosts; 0: one continuous action for each host."""
    agents: str = CENTRAL
    """The word for who is an agent: one for the whole network ("central"), or each of the "hosts", "switches" or "ports" where
    something is set."""
    policies: str = "shared"
    """With many agents: one policy for all ("shared"), or one for each ("own")."""
    see: str = "path"
    """With hosts as agents: their view (dc_gym/run/agent/agent_observation.py)."""
    reward: str = "shared"
    """With many agents: the network's reward for all ("shared"), or each agent's own ("own")."""

    def __post_init__(self) -> None:
        least = {"steps": 1, "labs": 1, "checkpoint_every": 1, "levels": 0}
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not type(field.default):
                raise UsageError(f"run.{field.name} = {value!r} is not a {type(field.default).__name__}")
            if isinstance(value, int) and value < least.get(field.name, 0):
                raise UsageError(f"run.{field.name} = {value} is too small; give {least.get(field.name, 0)} or more")
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UsageError("run." + unknown(name, getattr(self, name), known))
        self._require_agents()
        if self.levels == 1 or self.seed >= HELD_OUT:
            raise UsageError(f"run: levels = {self.levels} must be 0 or at least 2, seed = {self.seed} below {HELD_OUT:,}")

    def _require_agents(self) -> None:
        """Raises UsageError if settings for many agents are given for a central one, or settings of hosts for other agents."""
        for name in ("policies", "see", "reward"):
            agent_kind = "hosts" if name == "see" else "many agents"
            if (self.agents == CENTRAL or (name == "see" and self.agents != HOSTS)) and getattr(self, name) != CHOICES[name][0]:
                raise UsageError(f"run.{name} = {getattr(self, name)!r} is for {agent_kind}; give --agents hosts, too")

    def held_out(self) -> tuple[int, ...]:
        """Returns the seeds of the evaluation's episodes."""
        return tuple(HELD_OUT + 1 + number for number in range(self.evaluate_episodes))


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of a training, and the configuration for RLlib."""

    settings: TrainingSettings
    sections: dict[str, dict[str, Any]]
    code: usercode.UserFile | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration for the manifest."""
        return {
            "settings": asdict(self.settings),
            "sections": self.sections,
            "code": self.code and {"file": self.code.path.name, "sha256": self.code.sha256},
        }

    def apply(self, config: Any, observation: Sequence[str], values: int) -> Any:
        """Applies the configuration to an AlgorithmConfig, and returns it.

        Args:
            config: The AlgorithmConfig.
            observation: The names of what the net observes.
            values: The number of values that it sets.
        """
        for name in METHODS:
            arguments = self.sections.get(name, {})
            _check_arguments(config, name, arguments)
            getattr(config, name)(**arguments)
        if model := self.sections.get("model"):
            own = {name: value for name, value in model.items() if name != NET}
            config.rl_module(model_config=own)
            if NET in model and _shares(model[NET], values):
                config.rl_module(model_config=own | {"observation": list(observation)}, rl_module_spec=_sets())
        if self.code is None:
            return config
        with usercode.blamed():
            changed = self.code.module.configure(config)
        return config if changed is None else changed


def _shares(net: str, values: int) -> bool:
    """Returns whether the net sets several values, and so is ours."""
    if net != SETS:
        raise UsageError(unknown("model.net", net, (SETS,)))
    return values > 1


def _sets() -> Any:
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from dc_gym.learn.rllib.algorithms.set_module import SetModule

    return RLModuleSpec(module_class=SetModule)


def read(path: Path | None, algorithm: str, options: Mapping[str, Any]) -> Configuration:
    """Reads the configuration from a file (or none) and from the given options of the command."""
    data: dict[str, Any] = {}
    code = None
    if path is not None and path.suffix == ".py":
        code = usercode.load(path)
        if not callable(getattr(code.module, "configure", None)):
            raise UsageError(f"{path}: it has no function configure(config)")
    elif path is not None:
        data = _read_toml(path)
    run = data.pop("run", {})
    _known(f"{path}: [run]", run, [field.name for field in fields(TrainingSettings)])
    run |= {name: value for name, value in options.items() if value is not None}
    preset = TrainingSettings(**run).preset
    sections = {name: dict(defaults) for name, defaults in presets.find(preset, algorithm).items()}
    settings = TrainingSettings(**sections.pop("run", {}) | run)
    for name, table in data.items():
        sections[name] = sections.get(name, {}) | table
    if "output" in (offline := sections.get("offline_data", {})):
        offline["output"] = str(Path(str(offline["output"])).absolute())  # Ray's processes have another working directory
    return Configuration(settings, sections, code)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(bounded.read_text(path))
    except OSError as error:
        raise UsageError(f"--config {path}: cannot read it: {with_remedy(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: is not TOML: {error}") from None
    _known(f"{path}:", data, ["run", "model", *METHODS])
    for name, table in data.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} must be a table; write [{name}]")
        for key, instead in SET_BY_TRAINING.get(name, {}).items():
            if key in table:
                raise UsageError(f"{path}: [{name}] {key} is set by the training; give {instead}")
    return data


def _known(where: str, keys: Iterable[str], names: Iterable[str]) -> None:
    names = list(names)
    for name in keys:
        if name not in names:
            raise UsageError(f"{where} {name} is unknown; {hint(name, names)}")


def _check_arguments(config: Any, method: str, arguments: Mapping[str, Any]) -> None:
    """Raises a one-line UsageError for a key that no class of the config takes. Python's own error would name the method, not the
    table."""
    names: list[str] = []
    for cls in type(config).__mro__:
        if method in vars(cls):
            names += inspect.signature(vars(cls)[method]).parameters
    _known(f"[{method}]", arguments, dict.fromkeys(name for name in names if name not in ("self", "kwargs")))
