# SPDX-License-Identifier: Apache-2.0
"""Figure 16 of ACC (Yan et al., SIGCOMM 2021): the workload changes, and agents that were not trained offline learn on.

ACC: WebSearch becomes DataMining at 4.5 s, and they change places again at 8.5 and 9.5 s. Completion times are means of each
500 ms. Without offline training they rise for a second after the first change, then they are 31.1 % shorter than with SECN1 and
56.2 % shorter than with SECN2. ACC does not give servers, load, and whose completion times these are.

Here six servers on one switch send to each other at 60 %, and the clock of the changes runs 20 times as fast: a second of the
paper is 50 ms, in which an agent decides 100 times instead of 2000. In rows "slow clock" it runs 5 times as fast. With --full
there are no such rows, and it is 3 times as fast: on the paper's clock there are 131,000 flows, and a run with agents has room
for half as many (docs/scale.md).

Agents named "bandit" begin from nothing, too. Hypothesis: the throughput in the reward, which follows the traffic, and exploring
that goes on hide what an action does. Second hypothesis: 450 decisions before the change are too few for bandits, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.key import MS
from dc_gym.base.progress import Progress
from dc_gym.base.stats import band
from dc_gym.base.units import MTU_BYTES, TCP_HEADERS_BYTES
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, LEARNING, PAUSES, TRAINED, queue_of, rack
from dc_gym.study.collect import Variant
from dc_gym.figures import kit
from dc_gym.figures.axes import log_ticks
from dc_gym.records.results import Result, number
from dc_gym.study.claims import Claim, Explanation, below, more_than
from dc_gym.study.evidence import VariantEvidence, Evidence, Floats, Measure, Track
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.traffic import sizes
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.kinds import DEFAULT_PORT
from dc_gym.traffic.sizes import Sampler

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Completion times when the workload changes"
SOURCE = "ACC, figure 16"
NAME = "changing-workload"
HOSTS, LINE_BPS, LOAD, LARGEST_BYTES, MICE_BYTES = 6, 25 * 10**9, 0.6, 10_000_000, 100_000
SLOW = "slow clock"
SEGMENT_BYTES = MTU_BYTES - TCP_HEADERS_BYTES
FASTER, SLOW_FASTER, FULL_FASTER = 20, 5, 3
"""How much faster the clock of the changes is than the paper's: in most rows, in rows on the slow clock, and with --full."""
PHASES = ((0, "websearch"), (4500, "datamining"), (8500, "websearch"), (9500, "datamining"))
"""Start of each workload, in milliseconds of the paper's clock."""
END_MS, WINDOW_MS = 10_500, 500
"""On the paper's clock: when the last flow starts, and over how long completion times are means."""
TAIL_MS = 75
"""Time in which the last flows end."""
UNTRAINED, BANDIT = "ACC, learns from nothing", "ACC, from nothing, bandit"
RIVALS, BASE = ("SECN1", "SECN2"), "SECN1"
FROM_NOTHING = {**CONTESTANTS[TRAINED], "controller.start": "untrained", "controller.learn": True}
HALF_LIFE, HALF_LIFE_MS = "controller.half_life", 800
"""On the paper's clock: the time after which a bandit explores half as much. At the first change it is 1 % of the decisions."""


def half_life(faster: int) -> int:
    """Returns a bandit's half life in decisions: on the lab's clock an agent decides twice a millisecond."""
    return 2 * HALF_LIFE_MS // faster


def slow(who: str) -> str:
    """Returns the name of a contestant's row on the slow clock."""
    return f"{who}, {SLOW}"


def is_slow(row: str) -> bool:
    return row.endswith(SLOW)


def faster_of(row: str, full: bool = False) -> int:
    """Returns how much faster a row's clock is than the paper's."""
    if full:
        return FULL_FASTER
    return SLOW_FASTER if is_slow(row) else FASTER


