# SPDX-License-Identifier: Apache-2.0
"""The traffic on which ACC is trained offline (Yan et al., SIGCOMM 2021, section 4.3), drawn anew for each episode of each lab.

The paper: incast of p in [2, 64] senders with q flows each, of 10 kB to 10 MB, at a load of 10 to 90 %; and traces of storage, of
HPC (Linpack, Quantum Espresso) and of training (TensorFlow, Horovod). Here storage follows its table 1, and a parameter server
and a ring all-reduce stand in for the traces, which are not public. WebSearch and DataMining are added: its figures test with
them.

The network is ours: one switch at 25 Gbit/s, lossless by ACC's rule for pauses, with DCQCN in the NICs. Senders that share a host
share its line: a lab has at most 16 of them. C-ACC has a setting for ports that lead up, so it is trained on two leaves with four
servers each and one spine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.key import MS, US
from dc_gym.methods.acc.keys import BY_DIRECTION, BY_QUEUE
from dc_gym.methods.acc.template import Template
from dc_gym.spec import Spec
from dc_gym.spec.load import from_dict
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.kinds.storage import MIXES

RATE_BPS = 25 * 10**9
DELAY_NS = 580
"""Delay of a link: the idle round trip is the 2.32 us of ACC's racks."""
MOST_SENDING_HOSTS = 16
HOSTS = 8
"""Hosts of all scenarios but incast."""
MOST_FLOWS_OF_SENDER = 32
"""The paper has up to 1000. With 32 a round of 17 % of all incasts takes longer than an episode of 50 ms."""
MOST_OUTSTANDING = {"olap": 32, "exchange": 8, "video": 3, "backup": 2, "vdi": 1, "oltp": 1}
"""The most operations that a storage host keeps under way, by mix. A lab has room for about 60,000 flows: with small operations
these are 17,000 to 38,000 in 50 ms."""
PAUSED: Mapping[str, Any] = {"shared_buffer": "2500kB", "pfc": "classes", "xoff": "acc"}
"""PFC by ACC's rule, and the buffer of a leaf. ACC gives none: it is inferred. Switches of 32 ports at 100 Gbit/s have 16 MB
(Spectrum, Tomahawk), and ACC's leaf of 12 servers at 25 and two uplinks at 100 Gbit/s has 500 of their 3200 Gbit/s."""
NIC_25G: Mapping[str, Any] = {
    **{"preset": "paper", "trace": "off", "cnp_interval": "50us"},
    "parameters": {"alpha_timer": 55_000, "rate_timer": 55_000, "rate_ai": 1678, "rate_hai": 8389},
}
"""DCQCN as its paper has it, at 25 Gbit/s: times in seconds and raises of 40 and 200 Mbit/s are the same on every line."""
LEAVES, UPLINK = 2, "100Gbit/s"
"""The leaves on which settings by direction are trained; a leaf's link to the spine is as wide as its servers' links together."""
LARGEST_FLOW = "10MB"
"""WebSearch's and DataMining's flows are cut to it: no longer one would end in an episode."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """An episode's traffic."""

    kind: str
    hosts: int
    workload: Mapping[str, Any]

    def spec(self, template: Template, duration_ns: int, seed: int, groups: str = BY_QUEUE) -> Spec:
        """Returns the spec of an episode. `groups`: one of keys.GROUPS."""
        network: dict[str, Any] = {"kind": "single", "hosts": self.hosts}
        if groups == BY_DIRECTION:
            network = {"kind": "leafspine", "leaves": LEAVES, "hosts_per_leaf": HOSTS // LEAVES, "spines": 1}
            network["uplink_rate"] = UPLINK
        network |= {"rate": f"{RATE_BPS}bit/s", "delay": f"{DELAY_NS}ns"}
        network |= {**PAUSED, "marking": "secn1"}
        control = {"controller": {"name": "dcqcn"}, "nic": dict(NIC_25G)}
        data = {
            "name": f"acc-{self.kind}",
            "seed": seed,
            "topology": network,
            **control,
            "workload": dict(self.workload),
            "monitor": {"tcp_interval": f"{min(10 * MS, duration_ns)}ns"},
        }
        return lab_spec(data, template, duration_ns)


def lab_spec(data: Mapping[str, Any], template: Template, duration_ns: int) -> Spec:
    """Returns the spec of a lab in which the session's owner sets the marking at each interval of a template.

    `data`: its name, seed, network, congestion control, traffic and monitor.
    """
    agent = {
        "actuators": "marking",
        "interval": f"{template.interval_ns}ns",
        "latency": f"{10 * US}ns",
        "observe": "switch:backlog",
        "reward": "port_utilization",
    }
    return from_dict({"spec_version": 1, **data, "agent": agent, "time": {"duration": f"{duration_ns}ns"}}, Path.cwd())


def _incast(stream: Stream) -> Scenario:
    """Returns rounds of p senders with q flows each. The pause between two rounds makes the load."""
    p, q = stream.log_uniform(2, 65), stream.log_uniform(1, MOST_FLOWS_OF_SENDER + 1)
    size_bytes = stream.log_uniform(10_000, 10**7)
    percent = 10 + stream.below(81)
    round_ns = p * q * size_bytes * 8 * 10**9 // RATE_BPS
    pause_ns = round_ns * (100 - percent) // percent
    workload = {"kind": "incast", "senders": p * q, "size": f"{size_bytes}B", "interval": f"{pause_ns}ns"}
    return Scenario("incast", min(p, MOST_SENDING_HOSTS) + 1, workload | {"intervals": "exponential"})


def _sizes(distribution: str) -> Callable[[Stream], Scenario]:
    def draw(stream: Stream) -> Scenario:
        workload = {"kind": "poisson", "distribution": distribution, "truncate": LARGEST_FLOW}
        return Scenario(distribution, HOSTS, workload | {"load": (10 + stream.below(81)) / 100})

    return draw


def _storage(stream: Stream) -> Scenario:
    mix = stream.choose(sorted(MIXES))
    outstanding = stream.log_uniform(1, MOST_OUTSTANDING[mix] + 1)
    return Scenario("storage", HOSTS, {"kind": "storage", "mix": mix, "outstanding": outstanding})


def _training(kind: str) -> Callable[[Stream], Scenario]:
    def draw(stream: Stream) -> Scenario:
        size_bytes, compute_ns = stream.log_uniform(10**6, 2 * 10**7), stream.below(5 * MS)
        return Scenario(kind, HOSTS, {"kind": kind, "size": f"{size_bytes}B", "compute": f"{compute_ns}ns"})

    return draw


SCENARIOS: Mapping[str, Callable[[Stream], Scenario]] = {
    "incast": _incast,
    "websearch": _sizes("websearch"),
    "datamining": _sizes("datamining"),
    "storage": _storage,
    "parameter_server": _training("parameter_server"),
    "ring_allreduce": _training("ring_allreduce"),
}
SHARES = ("incast", "incast", "incast", *(name for name in SCENARIOS if name != "incast"))
"""The kinds from which an episode is drawn: incast has three eighths."""


def drawn(seed: int, *labels: object) -> Scenario:
    """Returns the scenario of a seed and labels, such as the numbers of a lab and an episode."""
    stream = Stream(seed, "acc scenario", *labels)
    return SCENARIOS[stream.choose(SHARES)](stream)
