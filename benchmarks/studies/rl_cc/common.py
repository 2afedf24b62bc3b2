# SPDX-License-Identifier: Apache-2.0
"""The networks, runs and measures that studies of RL-CC (Fuhrer et al. 2023) and PCC-RL (Tessler et al. 2021) share.

    VARIANTS = [common.many_to_one(name("tree", flows), "rlcc-tree", common.SEVEN, flows) for flows in (16, 64)]
    STUDY = common.study(TITLE, SOURCE, VARIANTS, (common.GOODPUT, common.DROPS), CLAIMS, draw, networks=(common.SEVEN,))

A variant is one controller on one network with one traffic. Its times and rates are at 100 Gbit/s; measures are scaled back
to it. A set-up is a part of all that, of ours, with which claims are judged once more; its name stands behind the contestant's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.stats import band
from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.results.figures import kit
from dc_gym.results.results import Result, number
from dc_gym.run.plan import nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec import without_code
from dc_gym.study import Claim, Criterion, Evidence, Measure, Study, StudyOptions, Variant, VariantLine, scaled
from dc_gym.study.model import Facts
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, LINKS, MS, RunLength, ScaledNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Keys = Mapping[str, Any]
Rows = Sequence[Sequence["Axes"]]
Looks = Mapping[str, Sequence[str]]
"""Color, marker and line by contestant; the last two may be left out."""
Claims = Callable[[str], Iterable[Claim]]
"""The claims on a set-up, OWN for the study's own; claims about the same rows count once."""

GOODPUT = Measure("goodput", "goodput (of the line)", digits=3)
LATENCY = Measure("latency_s", "latency (us)", 1e6)
INFLATION = Measure("inflation", "RTT inflation")
DROPS = Measure("drops_per_flow", "drops a flow", digits=3)
LATE_DROPS = Measure("late_drops_per_flow", "drops a flow after bring-up", digits=3)
DROPPED = Measure("dropped", "frames dropped (%)", 100, 3)
RESENT = Measure("resent", "frames sent again (%)", 100, 3)
UTILIZATION = Measure("utilization", "utilization (%)", 100, 3)
FAIRNESS = Measure("fairness", "slowest over fastest flow (%)", 100, 3)
QUEUE = Measure("queue_s", "queue (us)", 1e6, 3)
DROP_RATE = Measure("drop_bps", "dropped (Gbit/s)", 1e-9, 2)
JAIN = Measure("jain", "Jain's index", digits=3)
PROBES = Measure("probes", "probes (% of bytes)", 100, 2)

SINGLE: Keys = {**LINKS, "kind": "single", "delay": "1450ns"}
SINGLE_LINKS, BASE_RTT_NS = 2, 6050
"""The links of a path through the switch. The base round trip is four times a link's 1.45 us and a frame at each of two. Table
III's latencies divided by eq. 2's inflations give 6.0, 6.1 and 6.2 us."""
FOUR = ScaledNetwork("four", "one switch, 4 senders, 1 receiver", {**SINGLE, "hosts": 5}, 4)
"""The network of RL-CC's simulations, section IV."""
SEVEN = ScaledNetwork("seven", "one switch, 7 hosts", {**SINGLE, "hosts": 7}, 6)
"""The network of RL-CC's Table II and its long-short runs."""
FABRIC = ScaledNetwork("rlcc64", "RL-CC's fabric: 64 hosts, 4 ToRs, 2 spines", {"preset": "rlcc64"}, 63)
SMALL_FABRIC = ScaledNetwork(
    "rlcc16",
    "a quarter of RL-CC's fabric: 16 hosts, 4 ToRs, 2 spines, 2:1 as there",
    {"preset": "rlcc64", "hosts_per_leaf": 4, "uplinks": 1},
    15,
)

SHARED_BUFFER: Keys = {"shared_buffer": "42MB", "alpha": 8, "host_buffer": LINKS["buffer"]}
"""The buffer of a Spectrum-2, RL-CC's switch, which all of its ports share; hosts keep theirs. The paper says nothing about it.

42 MB is the size that Mellanox announced. SONiC's `q_lossy_profile` for the SN3700 has dynamic_th 3, which is an alpha of 2^3;
Linux' driver sets 1/2 (mlxsw_sp2_sb_cms_egress).
"""
OF_PORTS = ("topology.buffer",)
_OF_SHARED = ("shared_buffer", "alpha", "reserve", "pfc", "xoff", "xon_below", "headroom", "pfc_quanta")
OF_SHARED = tuple(f"topology.{key}" for key in _OF_SHARED)
"""The command's keys that apply to variants with a shared buffer only, or to the others only, where a study has both."""

