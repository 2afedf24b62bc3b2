# SPDX-License-Identifier: Apache-2.0
"""The behaviour of a network of ports with classes, shared buffers and pauses, by definition: frames, marks, pauses, counters.

It is the FIFO oracle (oracle.py) grown to several classes. Where two things fall into one nanosecond, the order is that of
docs/kernel.md: what was started first comes first; ports that may send again do so after that; programs come last.

- A port sends the waiting frame of the highest strict class, or else goes round the others. A class keeps its turn while its
  deficit holds its next frame. When the turn comes to a class that may send, its deficit grows by its quantum. A class that
  empties loses its deficit.
- A lossy class holds bytes of the pool beyond its reserve. A frame that needs more of the pool is dropped if they are alpha times
  the free bytes or more, or if the pool has too few.
- A frame of a lossless class is charged where it came into the switch: to the reserve, then to the pool up to Xoff, then to
  headroom. It is refused where headroom ends. It is released when it leaves.
- Data of a NIC that a lossy class would drop is cut, and waits in the class of trimmed frames if that takes it. Frames of that
  class are dropped. A host's socket never sees a trimmed frame.
- A stock queue knows no classes: any pause stops it.
- A pause is a frame of 60 bytes. It starts behind the frame under way, and acts when it arrives, for as many times of 512 bits as
  it says. It is repeated after half of that, or a quantum if that is longer.

Times are whole ns, and a transmitter's time is a fraction with the rate as denominator. This file does not depend on the kernel
or the driver.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fabric_nets import FabricNet, FabricPort, peer

from dc_gym.base.splitmix import splitmix64
from dc_gym.benchmarks.checks.oracle import BIT_NS
from dc_gym.topologies.graph import CLASSES, Marking, Pause, QueueClass

PAUSE_BYTES = 60
DATA_HEADER_BYTES = 116
"""Ethernet, IPv4, UDP, the NIC's header, telemetry."""
QUANTUM_BITS = 512
NS_PER_S = 10**9
ALL_CLASSES = (1 << CLASSES) - 1
UNLIMITED = 2**32 - 1
PORT_VALUES = 18
"""Values of struct tc_port_xstats."""
OF_2_16, OF_2_32 = 1 << 16, 1 << 32
PPM = 10**6


@dataclass(frozen=True, slots=True)
class FabricFrame:
    """A frame that a host sends to another."""

    t_ns: int
    sender: int
    receiver: int
    length: int
    dscp: int
    ect: bool
    seq: int
    data: bool = False
    """True if it is data of a NIC, with room for telemetry."""


@dataclass(frozen=True, slots=True)
class Arrival:
    t_ns: int
    ce: bool


@dataclass
class FabricRun:
    """The outcome: by sequence number when frames left their hosts and arrived, and all statistics at each sample."""

    departures: dict[int, int] = field(default_factory=dict)
    arrivals: dict[int, Arrival] = field(default_factory=dict)
    trimmed_arrivals: int = 0
    trims: list[tuple[int, int]] = field(default_factory=list)
    """By port: the frames that it trimmed, and the bytes that it cut off."""
    samples: list[tuple[int, ...]] = field(default_factory=list)
    """Time, port, and the values of struct tc_port_xstats and of those of classes, in their order (kernel/drivers/lab.h)."""
    pause_times: list[tuple[int, int, int]] = field(default_factory=list)
    """The pauses that arrived: time, port, and the classes that it then holds."""
    event_times: list[int] = field(default_factory=list)
    end_ns: int = 0


@dataclass(slots=True)
class _Packet:
    """A frame on its way, or a pause (with `quanta`)."""

    length: int
    frame: FabricFrame | None = None
    dscp: int = 0
    ce: bool = False
    charged_to: _Ingress | None = None
    changed: int = 0
    quanta: tuple[int, ...] = ()
    arrival_ns: int = 0


