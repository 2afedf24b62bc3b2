# SPDX-License-Identifier: Apache-2.0
"""The networks, quantities and notes that the figures of Iroko's thesis (F. Ruffy Varga, UBC 2019, chapter 5) share.

The networks are taken from its Table 1. The thesis gives no link delays, and says only that a step lasts "100 us to several ms".
The 5 ms at 10 Mbit/s and 1 ms elsewhere are our choice. So is the jitter of the flows' starts, without which all seeds would give
the same run. The thesis' runs are one long episode, and its numbers come from agents that learn. Here a training has short
episodes, and comparisons are of runs with the final policies. The set-up WHILE_LEARNING compares the last tenth of trainings,
exploration included, with TCPs over a run as long as an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dc_gym.base.readable import quantity, sentence
from dc_gym.base.units import parse_time_ns
from dc_gym.study import Claim, Evidence, Floats, Measure, Study, Track, VariantEvidence, drawing, measured, trained
from dc_gym.study.evidence import with_variants
from dc_gym.study.trained import BASELINES, Setup, TrainedLength, TrainedRuns

THESIS = "iroko-thesis"
REWARD = Measure("reward", "reward (eq. 4.3)", digits=3)
GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)
SWITCH = Measure("switch_queue_bytes", "longest switch queue (kB)", 1e-3)
HOST = Measure("host_queue_bytes", "longest host queue (kB)", 1e-3)
RTT = Measure("rtt_s", "RTT, last tenth (ms)", 1e3)
DELAY = Measure("queueing_delay_s", "queueing delay, end to end (ms)", 1e3)
LOST = Measure("lost_goodput_bps", "lost (Mbit/s)", 1e-6, 3)
DROPS = Measure("drops", "drops")
JAIN = Measure("jain", "Jain's index")
COMMANDED = Measure("wanted", "commanded share (A)", digits=3)
"""The mean share of the line that the agent commands, A in equation 4.3. Under stock tbf hosts may send more."""
PANELS = (REWARD, GOODPUT, SWITCH, HOST)
COLUMNS = (REWARD, GOODPUT, SWITCH, HOST, RTT, DELAY, LOST, DROPS, JAIN, COMMANDED)
RTT_PANEL = Measure("rtt_s", "RTT (ms)", 1e3)

UNEQUAL = 0.8
"""A share is unequal below this many times the oracle's Jain index: of two flows, one has a quarter of the line."""

DCTCP = "dctcp-red"
"""Name of the controller that the thesis calls DCTCP."""
RIVALS = (DCTCP, "cubic")
"""The variants that learners are compared with while they learn."""
WHILE_LEARNING = "while they learn"
"""The set-up of claims on the last tenth of the trainings."""
LAST_TENTH = 0.9
COMPARED = (REWARD, GOODPUT, SWITCH, HOST, RTT)


def endless(preset: str, interval: str, pattern: str = "pairs", duration: str = "10s") -> dict[str, Any]:
    """Returns the spec of endless TCP over a network of Table 1."""
    return {
        "name": f"iroko {preset}",
        "topology": {"preset": preset},
        "controller": {"name": "cubic"},
        "agent": {"interval": interval, "hosts": "all", "action": "linear", "reward": "thesis"},
        "workload": {"kind": pattern, "jitter": "10ms"},
        "time": {"duration": duration},
    }


DUMBBELL_10M = Setup(
    "dumbbell-10m",
    endless("dumbbell-10m", "5ms"),
    default=TrainedLength(seeds=3, steps=20_000, episode="5s", duration="30s", warmup="5s"),
    full=TrainedLength(seeds=3, steps=1_000_000, episode="20s", duration="100s", warmup="10s", preset=THESIS),
    algorithms=("PPO", "APPO", "DDPG", "REINFORCE"),
    paper_steps=1_000_000,
)
DUMBBELL_1G = Setup(
    "dumbbell-1g",
    endless("dumbbell-1g", "1ms"),
    default=TrainedLength(seeds=3, steps=20_000, episode="500ms", duration="12s", warmup="2s"),
    full=TrainedLength(seeds=1, steps=1_000_000, episode="4s", duration="10s", warmup="1s", preset=THESIS),
    algorithms=("APPO", "DDPG"),
    paper_steps=1_000_000,
)
UDP_BASELINES = ("dctcp", "dctcp-red", "nv", "cubic", "fair-share", "random", "no-control")
UDP_10M = {"workload.transport": "udp", "workload.rate": "10Mbit/s"}
DUMBBELL_UDP = replace(
    DUMBBELL_10M,
    name="dumbbell-10m-udp",
    default=replace(DUMBBELL_10M.default, agent=UDP_10M),
    full=replace(DUMBBELL_10M.full, agent=UDP_10M),
    baselines=UDP_BASELINES,
    algorithms=("PPO", "APPO", "DDPG"),
)
SLOWER = {"topology.rate": "100Mbit/s", "topology.buffer": "400kB"}
"""Changes at the default length: a tenth of rate and buffer, so that a queue drains in the same time at a tenth of the cost."""
FATTREE_TCP = Setup(
    "fattree-tcp",
    endless("fattree-k4", "1ms", "hotspot", "2s"),
    default=TrainedLength(seeds=3, steps=20_000, episode="500ms", duration="2s", warmup="500ms", values=SLOWER),
    full=TrainedLength(
        seeds=1, steps=5_000_000, episode="2s", duration="5s", warmup="1s", preset=THESIS, batches={"PPO": 4000, "APPO": 4000}
    ),
    algorithms=("APPO",),
    paper_steps=5_000_000,
)
FATTREE_UDP = replace(
    FATTREE_TCP,
    name="fattree-udp",
    default=replace(FATTREE_TCP.default, agent={"workload.transport": "udp", "workload.rate": "100Mbit/s"}),
    full=replace(FATTREE_TCP.full, agent={"workload.transport": "udp", "workload.rate": "1Gbit/s"}),
    baselines=UDP_BASELINES,
)


