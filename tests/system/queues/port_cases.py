# SPDX-License-Identifier: Apache-2.0
"""The cases of test_port.py: random networks, ports and frames, seeded by their numbers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dc_gym.benchmarks.checks.link_cases import AMPLE_BYTES, DELAYS_NS, FULL_FRAME, RATES, LinkCase
from dc_gym.benchmarks.checks.links_guest import NETS
from dc_gym.benchmarks.checks.oracle import PPM, MarksAt, OracleFrame, OraclePort

ASKS_MIN = 124
"""Bytes of the shortest frame that asks for telemetry."""
FRAMES = 120
INCAST_RATES = (10**9, 10**10, 10**11)
"""Rates at which 100 bytes last a multiple of 8 ns."""


def marking(count: int, at: MarksAt) -> Iterator[LinkCase]:
    """Yields cases whose ports mark by steps and slopes, at one moment."""
    for number in range(count):
        yield _case(f"marks at {at}, {number}", at, tells=False)


def telemetry(count: int) -> Iterator[LinkCase]:
    """Yields cases whose ports write telemetry, and mark. Some paths are longer than the records reach."""
    for number in range(count):
        yield _case(f"telemetry, {number}", ("arrival", "departure")[number % 2], tells=True)


def steps(cases: Iterable[LinkCase], stock: bool) -> Iterator[LinkCase]:
    """Yields the cases with steps in place of slopes. `stock`: whether on bfifo and RED, instead of `port`."""
    for case in cases:
        ports = tuple(replace(port, kmax_bytes=None, pmax_ppm=PPM) for port in case.ports)
        yield replace(case, name=f"{'stock' if stock else 'port'}, {case.name}", ports=ports, stock=stock)


def _case(name: str, at: MarksAt, tells: bool) -> LinkCase:
    chance = random.Random(name)
    net = chance.choice(("chain1", "chain2", "chain4", "incast4", *(("chain7",) if tells else ())))
    shape = NETS[net]
    alone = shape.senders == 1
    rate_bps = chance.choice(RATES if alone else INCAST_RATES)
    delay_ns = chance.choice(DELAYS_NS[:3])
    ports = []
    for number in range(shape.ports):
        forwards = number >= shape.senders
        own_bps = (chance.choice((rate_bps, rate_bps // 2)) if forwards else 2 * rate_bps) if alone else rate_bps
        ports.append(_port(chance, own_bps, delay_ns, at, forwards, tells))
    return LinkCase(
        f"{name}: {net}, {rate_bps / 1e6:g} Mbit/s", net, tuple(ports), _frames(chance, shape.senders, rate_bps, tells)
    )


def _port(chance: random.Random, rate_bps: int, delay_ns: int, at: MarksAt, forwards: bool, tells: bool) -> OraclePort:
    kmin = chance.choice((None, chance.randrange(1, 20_000)))
    kmax = None if kmin is None else chance.choice((None, kmin + chance.randrange(1, 30_000)))
    return OraclePort(
        rate_bps,
        delay_ns,
        chance.choice((AMPLE_BYTES, max(kmax or 0, (kmin or 0) + 1, chance.randrange(FULL_FRAME, 40_000)))),
        kmin,
        forwards=forwards,
        kmax_bytes=kmax,
        pmax_ppm=chance.choice((10_000, 200_000, PPM)) if kmax else PPM,
        marks_at=at,
        seed=chance.randrange(2**64),
        int_rate=chance.randrange(8) if tells and chance.random() < 0.8 else None,
    )


def _frames(chance: random.Random, senders: int, rate_bps: int, tells: bool) -> tuple[tuple[int, OracleFrame], ...]:
    """Returns frames in bursts.

    Those of several senders last multiples of 8 ns and begin at different times modulo 8 ns, so that no two arrive at once.
    """
    rows = []
    for sender in range(senders):
        t_ns = 0
        for _ in range(FRAMES // senders):
            asks = tells and chance.random() < 0.5
            length = chance.choice((ASKS_MIN if asks else 60, 590, FULL_FRAME, chance.randrange(ASKS_MIN, FULL_FRAME + 1)))
            if senders > 1:
                length = 100 * max(2, length // 100)
            rows.append((8 * (t_ns // 8) + sender, sender, length, chance.random() < 0.75, asks))
            if chance.random() < 0.2:
                t_ns += chance.randrange(1 + 6 * FULL_FRAME * 8 * 10**9 // rate_bps)
    return tuple(
        (sender, OracleFrame(t_ns, length, ect, seq, asks)) for seq, (t_ns, sender, length, ect, asks) in enumerate(sorted(rows))
    )
