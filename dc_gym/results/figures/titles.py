# SPDX-License-Identifier: Apache-2.0
"""The titles that figures use for the metrics of summary.json and the keys of a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dc_gym.base import readable
from dc_gym.results.figures import styles
from dc_gym.results.metrics import names

KEYS: Mapping[str, str] = {
    "seed": "Seed",
    "ground": "Ground",
    "topology.preset": "Network",
    "topology.kind": "Network",
    "topology.hosts": "Hosts",
    "topology.pairs": "Pairs of hosts",
    "topology.rate": "Line rate",
    "topology.bottleneck_rate": "Bottleneck's rate",
    "topology.uplink_rate": "Uplinks' rate",
    "topology.delay": "Propagation delay of a link",
    "topology.buffer": "Buffer of a switch port",
    "topology.host_buffer": "Buffer of a host",
    "topology.host_qdisc": "Queue of a host",
    "topology.marking": "Marking",
    "topology.k_bytes": "Marking threshold K",
    "topology.kmin": "Marking from",
    "topology.kmax": "Marking all from",
    "topology.pmax": "Largest probability of marking",
    "topology.loss": "Loss of a link",
    "topology.jitter": "Jitter of a link",
    "topology.reorder": "Reordering of a link",
    "topology.scale": "Slowed down by",
    "topology.routing": "Routing",
    "controller.name": "Congestion control",
    "controller.policy": "Policy",
    "controller.rto_min": "Least retransmission timeout",
    "workload.kind": "Workload",
    "workload.senders": "Senders",
    "workload.flows": "Flows",
    "workload.size": "Size of a flow",
    "workload.rate": "Rate of a flow",
    "workload.load": "Load",
    "workload.distribution": "Flow sizes",
    "workload.jitter": "Jitter of the starts",
    "workload.collective": "Collective",
    "workload.placement": "Placement of ranks",
    "workload.ranks": "Ranks",
    "workload.stragglers": "Stragglers",
    "agent.interval": "Time of a step",
    "agent.latency": "Latency of the agent",
    "agent.reward": "Reward",
    "nic.latency": "Time of a decision",
    "nic.preset": "Preset of the NIC",
    "time.duration": "Duration",
}
"""Titles of the keys that are varied most. Other keys are shown as they are written."""
COUNTED: Mapping[str, tuple[str, str]] = {
    "topology.hosts": ("host", "hosts"),
    "topology.pairs": ("pair of hosts", "pairs of hosts"),
    "topology.leaves": ("leaf", "leaves"),
    "topology.spines": ("spine", "spines"),
    "topology.hosts_per_leaf": ("host a leaf", "hosts a leaf"),
    "topology.hops": ("hop", "hops"),
    "workload.senders": ("sender", "senders"),
    "workload.flows": ("flow", "flows"),
    "workload.ranks": ("rank", "ranks"),
    "workload.stragglers": ("straggler", "stragglers"),
}
"""Keys whose values are counts, with the noun for one and for several."""
PLAIN = ("topology.preset", "topology.kind", "topology.rate", "controller.policy", "workload.kind")
"""Keys whose values need no title."""


def of_metric(metric: str) -> str:
    """Returns the title of a metric: flow_goodput_bps.0 gives "Goodput of flow 0"."""
    name, _, element = metric.partition(".")
    title = names.TITLES.get(name, name.replace("_", " "))
    return title.format(element) if "{}" in title else f"{title} {element}".rstrip()


def of_key(key: str) -> str:
    """Returns the title of a key. A key of a single link is followed by the link's number, as in "... of links[0]"."""
    if key in KEYS:
        return KEYS[key]
    section, _, rest = key.partition(".links.")
    number, _, name = rest.partition(".")
    if section == "topology" and number.isdecimal() and f"topology.{name}" in KEYS:
        return f"{KEYS[f'topology.{name}'].removesuffix(' of a link')} of links[{number}]"
    return key


def of_value(key: str, written: str) -> str:
    """Returns a value of a key in words, as a panel's title: "32 hosts", "10 Gbit/s", "Load 0.3"."""
    if written == "-":
        return f"{of_key(key)}: not given"
    if key == "controller.name":
        return styles.label_of(written)
    if key in COUNTED:
        one, several = COUNTED[key]
        return f"{written} {one if written == '1' else several}"
    if key in PLAIN:
        return amount(written)
    title = of_key(key)
    return f"{title}{':' if ' ' in title else ''} {amount(written)}"


def amount(written: str) -> str:
    """Returns a quantity of a spec with a space before its unit; another text as it is."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z/%]+)", written)
    return f"{match[1]} {readable.typeset(match[2])}" if match else written
