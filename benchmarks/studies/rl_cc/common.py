# SPDX-License-Identifier: Apache-2.0
"""The networks, runs and quantities that the figures of RL-CC (Fuhrer et al. 2023) and PCC-RL (Tessler et al. 2021) share.

A figure's module has rows and claims, and draws. Everything else is here:

    TITLE = "..."
    ROWS = [
        rlcc.many_to_one(f"tree, {flows} flows", "rlcc-tree", rlcc.SEVEN, flows, paper={"goodput": 0.86}) for flows in (16, 64)
    ]
    CLAIMS = (Claim("...", SOURCE, (above("tree, 64 flows", "MLP, 64 flows", rlcc.GOODPUT, 2),), why="..."),)

    def run(options, progress):
        evidence = rlcc.run("table-2", ROWS, options, progress)
        figure = series.figure(...)
        return rlcc.findings(TITLE, ROWS, options, evidence, (rlcc.GOODPUT, rlcc.DROPS), CLAIMS, figure)

It also needs a line in dc_gym/reproduce/registry.py. A row is one controller on one network with one traffic; claims refer to it
by its name. It runs once per seed, and all rows have the same traffic for a seed. Runs are in DIR/NAME/runs. Modules may share a
NAME and its runs; --full and --ground host have their own folders. `paper` holds the paper's values, shown beside ours.
`more(result)` measures quantities that `numbers` lacks, `track(result)` measures over time. Times and rates of a row are at
100 Gbit/s; measured quantities are scaled back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym import spec as specs
from dc_gym.base.files import machine_errors
from dc_gym.base.progress import Progress
from dc_gym.base.units import FRAME_BYTES, format_size, format_time, parse_time_ns
from dc_gym.figures import styles
from dc_gym.grounds import nics
from dc_gym.grounds.experiment import Experiment
from dc_gym.records.results import Result, number
from dc_gym.study import runs, scaled
from dc_gym.study.claims import Claim, judge
from dc_gym.study.evidence import VariantEvidence, Evidence, Measure, Shortfall, Track, fewer
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, LINKS, MS, RunLength, ScaledNetwork
from dc_gym.spec import Spec, without_code
from dc_gym.sweep.grid import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = 5
WARMUP_PART = 4
"""The warm-up before the metrics' window is 1/4 of a duration that the command gives."""

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

SINGLE: Mapping[str, Any] = {**LINKS, "kind": "single", "delay": "1450ns"}
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

SHARED_BUFFER: Mapping[str, Any] = {"shared_buffer": "42MB", "alpha": 8, "host_buffer": LINKS["buffer"]}
"""The buffer of a Spectrum-2, RL-CC's switch, which all of its ports share. The paper says nothing about it.

42 MB is the size that Mellanox announced. alpha is that of lossy queues in SONiC's settings for the SN3700, a Spectrum-2:
`q_lossy_profile` of its buffers_defaults_t0.j2 has dynamic_th 3, which is 2^3. Linux' driver sets 1/2 (mlxsw_sp2_sb_cms_egress).
Hosts keep their buffer.
"""
SHARED_SOURCE = (
    "the paper gives neither: 42MB is a Spectrum-2's buffer as announced, alpha 8 SONiC's default for lossy queues of the SN3700"
)
OF_SHARED = tuple(
    f"topology.{key}" for key in ("shared_buffer", "alpha", "reserve", "pfc", "xoff", "xon_below", "headroom", "pfc_quanta")
)
OF_PORTS = ("topology.buffer",)
"""Keys that a figure with both kinds of rows applies to the rows with a shared buffer only, or to the others only."""

