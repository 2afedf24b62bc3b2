# SPDX-License-Identifier: Apache-2.0
"""Evaluates a policy: runs whole episodes with given seeds, and returns the totals of each. A policy that learns begins anew with
each episode."""

from __future__ import annotations

from collections.abc import Iterable

from dc_gym.learn.session import Session, check_seed
from dc_gym.run.agent.actors import Actors
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.policy_selection import PolicyForm
from dc_gym.spec import Spec


def evaluate(spec: Spec, policy: PolicyForm, seeds: Iterable[int]) -> list[dict[str, float]]:
    """Returns the episode totals of each seed (docs/environment.md). All episodes run in one lab. `policy` takes the same forms
    as controller.policy, or is a function that makes it."""
    totals = []
    with Session(spec) as session:
        for number in seeds:
            check_seed(number)
            seed = spec.episodes.seed_of(number)
            episode = EpisodeTracker(session.experiment.spec, session.scene)
            options = dict(spec.controller.own)
            context = PolicyContext(session.scene, episode.observer, episode.action, seed, given=options)
            acting = Actors(policy, context, spec.episode(seed).agent)
            frame = session.begin(seed)
            observation, _ = episode.begin(frame, seed)
            reward, over = 0.0, False
            while not over:
                acting.observe(frame, observation, reward)
                frame = session.step(episode.action.to_values(acting.act(frame)))
                observation, reward, terminated, truncated, _ = episode.advance(frame)
                over = terminated or truncated
            totals.append(episode.totals.result())
    return totals