def rival_of(row: str, rival: str) -> str:
    """Returns the row of a static marking that has the same flows as `row`."""
    return slow(rival) if is_slow(row) else rival


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
SLOW_WHO = (*RIVALS, BANDIT)
COLORS = {**common.COLORS, LEARNING: "#88CCEE", UNTRAINED: "#117733", BANDIT: "#AA4499"}
SHORTER = {"SECN1": 31.1, "SECN2": 56.2}
"""By how many percent the paper's completion times are shorter, from a second after the first change on."""
PARTS = {
    "before": (0, 4500),
    "spike": (4500, 5500),
    "after": (5500, 8500),
    "back": (8500, 9500),
    "again": (9500, END_MS),
}
"""Parts of the run by the start of flows, in milliseconds of the paper's clock."""
TITLES = ("0 to 4.5 s", "4.5 to 5.5 s", "5.5 to 8.5 s", "8.5 to 9.5 s", "9.5 to 10.5 s")
MEAN = {part: Measure(f"{part}_s", f"mean FCT, {title} (ms)", 1e3, 3) for part, title in zip(PARTS, TITLES, strict=True)}
MICE = Measure("after_mice_s", "mean FCT up to 100 kB, 5.5 to 8.5 s (us)", 1e6, 3)
QUEUE = Measure("queue_bytes", "mean queue of a port (kB)", 1e-3, 3)
RISE = Measure("rise", "rise in the first second, over SECN1's FCT", digits=3)
FLOWS, UNFINISHED = Measure("flows", "flows"), Measure("unfinished", "unfinished")
OVER_TIME, MICE_OVER_TIME = "fct_s", "mice_s"
COLUMNS = (*MEAN.values(), RISE, MICE, QUEUE, FLOWS, UNFINISHED, PAUSES)


def file_of(row: str) -> str:
    """Returns the name of the file with a row's flows, in which the seed stands as `{seed}`."""
    return "workloads-slow-s{seed}.csv" if is_slow(row) else "workloads-s{seed}.csv"


