# SPDX-License-Identifier: Apache-2.0
"""A NIC's policy, its file, and its table: the words of integers that the NIC reads.

docs/policy-file.md describes the file, ctrl/nic/policy.h the table. Reading a file checks the table against the file's numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.base import methods
from dc_gym.base.errors import AgentError, naming
from dc_gym.base.methods import MethodNicPolicy
from dc_gym.base.outputs import Mine
from dc_gym.base.package import PACKAGE
from dc_gym.nets import trees
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.nic_kind import NicKind
from dc_gym.nets.policy_file import GUIDE, NIC, Payload, PolicyFile, nic_algorithm
from dc_gym.nets.trees import ObliviousTrees

MAGIC, TABLE_VERSION, HEAD_WORDS, CRC_WORD, TABLE_WORDS = 0x31504343, 1, 16, 4, 8192
WHOLE = ("inputs", "table")
"""The names of arrays of integers. The others are of floating point numbers."""
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class NicPolicy(PolicyFile):
    """A policy that flows of a NIC decide by."""

    OWNER: ClassVar[str] = NIC

    policy: Any
    """The network or trees of a method's kind (nic_kind.py)."""
    scaling: Any = None
    """From measurements to inputs; the default is that of the kind. None of a kind that has none."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = self._kind
        if self.scaling is None and kind.scaling is not None:
            object.__setattr__(self, "scaling", kind.scaling())
        if kind.check is not None:
            kind.check(self.scaling)

    @property
    def kind(self) -> str:
        return str(self.policy.KIND)

    @property
    def _of_method(self) -> MethodNicPolicy:
        return methods.nic_policies()[self.kind]

    @property
    def _kind(self) -> NicKind:
        kind: NicKind = self._of_method.kind()
        return kind

    def describe(self) -> str:
        """Describes the policy's form in one line."""
        form = self._kind.describe(self.policy)
        return form if self.scaling is None else f"{form}; {self.scaling.describe()}"

    def table(self) -> Words:
        """Returns the words that the NIC reads."""
        head = [0] * HEAD_WORDS
        head[:4] = [MAGIC, TABLE_VERSION, self._of_method.number, 0]
        if self.scaling is not None:
            head[5:9] = self.scaling.table_words()
        if isinstance(self.policy, ObliviousTrees):
            head[9:11] = [len(self.policy.inputs), round(self.policy.bias * Q16)]
        else:
            head[9] = sum(weight.size for weight in self.policy.weights)
        words = [*head, *self.policy.table_body()]
        words[3] = len(words)
        table = np.array([word & 0xFFFFFFFF for word in words], np.uint32)
        table[CRC_WORD] = checksum(table)
        return table

    def to_payload(self) -> Payload:
        policy, kind = self.policy, self._kind
        if isinstance(policy, ObliviousTrees):
            numbers: dict[str, Any] = {
                "inputs": policy.inputs,
                "borders": policy.borders,
                "leaves": policy.leaves,
                "bias": np.float64(policy.bias),
            }
        else:
            numbers = dict(zip(kind.arrays, policy.weights, strict=True))
        scaled = {} if self.scaling is None else {"scaling": asdict(self.scaling)}
        return Payload(scaled | kind.entries(policy), numbers | {"table": self.table()})

    @classmethod
    def from_payload(cls, kind: str, payload: Payload, provenance: Mapping[str, Any]) -> NicPolicy:
        arrays = payload.arrays
        for name, array in arrays.items():
            number_type = np.integer if name in WHOLE else np.floating
            if not np.issubdtype(array.dtype, number_type):
                raise AgentError(f"array {name!r} is of {array.dtype}, not of {number_type.__name__} numbers; {GUIDE}")
        nic_kind: NicKind = methods.nic_policies()[kind].kind()
        scaling = None if nic_kind.scaling is None else nic_kind.scaling(**_numbers(payload.entries["scaling"]))
        policy = cls(nic_kind.read(payload), scaling, provenance)
        if not np.array_equal(arrays["table"], policy.table()):
            raise AgentError("its table is not what its numbers give; make it again with this version of dc-gym")
        return policy


def size_of_network(network: Any, shape: str) -> str:
    """Describes the size of a network with weights."""
    many = sum(weight.size for weight in network.weights if weight.ndim == 2)
    return f"a network of {shape}, {many} multiplications a decision, {network.packed_bytes()} bytes packed"


