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

from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.figures import styles
from dc_gym.grounds import nics
from dc_gym.grounds.experiment import Experiment
from dc_gym.records.results import Result, number
from dc_gym.spec import without_code
from dc_gym.study import scaled
from dc_gym.study.claims import Claim
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.model import Facts, Study, StudyOptions, Variant
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, LINKS, MS, RunLength, ScaledNetwork

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
"""The command's keys that apply to variants with a shared buffer only, or to the others only, where a study has both."""

OWN, SHARED, WINDOW, PCC, NO_PATIENCE, LARGE = "", "shared buffer", "window", "PCC", "patience 0", "500 kB"
HELD = "held"
NO_CONTROL = "no control"
UNCONTROLLED = {NO_CONTROL: "fixed"}
"""The contestant without an algorithm, whose flows send at line rate always."""
FULL_QUEUE, TIMEOUTS = "full queue", "16.8 ms"
FIRMWARE, SLOW, SPREAD, PERMUTATION, TORS = "firmware", "slow start", "spread starts", "permutation", "8 x 8"
ITERATIONS = "20 iterations"
"""The set-ups: "" is that of all other rows. The name of a set-up stands behind its contestant's."""
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
"""Keys of a set-up's rows."""
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
"""Descriptions of set-ups, on the pages of studies that have them."""

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


def name(who: str, flows: int) -> str:
    """Returns the name of a variant, from a contestant and its number of flows."""
    return f"{who}, {flows} flows"


def variant(
    name: str,
    controller: str,
    network: ScaledNetwork,
    workload: Mapping[str, Any],
    *,
    length: RunLength = DEFAULT,
    full: RunLength = CLUSTER,
    keys: Mapping[str, Any] | None = None,
    lines: int = 1,
    color: str = "",
    **told: Any,
) -> Variant:
    """Returns one controller on one network with one traffic.

    Args:
        name: its name.
        controller: its controller.
        network: its network.
        workload: keys of [workload].
        length: the length of a run.
        full: that with `--length full`.
        keys: more dotted keys of the spec.
        lines: number of receivers' lines by which the goodput is divided. 0: every host receives.
        color: color in figures; empty: the controller's.
        told: other arguments of `scaled.variant`.
    """
    own = {"nic.trace": "off", **SETTINGS.get(controller, {}), **(keys or {})}
    known = styles.find(controller)
    told |= {"color": color or (known.color if known else "#555555"), "given": {"lines": lines} if lines != 1 else {}}
    return scaled.variant(name, controller, network, workload, length, full, own, **told)


def many_to_one(name: str, controller: str, network: ScaledNetwork, flows: int, **more: Any) -> Variant:
    """Returns a variant with continuous WRITEs of 64 kB by `flows` flows, which are spread over all senders."""
    workload = {"kind": "many_to_one", "flows": flows, "senders": min(flows, network.senders), "jitter": JITTER_NS}
    return variant(name, controller, network, workload, **more)


def of_setup(who: str, setup: str) -> str:
    """Returns the name of a contestant in the rows of a set-up."""
    return f"{who}, {setup}" if setup else who


def with_setups(setups: Iterable[str], make: Callable[[str], Iterable[Claim]]) -> tuple[Claim, ...]:
    """Returns the claims of a study, and behind them those of each set-up, which are counted apart.

    `make(setup)` returns the same claims for any set-up. Of a set-up only those remain that are about its rows.
    """
    own = tuple(make(OWN))
    found = list(own)
    for setup in setups:
        pairs = zip(make(setup), own, strict=True)
        found += [replace(claim, setup=setup) for claim, plain in pairs if _about(claim) != _about(plain)]
    return tuple(found)


def _about(claim: Claim) -> list[str]:
    return [name for each in claim.criteria for name in each.about]


def keys_of(controller: str, setup: str) -> dict[str, Any]:
    """Returns the keys of a contestant's rows in RL-CC's figures: those of the set-up, and Swift's form."""
    own = RATE_ONLY if controller == "swift" and setup != WINDOW else {}
    return {**own, **PRESETS.get(setup, {})}


