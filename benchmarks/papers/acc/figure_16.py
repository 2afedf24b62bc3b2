# SPDX-License-Identifier: Apache-2.0
"""Figure 16 of ACC (Yan et al., SIGCOMM 2021): the workload changes, and agents that were not trained offline learn on.

ACC: WebSearch becomes DataMining at 4.5 s, and they change places again at 8.5 and 9.5 s. Completion times are means of each
500 ms. Without offline training they rise for a second after the first change, then they are 31.1 % shorter than with SECN1 and
56.2 % shorter than with SECN2. ACC does not give servers, load, and whose completion times these are.

Here six servers on one switch send to each other at 60 %, and the clock of the changes runs 20 times as fast: a second of the
paper is 50 ms, in which an agent decides 100 times instead of 2000. With --full it is three times as fast: on the paper's clock
there are 131,000 flows, and a run with agents has room for half as many (docs/scale.md).

Agents named "bandit" begin from nothing, too. Hypothesis: the throughput in the reward, which follows the traffic, and exploring
that goes on hide what an action does.
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
from dc_gym.benchmarks.papers import own_rate
from dc_gym.benchmarks.papers.acc import common
from dc_gym.benchmarks.papers.acc.common import CONTESTANTS, LEARNING, PAUSES, TRAINED, queue_of, rack
from dc_gym.benchmarks.papers.own_rate import OwnRateRow
from dc_gym.figures import kit
from dc_gym.figures.axes import log_ticks
from dc_gym.records.results import Result, number
from dc_gym.reproduce.claims import Claim, Explanation, below, more_than
from dc_gym.reproduce.evidence import Contender, Evidence, Floats, Quantity, Track
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
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
FASTER, FULL_FASTER = 20, 3
"""How much faster the clock of the changes is than the paper's, and with --full."""
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


BANDITS: Mapping[str, Any] = {
    "controller.throughput_weight": 0.0,
    "controller.discount": 0.0,
    "controller.prefer": 0.0,
    "controller.replay": 60_000,
    "controller.explore": 0.5,
    "controller.explore_least": 0.0,
    HALF_LIFE: half_life(FASTER),
}
"""A contextual bandit of D: its reward is D(L) alone, the next slot counts nothing, all that was seen is kept, no reward is
preferred, and it explores much before the change and nearly nothing after it."""
WHO = {
    **{who: CONTESTANTS[who] for who in (*RIVALS, TRAINED, LEARNING)},
    UNTRAINED: FROM_NOTHING,
    BANDIT: {**FROM_NOTHING, **BANDITS},
}
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
MEAN = {part: Quantity(f"{part}_s", f"mean FCT, {title} (ms)", 1e3, 3) for part, title in zip(PARTS, TITLES, strict=True)}
MICE = Quantity("after_mice_s", "mean FCT up to 100 kB, 5.5 to 8.5 s (us)", 1e6, 3)
QUEUE = Quantity("queue_bytes", "mean queue of a port (kB)", 1e-3, 3)
RISE = Quantity("rise", "rise in the first second, over SECN1's FCT", digits=3)
FLOWS, UNFINISHED = Quantity("flows", "flows"), Quantity("unfinished", "unfinished")
OVER_TIME, MICE_OVER_TIME = "fct_s", "mice_s"
COLUMNS = (*MEAN.values(), RISE, MICE, QUEUE, FLOWS, UNFINISHED, PAUSES)
FILE = "workloads-s{seed}.csv"


