# SPDX-License-Identifier: Apache-2.0
"""Methods: plug-ins of the package. Each is a folder of dc_gym/methods; its module `method` has METHOD, a Method.

The core names no method. It finds the folders, imports their modules `method`, which hold names and texts alone, and calls the
functions that a Method refers to when a run or a command needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from dc_gym.base.package import PACKAGE

__all__ = [
    *("Method", "MethodBench", "MethodCurve", "MethodNicPolicy", "MethodPolicy", "MethodPolicyFile", "MethodReward"),
    "MethodTrainer",
    "by_name",
]

NOTHING: Mapping[str, Any] = MappingProxyType({})


class MethodPolicy(NamedTuple):
    """A policy that a method adds to the values of controller.policy."""

    keys: Callable[[], type]
    """Returns the dataclass of its keys of the spec's [controller]."""
    make: Callable[[Any, Any], Any]
    """`make(context, keys)` returns the policy of one agent."""


class MethodReward(NamedTuple):
    """A reward that a method adds to the names of agent.reward: the arguments of dc_gym.run.agent.reward.register."""

    bounds: tuple[float, float]
    formula: str
    compute: Callable[[Any, Any, Any], float]
    cost: bool = False
    flows: bool = True


class MethodPolicyFile(NamedTuple):
    """A kind of policy file that a method adds (docs/policy-file.md)."""

    owner: str
    """The place that runs the policy, such as "a switch"."""
    run: str
    """The options of `dcgym run` for the file {path}."""


class MethodNicPolicy(NamedTuple):
    """A kind of policies for NICs that a method adds."""

    algorithm: str
    """The name of the NICs' algorithm that runs it."""
    number: int
    """The number of the kind in a table: POLICY_... of ctrl/nic/policy.h."""
    kind: Callable[[], Any]
    """Returns the kind, a NicKind of dc_gym/nets/nic_kind.py."""
    reference: Callable[[], Any]
    """Returns what the algorithm is compared with, a NicKindReference of dc_gym/nets/nic_kind.py."""
    shared: bool = False
    """True if algorithms from outside, which have a table, may run such policies, too."""
    bound_ns: int | None = None
    """The time that a decision may take in `dcgym bench nic-cost`. None: it is only reported."""


class MethodTrainer(NamedTuple):
    """A training that a method adds to `dcgym train`. Its name is a value of --agents."""

    help: str
    """The words for who is an agent, in the help of --agents. It needs no SPEC."""
    example: str
    """A command line."""
    main: Callable[[Any, Any], int]
    """`main(args, progress)` does what the command does."""


class MethodCurve(NamedTuple):
    """The table curve.csv of a method's trainings."""

    columns: tuple[str, ...]
    """The first names of its header, by which it is known. The first one counts a training's progress."""
    titles: Mapping[str, str] = NOTHING
    """Titles of columns that mean something else than in other trainings."""


class MethodBench(NamedTuple):
    """A bench that a method adds to `dcgym bench`."""

    summary: str
    module: str
    """The name of the module that has `checks`."""


class Method(NamedTuple):
    """The parts that a method adds to the core, by their names. No two methods share a name."""

    title: str
    """Its name in texts."""
    summary: str
    """Text for the help of `dcgym method NAME`."""
    example: str
    """A command line of `dcgym method NAME`."""
    add_commands: Callable[[Any], None]
    """`add_commands(commands)` adds the commands of `dcgym method NAME` to argparse's subparsers. Each sets `command`."""
    threads: bool = False
    """True if numpy may use threads in these commands."""
    curve: MethodCurve | None = None
    benches: Mapping[str, MethodBench] = NOTHING
    policies: Mapping[str, MethodPolicy] = NOTHING
    rewards: Mapping[str, MethodReward] = NOTHING
    policy_files: Mapping[str, MethodPolicyFile] = NOTHING
    nic_policies: Mapping[str, MethodNicPolicy] = NOTHING
    trainers: Mapping[str, MethodTrainer] = NOTHING

    def acts_in(self, names: set[str]) -> bool:
        """Returns whether one of these names, which a spec gives, is a policy or a reward of the method."""
        return not names.isdisjoint({*self.policies, *self.rewards})


@cache
def by_name() -> Mapping[str, Method]:
    """Returns the methods by the names of their folders, in the order of the names."""
    names = sorted(path.parent.name for path in PACKAGE.glob("methods/*/method.py"))
    return {name: import_module(f"dc_gym.methods.{name}.method").METHOD for name in names}


def nic_policies() -> Mapping[str, MethodNicPolicy]:
    """Returns the kinds of policies for NICs by name."""
    return {kind: policy for method in by_name().values() for kind, policy in method.nic_policies.items()}


def trainers() -> Mapping[str, MethodTrainer]:
    """Returns the trainings of methods by name."""
    return {name: trainer for method in by_name().values() for name, trainer in method.trainers.items()}
