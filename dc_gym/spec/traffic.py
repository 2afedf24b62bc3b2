# SPDX-License-Identifier: Apache-2.0
"""`[workload]` and `[[workload.exec]]`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from re import sub
from typing import Any

from dc_gym.base.key import COUNT, NUMBER, PATH, RATE, SIZE, TEXT, TIME, KeyFault, check, entries, key, require_given, tables_of
from dc_gym.topologies.graph import Graph
from dc_gym.traffic import sizes, workloads
from dc_gym.traffic.arrivals import LOAD_COUNTS, LOAD_OF
from dc_gym.traffic.collectives import SCHEDULES
from dc_gym.traffic.draws import PATTERNS
from dc_gym.traffic.execs import ExecRequest
from dc_gym.traffic.flows import GAPS, TRANSPORTS
from dc_gym.traffic.iroko import BROKEN
from dc_gym.traffic.patterns import ENDS
from dc_gym.traffic.storage import MIXES
from dc_gym.traffic.workloads import WorkloadParams


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """An entry of `[[workload.exec]]`: a program in a host."""

    host: str = key(TEXT, help="the host in which the program runs")
    command: str = key(TEXT, help="the [program](workloads.md#real-programs) and its arguments")
    start_ns: int = key(TIME, 0, name="start", low=0, help="when it starts, after t0")
    stop_ns: int | None = key(TIME, name="stop", low=1, otherwise="duration", help="when it is stopped")

    def words(self) -> list[str]:
        """Returns the command, split as a shell does it. No shell runs it."""
        return shlex.split(self.command)

    def beside(self, base: Path) -> ExecSpec:
        """Returns the same entry with a relative path of the program taken from a folder."""
        words = self.words()
        if "/" not in words[0] or words[0].startswith("/"):
            return self
        return replace(self, command=shlex.join([str((base / words[0]).absolute()), *words[1:]]))

    def request(self, graph: Graph, duration_ns: int) -> ExecRequest:
        """Returns what the ground runs. {h2} stands for the first address of host h2."""
        addresses = {f"{{{host.name}}}": host.address for host in graph.hosts}
        argv = [sub(r"\{[a-z][a-z0-9]*\}", lambda found: addresses.get(found[0], found[0]), word) for word in self.words()]
        stop_ns = duration_ns if self.stop_ns is None else min(self.stop_ns, duration_ns)
        return ExecRequest(self.host, tuple(argv), self.start_ns, stop_ns)


def _exec_specs(tables: list[Any]) -> tuple[ExecSpec, ...]:
    """Returns the entries of [[workload.exec]]."""
    specs = []
    needed = dict.fromkeys(("host", "command"), "give a host and a command")
    for section, spec in entries(tables, "workload.exec", ExecSpec, needed):
        _check_command(spec, f"{section}.command")
        if spec.stop_ns is not None and spec.stop_ns <= spec.start_ns:
            raise KeyFault(f"{section}.stop", spec.stop_ns, "is not after its start; give a later time")
        specs.append(spec)
    return tuple(specs)


def _check_command(spec: ExecSpec, key: str) -> None:
    try:
        words = spec.words()
    except ValueError as error:
        raise KeyFault(key, spec.command, f"cannot be split into words: {error}; close every quote") from None
    if not words:
        raise KeyFault(key, spec.command, "names no program; give one and its arguments")


_EXECS = tables_of("workload.exec", ExecSpec, _exec_specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """`[workload]`: the traffic.

    None means no limit, or the default.
    """

    kind: str = key(
        TEXT,
        names=lambda: workloads.KINDS,
        help="who sends to whom, and when: one of [the kinds](workloads.md#kinds), which also name the keys below that "
        "each reads",
    )
    size_bytes: int | None = key(SIZE, name="size", low=1, otherwise="no limit", help="payload of each flow")
    rate_bps: int | None = key(
        RATE, name="rate", low=1, otherwise="no limit", help="payload rate that the application of each flow offers"
    )
    start_ns: int = key(TIME, 0, name="start", low=0, help="first start after t0; shifts the whole pattern")
    stop_ns: int | None = key(
        TIME,
        name="stop",
        low=1,
        otherwise="duration",
        help="stop time of flows that set none; a flow with a size ends earlier when it is done",
    )
    jitter_ns: int = key(
        TIME, 0, name="jitter", low=0, help="delays the start of each flow by a uniform draw from [0, jitter), by seed"
    )
    transport: str = key(
        TEXT,
        "tcp",
        names=lambda: TRANSPORTS,
        help="`tcp`, or `udp`: full datagrams at `workload.rate`, which it needs. Under an algorithm of the NICs flows "
        "always use `rdma`, written or not, and `udp` is refused",
    )
    gaps: str = key(
        TEXT,
        "exact",
        names=lambda: GAPS,
        help="gaps between the packets (TCP: writes) of a flow with a rate: `exact`, `uniform` (0 to twice the mean), "
        "`exponential`, by seed",
    )
    file: Path | None = key(PATH, help="`matrix`: path of the [CSV](workloads.md#flow-matrices), relative to the spec")
    pattern: str | None = key(TEXT, help="`iroko`: name of the matrix, such as `stag_prob_0_2_3`")
    broken: str | None = key(
        TEXT,
        names=lambda: BROKEN,
        otherwise='`"fix"`',
        help="`iroko`: rows of `stride8` that name a host which does not exist: `fix`, or `keep` (they send nothing)",
    )
    ends: str | None = key(
        TEXT,
        names=lambda: ENDS,
        otherwise='`"many_to_one"`',
        help="destinations for kinds that leave them open: `many_to_one` (the last host) or `pairs`; with more flows than "
        "hosts, hosts take turns",
    )
    senders: int | None = key(
        COUNT, low=1, otherwise="kind", help="number of hosts (or simultaneous flows) that send, work, or answer"
    )
    flows: int | None = key(
        COUNT,
        low=1,
        otherwise="1",
        help="number of flows: in all (`many_to_one`, default one per sender), destinations per host (`random`), flows to "
        "each other host (`all_to_all`), flows that join (`joins`)",
    )
    stride: int | None = key(COUNT, low=1, help="`stride`: host x sends to host x + stride")
    p_edge: float | None = key(
        NUMBER, low=0, high=1, help="`staggered`: probability that the destination is on the sender's edge switch"
    )
    p_pod: float | None = key(
        NUMBER, low=0, high=1, help="`staggered`: probability that the destination is elsewhere in the sender's pod"
    )
    rounds: int | None = key(COUNT, low=1, otherwise="endless", help="number of rounds, repetitions or iterations")
    interval_ns: int | None = key(
        TIME,
        name="interval",
        low=0,
        otherwise="kind",
        help="time from the end of a flow or round to the next, between queries, or between joins",
    )
    intervals: str | None = key(
        TEXT,
        names=lambda: PATTERNS,
        otherwise="kind",
        help="distribution of the intervals (`on_off`: of on and off times): `exact`, `uniform` (0 to twice the mean) or "
        "`exponential`, by seed",
    )
    last_start_ns: int | None = key(
        TIME,
        name="last_start",
        low=1,
        otherwise="duration",
        help="open loops: no flow starts from this time on, so that flows under way can end",
    )
    request_bytes: int | None = key(
        SIZE, name="request", low=1, otherwise='`"1.6kB"`', help="`partition_aggregate`: size of a query's request"
    )
    long: int | None = key(COUNT, low=1, otherwise="1", help="`long_short`: number of long flows")
    short: int | None = key(COUNT, low=1, help="`long_short`: number of short flows")
    short_start_ns: int | None = key(
        TIME, name="short_start", low=0, otherwise="by seed", help="`long_short`: start time of the short flows"
    )
    on_ns: int | None = key(TIME, name="on", low=1, help="`on_off`: how long a sender sends")
    off_ns: int | None = key(TIME, name="off", low=1, help="`on_off`: how long a sender pauses")
    distribution: str | None = key(
        TEXT, names=sizes.names, help="flow sizes: one of [the distributions](workloads.md#flow-sizes)"
    )
    distribution_file: Path | None = key(
        PATH, help="your own file of flow sizes, relative to the spec, in place of `distribution`"
    )
    load: float | None = key(NUMBER, low=0, high=1, help="`poisson`: offered load as a share of the rate, above 0")
    load_counts: str | None = key(
        TEXT,
        names=lambda: LOAD_COUNTS,
        otherwise='`"payload"`',
        help="bytes that the load counts: `payload`, or frames on the `wire`",
    )
    load_of: str | None = key(
        TEXT,
        names=lambda: LOAD_OF,
        otherwise='`"host"`',
        help="rate that the load refers to: each `host`'s link, or the links above its edge switch (`bisection`)",
    )
    truncate_bytes: int | None = key(
        SIZE, name="truncate", low=1, otherwise="no limit", help="maximum flow size; larger sizes become this one"
    )
    size_scale: float | None = key(NUMBER, low=0, otherwise="1", help="factor on all sizes, applied before truncation")
    outstanding: int | None = key(COUNT, low=1, otherwise="1", help="flows (operations) that a host keeps under way")
    mix: str | None = key(TEXT, names=lambda: MIXES, help="`storage`: one of [ACC's mixes](workloads.md#training-and-storage)")
    storage: int | None = key(COUNT, low=1, otherwise="a quarter", help="`storage`: number of storage hosts")
    replicas: int | None = key(COUNT, low=0, otherwise="0", help="`storage`: copies of each write on other storage hosts")
    compute_ns: int | None = key(
        TIME, name="compute", low=0, otherwise='`"0ns"`', help="training: pause of a worker before its next iteration"
    )
    largest_bytes: int | None = key(
        SIZE,
        name="largest",
        low=1,
        otherwise="`size`",
        help="`alltoall`: largest message size; sizes double from `size` up to it, each for `rounds` iterations",
    )
    schedule: str | None = key(
        TEXT,
        names=lambda: SCHEDULES,
        otherwise='`"auto"`',
        help="`alltoall`: `linear`, `pairwise`, `bruck`, or what Open MPI chooses (`auto`)",
    )
    exec: tuple[ExecSpec, ...] | None = key(_EXECS, otherwise="none", help="[real programs in hosts](workloads.md#real-programs)")

    def __post_init__(self) -> None:
        require_given(self, "workload.", "kind")
        check(self, "workload.")
        if self.kind == "matrix" and self.file is None:
            raise KeyFault("workload.file", None, 'is missing; kind "matrix" needs the path of a CSV file')
        for name, value in (("load", self.load), ("size_scale", self.size_scale)):
            if value == 0:
                raise KeyFault(f"workload.{name}", value, "is not above 0; give more")
        if self.stop_ns is not None and self.stop_ns <= self.start_ns:
            raise KeyFault("workload.stop", self.stop_ns, "is not after workload.start; give a later time")
        if self.transport == "udp" and self.rate_bps is None and self.kind not in ("matrix", "iroko"):
            raise KeyFault("workload.rate", None, 'is missing; transport "udp" sends at a rate such as "10Mbit/s"')
        if self.gaps != "exact" and self.rate_bps is None:
            raise KeyFault("workload.gaps", self.gaps, "means nothing without workload.rate; give one")

    def params(self) -> WorkloadParams:
        """Returns the keys in the form that workloads use."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "exec"}
        return WorkloadParams(**(given | {"size_bytes": self.size_bytes or 0, "rate_bps": self.rate_bps or 0}))