def sharing(network: ScaledNetwork) -> ScaledNetwork:
    """Returns the network with one shared buffer in each switch instead of a buffer for each port."""
    keys = {key: value for key, value in network.topology.items() if key != "buffer"}
    return replace(network, topology={**keys, **SHARED_BUFFER})


def shares(variant: Variant) -> bool:
    """Returns whether the ports of a variant's switches share a buffer."""
    return "topology.shared_buffer" in variant.values


def apart(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """Returns the variants of a study with both kinds of buffers, each of which the command changes on its own."""
    return tuple(replace(each, fixed=OF_PORTS if shares(each) else OF_SHARED) for each in variants)


def at_share(flows: int, **parameters: int) -> dict[str, Any]:
    """Returns keys with which flows of RL-CC, Swift or DCQCN begin at their share; `parameters` adds more of nic.parameters.

    They are for measurements at rest: starting many flows at line rate would flood the network for most of a run.
    """
    return {"nic.parameters": {"rate_initial": max(nics.LEAST_RATE, nics.LINE_RATE // flows), **parameters}}


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


def study(
    title: str,
    source: str,
    variants: Sequence[Variant],
    measures: Sequence[Measure],
    claims: Sequence[Claim],
    draw: Callable[[Evidence], Figure],
    *,
    networks: Sequence[ScaledNetwork],
    full_networks: Sequence[ScaledNetwork] = (),
    setups: Iterable[str] = (),
    more: Callable[[Result], dict[str, float]] | None = None,
    **told: Any,
) -> Study:
    """Returns a study that measures what its table has, and says how it was run.

    Args:
        title: its title.
        source: the source's figure or table.
        variants: its variants.
        measures: the columns of its table.
        claims: its claims.
        draw: draws its figure.
        networks: the networks of its variants.
        full_networks: those with `--length full`; empty: the same.
        setups: the set-ups that its page describes.
        more: measures what `numbers` does not.
        told: other fields of the study.
    """

    def facts(options: StudyOptions) -> Facts:
        chosen = (full_networks or networks) if options.full else networks
        return [("Network", "; ".join(dict.fromkeys(map(_told, chosen))) + ", 5 MB a port"), *_facts(variants, setups, options)]

    measure = measuring(measures, more)
    return Study(title, measures, variants, source=source, measure=measure, claims=claims, draw=draw, facts=facts, **told)


def measuring(
    columns: Sequence[Measure], more: Callable[[Result], dict[str, float]] | None = None
) -> Callable[..., dict[str, float]]:
    """Returns a function that measures the columns of a result, by `numbers` and by `more`."""
    names = [each.name for each in columns]

    def measure(result: Result, lines: int = 1) -> dict[str, float]:
        found = numbers(result, lines) | (more(result) if more else {})
        return {name: found[name] for name in names if name in found}

    return measure


def _told(network: ScaledNetwork) -> str:
    return f"{network.title}, 100 Gbit/s, {network.topology.get('delay', LINKS['delay'])} a link"


def _facts(variants: Sequence[Variant], setups: Iterable[str], options: StudyOptions) -> Facts:
    scale = 1 if options.full else scaled.SCALE
    keys = [each.keys(options.full) for each in variants if options.all_cases or not each.extra]
    kinds = dict.fromkeys(TRAFFIC.get(each["workload.kind"], CONTINUOUS) for each in keys)
    times = [[parse_time_ns(each[f"time.{key}"]) // scale for key in ("duration", "warmup")] for each in keys]
    lengths = dict.fromkeys(f"{format_time(duration)}, from {format_time(warmup)} on" for duration, warmup in times)
    shared = "{shared_buffer} a switch, alpha {alpha}, in rows so named; ".format(**SHARED_BUFFER) + SHARED_SOURCE
    slowed = f"slowed down by {scale}: BDP, buffers and thresholds keep their packets, all numbers here are scaled back"
    return [
        *([("Shared buffer", shared)] if any(map(shares, variants)) else []),
        *((setup, ABOUT[setup]) for setup in setups if setup in ABOUT),
        *([("Patience", PATIENCE)] if any(each["controller.name"] in PATIENT for each in keys) else []),
        ("Scale", slowed if scale > 1 else "none: as in the paper"),
        ("Traffic", "; ".join(kinds)),
        ("Measured", "; ".join(lengths)),
    ]