def learning(algorithm: str) -> str:
    """Returns the name of a learner over the last tenth of its training, exploration included."""
    return f"{algorithm}, while it learns"


def episode(controller: str) -> str:
    """Returns the name of a variant that does not learn, over as long a run as an episode of a training."""
    return f"{BASELINES[controller].label}, over an episode"


def with_learning(evidence: Evidence, episode_s: float) -> Evidence:
    """Returns the evidence with the variants that WHILE_LEARNING compares: see `learning` and `episode`."""
    last_tenth, first = (lambda steps: steps > LAST_TENTH * steps.max(initial=0.0)), (lambda time_s: time_s <= episode_s)
    more = [_part(row, learning(row.name), row.learning, last_tenth) for row in evidence.variants.values() if row.learning]
    rivals = [evidence.variants[name] for name in RIVALS if more and name in evidence.variants]
    more += [_part(rival, episode(rival.name), rival.over_time, first) for rival in rivals]
    return with_variants(evidence, more)


def _part(variant: VariantEvidence, name: str, tracks: Mapping[int, Track], chosen: Callable[[Floats], Any]) -> VariantEvidence:
    """Returns the means over a part of each seed's track as a variant; no value for a seed where nothing was measured."""
    numbers = {}
    for measure in (column.name for column in COMPARED):
        parts = {seed: track.values[measure][chosen(track.x)] for seed, track in tracks.items()}
        numbers[measure] = {seed: float(np.nanmean(part)) for seed, part in parts.items() if np.isfinite(part).any()}
    return replace(variant, name=name, label=name, numbers=numbers, over_time={}, paper={})


def study(
    setup: Setup, title: str, claims: Sequence[Claim], panels: Sequence[Measure] = PANELS, note: str = "", **more: Any
) -> Study:
    """Returns the study of a figure with one setup, whose figure draws the curves of `panels`."""
    compared = COMPARED if setup.algorithms else ()
    fields: dict[str, Any] = {
        "title": title,
        "source": "F. Ruffy Varga's thesis",
        "variants": setup.variants(),
        "measures": COLUMNS,
        "measure": measured.numbers,
        "track": partial(measured.track, names=tuple(dict.fromkeys(column.name for column in (*panels, *compared)))),
        "claims": claims,
        "draw": lambda evidence: drawing.figure(evidence, panels, title),
        "facts": trained.facts(setup),
        "notes": lambda evidence: [*hidden_queues(evidence), *unequal_shares(evidence), *([note] if note else [])],
        "derive": partial(with_learning, episode_s=parse_time_ns(setup.default.episode) / 1e9),
        "seeds": setup.default.seeds,
        "collect": TrainedRuns(setup),
        "trains": bool(setup.algorithms),
    }
    return Study(**{**fields, **more})


def hidden_queues(evidence: Evidence) -> list[str]:
    """Returns notes on variants whose queue is in the hosts, where the thesis did not look."""
    notes = []
    for row in evidence.variants.values():
        switch, host = row.estimate(SWITCH.name), row.estimate(HOST.name)
        if switch and host and host.mean > max(switch.mean, 10 * 1514):
            where = f"{quantity(host.mean, 'bytes')} in hosts, {quantity(switch.mean, 'bytes')} in switches"
            notes.append(f"{sentence(row.label)} keeps its queue in the hosts: {where} (the longest at each moment, on average).")
    return notes


def unequal_shares(evidence: Evidence) -> list[str]:
    """Returns notes on variants with unequal shares. The reward misses them, since it counts the average commanded rate."""
    notes, fair = [], evidence.variants.get("fair-share")
    best = fair.estimate(JAIN.name) if fair else None
    for row in evidence.variants.values():
        shares = row.numbers.get(JAIN.name, {})
        if best and shares and min(shares.values()) < UNEQUAL * best.mean:
            listed = ", ".join(f"{share:.2f}" for _, share in sorted(shares.items()))
            notes.append(f"{sentence(row.label)} shares unequally: Jain's index {listed} by seed (the oracle: {best.mean:.2f}).")
    return notes
