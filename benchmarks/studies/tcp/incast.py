# SPDX-License-Identifier: Apache-2.0
"""Incast: N senders answer one receiver at once, through one switch port.

The setting follows V. Vasudevan et al. (SIGCOMM 2009) and M. Alizadeh et al. (DCTCP, SIGCOMM 2010, section 4.2.1): 1 Gbit/s, a
static buffer of 100 kB per port, DCTCP's K of 20 frames, a round trip of 100 us. Each sender opens a connection and sends 64 KiB.
The goodput counts all senders together, from the first start to the last byte. Seeds differ by a start jitter of 20 us.

The arithmetic is in full frames. B is the buffer (66), P the frames of a round trip without queueing (10.3), S the segments of a
flow (46), and W = 10 Linux's initial window. Outstanding frames that are not in the pipe are queued:

    CUBIC   slow start sends two frames for each acknowledged one until the flow has no more, so it has at most
            (S + W) / 2 outstanding; drops begin when N (S + W) / 2 - P > B
    DCTCP   the first window sees no mark, and the K frames that found room below K are acknowledged without one, one frame
            more for each; drops begin when N W + K - P > B
    later   a window has at least 2 segments: N lasting flows queue 2 N - P frames where that is above K, and keep losing
            where it is above B (DCTCP's paper: 35 senders)

A flow that loses a whole window waits for its retransmission timer: the round then takes 200 ms more, whatever the line rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dc_gym.base.units import FRAME_BYTES, parse_time_ns
from dc_gym.results.figures import kit
from dc_gym.results.figures.styles import label_of
from dc_gym.results.results import Result
from dc_gym.study import Claim, Criterion, Evidence, Measure, Study, Variant, VariantLine, between, less_than, more_than, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATE_BPS, DELAY_NS, ACK_BYTES, MSS_BYTES = 10**9, 25_000, 66, 1448
SIZE_BYTES, SIZE, BUFFER_BYTES, K_FRAMES = 64 << 10, "64KiB", 100_000, 20
INITIAL_WINDOW, LEAST_WINDOW, RTO_S = 10, 2, 0.2
BUFFER = BUFFER_BYTES // FRAME_BYTES
PIPE = (4 * DELAY_NS * 1e-9 + 2 * (FRAME_BYTES + ACK_BYTES) * 8 / RATE_BPS) * RATE_BPS / (8 * FRAME_BYTES)
"""Frames that the path holds in a round trip without queueing: four delays, a frame and an ACK on two links."""
NO_END = {"time.duration": "400ms", "time.warmup": "200ms", "monitor.interval": "1ms"}
SENDERS, LASTING = (2, 4, 8, 16, 32, 48, 64, 128, 256), (16, 24, 32, 48)
FULL_BPS = RATE_BPS * MSS_BYTES / FRAME_BYTES
CUBIC, DCTCP, SLOW, FAST = "cubic", "dctcp", "200ms", "1ms"
VASUDEVAN, ALIZADEH = "V. Vasudevan et al., SIGCOMM 2009", "M. Alizadeh et al., SIGCOMM 2010, section 4.2.1"
OURS = "ours: the arithmetic above"
GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)
DROPS = Measure("drops", "frames dropped")
QUEUE, LATE_DROPS = Measure("queue_frames", "mean queue (frames)"), Measure("late_drops", "frames dropped after the warm-up")


def first_overflow(frames_a_sender: float, more_frames: float = 0) -> int:
    """Returns the smallest number of senders whose outstanding frames exceed the room of pipe and buffer."""
    return math.floor((BUFFER + PIPE - more_frames) / frames_a_sender) + 1


ONSETS = {
    CUBIC: first_overflow((math.ceil(SIZE_BYTES / MSS_BYTES) + INITIAL_WINDOW) / 2),
    DCTCP: first_overflow(INITIAL_WINDOW, K_FRAMES),
}
"""The smallest numbers of senders of 64 KiB that lose a frame."""


def least_queue_frames(senders: int) -> float:
    """Returns the frames that flows with the smallest window keep queued."""
    return LEAST_WINDOW * senders - PIPE


def one_timeout_bps(senders: int) -> float:
    """Returns the goodput of a round that waits once for a timer of 200 ms and otherwise fills the line."""
    return senders * SIZE_BYTES * 8 / (RTO_S + senders * SIZE_BYTES * 8 / FULL_BPS)


def measure(result: Result, lasting: bool = False) -> dict[str, float]:
    """Returns a round's goodput and drops, or the queue and the drops of endless flows after the warm-up."""
    if not lasting:
        flows = result.records("flows")
        taken_ns = float(flows["end_ns"].max() - flows["start_ns"].min()) if (flows["end_ns"] > 0).all() else math.inf
        return {GOODPUT.name: len(flows) * SIZE_BYTES * 8e9 / taken_ns, DROPS.name: float(result.summary["drops"])}
    queues, warmup_ns = result.records("queues"), parse_time_ns(result.manifest["spec"]["time"]["warmup"])
    port = result.names.port.index(result.summary["bottleneck_port"])
    samples = queues[(queues["port"] == port) & (queues["t_ns"] >= warmup_ns)]
    dropped = int(samples["drops"][-1]) - int(samples["drops"][0])
    return {QUEUE.name: float(samples["backlog_bytes"].mean()) / FRAME_BYTES, LATE_DROPS.name: float(dropped)}


def name(controller: str, rto_min: str, senders: int) -> str:
    return f"{controller}, RTO >= {rto_min}, {senders} senders"


def lasting(senders: int) -> str:
    return f"dctcp, {senders} lasting senders"


