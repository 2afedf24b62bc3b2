# SPDX-License-Identifier: Apache-2.0
"""Figure 15 of ACC (Yan et al., SIGCOMM 2021): the queue over time when a burst meets flows that last.

ACC draws the queue of one port. Here two servers keep eight flows to a third, at 25 Gbit/s. From 40 ms on thirteen other servers
send to it at once, every 40 ms, three times. A burst is four flows of 400 kB from each of them, 21 MB in all, which take 7 ms of
the line: long enough for an agent that decides once in 500 us. The flows of a burst begin within 50 us, at line rate, at times
that the seed draws. The queue is shown from 5 ms before a burst to 35 ms after it, as a mean over the three bursts and over each
500 us. The claims on the time from 10 ms after a burst's begin on were chosen after the first results.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from dc_gym.base.key import MS
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import LINE_BPS, RIVALS, TRAINED, USE, queue_of
from dc_gym.results.results import Result
from dc_gym.study import OURS, Claim, Floats, Measure, Study, Track, above, below, drawing

TITLE = "The queue over time under a burst"
SOURCE = "ACC, figure 15"
HOSTS = 16
LASTING, LASTING_EACH = 2, 4
"""Senders whose flows last, and the flows of each."""
BURST_EACH, BURST_BYTES, SPREAD_S = 4, 400_000, 50e-6
BURSTS, PERIOD_MS, BEFORE_MS, AFTER_MS, SAMPLE_US = 3, 40, 5, 10, 50
"""The first burst comes after one period. The window of a burst begins before it and ends a period later."""
SAMPLES, BEFORE_SAMPLES, DRAWN_SAMPLES = PERIOD_MS * 1000 // SAMPLE_US, BEFORE_MS * 1000 // SAMPLE_US, 10
"""Samples of the queue in a window, before a burst in it, and in a point of the figure."""
LONG_BYTES = 200_000
"""A queue above it counts as long: ten times the lowest threshold of ACC's template (ours)."""
BEFORE = Measure("before_bytes", "mean queue in the 5 ms before a burst (kB)", 1e-3, 3)
PEAK = Measure("peak_bytes", "longest queue of a burst (kB)", 1e-3, 4)
AFTER = Measure("after_bytes", "mean queue in the 10 ms after a burst's begin (kB)", 1e-3, 3)
LATER = Measure("later_bytes", "mean queue from 10 ms to 35 ms (kB)", 1e-3, 3)
LONG = Measure("long_s", "time above 200 kB, a burst (ms)", 1e3, 3)
BURST = Measure("burst_s", "mean time of a burst's flows (ms)", 1e3, 3)
AFTER_FIRST = Measure(USE.name, "rate after the first burst (of the line)", digits=4)
QUEUE = Measure("queue_bytes", "queue (kB)", 1e-3)
FILE = "burst-s{seed}.csv"


def flows(seed: int) -> str:
    """Returns the long flows and the flows of each burst, drawn by the seed, as one list."""
    chance, rows = random.Random(f"burst, seed {seed}"), list[tuple[int, int, int, str]]()
    for sender, _ in product(range(1, LASTING + 1), range(LASTING_EACH)):
        times = f"{chance.uniform(0, 1e-4):.9f},{PERIOD_MS * (BURSTS + 1) / 1e3:g},0"
        rows.append((sender, HOSTS, len(rows), times))
    for burst, sender, _ in product(range(1, BURSTS + 1), range(LASTING + 1, HOSTS), range(BURST_EACH)):
        times = f"{burst * PERIOD_MS / 1e3 + chance.uniform(0, SPREAD_S):.9f},0,{BURST_BYTES}"
        rows.append((sender, HOSTS, len(rows), times))
    return common.flow_list(rows)


