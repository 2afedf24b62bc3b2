# SPDX-License-Identifier: Apache-2.0
"""Completion times of flows whose sizes are drawn from a distribution and cut at 10 MB, for figures 2, 13, 14 and 16 of ACC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dc_gym.benchmarks.studies.acc.common import DROPPED, FLOWS, LINE_BPS, PAUSES, UNFINISHED, pauses, reward_of, sampled
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Floats, Measure, below
from dc_gym.study.collect import wire_bytes

LAST_START_MS, LARGEST = 20, "10MB"
MICE_BYTES, ELEPHANT_BYTES = 100_000, 1_000_000
BASE_NS = 7270
"""The base round trip between racks (`dcgym topology acc24a`)."""
MEAN = Measure("fct_s", "mean FCT (ms)", 1e3, 3)
TAIL = Measure("fct_p99_s", "99th percentile (ms)", 1e3, 3)
MICE = Measure("mice_s", "mean FCT up to 100 kB (us)", 1e6, 3)
MICE_TAIL = Measure("mice_p99_s", "99th percentile up to 100 kB (us)", 1e6, 3)
ELEPHANTS = Measure("elephants_s", "mean FCT from 1 MB on (ms)", 1e3, 3)
TIMES = (MEAN, TAIL, MICE, MICE_TAIL, ELEPHANTS)
SLOWDOWN, CNPS = Measure("slowdown", "mean slowdown", digits=4), Measure("cnps", "CNPs")
QUEUE = Measure("queue_bytes", "mean queue of a switch port (kB)", 1e-3, 3)
REWARD = Measure("reward", "ACC's reward", digits=4)
WORDS = {MEAN: "all, mean", MICE: "mice, mean", MICE_TAIL: "mice, 99th percentile"}
OF_AGENTS = (*TIMES, QUEUE, REWARD, FLOWS, UNFINISHED, PAUSES, DROPPED)
"""The columns of figures 13 and 14."""


def traffic(distribution: str, load: float, duration_ms: int, last_start_ms: int = LAST_START_MS) -> dict[str, Any]:
    """Returns the keys of flows of a distribution, of which all count that start until `last_start_ms`."""
    return {
        "workload.kind": "poisson",
        "workload.distribution": distribution,
        "workload.truncate": LARGEST,
        "workload.load": load,
        "workload.last_start": f"{last_start_ms}ms",
        "metrics.cutoff": f"{last_start_ms}ms",
        **sampled(duration_ms, 100, 10),
    }


def shorter(
    title: str, source: str, percents: Mapping[tuple[str, Measure], float], contestant: str, row: Callable[[str], str] = str
) -> list[Claim]:
    """Returns a claim for each percentage by which a paper's completion times are shorter. `row`: returns a rival's row."""
    words = f"{title}: completion times ({{}}) are shorter than with {{}} (the paper's by {{}} %)"
    return [
        Claim(words.format(WORDS[measure], rival, percent), source, (below(contestant, row(rival), measure),))
        for (rival, measure), percent in percents.items()
    ]


def alone_ns(size_bytes: np.ndarray) -> Floats:
    """Returns the time of lone flows between racks: their frames on a server's line, and the base round trip."""
    times_ns: Floats = wire_bytes(size_bytes) * 8 * 1e9 / LINE_BPS + BASE_NS
    return times_ns


def mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def tail(values: np.ndarray) -> float:
    return float(np.percentile(values, 99)) if len(values) else float("nan")


def measure(result: Result) -> dict[str, float]:
    """Returns completion times of the flows that ended, and how many did not."""
    flows = result.records("flows")
    started = flows[flows["start_ns"] >= 0]
    ended = started[started["end_ns"] >= 0]
    took_s, size = (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"]
    mice, elephants = took_s[size <= MICE_BYTES], took_s[size >= ELEPHANT_BYTES]
    return {
        **{MEAN.name: mean(took_s), TAIL.name: tail(took_s)},
        **{MICE.name: mean(mice), MICE_TAIL.name: tail(mice), ELEPHANTS.name: mean(elephants)},
        SLOWDOWN.name: mean(took_s * 1e9 / alone_ns(size)),
        FLOWS.name: float(len(started)),
        UNFINISHED.name: float(len(started) - len(ended)),
        DROPPED.name: float(result.records("queues")["drops"][-len(result.ports) :].sum()),
        CNPS.name: number(result.summary.get("nic_cnps")),
        **pauses(result),
    }


def measure_agents(result: Result) -> dict[str, float]:
    """Returns completion times, the queues of all ports, and ACC's reward where agents are."""
    queue_bytes = float(result.records("queues")["backlog_bytes"].mean())
    return {**measure(result), QUEUE.name: queue_bytes, REWARD.name: reward_of(result)}
