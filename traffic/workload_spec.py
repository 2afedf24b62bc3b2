# SPDX-License-Identifier: Apache-2.0
"""`[workload]`, `[[workload.beside]]` and `[[workload.exec]]`: the traffic."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from re import findall, sub
from string import digits
from typing import Any, ClassVar, Self

from dc_gym.base.errors import WorkloadError
from dc_gym.base.key import (
    COUNT,
    RATE,
    SIZE,
    TEXT,
    TIME,
    Get,
    KeyFault,
    check,
    entries,
    key,
    own_keys,
    require_given,
    section_of,
    tables_of,
    values_of,
)
from dc_gym.base.registry import Registry
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.draws import STARTS
from dc_gym.traffic.execs import ExecRequest
from dc_gym.traffic.flows import GAPS, LARGEST_DSCP, TRANSPORTS

PLACEHOLDER = r"\{[A-Za-z][A-Za-z0-9]*\}"
KINDS = Registry("workload.kind", WorkloadError, ("context",), shared=("size",))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """An entry of `[[workload.exec]]`: a program in a host."""

    host: str = key(TEXT, help="the host in which the program runs")
    command: str = key(TEXT, help="the [program](workloads.md#real-programs) and its arguments")
    start_ns: int = key(TIME, 0, low=0, help="when it starts, after t0")
    stop_ns: int | None = key(TIME, low=1, otherwise="duration", help="when it is stopped")

    def words(self) -> list[str]:
        """Returns the command, split as a shell does it. No shell runs it."""
        return shlex.split(self.command)

    def beside(self, base: Path) -> ExecSpec:
        """Returns the same entry with a relative path of the program taken from a folder."""
        words = self.words()
        if "/" not in words[0] or words[0].startswith("/"):
            return self
        return replace(self, command=shlex.join([str((base / words[0]).absolute()), *words[1:]]))

    def stranger(self, graph: Graph) -> str | None:
        """Returns a name in braces that is meant for a host and is none: a switch's, or a host's with another number."""
        hosts = {host.name for host in graph.hosts}
        meant = {name.rstrip(digits) for name in hosts if name[-1] in digits}
        switches = {switch.name for switch in graph.switches}
        for word in findall(PLACEHOLDER, self.command):
            name: str = word[1:-1]
            if name in switches or (name not in hosts and name[-1] in digits and name.rstrip(digits) in meant):
                return name
        return None

    def request(self, graph: Graph, duration_ns: int) -> ExecRequest:
        """Returns the command that the ground runs. {h2} stands for the first address of host h2."""
        addresses = {f"{{{host.name}}}": host.address for host in graph.hosts}
        argv = [sub(PLACEHOLDER, lambda match: addresses.get(match[0], match[0]), word) for word in self.words()]
        stop_ns = duration_ns if self.stop_ns is None else min(self.stop_ns, duration_ns)
        return ExecRequest(self.host, tuple(argv), self.start_ns, stop_ns)


EXEC_NEEDS = ("host", "command")


def _exec_specs(tables: list[Any]) -> tuple[ExecSpec, ...]:
    """Returns the entries of [[workload.exec]]."""
    specs = []
    needed = dict.fromkeys(EXEC_NEEDS, "give a host and a command")
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


EXECS = tables_of("workload.exec", ExecSpec, _exec_specs, EXEC_NEEDS)


def _kind(get: Get) -> tuple[str, ...]:
    kind = get("kind")
    return (kind,) if isinstance(kind, str) and kind in KINDS else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSpec:
    """The keys that `[workload]` and each `[[workload.beside]]` have: one kind, and the properties that its flows share.

    None means no limit, or the default.
    """

    kind: str = key(
        TEXT,
        names=lambda: KINDS,
        help="who sends to whom, and when: one of [the kinds](workloads.md#kinds), which also name the keys below that "
        "each reads",
    )
    size_bytes: int | None = key(SIZE, low=1, otherwise="no limit", help="payload of each flow")
    rate_bps: int | None = key(RATE, low=1, otherwise="no limit", help="payload rate that the application of each flow offers")
    start_ns: int = key(TIME, 0, low=0, help="first start after t0; shifts the whole pattern")
    stop_ns: int | None = key(
        TIME,
        low=1,
        otherwise="duration",
        help="stop time of flows that set none; a flow with a size ends earlier when it is done",
    )
    jitter_ns: int = key(TIME, 0, low=0, help="delays the start of each flow by a draw from [0, jitter), by seed")
    jitter_distribution: str = key(
        TEXT,
        "uniform",
        names=lambda: STARTS,
        help="distribution of `jitter`: `uniform`, or `gaussian`: mean jitter / 2, standard deviation jitter / 6, cut off at its "
        "ends, three standard deviations from the mean (drawn again)",
    )
    transport: str | None = key(
        TEXT,
        names=lambda: TRANSPORTS,
        otherwise="`tcp`; `rdma` with an algorithm of the NICs, `uec` with one that needs it",
        help="[transport](workloads.md#transports) of flows that name none: `tcp`; `udp`: full datagrams at "
        "`workload.rate`, which it needs; or `rdma` or [`uec`](nic.md#spraying), for which `controller.name` is an algorithm of "
        "the NICs. Beside these, `tcp` needs `controller.tcp`",
    )
    dscp: int | None = key(
        COUNT,
        low=0,
        high=LARGEST_DSCP,
        otherwise="0",
        help="[DSCP](workloads.md#classes) in the IP headers of flows that name none, and of all that answers them",
    )
    gaps: str = key(
        TEXT,
        "exact",
        names=lambda: GAPS,
        help="gaps between the packets (TCP: writes) of a flow with a rate: `exact`, `uniform` (0 to twice the mean), "
        "`exponential`, by seed",
    )
    own: tuple[tuple[str, Any], ...] = own_keys(KINDS, _kind)
    """The keys that the kind declares, as the file gives them."""

    def __post_init__(self) -> None:
        require_given(self, "workload.", "kind")
        check(self, "workload.")
        self.arguments()
        if self.stop_ns is not None and self.stop_ns <= self.start_ns:
            raise KeyFault("workload.stop", self.stop_ns, "is not after workload.start; give a later time")
        if self.transport == "udp" and self.rate_bps is None and self.kind not in ("matrix", "iroko"):
            raise KeyFault("workload.rate", None, 'is missing; transport "udp" sends at a rate such as "10Mbit/s"')
        if self.jitter_distribution != "uniform" and not self.jitter_ns:
            value = self.jitter_distribution
            raise KeyFault("workload.jitter_distribution", value, "has no effect without workload.jitter; give one")
        if self.gaps != "exact" and self.rate_bps is None:
            raise KeyFault("workload.gaps", self.gaps, "means nothing without workload.rate; give one")

    @classmethod
    def of(cls, kind: str, **keys: Any) -> Self:
        """Returns the keys, including the keys that the kind declares, by the names of their fields."""
        return section_of(cls, {"kind": kind} | keys)

    def placed(self, base: Path) -> Self:
        """Returns the same keys with the relative paths of files taken from a folder."""
        keys = tuple((name, base / value if isinstance(value, Path) else value) for name, value in self.own)
        return replace(self, own=keys)

    @property
    def pattern(self) -> Callable[..., Any]:
        """The function of the kind."""
        return KINDS[self.kind].call

    @property
    def handles_size(self) -> bool:
        """True if the kind reads workload.size itself; otherwise it is the size of each flow that has none."""
        return "size" in KINDS[self.kind].declared

    def arguments(self) -> tuple[Any, ...]:
        """Returns the kind's keys as the last argument of its function, or nothing if the kind has none."""
        return KINDS[self.kind].arguments(values_of(self), "workload.")


