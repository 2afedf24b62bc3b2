# SPDX-License-Identifier: Apache-2.0
"""Writes episodes of a policy as a dataset of Minari (https://minari.farama.org), which learners from stored episodes read.

A dataset is a folder NAME-v0 in one of the task's name, below the folder that Minari finds by MINARI_DATASETS_PATH. Arrays are
float32. Its metadata have the seeds, the task's overrides and a digest of all episodes, so anybody can record the same again.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from dc_gym import __version__
from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors, scratch
from dc_gym.learn.evaluate import Played, play
from dc_gym.learn.tasks import Task
from dc_gym.run.agent.policy_selection import PolicyForm

FORMAT, ROOT = "arrow", "MINARI_DATASETS_PATH"


def dataset_id(task: Task, name: str) -> str:
    """Returns Minari's id of a dataset of a task. Raises UsageError if Minari takes no such name."""
    if not re.fullmatch(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*", name) or re.search(r"-v\d+$", name):
        raise UsageError(f"--name {name!r}: Minari takes letters, digits, _ and -, and adds the version; give another")
    return f"{task.name}/{name}-v0"


def record(
    task: Task,
    policy: PolicyForm,
    seeds: Iterable[int],
    id: str,
    root: Path,
    overrides: Sequence[str] = (),
    on_episode: Callable[[Played], object] = lambda played: None,
) -> str:
    """Plays episodes and writes them as a dataset, whole or not at all.

    Args:
        task: A task of the suite, with the episodes of trainings.
        policy: As controller.policy.
        seeds: The numbers of the episodes.
        id: That of `dataset_id`.
        root: The folder of Minari's datasets.
        overrides: Texts "key=value" that replace keys of the task.
        on_episode: Is called after each episode.

    Returns:
        The digest of the episodes.

    Raises:
        UsageError: Minari is not installed, or there is such a dataset already.
    """
    minari, folder = _minari(), root / id
    if folder.exists():
        raise UsageError(f"{folder}: is there already; give another --name or --out, or remove it")
    episodes = []
    for played in play(task.training_spec(*overrides), policy, seeds):
        on_episode(played)
        episodes.append(played)
    digest = digest_of(episodes)
    with scratch(root, "dcgym-make-") as work, machine_errors("write", folder), _datasets_in(work):
        env = gymnasium.make(task.id, overrides=tuple(overrides))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about authors and licences that nobody gave
            written = minari.create_dataset_from_buffers(
                id,
                [_buffer(number, played) for number, played in enumerate(episodes)],
                env.spec,
                algorithm_name=policy.name if isinstance(policy, Path) else str(policy),
                description=f"{len(episodes)} episodes of {task.id}; digest {digest}",
                data_format=FORMAT,
                requirements=[f"dc-gym=={__version__}"],
            )
        written.storage.update_metadata({"digest": digest, "seeds": [played.seed for played in episodes]})
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / id, folder)
    return digest


def digest_of(episodes: Iterable[Played]) -> str:
    """Returns the SHA-256 of all arrays."""
    digest = sha256()
    for played in episodes:
        for values in (played.observations, played.actions):
            digest.update(np.asarray(values, "<f4").tobytes())
        digest.update(np.asarray(played.rewards, "<f8").tobytes())
    return digest.hexdigest()


def _buffer(number: int, played: Played) -> Any:
    from minari.data_collector.episode_buffer import EpisodeBuffer

    steps = len(played.rewards)
    return EpisodeBuffer(
        id=number,
        seed=played.seed,
        observations=np.stack(played.observations),
        actions=np.stack(played.actions),
        rewards=played.rewards,
        terminations=[*[False] * (steps - 1), played.terminated],
        truncations=[*[False] * (steps - 1), not played.terminated],
    )


@contextmanager
def _datasets_in(root: Path) -> Iterator[None]:
    """Lets Minari write below a folder."""
    before = os.environ.get(ROOT)
    os.environ[ROOT] = str(root)
    try:
        yield
    finally:
        if before is None:
            del os.environ[ROOT]
        else:
            os.environ[ROOT] = before


def _minari() -> Any:
    try:
        import minari
    except ImportError:
        raise UsageError("record: datasets need Minari, which is not installed; pip install 'dc-gym[offline]'") from None
    return minari
