# SPDX-License-Identifier: Apache-2.0
"""Collective operations as graphs, by the names and algorithms of MPI and NCCL, and trainings that are made of them.

A collective is a list of messages, each in a step: a rank sends when all that it sent and received in its last step before is
done. Nothing is cut into segments. A training is a list of phases. In a phase each rank computes, and then takes part in the
collective of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.traffic.job_graph import CALC, NODE_DTYPE, RECV, SEND, JobGraph, edges_of

Messages = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""Source, destination and step of each message."""


def _ring(ranks: int, steps: int) -> Messages:
    step, source = np.divmod(np.arange(steps * ranks), ranks)
    return source, (source + 1) % ranks, step


def _tree(ranks: int) -> Messages:
    """A binary tree: rank r has the children 2r + 1 and 2r + 2. Up to rank 0, and down again."""
    child = np.arange(1, ranks)
    depth = np.array([(rank + 1).bit_length() for rank in range(1, ranks)]) - 1
    parent, deepest = (child - 1) // 2, int(depth.max())
    up, down = deepest - depth, deepest + depth - 1
    return np.concatenate([child, parent]), np.concatenate([parent, child]), np.concatenate([up, down])


def _halving_doubling(ranks: int) -> Messages:
    """Recursive halving, then doubling: the distance is ranks / 2, ..., 1, 1, ..., ranks / 2."""
    bits = ranks.bit_length() - 1
    distances = [1 << bit for bit in (*reversed(range(bits)), *range(bits))]
    step, source = np.divmod(np.arange(len(distances) * ranks), ranks)
    return source, source ^ np.array(distances)[step], step


def _all_to_all(ranks: int, pairwise: bool) -> Messages:
    """Rank r sends to r + 1, r + 2, ..."""
    before, source = np.divmod(np.arange((ranks - 1) * ranks), ranks)
    return source, (source + before + 1) % ranks, before if pairwise else np.zeros_like(before)


