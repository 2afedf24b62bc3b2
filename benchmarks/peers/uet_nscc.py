# SPDX-License-Identifier: Apache-2.0
"""NSCC beside uet-htsim's: both get the same random events, and their windows are compared.

    python -m dc_gym.benchmarks.peers.uet_nscc DIR > benchmarks/peers/uet_nscc.json

DIR is a git clone of ultraethernet/uet-htsim at COMMIT with its library (BUILD). It is not part of this project.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dc_gym.base.package import PROGRAMS
from dc_gym.base.terminal import say
from dc_gym.benchmarks.peers import sources
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.ctrl.nic.events import ACK, MARKED, NACK, TIMEOUT, TRIMMED, NicEvent, NicFlow

COMMIT = "40ccb0526bb6297eeb22ab33f9934fb35278dbaf"
BUILD = "htsim/sim/uec.cpp and what it needs by g++ 12 -std=c++17 -w -c; ar rcs build/libhtsim.a"
SOURCE = Path(__file__).resolve().with_name("uet_nscc.cc")
FLAGS = ("-O2", "-std=c++17", "-w")
LIVES, EVENTS, SEED = 100, 1000, 1
PACKET_BYTES, HEADER_BYTES, LINE_MBPS = 4160, 64, 100_000
"""uet-htsim's packet: _mss and _hdr_size of uec.cpp:28-30."""
BASES_NS = (6_000, 12_000, 20_000)


def trace(draw: random.Random) -> list[golden.Step]:
    """Returns the events of all flows. Their numbers have no meaning in a network, but each range is one of networks."""
    return [step for _ in range(LIVES) for step in _life(draw)]


def _life(draw: random.Random) -> Iterator[golden.Step]:
    flow = NicFlow(draw.choice(BASES_NS), LINE_MBPS, PACKET_BYTES, 4)
    now_ns, queue = draw.randrange(10**9, 2 * 10**9), 0.0
    for number in range(EVENTS):
        now_ns += draw.choice((333, 333, 1000, draw.randrange(5000)))
        queue = max(0.0, min(6.0, queue + draw.uniform(-0.3, 0.3)))
        rtt_ns = int(flow.base_rtt_ns * (0.99 + queue)) + draw.randrange(200)
        trimmed, timed_out = draw.random() < 0.02 * queue, draw.random() < 0.001
        flags = TRIMMED if trimmed else TIMEOUT if timed_out else MARKED if draw.random() < queue / 2 else 0
        kind, packets = (NACK, 1) if trimmed or timed_out else (ACK, draw.choice((1, 1, 1, 4)))
        times = (now_ns, now_ns, 1, packets * PACKET_BYTES, packets, now_ns - rtt_ns)
        yield NicEvent(kind, flags | (not number), *times, draw.randrange(60) * PACKET_BYTES, 0), flow


def compare(tree: Path) -> dict[str, object]:
    """Returns the largest relative difference of two windows after the same event, and what was compared."""
    sources.require_commit(tree, COMMIT)
    library = tree / "build/libhtsim.a"
    include = f"-isystem{tree / 'htsim/sim'}"
    program = sources.built(SOURCE, library, (*FLAGS, include), (str(library),), str(tree))
    algorithm, steps = algorithms.load("nscc", PROGRAMS), trace(random.Random(SEED))
    values = {**golden.values_of(algorithm, "trim"), "header": HEADER_BYTES}
    ours = [decision.window_bytes for decision in golden.decisions(golden.runner_argv(algorithm, values), steps)]
    with tempfile.TemporaryDirectory() as folder:
        events, windows = Path(folder) / "events", Path(folder) / "windows"
        events.write_text(golden.text(steps))
        sources.run("uet-htsim", [str(program), str(events), str(windows)])
        theirs = list(map(int, windows.read_text().split()))
    apart = [abs(own - other) / other for own, other in zip(ours, theirs, strict=True)]
    of_kind = {
        name: sum(bool(event.flags & flag) for event, _ in steps)
        for name, flag in (("marked", MARKED), ("trimmed", TRIMMED), ("timeouts", TIMEOUT))
    }
    return {
        "repository": "https://github.com/ultraethernet/uet-htsim",
        "commit": COMMIT,
        "build": BUILD,
        "command": "python -m dc_gym.benchmarks.peers.uet_nscc DIR",
        "events": len(steps),
        **of_kind,
        "windows_bytes": [min(theirs), max(theirs)],
        "different_windows": len(set(theirs)),
        "largest_difference": max(apart),
        "mean_difference": sum(apart) / len(apart),
    }


if __name__ == "__main__":
    say(json.dumps(compare(Path(sys.argv[1])), indent=2))