OWN, SHARED, WINDOW, PCC, NO_PATIENCE, LARGE, HELD = "", "shared buffer", "window", "PCC", "patience 0", "500 kB", "held"
FULL_QUEUE, TIMEOUTS, FIRMWARE, SLOW, SPREAD = "full queue", "16.8 ms", "firmware", "slow start", "spread starts"
PERMUTATION, TORS, ITERATIONS, FRESH, PAIRS, BOUNDED = "permutation", "8 x 8", "20 iterations", "fresh", "in pairs", "bounded"
"""The set-ups: "" is the set-up of all other rows. The name of a set-up stands behind its contestant's."""
NO_CONTROL = "no control"
UNCONTROLLED = {NO_CONTROL: "fixed"}
"""The contestant without an algorithm, whose flows send at line rate always."""
RATE_ONLY: Keys = {"nic.preset": "pcc"}
"""Swift in RL-CC's figures: its authors' own, on PCC (footnote 1), whose results are rates alone."""
FIRMWARE_PRESET, FIRST_RATE, SPREAD_NS = "firmware_bytes", nics.LINE_RATE >> 8, 100 * MS
PRESETS: Mapping[str, Keys] = {
    PCC: RATE_ONLY,
    HELD: {"nic.preset": "held"},
    NO_PATIENCE: {"nic.parameters": {"patience": 0}},
    FIRMWARE: {"nic.preset": FIRMWARE_PRESET},
    SLOW: {"nic.parameters": {"rate_initial": FIRST_RATE}},
}
"""Keys of a set-up's rows."""
PATIENT = ("rlcc-tree", "rlcc-mlp", "rlcc-mlp8")
"""The algorithms that have a patience."""
PATIENCE = "rlcc-tree and rlcc-mlp count a probe that is not back by 4 base RTTs as a round trip of so long, which is ours"
ABOUT: Mapping[str, str] = {
    SHARED: "42 MB a switch, alpha 8: a Spectrum-2's as announced, and SONiC's default for the SN3700; the paper gives neither",
    PCC: "Swift has a rate and no window, and probes raise it (preset pcc), as on PCC (RL-CC's footnote 1)",
    WINDOW: "Swift has a window, as in its own paper; else a rate alone (preset pcc), as on PCC (RL-CC's footnote 1)",
    HELD: "Swift's rate is cwnd over the base round trip, so that cwnd alone changes it, as in NVIDIA's example for PCC",
    NO_PATIENCE: "only answers count, as in the paper",
    LARGE: "the size of short flows, which is ours; else 64 kB, that of the paper's WRITEs: 50 fit into 5 MB, 100 do not",
    FULL_QUEUE: "a NIC has one processor and 4 places for events, each of which takes the time of a decision, packets' too",
    BOUNDED: "a queue pair has at most 128 kB under way, two WRITEs of 64 kB; inferred: with 5 MB of buffer the paper's 32 flows"
    " lose nothing, its 64 and 128 do: 78 to 156 kB a flow; a NIC has one processor with 2 places, whose events take a decision",
    TIMEOUTS: "the timeout, 4.096 us x 2^12, one NACK a gap, as verbs have it; flows begin at their share",
    FIRMWARE: f"DCQCN has preset {FIRMWARE_PRESET}, with the byte counter of stored configurations of NICs; runs are longer",
    SLOW: "flows begin at 1/256 of the line, as in NVIDIA's runtime for its NICs (DOCA PCC); the paper gives no rate",
    SPREAD: f"flows start at random over {format_time(SPREAD_NS)}, not over 100 us: the paper does not say how; runs are longer",
    "calibrated": "the target is lower by the offset at which flows rest in the fluid model under the policy, which is ours",
    "step / 4": "Swift's additive step is a quarter of a packet a round trip, not a packet",
    "step x 4": "Swift's additive step is four packets a round trip, not one",
    PERMUTATION: "each host sends to one other that nobody else sends to; else several may share a receiver",
    TORS: "8 ToRs of 8 hosts, oversubscribed 2:1 as the paper's 4 ToRs of 16 hosts; another reading of its 64 flows",
    ITERATIONS: "each size from 128KiB on has a run of its own, with 20 iterations behind a first one; else one counts",
    FRESH: "256 KiB and more: a run a size, a queue pair a message, a shared buffer; else queue pairs last, with their rates",
    PAIRS: "256 KiB and more: a run a size, a process sends to one other at a time, as Open MPI's 64 do; else to all at once",
}
"""The difference of rows with this name, in words for the pages."""

