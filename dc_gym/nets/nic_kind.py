# SPDX-License-Identifier: Apache-2.0
"""A kind of policies for NICs that a method adds to the kinds of nic_policy.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import methods
from dc_gym.base.methods import MethodNicPolicy
from dc_gym.nets.policy_file import Payload

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicKind:
    """A kind of policies. Its networks have `packed_bytes()`, `table_body()`, and `weights` if they are no oblivious trees."""

    network: type
    """The class of its networks or trees."""
    arrays: tuple[str, ...] = ()
    """The names of a network's weights and biases in a file, in their order; none of trees."""
    read: Callable[[Payload], Any]
    """Returns the network or trees of a file."""
    entries: Callable[[Any], dict[str, Any]]
    """Returns the entries of a file's payload."""
    describe: Callable[[Any], str]
    """Returns the form of a network or trees in one line."""
    memory: int
    """The count of numbers that the policy stores for each flow."""
    integers: Callable[[Integers, int, Integers, Integers], tuple[Integers, Integers]]
    """`integers(body, bias, inputs_q16, memory_q16)` computes the NIC's output from the body of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicKindReference:
    """The reference of an algorithm whose policy feeds on its own outputs: it takes the outputs that the NIC had."""

    make: Callable[..., Any]
    """`make(parameters, states=...)` returns a Reference (ctrl/nic/reference.py); states: a flow's words after each event."""
    bound: Any
    """Bound (ctrl/nic/reference.py) on the difference of a header's decision from the reference's."""
    output_bound: float
    """Bound on the difference of an output from the policy's output in floats, for the same inputs and memory."""
    distances: Callable[[Any, Iterable[Sequence[Sequence[int]]]], tuple[int, float, int]]
    """`distances(policy, traces)` returns the decisions of a NicPolicy, the largest difference, and how many differ from the
    integers in Python."""


def added() -> Mapping[str, MethodNicPolicy]:
    """Returns the kinds that methods add, by name. The name is the name of the algorithm that runs it."""
    return {kind: each for method in methods.by_name().values() for kind, each in method.nic_policies.items()}


def reference_of(algorithm: str) -> NicKindReference | None:
    """Returns the reference of an algorithm that runs a method's kind of policies, or None."""
    found = added().get(algorithm)
    return None if found is None else found.reference()
