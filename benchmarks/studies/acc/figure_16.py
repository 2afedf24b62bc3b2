# SPDX-License-Identifier: Apache-2.0
"""Figure 16 of ACC (Yan et al., SIGCOMM 2021): the workload changes, and agents that were not trained offline learn on.

ACC: WebSearch becomes DataMining at 4.5 s, and they change places again at 8.5 and 9.5 s. Completion times are means of each 500
ms. Without offline training they rise for a second after the first change, then they are 31.1 % shorter than with SECN1 and 56.2
% shorter than with SECN2. ACC does not give servers, load, and whose completion times these are.

Here six servers on one switch send to each other at 60 %, and the clock of the changes runs 20 times as fast: a second of the
paper is 50 ms, in which an agent decides 100 times instead of 2000. In rows "slow clock" it runs 5 times as fast. With `--length
full` there are no rows "slow clock", and the clock runs 3 times as fast: on the paper's clock there are 131,000 flows, and a run
with agents has room for half as many (docs/scale.md). Sizes are cut at 10 MB.

Agents named "bandit" begin from nothing, too. Their reward is D(L) alone and their gamma 0. They keep all that they saw, prefer
no reward, and half of their first decisions are at random, 1 % at the first change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from operator import sub, truediv
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.key import MS
from dc_gym.base.stats import band
from dc_gym.base.units import MTU_BYTES, TCP_HEADERS_BYTES, parse_time_ns
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, LEARNING, LINE_BPS, RIVALS, TRAINED
from dc_gym.benchmarks.studies.acc.completion import MICE_BYTES, mean
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import log_ticks
from dc_gym.results.results import Result
from dc_gym.study import Claim, Evidence, Floats, Measure, Study, Track, Variant, below, collect, more_than
from dc_gym.study.evidence import of_seeds, with_variants
from dc_gym.traffic import sizes
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.kinds import DEFAULT_PORT
from dc_gym.traffic.sizes import Sampler

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Completion times when the workload changes"
SOURCE = "ACC, figure 16"
RUNS = "changing-workload"
HOSTS, LOAD, LARGEST_BYTES = 6, 0.6, 10_000_000
SEGMENT_BYTES = MTU_BYTES - TCP_HEADERS_BYTES
USUAL, SLOW, FULL = "workloads-s{seed}.csv", "workloads-slow-s{seed}.csv", "workloads-full-s{seed}.csv"
"""Files of the flows of a seed: in most rows, in rows on the slow clock, and with `--length full`."""
FASTER = {USUAL: 20, SLOW: 5, FULL: 3}
"""The speed of the clock of the changes, relative to the paper's."""
INTERVAL_US = {USUAL: 100, SLOW: 500, FULL: 500}
"""Interval of the samples. It distinguishes runs with `--length full` from others, besides their name."""
PHASES = ((0, "websearch"), (4500, "datamining"), (8500, "websearch"), (9500, "datamining"))
"""Start of each workload, in milliseconds of the paper's clock."""
END_MS, WINDOW_MS = 10_500, 500
"""On the paper's clock: when the last flow starts, and over how long completion times are means."""
TAIL_MS = 75
"""Time in which the last flows end."""
UNTRAINED, BANDIT = "ACC, learns from nothing", "ACC, from nothing, bandit"
BASE = "SECN1"
FROM_NOTHING = {**CONTESTANTS[TRAINED], "controller.start": "untrained", "controller.learn": True}
HALF_LIFE, HALF_LIFE_MS = "controller.half_life", 800
"""On the paper's clock: the time after which a bandit explores half as much. At the first change it is 1 % of the decisions."""
BANDITS: Mapping[str, Any] = {
    "controller.throughput_weight": 0.0,
    "controller.discount": 0.0,
    "controller.prefer": 0.0,
    "controller.replay": 60_000,
    "controller.explore": 0.5,
    "controller.explore_least": 0.0,
    "controller.batch": 256,
    "controller.learning_rate": 3e-4,
}
"""A contextual bandit of D: its reward is D(L) alone, the next slot counts nothing, all that was seen is kept, no reward is
preferred, and it explores much before the change and nearly nothing after it. Batches and learning rate are of seed 11."""
WHO = {
    **{who: CONTESTANTS[who] for who in (*RIVALS, TRAINED, LEARNING)},
    UNTRAINED: FROM_NOTHING,
    BANDIT: {**FROM_NOTHING, **BANDITS},
}
COLORS = {**common.COLORS, UNTRAINED: "#117733", BANDIT: "#AA4499"}
SHORTER = {"SECN1": 31.1, "SECN2": 56.2}
"""By how many percent the paper's completion times are shorter, from a second after the first change on."""
PARTS = {
    "before": (0, 4500, "0 to 4.5 s"),
    "spike": (4500, 5500, "4.5 to 5.5 s"),
    "after": (5500, 8500, "5.5 to 8.5 s"),
    "back": (8500, 9500, "8.5 to 9.5 s"),
    "again": (9500, END_MS, "9.5 to 10.5 s"),
}
"""Parts of the run by the start of flows, in milliseconds of the paper's clock, and in words."""
MEAN = {part: Measure(f"{part}_s", f"mean FCT, {title} (ms)", 1e3, 3) for part, (_, _, title) in PARTS.items()}
MICE = Measure("after_mice_s", "mean FCT up to 100 kB, 5.5 to 8.5 s (us)", 1e6, 3)
QUEUE = Measure("queue_bytes", "mean queue of a port (kB)", 1e-3, 3)
RISE = Measure("rise", "rise in the first second, over SECN1's FCT", digits=3)
OVER_TIME, MICE_OVER_TIME = "fct_s", "mice_s"