DCQCN: Keys = {"nic.preset": "paper", "topology.marking": "secn2"}
"""DCQCN's parameters and marking. The paper does not give its switches' marking; here they mark as in HPCC's simulator.

RL-CC's DCQCN is its NICs' own, but under the firmware's parameters a flood outlasts these runs (set-up firmware).
"""
SETTINGS: Mapping[str, Keys] = {"dcqcn": DCQCN}
"""Additional keys by controller."""
DEFAULT = RunLength(30 * MS, 20 * MS)
CLUSTER = RunLength(60_000 * MS, 1_000 * MS)
"""The lengths of section VI. The warm-up is our choice."""
SIMULATION = RunLength(1_000 * MS, 500 * MS)
"""The lengths of section IV: one second, of which the second half counts."""

CONTINUOUS = "continuous RDMA WRITEs of 64 kB; starts are spread by seed"
TRAFFIC: Mapping[str, str] = {
    "long_short": "long flows without an end, WRITEs of 64 kB; short ones of one WRITE each",
    "alltoall": "MPI_Alltoall by Open MPI's schedules, one WRITE a block",
}
"""Descriptions by the kind of workload."""


def name(contestant: str, flows: int) -> str:
    """Returns the name of a variant, from a contestant and its number of flows."""
    return f"{contestant}, {flows} flows"


def variant(
    name: str, controller: str, network: ScaledNetwork, workload: Keys, keys: Keys | None = None, lines: int = 1, **options: Any
) -> Variant:
    """Returns one controller on one network with one traffic; `options` are more arguments of `scaled.variant`.

    `keys` are more keys of the spec; `lines` the receivers' lines by which goodput is divided, 0 if every host receives.
    """
    spec_keys = {"nic.trace": "off", **SETTINGS.get(controller, {}), **(keys or {})}
    options = {"length": DEFAULT, "full": CLUSTER, "given": {"lines": lines} if lines != 1 else {}, **options}
    options = {"full_network": whole(network), **options}
    return scaled.variant(name, controller, network, workload, spec_keys=spec_keys, **options)


def whole(network: ScaledNetwork) -> ScaledNetwork:
    """Returns the network with `--length full`: RL-CC's whole fabric instead of a quarter of it."""
    if network.name != SMALL_FABRIC.name:
        return network
    smaller = SMALL_FABRIC.topology.keys() - FABRIC.topology.keys()
    return replace(FABRIC, topology={key: value for key, value in network.topology.items() if key not in smaller})


def many_to_one(name: str, controller: str, network: ScaledNetwork, flows: int, **more: Any) -> Variant:
    """Returns a variant with continuous WRITEs of 64 kB by `flows` flows, which are spread over all senders."""
    workload = {"kind": "many_to_one", "flows": flows, "senders": min(flows, network.senders), "jitter": JITTER_NS}
    return variant(name, controller, network, workload, **more)


def printed(measures: Iterable[Measure], values: Iterable[float]) -> dict[str, float]:
    """Returns the values that the paper prints for a variant, by measure. Measures that it does not print are left out."""
    return {measure.name: value for measure, value in zip(measures, values, strict=False)}


def lines_over(counts: Sequence[int], looks: Looks, name: Callable[[str, int], str] = name) -> list[VariantLine]:
    """Returns a line over numbers of flows, or of hosts, for each contestant."""
    return [
        VariantLine(contestant, color, {count: name(contestant, count) for count in counts}, *how)
        for contestant, (color, *how) in looks.items()
    ]


def of_setup(contestant: str, setup: str) -> str:
    """Returns the name of a contestant in the rows of a set-up."""
    return f"{contestant}, {setup}" if setup else contestant