def _broadcast(ranks: int) -> Messages:
    """A binomial tree from rank 0: in step s each rank below 2^s sends to the one 2^s after it."""
    destination = np.arange(1, ranks)
    step = np.array([rank.bit_length() for rank in range(1, ranks)]) - 1
    return destination - (1 << step), destination, step


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective and its algorithm."""

    messages: Callable[[int], Messages]
    parts: Callable[[int, int], int]
    """Returns into how many parts `size` is cut for a message, by ranks and step."""
    bus: Callable[[int], float]
    """Returns the factor of bus bandwidth (PERFORMANCE.md of nccl-tests), by ranks."""
    powers: bool = False
    """True if the number of ranks is a power of two."""


def _whole(ranks: int, step: int) -> int:
    return 1


def _shares(ranks: int, step: int) -> int:
    return ranks


def _halves(ranks: int, step: int) -> int:
    bits = ranks.bit_length() - 1
    return 1 << (step + 1 if step < bits else 2 * bits - step)


def _both_ways(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def _one_way(ranks: int) -> float:
    return (ranks - 1) / ranks


COLLECTIVES = {
    "all_reduce_ring": Collective(lambda n: _ring(n, 2 * (n - 1)), _shares, _both_ways),
    "all_reduce_tree": Collective(_tree, _whole, _both_ways),
    "all_reduce_halving_doubling": Collective(_halving_doubling, _halves, _both_ways, powers=True),
    "all_gather": Collective(lambda n: _ring(n, n - 1), _shares, _one_way),
    "reduce_scatter": Collective(lambda n: _ring(n, n - 1), _shares, _one_way),
    "all_to_all": Collective(lambda n: _all_to_all(n, False), _shares, _one_way),
    "all_to_all_pairwise": Collective(lambda n: _all_to_all(n, True), _shares, _one_way),
    "broadcast": Collective(_broadcast, _whole, lambda n: 1.0),
}
"""The collectives, by their names in workload.collective."""


HIERARCHICAL = "all_reduce_hierarchical"
"""Reduce-scatter among the ranks of a node, all-reduce with their peers of other nodes, all-gather in the node."""
Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Phase:
    """The nodes of a phase of a training, by their numbers."""

    calcs: Column
    """By rank."""
    messages: Column
    """Both ends of each message."""
    of: Column
    """The rank of each of `messages`."""

    def computed(self) -> Phase:
        """Returns the part of the phase that a rank computes: what waits for it does not wait for the collective."""
        return replace(self, messages=self.messages[:0], of=self.of[:0])


class Training:
    """A graph under construction."""

    def __init__(self, ranks: int) -> None:
        """Makes one without phases."""
        self._ranks, self._count, self._rep, self._step = ranks, 0, 0, 0
        self._nodes, self._edges = list[Any](), list[Any]()

    def iterate(self) -> None:
        """Begins the next iteration."""
        self._rep, self._step = self._rep + 1, 0

    def add(self, compute_ns: int, after: Sequence[Phase], name: str = "", size_bytes: int = 0, groups: Any = None) -> Phase:
        """Adds a phase.

        Args:
            compute_ns: The time that each rank computes.
            after: A rank begins when it has done its part of these phases.
            name: The collective that follows; empty: none.
            size_bytes: Its size.
            groups: The ranks that take part, a row a group; None: all ranks are one group.

        Returns:
            The phase.
        """
        members = np.arange(self._ranks)[None] if groups is None else np.asarray(groups)
        size = members.shape[1]
        nodes, within = _iteration(name, size, size_bytes) if name and size > 1 else (np.zeros(0, NODE_DTYPE), None)
        count, total = len(nodes) // 2, len(members) * len(nodes)
        made = np.zeros(self._ranks + total, NODE_DTYPE)
        made["kind"][: self._ranks], made["amount"][: self._ranks] = CALC, compute_ns
        made["rank"][: self._ranks] = made["peer"][: self._ranks] = np.arange(self._ranks)
        of_sends, of_recvs = (self._ranks + np.arange(total).reshape(2, len(members), count)) if total else (members[:, :0],) * 2
        numbers = np.concatenate([members, of_sends, of_recvs], axis=1)  # of the calcs, sends and recvs of each group
        if within is not None:
            made[numbers[:, size:]] = nodes
            for end in ("rank", "peer"):
                made[end][numbers[:, size:]] = members[:, nodes[end]]
            for field in ("tag", "step"):
                made[field][self._ranks :] += self._step
            self._step += int(nodes["step"].max()) + 1
            self._link(*(numbers[:, within[end]].ravel() + self._count for end in ("node", "waits")))
        made["rep"] = self._rep
        calcs, of = self._count + np.arange(self._ranks), made["rank"][self._ranks :].astype(np.int64)
        for phase in after:
            idle = np.setdiff1d(np.arange(self._ranks), phase.of)
            self._link(np.concatenate([phase.messages, phase.calcs[idle]]), calcs[np.concatenate([phase.of, idle])])
        self._nodes.append(made)
        self._count += len(made)
        return Phase(calcs, calcs[-1] + 1 + np.arange(total), of)

    def graph(self, bus_bytes: float = 0.0) -> JobGraph:
        """Returns the whole graph."""
        return JobGraph(self._ranks, np.concatenate(self._nodes), np.concatenate(self._edges), bus_bytes)

    def _link(self, node: Column, waits: Column) -> None:
        self._edges.append(edges_of(node, waits))


def graph(name: str, ranks: int, size_bytes: int, rounds: int, compute_ns: int, local_ranks: int = 1) -> JobGraph:
    """Returns `rounds` iterations of a collective; `local_ranks` ranks are a node of HIERARCHICAL.

    A rank begins an iteration with a calc, when all that it sent and received in the one before is done.
    """
    training, last = Training(ranks), list[Phase]()
    nodes = np.arange(ranks).reshape(-1, local_ranks)
    phases: list[tuple[str, int, Any]] = [(name, size_bytes, None)]
    if name == HIERARCHICAL:
        share = -(-size_bytes // local_ranks)
        phases = [("reduce_scatter", size_bytes, nodes), ("all_reduce_ring", share, nodes.T), ("all_gather", size_bytes, nodes)]
    for rep in range(rounds):
        if rep:
            training.iterate()
        for number, phase in enumerate(phases):
            last = [training.add(0 if number else compute_ns, last, *phase)]
    return training.graph((_both_ways if name == HIERARCHICAL else COLLECTIVES[name].bus)(ranks) * size_bytes)


@cache
def _messages(name: str, ranks: int) -> tuple[Column, Column, Column, Column]:
    """Returns source, destination and step of each message of a collective, and into how many parts its size is cut."""
    source, destination, step = COLLECTIVES[name].messages(ranks)
    parts = np.array([COLLECTIVES[name].parts(ranks, number) for number in range(int(step.max()) + 1)])[step]
    return source, destination, step, parts


@cache
def _waits(name: str, ranks: int) -> Column:
    """Returns the edges among a collective's calcs, sends and recvs, which have their numbers in this order."""
    source, destination, step, _ = _messages(name, ranks)
    return np.concatenate([_requires(source, destination, step, ranks), _begins(destination, ranks, len(step))])


def _iteration(name: str, ranks: int, size_bytes: int) -> tuple[Column, Column]:
    """Returns the sends of a collective, then its recvs, and `_waits`."""
    source, destination, step, parts = _messages(name, ranks)
    nodes = np.zeros(2 * len(step), NODE_DTYPE)
    nodes["kind"] = np.repeat([SEND, RECV], len(step))
    nodes["rank"], nodes["peer"] = np.concatenate([source, destination]), np.concatenate([destination, source])
    nodes["amount"] = np.tile(-(-size_bytes // parts), 2)
    nodes["tag"] = nodes["step"] = np.tile(step, 2)
    return nodes, _waits(name, ranks)


def _requires(source: Any, destination: Any, step: Any, ranks: int) -> Any:
    """Returns what sends wait for: the messages of their rank in the last step before, or its calc where there is none."""
    steps, count = int(step.max()) + 1, len(step)
    moment = np.concatenate([source, destination]) * steps + np.tile(step, 2)
    order = np.argsort(moment, kind="stable")
    moments = moment[order]
    last = np.searchsorted(moments, moment[:count]) - 1
    has = (last >= 0) & (moments[last] // steps == source)
    first = np.searchsorted(moments, moments[last])
    length = np.where(has, last - first + 1, 0)
    sends = np.repeat(np.arange(count), length)
    within = np.arange(len(sends)) - np.repeat(np.cumsum(length) - length, length)
    after_messages = edges_of(ranks + order[np.repeat(first, length) + within], ranks + sends)
    return np.concatenate([after_messages, edges_of(source[~has], ranks + np.flatnonzero(~has))])


def _begins(destination: Any, ranks: int, count: int) -> Any:
    """Returns what recvs wait for: their rank's calc."""
    return edges_of(destination, ranks + count + np.arange(count))
