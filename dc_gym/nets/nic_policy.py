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
from dc_gym.base.outputs import Mine
from dc_gym.base.package import PACKAGE
from dc_gym.nets import int8, lstm, mlp, nic_kind, trees
from dc_gym.nets.decision import Q16, Floats, Scaling
from dc_gym.nets.int8 import Mlp8
from dc_gym.nets.lstm import Lstm
from dc_gym.nets.lstm_cell import MEMORY
from dc_gym.nets.mlp import Mlp
from dc_gym.nets.nic_kind import NicKind
from dc_gym.nets.policy_file import GUIDE, NIC, RUN, Payload, PolicyFile, nic_algorithm
from dc_gym.nets.trees import ObliviousTrees, Trees

MAGIC, TABLE_VERSION, HEAD_WORDS, CRC_WORD, TABLE_WORDS = 0x31504343, 1, 16, 4, 8192
KINDS = {"tree": 1, "mlp": 2, "mlp8": 3, "lstm": 4}
"""The numbers of POLICY_TREE and so on in policy.h. Methods add others (nic_kind.py)."""
NETWORKS: dict[str, type[Mlp | Lstm]] = {"mlp": Mlp, "mlp8": Mlp8, "lstm": Lstm}
ARRAYS = {
    "mlp": ("W0", "W1", "W2"),
    "mlp8": ("W0", "W1", "W2"),
    "lstm": ("W0", "b0", "W1", "b1", "W2", "b2", "W3", "b3"),
}
"""The names of a network's weights and biases, in their order."""
WHOLE = ("inputs", "table")
"""The names of arrays of integers. The others are of floating point numbers."""
SHIPPED = Path(__file__).resolve().parent / "policies"
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class NicPolicy(PolicyFile):
    """A policy that flows of a NIC decide by."""

    OWNER: ClassVar[str] = NIC

    policy: Any
    """The network or trees: an Mlp, Lstm or Trees of RL-CC, or an object of a method's kind."""
    scaling: Scaling = field(default_factory=Scaling)
    """From RL-CC's measurements to inputs. Policies of a method's kind have none."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = asdict(self.scaling)
        wrong = [name for name, value in numbers.items() if not (np.isfinite(value) and 0 <= value < 256)]
        if wrong or not self.scaling.unit > 0 or self.scaling.limit >= 2**14:
            raise AgentError(f"its scaling {numbers} is out of range; target, gain and max_error are above 0, all below 256")
        if self.kind in ("mlp8", "lstm") and self.scaling.limit >= int8.MAX_INPUT:
            raise AgentError(f"its scaling {numbers} lets errors grow to {int8.MAX_INPUT:g} and beyond; lower its max_error")

    @property
    def rlcc(self) -> Mlp | Lstm | Trees:
        """The network or trees of one of RL-CC's policies. Raises AgentError for another method's."""
        if isinstance(self.policy, Mlp | Lstm | Trees):
            return self.policy
        (title,) = (each.title for each in methods.by_name().values() if self.kind in each.nic_policies)
        how = RUN[NIC].format(algorithm=nic_algorithm(self.kind), path="POLICY")
        raise AgentError(f"is a policy of {title}, not of RL-CC; run it with {how}")

    @property
    def kind(self) -> str:
        form = type(self.policy)
        own = (kind for kind, each in {**NETWORKS, "tree": Trees}.items() if each is form)
        return next(own, None) or next(kind for kind, each in nic_kind.added().items() if each.kind().network is form)

    @property
    def _added(self) -> NicKind | None:
        """The method's kind; None of RL-CC's."""
        return None if self.kind in KINDS else nic_kind.added()[self.kind].kind()

    def describe(self) -> str:
        """Describes the policy's form in one line."""
        if (added := self._added) is not None:
            return added.describe(self.policy)
        scaled = self.scaling
        seen = f"target {scaled.target:g}, beta {scaled.beta:g}, gain {scaled.gain:g}"
        if isinstance(self.policy, Trees):
            return f"{size_of_trees(self.policy)}; {seen}"
        shape = {"lstm": "2-32-16-LSTM16-1", "mlp8": "4-12-12-1 in 8 bits"}.get(self.kind, "4-12-12-1")
        return f"{size_of_network(self.policy, shape)}; {seen}"

    def table(self) -> Words:
        """Returns the words that the NIC reads."""
        scaled = self.scaling
        head = [0] * HEAD_WORDS
        number = KINDS[self.kind] if self.kind in KINDS else nic_kind.added()[self.kind].number
        head[:4] = [MAGIC, TABLE_VERSION, number, 0]
        if self.kind in KINDS:
            head[5:9] = [round(value * Q16) for value in (scaled.target, scaled.beta, scaled.gain, scaled.limit)]
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
        made, added = self.policy, self._added
        if isinstance(made, ObliviousTrees):
            numbers: dict[str, Any] = {
                "inputs": made.inputs,
                "borders": made.borders,
                "leaves": made.leaves,
                "bias": np.float64(made.bias),
            }
        else:
            names = ARRAYS[self.kind] if added is None else added.arrays
            numbers = dict(zip(names, made.weights, strict=True))
        entries = {"scaling": asdict(self.scaling)} if added is None else added.entries(made)
        return Payload(entries, numbers | {"table": self.table()})

    @classmethod
    def from_payload(cls, kind: str, payload: Payload, provenance: Mapping[str, Any]) -> NicPolicy:
        arrays = payload.arrays
        for name, array in arrays.items():
            wanted = np.integer if name in WHOLE else np.floating
            if not np.issubdtype(array.dtype, wanted):
                raise AgentError(f"array {name!r} is of {array.dtype}, not of {wanted.__name__} numbers; {GUIDE}")
        if kind in KINDS:
            found = cls(_network(kind, payload), _scaling(payload.entries["scaling"]), provenance)
        else:
            found = cls(nic_kind.added()[kind].kind().read(payload), provenance=provenance)
        if not np.array_equal(arrays["table"], found.table()):
            raise AgentError("its table is not what its numbers give; make it again with this version of dc-gym")
        return found