class _Tally:
    """The queue over time."""

    def __init__(self) -> None:
        self.since_ns = self.byte_ns = self.busy_ns = self.longest = 0
        self._looked_ns, self._seen = -1, 0

    def advance(self, waiting: int, now_ns: int) -> None:
        passed_ns = now_ns - self.since_ns
        self.since_ns = now_ns
        if waiting and passed_ns:
            self.byte_ns += waiting * passed_ns
            self.busy_ns += passed_ns
            self.longest = max(self.longest, waiting)

    def look(self, waiting: int, now_ns: int) -> tuple[int, int, int]:
        """Returns integral, busy time and longest queue since the last look at an earlier time."""
        self.advance(waiting, now_ns)
        self._seen = max(self.longest, self._seen if now_ns == self._looked_ns else 0)
        self._looked_ns, self.longest = now_ns, waiting
        return self.byte_ns, self.busy_ns, self._seen


class _Timer:
    """Something that happens once at a time that may move."""

    __slots__ = ("number", "run")

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run
        self.number = 0
        """Place in the order in which timers were started; 0: it is not running."""


class _Clock:
    """All timers. Those of one nanosecond run in the order in which they were started."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, _Timer]] = []
        self._started = 0

    def start(self, timer: _Timer, when_ns: int) -> None:
        assert when_ns > self.now_ns, "nothing takes no time"
        self._started += 1
        timer.number = self._started
        heapq.heappush(self._heap, (when_ns, timer.number, timer))

    def next_ns(self) -> int | None:
        while self._heap and self._heap[0][2].number != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> None:
        while self.next_ns() == self.now_ns:
            timer = heapq.heappop(self._heap)[2]
            timer.number = 0
            timer.run()


class _Pool:
    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0

    @property
    def free(self) -> int:
        return max(0, self.size - self.used)


def _beyond(held: int, reserve: int) -> int:
    return max(0, held - reserve)


class _Class:
    """The queue of one class of a port."""

    def __init__(self, settings: QueueClass, seed: int) -> None:
        self.settings = settings
        self.limit = UNLIMITED if settings.lossless else settings.limit_bytes
        self.frames: deque[_Packet] = deque()
        self.waiting = self.deficit = 0
        self.sent_packets = self.sent_bytes = self.drops = self.marked = self.ce_packets = self.ce_bytes = 0
        self.tally = _Tally()
        self._seed, self._draws = seed, 0

    def mark(self, packet: _Packet, at: str) -> None:
        """Marks the packet, if the queue of the class wants it at that moment."""
        assert packet.frame is not None
        if self.settings.marking.at == at and self._wants(self.settings.marking) and packet.frame.ect:
            self.marked += 1
            packet.ce = True

    def _wants(self, marking: Marking) -> bool:
        if marking.kind == "none":
            return False
        if marking.kind == "step":
            return self.waiting >= marking.k_bytes
        if not marking.min_bytes <= self.waiting < marking.max_bytes:
            return self.waiting >= marking.max_bytes
        pmax = min(OF_2_32 - 1, marking.probability_ppm * OF_2_32 // PPM)
        chance = pmax * (self.waiting - marking.min_bytes) // (marking.max_bytes - marking.min_bytes)
        self._draws += 1
        return splitmix64(self._seed, self._draws - 1) >> 32 < chance

    def count_sent(self, packet: _Packet) -> None:
        self.sent_packets += 1
        self.sent_bytes += packet.length
        if packet.ce:
            self.ce_packets += 1
            self.ce_bytes += packet.length


class _Ingress:
    """The bytes that came in at one port and wait in the switch, and when its peer is told to pause."""

    def __init__(self, port: _Port, settings: Pause, pool: _Pool, clock: _Clock) -> None:
        self._port, self._settings, self._pool, self._clock = port, settings, pool, clock
        self.bytes, self.headroom, self.pauses = [0] * CLASSES, [0] * CLASSES, [0] * CLASSES
        self.most_headroom = self.refused = 0
        self._off = 0
        self._again = _Timer(self._repeat)

    def _threshold(self) -> int:
        share, of = self._settings.share, self._settings.share_of
        return self._pool.free * share // of if of else self._settings.xoff_bytes

    def charge(self, number: int, length: int) -> bool:
        """Charges a frame of a class. Returns False if it is refused."""
        taken = self._take(number, length)
        self.refused += not taken
        beyond = _beyond(self.bytes[number], self._settings.reserve_bytes)
        full = self.bytes[number] and beyond >= self._threshold()  # who holds nothing has nothing to release
        if (self.headroom[number] or full) and not self._off >> number & 1:
            self.pauses[number] += 1
            self._tell(self._off | 1 << number)
        return taken

    def _take(self, number: int, length: int) -> bool:
        reserve, room = self._settings.reserve_bytes, self._settings.headroom_bytes
        beyond = _beyond(self.bytes[number] + length, reserve)
        more = beyond - _beyond(self.bytes[number], reserve)
        if not beyond or (beyond <= self._threshold() and more <= self._pool.free):
            self.bytes[number] += length
            self._pool.used += more
            return True
        if self.headroom[number] + length > room:
            return False
        self.headroom[number] += length
        self.most_headroom = max(self.most_headroom, self.headroom[number])
        return True

    def release(self, number: int, length: int) -> None:
        """Releases a frame: from headroom first."""
        reserve = self._settings.reserve_bytes
        before = _beyond(self.bytes[number], reserve)
        from_headroom = min(self.headroom[number], length)
        self.headroom[number] -= from_headroom
        self.bytes[number] -= length - from_headroom
        beyond = _beyond(self.bytes[number], reserve)
        self._pool.used -= before - beyond
        below = not beyond or beyond + self._settings.xon_below_bytes <= self._threshold()
        if self._off >> number & 1 and not self.headroom[number] and below:
            self._tell(self._off & ~(1 << number))

    def _tell(self, off: int) -> None:
        before, self._off = self._off, off
        if not self._settings.whole_port:
            self._send(before ^ off, off & (before ^ off))
        elif bool(before) != bool(off):
            self._send(ALL_CLASSES, ALL_CLASSES if off else 0)
        if off and not before:
            self._repeat_later()
        elif not off:
            self._again.number = 0

    def _send(self, changed: int, held: int) -> None:
        quanta = tuple(self._settings.quanta if held >> number & 1 else 0 for number in range(CLASSES))
        self._port.send_pause(_Packet(PAUSE_BYTES, changed=changed, quanta=quanta))

    def _repeat(self) -> None:
        held = ALL_CLASSES if self._settings.whole_port else self._off
        self._send(held, held)
        self._repeat_later()

    def _repeat_later(self) -> None:
        lasts_ns, quantum_ns = (quanta * QUANTUM_BITS * NS_PER_S // self._port.rate_bps for quanta in (self._settings.quanta, 1))
        self._clock.start(self._again, self._clock.now_ns + max(lasts_ns // 2, quantum_ns, 1))


class _Port:
    """One port: its classes, its transmitter, and the wire behind it."""

    def __init__(self, net: _Network, number: int, settings: FabricPort, pool: _Pool | None) -> None:
        queue = settings.queue
        self.number, self.rate_bps, self._delay_ns, self._net, self._clock = (
            number,
            settings.rate_bps,
            settings.delay_ns,
            net,
            net.clock,
        )
        rules = queue.classes or (QueueClass("default", (), queue.limit_bytes, queue.marking),)
        seeds = [settings.seed, *(splitmix64(settings.seed, 2**64 - 1 - index) for index in range(1, len(rules)))]
        self.classes = [_Class(rule, seed) for rule, seed in zip(rules, seeds, strict=True)]
        self._class_of = {dscp: index for index, rule in enumerate(rules) for dscp in rule.dscps}
        self._knows_classes = queue.kind == "port"
        """False of a stock queue: any pause stops it, and it has no such statistics."""
        self._trims = queue.trim
        self.trimmed_packets = self.trimmed_bytes = 0
        self._told = bool(queue.classes)
        """True if there are statistics of classes."""
        self._turn = 0
        self.tally = _Tally()
        self.pool = pool
        self.ingress = None if queue.pause is None or pool is None else _Ingress(self, queue.pause, pool, net.clock)
        self._free = 0  # when the transmitter becomes free, in ns x rate
        self._stopped = False
        self._free_timer, self._arrival_timer = _Timer(self._becomes_free), _Timer(self._deliver)
        self._wire: deque[_Packet] = deque()
        self.paused = self.paused_ns = self.pauses_sent = self.pauses_received = 0
        self.class_paused_ns = [0] * CLASSES
        self._until_ns, self._paused_since_ns = [0] * CLASSES, 0
        self._resume_timer = _Timer(self._look_at_pauses)

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.classes)

    # ---- the queue ----

    def enqueue(self, packet: _Packet, came_in: _Port | None) -> None:
        """Takes a packet and sends if that is possible."""
        assert packet.frame is not None
        number = self._class_of.get(packet.dscp, 0)
        queue = self.classes[number]
        packet.charged_to = came_in.ingress if came_in is not None and queue.settings.lossless else None
        queue.mark(packet, "arrival")
        if queue.waiting + packet.length <= queue.limit and self._admits(number, packet):
            self._append(queue, packet)
        elif not self._trim(number, packet):
            queue.drops += 1
        self.send()

    def _append(self, queue: _Class, packet: _Packet) -> None:
        self._advance(queue)
        queue.frames.append(packet)
        queue.waiting += packet.length

    def _trim(self, number: int, packet: _Packet) -> bool:
        """Trims a packet that a class would drop. Returns False if it is to be dropped."""
        trim, length = self._trims, packet.length
        assert packet.frame is not None
        if trim is None or number == trim.number or self.classes[number].settings.lossless or not packet.frame.data:
            return False
        kept = max(trim.bytes, DATA_HEADER_BYTES) if length > trim.bytes else DATA_HEADER_BYTES
        queue = self.classes[trim.number]
        packet.length = kept
        if kept >= length or queue.waiting + kept > queue.limit or not self._admits(trim.number, packet):
            return False
        packet.dscp = trim.dscp
        self.trimmed_packets += 1
        self.trimmed_bytes += length - kept
        self._append(queue, packet)
        return True

    def _advance(self, queue: _Class) -> None:
        self.tally.advance(self.waiting, self._clock.now_ns)
        queue.tally.advance(queue.waiting, self._clock.now_ns)

    def _admits(self, number: int, packet: _Packet) -> bool:
        queue = self.classes[number]
        if self.pool is None:
            packet.charged_to = None
            return True
        if queue.settings.lossless:
            return packet.charged_to is None or packet.charged_to.charge(number, packet.length)
        held = _beyond(queue.waiting, queue.settings.reserve_bytes)
        more = _beyond(queue.waiting + packet.length, queue.settings.reserve_bytes) - held
        if more and (more > self.pool.free or held >= self.pool.free * queue.settings.alpha_2_16 // OF_2_16):
            return False
        self.pool.used += more
        return True

    def _release(self, number: int, packet: _Packet) -> None:
        queue = self.classes[number]
        if self.pool is None:
            return
        if not queue.settings.lossless:
            reserve = queue.settings.reserve_bytes
            self.pool.used -= _beyond(queue.waiting, reserve) - _beyond(queue.waiting - packet.length, reserve)
        elif packet.charged_to is not None:
            packet.charged_to.release(number, packet.length)

    def _choose(self) -> int | None:
        """Returns the number of the class that sends next."""
        held = self.paused if self._knows_classes else ALL_CLASSES * bool(self.paused)
        may = [number for number, queue in enumerate(self.classes) if queue.frames and not held >> number & 1]
        strict = [number for number in may if not self.classes[number].settings.quantum_bytes]
        if strict or not may:
            return max(strict, default=None)
        while self._turn not in may or self.classes[self._turn].deficit < self.classes[self._turn].frames[0].length:
            later = [number for number in may if number > self._turn]
            self._turn = min(later or may)
            self.classes[self._turn].deficit += self.classes[self._turn].settings.quantum_bytes
        return self._turn

    def send(self) -> None:
        """Sends the next frame if the transmitter is free and a class may send."""
        if self._stopped:
            return
        number = self._choose()
        if number is None:
            return
        queue = self.classes[number]
        self._advance(queue)
        packet = queue.frames.popleft()
        self._release(number, packet)
        queue.waiting -= packet.length
        if queue.settings.quantum_bytes and len(self.classes) > 1:
            queue.deficit = queue.deficit - packet.length if queue.frames else 0
        queue.mark(packet, "departure")
        queue.count_sent(packet)
        self._net.has_left(self, packet)
        self._transmit(packet)

    # ---- the transmitter and the wire ----

    def _transmit(self, packet: _Packet) -> None:
        now = self._clock.now_ns * self.rate_bps
        if now - self._free >= self.rate_bps:  # less than a nanosecond late is not late
            self._free = now
        self._free += packet.length * BIT_NS
        end_ns = -(-self._free // self.rate_bps)
        packet.arrival_ns = end_ns + self._delay_ns
        self._wire.append(packet)
        if len(self._wire) == 1:
            self._clock.start(self._arrival_timer, packet.arrival_ns)
        self._stopped = True
        self._clock.start(self._free_timer, end_ns)

    def _becomes_free(self) -> None:
        self._stopped = False
        self._net.may_send(self)

    def _deliver(self) -> None:
        other = self._net.ports[peer(self.number)]
        while self._wire and self._wire[0].arrival_ns <= self._clock.now_ns:
            packet = self._wire.popleft()
            if packet.frame is None:
                other.hear(packet)
            else:
                self._net.arrives(other, packet)
        if self._wire and not self._arrival_timer.number:
            self._clock.start(self._arrival_timer, self._wire[0].arrival_ns)

    # ---- pauses ----

    def send_pause(self, pause: _Packet) -> None:
        self.pauses_sent += 1
        self._transmit(pause)

    def hear(self, pause: _Packet) -> None:
        self.pauses_received += 1
        for number in range(CLASSES):
            if pause.changed >> number & 1:
                lasts_ns = pause.quanta[number] * QUANTUM_BITS * NS_PER_S // self.rate_bps
                self._until_ns[number] = self._clock.now_ns + lasts_ns
        self._look_at_pauses()
        self._net.run.pause_times.append((self._clock.now_ns, self.number, self.paused))

    def _look_at_pauses(self) -> None:
        self.count_pauses()
        before = self.paused
        holding = [number for number in range(CLASSES) if self._until_ns[number] > self._clock.now_ns]
        self.paused = sum(1 << number for number in holding)
        self._resume_timer.number = 0
        if holding:
            self._clock.start(self._resume_timer, min(self._until_ns[number] for number in holding))
        if before & ~self.paused and not self._stopped:
            self._net.may_send(self)

    def count_pauses(self) -> None:
        passed_ns = self._clock.now_ns - self._paused_since_ns
        self._paused_since_ns = self._clock.now_ns
        self.paused_ns += passed_ns * bool(self.paused)
        for number in range(CLASSES):
            self.class_paused_ns[number] += passed_ns * (self.paused >> number & 1)

    # ---- statistics ----

    def statistics(self) -> tuple[int, ...]:
        """Returns the values of struct tc_port_xstats, and if there are several classes those of each class."""
        now_ns = self._clock.now_ns
        self.count_pauses()
        if not self._knows_classes:
            return (0,) * PORT_VALUES
        whole = self.tally.look(self.waiting, now_ns)
        charged, headroom = (self.ingress.bytes, self.ingress.headroom) if self.ingress else ([0] * CLASSES, [0] * CLASSES)
        return (
            sum(queue.marked for queue in self.classes),
            sum(queue.ce_packets for queue in self.classes),
            sum(queue.ce_bytes for queue in self.classes),
            *whole,
            0,  # no telemetry
            0,
            self.paused_ns,
            self.pauses_received,
            self.pauses_sent,
            sum(charged) + sum(headroom),
            sum(headroom),
            self.ingress.most_headroom if self.ingress else 0,
            self.ingress.refused if self.ingress else 0,
            self.pool.used if self.pool else 0,
            len(self.classes),
            self.paused,
            *(value for number in range(len(self.classes)) if self._told for value in self._class_statistics(number)),
        )

    def _class_statistics(self, number: int) -> tuple[int, ...]:
        queue = self.classes[number]
        return (
            queue.waiting,
            len(queue.frames),
            queue.sent_bytes,
            queue.sent_packets,
            queue.drops,
            queue.marked,
            queue.ce_packets,
            queue.ce_bytes,
            *queue.tally.look(queue.waiting, self._clock.now_ns),
            self.class_paused_ns[number],
            self.ingress.bytes[number] + self.ingress.headroom[number] if self.ingress else 0,
            self.ingress.pauses[number] if self.ingress else 0,
        )


class _Network:
    """All ports, and what happens between them."""

    def __init__(self, net: FabricNet, ports: Iterable[FabricPort]) -> None:
        self.net, self.clock, self.run = net, _Clock(), FabricRun()
        self._ready: deque[_Port] = deque()
        pools: dict[str, _Pool] = {}
        self.ports: list[_Port] = []
        for number, port in enumerate(ports):
            pool = None
            if port.queue.pool is not None:
                pool = pools.setdefault(net.node(number), _Pool(port.queue.pool.bytes))
            self.ports.append(_Port(self, number, port, pool))

    def may_send(self, port: _Port) -> None:
        """Notes that a port may send again, after all else of this nanosecond."""
        if port not in self._ready:
            self._ready.append(port)

    def arrives(self, at: _Port, packet: _Packet) -> None:
        assert packet.frame is not None
        node = self.net.node(at.number)
        if node.startswith("h"):
            if packet.length < packet.frame.length:
                self.run.trimmed_arrivals += 1
            else:
                self.run.arrivals[packet.frame.seq] = Arrival(self.clock.now_ns, packet.ce)
            return
        out = self.net.routes[node, packet.frame.receiver]
        self.ports[out].enqueue(packet, at)

    def has_left(self, port: _Port, packet: _Packet) -> None:
        if packet.frame is not None and not self.net.is_switch(port.number):
            self.run.departures[packet.frame.seq] = self.clock.now_ns

    def advance(self, now_ns: int) -> None:
        """Runs all that is due until `now_ns`, that included."""
        while (next_ns := self.clock.next_ns()) is not None and next_ns <= now_ns:
            self.clock.now_ns = next_ns
            self.run.event_times.append(next_ns)
            self.clock.run_due()
            self._send_ready()
        self.clock.now_ns = now_ns

    def _send_ready(self) -> None:
        while self._ready:
            self._ready.popleft().send()

    def host_sends(self, frame: FabricFrame) -> None:
        self.advance(frame.t_ns)
        self.ports[self.net.host_port(frame.sender)].enqueue(_Packet(frame.length, frame, frame.dscp), None)
        self._send_ready()

    def sample(self, t_ns: int) -> None:
        self.advance(t_ns)
        self.run.samples += [(t_ns, port.number, *port.statistics()) for port in self.ports]


def run_fabric(
    net: FabricNet,
    ports: Iterable[FabricPort],
    frames: Iterable[FabricFrame],
    samples: Iterable[int] = (),
    until_ns: int | None = None,
) -> FabricRun:
    """Runs frames, in order of time, through a network. Frames come before a sample of the same time.

    `until_ns`: the end of a run that might have none.
    """
    network = _Network(net, ports)
    steps = [(frame.t_ns, 0, frame) for frame in frames] + [(t_ns, 1, None) for t_ns in samples]
    for t_ns, _, frame in sorted(steps, key=lambda step: step[:2]):
        if frame is None:
            network.sample(t_ns)
        else:
            network.host_sends(frame)
    if until_ns is not None:
        network.advance(until_ns)
    while until_ns is None and (next_ns := network.clock.next_ns()) is not None:
        network.advance(next_ns)
    network.run.end_ns = network.clock.now_ns
    network.run.trims = [(port.trimmed_packets, port.trimmed_bytes) for port in network.ports]
    return network.run
