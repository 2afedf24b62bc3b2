# SPDX-License-Identifier: Apache-2.0
"""The networks and contestants of the figures of ACC (Yan et al., SIGCOMM 2021), and the quantities that they share.

ACC gives servers and rates: 24 servers at 25 Gbit/s, 2 leaves and 2 spines at 100 Gbit/s (preset acc24a). Its fabric is lossless
by PFC. Figures 1 and 2 run on two fabrics, and have variants: lossless, with ACC's rule for pauses and a buffer that is inferred,
since ACC gives none; and lossy, with so large ports that nothing is dropped. The NICs run DCQCN with the times and rates of its
own paper. ACC's NICs are ConnectX-5, whose parameters it does not give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dc_gym.methods.acc.offline import scenarios
from dc_gym.methods.acc.template import DEPLOYED, step_worth
from dc_gym.results.results import Result, number
from dc_gym.results.tables import Records
from dc_gym.study import Floats, Measure, Variant, collect

LINE_BPS = 25 * 10**9
"""The line of a server."""
FIRST_PORT = 5001
LOSSY, PFC = "lossy", "PFC"
NICS_100G: Mapping[str, Any] = {"controller.name": "dcqcn", "nic.preset": "paper", "nic.trace": "off"}
NICS: Mapping[str, Any] = {**NICS_100G, **{f"nic.{key}": value for key, value in scenarios.NIC_25G.items()}}
"""At 25 Gbit/s a preset's times are multiplied by 4, as on a line that stands for 100 Gbit/s, so a NIC gets its own."""
PAUSED: Mapping[str, Any] = {f"topology.{key}": value for key, value in scenarios.PAUSED.items()}
NETWORK: Mapping[str, Any] = {"topology.preset": "acc24a", **NICS}
FABRICS: Mapping[str, Mapping[str, Any]] = {LOSSY: {**NETWORK, "topology.buffer": "20MB"}, PFC: {**NETWORK, **PAUSED}}
TRAINED, LEARNING, EAGER, UNMARKED = "ACC", "ACC, learns on", "the first action", "the last action"
"""ACC's net as it was trained offline, the same net in switches that learn in the run, and queues that keep the first action of
the template, which marks all packets from 20 kB on, or the last, which marks nothing below 10 MB."""
_AGENT: Mapping[str, Any] = {
    "topology.marking": "secn1",
    "controller.policy": "acc",
    "controller.start": "acc-deployed",
    "agent.actuators": "marking",
    "agent.agents": "switches",
    "agent.interval": "500us",
    "agent.latency": "10us",
    "agent.observe": "switch:mean_backlog,switch:utilization,switch:ce",
    "agent.reward": "acc",
}
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {
    "SECN0": {"topology.marking": "secn0"},
    "SECN1": {"topology.marking": "secn1"},
    "SECN2": {"topology.marking": "secn2"},
    TRAINED: _AGENT,
    LEARNING: {**_AGENT, "controller.learn": True, "controller.explore": 0.01},
    EAGER: {**_AGENT, "controller.constant": 0},
    UNMARKED: {**_AGENT, "controller.constant": len(DEPLOYED.actions) - 1},
}
"""The keys of static markings and of ACC's agents. Agents begin with SECN1."""
RIVALS = ("SECN1", "SECN2")
COLORS = {
    **{"SECN0": "#88CCEE", "SECN1": "#CC6677", "SECN2": "#999933"},
    **{TRAINED: "#332288", LEARNING: "#88CCEE", EAGER: "#DDCC77", UNMARKED: "#888888"},
}
USE = Measure("rate", "rate (of the line)", digits=4)
QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 3)
REWARD = Measure("reward", "ACC's reward", digits=3)
PAUSES, DROPPED = Measure("pauses", "pauses told"), Measure("drops", "frames dropped")
FLOWS, UNFINISHED = Measure("flows", "flows"), Measure("unfinished", "unfinished")
THROUGHPUT_WEIGHT = 0.7
"""w1 of ACC's reward (section 3.3)."""
FACTS = (
    ("Controller", "DCQCN in the NICs, with the times and rates of its own paper; ACC's NICs are ConnectX-5"),
    (
        "Buffer",
        "2.5 MB a switch, inferred: a leaf's part of 16 MB for 32 ports at 100 Gbit/s (Spectrum, Tomahawk); ACC's rule for pauses"
        " (11.11 % of the free room). Ours: 20 MB a port where it is lossy, 12 MB in figures 8 and 17",
    ),
    ("Markings", "SECN1's and SECN2's Pmax are ours: 1 % as in DCQCN's paper, 20 % as in HPCC's simulator"),
    ("ACC", "where it runs: controller.start = acc-deployed in every switch, once in 500 us, in force 10 us later"),
)


