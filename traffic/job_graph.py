# SPDX-License-Identifier: Apache-2.0
"""A job as a graph: what its ranks compute, send and receive, and what waits for what. Plain columns, a value a node or an edge.

A calc occupies a processor of its rank. A send posts a message, and is done when the receiver has its last byte. A recv is done
when it has begun and its message has arrived. Sends and recvs of two ranks with one tag match in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import WorkloadError

CALC, SEND, RECV = 1, 2, 3
"""Kinds of nodes: enum job_kind of traffic/tgen/job_table.h."""
LARGEST_MESSAGE = 2**40 - 1
NODE_DTYPE = np.dtype(
    [
        *(("amount", "<u8"), ("rank", "<u4"), ("peer", "<u4"), ("tag", "<u4"), ("rep", "<u4"), ("step", "<u4")),
        *(("kind", "u1"), ("cpu", "u1")),
    ]
)
"""amount: ns of a calc, bytes of a message. peer: where a send goes, where a recv comes from. rep, step: the iteration, and the
place in it."""
EDGE_DTYPE = np.dtype([("node", "<u4"), ("waits", "<u4"), ("for_start", "?")])
"""`waits` begins after the end of `node`; with for_start, after its beginning."""
Column = npt.NDArray[Any]


class GraphFault(WorkloadError):
    """A node is wrong. `node` is its number."""

    def __init__(self, node: int, why: str) -> None:
        super().__init__(why)
        self.node = node


@dataclass(frozen=True, eq=False)
class JobGraph:
    """The nodes and edges of a job."""

    ranks: int
    nodes: npt.NDArray[np.void]
    """Of NODE_DTYPE."""
    edges: npt.NDArray[np.void]
    """Of EDGE_DTYPE."""
    bus_bytes: float = 0.0
    """Bytes of an iteration that bus bandwidth counts; 0: it is not known."""

    @property
    def iterations(self) -> int:
        """The number of iterations."""
        return int(self.nodes["rep"].max()) + 1

    @cached_property
    def sends(self) -> Column:
        """The numbers of the sends, and those of the recvs that match them, in two rows."""
        columns = []
        for kind, source, destination in ((SEND, "rank", "peer"), (RECV, "peer", "rank")):
            numbers = np.flatnonzero(self.nodes["kind"] == kind).astype(np.uint32)
            chosen = self.nodes[numbers]
            order = np.lexsort((chosen["tag"], chosen[destination], chosen[source]))
            columns.append((numbers[order], *(chosen[name][order] for name in (source, destination, "tag", "amount"))))
        self._require_match(*columns)
        return np.stack([column[0] for column in columns])

    def _require_match(self, sends: tuple[Column, ...], recvs: tuple[Column, ...]) -> None:
        """Raises GraphFault for the first message, by its ends and tag, that lacks its other end."""
        common = min(len(sends[0]), len(recvs[0]))
        differs = np.zeros(common, bool)
        for of_sends, of_recvs in zip(sends[1:], recvs[1:], strict=True):
            differs |= of_sends[:common] != of_recvs[:common]
        row = int(differs.argmax()) if differs.any() else common
        if row == len(sends[0]) == len(recvs[0]):
            return
        send, recv = (
            tuple(int(column[row]) for column in columns[1:]) if row < len(columns[0]) else None for columns in (sends, recvs)
        )
        if send and recv and send[:3] == recv[:3]:
            raise GraphFault(int(recvs[0][row]), f"recv of {recv[3]} bytes matches a send of {send[3]}; give both one size")
        kind, numbers, end = ("recv", recvs[0], recv) if send is None or (recv and recv < send) else ("send", sends[0], send)
        assert end is not None
        other = "send" if kind == "recv" else "recv"
        why = f"{kind} of {end[3]} bytes from rank {end[0]} to {end[1]}, tag {end[2]}, has no {other}; add it"
        raise GraphFault(int(numbers[row]), why)

    def require_sound(self) -> None:
        """Raises GraphFault if a message lacks an end, or nodes wait for one another in a circle.

        Beginnings and ends are events: a circle of events never happens. The end of node n is event n, its beginning event
        len(nodes) + n.
        """
        count, (sends, recvs) = len(self.nodes), self.sends
        begin = np.arange(count, dtype=np.uint32) + count
        causes = np.concatenate([begin, self.edges["node"] + count * self.edges["for_start"].astype(np.uint32), sends])
        effects = np.concatenate([begin - count, self.edges["waits"] + count, recvs])
        followers, start = successors(causes, effects, 2 * count)
        needs = np.bincount(effects, minlength=2 * count).tolist()
        ready = [event for event, need in enumerate(needs) if not need]
        follows, starts = followers.tolist(), start.tolist()
        for event in ready:  # it grows
            for effect in follows[starts[event] : starts[event + 1]]:
                needs[effect] -= 1
                if not needs[effect]:
                    ready.append(effect)
        if len(ready) < 2 * count:
            node = next(node for node in range(count) if needs[count + node])
            raise GraphFault(node, "it waits for itself, by what it requires and by messages; break the circle")

    def repeated(self, rounds: int) -> JobGraph:
        """Returns so many iterations: a rank begins the next one when all its nodes of the one before have ended.

        A calc of 0 ns, behind the rank's other nodes, stands for that moment.
        """
        if rounds == 1:
            return self
        count, everyone = len(self.nodes), np.arange(self.ranks, dtype=np.uint32)
        ends = np.zeros(self.ranks, NODE_DTYPE)
        ends["kind"], ends["rank"], ends["peer"] = CALC, everyone, everyone
        one = np.concatenate([self.nodes, ends])
        goes_on, begun = np.zeros(count, bool), np.zeros(count, bool)
        goes_on[self.edges["node"][~self.edges["for_start"]]] = begun[self.edges["waits"]] = True
        last, first = np.flatnonzero(~goes_on), np.flatnonzero(~begun)
        within = np.concatenate([self.edges, edges_of(last, count + self.nodes["rank"][last])])
        next_ones = edges_of(count + self.nodes["rank"][first], len(one) + first)
        nodes = np.tile(one, rounds)
        nodes["rep"] = np.repeat(np.arange(rounds, dtype=np.uint32), len(one))
        edges = np.concatenate([_shifted(within, len(one), rounds), _shifted(next_ones, len(one), rounds - 1)])
        return JobGraph(self.ranks, nodes, edges, self.bus_bytes)

    def slowed(self, ranks: Sequence[int], factor: float) -> JobGraph:
        """Returns the same graph whose calcs of `ranks` take `factor` times as long."""
        nodes = self.nodes.copy()
        slow = (nodes["kind"] == CALC) & np.isin(nodes["rank"], ranks)
        nodes["amount"][slow] = np.rint(nodes["amount"][slow] * factor)
        return JobGraph(self.ranks, nodes, self.edges, self.bus_bytes)


def edges_of(node: Any, waits: Any) -> npt.NDArray[np.void]:
    """Returns edges after the end of `node`, a pair each."""
    edges = np.zeros(len(node), EDGE_DTYPE)
    edges["node"], edges["waits"] = node, waits
    return edges


def _shifted(edges: npt.NDArray[np.void], length: int, times: int) -> npt.NDArray[np.void]:
    """Returns the edges of `times` iterations of so many nodes."""
    tiled = np.tile(edges, times)
    offset = np.repeat(np.arange(times, dtype=np.uint32) * length, len(edges))
    tiled["node"] += offset
    tiled["waits"] += offset
    return tiled


def successors(causes: Column, effects: Column, count: int) -> tuple[Column, Column]:
    """Returns the effects sorted by their causes, and where those of each cause begin."""
    order = np.argsort(causes, kind="stable")
    start = np.zeros(count + 1, np.uint32)
    start[1:] = np.cumsum(np.bincount(causes, minlength=count))
    return effects[order], start


@dataclass(frozen=True, eq=False)
class Job:
    """A graph with a host for each rank, and its connections."""

    graph: JobGraph
    hosts: tuple[str, ...]
    """By rank."""
    connections: npt.NDArray[np.void] = field(repr=False)
    """src, dst (ranks), message_bytes (0: of several sizes), total_bytes. Its flows have this order."""
    connection: Column = field(repr=False)
    """The connection of each row of `graph.sends`."""

    @classmethod
    def of(cls, graph: JobGraph, hosts: tuple[str, ...], *, one_size: bool) -> Job:
        """Returns a job. With `one_size` a connection has messages of one size alone, as the NICs' queue pairs."""
        messages = graph.nodes[graph.sends[0]]
        keys = np.zeros(len(messages), [("src", "<u4"), ("dst", "<u4"), ("message_bytes", "<u8"), ("total_bytes", "<u8")])
        keys["src"], keys["dst"] = messages["rank"], messages["peer"]
        if one_size:
            keys["message_bytes"] = messages["amount"]
        order = np.lexsort((keys["message_bytes"], keys["dst"], keys["src"]))
        sorted_keys = keys[order]
        new = np.ones(len(keys), bool)
        new[1:] = sorted_keys[1:] != sorted_keys[:-1]
        number = np.cumsum(new) - 1
        connections = sorted_keys[new]
        np.add.at(connections["total_bytes"], number, messages["amount"][order])
        connection = np.empty(len(keys), np.uint32)
        connection[order] = number
        return cls(graph, hosts, connections, connection)
