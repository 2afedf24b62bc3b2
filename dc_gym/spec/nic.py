# SPDX-License-Identifier: Apache-2.0
"""`[nic]`: the hosts' NICs, for runs in which controller.name is an algorithm of the NIC (docs/nic.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.amount import Size
from dc_gym.base.key import AMOUNT, ARGS, COUNT, KB, NIC_POLICY, SHARE_PPM, SIZE, TEXT, TIME, US, KeyFault, S, check, key
from dc_gym.base.units import ETHERNET_BYTES, FRAME_BYTES, PPM
from dc_gym.ctrl import controllers
from dc_gym.topologies.graph import LARGEST_MTU_BYTES
from dc_gym.traffic.flows import LARGEST_DSCP, MOST_ENTROPIES

FRAME_HEADERS_BYTES = 74
"""Bytes of headers in a frame: Ethernet 14, IPv4 20, UDP 8, the NIC's header 32 (ctrl/nic/shim.h)."""
RETRANSMITS = ("go-back-n", "selective")
BALANCERS = ("oblivious", "bitmap", "reps")
ENTROPIES = 64
"""path_entropy_size of uet-htsim @40ccb05, datacenter/main_uec.cpp:75."""
QUEUE_PAIRS = ("flow", "hosts")
TRACES = ("off", "changes", "all")
DECISIONS = ("side-by-side", "in-turn")
PACINGS = ("token", "spaced")
ENGINES = ("native", "bpf")
"""Names of the numbers in ctrl/nic/shim.h."""
LONGEST_NS = 1 * S
LEAST_LINE_BPS = 100_000
MOST_INFLIGHT_BYTES = 2**31 - 1
MOST_COALESCED = 1 << 16
"""The limit in ctrl/nic/nics.c."""
MOST_QUEUED = 256
"""NIC_QUEUE_MAX of ctrl/nic/shim.h."""