def rack(hosts: int) -> dict[str, Any]:
    """Returns the keys of servers on one switch at 25 Gbit/s, with DCQCN, under PFC, with the round trip of ACC's racks."""
    return {
        "topology.kind": "single",
        "topology.hosts": hosts,
        "topology.rate": "25Gbit/s",
        "topology.delay": "580ns",
        **PAUSED,
        **NICS,
    }


def sampled(duration_ms: int, interval_us: int, tcp_interval_ms: int, warmup_ms: int = 0) -> dict[str, Any]:
    """Returns the keys of a run's length and of the intervals between samples."""
    return {
        "time.duration": f"{duration_ms}ms",
        "time.warmup": f"{warmup_ms}ms",
        "monitor.interval": f"{interval_us}us",
        "monitor.tcp_interval": f"{tcp_interval_ms}ms",
    }


def variants(contestants: Iterable[str], **more: Any) -> tuple[Variant, ...]:
    """Returns a variant for each contestant."""
    return tuple(Variant(contestant, CONTESTANTS[contestant], COLORS[contestant], **more) for contestant in contestants)


def flow_list(flows: Iterable[tuple[int, int, int, str]]) -> str:
    """Returns a file of flows: the numbers of source and destination, the port less FIRST_PORT, and `start,stop,size`."""
    rows = [f"h{source},h{to},{FIRST_PORT + port},{times}" for source, to, port, times in flows]
    return collect.flow_list(rows)


def drawn(makers: Mapping[str, Callable[[int], str]], seeds: Sequence[int]) -> dict[str, str]:
    """Returns files by name, made by functions of the seed, which stands in the given names as `{seed}`."""
    return {file.format(seed=seed): make(seed) for file, make in makers.items() for seed in seeds}


def pauses(result: Result) -> dict[str, float]:
    """Returns the number of pauses that ports sent; nan without PFC."""
    return {PAUSES.name: number(result.summary.get("pauses"))}


def reward_of(result: Result) -> float:
    """Returns the mean of ACC's reward over a run; nan without agents."""
    agent = result.derived("agent")
    return float("nan") if agent is None else float(agent["reward"].to_numpy().mean())


def port_reward(rate: Floats, queue_bytes: Floats, worth: Callable[[Floats], Floats] = step_worth) -> float:
    """Returns the mean of ACC's reward of a port over slots. `rate`: over the line's. `worth`: D(L) of the mean queues."""
    return float((THROUGHPUT_WEIGHT * rate + (1 - THROUGHPUT_WEIGHT) * worth(queue_bytes)).mean())


def queue_of(result: Result, port: str) -> Records:
    """Returns the samples of a port's queue, in the order of time."""
    names = [str(row["name"]) for row in result.ports]
    return result.records("queues").reshape(-1, len(names))[:, names.index(port)]


def setup_of(fabric: str) -> str:
    """Returns the set-up of a claim. ACC's fabric is lossless, so verdicts on all others are counted apart."""
    return fabric.removeprefix(PFC).removeprefix(", ")


def on(name: str, fabric: str) -> str:
    """Returns the name of a contestant on a fabric."""
    return name if fabric == LOSSY else f"{name}, {fabric}"
