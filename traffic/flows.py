# SPDX-License-Identifier: Apache-2.0
"""A requested flow. Workloads make requested flows, and the schedule turns them into flows that tgen runs. Plain data.

Times are ns, sizes payload bytes, rates bit/s of payload. A flow may wait at a *gate*. A gate opens when every flow that names it
in `opens` has ended. Repetitions, rounds, and requests with answers are made with gates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dc_gym.base.errors import WorkloadError
from dc_gym.base.spelling import unknown

if TYPE_CHECKING:
    from dc_gym.traffic.job_graph import Job

LARGEST_PORT = 65535
LARGEST = 2**60  # largest ns, bytes and bit/s that tgen accepts
MOST_FLOWS = 2**20
LARGEST_DSCP = 63
NO_GATE = -1
TRANSPORTS = ("tcp", "udp", "rdma", "uec")
"""The order is part of the digest: new ones go to the end."""
NIC_TRANSPORTS = ("rdma", "uec")
"""Transports of the hosts' NICs."""
RDMA_PORT = 4791
"""RoCEv2's UDP port, to which all flows of the NICs go."""
MOST_ENTROPIES = 256
"""NIC_ENTROPIES_MAX of ctrl/nic/shim.h: most entropy values of a flow over uec, which are added to its source port bit by bit."""
GAPS = ("exact", "uniform", "exponential")
GROUPS = (
    *("flow", "background", "query", "response", "short", "long", "read", "write", "replica"),
    *("push", "pull", "ring", "connection"),
)
"""The purpose of a flow. Metrics distinguish flows by it. The order is part of the digest: new ones go to the end."""


@dataclass(frozen=True, slots=True)
class FlowRequest:
    """A requested flow."""

    src: str
    dst: str
    dst_port: int
    start_ns: int = 0  # after t0, or after its gate opens
    stop_ns: int = 0  # after t0; 0: no time limit
    size_bytes: int = 0  # payload; 0: no limit
    rate_bps: int = 0  # payload offered by the application; 0: no limit
    length_ns: int = 0  # after its start; 0: no limit
    gaps: str = "exact"  # between the chunks of a flow with a rate
    transport: str | None = None  # one of TRANSPORTS; None: workload.transport
    dscp: int | None = None  # in the IP header of its packets and of their answers; None: workload.dscp
    group: str = "flow"
    rep: int = 0  # number of its repetition or round
    gate: int = NO_GATE
    opens: tuple[int, ...] = ()
    spare: bool = False  # True for the tail of endless repetitions: left out of the results if it never starts
    workload: int = 0  # number of its workload: 0 for [workload], 1 for the first of [[workload.beside]]
    message_bytes: int = 0  # size of each of its messages over RDMA; 0: all is one message
    job: Job | None = field(default=None, compare=False, repr=False)  # the job of which it is a connection

    def __post_init__(self) -> None:
        if why := self._fault():
            raise WorkloadError(f"flow {self.src} to {self.dst}: {why}")

    @property
    def by_nic(self) -> bool:
        """True if the hosts' NICs send it."""
        return self.transport in NIC_TRANSPORTS

    def over_nic(self) -> FlowRequest:
        """Returns the same flow as a NIC sends it."""
        return replace(self, dst_port=RDMA_PORT)

    def _fault(self) -> str:
        """Describes the fault of the flow; '' if there is none."""
        if self.src == self.dst:
            return f"destination {self.dst!r} is the source; name two hosts"
        amounts = (self.start_ns, self.stop_ns, self.size_bytes, self.rate_bps, self.length_ns)
        numbers = (self.dst_port, self.rep, self.gate, self.dscp or 0, *self.opens, *amounts)
        if not {int}.issuperset(map(type, numbers)) and (why := self._fraction()):
            return why
        if not 1 <= self.dst_port <= LARGEST_PORT:
            return f"port {self.dst_port} is not in 1..{LARGEST_PORT}; choose one that is"
        if min(amounts) < 0 or max(amounts) > LARGEST:
            return f"start, stop, size, rate, length {amounts} are not all in 0..{LARGEST}; give others"
        if 0 < self.stop_ns <= self.start_ns and self.gate == NO_GATE:
            return f"stop_ns {self.stop_ns} is not after start_ns {self.start_ns}; stop later"
        if self.dscp is not None and not 0 <= self.dscp <= LARGEST_DSCP:
            return f"dscp {self.dscp} is not in 0..{LARGEST_DSCP}; choose one that is"
        for value, known in ((self.gaps, GAPS), (self.transport or "tcp", TRANSPORTS), (self.group, GROUPS)):
            if value not in known:
                return unknown("value", value, known)
        if self.transport == "udp" and not self.rate_bps:
            return "transport 'udp' needs a rate; give workload.rate"
        return ""

    def _fraction(self) -> str:
        """Returns which number is no integer, or '' if all are. NumPy's integers count."""
        numbers = ("dst_port", "start_ns", "stop_ns", "size_bytes", "rate_bps", "length_ns", "rep", "gate", "opens", "dscp")
        for name in numbers:
            value = getattr(self, name)
            for number in value if name == "opens" else (value,):
                if number is not None and not hasattr(number, "__index__"):
                    return f"{name} {number!r} is not an integer; make it an int"
        return ""