def with_setups(setups: Iterable[str], make: Claims) -> tuple[Claim, ...]:
    """Returns the claims of `make`, followed by each set-up's claims on its own rows, which are counted apart."""
    plain_claims = tuple(make(OWN))
    claims = list(plain_claims)
    for setup in setups:
        for claim, plain in zip(make(setup), plain_claims, strict=True):
            if [criterion.about for criterion in claim.criteria] != [criterion.about for criterion in plain.criteria]:
                claims.append(replace(claim, setup=setup))
    return tuple(claims)


def keys_of(controller: str, setup: str) -> dict[str, Any]:
    """Returns the keys of a contestant's rows in RL-CC's figures: the set-up's keys, and Swift's form."""
    form = RATE_ONLY if controller == "swift" and setup != WINDOW else {}
    return {**form, **PRESETS.get(setup, {})}


def sharing(network: ScaledNetwork) -> ScaledNetwork:
    """Returns the network with one shared buffer in each switch instead of a buffer for each port."""
    keys = {key: value for key, value in network.topology.items() if key != "buffer"}
    return replace(network, topology={**keys, **SHARED_BUFFER})


def shares(variant: Variant) -> bool:
    """Returns whether the ports of a variant's switches share a buffer."""
    return "topology.shared_buffer" in variant.values


