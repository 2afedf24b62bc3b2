# SPDX-License-Identifier: Apache-2.0
"""Figure 7 of ACC (Yan et al., SIGCOMM 2021): messages of five sizes from two senders to one, with ACC and with static markings.

ACC: messages of 1 KB, 10 KB, 100 KB, 1 MB and 10 MB at loads of 20 and 60 % of the receiver's link. It gives the tail of messages
up to 10 KB by factors, and the queue at 60 %. It does not give how often each size is drawn, and which percentile the tail is.
Here all sizes are as likely, messages start as a Poisson process at each sender, and the tail is the 99th percentile.

ACC's net was trained offline and learns on in the paper. Both forms have a row: the net that comes with dc-gym as it is, and the
same net in a switch that learns.
"""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, LEARNING, PAUSES, TRAINED, queue_of, rack
from dc_gym.study.collect import Variant
from dc_gym.records.results import Result, number
from dc_gym.study import series
from dc_gym.study.claims import Claim, Explanation, below
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.series import VariantLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Messages of five sizes, two senders to one"
SOURCE = "ACC, figure 7"
NAME = "messages"
LINE_BPS, SENDERS = 25 * 10**9, 2
SIZES_BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SMALL_BYTES, LARGE_BYTES = 10_000, 1_000_000
LOADS = {"20 %": 0.2, "60 %": 0.6}
LAST_START_MS, TAIL_MS = {"20 %": 6000, "60 %": 2000}, 200
"""How long messages start, so that both loads have as many, and the time in which the last ones end."""
RIVALS = ("SECN1", "SECN2")
WHO = {who: CONTESTANTS[who] for who in (*RIVALS, TRAINED, LEARNING)}
COLORS = {**common.COLORS, LEARNING: "#88CCEE"}
PAPER_QUEUE = {"SECN1": (20.4, 49.6), "SECN2": (37.5, 109.3), TRAINED: (5.6, 13.3), LEARNING: (5.6, 13.3)}
"""The queue at 60 %: mean and standard deviation in kB."""
SHORTER = {"20 %": 1.5, "60 %": 2.0}
"""The least factor by which the paper's tail is shorter; the largest is 3 and 7."""
TAIL = Measure("small_p99_s", "99th percentile up to 10 kB (us)", 1e6, 3)
FAR_TAIL = Measure("small_p999_s", "99.9th percentile up to 10 kB (us)", 1e6, 3)
SMALL = Measure("small_s", "mean up to 10 kB (us)", 1e6, 3)
LARGE = Measure("large_s", "mean from 1 MB on (ms)", 1e3, 3)
QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 3)
SPREAD = Measure("queue_sd_bytes", "standard deviation of the queue (kB)", 1e-3, 3)
GOODPUT = Measure("goodput_bps", "goodput (Gbit/s)", 1e-9, 4)
MESSAGES, UNFINISHED = Measure("messages", "messages"), Measure("unfinished", "unfinished")
COLUMNS = (TAIL, FAR_TAIL, SMALL, LARGE, QUEUE, SPREAD, GOODPUT, MESSAGES, UNFINISHED, PAUSES)


def name(load: str, who: str) -> str:
    return f"{load}, {who}"


def file_of(load: str) -> str:
    """Returns the name of the file with the messages of a seed, which stands in it as `{seed}`."""
    return f"messages-{load.removesuffix(' %')}-s{{seed}}.csv"


def messages(load: str, seed: int) -> str:
    """Returns the messages at a load, drawn by the seed, as a list of flows. A message has a queue pair of its own."""
    mean_bytes = sum(own_rate.wire_bytes(size) for size in SIZES_BYTES) / len(SIZES_BYTES)
    each_per_s = LOADS[load] * LINE_BPS / 8 / mean_bytes / SENDERS
    rows = ["source,destination,port,start,stop,size"]
    for sender in range(1, SENDERS + 1):
        chance = random.Random(f"{load}, sender {sender}, seed {seed}")
        start_s = chance.expovariate(each_per_s)
        while start_s < LAST_START_MS[load] / 1e3:
            rows.append(f"h{sender},h{SENDERS + 1},{5000 + len(rows)},{start_s:.9f},0,{chance.choice(SIZES_BYTES)}")
            start_s += chance.expovariate(each_per_s)
    return "\n".join(rows) + "\n"


ROWS = [
    Variant(
        name(load, who),
        {
            **rack(SENDERS + 1),
            "workload.kind": "matrix",
            **keys,
            "time.duration": f"{LAST_START_MS[load] + TAIL_MS}ms",
            "time.warmup": "0s",
            "monitor.interval": "50us",
            "monitor.tcp_interval": "20ms",
        },
        COLORS[who],
        paper={QUEUE.name: PAPER_QUEUE[who][0] * 1e3, SPREAD.name: PAPER_QUEUE[who][1] * 1e3} if load == "60 %" else {},
        by_seed={"workload.file": file_of(load)},
    )
    for load in LOADS
    for who, keys in WHO.items()
]


