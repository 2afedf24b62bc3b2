# SPDX-License-Identifier: Apache-2.0
"""Collective operations as graphs, by the names and algorithms of MPI and NCCL.

A collective is a list of messages, each in a step: a rank sends when all that it sent and received in its last step before is
done. Nothing is cut into segments. A rank begins an iteration with a calc, when all that it sent and received in the one
before is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.traffic.job_graph import CALC, EDGE_DTYPE, NODE_DTYPE, RECV, SEND, JobGraph

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


def graph(name: str, ranks: int, size_bytes: int, rounds: int, compute_ns: int) -> JobGraph:
    """Returns `rounds` iterations of a collective."""
    collective = COLLECTIVES[name]
    source, destination, step = collective.messages(ranks)
    parts = np.array([collective.parts(ranks, number) for number in range(int(step.max()) + 1)])[step]
    one, count = _iteration(ranks, source, destination, step, -(-size_bytes // parts)), len(step)
    one["amount"][:ranks] = compute_ns
    nodes = np.tile(one, rounds)
    nodes["rep"] = np.repeat(np.arange(rounds, dtype=np.uint32), len(one))
    within = np.concatenate([_requires(source, destination, step, ranks), _begins(destination, ranks, count)])
    between = _ends(source, destination, ranks, len(one))
    edges = [_shifted(within, len(one), rounds), _shifted(between, len(one), rounds - 1)]
    return JobGraph(ranks, nodes, np.concatenate(edges), collective.bus(ranks) * size_bytes)


def _iteration(ranks: int, source: Any, destination: Any, step: Any, amounts: Any) -> Any:
    """Returns the nodes of an iteration: a calc for each rank, then the sends, then the recvs."""
    count = len(step)
    nodes = np.zeros(ranks + 2 * count, NODE_DTYPE)
    nodes["kind"] = np.repeat([CALC, SEND, RECV], [ranks, count, count])
    nodes["rank"] = np.concatenate([np.arange(ranks), source, destination])
    nodes["peer"] = np.concatenate([np.arange(ranks), destination, source])
    nodes["amount"][ranks:] = np.tile(amounts, 2)
    nodes["tag"][ranks:] = nodes["step"][ranks:] = np.tile(step, 2)
    return nodes


def _edges(node: Any, waits: Any) -> Any:
    edges = np.zeros(len(node), EDGE_DTYPE)
    edges["node"], edges["waits"] = node, waits
    return edges


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
    after_messages = _edges(ranks + order[np.repeat(first, length) + within], ranks + sends)
    return np.concatenate([after_messages, _edges(source[~has], ranks + np.flatnonzero(~has))])


def _begins(destination: Any, ranks: int, count: int) -> Any:
    """Returns what recvs wait for: their rank's calc."""
    return _edges(destination, ranks + count + np.arange(count))


def _ends(source: Any, destination: Any, ranks: int, length: int) -> Any:
    """Returns what the calcs of the next iteration wait for: all messages of their ranks."""
    return _edges(ranks + np.arange(2 * len(source)), length + np.concatenate([source, destination]))


def _shifted(edges: Any, length: int, times: int) -> Any:
    """Returns the edges of `times` iterations of so many nodes."""
    tiled = np.tile(edges, times)
    offset = np.repeat(np.arange(times, dtype=np.uint32) * length, len(edges))
    tiled["node"] += offset
    tiled["waits"] += offset
    return tiled
