# SPDX-License-Identifier: Apache-2.0
"""The metrics of summary.json: their titles in figures, and their formulas for docs/results.md and `dcgym list summary.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metrics:
    """Some metrics that have one formula."""

    titles: Mapping[str, str]
    """The title of each metric by its name; empty if it is no number and so is not drawn."""
    formula: str
    """In Markdown."""


RETURN = "return"

FORMULAS = (
    Metrics(
        {"goodput_bps": "Goodput of all flows"},
        "sum over flows of payload received in the window x 8 / window",
    ),
    Metrics(
        {"active_s": "Time with active flows", "active_goodput_bps": "Goodput while flows were active"},
        "time in the window in which at least one flow was active (had started and not ended), and `goodput_bps` x window / this"
        " time: the goodput without idle time, such as that between two incasts; null if none was active",
    ),
    Metrics(
        {"flow_goodput_bps": "Goodput of flow {}"},
        "the same, a list with one value per flow; null with more than 1000 flows (`flow_metrics.parquet` has them all)",
    ),
    Metrics({"busiest_port": ""}, "the port with the most frame bytes sent over rate"),
    Metrics(
        {"utilization": "Utilization of the busiest link"},
        "of the busiest port: frame bytes sent x 8 / (rate x time), from the first to the last sweep in the window, 0 .. 1",
    ),
    Metrics({"bottleneck_port": ""}, "the switch or host port with the largest mean queue of those that are known"),
    Metrics(
        {
            "mean_queue_bytes": "Longest queue, mean",
            "p99_queue_bytes": "Longest queue, 99th percentile",
            "max_queue_bytes": "Longest queue, maximum",
        },
        "of the bottleneck port in the window: [exact](#exact-queues) at switch ports, else over the sweeps",
    ),
    Metrics(
        {
            "queueing_delay_s": "Queueing delay at the bottleneck, mean",
            "p99_queueing_delay_s": "Queueing delay at the bottleneck, 99th percentile",
        },
        "`mean_queue_bytes` (p99) x 8 / rate of that port: how long a frame that then arrives waits",
    ),
    Metrics(
        {
            "switch_port": "",
            "switch_mean_queue_bytes": "Longest switch queue, mean",
            "switch_p99_queue_bytes": "Longest switch queue, 99th percentile",
            "switch_max_queue_bytes": "Longest switch queue, maximum",
        },
        "the same of the switch port with the largest mean queue",
    ),
    Metrics(
        {
            "host_port": "",
            "host_mean_queue_bytes": "Longest host queue, mean",
            "host_p99_queue_bytes": "Longest host queue, 99th percentile",
            "host_max_queue_bytes": "Longest host queue, maximum",
        },
        "the same of the host port with the largest mean queue: the senders' own queues",
    ),
    Metrics({"drops": "Frames dropped by queues", "marks": "Frames marked"}, "frames in the window, over all ports"),
    Metrics(
        {"class_drops": ""},
        "a list: `class`, `drops` and `marks` of each [class of ports](fabric.md#classes), over all ports; null without classes",
    ),
    Metrics(
        {"drop_ratio": "Share of frames dropped by queues", "mark_ratio": "Share of frames marked"},
        "the same over the frames that hosts sent, or tried to (sent and dropped by hosts' ports)",
    ),
    Metrics(
        {"lost_on_links": "Frames lost on links"},
        "frames that links lost by their own [loss rate](topologies.md#loss-jitter-reordering) or a [cut](events.md#a-cut), over"
        " the whole run: only the cables count them, sweeps do not. `drops` counts queues only and does not include them",
    ),
    Metrics({"loss_ratio": "Share of frames lost on links"}, "the same over the frames that hosts sent in the whole run"),
    Metrics(
        {"trimmed": "Frames trimmed"},
        "frames that switch ports [trimmed](fabric.md#trimming) over the whole run, which no `drops` include; null without",
    ),
    Metrics(
        {
            "mean_srtt_us": "Smoothed RTT, mean",
            "p50_srtt_us": "Smoothed RTT, median",
            "p99_srtt_us": "Smoothed RTT, 99th percentile",
        },
        "over samples in the window that have an estimate (are not 0)",
    ),
    Metrics({"min_rtt_us": "Least RTT"}, "the minimum `tcpi_min_rtt` of all samples"),
    Metrics(
        {"jain": "Jain's index of goodput"},
        "Jain's index of `flow_goodput_bps`: (sum x)^2 / (n sum x^2), over flows that were active in the whole window except at"
        " most a thousandth of it at either end; null for fewer than two",
    ),
    Metrics({"jain_flows": "Flows in Jain's index"}, "how many flows these are: n"),
    Metrics(
        {"maxmin_jain": "Jain's index of goodput over fair share"},
        "Jain's index of x / a over the same flows: a is a flow's max-min fair share of the links' rates x 1448/1514 (payload of"
        " a full frame; over RDMA 1440/1514), by progressive filling over the paths of the flows; a flow with a rate of its own"
        " asks for no more. ACKs on the reverse path are not counted",
    ),
    Metrics({"maxmin_least": "Poorest flow over its fair share"}, "the minimum x / a: how the poorest flow fares"),
    Metrics(
        {"maxmin_total": "Carried, over what max-min fairness would"},
        "sum x / sum a: the share of the fair total that was carried",
    ),
    Metrics(
        {"epochs": "Epochs"},
        "number of epochs. An epoch is a period of at least 5 rate intervals without a change in the set of long-lived flows"
        " (those of at least 20 rate intervals). A shorter period is not judged; its changes count for the next. Null, as the"
        " convergence and reaction rows below, with more than 4096 long-lived flows or 500 such periods",
    ),
    Metrics(
        {"convergence_mean_s": "Convergence time, mean", "convergence_max_s": "Convergence time, maximum"},
        "over epochs of two or more flows: from the change to the first of 5 successive rate intervals in which Jain's index of"
        " x / a is at least 0.95",
    ),
    Metrics({"convergence_never": "Epochs that did not converge"}, "epochs in which that did not happen"),
    Metrics(
        {"reaction_p50_s": "Reaction time, median", "reaction_p99_s": "Reaction time, 99th percentile"},
        "over flows and epochs: from the change to the first of 5 successive rate intervals in which the flow's rate is within"
        " `metrics.within` percent of its new share a",
    ),
    Metrics(
        {"reaction_never": "Flows that did not react"}, "flows (once per epoch) that did not get there before the next change"
    ),
    Metrics({"retransmits": "Retransmissions"}, "packets, over all flows"),
    Metrics(
        {
            "flows": "Flows",
            "flows_done": "Flows done",
            "flows_stopped": "Flows stopped",
            "flows_running": "Flows still running at the end",
            "flows_failed": "Flows failed",
            "flows_waiting": "Flows that did not start",
        },
        "counts, by `status`; unfinished flows are always included",
    ),
    Metrics(
        {"fct_flows": "Flows counted for completion times", "fct_unfinished": "Counted flows unfinished at the end"},
        "flows over TCP or RDMA with a size that started in `[time.warmup, metrics.cutoff)`, and those of them that had not"
        " finished when the run ended. A flow that never started is in neither but in `flows_waiting`. A UDP flow has no"
        " completion time",
    ),
    Metrics(
        {
            "fct_mean_s": "Completion time, mean",
            "fct_p50_s": "Completion time, median",
            "fct_p95_s": "Completion time, 95th percentile",
            "fct_p99_s": "Completion time, 99th percentile",
            "fct_p999_s": "Completion time, 99.9th percentile",
        },
        "completion time of those that finished; null if there are none",
    ),
    Metrics(
        {
            "slowdown_mean": "Slowdown, mean",
            "slowdown_p50": "Slowdown, median",
            "slowdown_p95": "Slowdown, 95th percentile",
            "slowdown_p99": "Slowdown, 99th percentile",
            "slowdown_p999": "Slowdown, 99.9th percentile",
        },
        "of the same flows: completion time over the [ideal](#ideal-completion-time) one; not clamped",
    ),
    Metrics({"slowdown_flows": "Flows with a slowdown"}, "how many of them have an ideal time"),
    Metrics(
        {"ideal_error": "Error of the ideal times"},
        "largest relative error of the interpolated ideal times; 0: none is interpolated; null: closed form, or no ideal times",
    ),
    Metrics(
        {"nic_decision_rate": "Decisions a flow and second"},
        "calls of the algorithm per flow and second under way; this and the next rows are of flows over RDMA, null without",
    ),
    Metrics({"nic_probe_share": "Bytes of probes over those of data"}, "frame bytes of probes over those of data"),
    Metrics({"nic_resent_share": "Share of frames sent again"}, "share of frames with data that were sent again"),
    Metrics(
        {
            "nic_cnps": "CNPs",
            "nic_nacks": "NACKs",
            "nic_timeouts": "Timeouts of NICs",
            "nic_broken_messages": "Broken messages",
        },
        "sums over [`nic_flows`](#nic_flowsparquet)",
    ),
    Metrics(
        {"nic_lost_events": "Events that found a NIC's queue full"},
        "sum over [`nic_events`](#nic_eventsparquet); null without `nic.event_queue`",
    ),
    Metrics(
        {"paused_share": "Share of a flow's life in which its path was paused, mean"},
        "mean over flows of `paused_share` in `flow_metrics.parquet`: time in which a port of a flow's path had to hold the"
        " flow's class, over the flow's life; between two sweeps the largest growth of `paused_ns` over the ports of the path."
        " This row and the next exist where `class_queues.parquet` does",
    ),
    Metrics({"pauses": "Pauses told"}, "sum of `pauses` over all ports and classes at the last sweep: of the whole run"),
    Metrics(
        {"job_s": "Time of the job"},
        "from its start to the end of its last iteration; null if that is not over. This row and the next exist with"
        ' `workload.kind = "job"`, for the first job',
    ),
    Metrics({"job_iterations": "Iterations of the job"}, "those that ended; a `file` is one iteration"),
    Metrics(
        {"iteration_mean_s": "Time of an iteration, mean", "iteration_max_s": "Time of an iteration, maximum"},
        "over these, from the end of the one before",
    ),
    Metrics(
        {"bus_bandwidth_bps": "Bus bandwidth"},
        "busbw of nccl-tests: `size` x 8 x 2 (n - 1) / n for an all-reduce over n ranks, x 1 for a broadcast, else x (n - 1) / n"
        " over the mean time of an iteration without the longest `calc_ns`; null for a file",
    ),
    Metrics(
        {"exposed_share": "Share of time in which ranks compute nothing"},
        "sum over ranks and iterations of `transfer_ns + wait_ns`, over that of their times",
    ),
    Metrics({"jobs": ""}, "a list: these values of each job, with its number as `job`"),
    Metrics({RETURN: "Return of the agent"}, "with a policy: the sum of the rewards in `agent.parquet`; no row without one"),
    Metrics(
        {"classes": ""},
        "a list: the flows by transport, controller and DSCP; null if all are alike. [Keys of an entry](#classes-of-flows)",
    ),
    Metrics(
        {"fct_groups": ""},
        "a list: the counted flows by their [`group`](#flowsparquet). Each entry has `group` and the fields of a bin (next row)",
    ),
    Metrics(
        {"fct_bins_hpcc": "", "fct_bins_homa": ""},
        "lists of bins: the counted flows sorted by size, in 20 (Li et al., SIGCOMM 2019) or 10 (Montazeri et al., SIGCOMM 2018)"
        " bins of equally many flows. A bin has `from_bytes`, `to_bytes`, `flows`, `unfinished`, and the `fct_*` and `slowdown_*`"
        " above",
    ),
    Metrics(
        {"fct_bins_pias": ""},
        "the same in the bins (0, 100 kB], (100 kB, 10 MB], above (Bai et al., NSDI 2015); a bin without flows is left out",
    ),
)
"""All metrics, in the order of docs/results.md."""

NAMES = tuple(name for metrics in FORMULAS for name in metrics.titles)
TITLES = {name: title for metrics in FORMULAS for name, title in metrics.titles.items() if title}
