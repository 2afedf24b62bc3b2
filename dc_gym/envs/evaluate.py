# SPDX-License-Identifier: Apache-2.0
"""Evaluates a policy: runs whole episodes with given seeds, without learning, and returns the totals of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dc_gym.envs.env import EpisodeTracker
from dc_gym.envs.policies import PolicyContext
from dc_gym.envs.policy_selection import policy_of
from dc_gym.envs.session import Session
from dc_gym.spec import Spec


def evaluate(spec: Spec, policy: str | Path, seeds: Iterable[int]) -> list[dict[str, float]]:
    """Returns the episode totals of each seed (docs/environment.md). All episodes run in one lab. `policy` takes the same forms
    as controller.policy."""
    found = []
    with Session(spec) as session:
        for seed in seeds:
            episode = EpisodeTracker(session.experiment.spec, session.scene)
            acting = policy_of(policy, PolicyContext(session.scene, episode.observer, episode.action, seed))
            frame = session.begin(seed)
            observation, _ = episode.begin(frame, seed)
            over = False
            while not over:
                frame = session.step(episode.action.to_values(acting.act(observation, frame)))
                observation, _, terminated, truncated, _ = episode.advance(frame)
                over = terminated or truncated
            found.append(episode.totals.result())
    return found
