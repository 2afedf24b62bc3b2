# SPDX-License-Identifier: Apache-2.0
"""Figure 7 of ACC (Yan et al., SIGCOMM 2021): messages of five sizes from two senders to one, with ACC and with static markings.

ACC: messages of 1 KB, 10 KB, 100 KB, 1 MB and 10 MB at loads of 20 and 60 % of the receiver's link. It gives the tail of messages
up to 10 KB by factors, and the queue at 60 %. It does not give how often each size is drawn, and which percentile the tail is.
Here all sizes are as likely, messages start as a Poisson process at each sender, for 6 s (20 %) and 2 s (60 %), and the tail is
the 99th percentile. A message has a queue pair of its own, which begins at line rate. ACC's may share queue pairs.

ACC's net was trained offline and learns on in the paper. Both forms have a row: the net that comes with dc-gym as it is, and the
same net in a switch that learns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import COLORS, CONTESTANTS, LEARNING, LINE_BPS, PAUSES, QUEUE, RIVALS, TRAINED
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Measure, Study, Variant, VariantLine, below, series
from dc_gym.study.collect import wire_bytes

TITLE = "Messages of five sizes, two senders to one"
SOURCE = "ACC, figure 7"
SENDERS = 2
SIZES_BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SMALL_BYTES, LARGE_BYTES = 10_000, 1_000_000
LOADS = {"20 %": 0.2, "60 %": 0.6}
LAST_START_MS, TAIL_MS = {"20 %": 6000, "60 %": 2000}, 200
"""The time for which messages start, so that both loads have as many, and the time in which the last ones end."""
WHO = (*RIVALS, TRAINED, LEARNING)
SHORTER = {"20 %": 1.5, "60 %": 2.0}
"""The least factor by which the paper's tail is shorter; the largest is 3 and 7."""
TAIL = Measure("small_p99_s", "99th percentile up to 10 kB (us)", 1e6, 3)
FAR_TAIL = Measure("small_p999_s", "99.9th percentile up to 10 kB (us)", 1e6, 3)
SMALL = Measure("small_s", "mean up to 10 kB (us)", 1e6, 3)
LARGE = Measure("large_s", "mean from 1 MB on (ms)", 1e3, 3)
SPREAD = Measure("queue_sd_bytes", "standard deviation of the queue (kB)", 1e-3, 3)
GOODPUT = Measure("goodput_bps", "goodput (Gbit/s)", 1e-9, 4)
MESSAGES = Measure("messages", "messages")
PAPER_BYTES = {"SECN1": (20.4e3, 49.6e3), "SECN2": (37.5e3, 109.3e3), TRAINED: (5.6e3, 13.3e3), LEARNING: (5.6e3, 13.3e3)}
"""The queue at 60 %: mean and standard deviation."""


def name(load: str, contestant: str) -> str:
    return f"{load}, {contestant}"


def file_of(load: str) -> str:
    return f"messages-{load.removesuffix(' %')}-s{{seed}}.csv"


def messages(load: str, seed: int) -> str:
    """Returns the messages at a load, drawn by the seed, as a list of flows. A message has a queue pair of its own."""
    mean_bytes = sum(wire_bytes(size) for size in SIZES_BYTES) / len(SIZES_BYTES)
    each_per_s = LOADS[load] * LINE_BPS / 8 / mean_bytes / SENDERS
    rows: list[tuple[int, int, int, str]] = []
    for sender in range(1, SENDERS + 1):
        chance = random.Random(f"{load}, sender {sender}, seed {seed}")
        start_s = chance.expovariate(each_per_s)
        while start_s < LAST_START_MS[load] / 1e3:
            rows.append((sender, SENDERS + 1, len(rows), f"{start_s:.9f},0,{chance.choice(SIZES_BYTES)}"))
            start_s += chance.expovariate(each_per_s)
    return common.flow_list(rows)


VARIANTS = tuple(
    Variant(
        name(load, who),
        {**CONTESTANTS[who], **common.sampled(LAST_START_MS[load] + TAIL_MS, 50, 20)},
        COLORS[who],
        paper=dict(zip((QUEUE.name, SPREAD.name), PAPER_BYTES[who], strict=True)) if load == "60 %" else {},
        by_seed={"workload.file": file_of(load)},
    )
    for load, who in product(LOADS, WHO)
)


def _tails(contestant: str, measure: Measure, setup: str) -> Iterator[Claim]:
    for (load, factor), rival in product(SHORTER.items(), RIVALS):
        words, rows = (
            f"{load} load: the tail of messages up to 10 kB is {{}} {rival}",
            (name(load, contestant), name(load, rival)),
        )
        yield Claim(words.format("shorter than with"), SOURCE, (below(*rows, measure),), setup)
        times = f"at least {factor:g} times as short as with"
        yield Claim(words.format(times), SOURCE, (below(*rows, measure, round(1 / factor, 3)),), setup)


def _claims(contestant: str, setup: str = "") -> Iterator[Claim]:
    yield from _tails(contestant, TAIL, setup)
    least, middle, most = (name("60 %", contender) for contender in (contestant, *RIVALS))
    for quantity, measure in (("mean queue", QUEUE), ("queue's standard deviation", SPREAD)):
        words = f"60 % load: the {quantity} is shortest with ACC, and longest with SECN2"
        yield Claim(words, SOURCE, (below(least, middle, measure), below(middle, most, measure)), setup)


def measure(result: Result) -> dict[str, float]:
    """Returns completion times of the messages that ended, and the queue of the receiver's port."""
    flows = result.records("flows")
    ended = flows[flows["end_ns"] >= 0]
    took_s, size = (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"]
    small = took_s[size <= SMALL_BYTES]
    queue = common.queue_of(result, f"s1-eth{SENDERS + 1}")["backlog_bytes"]
    return {
        TAIL.name: float(np.percentile(small, 99)),
        FAR_TAIL.name: float(np.percentile(small, 99.9)),
        SMALL.name: float(small.mean()),
        LARGE.name: float(took_s[size >= LARGE_BYTES].mean()),
        QUEUE.name: float(queue.mean()),
        SPREAD.name: float(queue.std()),
        GOODPUT.name: number(result.summary["goodput_bps"]),
        MESSAGES.name: float(len(flows)),
        common.UNFINISHED.name: float(len(flows) - len(ended)),
        **common.pauses(result),
    }


LINES = [VariantLine(who, COLORS[who], {100 * share: name(load, who) for load, share in LOADS.items()}) for who in WHO]
DRAWN = (TAIL, LARGE, QUEUE, SPREAD)
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={**common.rack(SENDERS + 1), "workload.kind": "matrix"},
    variants=VARIANTS,
    files=partial(common.drawn, {file_of(load): partial(messages, load) for load in LOADS}),
    measures=(TAIL, FAR_TAIL, SMALL, LARGE, QUEUE, SPREAD, GOODPUT, MESSAGES, common.UNFINISHED, PAUSES),
    measure=measure,
    claims=(*_claims(TRAINED), *_tails(TRAINED, FAR_TAIL, "99.9th percentile"), *_claims(LEARNING, "learns on")),
    draw=partial(series.figure, series=LINES, columns=DRAWN, xlabel="load (% of the receiver's link)", title=TITLE, base=None),
    facts=common.FACTS,
    runs="messages",
)