def tcps() -> tuple[str, ...]:
    """Returns the TCPs that a NIC may cap: TCPs that do not read marks themselves."""
    known = [controller for name in controllers.names() if (controller := controllers.find(name))]
    return tuple(controller.name for controller in known if not controller.nic and not controller.ecn)


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    """`[nic]`: the hosts' NICs, if controller.name is one of their algorithms.

    None means that the value follows from the network, or is the algorithm's default.
    """

    tcp: str | None = key(
        TEXT,
        names=tcps,
        otherwise="RDMA flows",
        help="the NICs cap the hosts' TCP of this kind in place of RDMA flows: [TCP under a NIC](nic.md#tcp-under-a-nic); "
        "only in a lab, and not with an algorithm that needs ACKs",
    )
    latency_ns: int = key(
        TIME, 0, name="latency", low=0, high=LONGEST_NS, help="time from an event until the algorithm's decision takes effect"
    )
    decisions: str = key(
        TEXT,
        "side-by-side",
        names=lambda: DECISIONS,
        help="under `latency`, how one NIC decides for several flows: `side-by-side`, as if each flow had a processor of "
        "its own, or `in-turn`, one after the other",
    )
    cnp_interval_ns: int | None = key(
        TIME,
        name="cnp_interval",
        low=0,
        high=LONGEST_NS,
        otherwise="the preset's, else 50 us at 100 Gbit/s",
        help="a receiver sends at most one CNP per flow in this time (the DCQCN paper's N). In proportion to a packet's "
        "serialization time: 5 ms at 1 Gbit/s",
    )
    nack_interval_ns: int | None = key(
        TIME,
        name="nack_interval",
        low=0,
        high=10 * S,
        otherwise="a full round trip",
        help="minimum time before a receiver asks for the same packet again; a full round trip is the base round trip "
        "plus the time that the longest queue takes to drain",
    )
    timeout_ns: int | None = key(
        TIME,
        name="timeout",
        low=1 * US,
        high=10 * S,
        otherwise="2 full round trips, at least 1 ms",
        help="time after which a sender repeats the first unacknowledged packet, with `go-back-n` all behind it, too; doubles "
        "each time",
    )
    timeout_max_ns: int | None = key(
        TIME,
        name="timeout_max",
        low=1 * US,
        high=100 * S,
        otherwise="64 times `timeout`, up to 100 s",
        help="maximum of that timeout",
    )
    probe_timeout_ns: int | None = key(
        TIME,
        name="probe_timeout",
        low=1 * US,
        high=10 * S,
        otherwise="`timeout`",
        help="time after which a probe counts as lost; doubles each time, too",
    )
    probe_timeout_max_ns: int | None = key(
        TIME,
        name="probe_timeout_max",
        low=1 * US,
        high=100 * S,
        otherwise="4 times `probe_timeout`, up to 100 s",
        help="maximum of that timeout",
    )
    ack_packets: int = key(
        COUNT, 1, low=1, high=1024, help="packets per ACK; the last packet of a message is always acknowledged"
    )
    burst_packets: int = key(
        COUNT, 1, name="burst", low=1, high=64, help="packets that leave together at line rate and make one TX event"
    )
    pacing: str | None = key(
        TEXT,
        names=lambda: PACINGS,
        otherwise='the preset\'s, else "token"',
        help="`token`: a late packet makes the next one early, by at most itself, so that the rate holds; `spaced`: packets "
        "keep their distance, as in [HPCC's simulator](peers.md#hpcc-and-its-authors-simulator)",
    )
    retransmit: str | None = key(
        TEXT,
        names=lambda: RETRANSMITS,
        otherwise="`go-back-n`; with transport `uec` `selective`",
        help="`go-back-n`, or `selective`: only missing packets are sent again",
    )
    balancer: str | None = key(
        TEXT,
        names=lambda: BALANCERS,
        otherwise="`oblivious`",
        help="how transport `uec` [chooses a packet's entropy value](nic.md#spraying): `oblivious`, `bitmap` or `reps`",
    )
    entropies: int | None = key(
        COUNT,
        low=1,
        high=MOST_ENTROPIES,
        otherwise="64",
        help="entropy values of a flow over `uec`, a power of two (uet-htsim: `-paths`)",
    )
    payload_bytes: int | None = key(
        SIZE,
        name="payload",
        low=1,
        high=LARGEST_MTU_BYTES + ETHERNET_BYTES - FRAME_HEADERS_BYTES,
        otherwise="what a full frame has room for: 1440 B of 1514 B on the cable, 1398 B with telemetry",
        help="payload of a full packet (RoCE: 1024 B, or 4096 B with a larger `topology.mtu`)",
    )
    ack_dscp: int | None = key(
        COUNT,
        low=0,
        high=LARGEST_DSCP,
        otherwise="the flow's",
        help="DSCP of ACKs, NACKs and answers to probes, which [have a class of their own](nic.md#classes-of-answers) by it",
    )
    cnp_dscp: int | None = key(COUNT, low=0, high=LARGEST_DSCP, otherwise="`ack_dscp`", help="DSCP of CNPs, likewise")
    inflight_bytes: Size | None = key(
        AMOUNT,
        name="inflight",
        low=FRAME_BYTES,
        high=MOST_INFLIGHT_BYTES,
        otherwise="no limit",
        help="most bytes of frames that a flow may have unacknowledged, whatever its algorithm's window: bytes, `p` (frames) or "
        "`bdp` (the line rate of the flow's NIC times its base round trip); at least one frame",
    )
    message_bytes: int = key(
        SIZE,
        64 * KB,
        name="message",
        low=1,
        high=2**31,
        help="size of the WRITEs of a flow without a size; a flow with a size is one WRITE",
    )
    queue_pairs: str = key(
        TEXT,
        "flow",
        names=lambda: QUEUE_PAIRS,
        help="`flow`: each flow has a queue pair of its own and begins afresh; `hosts`: the flows from one host to "
        "another share one queue pair, and [each takes over what the one before left](nic.md#queue-pairs-that-last)",
    )
    preset: str | None = key(TEXT, help="a named set of the algorithm's parameters, such as `paper` (`dcgym nic show NAME`)")
    parameters: tuple[tuple[str, Any], ...] = key(
        ARGS,
        (),
        otherwise="none",
        help="single parameters that override the preset's: `{ name = value }` in the units of `dcgym nic show NAME`; to "
        "set just one: `--set nic.parameters.NAME=...`, likewise in a sweep",
    )
    policy: str | Path | None = key(
        NIC_POLICY,
        otherwise="the built-in one",
        help="policy of an algorithm that has a table: a file, relative to the spec, or the name of [one that "
        "ships](rlcc.md#what-ships)",
    )
    trace: str = key(
        TEXT,
        "changes",
        names=lambda: TRACES,
        help="which [decisions](results.md#decisionsparquet) to record: `changes`, `all` (also packets that changed "
        "nothing, so it shows when each left), or `off`",
    )
    engine: str | None = key(
        TEXT,
        names=lambda: ENGINES,
        otherwise="`native` in a lab, `bpf` for a header of yours and on the host ground",
        help="how the data path runs: `native`, as machine code of the lab kernel, or `bpf`; [the decisions are "
        "equal](nic.md#native-code)",
    )
    event_loss_ppm: int = key(
        SHARE_PPM, 0, name="event_loss", low=0, high=PPM, help="share of events that never reach the algorithm"
    )
    event_coalesce: int = key(
        COUNT,
        1,
        low=1,
        high=MOST_COALESCED,
        help="number of CNP, ACK and NACK events that are merged into one before the algorithm gets it",
    )
    event_cost_ns: int = key(
        TIME,
        0,
        name="event_cost",
        low=0,
        high=LONGEST_NS,
        help="time that each event takes of a NIC's processor, whatever the algorithm answers; `latency` comes on top where the "
        'answer changes something; needs `decisions = "in-turn"`',
    )
    event_queue: int | None = key(
        COUNT,
        low=1,
        high=MOST_QUEUED,
        otherwise="no limit",
        help="most events that wait for a NIC's processor or are dealt with by it; an event that finds so many is "
        '[lost](nic.md#one-processor-for-all-flows); needs `decisions = "in-turn"`',
    )

    @property
    def keeps_pairs(self) -> bool:
        """True if flows between two hosts follow one another in one queue pair."""
        return self.queue_pairs == "hosts"

    def __post_init__(self) -> None:
        check(self, "nic.")
        if self.entropies is not None and self.entropies & (self.entropies - 1):
            raise KeyFault("nic.entropies", self.entropies, f"is no power of two; give one of 1, 2, 4, ... {MOST_ENTROPIES}")
        if self.decisions != "in-turn":
            for name, value in (("event_cost", self.event_cost_ns), ("event_queue", self.event_queue)):
                if value:
                    raise KeyFault(f"nic.{name}", value, 'needs nic.decisions = "in-turn": a processor for all flows of a NIC')
        for name in ("timeout", "probe_timeout"):
            first_ns, most_ns = getattr(self, f"{name}_ns"), getattr(self, f"{name}_max_ns")
            if first_ns is not None and most_ns is not None and most_ns < first_ns:
                raise KeyFault(f"nic.{name}_max", most_ns, f"is below nic.{name}; give that or more")
