# SPDX-License-Identifier: Apache-2.0
"""The replay of transitions: returns over n steps, across pieces of an episode and at its end; how often each one is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dc_gym.learn.rllib.algorithms.replay import Replay, Transitions

GAMMA = 0.5


def episode(steps: int, ending: str = "", name: str = "e", first: int = 0) -> Any:
    """Observation and action of step t are t, its reward 10^t."""
    times = range(first, first + steps)
    return SingleAgentEpisode(
        id_=name,
        observations=[np.array([t], np.float32) for t in range(first, first + steps + 1)],
        actions=[np.array([t], np.float32) for t in times],
        rewards=[10.0**t for t in times],
        terminated=ending == "terminated",
        truncated=ending == "truncated",
        len_lookback_buffer=0,
    )


def stored(replay: Replay) -> dict[float, tuple[float, float, bool, float]]:
    """Returns for each observation: reward, next observation, end, n."""
    ring = replay._rings["default_policy"]
    columns = (ring.columns[name][: ring.size] for name in ("obs", "rewards", "new_obs", "terminateds", "n_step"))
    return {float(o[0]): (float(r), float(o2[0]), bool(end), float(n)) for o, r, o2, end, n in zip(*columns, strict=True)}


def test_one_step() -> None:
    replay = Replay(10, 1, GAMMA)
    assert replay.add([episode(2)]) == 2
    assert stored(replay) == {0: (1, 1, False, 1), 1: (10, 2, False, 1)}


@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_the_last_steps_look_less_far_ahead(ending: str) -> None:
    replay = Replay(10, 3, GAMMA)
    replay.add([episode(4, ending)])
    over = ending == "terminated"
    assert stored(replay) == {0: (31, 3, False, 3), 1: (310, 4, over, 3), 2: (600, 4, over, 2), 3: (1000, 4, over, 1)}


def test_pieces_of_an_episode_are_one() -> None:
    whole, pieces = Replay(20, 3, GAMMA), Replay(20, 3, GAMMA)
    whole.add([episode(6, "terminated")])
    for first, steps, ending in ((0, 1, ""), (1, 3, ""), (4, 2, "terminated")):
        pieces.add([episode(steps, ending, first=first), episode(2, name="other", first=20)])
    transitions = stored(pieces)
    assert {observation: values for observation, values in transitions.items() if observation < 20} == stored(whole)
    assert pieces._open.keys() == {("other", None)}


def test_the_oldest_go_first() -> None:
    replay = Replay(3, 1, GAMMA)
    replay.add([episode(5)])
    assert sorted(stored(replay)) == [2, 3, 4]


def test_a_piece_longer_than_the_ring() -> None:
    ring = Transitions(3)
    ring.add({"rewards": np.arange(7.0)})
    ring.add({"rewards": np.array([7.0])})
    assert sorted(ring.columns["rewards"]) == [5, 6, 7] and ring.size == 3


class Several:
    """An episode of two agents with one policy."""

    def __init__(self) -> None:
        self.agent_episodes = {name: episode(2, name=name) for name in ("h1", "h2")}
        for agent_episode in self.agent_episodes.values():
            agent_episode.module_id = "shared"

    def __len__(self) -> int:
        return 2


def test_agents_that_share_a_policy_share_a_ring() -> None:
    replay = Replay(10, 1, GAMMA)
    assert replay.add([Several()]) == 2
    places, columns = replay.sample(5)["shared"]
    assert len(places) == 5 and replay._rings["shared"].size == 4 and columns["obs"].shape == (5, 1)


def test_priorities() -> None:
    """Transitions are drawn in proportion to error^alpha; with beta 1 their weights are the inverse of that."""
    replay = Replay(4, 1, GAMMA, alpha=0.5, beta=1.0)
    replay.rng = np.random.default_rng(1)
    replay.add([episode(4)])
    replay.prioritize("default_policy", np.arange(4), np.array([1.0, 4.0, 9.0, 16.0]))
    places, columns = replay.sample(20_000)["default_policy"]
    shares = np.bincount(places) / len(places)
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=0.02)
    np.testing.assert_allclose(
        [columns["weights"][places == index][0] for index in range(4)], [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-6
    )


def test_a_new_transition_has_the_highest_priority() -> None:
    replay = Replay(4, 1, GAMMA, alpha=1.0, beta=0.4)
    replay.add([episode(1)])
    replay.prioritize("default_policy", np.array([0]), np.array([7.0]))
    replay.add([episode(1, first=1)])
    assert list(replay._rings["default_policy"].priorities[:2]) == [7, 7]
