# SPDX-License-Identifier: Apache-2.0
"""The capacity of links, from ports.json alone, and the times at which bytes can have arrived.

While a packet is missing, an application reads nothing. When that packet has come, it reads at once everything that waited behind
it. In a figure this burst would look like a rate that no link on the way has. `arrived` computes when those bytes can have
come: as late as the links allow, and no later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.units import MTU_BYTES
from dc_gym.results.metrics.fairness import tcp_share, udp_share
from dc_gym.results.tables import Records, TableSource
from dc_gym.traffic.flows import TRANSPORTS

Floats = npt.NDArray[np.float64]
MOST_LINKS, MOST_PAIRS = 500, 5000
"""Limits: in networks with more links, or for more pairs of hosts, only the hosts' own links are considered."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Payload rates that the network can carry."""

    flow_bps: Floats
    """[flows]: the rate of the widest path between the flow's hosts; infinite where it is not known."""
    total_bps: float
    """The rate that all flows can have together."""

    @classmethod
    def of(cls, tables: TableSource) -> Capacity:
        """Returns the capacity of a run's network between the hosts of its flows."""
        flows, links = tables.flows, _links(tables.ports)
        if links is None or not len(flows):
            return cls(np.full(len(flows), np.inf), np.inf)
        names = tables.names.node
        pairs = [(names[src], names[dst]) for src, dst in zip(flows["src"], flows["dst"], strict=True)]
        distinct = list(dict.fromkeys(pairs))
        share = _payload_share(flows, tables.ports)
        rates_bps = _widest(links, distinct)
        return cls(np.array([rates_bps[pair] for pair in pairs]) * share, _together(links, distinct) * share)


Link = tuple[str, str, float]
"""The two end nodes of a link, and its rate."""


def arrived(received: Floats, edges_ns: Floats, flow_bps: Floats, total_bps: float = np.inf) -> Floats:
    """Returns as [flows, edges] the bytes that had arrived by each edge, each as late as the links allow for later receipts.

    `received`: [flows, edges], bytes. The computation goes backwards from the end: bytes that an interval cannot carry had come
    before it. Where an interval cannot carry the need of all flows together, each flow gets a share in proportion to its need.
    """
    spans_s = np.diff(edges_ns) / 1e9
    arrived_bytes = received.copy()
    for edge in range(len(edges_ns) - 2, 0, -1):
        need = np.minimum(arrived_bytes[:, edge + 1] - received[:, edge], flow_bps / 8 * spans_s[edge])
        room = total_bps / 8 * spans_s[edge]
        needed = float(need.sum())
        arrived_bytes[:, edge] = arrived_bytes[:, edge + 1] - need * (room / needed if needed > room else 1.0)
    return arrived_bytes


def _payload_share(flows: Records, ports: Sequence[Mapping[str, Any]]) -> float:
    """Returns the largest share of a full frame that is payload. RDMA's is smaller than TCP's."""
    mtu_bytes = max((int(port.get("mtu_bytes", MTU_BYTES)) for port in ports), default=MTU_BYTES)
    share = udp_share if (flows["transport"] == TRANSPORTS.index("udp")).any() else tcp_share
    return share(mtu_bytes)


def _links(ports: Sequence[Mapping[str, Any]]) -> list[Link] | None:
    """Returns each link once; None if a port does not name its peer."""
    owner = {str(port["name"]): str(port["owner"]) for port in ports}
    links = dict[frozenset[str], Link]()
    for port in ports:
        if port.get("peer") not in owner:
            return None
        ends = frozenset((str(port["name"]), str(port["peer"])))
        links[ends] = (str(port["owner"]), owner[str(port["peer"])], float(port["rate_bps"]))
    return list(links.values())


class _Parts:
    """The sets of nodes that are connected so far (union-find)."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, node: str) -> str:
        while (above := self._above.get(node, node)) != node:
            self._above[node] = self._above.get(above, above)
            node = above
        return node

    def join(self, a: str, b: str) -> None:
        self._above[self.of(a)] = self.of(b)


def _widest(links: Sequence[Link], pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Returns, for each pair, the rate of the slowest link on its widest path. Links are added from the fastest on."""
    parts, rates_bps, left = _Parts(), dict.fromkeys(pairs, np.inf), list(dict.fromkeys(pairs))
    for rate in sorted({rate for _, _, rate in links}, reverse=True):
        for a, b, link_rate in links:
            if link_rate == rate:
                parts.join(a, b)
        for pair in [pair for pair in left if parts.of(pair[0]) == parts.of(pair[1])]:
            rates_bps[pair] = rate
            left.remove(pair)
    return rates_bps


def _together(links: Sequence[Link], pairs: Sequence[tuple[str, str]]) -> float:
    """Returns the smallest of: the sum of all senders' links, the sum of all receivers' links, and each single link whose removal
    disconnects all pairs."""
    sums = [sum(_own(links, node) for node in {pair[side] for pair in pairs}) for side in (0, 1)]
    between = [link for link in links if len(links) <= MOST_LINKS and len(pairs) <= MOST_PAIRS and _parts_all(link, links, pairs)]
    return min([*sums, *(rate for _, _, rate in between)])


def _own(links: Sequence[Link], node: str) -> float:
    return sum(rate for a, b, rate in links if node in (a, b))


def _parts_all(cut: Link, links: Sequence[Link], pairs: Sequence[tuple[str, str]]) -> bool:
    """Returns whether the other links connect none of the pairs."""
    parts = _Parts()
    for link in links:
        if link is not cut:
            parts.join(link[0], link[1])
    return all(parts.of(src) != parts.of(dst) for src, dst in pairs)
