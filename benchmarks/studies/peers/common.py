# SPDX-License-Identifier: Apache-2.0
"""The lab beside a peer whose results are stored: the measures of a case, and a study of all cases of a peer.

Each case is run with several gaps between the flows' starts, and medians over gaps are compared: single runs differ by how
packets meet, so that one gap in seven may give four times the queue. The table has all gaps; the page has the medians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.errors import ProtocolError
from dc_gym.benchmarks.peers import cases
from dc_gym.benchmarks.peers.cases import BASE, OURS, SIMULATORS, PeerCase, PeerRow, Progress
from dc_gym.results.figures.kit import FLOW_COLORS
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, Variant, VariantEvidence, VariantLine, series
from dc_gym.study.claims import bounded, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 5)
SHARE = Measure("utilization", "share of the line", digits=4)
FAIRNESS = Measure("jain", "Jain's index", digits=4)
CONVERGED = Measure("converged_s", "convergence (us)", 1e6, 4)
PAUSES = Measure("pauses", "PAUSE frames")
MEASURES = (QUEUE, SHARE, FAIRNESS, CONVERGED, PAUSES)
JUDGED = (QUEUE, SHARE, FAIRNESS)
Rows = Mapping[PeerCase, PeerRow]


def study(peer: str, within: Mapping[str, float], judged: Sequence[Measure] = JUDGED, unjudged: Sequence[str] = ()) -> Study:
    """Returns the study of a peer.

    Args:
        peer: name of the peer.
        within: by algorithm, the largest difference of the medians, as a share of the peer's.
        judged: the measures to which that applies.
        unjudged: names of the groups to which it does not.
    """
    rows, simulator = cases.stored(peer), SIMULATORS[peer]
    groups: dict[str, dict[PeerCase, PeerRow]] = {}
    for case, row in rows.items():
        groups.setdefault(case.group, {})[case] = row
    algorithms = {case.group: case.algorithm for case in rows}
    bounds = {group: within[algo] for group, algo in algorithms.items() if algo in within and group not in unjudged}
    return Study(
        title=f"The lab beside {simulator['title']}",
        source=f"{simulator['title']}, {simulator['commit'][:7]}",
        base=BASE,
        variants=[Variant(case.name, cases.keys(case), given={"case": case}) for case in rows],
        files={case.file: case.flow_list() for case in rows},
        measures=MEASURES,
        measure=measure,
        derive=lambda evidence: medians(evidence, groups),
        claims=[
            Claim(
                f"{group}: {', '.join(column.title.partition(' (')[0] for column in judged)} within {most:.0%} of the peer's",
                f"ours: {simulator['title']}, and a bound of ours",
                tuple(near(group, column, most) for column in judged),
            )
            for group, most in bounds.items()
        ],
        draw=lambda evidence: _figure(evidence, list(dict.fromkeys(rows)), f"The lab beside {simulator['title']} (hollow)"),
        facts=[
            ("Peer", f"{simulator['repository']}, {simulator['commit']}; built as: {simulator['build']}"),
            ("Peer's rows", "benchmarks/peers/stored.tsv; docs/peers.md says how they are made anew"),
            ("Values", "medians over the gaps between starts, here and there; convergence: only if every second gap has it"),
        ],
        seeds=1,
        runs="runs",
    )


def measure(result: Result, case: PeerCase) -> dict[str, float]:
    """Returns the measures of the lab's run of a case."""
    ports = result.derived("port_metrics")
    if ports is None:
        raise ProtocolError(f"{result.path}: it has no table of ports")
    shared = cases.shared_ports(case.flows, ((port["name"], port["peer"]) for port in result.ports))
    mask = np.isin(ports["port"].to_pylist(), shared)
    return {
        QUEUE.name: float(np.asarray(ports["mean_queue_bytes"], np.float64)[mask].mean()),
        SHARE.name: carried(case, result, shared),
        FAIRNESS.name: float(result.summary["jain"] or 0),
        CONVERGED.name: cases.converged_us(delivered(result, case.flows), case) / 1e6,
        PAUSES.name: number(result.summary.get("pauses") or 0),
    }


