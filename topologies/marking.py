# SPDX-License-Identifier: Apache-2.0
"""The ways in which switch ports mark ECN, by name.

To add one, write a function, a dataclass of its keys and a `register` call.

'step' is DCTCP's (SIGCOMM 2010, section 3.1). 'red-instant' is the marking of switches with DCQCN (SIGCOMM 2015, section 3.1,
CP): the queue itself, not an average, between Kmin and Kmax raises the probability from 0 to Pmax, and beyond Kmax every packet
is marked. The static settings that ACC compares itself with (SIGCOMM 2021) are named. Where ACC gives no Pmax, it is taken from
the paper that the setting comes from: DCQCN's 1 % for secn1; secn2 has HPCC's thresholds (SIGCOMM 2019) and the 20 % of HPCC's
simulator.

DCTCP and DCQCN mark a packet as it arrives, in the words of their papers. HPCC's simulator, on which ACC's builds, marks it as it
departs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import SHARE_PPM, THRESHOLD, key
from dc_gym.base.registry import Registry
from dc_gym.base.units import PPM
from dc_gym.topologies.graph import NO_MARKING, Marking, MarksAt

KB = 1000
GBIT = 10**9
AUTO = "auto"
AUTO_HELP = "as `step` if the controller reads ECN, otherwise as `none`"
IROKO_AVPKT_BYTES = 1500
IROKO_PROBABILITY_PPM = 100_000


@dataclass(frozen=True, slots=True)
class MarkingContext:
    """The port that marks."""

    rate_bps: int
    limit_bytes: int


KINDS = Registry("topology.marking", TopologyError, ("port",), together=True)


def register(name: str, make: Callable[..., Marking], keys: Any = None, *, help: str = "") -> None:
    """Registers a way to mark as a value of topology.marking.

    Args:
        name: The value.
        make: `make(port, keys)`, or `make(port)` without keys. Sizes in `keys` are bytes of that port.
        keys: The dataclass of its keys.
        help: Says in Markdown which packets it marks.
    """
    if name == AUTO:
        raise TopologyError(f"topology.marking: value {name!r} is registered already; choose another name")
    KINDS.add(name, make, keys, help)


def names() -> tuple[str, ...]:
    """Returns the possible values of topology.marking."""
    return (AUTO, *KINDS)


def iroko_thesis(rate_bps: int, limit_bytes: int) -> Marking:
    """Returns RED as in table 1 of Iroko's thesis.

    min = 17 % of the bandwidth-delay product at 100 us, which is in bits and was used as bytes; at least 3000 (2 packets). max =
    limit / 4. burst = (2 min + max) / (3 avpkt). This gives the table's numbers at 10 Mbit/s and at 1 Gbit/s.

    Args:
        rate_bps: The rate of the port.
        limit_bytes: Its buffer.
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


def resolve(name: str | None, ecn: bool) -> str:
    """Returns the marking; "auto" and None are resolved to "step" with ECN and to "none" without.

    Args:
        name: The value of topology.marking.
        ecn: The controller reads ECN.
    """
    if name is None or name == AUTO:
        return "step" if ecn else "none"
    return name


def _pmax(default_ppm: int | None = None) -> Any:
    """Declares the marking probability at the end of a slope."""
    help_text = "marking probability just below the end of the slope"
    return key(SHARE_PPM, default_ppm, name="pmax", low=1, high=PPM, needed=default_ppm is None, help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKeys:
    """Keys of marking step."""

    k_bytes: int = key(
        THRESHOLD,
        name="k_bytes",
        needed=True,
        low=1,
        otherwise="preset",
        help="threshold, in frame bytes, or an amount as for `buffer`; under `auto` it applies only where `auto` chooses `step`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedInstantKeys:
    """Keys of marking red-instant."""

    kmin_bytes: int = key(THRESHOLD, needed=True, low=1, help="queue length at which marking starts")
    kmax_bytes: int = key(THRESHOLD, needed=True, low=1, help="queue length from which every packet is marked")
    pmax_ppm: int = _pmax()


@dataclass(frozen=True, slots=True, kw_only=True)
class Secn1Keys:
    """Keys of marking secn1."""

    pmax_ppm: int = _pmax(10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secn2Keys:
    """Keys of marking secn2."""

    pmax_ppm: int = _pmax(200_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccVendorKeys:
    """Keys of marking acc-vendor."""

    pmax_ppm: int = _pmax(100_000)


def _step(port: MarkingContext, keys: StepKeys) -> Marking:
    return Marking("step", k_bytes=keys.k_bytes)


def _slope(low_bytes: int, high_bytes: int, pmax_ppm: int, at: MarksAt = "departure") -> Marking:
    return Marking("red-instant", min_bytes=low_bytes, max_bytes=high_bytes, probability_ppm=pmax_ppm, at=at)


def _red_instant(port: MarkingContext, keys: RedInstantKeys) -> Marking:
    if keys.kmin_bytes >= keys.kmax_bytes:
        fault = f"topology.kmin: {keys.kmin_bytes} bytes are not below topology.kmax, {keys.kmax_bytes}"
        raise TopologyError(f"{fault}; lower it, raise kmax, or give marking = step")
    return _slope(keys.kmin_bytes, keys.kmax_bytes, keys.pmax_ppm, at="arrival")


def _secn2(port: MarkingContext, keys: Secn2Keys) -> Marking:
    return _slope(100 * KB * port.rate_bps // (25 * GBIT), 400 * KB * port.rate_bps // (25 * GBIT), keys.pmax_ppm)


register("none", lambda port: NO_MARKING, help="no packet")
register("step", _step, StepKeys, help="each packet that finds `k_bytes` or more queued: DCTCP (SIGCOMM 2010)")
register(
    "red-instant",
    _red_instant,
    RedInstantKeys,
    help="a packet that finds q bytes queued, with probability `pmax` (q - `kmin`) / (`kmax` - `kmin`) between the two, and"
    " always from `kmax` on: DCQCN (SIGCOMM 2015)",
)
register(
    "iroko-thesis",
    lambda port: iroko_thesis(port.rate_bps, port.limit_bytes),
    help="RED's slope on an average of the queue, which also drops packets without ECN: Iroko's thesis, table 1",
)
register("secn0", lambda port: Marking("step", k_bytes=18 * KB), help="`step` with 18 kB: ACC (SIGCOMM 2021)")
register(
    "secn1",
    lambda port, keys: _slope(5 * KB, 200 * KB, keys.pmax_ppm),
    Secn1Keys,
    help="`red-instant`, 5 .. 200 kB, 1 %: ACC (which gives no `pmax`; this is DCQCN's)",
)
register(
    "secn2",
    _secn2,
    Secn2Keys,
    help="`red-instant`, 100 .. 400 kB x rate / 25 Gbit/s, 20 %: ACC (which gives no `pmax`; this is that of HPCC's simulator)",
)
register(
    "acc-vendor",
    lambda port, keys: _slope(30 * KB, 270 * KB, keys.pmax_ppm),
    AccVendorKeys,
    help="`red-instant`, 30 .. 270 kB, 10 %: ACC's storage",
)
