# SPDX-License-Identifier: Apache-2.0
"""The environment of an experiment, registered with RLlib. Only this module of the training uses dc_gym.learn.

A training steps many labs in one call (RLlib's vector entry point). An evaluation steps one lab, with given seeds.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymnasium import spaces

from dc_gym.base.errors import UsageError, naming
from dc_gym.base.files import scratch
from dc_gym.base.usercode import CODE, shown_as
from dc_gym.learn.rllib import algorithms
from dc_gym.learn.rllib.levels import Levels, VectorLevels
from dc_gym.learn.rllib.seeds import EvaluationSeeds, TrainingSeeds
from dc_gym.learn.rllib.settings import TrainingSettings
from dc_gym.nets.agent_kinds import CENTRAL, HOSTS
from dc_gym.spec import HELD_OUT, Spec, from_dict

__all__ = ["Register", "Task", "check_actions", "register", "register_environment"]

AGENTS = "agents"
"""The key of the env's config where there are many agents: their kind, their observation, and their reward."""
FOLDER = "folder"
"""The key of the env's config for the parent of the labs' folders; None: the folder for temporary files."""
SEEDS = "seeds"
"""The key of the env's config for the seeds of an evaluation's episodes."""
ROLE, TRAINING = "role", "training"
"""The key of the env's config for the purpose of its labs, which `dcgym watch` shows; without it they are for training."""
STREAM = "stream"
"""The key of the env's config for numbers that distinguish a training, and the iteration that it goes on from, from all
others."""


@dataclass(frozen=True, slots=True)
class Task:
    """An environment that is registered with RLlib as `name`, with its spaces and names."""

    name: str
    observation_space: spaces.Box
    bounds: spaces.Box
    """The environment's own action space."""
    observation: tuple[str, ...]
    """The name of each element of the observation."""
    hosts: tuple[str, ...]
    """The value that each element of the action sets, such as a host's rate; of many agents, their names."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the environment that a policy file records."""
    agents: str = CENTRAL
    """The word for who is an agent (dc_gym/nets/agent_kinds.py). Of many agents, spaces and names hold for each, or for the first
    one if they differ."""
    alike: bool = True
    """False: the agents' spaces differ, so that one policy cannot serve all."""
    levels: int = 0
    """The number of discrete actions; 0: continuous actions."""
    env_runner: Any = None
    """The class of an EnvRunner that has no environments; None: one of RLlib's."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the env's config."""
    evaluation: Any = None
    """A class to use instead of evaluation.Evaluation; None: evaluation.Evaluation."""
    uses_labs: bool = True
    """True if labs are stepped."""

    @property
    def action_space(self) -> spaces.Space[Any]:
        return spaces.Discrete(self.levels) if self.levels else self.bounds

    @property
    def agents_count(self) -> int:
        return 1 if self.agents == CENTRAL else len(self.hosts)

    def shapes(self) -> dict[str, Any]:
        """Returns, for the manifest, the shapes that a policy trained on this task fits."""
        actions: dict[str, Any] = {"low": self.bounds.low.tolist(), "high": self.bounds.high.tolist()}
        if isinstance(self.action_space, spaces.Discrete):
            actions |= {"discrete": int(self.action_space.n)}
        return {"observation": list(self.observation), "action": actions, "hosts": list(self.hosts)}


@dataclass(frozen=True, slots=True)
class SpecBundle:
    """A spec to send to another process, which may be on a machine that has none of the spec's files."""

    plain: dict[str, Any]
    files: dict[str, bytes]
    """The files' contents, by the name under which a result keeps them."""
    origins: dict[str, str] = field(default_factory=dict, repr=False)
    """The files' original paths, by name; messages show these."""

    @classmethod
    def of(cls, spec: Spec) -> SpecBundle:
        paths = {f"{CODE}/{path.name}": path for path in spec.code()} | spec.copies()
        files = {name: path.read_bytes() for name, path in paths.items()}
        return cls(spec.to_dict(copied=True), files, {name: str(path) for name, path in paths.items()})

    def unpack(self, stack: contextlib.ExitStack) -> Spec:
        """Returns the spec. Its files exist until the stack is closed."""
        if not self.files:
            return from_dict(self.plain, Path())
        folder = stack.enter_context(scratch(Path(tempfile.gettempdir()), "dcgym-cell-"))
        for name, content in self.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            with naming(folder / name):
                (folder / name).write_bytes(content)
        shown_as({folder / name: origin for name, origin in self.origins.items()})
        return from_dict(self.plain, folder)


Register = Callable[[Spec, TrainingSettings], Task]


def wrapped(env: Any, config: Mapping[str, Any]) -> Any:
    """Wraps an env, or a vector of envs, as the config asks for."""
    levels = config.get("levels", 0)
    if "num_envs" in config:
        env = TrainingSeeds(env, config.get(STREAM, ()))
        return VectorLevels(env, levels) if levels else env
    env = Levels(env, levels) if levels and AGENTS not in config else env
    return EvaluationSeeds(env, config[SEEDS]) if SEEDS in config else env


