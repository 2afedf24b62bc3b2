# SPDX-License-Identifier: Apache-2.0
"""The times for which a ground waits before and after traffic. They follow from the network's delays, rates and queues.

Before traffic one frame crosses each path, so that switches learn it. After an episode all frames under way arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.topologies.graph import Cable, Graph
from dc_gym.topologies.paths import BIT_NS, longest_ns

S, MS = 10**9, 10**6
WARM_BYTES = 128
"""Room of a warming frame in a queue. Its 60 bytes are charged with at most this many, telemetry included."""
MOST_IN_BURST = 64
"""Frames after which a switch gets a moment: the socket on which Open vSwitch hears of unknown packets holds about 200."""
LEAST_GAP_NS, LEAST_SETTLE_NS = 1 * MS, 100 * MS
"""The times that a switch gets for a burst, and for the last frames, however fast the links are."""
FRAMES_PER_FLOW = 4
LAB_T0_NS, ROOM_NS = 20 * S, 5 * S
"""The default of `lab.t0`, and the time that it has for warming."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The times of a network."""

    warm_burst: int
    """Warming frames that are sent at once: all fit into the smallest queue."""
    warm_gap_ns: int
    """Pause after them: the slowest link has sent them by then."""
    warm_settle_ns: int
    """Wait after the last one: twice the longest path, since switches learn it meanwhile."""
    drain_ns: int
    """Time in which full queues drain and all frames arrive, and their answers too."""

    @classmethod
    def of(cls, graph: Graph) -> Waits:
        smallest = min((port.queue.limit_bytes for port in graph.ports()), default=0)
        slowest_bps = min((cable.rate_bps for cable in graph.cables), default=BIT_NS)
        burst = max(1, min(MOST_IN_BURST, smallest // WARM_BYTES))

        def crossed_ns(cable: Cable) -> int:
            return cable.delay_ns + burst * WARM_BYTES * BIT_NS // cable.rate_bps

        return cls(
            warm_burst=burst,
            warm_gap_ns=max(LEAST_GAP_NS, burst * WARM_BYTES * BIT_NS // slowest_bps),
            warm_settle_ns=max(LEAST_SETTLE_NS, 2 * longest_ns(graph, crossed_ns)),
            drain_ns=2 * longest_ns(graph, _drained_ns),
        )

    def warm_ns(self, flows: int) -> int:
        """Returns the time that warming takes for so many flows at most."""
        return FRAMES_PER_FLOW * flows // self.warm_burst * self.warm_gap_ns + self.warm_settle_ns

    def t0_ns(self, asked_ns: int, flows: int) -> int:
        """Returns a lab's t0: `asked_ns`, or later by whole seconds where warming takes longer than its room."""
        late_ns = self.warm_ns(flows) - ROOM_NS
        return asked_ns if late_ns <= 0 else max(asked_ns, LAB_T0_NS - (-late_ns // S) * S)


def _drained_ns(cable: Cable) -> int:
    queued_bytes = max(cable.a.queue.limit_bytes, cable.b.queue.limit_bytes)
    impairment = cable.impairment
    return cable.delay_ns + impairment.jitter_ns + impairment.reorder_delay_ns + queued_bytes * BIT_NS // cable.rate_bps
