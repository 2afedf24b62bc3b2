# SPDX-License-Identifier: Apache-2.0
"""Workloads of SimAI as AICB writes them: the text format of astra-sim 1, a layer a line, for transformers.

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 1 ... all_gpus: 16 ...
    2
    NAME -1 FORWARD_NS COLLECTIVE BYTES GRADIENT_NS COLLECTIVE BYTES WEIGHT_NS COLLECTIVE BYTES UPDATE_NS

Forward, each rank computes the layers in their order, each with its collective. Backward it takes them from the last one: the
gradient of the layer's input with its collective, then that of its weights, whose collective nothing waits for before the end of
the iteration (Workload.cc of SimAI @cef83f9). Collectives forward and of inputs are of the tensor-parallel group, those of
weights of the data-parallel group; with `_EP` they are of the experts, with `_DP_EP` of the peers of an expert. Ranks have
Megatron's order: tensor, experts, data. Sizes are of the whole tensor. Collectives are rings; all-to-alls send all at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import bounded
from dc_gym.traffic.flows import LARGEST
from dc_gym.traffic.job_collectives import COLLECTIVES, Phase, Training
from dc_gym.traffic.job_files import fault
from dc_gym.traffic.job_graph import LARGEST_MESSAGE, JobGraph

POLICIES = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER")
KINDS = {"ALLREDUCE": "all_reduce_ring", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter", "ALLTOALL": "all_to_all"}
PLAIN, EXPERTS, PEERS = "", "_EP", "_DP_EP"
PARTS = ("forward", "gradient", "weight")
COLUMNS = 12
MOST_GPUS, MOST_NODES = 1 << 14, 1 << 24


@dataclass(frozen=True, slots=True)
class Part:
    """What a layer does forward, for its input's gradient, or for that of its weights."""

    compute_ns: int
    collective: str
    group: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SimaiReader:
    """The format."""

    name: str = "simai"
    title: str = "SimAI's workload (AICB)"

    def recognizes(self, head: bytes) -> bool:
        """Returns whether the file names how a training is parallel."""
        return head.lstrip().startswith(b"HYBRID_TRANSFORMER")

    def read(self, path: Path) -> JobGraph:
        """Returns the job of a file."""
        bounded.require(f"{path}:", path.stat().st_size, bounded.TABLE_BYTES)
        return _Parser(path).graph()