def _beside_specs(tables: list[Any]) -> tuple[TrafficSpec, ...]:
    """Returns the entries of [[workload.beside]]."""
    needed, specs = {"kind": "give one of the kinds of workload"}, []
    for number, table in enumerate(tables):
        section = f"workload.beside[{number}]"
        try:
            specs += [spec for _, spec in entries([table], "workload.beside", TrafficSpec, needed)]
        except KeyFault as fault:
            key = fault.key.removeprefix("workload.beside[0]").removeprefix("workload").removeprefix(".")
            raise type(fault)(f"{section}.{key}" if key else section, fault.value, fault.why) from None
    return tuple(specs)


BESIDES = tables_of("workload.beside", TrafficSpec, _beside_specs, ("kind",))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec(TrafficSpec):
    """`[workload]`: the traffic."""

    INHERITED_FIRST: ClassVar[bool] = True

    exec: tuple[ExecSpec, ...] | None = key(EXECS, otherwise="none", help="[real programs in hosts](workloads.md#real-programs)")
    beside: tuple[TrafficSpec, ...] | None = key(
        BESIDES,
        otherwise="none",
        help="[further workloads](#workloadbeside) that run at the same time, each with its own kind, transport and DSCP",
    )

    @property
    def all(self) -> tuple[TrafficSpec, ...]:
        """The workload, and those beside it, in the order of their numbers."""
        return (self, *(self.beside or ()))


KINDS.belongs_to(WorkloadSpec, TrafficSpec)