def size_of_network(made: Any, shape: str) -> str:
    """Describes the size of a network with weights."""
    many = sum(weight.size for weight in made.weights if weight.ndim == 2)
    return f"a network of {shape}, {many} multiplications a decision, {made.packed_bytes()} bytes packed"


def size_of_trees(made: ObliviousTrees) -> str:
    """Describes the size of trees."""
    count = len(made.inputs)
    size = f"{count * trees.DEPTH} compares a decision, {made.packed_bytes()} bytes packed"
    return f"{count} trees of depth {trees.DEPTH}, {size}"


def _network(kind: str, payload: Payload) -> Mlp | Lstm | Trees:
    """Returns RL-CC's network or trees from the numbers of a file."""
    if kind == "tree":
        return Trees.of_arrays(payload.arrays)
    return NETWORKS[kind](tuple(np.asarray(payload.arrays[name], np.float64) for name in ARRAYS[kind]))


def _scaling(entries: Mapping[str, Any]) -> Scaling:
    for name, value in entries.items():
        if not isinstance(value, int | float):
            raise AgentError(f"{name} in its scaling is {value!r}, not a number; {GUIDE}")
    return Scaling(**entries)


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
    folders = (PACKAGE / "methods" / name for name, each in methods.by_name().items() if each.nic_policies)
    return sorted((path for folder in (SHIPPED, *folders) for path in folder.glob("*.npz")), key=lambda path: path.stem)


def path_of(text: str) -> Path:
    """Returns the path of a policy as users give it: the name of one that comes with dc-gym, or a file."""
    return shipped(text) if "." not in text and "/" not in text else Path(text)


def made_alike(made: NicPolicy) -> Mine:
    """Returns a predicate that recognizes a file of a policy that was made from the same source in the same way."""
    names = ("made", "command", "source", "source_sha256")
    return NicPolicy.made_of({name: made.provenance.get(name) for name in names})


def load(algorithm: str, path: Path | None = None) -> NicPolicy:
    """Returns the policy for a run of an algorithm. Raises AgentError if the algorithm runs another kind of policy."""
    found = NicPolicy.read(path or shipped(algorithm))
    runs = nic_algorithm(found.kind)
    if algorithm != runs and (algorithm.startswith("rlcc-") or {algorithm, runs} & nic_kind.added().keys()):
        raise AgentError(f"{path}: is a policy of the kind {found.kind!r}, which {runs} runs; {algorithm} was asked for")
    return found


def read_rlcc(path: Path) -> NicPolicy:
    """Reads one of RL-CC's policies. Raises AgentError if the file holds another method's."""
    found = NicPolicy.read(path)
    try:
        _ = found.rlcc
    except AgentError as error:
        raise AgentError(f"{path}: {error}") from None
    return found


def write_table(table: Words, path: Path) -> None:
    """Writes the words alone, padded with zeros to the NIC's table size, as its loader expects them."""
    with naming(path):
        path.write_bytes(np.pad(table, (0, TABLE_WORDS - len(table))).astype("<u4").tobytes())


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A table as a policy: the NIC's actions, bit for bit. Float inputs are rounded to Q16."""

    words: Words

    def __call__(self, inputs: npt.ArrayLike) -> Floats:
        """Returns the action for each row [..., 4]; for RL-CC's policy with memory, as lstm.second_action does.

        For a method's kind: the output for each row of a flow's first decision.
        """
        x = np.asarray(inputs, np.float64)
        if self.words[2] == KINDS["lstm"]:
            return lstm.second_action(self, x)
        rows = x.reshape(-1, x.shape[-1])
        return self.step(rows, np.zeros((len(rows), self.memory)))[0].reshape(x.shape[:-1])

    @property
    def memory(self) -> int:
        """The count of numbers that the policy stores for each flow."""
        if (added := self._added) is not None:
            return added.memory
        return MEMORY if self.words[2] == KINDS["lstm"] else 0

    @property
    def _added(self) -> NicKind | None:
        """The method's kind of the table; None of RL-CC's."""
        number = int(self.words[2])
        return next((each.kind() for each in nic_kind.added().values() if each.number == number), None)

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory [flows, memory] after them.

        For a method's kind: its outputs for its inputs.
        """
        acted, kept = self.integers(*(np.rint(each * Q16).astype(np.int64) for each in (inputs, memory)))
        return acted / Q16, kept / Q16

    def integers(self, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
        """Computes the same as `step`, in Q16."""
        signed = self.words.view(np.int32).astype(np.int64)
        kind, body = int(signed[2]), signed[HEAD_WORDS:]
        if (added := self._added) is not None:
            return added.integers(body, int(signed[10]), inputs_q16, memory_q16)
        if kind == KINDS["lstm"]:
            return lstm.integer_step(body, inputs_q16, memory_q16)
        if kind == KINDS["tree"]:
            return trees.integer_actions(body, int(signed[10]), inputs_q16), memory_q16
        evaluate = mlp.integer_actions if kind == KINDS["mlp"] else int8.integer_actions
        return evaluate(body, inputs_q16), memory_q16
