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

    host: str = key(TEXT)
    command: str = key(TEXT)
    start_ns: int = key(TIME, 0, name="start", low=0)
    stop_ns: int | None = key(TIME, name="stop", low=1)

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
    """`[workload]`. None means no limit, or the default."""

    kind: str = key(TEXT, names=lambda: workloads.KINDS)
    size_bytes: int | None = key(SIZE, name="size", low=1)
    rate_bps: int | None = key(RATE, name="rate", low=1)
    start_ns: int = key(TIME, 0, name="start", low=0)
    stop_ns: int | None = key(TIME, name="stop", low=1)
    jitter_ns: int = key(TIME, 0, name="jitter", low=0)
    transport: str = key(TEXT, "tcp", names=lambda: TRANSPORTS)
    gaps: str = key(TEXT, "exact", names=lambda: GAPS)
    file: Path | None = key(PATH)
    pattern: str | None = key(TEXT)
    broken: str | None = key(TEXT, names=lambda: BROKEN)
    ends: str | None = key(TEXT, names=lambda: ENDS)
    senders: int | None = key(COUNT, low=1)
    flows: int | None = key(COUNT, low=1)
    stride: int | None = key(COUNT, low=1)
    p_edge: float | None = key(NUMBER, low=0, high=1)
    p_pod: float | None = key(NUMBER, low=0, high=1)
    rounds: int | None = key(COUNT, low=1)
    interval_ns: int | None = key(TIME, name="interval", low=0)
    intervals: str | None = key(TEXT, names=lambda: PATTERNS)
    last_start_ns: int | None = key(TIME, name="last_start", low=1)
    request_bytes: int | None = key(SIZE, name="request", low=1)
    long: int | None = key(COUNT, low=1)
    short: int | None = key(COUNT, low=1)
    short_start_ns: int | None = key(TIME, name="short_start", low=0)
    on_ns: int | None = key(TIME, name="on", low=1)
    off_ns: int | None = key(TIME, name="off", low=1)
    distribution: str | None = key(TEXT, names=sizes.names)
    distribution_file: Path | None = key(PATH)
    load: float | None = key(NUMBER, low=0, high=1)
    load_counts: str | None = key(TEXT, names=lambda: LOAD_COUNTS)
    load_of: str | None = key(TEXT, names=lambda: LOAD_OF)
    truncate_bytes: int | None = key(SIZE, name="truncate", low=1)
    size_scale: float | None = key(NUMBER, low=0)
    outstanding: int | None = key(COUNT, low=1)
    mix: str | None = key(TEXT, names=lambda: MIXES)
    storage: int | None = key(COUNT, low=1)
    replicas: int | None = key(COUNT, low=0)
    compute_ns: int | None = key(TIME, name="compute", low=0)
    largest_bytes: int | None = key(SIZE, name="largest", low=1)
    schedule: str | None = key(TEXT, names=lambda: SCHEDULES)
    exec: tuple[ExecSpec, ...] | None = key(_EXECS)

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
