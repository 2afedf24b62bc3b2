# SPDX-License-Identifier: Apache-2.0
"""The titles that figures use for the metrics of summary.json and the keys of a spec."""

from __future__ import annotations

from collections.abc import Mapping

METRICS: Mapping[str, str] = {
    "goodput_bps": "Goodput of all flows",
    "flow_goodput_bps": "Goodput of flow {}",
    "utilization": "Utilization of the busiest link",
    "mean_queue_bytes": "Longest queue, mean",
    "p99_queue_bytes": "Longest queue, 99th percentile",
    "max_queue_bytes": "Longest queue, maximum",
    "queueing_delay_s": "Queueing delay at the bottleneck, mean",
    "p99_queueing_delay_s": "Queueing delay at the bottleneck, 99th percentile",
    "switch_mean_queue_bytes": "Longest switch queue, mean",
    "switch_p99_queue_bytes": "Longest switch queue, 99th percentile",
    "switch_max_queue_bytes": "Longest switch queue, maximum",
    "host_mean_queue_bytes": "Longest host queue, mean",
    "host_p99_queue_bytes": "Longest host queue, 99th percentile",
    "host_max_queue_bytes": "Longest host queue, maximum",
    "drops": "Frames dropped by queues",
    "drop_ratio": "Share of frames dropped by queues",
    "marks": "Frames marked",
    "mark_ratio": "Share of frames marked",
    "lost_on_links": "Frames lost on links",
    "loss_ratio": "Share of frames lost on links",
    "mean_srtt_us": "Smoothed RTT, mean",
    "p50_srtt_us": "Smoothed RTT, median",
    "p99_srtt_us": "Smoothed RTT, 99th percentile",
    "min_rtt_us": "Least RTT",
    "jain": "Jain's index of goodput",
    "maxmin_jain": "Jain's index of goodput over fair share",
    "maxmin_least": "Poorest flow over its fair share",
    "maxmin_total": "Carried, over what max-min fairness would",
    "epochs": "Epochs",
    "convergence_mean_s": "Convergence time, mean",
    "convergence_max_s": "Convergence time, maximum",
    "convergence_never": "Epochs that did not converge",
    "reaction_p50_s": "Reaction time, median",
    "reaction_p99_s": "Reaction time, 99th percentile",
    "reaction_never": "Flows that did not react",
    "retransmits": "Retransmissions",
    "flows": "Flows",
    "flows_done": "Flows done",
    "flows_stopped": "Flows stopped",
    "flows_running": "Flows still running at the end",
    "flows_failed": "Flows failed",
    "flows_waiting": "Flows that did not start",
    "fct_flows": "Flows counted for completion times",
    "fct_unfinished": "Counted flows unfinished at the end",
    "fct_mean_s": "Completion time, mean",
    "fct_p50_s": "Completion time, median",
    "fct_p95_s": "Completion time, 95th percentile",
    "fct_p99_s": "Completion time, 99th percentile",
    "fct_p999_s": "Completion time, 99.9th percentile",
    "slowdown_mean": "Slowdown, mean",
    "slowdown_p50": "Slowdown, median",
    "slowdown_p95": "Slowdown, 95th percentile",
    "slowdown_p99": "Slowdown, 99th percentile",
    "slowdown_p999": "Slowdown, 99.9th percentile",
    "slowdown_flows": "Flows with a slowdown",
    "ideal_error": "Error of the ideal times",
    "nic_decision_rate": "Decisions a flow and second",
    "nic_probe_share": "Bytes of probes over those of data",
    "nic_resent_share": "Share of frames sent again",
    "nic_cnps": "CNPs",
    "nic_nacks": "NACKs",
    "nic_timeouts": "Timeouts of NICs",
    "nic_broken_messages": "Broken messages",
}
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
    "agent.interval": "Time of a step",
    "agent.latency": "Latency of the agent",
    "agent.reward": "Reward",
    "nic.latency": "Time of a decision",
    "nic.preset": "Preset of the NIC",
    "time.duration": "Duration",
}
"""Titles of the keys that are varied most. Other keys are shown as they are written."""


def of_metric(metric: str) -> str:
    """Returns the title of a metric: flow_goodput_bps.0 gives "Goodput of flow 0"."""
    name, _, element = metric.partition(".")
    title = METRICS.get(name, name.replace("_", " "))
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