OWN, SHARED, WINDOW, PCC, NO_PATIENCE, LARGE = "", "shared buffer", "window", "PCC", "patience 0", "500 kB"
HELD = "held"
NO_CONTROL = "no control"
UNCONTROLLED = {NO_CONTROL: "fixed"}
"""The contestant without an algorithm, whose flows send at line rate always."""
FULL_QUEUE, TIMEOUTS = "full queue", "16.8 ms"
FIRMWARE, SLOW, SPREAD, PERMUTATION, TORS = "firmware", "slow start", "spread starts", "permutation", "8 x 8"
ITERATIONS = "20 iterations"
"""The variants: "" is the set-up of all other rows. A row of a variant has the variant's name behind its contestant's."""
RATE_ONLY: Mapping[str, Any] = {"nic.preset": "pcc"}
"""Swift in RL-CC's figures: its authors' own, on PCC (footnote 1), whose results are rates alone."""
FIRMWARE_PRESET, FIRST_RATE, SPREAD_NS = "firmware_bytes", nics.LINE_RATE >> 8, 100 * MS
PRESETS: Mapping[str, Mapping[str, Any]] = {
    PCC: RATE_ONLY,
    HELD: {"nic.preset": "held"},
    NO_PATIENCE: {"nic.parameters": {"patience": 0}},
    FIRMWARE: {"nic.preset": FIRMWARE_PRESET},
    SLOW: {"nic.parameters": {"rate_initial": FIRST_RATE}},
}
"""Keys of a variant's rows."""
PATIENCE = (
    "4 base RTTs in rows of rlcc-tree and rlcc-mlp, which is ours: a probe that is not back by then counts as a round trip of so"
    " long. 0 in rows so named: only answers count, as in the paper"
)
PATIENT = ("rlcc-tree", "rlcc-mlp", "rlcc-mlp8")
"""The algorithms that have a patience."""
ABOUT: Mapping[str, str] = {
    PCC: (
        "in rows so named Swift has a rate and no window, and probes raise it (preset pcc). RL-CC's authors ran a Swift of their"
        " own on PCC (its footnote 1), whose results are rates alone"
    ),
    WINDOW: (
        "in rows so named Swift has a window, as in its own paper (preset paper). In all others it has a rate alone (preset pcc):"
        " RL-CC's authors ran a Swift of their own on PCC (footnote 1), whose results are rates alone"
    ),
    HELD: (
        "in rows so named Swift's rate is cwnd over the base round trip (preset held): cwnd alone changes it. NVIDIA's example"
        " for PCC keeps a rate in this way; that of RL-CC's authors is not known"
    ),
    LARGE: (
        "the size of short flows in rows so named, which is ours. In others it is 64 kB, that of the paper's WRITEs: 50 of them"
        " (3.2 MB) fit into 5 MB, 100 do not. In the paper's Table IV nobody loses with 50, DCQCN does with 100"
    ),
    FULL_QUEUE: (
        "in rows so named a NIC has one processor and 4 places for events, each event takes the time of a decision, those of 8"
        " packets sent included, and only answers count (patience 0). All of it is ours: the paper tells of no queue"
    ),
    TIMEOUTS: (
        "the timeout in rows so named, 4.096 us x 2^12, with one NACK for each gap, as verbs have it; probes are repeated after"
        " 0.8 ms, and flows begin at their share. The paper gives none of these"
    ),
    FIRMWARE: (
        f"in rows so named DCQCN has preset {FIRMWARE_PRESET}: RL-CC's DCQCN is its NICs' own (section VI), and stored"
        " configurations of such NICs have a byte counter of 32767. Its unit is bytes by the tool's text, 64 bytes by hearsay"
        " (preset firmware_blocks); both end a flood of many-to-one, which without the counter never ends. Runs are longer,"
        " since that takes 90 to 200 ms"
    ),
    SLOW: (
        "in rows so named flows begin at 1/256 of the line, as in NVIDIA's runtime for its NICs (DOCA PCC), not at the line's"
        " rate. The paper does not say at which rate its flows begin"
    ),
    SPREAD: (
        f"in rows so named flows start at random over {format_time(SPREAD_NS)} at 100 Gbit/s, not over 100 us: the paper does not"
        " say how its flows start, and processes on 64 hosts hardly start within 100 us. Runs are longer by as much"
    ),
    PERMUTATION: (
        "in rows so named each host sends to one other that nobody else sends to. The paper does not say how flows of its"
        " all-to-all are paired; in other rows with one flow a host several may share a receiver"
    ),
    TORS: (
        "in rows so named there are 8 ToRs of 8 hosts, oversubscribed 2:1 as in the other rows. The paper has 4 ToRs of 16 hosts,"
        " and 64 flows on 64 hosts; this is another reading of the 64"
    ),
    ITERATIONS: (
        "in rows so named each size from 128KiB on has a run of its own, with 20 iterations behind a first one; in others a run"
        " has all sizes, with one counted iteration each. The OSU benchmark counts 100 and more"
    ),
}
"""Descriptions of variants, on the pages of figures that have them."""

