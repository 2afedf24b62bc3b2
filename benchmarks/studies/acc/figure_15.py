# SPDX-License-Identifier: Apache-2.0
"""Figure 15 of ACC (Yan et al., SIGCOMM 2021): the queue over time when a burst meets flows that last.

ACC draws the queue of one port. Here two servers keep eight flows to a third, at 25 Gbit/s. From 40 ms on thirteen other servers
send to it at once, every 40 ms, three times. A burst is four flows of 400 kB from each of them, 21 MB in all, which take 7 ms of
the line: long enough for an agent that decides once in 500 us. The flows of a burst begin within 50 us, at line rate, at times
that the seed draws.

The queue is shown from 5 ms before a burst to 35 ms after it, as a mean over the three bursts.
"""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.key import MS
from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, PAUSES, TRAINED, queue_of, rack
from dc_gym.study.collect import Variant
from dc_gym.records.results import Result, number
from dc_gym.study import drawing
from dc_gym.study.claims import Claim, Explanation, above, below
from dc_gym.study.evidence import Evidence, Floats, Measure, Track
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The queue over time under a burst"
SOURCE = "ACC, figure 15"
NAME = "burst"
LINE_BPS, HOSTS = 25 * 10**9, 16
LASTING, LASTING_EACH = 2, 4
"""Senders whose flows last, and the flows of each."""
BURST_EACH, BURST_BYTES, SPREAD_S = 4, 400_000, 50e-6
BURSTS, PERIOD_MS, BEFORE_MS, SAMPLE_US = 3, 40, 5, 50
"""The first burst comes after one period. The window of a burst begins before it and ends a period later."""
LONG_BYTES = 200_000
"""A queue above it counts as long: ten times the lowest threshold of ACC's template (ours)."""
RIVALS = ("SECN1", "SECN2")
WHO = {who: CONTESTANTS[who] for who in ("SECN0", *RIVALS, TRAINED)}
COLORS = {**common.COLORS, "SECN0": "#88CCEE"}
BEFORE = Measure("before_bytes", "mean queue in the 5 ms before a burst (kB)", 1e-3, 3)
PEAK = Measure("peak_bytes", "longest queue of a burst (kB)", 1e-3, 4)
AFTER = Measure("after_bytes", "mean queue in the 10 ms after a burst's begin (kB)", 1e-3, 3)
LATER = Measure("later_bytes", "mean queue from 10 ms to 35 ms (kB)", 1e-3, 3)
LONG = Measure("long_s", "time above 200 kB, a burst (ms)", 1e3, 3)
BURST = Measure("burst_s", "mean time of a burst's flows (ms)", 1e3, 3)
USE = Measure("rate", "rate after the first burst (of the line)", digits=4)
QUEUE = Measure("queue_bytes", "queue (kB)", 1e-3)
COLUMNS = (BEFORE, PEAK, AFTER, LATER, LONG, BURST, USE, PAUSES)
AFTER_MS = 10
FILE = "burst-s{seed}.csv"


def flows(seed: int) -> str:
    """Returns the flows that last and those of each burst, drawn by the seed, as a list of flows."""
    chance = random.Random(f"burst, seed {seed}")
    rows = ["source,destination,port,start,stop,size"]

    def add(sender: int, times: str) -> None:
        rows.append(f"h{sender},h{HOSTS},{5000 + len(rows)},{times}")

    for sender, _ in product(range(1, LASTING + 1), range(LASTING_EACH)):
        add(sender, f"{chance.uniform(0, 1e-4):.9f},{PERIOD_MS * (BURSTS + 1) / 1e3:g},0")
    for burst, sender, _ in product(range(1, BURSTS + 1), range(LASTING + 1, HOSTS), range(BURST_EACH)):
        add(sender, f"{burst * PERIOD_MS / 1e3 + chance.uniform(0, SPREAD_S):.9f},0,{BURST_BYTES}")
    return "\n".join(rows) + "\n"


ROWS = [
    Variant(
        who,
        {
            **rack(HOSTS),
            "workload.kind": "matrix",
            **keys,
            "time.duration": f"{PERIOD_MS * (BURSTS + 1)}ms",
            "time.warmup": "0s",
            "monitor.interval": f"{SAMPLE_US}us",
            "monitor.tcp_interval": "5ms",
        },
        COLORS[who],
        by_seed={"workload.file": FILE},
    )
    for who, keys in WHO.items()
]
WHY = "the flows, the burst, the rate, the buffer and the static marking beside are ours"
FLOOD = Explanation(
    hypothesis="a burst at line rate is in the queue before a mark can act, so no marking makes that queue shorter",
    experiment="the row `SECN0` of dcgym reproduce acc figure-15, which marks all packets from 18 kB on",
    page="docs/reproduce-acc.md#figure-15",
    showed="its longest queue is 7.47 MB, as with all others, and its mean over 10 ms 2.31 MB beside 2.33 and 2.34 (five seeds)",
)


