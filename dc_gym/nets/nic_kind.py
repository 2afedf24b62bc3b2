# SPDX-License-Identifier: Apache-2.0
"""A kind of policies for NICs (nic_policy.py), which a method adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dc_gym.base import methods
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.policy_file import Payload

Integers = npt.NDArray[np.int64]


class NicScaling(Protocol):
    """A dataclass of numbers: the scaling from a flow's measurements to its policy's inputs."""

    def table_words(self) -> list[int]:
        """Returns four words of a table's head (POLICY_WORD_TARGET and so on)."""

    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NicKind:
    """A kind of policies. Its networks have its name as `KIND`, `packed_bytes()`, `table_body()`, and `weights` if they are no
    oblivious trees."""

    arrays: tuple[str, ...] = ()
    """The names of a network's weights and biases in a file, in their order; none of trees."""
    read: Callable[[Payload], Any]
    """Returns the network or trees of a file."""
    scaling: Callable[..., NicScaling] | None = None
    """The class of scalings, whose numbers are in a file's entry `scaling`. None: its inputs are scaled in its own way."""
    check: Callable[[Any], None] | None = None
    """`check(scaling)` raises AgentError if a NIC cannot compute with this scaling."""
    entries: Callable[[Any], dict[str, Any]] = lambda network: {}
    """Returns the other entries of a file's payload."""
    describe: Callable[[Any], str]
    """Returns the form of a network or trees in one line."""
    memory: int
    """The count of numbers that the policy stores for each flow."""
    integers: Callable[[Integers, int, Integers, Integers], tuple[Integers, Integers]]
    """`integers(body, bias, inputs_q16, memory_q16)` computes the NIC's outputs and new memory from the body of a table."""
    answer: Callable[[Any, Floats], Floats] | None = None
    """`answer(policy, inputs)` returns the outputs for situations [..., inputs]. None: those of a flow's first decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicKindReference:
    """What an algorithm is compared with whose policy feeds on its own outputs: it takes the outputs that the NIC had."""

    output_bound: float
    """Bound on the difference of an output from the policy's output in floats, for the same inputs and memory."""
    distances: Callable[[Any, Iterable[tuple[Sequence[Any], Sequence[Any]]]], tuple[int, float, int | None]]
    """`distances(policy, traces)` compares decisions (ctrl/nic/golden.py: the steps of a trace, and what was decided) with a
    NicPolicy. It returns the decisions, the largest difference, and how many differ from the integers in Python (None: not
    compared)."""
    outputs: str = "outputs"
    """The word for what the policy gives."""
    make: Callable[..., Any] | None = None
    """`make(parameters, states=...)` returns a Reference (ctrl/nic/reference.py) of what surrounds the policy; states: a flow's
    words after each event. None: there is none."""
    bound: Any = None
    """Bound (ctrl/nic/reference.py) on the difference of a header's decision from the reference's."""


def reference_of(algorithm: str) -> NicKindReference | None:
    """Returns what an algorithm that runs a method's kind of policies is compared with, or None for another algorithm."""
    return next((policy.reference() for policy in methods.nic_policies().values() if policy.algorithm == algorithm), None)