def variant(name: str, controller: str, senders: int, keys: Mapping[str, Any], **more: Any) -> Variant:
    values = {"controller.name": controller, "topology.hosts": senders + 1, **keys}
    return Variant(name, values, kit.color_of(controller), **more)


def fits(senders: int) -> tuple[Criterion, Criterion]:
    least = least_queue_frames(senders)
    return between(lasting(senders), QUEUE, least - 1, least + 1), less_than(lasting(senders), LATE_DROPS, 1)


def waits_for_one_timer(senders: int) -> Criterion:
    law_bps = one_timeout_bps(senders)
    return between(name(CUBIC, SLOW, senders), GOODPUT, 0.85 * law_bps, 1.01 * law_bps)


def collapse(controller: str, senders: Iterable[int]) -> tuple[Criterion, ...]:
    return tuple(less_than(name(controller, SLOW, count), GOODPUT, FULL_BPS / 3) for count in senders)


TRIED = {controller: sorted({*SENDERS, first - 1, first}) for controller, first in ONSETS.items()}
"""Numbers of senders with the usual timer: the figure's numbers, and the numbers between which drops begin."""
MARKS = {f"{label_of(who)} drops": first for who, first in ONSETS.items()} | {"2 segments each": first_overflow(LEAST_WINDOW)}
LINES = [(controller, rto_min) for rto_min in (SLOW, FAST) for controller in TRIED]


def draw(evidence: Evidence) -> Figure:
    lines = []
    for controller, rto_min in LINES:
        points = {float(count): name(controller, rto_min, count) for count in SENDERS}
        label, style = f"{label_of(controller)}, RTO at least {rto_min}", "-" if rto_min == SLOW else "--"
        lines.append(VariantLine(label, kit.color_of(controller), points, line=style))

    def marks(axes: Axes) -> None:
        for words, senders in MARKS.items():
            axes.axvline(senders, color=kit.FAINT, linestyle=":", linewidth=1)
            axes.text(senders * 1.03, 330, f"{words}: {senders}", rotation=90, va="center", fontsize=7.5, color=kit.FAINT)

    title = f"Incast: 1 Gbit/s, 100 kB of buffer, K = {K_FRAMES} frames"
    return series.figure(evidence, lines, (GOODPUT, DROPS), "senders of 64 KiB", title, curves={GOODPUT.name: marks})


LOST = [senders for senders in SENDERS if least_queue_frames(senders) > BUFFER]
FITS = [senders for senders in LASTING if least_queue_frames(senders) <= BUFFER]
FLOODS = [senders for senders in LASTING if senders not in FITS]
STUDY = Study(
    title="Goodput and drops of 2 to 256 senders to one receiver",
    source=f"{VASUDEVAN}; {ALIZADEH}",
    base={
        "topology.kind": "single",
        "topology.rate": "1Gbit/s",
        "topology.delay": "25us",
        "topology.buffer": "100kB",
        "topology.host_buffer": "4MB",
        "topology.k_bytes": K_FRAMES * FRAME_BYTES,
        "workload.kind": "many_to_one",
        "workload.jitter": "20us",
        "time.duration": "20s",
        "monitor.interval": "100ms",
    },
    variants=[
        *(
            variant(name(who, rto_min, senders), who, senders, {"controller.rto_min": rto_min, "workload.size": SIZE})
            for who, rto_min in LINES
            for senders in (TRIED[who] if rto_min == SLOW else SENDERS)
        ),
        *(variant(lasting(senders), DCTCP, senders, NO_END, given={"lasting": True}) for senders in LASTING),
    ],
    measures=(GOODPUT, DROPS, QUEUE, LATE_DROPS),
    measure=measure,
    seeds=3,
    claims=[
        Claim("CUBIC collapses from 16 senders on, below a third of the line", VASUDEVAN, collapse(CUBIC, SENDERS[3:])),
        Claim("With 16 and 32 senders CUBIC waits for one timer", OURS, tuple(map(waits_for_one_timer, (16, 32)))),
        Claim(
            "ECN ends the collapse of 8 and 16 senders",
            ALIZADEH,
            tuple(more_than(name(DCTCP, SLOW, senders), GOODPUT, 0.8 * FULL_BPS) for senders in (8, 16)),
        ),
        Claim("DCTCP collapses where two segments each are too many", ALIZADEH, collapse(DCTCP, LOST)),
        Claim(
            "With a timer of 1 ms nothing collapses",
            VASUDEVAN,
            tuple(more_than(name(who, FAST, senders), GOODPUT, FULL_BPS / 3) for who in TRIED for senders in SENDERS),
        ),
        *(
            Claim(
                f"{label_of(who)}: drops begin at {first} senders",
                OURS,
                (less_than(name(who, SLOW, first - 1), DROPS, 1), more_than(name(who, SLOW, first), DROPS, 0)),
            )
            for who, first in ONSETS.items()
        ),
        Claim(
            "Lasting DCTCP flows queue 2 N - P frames, and lose none that fit",
            OURS,
            tuple(criterion for senders in FITS for criterion in fits(senders)),
        ),
        Claim(
            "Where 2 N - P frames do not fit, the buffer is full and drops",
            ALIZADEH,
            tuple(more_than(lasting(senders), *bound) for senders in FLOODS for bound in ((QUEUE, 64), (LATE_DROPS, 0))),
        ),
    ],
    draw=draw,
    facts=[
        ("Network", f"one switch, 1 Gbit/s, 25 us a link, 100 kB a port, K of {K_FRAMES} frames"),
        ("Traffic", "each sender opens a connection and sends 64 KiB; lasting senders never end"),
    ],
)
