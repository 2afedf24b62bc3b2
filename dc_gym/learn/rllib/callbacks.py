# SPDX-License-Identifier: Apache-2.0
"""Callbacks that copy the totals in an episode's last info into the training's results, and notify modules when an episode
begins.

They run only at the beginning and end of an episode: a callback in each step would cost more than the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback

from dc_gym.learn.multi_agent import NETWORK
from dc_gym.learn.rllib import user_errors

TOTALS = "episode_totals"
"""The key of the totals in an episode's last info: numbers by name."""
RLLIB_TOTALS = ("return", "steps")
"""The totals that RLlib counts itself."""


class EpisodeTotalsLogger(RLlibCallback):
    """Logs the totals of every episode of an iteration, each value separately; `mean_max_p99` computes mean, max and p99."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        for name, value in numbers(last_info(episode).get(TOTALS, {})):
            metrics_logger.log_value((TOTALS, name), value, reduce="item_series")


class EpisodeStarts(RLlibCallback):
    """Notifies a module that keeps state over a lab's steps (DDPG's noise) when an episode of that lab begins."""

    def on_episode_start(self, *, env_index: int, rl_module: Any, episode: Any = None, **kwargs: Any) -> None:
        if begin := getattr(rl_module, "begin_episode", None):
            begin(env_index)
        agents = Counter(map(episode.module_for, episode.agent_ids)) if hasattr(episode, "agent_ids") else {}
        for name, count in agents.items():  # a lab's agents are neighbours in the module's batches
            if begin := getattr(rl_module[name], "begin_episode", None):
                for row in range(env_index * count, (env_index + 1) * count):
                    begin(row)


class UserErrors(RLlibCallback):
    """Ends a training if a runner meets an error in one of the user's files."""

    def on_environment_created(self, **kwargs: Any) -> None:
        user_errors.report()

    def on_env_runners_recreated(self, **kwargs: Any) -> None:
        user_errors.check()


def last_info(episode: Any) -> Mapping[str, Any]:
    """Returns the last info of an episode; where hosts are agents, the network's info."""
    info: Mapping[str, Any] = episode.get_infos(-1) or {}
    if hasattr(episode, "agent_ids"):
        agent_info: Mapping[str, Any] = next(iter(info.values()), {})
        info = agent_info.get(NETWORK, {})
    return info


def return_of(episode: Any) -> float:
    """Returns the sum of rewards. Where hosts are agents it is the mean over the hosts, so that the network's reward counts
    once."""
    agents = len(episode.agent_ids) if hasattr(episode, "agent_ids") else 1
    return float(episode.get_return()) / agents


def numbers(totals: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields the totals that are numbers, by name."""
    for name, value in totals.items():
        if name not in RLLIB_TOTALS and isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
            yield name, float(value)


def mean_max_p99(values: Any) -> tuple[float, float, float]:
    """Returns mean, max and 99th percentile over episodes, without nan (nothing measured)."""
    numbers_ = np.asarray(values, float)
    known = numbers_[~np.isnan(numbers_)]
    if not known.size:
        return (float("nan"),) * 3
    return float(known.mean()), float(known.max()), float(np.percentile(known, 99))
