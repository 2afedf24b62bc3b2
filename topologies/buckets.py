# SPDX-License-Identifier: Apache-2.0
"""Equal next hops by OpenFlow rules alone, for the host ground: its kernel has no group ports (topologies/ecmp.py).

TCP and UDP packets fall into 256 buckets by the low four bits of both ports. Other packets fall into 16 buckets by the low two
bits of both addresses. A table, seeded by switch, assigns a next hop to each bucket. It is balanced in every row and column, so
that flows to one well-known port spread too. Linux' connect() takes even source ports, which leave half of the rows empty: the
limit of this way (docs/host.md).

The largest group of destinations with equal next hops has its buckets in table 0, below the exact rules. For each other group (a
spine with parallel links to every leaf) an exact rule sets the group's number and continues with the buckets of table 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.ecmp import EXACT_PRIORITY, PORTED, Packet, Router, draw

PORT_MASK = 0xF
"""The low bits of either port, which the rules read."""
ADDRESS_MASK = 0x3
"""The low bits of either address, which rules for other protocols read."""
MOST_NEXT_HOPS = PORT_MASK + 1
PORTED_PRIORITY, OTHER_PRIORITY = 20, 10
"""The buckets of all other destinations in table 0, and the buckets of a group in table 1."""


class Buckets:
    """Chooses among equal next hops as the rules of a Router that has this in the place of a hash do."""

    most = MOST_NEXT_HOPS

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose(self, switch: str, numbers: Sequence[int], packet: Packet) -> int:
        if packet.protocol in PORTED:
            row, column = packet.source_port & PORT_MASK, packet.destination_port & PORT_MASK
            rows, columns = _tables(self.seed, switch, tuple(numbers))
            return numbers[(rows[row] + columns[column]) % len(numbers)]
        row, column = (int(IPv4Address(address)) & ADDRESS_MASK for address in (packet.source, packet.destination))
        return self._of_addresses(switch, numbers, row, column)

    def _of_addresses(self, switch: str, numbers: Sequence[int], near: int, far: int) -> int:
        rows, _ = _tables(self.seed, switch, tuple(numbers))
        return numbers[rows[near * (ADDRESS_MASK + 1) + far] % len(numbers)]

    def rules(self, switch: str, numbers: Sequence[int], group: int) -> Iterator[str]:
        """Yields the rules for one set of next hops: of a group, or (0) of every destination that has no rule of its own."""
        rows, columns = _tables(self.seed, switch, tuple(numbers))
        head = f"table=1,priority={{}},{{}},metadata={group:#x}," if group else "priority={},{},"
        for protocol in PORTED:
            start = head.format(PORTED_PRIORITY, protocol)
            for low, row in enumerate(rows):
                for high, column in enumerate(columns):
                    out = numbers[(row + column) % len(numbers)]
                    yield f"{start}tp_src={low:#x}/{PORT_MASK:#x},tp_dst={high:#x}/{PORT_MASK:#x},actions=output:{out}"
        start, mask = head.format(OTHER_PRIORITY, "ip"), f"0.0.0.{ADDRESS_MASK}"
        for near in range(ADDRESS_MASK + 1):
            for far in range(ADDRESS_MASK + 1):
                out = self._of_addresses(switch, numbers, near, far)
                yield f"{start}nw_src=0.0.0.{near}/{mask},nw_dst=0.0.0.{far}/{mask},actions=output:{out}"


def flows(router: Router) -> dict[str, list[str]]:
    """Returns the rules of each switch as lines for ovs-ofctl. The router chooses by Buckets."""
    spread = router.spread
    if not isinstance(spread, Buckets):
        raise TopologyError("rules with buckets: the router chooses by a hash; route with spread=Buckets")
    return {switch: _flows_of(switch, hops, spread) for switch, hops in router.hops.items()}


def _flows_of(switch: str, hops: Mapping[str, tuple[int, ...]], spread: Buckets) -> list[str]:
    """Returns the exact rules, then the buckets, with the largest group of destinations first."""
    groups: dict[tuple[int, ...], list[str]] = {}
    rules = []
    for address, numbers in hops.items():
        if len(numbers) == 1:
            rules.append(_exact(address, f"output:{numbers[0]}"))
        elif numbers:
            groups.setdefault(numbers, []).append(address)
    largest = max(groups, key=lambda numbers: len(groups[numbers]), default=())
    for group, numbers in enumerate(sorted(groups, key=lambda numbers: numbers != largest)):
        if group:
            rules += [_exact(address, f"write_metadata:{group:#x},goto_table:1") for address in groups[numbers]]
        rules += spread.rules(switch, numbers, group)
    return rules


def _exact(address: str, actions: str) -> str:
    return f"priority={EXACT_PRIORITY},ip,nw_dst={address},actions={actions}"


@lru_cache(maxsize=4096)
def _tables(seed: int, switch: str, numbers: tuple[int, ...]) -> tuple[list[int], list[int]]:
    return _permutation(seed, "ecmp", switch, numbers, "source"), _permutation(seed, "ecmp", switch, numbers, "destination")


def _permutation(seed: int, *labels: object) -> list[int]:
    """Returns a seeded order of 0..15."""
    return sorted(range(MOST_NEXT_HOPS), key=lambda number: draw(seed, *labels, number))