def at_share(flows: int, **parameters: int) -> dict[str, Any]:
    """Returns keys with which flows begin at their share, for measurements at rest; `parameters` adds more of nic.parameters."""
    return {"nic.parameters": {"rate_initial": max(nics.LEAST_RATE, nics.LINE_RATE // flows), **parameters}}


def numbers(result: Result, lines: int = 1) -> dict[str, float]:
    """Returns the quantities of one run in its metrics' window, scaled back to 100 Gbit/s."""
    experiment = Experiment.of(without_code(result.manifest["spec"], result.path))
    summary, scale, time = result.summary, experiment.spec.topology.scale or 1, experiment.spec.time
    flows, window_s = int(summary["flows"]), (time.duration_ns - time.warmup_ns) / 1e9
    last = result.records("queues")[-len(result.ports) :]
    return {
        GOODPUT.name: float(summary["goodput_bps"]) * scale / LINE_BPS / (lines or len(experiment.graph.hosts)),
        DROPS.name: float(last["drops"].sum()) / flows,
        LATE_DROPS.name: float(summary["drops"]) / flows,
        DROPPED.name: number(summary["drop_ratio"]),
        RESENT.name: number(summary["nic_resent_share"]),
        UTILIZATION.name: number(summary["utilization"]),
        FAIRNESS.name: _fairness(result),
        QUEUE.name: number(summary["queueing_delay_s"]) / scale,
        DROP_RATE.name: float(summary["drops"]) * FRAME_BYTES * 8 / window_s * scale,
        JAIN.name: number(summary["jain"]),
        PROBES.name: number(summary["nic_probe_share"]),
    } | _round_trips(result, experiment, scale)


def _round_trips(result: Result, experiment: Experiment, scale: int) -> dict[str, float]:
    """Returns latency and inflation: means over flows of the idle path plus the mean waiting times at all ports, there and back.

    A mean over probes would count short round trips more often than long ones.
    """
    ports = result.derived("port_metrics")
    assert ports is not None
    waits = dict(zip(ports["port"].to_pylist(), ports["mean_delay_s"].to_numpy(), strict=True))
    flows = experiment.schedule.flows
    base_s = np.array(nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, experiment.spec)) / 1e9
    waited = [
        sum(waits[port] for port in (*flow.ports, *nics.way_back(flow, experiment.graph, experiment.router))) for flow in flows
    ]
    rtt_s = base_s + np.array(waited)
    return {LATENCY.name: float(rtt_s.mean()) / scale, INFLATION.name: float((rtt_s / base_s).mean())}


def _fairness(result: Result) -> float:
    table = result.derived("flow_metrics")
    assert table is not None
    rates = table["goodput_bps"].to_numpy()
    return float(rates.min() / rates.max()) if len(rates) and rates.max() > 0 else float("nan")


def drawing(
    title: str, size: tuple[float, float], draw: Callable[[Evidence, Rows], None], legend: int = 0, grid: str = "y", **shape: Any
) -> Callable[[Evidence], Figure]:
    """Returns the function that draws a figure of this size in inches.

    `draw` draws into its rows of axes, whose number `shape` gives; `legend`: columns of a legend below them.
    """

    def drawn(evidence: Evidence) -> Figure:
        with kit.style({"axes.grid.axis": grid}):
            canvas = kit.new_figure(*size)
            rows = canvas.subplots(squeeze=False, **shape)
            draw(evidence, rows)
            if legend:
                kit.legend_below(canvas, rows[0][0], legend)
            kit.title(canvas, title)
        return canvas

    return drawn


def over_time(ax: Axes, evidence: Evidence, panel: Measure, lines: Mapping[str, tuple[str, str]], case: str = "") -> None:
    """Draws a quantity over time. `lines`: a variant and its style, by label."""
    for label, (name, style) in lines.items():
        row = evidence.variants.get(name)
        if row and (tracks := list(row.over_time.values())):
            mean, half = band(np.stack([track.values[panel.name] for track in tracks]) * panel.factor)
            ax.plot(tracks[0].x, mean, style, color=row.color, label=label)
            kit.shade(ax, tracks[0].x, np.maximum(mean - half, 0), mean + half, row.color)
    ax.set_ylim(bottom=0)
    ax.set_title(case + panel.title, loc="left")


def ours(text: str, criteria: Iterable[Criterion], source: str = "ours: what the runs showed") -> Claim:
    """Returns a claim that the paper does not make."""
    return Claim(text, source, tuple(criteria))


def study(
    title: str,
    source: str,
    variants: Sequence[Variant],
    measures: Sequence[Measure],
    claims: Claims,
    draw: Callable[[Evidence], Figure],
    *,
    networks: Sequence[ScaledNetwork],
    setups: Iterable[str] = (),
    also: Iterable[Claim] = (),
    more: Callable[[Result], dict[str, float]] | None = None,
    **fields: Any,
) -> Study:
    """Returns a study that fills its table by `numbers` and `more`, and states how it was run.

    `claims` are judged on each set-up, `also` once; `fields` are more fields of the study.
    """
    names = [column.name for column in measures]
    if any(map(shares, variants)):  # the command changes each kind of buffer on its own
        variants = [replace(row, fixed=OF_PORTS if shares(row) else OF_SHARED) for row in variants]

    def facts(options: StudyOptions) -> Facts:
        chosen = map(whole, networks) if options.full else networks
        return [("Network", "; ".join(dict.fromkeys(map(_told, chosen))) + ", 5 MB a port"), *_facts(variants, setups, options)]

    def measure(result: Result, lines: int = 1) -> dict[str, float]:
        values = numbers(result, lines) | (more(result) if more else {})
        return {name: values[name] for name in names if name in values}

    fields |= {"source": source, "claims": (*with_setups(setups, claims), *also), "facts": facts}
    return Study(title, measures, variants, measure=measure, draw=draw, **fields)


def _told(network: ScaledNetwork) -> str:
    return f"{network.title}, 100 Gbit/s, {network.topology.get('delay', LINKS['delay'])} a link"


def _facts(variants: Sequence[Variant], setups: Iterable[str], options: StudyOptions) -> Facts:
    scale = 1 if options.full else scaled.SCALE
    keys = [row.keys(options.full) for row in variants if options.all_cases or not row.extra]
    kinds = dict.fromkeys(TRAFFIC.get(row_keys["workload.kind"], CONTINUOUS) for row_keys in keys)
    times = [[parse_time_ns(row_keys[f"time.{key}"]) // scale for key in ("duration", "warmup")] for row_keys in keys]
    lengths = dict.fromkeys(f"{format_time(duration)}, from {format_time(warmup)} on" for duration, warmup in times)
    slowed = f"slowed down by {scale}: BDP, buffers and thresholds keep their packets, all numbers here are scaled back"
    return [
        *((f"Rows named {setup}", ABOUT[setup]) for setup in setups if setup in ABOUT),
        *([("Patience", PATIENCE)] if any(row_keys["controller.name"] in PATIENT for row_keys in keys) else []),
        ("Scale", slowed if scale > 1 else "none: as in the paper"),
        ("Traffic", "; ".join(kinds)),
        ("Measured", "; ".join(lengths)),
    ]