def size_of_trees(ensemble: ObliviousTrees) -> str:
    """Describes the size of trees."""
    count = len(ensemble.inputs)
    size = f"{count * trees.DEPTH} compares a decision, {ensemble.packed_bytes()} bytes packed"
    return f"{count} trees of depth {trees.DEPTH}, {size}"


def _numbers(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in entries.items():
        if not isinstance(value, int | float):
            raise AgentError(f"{name} in its scaling is {value!r}, not a number; {GUIDE}")
    return entries


def checksum(table: Words) -> int:
    """Returns the CRC-32 of a table's words except the checksum word, as policy.h computes it."""
    return zlib.crc32(np.delete(table, CRC_WORD).astype("<u4").tobytes())


def shipped(name: str) -> Path:
    """Returns the path of a policy that comes with dc-gym. The one with an algorithm's name is that algorithm's default."""
    known = {path.stem: path for path in all_shipped()}
    if name not in known:
        raise AgentError(f"{name}: no policy of that name comes with dc-gym ({', '.join(known)} do); give a policy file (*.npz)")
    return known[name]


def all_shipped() -> list[Path]:
    """Returns the paths of the policies that come with dc-gym, by name."""
    folders = (PACKAGE / "methods" / name for name, method in methods.by_name().items() if method.nic_policies)
    return sorted((path for folder in folders for path in folder.glob("*.npz")), key=lambda path: path.stem)


def path_of(text: str) -> Path:
    """Returns the path of a policy as users give it: the name of one that comes with dc-gym, or a file."""
    return shipped(text) if "." not in text and "/" not in text else Path(text)


def made_alike(policy: NicPolicy) -> Mine:
    """Returns a predicate that recognizes a file of a policy that was made from the same source in the same way."""
    names = ("made", "command", "source", "source_sha256")
    return NicPolicy.made_of({name: policy.provenance.get(name) for name in names})


def load(algorithm: str, path: Path | None = None) -> NicPolicy:
    """Returns the policy for a run of an algorithm. Raises AgentError if the algorithm runs another kind of policy."""
    policy = NicPolicy.read(path or shipped(algorithm))
    runs, known = nic_algorithm(policy.kind), methods.nic_policies()
    others = {method_policy.algorithm for method_policy in known.values()}
    if algorithm != runs and (algorithm in others or not known[policy.kind].shared):
        raise AgentError(f"{path}: is a policy of the kind {policy.kind!r}, which {runs} runs; {algorithm} was asked for")
    return policy


def write_table(table: Words, path: Path) -> None:
    """Writes the words alone, padded with zeros to the NIC's table size, as its loader expects them."""
    with naming(path):
        path.write_bytes(np.pad(table, (0, TABLE_WORDS - len(table))).astype("<u4").tobytes())


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A table as a policy: the NIC's actions, bit for bit. Float inputs are rounded to Q16."""

    words: Words

    def __call__(self, inputs: npt.ArrayLike) -> Floats:
        """Returns the output for each row of inputs: that of a flow's first decision, unless the kind says else (NicKind)."""
        x = np.asarray(inputs, np.float64)
        if (answer := self._kind.answer) is not None:
            return answer(self, x)
        rows = x.reshape(-1, x.shape[-1])
        return self.step(rows, np.zeros((len(rows), self.memory)))[0].reshape(x.shape[:-1])

    @property
    def memory(self) -> int:
        """The count of numbers that the policy stores for each flow."""
        return self._kind.memory

    @property
    def _kind(self) -> NicKind:
        number = int(self.words[2])
        kind: NicKind = next(policy.kind() for policy in methods.nic_policies().values() if policy.number == number)
        return kind

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns the outputs for inputs [flows, inputs], and the memory [flows, memory] after them."""
        acted, new_memory = self.integers(*(np.rint(array * Q16).astype(np.int64) for array in (inputs, memory)))
        return acted / Q16, new_memory / Q16

    def integers(self, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
        """Computes the same as `step`, in Q16."""
        signed = self.words.view(np.int32).astype(np.int64)
        return self._kind.integers(signed[HEAD_WORDS:], int(signed[10]), inputs_q16, memory_q16)