DCQCN: Mapping[str, Any] = {"nic.preset": "paper", "topology.marking": "secn2"}
"""DCQCN's parameters and marking.

RL-CC's DCQCN is the one that its NICs come with. But with the firmware's parameters a flood lasts longer than these runs, or for
ever without the byte counter (docs/reproduce-rl-cc.md); the rows named "firmware" have them. The paper does not say how its
switches mark; here it is 400 to 1600 kB, 20 %, as HPCC's authors had it.
"""
SETTINGS: Mapping[str, Mapping[str, Any]] = {"dcqcn": DCQCN}
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

Measure = Callable[[Result], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One controller on one network with one traffic."""

    name: str
    controller: str
    network: ScaledNetwork
    workload: Mapping[str, Any]
    """Keys of [workload]."""
    length: RunLength = DEFAULT
    full: RunLength = CLUSTER
    values: Mapping[str, Any] = field(default_factory=dict)
    """Additional dotted keys of the spec."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's values by quantity, in SI units."""
    color: str = ""
    """Color in figures; empty: the controller's."""
    lines: int = 1
    """Number of receivers' lines by which the goodput is divided. 0: every host receives."""
    full_network: ScaledNetwork | None = None
    """The network with --full; None: the same."""
    variant: str = OWN

    @property
    def shares(self) -> bool:
        """True if the ports of its switches share a buffer."""
        return "shared_buffer" in self.network.topology


def name(who: str, flows: int) -> str:
    """Returns the name of a row, from a contestant and its number of flows."""
    return f"{who}, {flows} flows"


def many_to_one(name: str, controller: str, network: ScaledNetwork, flows: int, **more: Any) -> Row:
    """Returns a row with continuous WRITEs of 64 kB by `flows` flows, which are spread over all senders."""
    workload = {"kind": "many_to_one", "flows": flows, "senders": min(flows, network.senders), "jitter": JITTER_NS}
    return Row(name, controller, network, workload, **more)


def of_variant(who: str, variant: str) -> str:
    """Returns the name of a contestant in the rows of a variant."""
    return f"{who}, {variant}" if variant else who


def with_variants(variants: Iterable[str], make: Callable[[str], Iterable[Claim]]) -> tuple[Claim, ...]:
    """Returns the claims of a figure, and behind them those of each variant, which are counted apart.

    `make(variant)` returns the same claims for any variant. Of a variant only those remain that are about its rows, without
    explanations that are the figure's own: those experiments were not made with the variant.
    """
    own = tuple(make(OWN))
    found = list(own)
    for variant in variants:
        pairs = zip(make(variant), own, strict=True)
        found += [_apart(claim, plain, variant) for claim, plain in pairs if _about(claim) != _about(plain)]
    return tuple(found)


def _apart(claim: Claim, plain: Claim, variant: str) -> Claim:
    own = None if claim.explanation == plain.explanation else claim.explanation
    return replace(claim, variant=variant, explanation=own)


def _about(claim: Claim) -> list[str]:
    return [name for each in claim.criteria for name in each.about]


def keys_of(controller: str, variant: str) -> dict[str, Any]:
    """Returns the keys of a contestant's rows in RL-CC's figures: those of the variant, and Swift's form."""
    own = RATE_ONLY if controller == "swift" and variant != WINDOW else {}
    return {**own, **PRESETS.get(variant, {})}


def sharing(network: ScaledNetwork) -> ScaledNetwork:
    """Returns the network with one shared buffer in each switch instead of a buffer for each port."""
    keys = {key: value for key, value in network.topology.items() if key != "buffer"}
    return replace(network, topology={**keys, **SHARED_BUFFER})


def at_share(flows: int, **parameters: int) -> dict[str, Any]:
    """Returns keys with which flows of RL-CC, Swift or DCQCN begin at their share; `parameters` adds more of nic.parameters.

    They are for measurements at rest: starting many flows at line rate would flood the network for most of a run.
    """
    return {"nic.parameters": {"rate_initial": max(nics.LEAST_RATE, nics.LINE_RATE // flows), **parameters}}


def spec(row: Row, options: StudyOptions, seed: int) -> Spec:
    """Returns the spec of one run; the command's overrides have priority."""
    length, scale = _length(row, options), _scale(options)
    values = {
        **scaled.keys(_network(row, options), row.workload, length, scale),
        "controller.name": row.controller,
        "nic.trace": "off",
        "metrics.slowdown": "off",
        **scaled.scaled(SETTINGS.get(row.controller, {}), scale),
        **scaled.scaled(row.values, scale),
        "ground": options.ground,
        "seed": seed,
    }
    keys = specs.not_given(values, options.overrides)
    return specs.vary({"name": row.name}, Path.cwd(), "reproduce", options.overrides, keys, "reproduce")


def spec_among(row: Row, rows: Sequence[Row], options: StudyOptions, seed: int) -> Spec:
    """Returns the spec of one run of a figure with these rows.

    If only some of them share a buffer, the command's keys of buffers apply to the rows that have such buffers.
    """
    if all(each.shares == row.shares for each in rows):
        return spec(row, options, seed)
    others = OF_PORTS if row.shares else OF_SHARED
    own = tuple(each for each in options.overrides if each.partition("=")[0].strip() not in others)
    return spec(row, replace(options, overrides=own), seed)


def _network(row: Row, options: StudyOptions) -> ScaledNetwork:
    return row.full_network if options.full and row.full_network else row.network


def _scale(options: StudyOptions) -> int:
    return 1 if options.full else scaled.SCALE


def _length(row: Row, options: StudyOptions) -> RunLength:
    """Returns the length at 100 Gbit/s. A duration that the command gives is the scaled one."""
    if not options.duration:
        return row.full if options.full else row.length
    duration_ns = parse_time_ns(options.duration, "--duration") // _scale(options)
    return RunLength(duration_ns, duration_ns // WARMUP_PART)


def folder(name: str, options: StudyOptions) -> Path:
    """Returns the folder of a figure's runs. Full runs and host runs have their own."""
    return options.out / (name + ("-full" if options.full else "") + ("-host" if options.ground == "host" else ""))


def run(
    name: str,
    rows: Sequence[Row],
    options: StudyOptions,
    progress: Progress,
    more: Measure = lambda result: {},
    track: Callable[[Result], Track] | None = None,
) -> Evidence:
    """Runs all rows that are missing and returns the evidence."""
    if len({row.name for row in rows}) < len(rows):
        raise ValueError(f"{name}: two rows have the same name")
    place = folder(name, options)
    with machine_errors("make", place):
        place.mkdir(parents=True, exist_ok=True)
    seeds = range(1, (options.seeds or SEEDS) + 1)
    points = {
        (row.name, seed): Point(
            f"{_slug(row.name)}-s{seed}", {"row": row.name, "seed": seed}, spec_among(row, rows, options, seed)
        )
        for row in rows
        for seed in seeds
    }
    found = runs.run_all(name, ("row", "seed"), list(points.values()), place, options, progress)
    progress.phase("measuring")
    made = {row.name: _contender(row, {seed: found[points[row.name, seed].name] for seed in seeds}, more, track) for row in rows}
    return Evidence(made, shortfall=shortfall(rows, options))


def shortfall(rows: Sequence[Row], options: StudyOptions) -> Shortfall:
    """Returns what the command made shorter than the rows' own length."""
    own = {row.name: row.full if options.full else row.length for row in rows}
    shorter = [row for row in rows if _length(row, options).duration_ns < own[row.name].duration_ns]
    runs = ""
    if shorter:
        row = shorter[0]
        asked, usual = (format_time(each.duration_ns) for each in (_length(row, options), own[row.name]))
        runs = f"runs of {asked} at 100 Gbit/s instead of {usual}"
    return Shortfall(runs=runs, seeds=fewer("seed", options.seeds or SEEDS, SEEDS))


def _slug(name: str) -> str:
    return "-".join("".join(letter if letter.isalnum() or letter == "." else " " for letter in name).split())


def _contender(row: Row, results: Mapping[int, Result], more: Measure, track: Callable[[Result], Track] | None) -> VariantEvidence:
    by_seed = {seed: numbers(result, row.lines) | more(result) for seed, result in results.items()}
    names = list(dict.fromkeys(name for each in by_seed.values() for name in each))
    known = styles.find(row.controller)
    return VariantEvidence(
        row.name,
        row.name,
        row.color or (known.color if known else "#555555"),
        {name: {seed: each[name] for seed, each in by_seed.items() if np.isfinite(each.get(name, np.nan))} for name in names},
        over_time={seed: track(result) for seed, result in results.items()} if track else {},
        paper=row.paper,
    )


def numbers(result: Result, lines: int = 1) -> dict[str, float]:
    """Returns the quantities of one run in its metrics' window, scaled back to 100 Gbit/s."""
    made = Experiment.of(without_code(result.manifest["spec"], result.path))
    summary, scale = result.summary, made.spec.topology.scale or 1
    flows, window_s = int(summary["flows"]), (made.spec.time.duration_ns - made.spec.time.warmup_ns) / 1e9
    last = result.records("queues")[-len(result.ports) :]
    return {
        GOODPUT.name: float(summary["goodput_bps"]) * scale / LINE_BPS / (lines or len(made.graph.hosts)),
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
    } | _round_trips(result, made, scale)


def _round_trips(result: Result, made: Experiment, scale: int) -> dict[str, float]:
    """Returns latency and inflation: the means over flows of each flow's mean round trip over time.

    A flow's round trip is its idle path plus the mean waiting times at all ports, there and back. A mean over probes would count
    short round trips more often than long ones.
    """
    ports = result.derived("port_metrics")
    assert ports is not None
    waits = dict(zip(ports["port"].to_pylist(), ports["mean_delay_s"].to_numpy(), strict=True))
    flows = made.schedule.flows
    base_s = np.array(nics.base_rtts_ns(made.schedule, made.graph, made.router, made.spec)) / 1e9
    waited = [sum(waits[port] for port in (*flow.ports, *nics.way_back(flow, made.graph, made.router))) for flow in flows]
    rtt_s = base_s + np.array(waited)
    return {LATENCY.name: float(rtt_s.mean()) / scale, INFLATION.name: float((rtt_s / base_s).mean())}


def _fairness(result: Result) -> float:
    table = result.derived("flow_metrics")
    assert table is not None
    rates = table["goodput_bps"].to_numpy()
    return float(rates.min() / rates.max()) if len(rates) and rates.max() > 0 else float("nan")


def findings(
    title: str,
    rows: Sequence[Row],
    options: StudyOptions,
    evidence: Evidence,
    columns: Sequence[Measure],
    claims: Sequence[Claim],
    figure: Figure,
    notes: Sequence[str] = (),
) -> Findings:
    variants = list(evidence.variants.values())
    return Findings(title, facts(rows, options), variants, columns, [judge(each, evidence) for each in claims], figure, notes)


def facts(rows: Sequence[Row], options: StudyOptions) -> list[tuple[str, str]]:
    """Describes how the figure was run."""
    networks = dict.fromkeys(
        f"{each.title}, 100 Gbit/s, {each.topology.get('delay', '1250ns')} a link"
        for each in (_network(row, options) for row in rows)
    )
    lengths = dict.fromkeys(
        f"{format_time(each.duration_ns)}, from {format_time(each.warmup_ns)} on"
        for each in (_length(row, options) for row in rows)
    )
    scale = _scale(options)
    slowed = f"slowed down by {scale}: BDP, buffers and thresholds keep their packets, all numbers here are scaled back"
    return [
        ("Network", "; ".join(networks) + ", 5 MB a port"),
        *_shared_buffer(rows, options),
        *((variant, ABOUT[variant]) for variant in dict.fromkeys(row.variant for row in rows) if variant in ABOUT),
        *([("Patience", PATIENCE)] if any(row.controller in PATIENT for row in rows) else []),
        ("Scale", slowed if scale > 1 else "none: as in the paper"),
        ("Traffic", "; ".join(dict.fromkeys(TRAFFIC.get(row.workload["kind"], CONTINUOUS) for row in rows))),
        ("Measured", f"{options.seeds or SEEDS} seeds; {'; '.join(lengths)}; the same traffic for all"),
        ("Ground", f"{options.ground}, {'real' if options.ground == 'host' else 'virtual'} time"),
        *shortfall(rows, options).facts(),
    ]


def _shared_buffer(rows: Sequence[Row], options: StudyOptions) -> list[tuple[str, str]]:
    """Returns the fact about the rows with a shared buffer, with the values that the command gives; none without such rows."""
    row = next((row for row in rows if row.shares), None)
    if row is None:
        return []
    made = spec_among(row, rows, options, 1).topology
    size = format_size(made.shared_buffer_bytes or 0)
    return [("Shared buffer", f"{size} a switch, alpha {made.alpha or 1:g}, in rows so named; {SHARED_SOURCE}")]
