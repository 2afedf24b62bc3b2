# SPDX-License-Identifier: Apache-2.0
"""The suite: tasks on which adaptation pays, `dcgym/NAME-v1`. A task is a spec with [episodes] in this folder, its data sheet.

`dcgym evaluate` measures how much it pays: oracles.py has the policy that knows each episode's phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.spec import Spec, load

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
    """The class of its oracle in oracles.py."""
    cost: str
    """The total that measures it, of which less is better; "": the return measures it."""
    rule: str
    """The best static rule, in words."""
    rule_keys: tuple[str, ...]
    """The keys by which the same traffic follows the rule, and no agent acts."""

    @property
    def id(self) -> str:
        """The Gymnasium id."""
        return f"{PREFIX}{self.name}{VERSION}"

    @property
    def path(self) -> Path:
        """The file of its spec."""
        return HERE / f"{self.file}.toml"

    @property
    def policy(self) -> str:
        """The oracle, as a value of controller.policy."""
        return f"{__name__}.oracles:{self.oracle}"

    def spec(self, *overrides: str) -> Spec:
        """Returns the spec of held-out episodes."""
        return load(self.path, ["episodes.split=held-out", *overrides])


DCTCP = ("workload.transport=tcp", "controller.name=dctcp")
TASKS = (
    Task("ChangingLink", "changing-link", "AtBottleneck", "", "DCTCP", DCTCP),
    Task("ComingAndGoing", "coming-and-going", "AtBottleneck", "", "DCTCP", DCTCP),
    Task("ShortestFirst", "shortest-first", "ShortestFirst", "fct_mean_s", "DCTCP", ()),
)


def find(name: str) -> Task:
    """Returns the task of an id, or of its middle part. Raises UsageError if there is none."""
    short = name.removeprefix(PREFIX).removesuffix(VERSION)
    for task in TASKS:
        if task.name == short:
            return task
    raise UsageError(unknown("task", name, [task.id for task in TASKS]))