def slow(contestant: str) -> str:
    """Returns the name of a contestant's row on the slow clock."""
    return f"{contestant}, slow clock"


def is_slow(row: str) -> bool:
    return row == slow(row.removesuffix(slow("")))


def rival_of(row: str, rival: str) -> str:
    """Returns the row of a static marking that has the same flows as `row`."""
    return slow(rival) if is_slow(row) else rival


def flows(faster: int, seed: int) -> str:
    """Returns the flows of all phases, drawn by the seed, as a list of flows."""
    hosts, arrivals = [f"h{number}" for number in range(1, HOSTS + 1)], []
    for (start_ms, workload), (end_ms, _) in pairwise([*PHASES, (END_MS, "")]):
        drawn = sizes.load(workload).truncated(LARGEST_BYTES)
        wire_bytes, sampler = drawn.mean_wire_bytes(SEGMENT_BYTES), Sampler(drawn)
        gap_ps = int(wire_bytes * 8 * 10**12 / (Fraction(str(LOAD)) * LINE_BPS))
        for source in hosts:
            stream, others = Stream(seed, RUNS, start_ms, source), [host for host in hosts if host != source]
            at_ps = start_ms * 10**9 // faster + stream.around(gap_ps, "exponential")
            while at_ps < end_ms * 10**9 // faster:
                arrivals.append((at_ps // 1000, source, stream.choose(others), sampler.draw(stream)))
                at_ps += stream.around(gap_ps, "exponential")
    rows = [f"{source},{to},{DEFAULT_PORT},{at_ns / 1e9:.9f},0,{size}" for at_ns, source, to, size in sorted(arrivals)]
    return collect.flow_list(rows)


def _clock(file: str, contestant: str) -> dict[str, Any]:
    """Returns the keys that depend on a row's clock. An agent decides twice a millisecond."""
    faster, interval_us = FASTER[file], INTERVAL_US[file]
    keys = common.sampled(END_MS // faster + TAIL_MS, interval_us, interval_us // 5)
    return {**keys, HALF_LIFE: 2 * HALF_LIFE_MS // faster} if contestant == BANDIT else keys


VARIANTS = tuple(
    Variant(
        who if file == USUAL else slow(who),
        {**WHO[who], **_clock(file, who)},
        COLORS[who],
        full={"workload.file": FULL, **_clock(FULL, who)},
        by_seed={"workload.file": file},
        short=file == SLOW,
    )
    for file, whose in ((USUAL, WHO), (SLOW, (*RIVALS, BANDIT)))
    for who in whose
)
SETUPS = {
    UNTRAINED: "",
    BANDIT: "bandit",
    slow(BANDIT): "bandit, slow clock",
    TRAINED: "trained offline",
    LEARNING: "trained offline, learns on",
}
"""ACC's figure has no offline training, so verdicts on other agents are counted apart."""


def _claims(contestant: str, setup: str) -> Iterator[Claim]:
    for (measure, whose), (rival, percent) in product(((MEAN["after"], ""), (MICE, "mice")), SHORTER.items()):
        words = f"completion times are shorter than with {rival} (the paper's by {percent} %)"
        shorter, setups = below(contestant, rival_of(contestant, rival), measure), ", ".join(filter(None, (setup, whose)))
        yield Claim(f"From a second after the change on, {words}", SOURCE, (shorter,), setups)
    words = "In the first second after the change, completion times over SECN1's are longer than later"
    yield Claim(words, SOURCE, (more_than(contestant, RISE, 0),), setup)


def _ended(result: Result) -> tuple[Floats, Floats, Floats]:
    """Returns the start on the paper's clock (ms), the completion time (s) and the size of the flows that ended."""
    spec, records = result.manifest["spec"], result.records("flows")
    usual = SLOW if is_slow(spec["name"]) else USUAL
    faster = FASTER[usual if parse_time_ns(spec["monitor"]["interval"]) == INTERVAL_US[usual] * 1000 else FULL]
    ended = records[records["end_ns"] >= 0]
    return ended["start_ns"] * (faster / MS), (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"].astype(np.float64)


def measure(result: Result) -> dict[str, float]:
    """Returns mean completion times of each part of the run, and the queues."""
    start_ms, took_s, size_bytes = _ended(result)
    inside = {part: (start_ms >= first) & (start_ms < last) for part, (first, last, _) in PARTS.items()}
    started = len(result.records("flows"))
    queues = [float(common.queue_of(result, f"s1-eth{host}")["backlog_bytes"].mean()) for host in range(1, HOSTS + 1)]
    return {
        **{MEAN[part].name: mean(took_s[chosen]) for part, chosen in inside.items()},
        MICE.name: mean(took_s[inside["after"] & (size_bytes <= MICE_BYTES)]),
        QUEUE.name: float(np.mean(queues)),
        common.FLOWS.name: float(started),
        common.UNFINISHED.name: float(started - len(took_s)),
        **common.pauses(result),
    }


def track(result: Result) -> Track:
    """Returns mean completion times, of all flows and of mice, over the flows that start in each 500 ms of the paper's clock."""
    start_ms, took_s, size_bytes = _ended(result)
    starts_ms, mice = np.arange(0, END_MS, WINDOW_MS), size_bytes <= MICE_BYTES
    inside = [(start_ms >= begin_ms) & (start_ms < begin_ms + WINDOW_MS) for begin_ms in starts_ms]
    tracks = {
        OVER_TIME: np.array([mean(took_s[chosen]) for chosen in inside]),
        MICE_OVER_TIME: np.array([mean(took_s[chosen & mice]) for chosen in inside]),
    }
    return Track(np.asarray((starts_ms + WINDOW_MS / 2) / 1e3, np.float64), tracks)


def with_rise(evidence: Evidence) -> Evidence:
    """Adds by how much completion times over SECN1's are longer in the first second after the change than later."""
    variants = []
    for name, variant in evidence.variants.items():
        parts = ([evidence.values(row, MEAN[part].name) for row in (name, rival_of(name, BASE))] for part in ("spike", "after"))
        rise = of_seeds(sub, *(of_seeds(truediv, *part) for part in parts))
        variants.append(replace(variant, numbers={**variant.numbers, RISE.name: rise}))
    return with_variants(evidence, variants)


PANELS = {
    "Mean FCT (ms)": (OVER_TIME, False),
    "Over SECN1's": (OVER_TIME, True),
    "Mice, over SECN1's": (MICE_OVER_TIME, True),
}
"""Panels by the title of their axis: the measure, and whether it is relative to SECN1's."""


def _figure(evidence: Evidence) -> Figure:
    """Draws completion times over the paper's clock: means over seeds, and a thin line for each seed. Each clock has a column."""
    usual, slower = ([row for row in evidence.variants if is_slow(row) == on_slow] for on_slow in (False, True))
    columns = {USUAL: usual, SLOW: slower} if slower else {FULL: usual}
    with kit.style():
        canvas = kit.new_figure(2.8 + 4.1 * len(columns), 8.0)
        grid = canvas.subplots(len(PANELS), len(columns), sharex=True, sharey="row", squeeze=False)
        for axes, (file, column) in zip(grid.T, columns.items(), strict=True):
            axes[0].set_title(f"A clock {FASTER[file]} times as fast")
            for ax, (quantity, is_ratio) in zip(axes, PANELS.values(), strict=True):
                for row in column:
                    _lines(ax, evidence, row, quantity, is_ratio)
                for start_ms, _ in PHASES[1:]:
                    ax.axvline(start_ms / 1e3, color="#555555", linewidth=0.8, linestyle=":")
            axes[-1].set_xlabel("Start of the flows, on the paper's clock (s)")
        for ax, title in zip(grid[:, 0], PANELS, strict=True):
            ax.set_ylabel(title)
            if title.startswith("Mice"):
                ax.set_yscale("log")
                log_ticks(ax, "y", 0.0)
            else:
                ax.set_ylim(bottom=0)
        kit.legend_below(canvas, grid[0, 0], 3)
        kit.title(canvas, TITLE)
    return canvas


def _lines(ax: Axes, evidence: Evidence, name: str, quantity: str, is_ratio: bool) -> None:
    variant, base = evidence.variants[name], evidence.variants.get(rival_of(name, BASE))
    if base or not is_ratio:
        x = next(iter(variant.over_time.values())).x
        tracks = {seed: curve.values[quantity] for seed, curve in variant.over_time.items()}
        rows = [y / base.over_time[seed].values[quantity] if base and is_ratio else y * 1e3 for seed, y in tracks.items()]
        for row in rows:
            ax.plot(x, row, color=variant.color, linewidth=0.5, alpha=0.6)
        ax.plot(x, band(np.stack(rows))[0], color=variant.color, label=variant.label)


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={**common.rack(HOSTS), "workload.kind": "matrix"},
    variants=VARIANTS,
    files=partial(common.drawn, {file: partial(flows, faster) for file, faster in FASTER.items()}),
    measures=(*MEAN.values(), RISE, MICE, QUEUE, common.FLOWS, common.UNFINISHED, common.PAUSES),
    measure=measure,
    track=track,
    derive=with_rise,
    claims=[claim for who, setup in SETUPS.items() for claim in _claims(who, setup)],
    draw=_figure,
    facts=common.FACTS,
    runs=RUNS,
)
