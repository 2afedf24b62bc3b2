# SPDX-License-Identifier: Apache-2.0
"""What is learned: an experiment's environment, made known to RLlib. The one place where the training meets dc_gym.envs.

A training steps many labs in one call (RLlib's vector entry point); an evaluation steps one, with given seeds.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from dc_gym.errors import UsageError
from dc_gym.folder import scratch
from dc_gym.rl import algorithms
from dc_gym.spec import Spec, from_dict
from dc_gym.usercode import CODE

__all__ = ["Register", "Task", "check_actions", "register", "register_maker"]

FOLDER = "folder"
"""Key of the env's config: below it labs have their folders; None: where temporary files are."""
SEEDS = "seeds"
"""Key of the env's config: the episodes of an evaluation."""
STREAM = "stream"
"""Key of the env's config: numbers that tell a training, and what it goes on from, from all others."""
FIRST_DRAWN = 2**40
"""Episodes of a training have seeds from here on, far above those of evaluations."""


@dataclass(frozen=True, slots=True)
class Task:
    """An environment that RLlib knows by `name`, and what it looks like."""

    name: str
    observation_space: spaces.Box
    action_space: spaces.Space[Any]
    observation: tuple[str, ...]
    """Name of each element."""
    hosts: tuple[str, ...]
    """Whom each element of the action is for."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What a policy file says of its environment."""

    def shapes(self) -> dict[str, Any]:
        """What a policy that is trained on it fits, for the manifest."""
        actions: dict[str, Any] = {"discrete": int(getattr(self.action_space, "n", 0))}
        if isinstance(self.action_space, spaces.Box):
            actions = {"low": self.action_space.low.tolist(), "high": self.action_space.high.tolist()}
        return {"observation": list(self.observation), "action": actions, "hosts": list(self.hosts)}


@dataclass(frozen=True, slots=True)
class Parcel:
    """A spec for another process, which may be on a machine that has none of its files."""

    plain: dict[str, Any]
    files: dict[str, bytes]
    """By name, as a result would keep them."""

    @classmethod
    def of(cls, spec: Spec) -> Parcel:
        paths = {f"{CODE}/{path.name}": path for path in spec.code()} | spec.copies()
        return cls(spec.to_dict(copied=True), {name: path.read_bytes() for name, path in paths.items()})

    def unpack(self, stack: contextlib.ExitStack) -> Spec:
        """The spec; its files stay until the stack is closed."""
        if not self.files:
            return from_dict(self.plain, Path())
        place = stack.enter_context(scratch(Path(tempfile.gettempdir()), "dcgym-cell-"))
        for name, content in self.files.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content)
        return from_dict(self.plain, place)


Register = Callable[[Spec, int], Task]


class HeldOut(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Episodes with these seeds, in turn; a reset with a seed, which RLlib does before each round, begins with the first."""

    def __init__(self, env: gymnasium.Env[Any, Any], seeds: Sequence[int]) -> None:
        super().__init__(env)
        self._seeds, self._next = tuple(seeds), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._next = 0
        own = self._seeds[self._next % len(self._seeds)]
        self._next += 1
        return self.env.reset(seed=own, options=options)


class Streams(gymnasium.vector.VectorWrapper):
    """Labs of a training: no two of them, nor of its runners or of other trainings, have the same episodes.

    RLlib gives runner i the seed s + i, Gymnasium lab j of it s + i + j, and many labs would be one another's twins. A seed that
    is given again, as RLlib does before each round of whole episodes, goes on with the next ones.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], stream: Sequence[int]) -> None:
        super().__init__(env)
        self._stream, self._begun = tuple(stream), None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is None or seed == self._begun:
            return self.env.reset(options=options)
        self._begun = seed
        seeds: Any = [seed_of((*self._stream, seed, lab)) for lab in range(self.num_envs)]
        return self.env.reset(seed=seeds, options=options)


def seed_of(numbers: Sequence[int]) -> int:
    """One for these numbers, and another for any others."""
    return FIRST_DRAWN + int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) // 4


