# SPDX-License-Identifier: Apache-2.0
"""The scaling rule: a network s times slower, with the same behaviour counted in packets and round trips.

Rates are divided by s and delays multiplied by s. Frames, buffers and thresholds keep their bytes, so BDPs stay the same. Times
that Linux, the programs and the spec measure in seconds do not scale; `not_scale_free` lists them. The values hold for Linux 7.2
with HZ 1000.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base import readable

MS = 10**6


@dataclass(frozen=True, slots=True)
class Fixed:
    """A time, or a rate, that stays the same when the network is slowed down."""

    what: str
    time_ns: int | None = None
    """Its length in ns, if it has one. It is then also shown in base round trips."""


RTO_MIN = Fixed("TCP's shortest retransmission timeout", 200 * MS)
NOT_SCALE_FREE = (
    RTO_MIN,
    Fixed("its first one, before a round trip is measured", 1000 * MS),
    Fixed("delayed acknowledgements, shortest", 40 * MS),
    Fixed("the kernel's tick (HZ 1000), to which TCP's timers round up", 1 * MS),
    Fixed("TCP small queues: what a sender keeps in its host's queue, as long as two frames take no longer", 1 * MS),
    Fixed("CUBIC: its window grows with the seconds since the last loss; HyStart's thresholds start at 4 ms", None),
    Fixed("BBR: every 10 s it probes for the least round trip, and as long", 200 * MS),
    Fixed("TCP NV: it takes a new least round trip after 2 s, then every 3.75 to 6.25 s", None),
    Fixed("a clock read and a failing system call in a lab (25 ns, 1 us)", None),
    Fixed("keys of the spec that are rates or times: workload, duration, warm-up, monitor intervals", None),
)


def not_scale_free(scale: int, base_rtt_ns: int, rto_min_ns: int | None) -> list[str]:
    """Returns one line for each, for a network slowed down by `scale` to that base round trip.

    `rto_min_ns` None means Linux's own.
    """
    lines = []
    for fixed in NOT_SCALE_FREE:
        time_ns = rto_min_ns if fixed is RTO_MIN and rto_min_ns is not None else fixed.time_ns
        if time_ns is None:
            lines.append(fixed.what)
            continue
        trips = time_ns / max(1, base_rtt_ns)
        lines.append(f"{fixed.what}: {time_ns / MS:g} ms = {_short(trips)} base round trips instead of {_short(trips * scale)}")
    return lines


def _short(number: float) -> str:
    return readable.number(number, 3)
