# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (gradient.py) on the real data path: NICs in labs decide, a learner outside trains.

All labs run at the same time, from barrier to barrier (a barrier is a fixed point in virtual time). At a barrier the labs stand
still. Their decisions form one batch, in the order of the labs. The network takes one step of Adam, and all NICs continue with
the new network. After a fixed number of updates, an episode, each lab starts a new episode with its own seed. Nothing depends on
wall time or on which lab arrives first: one seed gives one network, bit for bit.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc.offline.data_path import DataPath
from dc_gym.methods.rlcc.offline.gradient import Batch, Learner, LearnerSettings
from dc_gym.methods.rlcc.offline.histories import Histories
from dc_gym.methods.rlcc.offline.lab_network import LabNetwork, randomised, varied
from dc_gym.methods.rlcc.offline.presets import TrafficPattern, preset, reward
from dc_gym.nets.nic_policy import NicPolicy, Words
from dc_gym.topologies.ecmp import draw

MAX_LABS = 64


@dataclass(frozen=True, slots=True)
class LabTrainingSettings(LearnerSettings):
    """The settings of a training on labs."""

    updates: int = 1600
    preset: str = "rl-cc"
    labs: int = 2
    updates_per_episode: int = 100
    """Number of updates in an episode. A checkpoint is written after each episode."""
    round_trips_per_update: int = 32
    """Base round trips between two barriers. A batch holds all decisions of all labs in this time."""
    randomise: bool = False
    """True: each episode of each lab draws its own line rate, base round trip, buffer, and numbers of flows."""
    curriculum: bool = False
    """True: training starts with few flows, at most two in the first third of the updates, at most four in the second."""
    network: LabNetwork = field(default_factory=LabNetwork)

    def __post_init__(self) -> None:
        reward(self.preset, self.beta, self.target)
        self.check()
        for name in ("updates_per_episode", "round_trips_per_update", "labs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: give 1 or more")
        if self.labs > MAX_LABS:
            raise UsageError(f"labs = {self.labs}: give {MAX_LABS} or fewer")

    def patterns(self, episode: int, seed: int) -> tuple[TrafficPattern, ...]:
        """Returns the traffic of an episode."""
        patterns = preset(self.preset).patterns
        if self.curriculum:
            most = 2 ** (1 + 3 * episode * self.updates_per_episode // self.updates)
            patterns = tuple(pattern for pattern in patterns if pattern.flows <= most)
        return varied(patterns, seed) if self.randomise else patterns


USUAL = {"mlp": LabTrainingSettings(), "lstm": LabTrainingSettings(net="lstm", learning_rate=0.003)}
"""The usual settings for each kind of network."""


@dataclass(frozen=True, slots=True)
class LabEpisode:
    """A lab in an episode, with the histories that turn its decisions into training data."""

    number: int
    episode: int
    path: DataPath
    histories: Histories

    def fileno(self) -> int:
        """Returns the lab's file descriptor, for select()."""
        return self.path.fileno()

    def set_table(self, table: Words) -> None:
        """Sets the table that the NICs decide by from the current barrier on."""
        self.path.set_table(table)
        self.histories.table = table


class Labs:
    """The labs of a training."""

    def __init__(self, settings: LabTrainingSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._stack = ExitStack()
        self._labs: list[LabEpisode] = []
        self.replays = 0
        """Number of labs that died and were started again."""

    def __enter__(self) -> Labs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, episode: int, table: Words) -> None:
        """Starts all labs in this episode."""
        self.close()
        self._labs = [self._begun(number, episode, table) for number in range(self._settings.labs)]

    def _begun(self, number: int, episode: int, table: Words) -> LabEpisode:
        settings = self._settings
        seed = draw(settings.seed, "rlcc lab", number, episode) % 2**32
        network = randomised(settings.network, seed) if settings.randomise else settings.network
        folder = self._folder / f"lab{number}"
        folder.mkdir(exist_ok=True)
        spec = network.spec(
            f"rlcc-{settings.net}",
            settings.patterns(episode, seed),
            settings.round_trips_per_update * settings.updates_per_episode + 1,
            seed,
            folder,
        )
        path = self._stack.enter_context(DataPath(spec, folder, settings.round_trips_per_update * network.base_rtt_ns))
        path.begin(seed, table)
        return LabEpisode(number, episode, path, Histories(settings.delta_lag, table))

    def advance(self, table: Words | None) -> Iterator[Batch]:
        """Runs all labs to the next barrier and yields the training data of each.

        `table`: the new table of the NICs; None keeps the current one.
        """
        for lab in self._labs:
            if table is not None:
                lab.set_table(table)
            lab.path.post()
        for lab in self._labs:
            yield self._collect(lab)

    def _collect(self, lab: LabEpisode) -> Batch:
        before = lab.path.replays
        rows = lab.path.collect()
        self.replays += lab.path.replays - before
        return lab.histories.add(rows)

    def batches(self, episode: int, table: Callable[[], Words]) -> Iterator[Batch]:
        """Yields training data for ever, from one lab at a time.

        The lab that reaches a barrier first continues first. It continues with the newest table, before the learner has used the
        data that the lab has just delivered. A lab whose episode is over starts the next one.
        """
        self.begin(episode, table())
        for lab in self._labs:
            lab.path.post()
        while True:
            ready, _, _ = select.select(self._labs, [], [])
            for lab in ready:
                batch, words = self._collect(lab), table()
                if lab.path.step == lab.path.steps:
                    lab.path.close()
                    lab = self._labs[lab.number] = self._begun(lab.number, lab.episode + 1, words)
                else:
                    lab.set_table(words)
                lab.path.post()
                yield batch

    @property
    def pids(self) -> list[int | None]:
        return [lab.path.pid for lab in self._labs]

    def close(self) -> None:
        self._stack.close()
        self._labs = []


def run(
    learner: Learner,
    settings: LabTrainingSettings,
    folder: Path,
    on_update: Callable[[Learner, Labs], None],
    *,
    asynchronous: bool = False,
) -> int:
    """Trains to the end, starting at the beginning of an episode. Returns how many labs died on the way.

    `folder`: where the labs' folders are made. `asynchronous`: no lab waits for another lab or for the learner, and each barrier
    of each lab gives one update. The policy is then not reproducible.
    """
    with Labs(settings, folder) as labs:
        if asynchronous:
            return _run_asynchronously(learner, settings, labs, on_update)
        while (updates := len(learner.curve)) < settings.updates:
            labs.begin(updates // settings.updates_per_episode, _table(learner))
            for number in range(min(settings.updates_per_episode, settings.updates - updates)):
                learner.update(Batch.joined(list(labs.advance(_table(learner) if number else None))))
                on_update(learner, labs)
        return labs.replays


def _table(learner: Learner) -> Words:
    """Returns the table that the NICs decide by."""
    return NicPolicy(learner.net, learner.scaling).table()


def _run_asynchronously(
    learner: Learner, settings: LabTrainingSettings, labs: Labs, on_update: Callable[[Learner, Labs], None]
) -> int:
    for batch in labs.batches(len(learner.curve) // settings.updates_per_episode, lambda: _table(learner)):
        learner.update(batch)
        on_update(learner, labs)
        if len(learner.curve) >= settings.updates:
            break
    return labs.replays