def flows(seed: int, faster: int = FASTER) -> str:
    """Returns the flows of all phases, drawn by the seed, as a list of flows."""
    hosts, found = [f"h{number}" for number in range(1, HOSTS + 1)], []
    for (start_ms, workload), end_ms in zip(PHASES, [*(start for start, _ in PHASES[1:]), END_MS], strict=True):
        drawn = sizes.load(workload).truncated(LARGEST_BYTES)
        gap_ps, sampler = int(drawn.mean_wire_bytes() * 8 * 10**12 / (Fraction(str(LOAD)) * LINE_BPS)), Sampler(drawn)
        for source in hosts:
            stream, others = Stream(seed, NAME, start_ms, source), [host for host in hosts if host != source]
            at_ps = start_ms * 10**9 // faster + stream.around(gap_ps, "exponential")
            while at_ps < end_ms * 10**9 // faster:
                found.append((at_ps // 1000, source, stream.choose(others), sampler.draw(stream)))
                at_ps += stream.around(gap_ps, "exponential")
    rows = [f"{source},{to},{DEFAULT_PORT},{at_ns / 1e9:.9f},0,{size}" for at_ns, source, to, size in sorted(found)]
    return "\n".join(["source,destination,port,start,stop,size", *rows]) + "\n"


ROWS = [
    OwnRateRow(
        who,
        {
            **rack(HOSTS),
            "workload.kind": "matrix",
            **keys,
            "time.duration": f"{END_MS // FASTER + TAIL_MS}ms",
            "time.warmup": "0s",
            "monitor.interval": "100us",
            "monitor.tcp_interval": "20ms",
        },
        COLORS[who],
        full={
            "time.duration": f"{END_MS // FULL_FASTER + TAIL_MS}ms",
            "monitor.interval": "500us",
            "monitor.tcp_interval": "100ms",
            **({HALF_LIFE: half_life(FULL_FASTER)} if who == BANDIT else {}),
        },
        by_seed={"workload.file": FILE},
    )
    for who, keys in WHO.items()
]
WHY = "the servers, the load, the NICs' parameters and whose completion times count are not given; the clock is 20 times as fast"


SETTINGS = {UNTRAINED: "", BANDIT: "bandit", TRAINED: "trained offline", LEARNING: "trained offline, learns on"}
"""ACC's figure has no offline training, so verdicts on other agents are counted apart."""


RISE_LATER = Explanation(
    hypothesis="agents that have not learned which action is better stay bad, so their times do not fall after the first second",
    experiment=f"the rows `{BANDIT}` of dcgym reproduce acc figure-16",
    page="docs/reproduce-acc.md#figure-16",
    showed="agents from nothing that learn more, as bandits, rise by 0.06 to 0.43 of SECN1's times, above 0 with each of five"
    " seeds (found on seed 11); the others by -0.19 to 0.15",
)


def _claims(who: str, variant: str) -> tuple[Claim, ...]:
    shorter = tuple(
        Claim(
            f"From a second after the change on, completion times are shorter than with {rival} (the paper's by {percent} %)",
            SOURCE,
            (below(who, rival, column),),
            why=WHY,
            variant=", ".join(filter(None, (variant, whose))),
        )
        for column, whose in ((MEAN["after"], ""), (MICE, "mice"))
        for rival, percent in SHORTER.items()
    )
    rise = Claim(
        "In the first second after the change, completion times over SECN1's are longer than later",
        SOURCE,
        (more_than(who, RISE, 0),),
        why=WHY,
        variant=variant,
        explanation=RISE_LATER if who == UNTRAINED else None,
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
    f"Scaled: times of the paper's clock are divided by {FASTER}, with --full by {FULL_FASTER}. Sizes are cut at"
    f" {LARGEST_BYTES // 10**6} MB.",
    "SECN1's and SECN2's Pmax are ours (1 % as in DCQCN's paper, 20 % as in HPCC's simulator): ACC gives none.",
    "A bandit's reward is D(L) alone and its gamma 0. It keeps all that it saw, prefers no reward, and half of its first"
    " decisions are at random, 1 % at the first change.",
)


def _ended(result: Result, faster: int) -> tuple[Floats, Floats, Floats]:
    """Returns the start on the paper's clock (ms), the completion time (s) and the size of the flows that ended."""
    found = result.records("flows")
    ended = found[found["end_ns"] >= 0]
    return ended["start_ns"] * (faster / MS), (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"].astype(np.float64)


def measure(result: Result, faster: int = FASTER) -> dict[str, float]:
    """Returns mean completion times of each part of the run, and the queues."""
    start_ms, took_s, size_bytes = _ended(result, faster)
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


def track(result: Result, faster: int = FASTER) -> Track:
    """Returns mean completion times, of all flows and of mice, of those that start in each 500 ms of the paper's clock."""
    start_ms, took_s, size_bytes = _ended(result, faster)
    starts_ms, mice = np.arange(0, END_MS, WINDOW_MS), size_bytes <= MICE_BYTES
    inside = [(start_ms >= each) & (start_ms < each + WINDOW_MS) for each in starts_ms]
    found = {
        OVER_TIME: np.array([_mean(took_s[each]) for each in inside]),
        MICE_OVER_TIME: np.array([_mean(took_s[each & mice]) for each in inside]),
    }
    return Track(np.asarray((starts_ms + WINDOW_MS / 2) / 1e3, np.float64), found)


def with_rise(evidence: Evidence) -> Evidence:
    """Adds by how much completion times over SECN1's are longer in the first second after the change than later."""
    base = evidence.contenders[BASE].numbers
    return replace(evidence, contenders={who: _with_rise(each, base) for who, each in evidence.contenders.items()})


def _with_rise(who: Contender, base: Mapping[str, Mapping[int, float]]) -> Contender:
    spike, after = MEAN["spike"].name, MEAN["after"].name
    own = who.numbers
    seeds = [
        seed for seed in own.get(spike, {}) if all(seed in each.get(part, {}) for each in (own, base) for part in (spike, after))
    ]
    rise = {seed: own[spike][seed] / base[spike][seed] - own[after][seed] / base[after][seed] for seed in seeds}
    return replace(who, numbers={**own, RISE.name: rise})


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    faster = FULL_FASTER if options.full else FASTER
    files = {FILE.format(seed=seed): flows(seed, faster) for seed in own_rate.seeds_of(options)}
    parts = (partial(measure, faster=faster), partial(track, faster=faster))
    evidence = with_rise(own_rate.run(NAME, ROWS, options, progress, *parts, files))
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


PANELS = {
    "Mean FCT (ms)": (OVER_TIME, False),
    "Over SECN1's": (OVER_TIME, True),
    "Mice, over SECN1's": (MICE_OVER_TIME, True),
}
"""Panels by the title of their axis: what they show, and whether over SECN1's."""


def _figure(evidence: Evidence) -> Figure:
    """Draws completion times over the paper's clock: means over seeds, and a thin line for each seed."""
    with kit.style():
        canvas = kit.new_figure(8.4, 8.0)
        axes = canvas.subplots(len(PANELS), 1, sharex=True)
        for ax, (title, (what, is_ratio)) in zip(axes, PANELS.items(), strict=True):
            for who, each in evidence.contenders.items():
                _lines(ax, each, what, evidence.contenders[BASE] if is_ratio else None, COLORS[who])
            for start_ms, _ in PHASES[1:]:
                ax.axvline(start_ms / 1e3, color="#555555", linewidth=0.8, linestyle=":")
            if title.startswith("Mice"):
                ax.set_yscale("log")
                log_ticks(ax, "y", 0.0)
            else:
                ax.set_ylim(bottom=0)
            ax.set_ylabel(title)
        axes[-1].set_xlabel("Start of the flows, on the paper's clock (s)")
        kit.legend_below(canvas, axes[0], 3)
        kit.title(canvas, TITLE)
    return canvas


def _lines(ax: Axes, who: Contender, what: str, base: Contender | None, color: str) -> None:
    rows = []
    for seed, found in who.over_time.items():
        rows.append(found.values[what] / base.over_time[seed].values[what] if base else found.values[what] * 1e3)
        ax.plot(found.x, rows[-1], color=color, linewidth=0.5, alpha=0.6)
    mean, _ = band(np.stack(rows))
    ax.plot(next(iter(who.over_time.values())).x, mean, color=color, label=who.label)
