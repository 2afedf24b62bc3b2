# SPDX-License-Identifier: Apache-2.0
"""The ways in which switch ports mark ECN, by name. To add one, write a function and a `register` call at the end.

'step' is DCTCP's (SIGCOMM 2010, section 3.1). 'red-instant' is what switches with DCQCN do (SIGCOMM 2015, section 3.1, CP): the
queue itself, not an average, between Kmin and Kmax raises the probability from 0 to Pmax, and beyond Kmax every packet is marked.
The static settings that ACC compares itself with (SIGCOMM 2021) are named. Where ACC gives no Pmax, it is that of the paper that
the setting comes from: DCQCN's 1 % for secn1; secn2 has HPCC's thresholds (SIGCOMM 2019) and the 20 % of HPCC's simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dc_gym.base import usercode
from dc_gym.base.errors import TopologyError
from dc_gym.topologies.graph import NO_MARKING, Marking

KB = 1000
GBIT = 10**9
AUTO = "auto"
AUTO_HELP = "as `step` if the controller reads ECN, otherwise as `none`"
IROKO_AVPKT_BYTES = 1500
IROKO_PROBABILITY_PPM = 100_000


@dataclass(frozen=True, slots=True)
class MarkingContext:
    """The port that marks, and the keys of the spec in bytes and ppm. None means not given."""

    rate_bps: int
    limit_bytes: int
    k_bytes: int | None = None
    kmin_bytes: int | None = None
    kmax_bytes: int | None = None
    pmax_ppm: int | None = None


@dataclass(frozen=True, slots=True)
class MarkingKind:
    """A registered way to mark, with the keys that it needs and those that it may take."""

    make: Callable[[MarkingContext], Marking]
    needs: tuple[str, ...]
    takes: tuple[str, ...]
    help: str = ""


KINDS: dict[str, MarkingKind] = {}


def register(
    name: str,
    make: Callable[[MarkingContext], Marking],
    needs: tuple[str, ...] = (),
    takes: tuple[str, ...] = (),
    *,
    help: str = "",
) -> None:
    """Registers a way to mark as a value of topology.marking. The keys are those of MarkingContext; `help` says which
    packets it marks."""
    if name in KINDS or name == AUTO:
        raise TopologyError(f"topology.marking: value {name!r} is registered already; choose another name")
    usercode.check_call(TopologyError, f"topology.marking {name!r}", make, "at")
    KINDS[name] = MarkingKind(make, needs, takes, help)


def names() -> tuple[str, ...]:
    """Returns the possible values of topology.marking."""
    return (AUTO, *KINDS)


def iroko_thesis(rate_bps: int, limit_bytes: int) -> Marking:
    """Returns RED as in the thesis' table 1, for a port of that rate and buffer.

    min = 17 % of the bandwidth-delay product at 100 us, which is in bits and was used as bytes; at least 3000 (2 packets). max =
    limit / 4. burst = (2 min + max) / (3 avpkt). This gives the table's numbers at 10 Mbit/s and at 1 Gbit/s.
    """
    low = max(3000, rate_bps * 17 // 10**6)
    high = limit_bytes // 4
    # The thesis prints "10Gbit" twice for the links of 1 Gbit/s. tc uses it only for the decay of the average on an idle port.
    bandwidth_bps = 10 * GBIT if rate_bps == GBIT else rate_bps
    if high <= low:
        raise TopologyError(f"topology.buffer: value {limit_bytes} is too small for iroko-thesis; give more than {4 * low + 3}")
    return Marking(
        kind="iroko-thesis",
        min_bytes=low,
        max_bytes=high,
        limit_bytes=limit_bytes,
        avpkt_bytes=IROKO_AVPKT_BYTES,
        burst_packets=(2 * low + high) // (3 * IROKO_AVPKT_BYTES),
        probability_ppm=IROKO_PROBABILITY_PPM,
        bandwidth_bps=bandwidth_bps,
    )


def _step(at: MarkingContext) -> Marking:
    return Marking("step", k_bytes=at.k_bytes or 0)


def _slope(low: int | None, high: int | None, at: MarkingContext, pmax_ppm: int | None = None) -> Marking:
    ppm = at.pmax_ppm or pmax_ppm or 0
    return Marking("red-instant", min_bytes=low or 0, max_bytes=high or 0, probability_ppm=ppm)


def _secn2(at: MarkingContext) -> Marking:
    return _slope(100 * KB * at.rate_bps // (25 * GBIT), 400 * KB * at.rate_bps // (25 * GBIT), at, 200_000)


register("none", lambda at: NO_MARKING, help="no packet")
register("step", _step, ("k_bytes",), help="each packet that finds `k_bytes` or more queued: DCTCP (SIGCOMM 2010)")
register(
    "red-instant",
    lambda at: _slope(at.kmin_bytes, at.kmax_bytes, at),
    ("kmin_bytes", "kmax_bytes", "pmax_ppm"),
    help="a packet that finds q bytes queued, with probability `pmax` (q - `kmin`) / (`kmax` - `kmin`) between the two, and"
    " always from `kmax` on: DCQCN (SIGCOMM 2015)",
)
register(
    "iroko-thesis",
    lambda at: iroko_thesis(at.rate_bps, at.limit_bytes),
    help="RED's slope on an average of the queue, which also drops packets without ECN: Iroko's thesis, table 1",
)
register("secn0", lambda at: Marking("step", k_bytes=18 * KB), help="`step` with 18 kB: ACC (SIGCOMM 2021)")
register(
    "secn1",
    lambda at: _slope(5 * KB, 200 * KB, at, 10_000),
    takes=("pmax_ppm",),
    help="`red-instant`, 5 .. 200 kB, 1 %: ACC (which gives no `pmax`; this is DCQCN's)",
)
register(
    "secn2",
    _secn2,
    takes=("pmax_ppm",),
    help="`red-instant`, 100 .. 400 kB x rate / 25 Gbit/s, 20 %: ACC (which gives no `pmax`; this is that of HPCC's simulator)",
)
register(
    "acc-vendor",
    lambda at: _slope(30 * KB, 270 * KB, at, 100_000),
    takes=("pmax_ppm",),
    help="`red-instant`, 30 .. 270 kB, 10 %: ACC's storage",
)