def flows(seed: int, faster: int = FASTER) -> str:
    """Returns the flows of all phases, drawn by the seed, as a list of flows."""
    hosts, found = [f"h{number}" for number in range(1, HOSTS + 1)], []
    for (start_ms, workload), end_ms in zip(PHASES, [*(start for start, _ in PHASES[1:]), END_MS], strict=True):
        drawn = sizes.load(workload).truncated(LARGEST_BYTES)
        wire_bytes, sampler = drawn.mean_wire_bytes(SEGMENT_BYTES), Sampler(drawn)
        gap_ps = int(wire_bytes * 8 * 10**12 / (Fraction(str(LOAD)) * LINE_BPS))
        for source in hosts:
            stream, others = Stream(seed, NAME, start_ms, source), [host for host in hosts if host != source]
            at_ps = start_ms * 10**9 // faster + stream.around(gap_ps, "exponential")
            while at_ps < end_ms * 10**9 // faster:
                found.append((at_ps // 1000, source, stream.choose(others), sampler.draw(stream)))
                at_ps += stream.around(gap_ps, "exponential")
    rows = [f"{source},{to},{DEFAULT_PORT},{at_ns / 1e9:.9f},0,{size}" for at_ns, source, to, size in sorted(found)]
    return "\n".join(["source,destination,port,start,stop,size", *rows]) + "\n"


def _clock(row: str, full: bool = False) -> dict[str, Any]:
    """Returns the keys that depend on a row's clock."""
    faster = faster_of(row, full)
    return {
        "time.duration": f"{END_MS // faster + TAIL_MS}ms",
        "monitor.interval": "100us" if faster == FASTER else "500us",
        "monitor.tcp_interval": "20ms" if faster == FASTER else "100ms",
        **({HALF_LIFE: half_life(faster)} if row.startswith(BANDIT) else {}),
    }


ROWS = [
    Variant(
        row,
        {**rack(HOSTS), "workload.kind": "matrix", **WHO[who], "time.warmup": "0s", **_clock(row)},
        COLORS[who],
        full=_clock(row, full=True),
        by_seed={"workload.file": file_of(row)},
    )
    for row, who in [*((who, who) for who in WHO), *((slow(who), who) for who in SLOW_WHO)]
]
WHY = "the servers, the load, the NICs' parameters and whose completion times count are not given; the clock is faster"


SETTINGS = {
    UNTRAINED: "",
    BANDIT: "bandit",
    slow(BANDIT): f"bandit, {SLOW}",
    TRAINED: "trained offline",
    LEARNING: "trained offline, learns on",
}
"""ACC's figure has no offline training, so verdicts on other agents are counted apart."""


PAGE = "docs/reproduce-acc.md#figure-16"
LEARNS_TOO_LITTLE = (
    "the throughput in the reward, and exploring that goes on, hide what an action does; 450 decisions are too few"
)
ELEPHANTS = Explanation(
    hypothesis="the reward pays for short queues, which make mice faster and elephants slower, and a mean of all flows is that of"
    " elephants",
    experiment=f"the rows `{slow(BANDIT)}` of dcgym reproduce acc figure-16; each of ACC's actions held",
    page=PAGE,
    showed="bandits make mice faster (10.7 us, SECN1 13.4), the mean longer (1.90 ms, 1.52). So does the action that earns"
    " most (6.9 us, 2.04 ms; 12.9, 1.51; seeds 11, 1 to 3)",
)
NOT_LEARNED = replace(
    ELEPHANTS,
    hypothesis=f"{LEARNS_TOO_LITTLE}; and an agent that learns makes mice faster, not a mean that is that of elephants",
)
FEW_DECISIONS = Explanation(
    hypothesis=LEARNS_TOO_LITTLE,
    experiment=f"the rows `{slow(BANDIT)}` of dcgym reproduce acc figure-16",
    page=PAGE,
    showed="with 1,800 decisions before the change mice take 10.7 us (SECN1 13.4, SECN2 14.6), less than with both with each of"
    " five seeds (found on seed 13); with 450 they take 22 (SECN1 12.6)",
)
SAME_ACTIONS = Explanation(
    hypothesis="the same actions are best under both workloads, so the change asks for nothing that must be learned anew",
    experiment="each of ACC's actions held, with the traffic of dcgym reproduce acc figure-16",
    page=PAGE,
    showed="the same three of 20 earn most before and after the change (seed 11; with seeds 1 to 3 the same two of five). An"
    " action that is held, which learns nothing, has 0.05 to 0.18",
)


def _claims(who: str, variant: str) -> tuple[Claim, ...]:
    all_flows = NOT_LEARNED if who == UNTRAINED else ELEPHANTS
    mice = FEW_DECISIONS if who in (UNTRAINED, BANDIT) else None
    shorter = tuple(
        Claim(
            f"From a second after the change on, completion times are shorter than with {rival} (the paper's by {percent} %)",
            SOURCE,
            (below(who, rival_of(who, rival), column),),
            why=WHY,
            variant=", ".join(filter(None, (variant, whose))),
            explanation=explanation,
        )
        for column, whose, explanation in ((MEAN["after"], "", all_flows), (MICE, "mice", mice))
        for rival, percent in SHORTER.items()
    )
    rise = Claim(
        "In the first second after the change, completion times over SECN1's are longer than later",
        SOURCE,
        (more_than(who, RISE, 0),),
        why=WHY,
        variant=variant,
        explanation=SAME_ACTIONS,
    )
    return (*shorter, rise)


CLAIMS = tuple(claim for who, variant in SETTINGS.items() for claim in _claims(who, variant))
FACTS = (
    ("Network", f"{HOSTS} servers on one switch, 25 Gbit/s; 12 MB shared, pauses by ACC's rule (11.11 %)"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    ("Traffic", f"WebSearch or DataMining at {LOAD:.0%} of each server's link, to uniformly drawn others"),
    ("Changes", "DataMining from 4.5 s on, WebSearch from 8.5 s on, DataMining from 9.5 s on, on the paper's clock"),
    ("ACC", "once in 500 us, in force 10 us later; from random weights with learning, and the net that comes with dc-gym"),
)
NOTES = (
    f"Scaled: times of the paper's clock are divided by {FASTER}, in rows on the slow clock by {SLOW_FASTER}, with --full by"
    f" {FULL_FASTER}, without such rows. Sizes are cut at {LARGEST_BYTES // 10**6} MB.",
    "SECN1's and SECN2's Pmax are ours (1 % as in DCQCN's paper, 20 % as in HPCC's simulator): ACC gives none.",
    "A bandit's reward is D(L) alone and its gamma 0. It keeps all that it saw, prefers no reward, and half of its first"
    " decisions are at random, 1 % at the first change.",
)


def _ended(result: Result, full: bool) -> tuple[Floats, Floats, Floats]:
    """Returns the start on the paper's clock (ms), the completion time (s) and the size of the flows that ended."""
    found, faster = result.records("flows"), faster_of(result.manifest["spec"]["name"], full)
    ended = found[found["end_ns"] >= 0]
    return ended["start_ns"] * (faster / MS), (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"].astype(np.float64)


def measure(result: Result, full: bool = False) -> dict[str, float]:
    """Returns mean completion times of each part of the run, and the queues."""
    start_ms, took_s, size_bytes = _ended(result, full)
    found = {MEAN[part].name: _mean(took_s[(start_ms >= first) & (start_ms < last)]) for part, (first, last) in PARTS.items()}
    first, last = PARTS["after"]
    started = len(result.records("flows"))
    queues = [float(queue_of(result, f"s1-eth{host}")["backlog_bytes"].mean()) for host in range(1, HOSTS + 1)]
    return {
        **found,
        MICE.name: _mean(took_s[(start_ms >= first) & (start_ms < last) & (size_bytes <= MICE_BYTES)]),
        QUEUE.name: float(np.mean(queues)),
        FLOWS.name: float(started),
        UNFINISHED.name: float(started - len(took_s)),
        PAUSES.name: number(result.summary.get("pauses")),
    }


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def track(result: Result, full: bool = False) -> Track:
    """Returns mean completion times, of all flows and of mice, of those that start in each 500 ms of the paper's clock."""
    start_ms, took_s, size_bytes = _ended(result, full)
    starts_ms, mice = np.arange(0, END_MS, WINDOW_MS), size_bytes <= MICE_BYTES
    inside = [(start_ms >= each) & (start_ms < each + WINDOW_MS) for each in starts_ms]
    found = {
        OVER_TIME: np.array([_mean(took_s[each]) for each in inside]),
        MICE_OVER_TIME: np.array([_mean(took_s[each & mice]) for each in inside]),
    }
    return Track(np.asarray((starts_ms + WINDOW_MS / 2) / 1e3, np.float64), found)


def with_rise(evidence: Evidence) -> Evidence:
    """Adds by how much completion times over SECN1's are longer in the first second after the change than later."""
    found = evidence.variants
    return replace(
        evidence, variants={who: _with_rise(each, found[rival_of(who, BASE)].numbers) for who, each in found.items()}
    )


def _with_rise(who: VariantEvidence, base: Mapping[str, Mapping[int, float]]) -> VariantEvidence:
    spike, after = MEAN["spike"].name, MEAN["after"].name
    own = who.numbers
    seeds = [
        seed for seed in own.get(spike, {}) if all(seed in each.get(part, {}) for each in (own, base) for part in (spike, after))
    ]
    rise = {seed: own[spike][seed] / base[spike][seed] - own[after][seed] / base[after][seed] for seed in seeds}
    return replace(who, numbers={**own, RISE.name: rise})


def run(options: StudyOptions, progress: Progress) -> Findings:
    full, seeds = options.full, own_rate.seeds_of(options)
    rows = [row for row in ROWS if not (full and is_slow(row.name))]
    clocks = {file_of(row.name): faster_of(row.name, full) for row in rows}
    files = {file.format(seed=seed): flows(seed, faster) for file, faster in clocks.items() for seed in seeds}
    parts = (partial(measure, full=full), partial(track, full=full))
    evidence = with_rise(own_rate.run(NAME, rows, options, progress, *parts, files))
    ran = set(evidence.variants)
    claims = [claim for claim in CLAIMS if all(ran.issuperset(criterion.about) for criterion in claim.criteria)]
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, claims, _figure(evidence, full), NOTES)


PANELS = {
    "Mean FCT (ms)": (OVER_TIME, False),
    "Over SECN1's": (OVER_TIME, True),
    "Mice, over SECN1's": (MICE_OVER_TIME, True),
}
"""Panels by the title of their axis: what they show, and whether over SECN1's."""


def _figure(evidence: Evidence, full: bool) -> Figure:
    """Draws completion times over the paper's clock: means over seeds, and a thin line for each seed. Each clock has a column."""
    clocks = [[who for who in evidence.variants if is_slow(who) == each] for each in (False, True)]
    columns = [column for column in clocks if column]
    with kit.style():
        canvas = kit.new_figure(2.8 + 4.1 * len(columns), 8.0)
        grid = canvas.subplots(len(PANELS), len(columns), sharex=True, sharey="row", squeeze=False)
        for axes, column in zip(grid.T, columns, strict=True):
            axes[0].set_title(f"A clock {faster_of(column[0], full)} times as fast")
            for ax, (what, is_ratio) in zip(axes, PANELS.values(), strict=True):
                for who in column:
                    base = evidence.variants[rival_of(who, BASE)] if is_ratio else None
                    _lines(ax, evidence.variants[who], what, base)
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


def _lines(ax: Axes, who: VariantEvidence, what: str, base: VariantEvidence | None) -> None:
    rows = []
    for seed, found in who.over_time.items():
        rows.append(found.values[what] / base.over_time[seed].values[what] if base else found.values[what] * 1e3)
        ax.plot(found.x, rows[-1], color=who.color, linewidth=0.5, alpha=0.6)
    mean, _ = band(np.stack(rows))
    ax.plot(next(iter(who.over_time.values())).x, mean, color=who.color, label=who.label)
