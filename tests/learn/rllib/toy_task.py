# SPDX-License-Identifier: Apache-2.0
"""The toy as a task, in place of a spec's environment. Of the spec it uses the seed alone: it has 1 + seed hosts."""

from __future__ import annotations

import toy_link
from ray import cloudpickle

from dc_gym.learn.rllib.environment import Task, register_environment
from dc_gym.learn.rllib.settings import TrainingSettings
from dc_gym.spec import Spec


def register(spec: Spec, settings: TrainingSettings) -> Task:
    cloudpickle.register_pickle_by_value(toy_link)
    hosts = 1 + spec.seed
    bare = toy_link.ToyLink(hosts)
    name = f"toy-{hosts}"
    register_environment(
        name, lambda config: toy_link.make({"hosts": hosts} | {k: v for k, v in config.items() if k == "num_envs"})
    )
    names = tuple(f"h{number}" for number in range(1, hosts + 1))
    features = ("queue", "capacity", *(f"{name}/rate" for name in names))
    about = {"observe": "toy", "history": 1, "action": "linear"}
    return Task(name, bare.observation_space, bare.action_space, features, names, about, levels=settings.levels)