def carried(case: PeerCase, result: Result, shared: Sequence[str]) -> float:
    """Returns the mean share of the shared ports' lines that data took, from the ports' counters.

    Packets of data have one size and ACKs another, so bytes and packets give the number of each that left. CNPs and probes are as
    small as ACKs, and count as these.
    """
    names, setup, queues = [port["name"] for port in result.ports], OURS[case.algorithm], result.records("queues")
    window_ns = np.array([case.from_us, case.until_us]) * 1000
    shares = []
    for port in shared:
        rows = queues[queues["port"] == names.index(port)]
        size, count = (float(np.diff(np.interp(window_ns, rows["t_ns"], rows[field]))[0]) for field in ("tx_bytes", "tx_packets"))
        data = (size - setup.header_bytes * count) / setup.payload_bytes
        shares.append(data * setup.frame_bytes * 8 / (case.rate_gbps * float(np.diff(window_ns)[0])))
    return float(np.mean(shares))


def delivered(result: Result, flows: int) -> Progress:
    """Returns the flows' acknowledged bytes over time."""
    records = result.records("tcp")
    times = np.unique(np.asarray(records["t_ns"], np.int64))
    at = np.zeros((len(times), flows))
    at[np.searchsorted(times, records["t_ns"]), np.asarray(records["flow"], np.int64)] = records["bytes_acked"]
    return times, np.maximum.accumulate(at, axis=0)


def medians(evidence: Evidence, groups: Mapping[str, Rows]) -> Evidence:
    """Returns the medians over gaps of the groups of which all gaps have run, with the peer's."""
    variants = {}
    for name, rows in groups.items():
        runs = [evidence.variants[case.name] for case in rows if case.name in evidence.variants]
        if len(runs) == len(rows):
            values = {column.name: _medians([one.numbers.get(column.name, {}) for one in runs]) for column in MEASURES}
            variants[name] = VariantEvidence(name, name, "#555555", values, paper=printed(rows))
    return replace(evidence, variants=variants)


def _medians(runs: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Returns the median of runs, by seed. A run without a value, such as one that did not converge, counts as infinite."""
    by_seed = {seed: median(run.get(seed, inf) for run in runs) for seed in {seed for run in runs for seed in run}}
    return {seed: value for seed, value in by_seed.items() if isfinite(value)}


def printed(rows: Rows) -> dict[str, float]:
    """Returns the medians of a peer's results. It has pauses only where there is PFC."""
    pauses = all("topology.pfc" in OURS[case.algorithm].keys for case in rows)
    values = {column.name: median(getattr(row, column.name) for row in rows.values()) for column in (*JUDGED, *[PAUSES] * pauses)}
    values[CONVERGED.name] = median(row.converged_us for row in rows.values()) / 1e6
    return {name: value for name, value in values.items() if isfinite(value)}


def near(group: str, measure: Measure, within: float) -> Criterion:
    """Returns the criterion that the lab's median is the peer's, within a share of it."""

    def judge(evidence: Evidence) -> Outcome:
        there, values = evidence.variants[group].paper[measure.name], list(evidence.values(group, measure.name).values())
        here = median(values) if values else inf
        words = f"{plain(here, measure)} here, {plain(there, measure)} there: {here / there - 1:+.1%}"
        return bounded(abs(here / there - 1) <= within if values else None, words if values else "no value", sure=True)

    return Criterion(f"{measure.title} within {within:.0%}", (group,), judge, (measure.name,))


def _figure(evidence: Evidence, rows: Sequence[PeerCase], title: str) -> Figure:
    lines = []
    for algorithm, color in zip(dict.fromkeys(case.algorithm for case in rows), FLOW_COLORS, strict=False):
        for topology, look in (("single", ("o", "-")), ("leafspine", ("s", ""))):
            groups = {float(case.flows): case.group for case in rows if (case.algorithm, case.topology) == (algorithm, topology)}
            label = algorithm if topology == "single" else f"{algorithm}, permutation"
            lines.append(VariantLine(label, color, dict(sorted(groups.items())), *look))
    return series.figure(evidence, lines, JUDGED, "flows", title)