class Levels(gymnasium.ActionWrapper[Any, Any, Any]):
    """One of `levels` allocations, the same for all hosts, from the lowest action to the highest."""

    def __init__(self, env: gymnasium.Env[Any, Any], levels: int) -> None:
        super().__init__(env)
        self._table = table_of(env.action_space, levels)
        self.action_space = spaces.Discrete(levels)

    def action(self, action: Any) -> Any:
        return self._table[int(action)]


class VectorLevels(gymnasium.vector.VectorActionWrapper):
    """The same of many labs."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], levels: int) -> None:
        super().__init__(env)
        self._table = table_of(env.single_action_space, levels)
        self.single_action_space = spaces.Discrete(levels)
        self.action_space = spaces.MultiDiscrete([levels] * env.num_envs)

    def actions(self, actions: Any) -> Any:
        return self._table[np.asarray(actions, int)]


def table_of(space: spaces.Space[Any], levels: int) -> Any:
    """[levels, hosts]: the action of each level."""
    assert isinstance(space, spaces.Box)
    return np.linspace(space.low, space.high, levels, dtype=space.dtype)


def wrapped(env: Any, config: Mapping[str, Any]) -> Any:
    """A bare env, or a vector of them, as the config wants it."""
    levels = config.get("levels", 0)
    if "num_envs" in config:
        env = Streams(env, config.get(STREAM, ()))
        return VectorLevels(env, levels) if levels else env
    env = Levels(env, levels) if levels else env
    return HeldOut(env, config[SEEDS]) if SEEDS in config else env


def register_maker(name: str, make: Callable[[Mapping[str, Any]], Any]) -> None:
    """Makes an env known to RLlib, here and in its other processes."""
    from ray.tune.registry import register_env

    register_env(name, lambda config: wrapped(make(config), config))


def check_actions(choice: algorithms.Choice, space: spaces.Space[Any]) -> None:
    """The algorithm can act in this space; else one line."""
    discrete = isinstance(space, spaces.Discrete)
    if choice.actions == algorithms.DISCRETE and not discrete:
        what = f"{choice.name} chooses one of a few actions, and this environment takes {space.shape} numbers"
        raise UsageError(f"{what}; give --levels 11 for as many equal allocations to all hosts, or take another algorithm")
    if choice.actions in (algorithms.VECTOR, algorithms.BOUNDED) and discrete:
        raise UsageError(f"{choice.name} acts in numbers, not in --levels; leave that out, or take DQN or PPO")
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    if choice.actions == algorithms.BOUNDED and not bounded:
        raise UsageError(f"{choice.name} needs actions with bounds; give --set agent.action=linear")


def register(spec: Spec, levels: int) -> Task:
    """The environment of a spec."""
    from dc_gym.envs.env import Episode
    from dc_gym.envs.session import Session, external

    session = Session(spec)
    episode = Episode(session.experiment.spec, session.scene)
    actions, agent = episode.action.space, session.experiment.spec.to_dict()["agent"]
    parcel = Parcel.of(external(spec))
    name = f"dcgym-{hashlib.sha256(repr(parcel).encode()).hexdigest()[:16]}"
    register_maker(name, lambda config: _make(parcel, config))
    return Task(
        name,
        episode.observer.space,
        spaces.Discrete(levels) if levels else actions,
        episode.observer.names,
        episode.scene.hosts,
        agent,
    )


def _make(parcel: Parcel, config: Mapping[str, Any]) -> Any:
    from dc_gym.envs.env import DataCenterEnv
    from dc_gym.envs.vector import LabVectorEnv

    with contextlib.ExitStack() as stack:
        spec, folder = parcel.unpack(stack), config.get(FOLDER)
        if "num_envs" in config:
            env: Any = LabVectorEnv(config["num_envs"], spec, folder=folder, step_info=False)
        else:
            env = DataCenterEnv(spec, folder=folder)
        _close_with(env, stack.pop_all())
    return env


def _close_with(env: Any, stack: contextlib.ExitStack) -> None:
    """What the stack holds ends with the env: when it is closed, forgotten, or with this process."""
    end, close = weakref.finalize(env, stack.close), type(env).close

    def both(**kwargs: Any) -> None:
        try:
            close(env, **kwargs)
        finally:
            end()

    env.close = both
