# SPDX-License-Identifier: Apache-2.0
"""The cases of fabric_lab.py: random networks, ports and frames, seeded by their numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fabric_nets import NETS, FabricNet, FabricPort
from fabric_oracle import FabricFrame, FabricRun, run_fabric

from dc_gym.benchmarks.checks.link_cases import AMPLE_BYTES, FULL_FRAME
from dc_gym.topologies.graph import DSCPS, NO_MARKING, Marking, MarksAt, Pause, Pool, Queue, QueueClass, Trim, to_plain

RATES = (10**8, 10**9, 10**10, 25 * 10**9, 10**11)
DELAYS_NS = (100, 1_000, 10_000)
RANDOM_NETS = ("chain2", "chain4", "incast2", "incast4", "incast16")
FRAMES = 160
SAMPLES = 8
LIMITED = {"trimming": 0.7}
"""Share of the classes that have a limit besides their pool's."""
KINDS = ("classes", "pools", "pauses of classes", "pauses of ports", "trimming")
TRIM_SIZES = (74, 116, 128, 200, 1_000)
SHORTEST_DATA = 124
"""Of linkprobe."""


@dataclass(frozen=True)
class FabricCase:
    """One case: a network, its ports, and frames in order of time."""

    name: str
    net: str
    ports: tuple[FabricPort, ...]
    frames: tuple[FabricFrame, ...]
    samples: int = SAMPLES
    repeat: int = 1
    until_ns: int | None = None
    """The end of a case that has none by itself."""
    times: tuple[int, ...] = ()
    """Times of samples besides those of chance."""

    @property
    def shape(self) -> FabricNet:
        return NETS[self.net]

    @cached_property
    def sample_times(self) -> list[int]:
        """Times of samples: some random, some at events, some just before pauses arrive and as they do, and the end."""
        first = run_fabric(self.shape, self.ports, self.frames, until_ns=self.until_ns)
        chance = random.Random(self.name)
        half = self.samples // 2
        times = [chance.randrange(1, first.end_ns) for _ in range(self.samples - half)]
        times += [chance.choice(first.event_times) for _ in range(half)]
        pauses = [chance.choice(first.pause_times)[0] for _ in range(half) if first.pause_times]
        times += [t_ns + late_ns for t_ns in pauses for late_ns in (-1, 0)]
        return sorted([*times, *self.times, first.end_ns + 1_000])

    @cached_property
    def run(self) -> FabricRun:
        """The oracle's answer."""
        return run_fabric(self.shape, self.ports, self.frames, self.sample_times, self.until_ns)

    @property
    def drops(self) -> int:
        return len(self.frames) - len(self.run.arrivals)

    def job(self) -> dict[str, Any]:
        rows = []
        for frame in self.frames:
            flags = frame.ect + 2 * frame.data
            row = (frame.t_ns, frame.sender, frame.length, flags, frame.seq, frame.dscp, frame.receiver)
            rows.append((frame.t_ns, 0, ",".join(map(str, row))))
        rows += [(t_ns, 1, f"{t_ns},0,0,1,0") for t_ns in self.sample_times]
        schedule = "0,0,0,1,0\n" + "".join(f"{text}\n" for _, _, text in sorted(rows, key=lambda row: row[:2]))
        return {"net": self.net, "ports": to_plain(self.ports), "schedule": schedule, "repeat": self.repeat}


def random_cases(kind: str, count: int) -> Iterator[FabricCase]:
    """Yields cases of one of KINDS."""
    for number in range(count):
        yield _case(f"{kind}, {number}", kind)


