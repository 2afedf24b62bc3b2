# SPDX-License-Identifier: Apache-2.0
"""Test category 1 of the draft, back-to-back bursts: the longest burst of N senders at line rate that loses nothing.

The port has room for B frames (plain drops, no PFC). While L frames of each of N senders arrive, L - 1 leave and one is on the
wire, so that the port holds N L - L at most: bursts of B / (N - 1) frames, rounded down, lose nothing. One frame more does.
"""

from __future__ import annotations

from functools import partial

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.benchmarks.studies.bmwg.common import DROPS
from dc_gym.results.results import Result, number
from dc_gym.study import Measure, Study, Variant, drawing
from dc_gym.study.claims import less_than, more_than

TITLE = "Back-to-back bursts: what a port absorbs"
RATIOS, BUFFER_FRAMES, PAYLOAD_BYTES = (2, 4, 8, 16, 32), 300, 1440
BURST = Measure("burst_frames", "burst of a sender (frames)")
LONGEST = Measure("longest_bytes", "longest queue (kB)", 1e-3)


def capacity(senders: int) -> int:
    """Returns the frames of the longest burst of each sender without loss."""
    return BUFFER_FRAMES // (senders - 1)


def name(senders: int, more: int) -> str:
    return f"{senders}:1, {'one frame more' if more else 'the longest burst'}"


def measure(result: Result, frames: int) -> dict[str, float]:
    """Returns the burst, drops and the longest queue of the receiver's port."""
    port = next(row for row in result.ports if row["name"] == result.summary["bottleneck_port"])
    queues = result.records("queues")
    longest = queues["longest_bytes"][queues["port"] == result.names.port.index(port["name"])]
    return {BURST.name: frames, DROPS.name: number(result.summary["drops"]), LONGEST.name: float(longest.max())}


def variant(senders: int, more: int) -> Variant:
    frames = capacity(senders) + more
    values = {"workload.senders": senders, "workload.size": f"{frames * PAYLOAD_BYTES}B"}
    return Variant(name(senders, more), values, "#D55E00" if more else "#332288", given={"frames": frames})


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 1",
    base={
        "topology.kind": "single",
        "topology.hosts": max(RATIOS) + 1,
        "topology.rate": "10Gbit/s",
        "topology.delay": "1us",
        "topology.buffer": f"{BUFFER_FRAMES * FRAME_BYTES}B",
        "controller.name": "none",
        "nic.trace": "off",
        "workload.kind": "many_to_one",
        "time.duration": "20ms",
        "monitor.interval": "100us",
        "metrics.slowdown": "off",
    },
    variants=[variant(senders, more) for senders in RATIOS for more in (0, 1)],
    measures=(BURST, DROPS, LONGEST),
    measure=measure,
    seeds=1,
    identities=[
        *(less_than(name(senders, 0), DROPS, 1) for senders in RATIOS),
        *(more_than(name(senders, 1), DROPS, 0) for senders in RATIOS),
    ],
    draw=partial(drawing.dot_panels, columns=(BURST, DROPS, LONGEST), title=TITLE),
)
