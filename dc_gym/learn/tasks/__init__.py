# SPDX-License-Identifier: Apache-2.0
"""The suite: tasks on which adaptation pays, `dcgym/NAME-v1`. A task is a spec with [episodes] in this folder, its data sheet.

`dcgym evaluate` measures how much it pays: oracles.py has the policy that knows each episode's phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown

if TYPE_CHECKING:
    from dc_gym.spec import Spec

HERE = Path(__file__).parent
PREFIX, VERSION = "dcgym/", "-v1"


@dataclass(frozen=True, slots=True)
class Task:
    """A task of the suite."""

    name: str
    """The part of its id between the prefix and the version."""
    file: str
    """The name of its spec, without the ending."""
    oracle: str
    """Its oracle, as a value of controller.policy."""
    rule: str
    """The best static rule, in words."""
    rule_keys: tuple[str, ...]
    """The keys by which the same traffic follows the rule, and no agent acts."""
    cost: str = ""
    """The total that measures it, of which less is better; "": the return measures it."""
    differ: bool = False
    """Whether the numbers of its action differ in what they do, so that its best constant may have a level for each."""

    @property
    def id(self) -> str:
        """The Gymnasium id."""
        return f"{PREFIX}{self.name}{VERSION}"

    @property
    def path(self) -> Path:
        """The file of its spec."""
        return HERE / f"{self.file}.toml"

    @property
    def config(self) -> Path | None:
        """What its trainings change in the preset of the suite, as `dcgym train --config`; None: nothing."""
        path = self.path.with_suffix(".train.toml")
        return path if path.exists() else None

    def spec(self, *overrides: str) -> Spec:
        """Returns the spec of held-out episodes."""
        return self.training_spec("episodes.split=held-out", *overrides)

    def training_spec(self, *overrides: str) -> Spec:
        """Returns the spec of the episodes of trainings."""
        from dc_gym.spec import load  # registering the ids needs none of it

        return load(self.path, overrides)


ORACLES = f"{__name__}.oracles"
CLOSED_LOOP = ("workload.transport=tcp", "controller.name=dctcp")
MEETING = 'workload={kind="many_to_one",senders=10}'
PHASES = f'[{{at="500ms",{MEETING}}},{{at="1s",workload={{kind="random_bijective"}}}},{{at="1500ms",{MEETING}}}]'
"""The phases of MovingHotspot over TCP."""
TASKS = (
    Task("ChangingLink", "changing-link", f"{ORACLES}:AtBottleneck", "DCTCP", CLOSED_LOOP),
    Task("ComingAndGoing", "coming-and-going", f"{ORACLES}:AtBottleneck", "DCTCP", CLOSED_LOOP),
    Task("MovingHotspot", "moving-hotspot", "fair-share-ahead", "DCTCP", (*CLOSED_LOOP, f"events={PHASES}"), differ=True),
    Task("ChangingPath", "changing-path", f"{ORACLES}:FullPipe", "CUBIC", ("controller.name=cubic", "agent.actuators=clamp")),
    Task("ShortestFirst", "shortest-first", f"{ORACLES}:ShortestFirst", "DCTCP", (), "fct_mean_s"),
    Task("ElephantsAndIncast", "elephants-and-incast", f"{ORACLES}:ByCrowd", "K = 40p", ("topology.k_bytes=40p",), differ=True),
)


def of(spec: str | Path) -> Task | None:
    """Returns the task of an id, None for anything else."""
    return next((task for task in TASKS if task.id == str(spec)), None)


def path_of(spec: str | Path) -> str | Path:
    """Returns the spec file of a task's id, and anything else as it is."""
    task = of(spec)
    return task.path if task else spec


def find(name: str) -> Task:
    """Returns the task of an id, or of its middle part. Raises UsageError if there is none."""
    short = name.removeprefix(PREFIX).removesuffix(VERSION)
    for task in TASKS:
        if task.name == short:
            return task
    raise UsageError(unknown("task", name, [task.id for task in TASKS]))
