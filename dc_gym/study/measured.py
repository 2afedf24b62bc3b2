# SPDX-License-Identifier: Apache-2.0
"""Computes the numbers of one run from its tables alone, so that runs with and without an agent are scored alike.

Queues are the longest at each moment, separately for switches and hosts. The round trip is the mean srtt over the last tenth of
the run, as in the thesis. A run without an agent has the reward of action 1 (equation 4.3: 1 - 2 Q).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dc_gym.base.units import parse_time_ns
from dc_gym.results.figures import timeline
from dc_gym.results.metrics import Window, series
from dc_gym.results.metrics.convergence import HOLD
from dc_gym.results.metrics.queues import sides
from dc_gym.results.results import Result, number
from dc_gym.results.tables import TABLES
from dc_gym.spec import without_code
from dc_gym.study.evidence import Floats, Track

BINS = 50
LAST_SHARE = 0.1
RECOVERED, RECOVERY_INTERVALS = 0.9, 200


def numbers(result: Result) -> dict[str, float]:
    """Returns values by quantity; NaN where nothing was measured."""
    summary, spec = result.summary, result.manifest["spec"]
    warmup_ns = _window_start_ns(result)
    times, switch, host = longest_queues(result)
    records, unknown = result.records("queues"), TABLES["queues"].unknown["longest_bytes"]
    counted = records["longest_bytes"][(records["longest_bytes"] != unknown) & (sides(result.ports) == "switch")[records["port"]]]
    settled = times >= warmup_ns
    steps, rewards = reward_steps(result)
    agent = result.manifest.get("agent") or {}
    return {
        "reward": _mean(rewards[steps > warmup_ns]),
        "goodput_bps": number(summary.get("goodput_bps")),
        "switch_queue_bytes": _mean(switch[settled]),
        "switch_queue_bytes_max": float(max(switch.max(), counted.max(initial=0))),
        "host_queue_bytes": _mean(host[settled]),
        "rtt_s": _last_rtt_s(result) if spec["workload"].get("transport", "tcp") == "tcp" else float("nan"),
        "queueing_delay_s": number(agent.get("queueing_delay_s")),
        "lost_goodput_bps": number(agent.get("lost_goodput_bps")),
        "drops": number(summary.get("drops")),
        "marks": number(summary.get("marks")),
        "jain": number(summary.get("jain")),
        "wanted": number(agent.get("wanted")),
    }


def track(result: Result, bins: int = BINS, names: Sequence[str] = ()) -> Track:
    """Returns the quantities over time: the ones in `names`, or all."""
    series = timeline.load_series(result, bins)
    width_s = 2 * series.t_s[0]
    times, switch, host = longest_queues(result)
    steps, rewards = reward_steps(result)

    def binned(at_ns: Floats, values: Floats) -> Floats:
        bin_index = np.minimum((at_ns / 1e9 / width_s).astype(int), len(series.t_s) - 1)
        counts = np.bincount(bin_index, minlength=len(series.t_s))
        with np.errstate(invalid="ignore"):
            means: Floats = np.bincount(bin_index, values, len(series.t_s)) / np.where(counts, counts, np.nan)
        return means

    values = {
        "reward": binned(steps, rewards),
        "goodput_bps": series.total_bps,
        "switch_queue_bytes": binned(times, switch),
        "host_queue_bytes": binned(times, host),
        "rtt_s": series.mean_srtt_us / 1e6,
    }
    chosen = {name: column for name, column in values.items() if name in (names or values)}
    return Track(series.t_s, chosen, {name: most for name, most in {"goodput_bps": series.most_bps}.items() if name in chosen})


def longest_queues(result: Result) -> tuple[Floats, Floats, Floats]:
    """Returns, for each sample of all queues: its time (ns), the longest queue of a switch port, and of a host port."""
    records, ports = result.records("queues"), result.ports
    backlog = records["backlog_bytes"].reshape(-1, len(ports)).astype(np.float64)
    times = records["t_ns"].reshape(-1, len(ports))[:, 0].astype(np.float64)
    at_switch = sides(ports) == "switch"
    return times, backlog[:, at_switch].max(axis=1), backlog[:, ~at_switch].max(axis=1)


def reward_steps(result: Result) -> tuple[Floats, Floats]:
    """Returns times (ns) and rewards: of the agent's steps, or of the queue samples if there was no agent."""
    if (table := result.derived("agent")) is not None:
        times = table["t_ns"].to_numpy()[1:].astype(np.float64)  # nothing has been done at step 0
        return times, table["reward"].to_numpy()[1:].astype(np.float64)
    return _reward_of_full_rate(result)


def _reward_of_full_rate(result: Result) -> tuple[Floats, Floats]:
    ports, records = result.ports, result.records("queues")
    buffers = np.array([float(port["buffer_bytes"]) for port in ports])
    backlog = records["backlog_bytes"].reshape(-1, len(ports)) / buffers
    at_switch = sides(ports) == "switch"
    times = records["t_ns"].reshape(-1, len(ports))[:, 0].astype(np.float64)
    return times, 1 - 2 * backlog[:, at_switch].max(axis=1)


def _last_rtt_s(result: Result) -> float:
    records = result.records("tcp")
    if not len(records):
        return float("nan")
    late = records["t_ns"] >= (1 - LAST_SHARE) * records["t_ns"].max()
    samples = records["srtt_us"][late & (records["srtt_us"] > 0)]
    return _mean(samples / 1e6)


def _window_start_ns(result: Result) -> int:
    return parse_time_ns(str(result.manifest["spec"]["time"]["warmup"]))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def recovery_s(result: Result, intervals: int = RECOVERY_INTERVALS) -> float | None:
    """Returns the recovery time: from the end of the last short flow to the first of HOLD successive intervals in which the long
    flows together have RECOVERED of their rate before. None if the short flows have not ended or the long ones had no goodput."""
    flows, duration_ns = result.records("flows"), without_code(result.manifest["spec"], result.path).time.duration_ns
    short = flows["size_bytes"] > 0
    ends = flows["end_ns"][short]
    if not short.any() or (ends < 0).any() or (ends >= duration_ns).any():
        return None
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), intervals)
    long_bps = np.nansum(drawn.goodput_bps[~short[: len(drawn.goodput_bps)]], axis=0)
    began_s, ended_s = float(flows["start_ns"][short].min()) / 1e9, float(ends.max()) / 1e9
    before = long_bps[(drawn.t_s > began_s / 2) & (drawn.t_s < began_s)]
    if not len(before) or before.mean() <= 0:
        return None
    there = (long_bps >= RECOVERED * before.mean()) & (drawn.t_s >= ended_s)
    held = np.lib.stride_tricks.sliding_window_view(there, HOLD).all(axis=1)
    first = int(np.argmax(held))
    return float(drawn.t_s[first] - ended_s) if held.any() else None
