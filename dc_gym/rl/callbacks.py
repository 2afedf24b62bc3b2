# SPDX-License-Identifier: Apache-2.0
"""Carries the totals of an episode, which the env puts into its last info, into the training's results; tells where one begins.

One look at an end and at a beginning: a callback at each step would cost more than the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback

from dc_gym.envs.multi_agent import NETWORK
from dc_gym.rl import mistakes

TOTALS = "episode_totals"
"""Of the last info of an episode: numbers by name."""
RLLIBS = ("return", "steps")
"""Those that RLlib counts itself."""


class EpisodeTotals(RLlibCallback):
    """Every episode's totals of an iteration, as they are; `spread` says mean, max and p99 of them."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        for name, value in numbers(last_info(episode).get(TOTALS, {})):
            metrics_logger.log_value((TOTALS, name), value, reduce="item_series")


class Beginnings(RLlibCallback):
    """Tells a module that remembers something of a lab's steps (DDPG's noise) that an episode of it begins."""

    def on_episode_start(self, *, env_index: int, rl_module: Any, episode: Any = None, **kwargs: Any) -> None:
        if begin := getattr(rl_module, "begin_episode", None):
            begin(env_index)
        agents = Counter(map(episode.module_for, episode.agent_ids)) if hasattr(episode, "agent_ids") else {}
        for name, count in agents.items():  # those of a lab are neighbours in its batches
            if begin := getattr(rl_module[name], "begin_episode", None):
                for place in range(env_index * count, (env_index + 1) * count):
                    begin(place)


class Mistakes(RLlibCallback):
    """Ends a training whose runners meet a mistake in a file of the user's."""

    def on_environment_created(self, **kwargs: Any) -> None:
        mistakes.report()

    def on_env_runners_recreated(self, **kwargs: Any) -> None:
        mistakes.check()


def last_info(episode: Any) -> Mapping[str, Any]:
    """Of the network, where hosts act."""
    info: Mapping[str, Any] = episode.get_infos(-1) or {}
    if hasattr(episode, "agent_ids"):
        own: Mapping[str, Any] = next(iter(info.values()), {})
        info = own.get(NETWORK, {})
    return info


def return_of(episode: Any) -> float:
    """The sum of rewards; where hosts act its mean over them, so that the network's reward counts once."""
    agents = len(episode.agent_ids) if hasattr(episode, "agent_ids") else 1
    return float(episode.get_return()) / agents


def numbers(totals: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Those of the totals that are a number, by name."""
    for name, value in totals.items():
        if name not in RLLIBS and isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
            yield name, float(value)


def spread(values: Any) -> tuple[float, float, float]:
    """Mean, max and 99th percentile over episodes; nan (nothing was measured) does not count."""
    numbers_ = np.asarray(values, float)
    known = numbers_[~np.isnan(numbers_)]
    if not known.size:
        return (float("nan"),) * 3
    return float(known.mean()), float(known.max()), float(np.percentile(known, 99))