class _Parser:
    """A file being read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = path.read_text(encoding="utf-8-sig").splitlines()

    def graph(self) -> JobGraph:
        groups = self._groups(self._lines[0].split())
        words = self._lines[1].split() if len(self._lines) > 1 else []
        count = self._number(words[0] if len(words) == 1 else "", 2, "number of layers", 1, len(self._lines) * COLUMNS)
        rows = [(at, line.split()) for at, line in enumerate(self._lines[2:], 3) if line.strip()]
        if len(rows) < count:
            raise self._fault(len(self._lines), f"the file ends after {len(rows)} of {count} layers; get it whole")
        layers = [self._layer(at, row) for at, row in rows[:count]]
        self._require_bound(layers, groups)
        training, last = Training(groups[PLAIN, False].size), list[Phase]()

        def add(part: Part, *, weights: bool = False) -> Phase:
            members = groups[part.group, weights]
            return training.add(part.compute_ns, last, part.collective, part.size_bytes, members)

        for forward, _, _ in layers:
            last = [add(forward)]
        for _, gradient, weight in reversed(layers):
            last = [add(gradient)]
            last = [add(weight, weights=True).computed()]
        return training.graph()

    def _groups(self, words: list[str]) -> dict[tuple[str, bool], npt.NDArray[Any]]:
        """Returns the ranks of each group, a row a group, by the end of the collective's word and whether it is of weights."""
        if words[0] not in POLICIES:
            raise self._fault(1, f"{words[0]!r} is not one of: {', '.join(POLICIES)}; give a workload of AICB")
        values = dict(pairwise(words))
        sizes = {
            name: self._number(values.get(f"{name}:", default), 1, f"{name}:", low, MOST_GPUS)
            for name, default, low in (
                *(("model_parallel_NPU_group", "", 1), ("ep", "1", 1), ("pp", "1", 1), ("all_gpus", "", 2)),
                *(("checkpoints", "0", 0), ("checkpoint_initiates", "0", 0)),
            )
        }
        for name, alone in (("pp", 1), ("checkpoints", 0), ("checkpoint_initiates", 0)):
            if sizes[name] != alone:
                raise self._fault(1, f"{name}: {sizes[name]} is not read; give a workload with {name}: {alone}")
        tensor, experts, ranks = sizes["model_parallel_NPU_group"], sizes["ep"], sizes["all_gpus"]
        if ranks % (tensor * experts):
            raise self._fault(1, f"all_gpus: {ranks} is no multiple of {tensor} x {experts} (tensor, ep); give one that is")
        order = np.arange(ranks).reshape(-1, experts, tensor)  # peers of an expert, experts, tensor
        by_experts, by_peers = (
            order.transpose(0, 2, 1).reshape(-1, experts),
            order.transpose(1, 2, 0).reshape(experts * tensor, -1),
        )
        by_data = order.transpose(2, 0, 1).reshape(tensor, -1)
        both = {EXPERTS: by_experts, PEERS: by_peers}
        return {
            **{(group, weights): members for group, members in both.items() for weights in (False, True)},
            (PLAIN, False): order.reshape(-1, tensor),
            (PLAIN, True): by_data,
        }

    def _layer(self, at: int, row: list[str]) -> tuple[Part, ...]:
        """Returns what a layer does in each of PARTS."""
        if len(row) != COLUMNS:
            raise self._fault(at, f"a layer has {COLUMNS} columns, this one {len(row)}; write each")
        return tuple(self._part(at, name, row[2 + 3 * place : 5 + 3 * place]) for place, name in enumerate(PARTS))

    def _part(self, at: int, name: str, row: list[str]) -> Part:
        compute_ns = self._number(row[0], at, f"{name} computation", 0, LARGEST)
        size_bytes = self._number(row[2], at, f"{name} bytes", 0, LARGEST_MESSAGE)
        kind = next((kind for kind in KINDS if row[1].startswith(kind)), None)
        if row[1] == "NONE" or (kind and not size_bytes):
            return Part(compute_ns, "", PLAIN, 0)
        if kind is None or (group := row[1].removeprefix(kind)) not in (PLAIN, EXPERTS, PEERS):
            known = f"{', '.join(KINDS)}, each alone or with {EXPERTS} or {PEERS}"
            raise self._fault(at, f"{name} collective {row[1]!r} is not one of NONE, {known}; write one of these")
        return Part(compute_ns, KINDS[kind], group, size_bytes)

    def _require_bound(self, layers: list[tuple[Part, ...]], groups: dict[tuple[str, bool], npt.NDArray[Any]]) -> None:
        """Raises an error for a job that is too large to be held."""
        ranks, nodes = groups[PLAIN, False].size, 0
        for layer in layers:
            for place, part in enumerate(layer):
                size = groups[part.group, place == len(PARTS) - 1].shape[1]
                steps = 2 * (size - 1) if part.collective == KINDS["ALLREDUCE"] else size - 1
                nodes += ranks * (1 + 2 * steps * (part.collective in COLLECTIVES))
        if nodes > MOST_NODES:
            raise self._fault(None, f"it has {nodes} nodes, and the most is {MOST_NODES}; give fewer layers or GPUs")

    def _number(self, word: str, at: int, name: str, low: int, high: int) -> int:
        if not word.isdecimal() or len(word) > 20 or not low <= int(word) <= high:
            raise self._fault(at, f"{name} {word or 'without a number'} is not a whole number in {low}..{high}")
        return int(word)

    def _fault(self, line: int | None, why: str) -> Exception:
        return fault(self._path, line, why)


READER = SimaiReader()