def _case(name: str, kind: str) -> FabricCase:
    chance = random.Random(name)
    net = chance.choice(RANDOM_NETS)
    shape = NETS[net]
    rate_bps, delay_ns = chance.choice(RATES), chance.choice(DELAYS_NS)
    classes = _classes(chance, kind)
    stock = Queue(AMPLE_BYTES)
    trim = Trim(chance.choice(TRIM_SIZES), len(classes), _unused(chance, classes)) if kind == "trimming" else None
    ports = []
    for port in range(shape.ports):
        own_bps = chance.choice((rate_bps, rate_bps // 2, 2 * rate_bps // 3))
        host = stock if kind.startswith("pauses") and chance.random() < 0.2 else host_queue(classes)
        queue = _queue(chance, kind, classes, trim) if shape.is_switch(port) else host
        ports.append(FabricPort(own_bps, delay_ns, queue, chance.randrange(2**64)))
    title = f"{name}: {net}, {rate_bps / 1e6:g} Mbit/s, {len(classes)} classes"
    frames = _frames(chance, shape, rate_bps, classes)
    if trim:
        frames = tuple(replace(frame, data=frame.length >= SHORTEST_DATA and chance.random() < 0.8) for frame in frames)
    return FabricCase(title, net, _same_pools(chance, shape, ports), frames)


def host_queue(classes: tuple[QueueClass, ...]) -> Queue:
    """Returns the queue of a host: the same classes, with room for all. A port with one class and no pool names none."""
    host_classes = tuple(replace(rule, limit_bytes=AMPLE_BYTES, marking=NO_MARKING) for rule in classes)
    return Queue(AMPLE_BYTES, "port", classes=host_classes if len(host_classes) > 1 else ())


def _classes(chance: random.Random, kind: str) -> tuple[QueueClass, ...]:
    """Returns the classes of all ports: which DSCPs, which order, and whether frames are lost."""
    dscps = chance.sample(range(DSCPS), DSCPS)
    count = chance.choice({"classes": (2, 3, 3, 5, 8), "trimming": (1, 2, 3, 7)}.get(kind, (1, 2, 3, 3, 5, 8)))
    lossless = kind.startswith("pauses")
    return tuple(
        QueueClass(
            f"c{number}",
            tuple(sorted(dscps[4 * number : 4 * number + 4])),
            AMPLE_BYTES,
            quantum_bytes=chance.choice((0, 100, FULL_FRAME, chance.randrange(1, 20_000))),
            lossless=lossless and (number == 0 or chance.random() < 0.6),
        )
        for number in range(count)
    )


def _unused(chance: random.Random, classes: tuple[QueueClass, ...]) -> int:
    """Returns a DSCP that no class has."""
    return chance.choice(sorted(set(range(DSCPS)) - {dscp for rule in classes for dscp in rule.dscps}))


def _queue(chance: random.Random, kind: str, classes: tuple[QueueClass, ...], trim: Trim | None) -> Queue:
    """Returns the queue of a port of a switch."""
    port_classes = tuple(_class(chance, kind, rule) for rule in classes)
    pool = None if kind == "classes" or (trim and chance.random() < 0.5) else Pool(1, 1)
    if trim:
        room, reserve = chance.choice((200, 1_000, 5_000, AMPLE_BYTES)), chance.choice((0, 500))
        trimmed_class = QueueClass(
            "trimmed", (trim.dscp,), room, reserve_bytes=reserve, alpha_2_16=chance.choice((2**32 - 1, 2**15))
        )
        return Queue(AMPLE_BYTES, "port", classes=(*port_classes, trimmed_class), pool=pool, trim=trim)
    pause = _pause(chance, kind == "pauses of ports") if kind.startswith("pauses") else None
    return Queue(AMPLE_BYTES, "port", classes=port_classes, pool=pool, pause=pause)


def _class(chance: random.Random, kind: str, rule: QueueClass) -> QueueClass:
    limits = (AMPLE_BYTES, chance.randrange(FULL_FRAME, 30_000))
    alphas = (2**32 - 1, 2**16, 2**15, 2**17, 2**13, chance.randrange(1, 2**18))
    return replace(
        rule,
        limit_bytes=chance.choice(limits) if kind == "classes" or chance.random() < LIMITED.get(kind, 0.2) else AMPLE_BYTES,
        marking=_marking(chance),
        reserve_bytes=chance.choice((0, 1_000, chance.randrange(10_000))),
        alpha_2_16=chance.choice(alphas),
    )


def _marking(chance: random.Random) -> Marking:
    moments: tuple[MarksAt, ...] = ("arrival", "departure")
    at = chance.choice(moments)
    kmin = chance.randrange(1, 12_000)
    slope = Marking(
        "red-instant",
        min_bytes=kmin,
        max_bytes=kmin + chance.randrange(1, 20_000),
        probability_ppm=chance.choice((10_000, 200_000, 10**6)),
        at=at,
    )
    return chance.choice((NO_MARKING, Marking("step", k_bytes=kmin, at=at), slope))


def _pause(chance: random.Random, whole_port: bool) -> Pause:
    share, share_of = chance.choice(((0, 0), (1, 16), (1, 9), (1, 2)))
    return Pause(
        xoff_bytes=0 if share_of else chance.randrange(1, 12_000),
        share=share,
        share_of=share_of,
        xon_below_bytes=chance.choice((0, 1_500, 3_000)),
        reserve_bytes=chance.choice((0, 2_000)),
        headroom_bytes=chance.choice((0, 5_000, 20_000, 200_000)),
        quanta=chance.choice((3, 20, 100, 1_000, 65_535)),
        whole_port=whole_port,
    )


def _same_pools(chance: random.Random, shape: FabricNet, ports: list[FabricPort]) -> tuple[FabricPort, ...]:
    """Gives each switch a pool of its own size."""
    sizes = {f"s{number}": chance.choice((10_000, 40_000, 150_000, chance.randrange(3_000, 100_000))) for number in range(4)}

    def port(number: int, fabric_port: FabricPort) -> FabricPort:
        if fabric_port.queue.pool is None:
            return fabric_port
        return replace(fabric_port, queue=replace(fabric_port.queue, pool=Pool(1, sizes[shape.node(number)])))

    return tuple(port(number, fabric_port) for number, fabric_port in enumerate(ports))


def _frames(chance: random.Random, shape: FabricNet, rate_bps: int, classes: tuple[QueueClass, ...]) -> tuple[FabricFrame, ...]:
    """Returns frames in bursts: most to the last host, some back."""
    last = shape.hosts - 1
    known = [dscp for rule in classes for dscp in rule.dscps]
    rows = []
    for sender in range(shape.hosts):
        t_ns = chance.randrange(1, 2_000)
        for _ in range(FRAMES // shape.hosts):
            length = chance.choice((60, 590, FULL_FRAME, FULL_FRAME, chance.randrange(60, FULL_FRAME + 1)))
            dscp = chance.choice(known) if chance.random() < 0.9 else chance.randrange(DSCPS)
            receiver = last if sender != last else chance.randrange(last)
            rows.append((t_ns, sender, receiver, length, dscp, chance.random() < 0.75))
            if chance.random() < 0.2:
                t_ns += chance.randrange(1, 2 + 6 * FULL_FRAME * 8 * 10**9 // rate_bps)
    return tuple(FabricFrame(*row, seq) for seq, row in enumerate(sorted(rows)))