def _shorter(words: str, column: Measure, **more: Any) -> tuple[Claim, ...]:
    """Returns a claim about each rival: ACC has less of a quantity."""
    return tuple(Claim(words.format(rival), SOURCE, (below(TRAINED, rival, column),), why=WHY, **more) for rival in RIVALS)


CLAIMS = (
    *_shorter(f"After a burst begins the queue is shorter than with {{}} (mean over {AFTER_MS} ms)", AFTER, explanation=FLOOD),
    *_shorter(f"From {AFTER_MS} ms after a burst's begin on the queue is shorter than with {{}} (ours)", LATER, ours=True),
    *_shorter(
        f"A burst makes the queue long for a shorter time than with {{}} (ours: above {LONG_BYTES // 1000} kB)", LONG, ours=True
    ),
    *(
        Claim(
            f"The throughput is not lower than with {rival} by more than 1 % (ours)",
            SOURCE,
            (above(TRAINED, rival, USE, 0.99),),
            ours=True,
        )
        for rival in RIVALS
    ),
)
FACTS = (
    ("Network", f"{HOSTS} servers on one switch, 25 Gbit/s; 12 MB shared, pauses by ACC's rule (11.11 %)"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    (
        "Traffic",
        f"{LASTING} servers with {LASTING_EACH} flows each without an end; {BURSTS} bursts, one in {PERIOD_MS} ms: "
        f"{HOSTS - 1 - LASTING} servers with {BURST_EACH} flows of {BURST_BYTES // 1000} kB each",
    ),
    ("ACC", "controller.start = acc-deployed, once in 500 us, in force 10 us later"),
)
NOTES = (
    "The flows, the burst, the buffer and which static markings stand beside are ours.",
    f"The part from {AFTER_MS} ms on was chosen after the first results.",
)


def windows(queue: np.ndarray) -> Floats:
    """Returns the queue of a port in bytes from BEFORE_MS before each burst on, [bursts, samples of a period]."""
    samples, before = PERIOD_MS * 1000 // SAMPLE_US, BEFORE_MS * 1000 // SAMPLE_US
    backlog: Floats = queue["backlog_bytes"].astype(np.float64)
    bursts_ns = np.arange(1, BURSTS + 1) * PERIOD_MS * MS
    firsts = [int(first) for first in np.searchsorted(queue["t_ns"], bursts_ns) - before if first + samples <= len(backlog)]
    return np.stack([backlog[first : first + samples] for first in firsts]) if firsts else np.empty((0, samples))


def measure(result: Result) -> dict[str, float]:
    """Returns the queue of the receiver's port around bursts, and the rate from the first one on."""
    queue = queue_of(result, f"s1-eth{HOSTS}")
    found, before = windows(queue), BEFORE_MS * 1000 // SAMPLE_US
    if not len(found):
        return {}
    sent = queue[queue["t_ns"] >= PERIOD_MS * MS]
    passed_s = float(sent["t_ns"][-1] - sent["t_ns"][0]) / 1e9
    later = before + AFTER_MS * 1000 // SAMPLE_US
    burst = [flow for flow in result.records("flows") if flow["size_bytes"] == BURST_BYTES and flow["end_ns"] >= 0]
    return {
        BEFORE.name: float(found[:, :before].mean()),
        PEAK.name: float(found[:, before:].max(axis=1).mean()),
        AFTER.name: float(found[:, before:later].mean()),
        LATER.name: float(found[:, later:].mean()),
        LONG.name: float((found[:, before:] > LONG_BYTES).sum(axis=1).mean()) * SAMPLE_US / 1e6,
        BURST.name: float(np.mean([flow["end_ns"] - flow["start_ns"] for flow in burst])) / 1e9,
        USE.name: (int(sent["tx_bytes"][-1]) - int(sent["tx_bytes"][0])) * 8 / passed_s / LINE_BPS,
        PAUSES.name: number(result.summary.get("pauses")),
    }


def track(result: Result) -> Track:
    """Returns the queue around a burst, as a mean over the bursts. Time 0 is the begin of the burst."""
    found = windows(queue_of(result, f"s1-eth{HOSTS}"))
    x = np.arange(found.shape[1]) * SAMPLE_US / 1e6 - BEFORE_MS / 1e3
    return Track(x, {QUEUE.name: found.mean(axis=0) if len(found) else np.full(len(x), np.nan)})


def run(options: StudyOptions, progress: Progress) -> Findings:
    files = {FILE.format(seed=seed): flows(seed) for seed in own_rate.seeds_of(options)}
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, track, files)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    return drawing.figure(evidence, (QUEUE,), TITLE)
