# SPDX-License-Identifier: Apache-2.0
"""Plays whole episodes of a policy with given seeds. A policy that learns begins anew with each episode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dc_gym.learn.session import Session, check_seed
from dc_gym.run.agent.actors import Actors
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.policy_selection import PolicyForm
from dc_gym.spec import Spec


@dataclass(slots=True)
class Played:
    """A played episode of n steps."""

    seed: int
    observations: list[Vector]
    """n + 1 of float32, from that of the reset on."""
    actions: list[npt.NDArray[np.float32]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    """True if every flow ended; else time.duration was over."""
    totals: dict[str, float] = field(default_factory=dict)
    """The episode totals (docs/environment.md)."""


def evaluate(spec: Spec, policy: PolicyForm, seeds: Iterable[int]) -> list[dict[str, float]]:
    """Returns the episode totals of each seed. Arguments are as for `play`."""
    return [played.totals for played in play(spec, policy, seeds)]


def play(spec: Spec, policy: PolicyForm, seeds: Iterable[int]) -> Iterator[Played]:
    """Plays an episode of each seed, all in one lab.

    Args:
        spec: The network, the traffic and the agent; its `episodes` say whose seeds they are.
        policy: As controller.policy, or a function that makes one.
        seeds: The numbers of the episodes.

    Yields:
        Each episode when it is over.
    """
    with Session(spec) as session:
        for number in seeds:
            check_seed(number)
            yield _episode(session, spec, policy, spec.episodes.seed_of(number))


def _episode(session: Session, spec: Spec, policy: PolicyForm, seed: int) -> Played:
    episode = EpisodeTracker(session.experiment.spec, session.scene)
    context = PolicyContext(session.scene, episode.observer, episode.action, seed, given=dict(spec.controller.own))
    acting = Actors(policy, context, spec.episode(seed).agent)
    frame = session.begin(seed)
    observation, _ = episode.begin(frame, seed)
    played = Played(seed, [np.array(observation, np.float32)])
    reward, over = 0.0, False
    while not over:
        acting.observe(frame, observation, reward)
        action = acting.act(frame)
        frame = session.step(episode.action.to_values(action))
        observation, reward, played.terminated, truncated, _ = episode.advance(frame)
        played.observations.append(np.array(observation, np.float32))
        played.actions.append(np.array(action, np.float32))
        played.rewards.append(reward)
        over = played.terminated or truncated
    played.totals = episode.totals.result()
    return played