def register_environment(name: str, make: Callable[[Mapping[str, Any]], Any]) -> None:
    """Registers an env with RLlib, in this process and in RLlib's other processes."""
    from ray.tune.registry import register_env

    register_env(name, lambda config: wrapped(make(config), config))


def check_actions(resolved: algorithms.ResolvedAlgorithm, space: spaces.Space[Any]) -> None:
    """Raises a one-line UsageError if the algorithm cannot act in this space."""
    discrete = isinstance(space, spaces.Discrete)
    if resolved.actions == algorithms.DISCRETE and not discrete:
        mistake = f"{resolved.name} chooses one of a few actions, and this environment takes {space.shape} numbers"
        raise UsageError(f"{mistake}; give --levels 11 for as many equal allocations to all hosts, or take another algorithm")
    if resolved.actions in (algorithms.VECTOR, algorithms.BOUNDED) and discrete:
        raise UsageError(f"{resolved.name} acts in numbers, not in --levels; leave that out, or take DQN or PPO")
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    if resolved.actions == algorithms.BOUNDED and not bounded:
        raise UsageError(f"{resolved.name} needs actions with bounds; give --set agent.action=linear")


def register(spec: Spec, training: TrainingSettings) -> Task:
    """Registers the environment of a spec and returns its Task."""
    from dc_gym.learn.multi_agent import Agents
    from dc_gym.learn.session import Session, external
    from dc_gym.run.agent.episode import EpisodeTracker
    from dc_gym.run.agent.file_policy import circumstances

    if spec.episodes.split == HELD_OUT:
        raise UsageError(f'episodes.split = "{HELD_OUT}": a training has no held-out episodes; leave it out')
    if training.agents == CENTRAL:
        session = Session(spec)
        episode = EpisodeTracker(session.experiment.spec, session.scene)
        obs_space, acted, names, alike = episode.observer.space, episode.action.space, episode.observer.names, True
        parts = session.scene.value_names
    else:
        lab = Agents(spec, agents=training.agents, see=training.see if training.agents == HOSTS else None, reward=training.reward)
        session, parts = lab.session, lab.names
        observed, acts, named = [*lab.observation_spaces.values()], [*lab.action_spaces.values()], lab.observer.names_of
        obs_space, acted, names = observed[0], acts[0], named[0]
        alike = all(space == obs_space for space in observed) and all(space == acted for space in acts) and len(set(named)) == 1
    settings = circumstances(session.experiment) | ({"see": training.see} if training.agents == HOSTS else {})
    bundle = SpecBundle.of(external(spec))
    name = f"dcgym-{hashlib.sha256(repr(bundle).encode()).hexdigest()[:16]}"
    register_environment(name, lambda config: _make(bundle, config))
    return Task(name, obs_space, acted, names, parts, settings, training.agents, alike, training.levels)


def _make(bundle: SpecBundle, config: Mapping[str, Any]) -> Any:
    from dc_gym.learn.env import DataCenterEnv
    from dc_gym.learn.vector import LabVectorEnv

    with contextlib.ExitStack() as stack:
        spec, folder = bundle.unpack(stack), config.get(FOLDER)
        if AGENTS in config:
            env: Any = _many_agents(spec, folder, config)
        elif "num_envs" in config:
            env = LabVectorEnv(config["num_envs"], spec, folder=folder, step_info=False)
        else:
            env = DataCenterEnv(spec, folder=folder)
        _label(env, config)
        _close_with(env, stack.pop_all())
    return env


def _label(env: Any, config: Mapping[str, Any]) -> None:
    """Labels each lab with its purpose. The labs of a training are numbered over all runners."""
    if ROLE in config or "num_envs" not in config:
        getattr(env, "lab", env).session.label = config.get(ROLE, TRAINING)
        return
    first = 1 + max(0, getattr(config, "worker_index", 0) - 1) * config["num_envs"]
    for number, session in enumerate(env.sessions, first):
        session.label = f"{TRAINING}-{number}"


def _many_agents(spec: Spec, folder: str | None, config: Mapping[str, Any]) -> Any:
    """Returns an environment with many agents. RLlib steps several of them one after the other."""
    from dc_gym.learn.rllib.multi_agent import DataCenterMultiAgentEnv

    env_config = {"spec": spec, "folder": folder, "step_info": False, "levels": config.get("levels", 0), **config[AGENTS]}
    if SEEDS not in config:
        env_config["stream"] = (*config.get(STREAM, ()), getattr(config, "worker_index", 0))
    return DataCenterMultiAgentEnv(env_config)


def _close_with(env: Any, stack: contextlib.ExitStack) -> None:
    """Closes the stack with the env: when the env is closed or garbage-collected, or when this process ends."""
    end, close = weakref.finalize(env, stack.close), type(env).close

    def both(**kwargs: Any) -> None:
        try:
            close(env, **kwargs)
        finally:
            end()

    env.close = both