def _claims(rival: str) -> Iterator[Claim]:
    queue = f"the queue is shorter than with {rival}"
    yield Claim(f"After a burst begins {queue} (mean over {AFTER_MS} ms)", SOURCE, (below(TRAINED, rival, AFTER),))
    words = f"From {AFTER_MS} ms after a burst's begin on {queue} (ours)"
    yield Claim(words, OURS, (below(TRAINED, rival, LATER),))
    words = f"A burst makes the queue long for a shorter time than with {rival} (ours: above {LONG_BYTES // 1000} kB)"
    yield Claim(words, OURS, (below(TRAINED, rival, LONG),))
    words = f"The throughput is not lower than with {rival} by more than 1 % (ours)"
    yield Claim(words, OURS, (above(TRAINED, rival, AFTER_FIRST, 0.99),))


def windows(queue: np.ndarray) -> Floats:
    """Returns the queue of a port in bytes from BEFORE_MS before each burst on, [bursts, samples of a period]."""
    backlog: Floats = queue["backlog_bytes"].astype(np.float64)
    bursts_ns = np.arange(1, BURSTS + 1) * PERIOD_MS * MS
    firsts = [int(first) - BEFORE_SAMPLES for first in np.searchsorted(queue["t_ns"], bursts_ns)]
    periods = [backlog[first : first + SAMPLES] for first in firsts if first + SAMPLES <= len(backlog)]
    return np.stack(periods) if periods else np.empty((0, SAMPLES))


def measure(result: Result) -> dict[str, float]:
    """Returns the queue of the receiver's port around bursts, and the rate from the first one on."""
    queue = queue_of(result, f"s1-eth{HOSTS}")
    periods = windows(queue)
    if not len(periods):
        return {}
    sent = queue[queue["t_ns"] >= PERIOD_MS * MS]
    passed_s = float(sent["t_ns"][-1] - sent["t_ns"][0]) / 1e9
    later = BEFORE_SAMPLES + AFTER_MS * 1000 // SAMPLE_US
    burst = [flow for flow in result.records("flows") if flow["size_bytes"] == BURST_BYTES and flow["end_ns"] >= 0]
    return {
        BEFORE.name: float(periods[:, :BEFORE_SAMPLES].mean()),
        PEAK.name: float(periods[:, BEFORE_SAMPLES:].max(axis=1).mean()),
        AFTER.name: float(periods[:, BEFORE_SAMPLES:later].mean()),
        LATER.name: float(periods[:, later:].mean()),
        LONG.name: float((periods[:, BEFORE_SAMPLES:] > LONG_BYTES).sum(axis=1).mean()) * SAMPLE_US / 1e6,
        BURST.name: float(np.mean([flow["end_ns"] - flow["start_ns"] for flow in burst])) / 1e9,
        USE.name: (int(sent["tx_bytes"][-1]) - int(sent["tx_bytes"][0])) * 8 / passed_s / LINE_BPS,
        **common.pauses(result),
    }


def track(result: Result) -> Track:
    """Returns the queue around a burst in whole bytes, as a mean over the bursts. Time 0 is the begin of the burst."""
    periods = windows(queue_of(result, f"s1-eth{HOSTS}")).reshape(-1, SAMPLES // DRAWN_SAMPLES, DRAWN_SAMPLES)
    places = np.arange(periods.shape[1], dtype=np.float64) + 0.5
    x: Floats = places * (DRAWN_SAMPLES * SAMPLE_US / 1e6) - BEFORE_MS / 1e3
    return Track(x, {QUEUE.name: periods.mean(axis=(0, 2)).round() if len(periods) else np.full(len(x), np.nan)})


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={**common.rack(HOSTS), "workload.kind": "matrix", **common.sampled(PERIOD_MS * (BURSTS + 1), SAMPLE_US, 5)},
    variants=common.variants(("SECN0", *RIVALS, TRAINED), by_seed={"workload.file": FILE}),
    files=partial(common.drawn, {FILE: flows}),
    measures=(BEFORE, PEAK, AFTER, LATER, LONG, BURST, AFTER_FIRST, common.PAUSES),
    measure=measure,
    track=track,
    claims=[claim for rival in RIVALS for claim in _claims(rival)],
    draw=partial(drawing.figure, panels=(QUEUE,), title=TITLE),
    facts=common.FACTS,
    runs="burst",
)