FAR = Explanation(
    hypothesis="at 20 % so few messages meet a queue that the 99th percentile does not show it; ACC's tail is a farther one",
    experiment="the column `99.9th percentile up to 10 kB` of dcgym reproduce acc figure-7",
    page="docs/reproduce-acc.md#figure-7",
    showed="at 20 % ACC's is 19 us, SECN1's 57 us and SECN2's 61 us: 3.0 and 3.2 times as short (five seeds)",
)


def _tails(who: str, column: Measure, variant: str) -> tuple[Claim, ...]:
    factors = tuple(
        Claim(
            f"{load} load: the tail of messages up to 10 kB is at least {factor:g} times as short as with {rival}",
            SOURCE,
            (below(name(load, who), name(load, rival), column, round(1 / factor, 3)),),
            why="ACC gives neither how often each size is drawn, nor which percentile the tail is, nor its NICs' parameters",
            explanation=FAR if load == "20 %" and not variant else None,
            variant=variant,
        )
        for (load, factor), rival in product(SHORTER.items(), RIVALS)
    )
    shorter = tuple(
        Claim(
            f"{load} load: the tail of messages up to 10 kB is shorter than with {rival}",
            SOURCE,
            (below(name(load, who), name(load, rival), column),),
            explanation=FAR if load == "20 %" and not variant else None,
            variant=variant,
        )
        for load, rival in product(SHORTER, RIVALS)
    )
    return shorter + factors


def _claims(who: str, variant: str = "") -> tuple[Claim, ...]:
    queues = tuple(
        Claim(
            f"60 % load: the {what} is shortest with ACC, and longest with SECN2",
            SOURCE,
            (
                below(name("60 %", who), name("60 %", "SECN1"), column),
                below(name("60 %", "SECN1"), name("60 %", "SECN2"), column),
            ),
            variant=variant,
        )
        for what, column in (("mean queue", QUEUE), ("queue's standard deviation", SPREAD))
    )
    return _tails(who, TAIL, variant) + queues


CLAIMS = (
    *_claims(TRAINED),
    *_tails(TRAINED, FAR_TAIL, variant="99.9th percentile"),
    *_claims(LEARNING, variant="learns on"),
)
FACTS = (
    ("Network", "3 servers on one switch, 25 Gbit/s; 12 MB shared, pauses by ACC's rule (11.11 %)"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    (
        "Traffic",
        "messages of 1 kB to 10 MB, all five sizes as likely, as a Poisson process at each of two senders, for "
        + " and ".join(f"{last_ms / 1e3:g} s ({load})" for load, last_ms in LAST_START_MS.items()),
    ),
    ("ACC", "controller.start = acc-deployed, once in 500 us, in force 10 us later; without and with learning in the run"),
)
NOTES = (
    "How often each size is drawn, the percentile of the tail, the buffer and SECN1's and SECN2's Pmax are ours: ACC gives none.",
    "A message has a queue pair of its own, which begins at line rate. ACC's messages may share queue pairs.",
)


def measure(result: Result) -> dict[str, float]:
    """Returns completion times of the messages that ended, and the queue of the receiver's port."""
    flows = result.records("flows")
    ended = flows[flows["end_ns"] >= 0]
    took_s, size = (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"]
    small = took_s[size <= SMALL_BYTES]
    queue = queue_of(result, f"s1-eth{SENDERS + 1}")["backlog_bytes"]
    return {
        TAIL.name: float(np.percentile(small, 99)),
        FAR_TAIL.name: float(np.percentile(small, 99.9)),
        SMALL.name: float(small.mean()),
        LARGE.name: float(took_s[size >= LARGE_BYTES].mean()),
        QUEUE.name: float(queue.mean()),
        SPREAD.name: float(queue.std()),
        GOODPUT.name: number(result.summary["goodput_bps"]),
        MESSAGES.name: float(len(flows)),
        UNFINISHED.name: float(len(flows) - len(ended)),
        PAUSES.name: number(result.summary.get("pauses")),
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    files = {file_of(load).format(seed=seed): messages(load, seed) for load, seed in product(LOADS, own_rate.seeds_of(options))}
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, files=files)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    lines = [VariantLine(who, COLORS[who], {100 * share: name(load, who) for load, share in LOADS.items()}) for who in WHO]
    return series.figure(evidence, lines, (TAIL, LARGE, QUEUE, SPREAD), "load (% of the receiver's link)", TITLE, base=None)
