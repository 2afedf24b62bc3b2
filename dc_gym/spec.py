# SPDX-License-Identifier: Apache-2.0
"""The experiment spec (docs/spec.md): one TOML file, read into frozen dataclasses of integers, or one line on what is wrong.

A field of the dataclasses is a key of the file: its metadata say how the key is written, read and bounded, so a new key is
one field here and one row in docs/spec.md. Inside, rates are bit/s, times ns, sizes bytes. Nothing here touches a kernel.
"""

from __future__ import annotations

import copy
import json
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from re import fullmatch, sub
from typing import Any

from dc_gym import controllers, units, usercode
from dc_gym.controllers import Controller
from dc_gym.errors import SpecError, TestbedError
from dc_gym.topologies import amount, marking, presets
from dc_gym.topologies.ecmp import ROUTINGS
from dc_gym.topologies.graph import FASTEST_BPS, LONGEST_DELAY_NS, PPB, PPM, Graph
from dc_gym.topologies.links import LinkParams, LinkRule
from dc_gym.topologies.presets import LARGEST_SCALE, TopologyParams
from dc_gym.traffic import sizes, workloads
from dc_gym.traffic.arrivals import LOAD_COUNTS, LOAD_OF
from dc_gym.traffic.draws import PATTERNS
from dc_gym.traffic.execs import ExecRequest, find_program
from dc_gym.traffic.flows import GAPS, TRANSPORTS, FlowRequest
from dc_gym.traffic.iroko import BROKEN
from dc_gym.traffic.patterns import ENDS
from dc_gym.traffic.storage import MIXES
from dc_gym.traffic.workloads import WorkloadParams

__all__ = [
    "SPEC_VERSION",
    "ControllerSpec",
    "HostSpec",
    "LabSpec",
    "LinkSpec",
    "MetricsSpec",
    "MonitorSpec",
    "Spec",
    "TimeSpec",
    "TopologySpec",
    "WorkloadSpec",
    "from_dict",
    "keys",
    "load",
    "read",
    "unit_of",
    "vary",
]

SPEC_VERSION = 1
MATRIX_COPY, SIZES_COPY = "matrix.csv", "sizes.txt"
SLOWDOWNS = ("auto", "measured", "closed-form", "off")
LARGEST_SEED = 2**63 - 1
CLOCKS = {"lab": "virtual", "host": "real"}
"""The grounds, and each one's clock."""
LINKS = ("auto", "cable", "netem", "tbf")
OVERRIDE = "--set"  # where a value comes from that no file gave
US, MS, S = 10**3, 10**6, 10**9
KIB, MIB = 2**10, 2**20


class _KeyFault(SpecError):
    """A key whose value is wrong; the loader adds where it was written, and how."""

    def __init__(self, key: str, value: object, why: str) -> None:
        super().__init__(f"{key} = {_quoted(value)}: {why}" if value is not None else f"{key}: {why}")
        self.key, self.value, self.why = key, value, why


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a value is written in the file and what it is inside."""

    toml_types: tuple[type, ...]
    example: str
    parse: Callable[[Any], Any]
    write: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _share_of(parts: int) -> _Kind:
    """A share of `parts`, such as parts in 10^9."""
    kinds = (str, float, int)
    return _Kind(
        kinds,
        'a share such as "0.1%" or 0.001',
        lambda value: units.parse_share(value, parts),
        lambda value: units.format_share(value, parts),
    )


_TEXT = _Kind((str,), 'a text such as "dctcp"', _same, _same)
_COUNT = _Kind((int,), "a whole number such as 4", _same, _same)
_RATE = _Kind((str,), 'a rate with its unit such as "10Mbit/s"', units.parse_rate_bps, units.format_rate)
_TIME = _Kind((str,), 'a time with its unit such as "10ms"', units.parse_time_ns, units.format_time)
_SIZE = _Kind((str,), 'a size with its unit such as "400kB"', units.parse_size_bytes, units.format_size)
_AMOUNT = _Kind((str,), 'an amount such as "400kB", "100p" (frames) or "2bdp"', amount.parse, amount.write)
_THRESHOLD = _Kind((int, str), 'bytes such as 3028, or an amount such as "20p" or "0.2bdp"', amount.parse, amount.write_plain)
_PPM = _share_of(PPM)
_PPB = _share_of(PPB)
_PATHS = _Kind((list,), 'a list such as ["ring.py"]', lambda value: _paths(value), lambda value: list(map(str, value)))
_ARGS = _Kind((dict,), "a table such as { depth = 2 }", lambda value: tuple(value.items()), dict)
_PAIR = _Kind((list,), 'two words such as ["leaf", "spine"]', lambda value: _pair(value), list)
_LINKS = _Kind(
    (list,),
    "tables: write [[topology.links]]",
    lambda value: _link_specs(value),
    lambda value: [_to_plain(each, LinkSpec) for each in value],
)
_EXECS = _Kind(
    (list,),
    "tables: write [[workload.exec]]",
    lambda value: _exec_specs(value),
    lambda value: [_to_plain(each, ExecSpec) for each in value],
)
_PATH = _Kind((str,), 'a path such as "flows.csv"', Path, str)
_NUMBER = _Kind((int, float), "a number such as 0.5", float, _same)


def _key(
    kind: _Kind,
    default: Any = None,
    *,
    name: str | None = None,
    low: int | None = None,
    high: int | None = None,
    names: Callable[[], Iterable[str]] | None = None,
) -> Any:
    """A field that is a key of the file: its name there, its least and largest value, or the names that it takes."""
    return field(default=default, metadata={"kind": kind, "name": name, "low": low, "high": high, "names": names})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """`[[topology.links]]`: keys for some links; None: not given, what holds for all links holds."""

    between: tuple[str, str] = _key(_PAIR)
    rate_bps: int | None = _key(_RATE, name="rate", low=1, high=FASTEST_BPS)
    delay_ns: int | None = _key(_TIME, name="delay", low=0, high=LONGEST_DELAY_NS)
    buffer_bytes: amount.Size | None = _key(_AMOUNT, name="buffer", low=1)
    host_buffer_bytes: amount.Size | None = _key(_AMOUNT, name="host_buffer", low=1)
    marking: str | None = _key(_TEXT, names=marking.names)
    k_bytes: amount.Size | None = _key(_THRESHOLD, low=1)
    kmin_bytes: amount.Size | None = _key(_THRESHOLD, name="kmin", low=1)
    kmax_bytes: amount.Size | None = _key(_THRESHOLD, name="kmax", low=1)
    pmax_ppm: int | None = _key(_PPM, name="pmax", low=1, high=PPM)
    loss_ppb: int | None = _key(_PPB, name="loss", low=0, high=PPB)
    jitter_ns: int | None = _key(_TIME, name="jitter", low=0, high=LONGEST_DELAY_NS)
    reorder_ppb: int | None = _key(_PPB, name="reorder", low=0, high=PPB)
    reorder_delay_ns: int | None = _key(_TIME, name="reorder_delay", low=0, high=LONGEST_DELAY_NS)

    def rule(self) -> LinkRule:
        """What the topologies take."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "between"}
        return LinkRule(self.between, LinkParams(**given))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpec:
    """`[topology]`; None: not given, the preset or the default holds."""

    preset: str | None = _key(_TEXT, names=lambda: presets.PRESETS)
    kind: str | None = _key(_TEXT, names=lambda: presets.TOPOLOGIES)
    hosts: int | None = _key(_COUNT, low=2)
    pairs: int | None = _key(_COUNT, low=1)
    k: int | None = _key(_COUNT, low=2)
    hops: int | None = _key(_COUNT, low=1)
    leaves: int | None = _key(_COUNT, low=1)
    hosts_per_leaf: int | None = _key(_COUNT, low=1)
    spines: int | None = _key(_COUNT, low=1)
    uplinks: int | None = _key(_COUNT, low=1)
    uplink_rate_bps: int | None = _key(_RATE, name="uplink_rate", low=1, high=FASTEST_BPS)
    nics: int | None = _key(_COUNT, low=1)
    file: Path | None = _key(_PATH)
    class_name: str | None = _key(_TEXT, name="class")
    args: tuple[tuple[str, Any], ...] | None = _key(_ARGS)
    rate_bps: int | None = _key(_RATE, name="rate", low=1, high=FASTEST_BPS)
    bottleneck_rate_bps: int | None = _key(_RATE, name="bottleneck_rate", low=1, high=FASTEST_BPS)
    delay_ns: int | None = _key(_TIME, name="delay", low=0, high=LONGEST_DELAY_NS)
    buffer_bytes: amount.Size | None = _key(_AMOUNT, name="buffer", low=1)
    host_buffer_bytes: amount.Size | None = _key(_AMOUNT, name="host_buffer", low=1)
    host_qdisc: str | None = _key(_TEXT, names=lambda: presets.HOST_QDISCS)
    marking: str | None = _key(_TEXT, names=marking.names)
    k_bytes: amount.Size | None = _key(_THRESHOLD, low=1)
    kmin_bytes: amount.Size | None = _key(_THRESHOLD, name="kmin", low=1)
    kmax_bytes: amount.Size | None = _key(_THRESHOLD, name="kmax", low=1)
    pmax_ppm: int | None = _key(_PPM, name="pmax", low=1, high=PPM)
    loss_ppb: int | None = _key(_PPB, name="loss", low=0, high=PPB)
    jitter_ns: int | None = _key(_TIME, name="jitter", low=0, high=LONGEST_DELAY_NS)
    reorder_ppb: int | None = _key(_PPB, name="reorder", low=0, high=PPB)
    reorder_delay_ns: int | None = _key(_TIME, name="reorder_delay", low=0, high=LONGEST_DELAY_NS)
    scale: int | None = _key(_COUNT, low=1, high=LARGEST_SCALE)
    links: tuple[LinkSpec, ...] | None = _key(_LINKS)
    routing: str = _key(_TEXT, "ecmp", names=lambda: ROUTINGS)

    def __post_init__(self) -> None:
        _check(self, "topology.")

    def params(self, ecn: bool) -> TopologyParams:
        """What the topologies take; `ecn`: the controller reads it."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("links", "routing")}
        return TopologyParams(ecn=ecn, links=tuple(link.rule() for link in self.links or ()), **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSpec:
    """`[controller]`."""

    name: str = _key(_TEXT, names=controllers.names)
    rto_min_ns: int | None = _key(_TIME, name="rto_min", low=1 * MS, high=120 * S)

    def __post_init__(self) -> None:
        _require_given(self, "controller.", "name")
        _check(self, "controller.")

    @property
    def controller(self) -> Controller:
        """The registered controller of that name."""
        found = controllers.find(self.name)
        assert found is not None, "checked at construction"
        return found

    @property
    def kernel_name(self) -> str:
        """What TCP_CONGESTION calls it."""
        return self.controller.kernel_name

    @property
    def ecn(self) -> bool:
        """It reads ECN."""
        return self.controller.ecn

    @property
    def sysctls(self) -> dict[str, str]:
        """What every host's kernel is told, by path below /proc/sys."""
        return {} if self.rto_min_ns is None else {"net/ipv4/tcp_rto_min_us": str(self.rto_min_ns // US)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """An entry of `[[workload.exec]]`: a program in a host."""

    host: str = _key(_TEXT)
    command: str = _key(_TEXT)
    start_ns: int = _key(_TIME, 0, name="start", low=0)
    stop_ns: int | None = _key(_TIME, name="stop", low=1)

    def words(self) -> list[str]:
        """The command, split as a shell does it; no shell runs it."""
        return shlex.split(self.command)

    def beside(self, base: Path) -> ExecSpec:
        """The same with a program of a relative path taken from a folder."""
        words = self.words()
        if "/" not in words[0] or words[0].startswith("/"):
            return self
        return replace(self, command=shlex.join([str((base / words[0]).absolute()), *words[1:]]))

    def request(self, graph: Graph, duration_ns: int) -> ExecRequest:
        """What the ground runs: {h2} stands for the first address of host h2."""
        addresses = {f"{{{host.name}}}": host.address for host in graph.hosts}
        argv = [sub(r"\{[a-z][a-z0-9]*\}", lambda found: addresses.get(found[0], found[0]), word) for word in self.words()]
        stop_ns = duration_ns if self.stop_ns is None else min(self.stop_ns, duration_ns)
        return ExecRequest(self.host, tuple(argv), self.start_ns, stop_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """`[workload]`; None: no limit, or the default."""

    kind: str = _key(_TEXT, names=lambda: workloads.KINDS)
    size_bytes: int | None = _key(_SIZE, name="size", low=1)
    rate_bps: int | None = _key(_RATE, name="rate", low=1)
    start_ns: int = _key(_TIME, 0, name="start", low=0)
    stop_ns: int | None = _key(_TIME, name="stop", low=1)
    jitter_ns: int = _key(_TIME, 0, name="jitter", low=0)
    transport: str = _key(_TEXT, "tcp", names=lambda: TRANSPORTS)
    gaps: str = _key(_TEXT, "exact", names=lambda: GAPS)
    file: Path | None = _key(_PATH)
    pattern: str | None = _key(_TEXT)
    broken: str | None = _key(_TEXT, names=lambda: BROKEN)
    ends: str | None = _key(_TEXT, names=lambda: ENDS)
    senders: int | None = _key(_COUNT, low=1)
    flows: int | None = _key(_COUNT, low=1)
    stride: int | None = _key(_COUNT, low=1)
    p_edge: float | None = _key(_NUMBER, low=0, high=1)
    p_pod: float | None = _key(_NUMBER, low=0, high=1)
    rounds: int | None = _key(_COUNT, low=1)
    interval_ns: int | None = _key(_TIME, name="interval", low=0)
    intervals: str | None = _key(_TEXT, names=lambda: PATTERNS)
    last_start_ns: int | None = _key(_TIME, name="last_start", low=1)
    request_bytes: int | None = _key(_SIZE, name="request", low=1)
    long: int | None = _key(_COUNT, low=1)
    short: int | None = _key(_COUNT, low=1)
    short_start_ns: int | None = _key(_TIME, name="short_start", low=0)
    on_ns: int | None = _key(_TIME, name="on", low=1)
    off_ns: int | None = _key(_TIME, name="off", low=1)
    distribution: str | None = _key(_TEXT, names=sizes.names)
    distribution_file: Path | None = _key(_PATH)
    load: float | None = _key(_NUMBER, low=0, high=1)
    load_counts: str | None = _key(_TEXT, names=lambda: LOAD_COUNTS)
    load_of: str | None = _key(_TEXT, names=lambda: LOAD_OF)
    truncate_bytes: int | None = _key(_SIZE, name="truncate", low=1)
    size_scale: float | None = _key(_NUMBER, low=0)
    outstanding: int | None = _key(_COUNT, low=1)
    mix: str | None = _key(_TEXT, names=lambda: MIXES)
    storage: int | None = _key(_COUNT, low=1)
    replicas: int | None = _key(_COUNT, low=0)
    compute_ns: int | None = _key(_TIME, name="compute", low=0)
    exec: tuple[ExecSpec, ...] | None = _key(_EXECS)

    def __post_init__(self) -> None:
        _require_given(self, "workload.", "kind")
        _check(self, "workload.")
        if self.kind == "matrix" and self.file is None:
            raise _KeyFault("workload.file", None, 'is missing; kind "matrix" needs the path of a CSV file')
        for name, value in (("load", self.load), ("size_scale", self.size_scale)):
            if value == 0:
                raise _KeyFault(f"workload.{name}", value, "is not above 0; give more")
        if self.stop_ns is not None and self.stop_ns <= self.start_ns:
            raise _KeyFault("workload.stop", self.stop_ns, "is not after workload.start; give a later time")
        if self.transport == "udp" and self.rate_bps is None and self.kind not in ("matrix", "iroko"):
            raise _KeyFault("workload.rate", None, 'is missing; transport "udp" sends at a rate such as "10Mbit/s"')
        if self.gaps != "exact" and self.rate_bps is None:
            raise _KeyFault("workload.gaps", self.gaps, "means nothing without workload.rate; give one")

    def params(self) -> WorkloadParams:
        """What the workloads take."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "exec"}
        return WorkloadParams(**(given | {"size_bytes": self.size_bytes or 0, "rate_bps": self.rate_bps or 0}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpec:
    """`[time]`: virtual time of traffic, counted from t0."""

    duration_ns: int = _key(_TIME, name="duration", low=1)
    warmup_ns: int = _key(_TIME, 0, name="warmup", low=0)

    def __post_init__(self) -> None:
        _require_given(self, "time.", "duration")
        _check(self, "time.")
        if self.warmup_ns >= self.duration_ns:
            raise _KeyFault("time.warmup", self.warmup_ns, "is not below time.duration; nothing would be left to measure")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSpec:
    """`[monitor]`: how often queues and TCP are looked at."""

    interval_ns: int = _key(_TIME, 10 * MS, name="interval", low=10 * US)
    tcp_interval_ns: int = _key(_TIME, name="tcp_interval", low=10 * US)

    def __post_init__(self) -> None:
        if _missing(self, "tcp_interval_ns"):
            object.__setattr__(self, "tcp_interval_ns", self.interval_ns)
        _check(self, "monitor.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSpec:
    """`[metrics]`: how a run's tables become numbers; None: the default of docs/spec.md."""

    slowdown: str = _key(_TEXT, "auto", names=lambda: SLOWDOWNS)
    cutoff_ns: int | None = _key(_TIME, name="cutoff", low=1)
    rate_interval_ns: int | None = _key(_TIME, name="rate_interval", low=10 * US)
    within_percent: int = _key(_COUNT, 20, name="within", low=1, high=99)

    def __post_init__(self) -> None:
        _check(self, "metrics.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSpec:
    """`[lab]`: the lab kernel."""

    memory_bytes: int | None = _key(_SIZE, name="memory", low=64 * MIB)  # None: by hosts and paths
    clock_read_ns: int = _key(_TIME, 25, name="clock_read", low=1, high=1 * MS)
    watchdog_ns: int = _key(_TIME, 60 * S, name="watchdog", low=1 * S)
    t0_ns: int = _key(_TIME, 20 * S, name="t0", low=11 * S)

    def __post_init__(self) -> None:
        _check(self, "lab.")

    def sized(self, hosts: int, paths: int) -> LabSpec:
        """With the memory that a network of so many hosts, and flows on so many paths, is given where the spec does not say.

        Measured (docs/scale.md): 65 MiB for all, a third of a MiB a host, up to 4 KiB a path in Open vSwitch.
        """
        needed = 512 * MIB + max(0, hosts - 256) * MIB // 2 + max(0, paths - 8192) * 8 * KIB
        return self if self.memory_bytes is not None else replace(self, memory_bytes=needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """`[host]`: the host ground."""

    links: str = _key(_TEXT, "auto", names=lambda: LINKS)
    lead_ns: int = _key(_TIME, 5 * S, name="lead", low=1 * S, high=600 * S)

    def __post_init__(self) -> None:
        _check(self, "host.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One experiment: topology x workload x controller x ground and clock x seed."""

    spec_version: int = _key(_COUNT, SPEC_VERSION)
    name: str = _key(_TEXT, "experiment")
    seed: int = _key(_COUNT, 1, low=0, high=LARGEST_SEED)
    ground: str = _key(_TEXT, "lab", names=lambda: CLOCKS)
    clock: str = _key(_TEXT, names=lambda: CLOCKS.values())
    plugins: tuple[Path, ...] = _key(_PATHS, ())
    topology: TopologySpec
    controller: ControllerSpec
    workload: WorkloadSpec
    time: TimeSpec
    monitor: MonitorSpec = field(default_factory=MonitorSpec)
    metrics: MetricsSpec = field(default_factory=MetricsSpec)
    lab: LabSpec = field(default_factory=LabSpec)
    host: HostSpec = field(default_factory=HostSpec)

    def __post_init__(self) -> None:
        if _missing(self, "clock"):
            object.__setattr__(self, "clock", CLOCKS.get(self.ground))
        _check(self, "")
        if self.clock != CLOCKS[self.ground]:
            raise _KeyFault("clock", self.clock, f'is not that of ground "{self.ground}"; give "{CLOCKS[self.ground]}"')
        _check_version(self.spec_version)
        if self.workload.start_ns >= self.time.duration_ns:
            raise _KeyFault("workload.start", self.workload.start_ns, "is not before time.duration; no flow would start")
        if self.monitor.interval_ns > self.time.duration_ns:
            raise _KeyFault("monitor.interval", self.monitor.interval_ns, "is above time.duration; give a shorter one")
        self._check_metrics()

    def _check_metrics(self) -> None:
        cutoff, interval, time = self.metrics.cutoff_ns, self.metrics.rate_interval_ns, self.time
        if cutoff is not None and not time.warmup_ns < cutoff <= time.duration_ns:
            raise _KeyFault(
                "metrics.cutoff", cutoff, "is not after time.warmup and up to time.duration; give a time between them"
            )
        if interval is not None and interval > time.duration_ns:
            raise _KeyFault("metrics.rate_interval", interval, "is above time.duration; give a shorter one")

    def graph(self) -> Graph:
        """The network."""
        return presets.build(self.topology.params(self.controller.ecn))

    def flows(self, graph: Graph) -> list[FlowRequest]:
        """The flows in the order of their numbers."""
        return self.flows_with_notes(graph)[0]

    def code(self) -> tuple[Path, ...]:
        """The user's Python files that make this spec what it is."""
        return (*self.plugins, *((self.topology.file,) if self.topology.file else ()))

    def flows_with_notes(self, graph: Graph) -> tuple[list[FlowRequest], dict[str, Any]]:
        """The flows, and what the workload has to say of itself."""
        return workloads.generate_with_notes(graph, self.workload.params(), self.time.duration_ns, self.seed)

    def execs(self, graph: Graph) -> list[ExecRequest]:
        """The programs to run in hosts."""
        return [each.request(graph, self.time.duration_ns) for each in self.workload.exec or ()]

    def copies(self) -> dict[str, Path]:
        """The files that this spec reads, by the names that a result keeps copies of them under."""
        files = {MATRIX_COPY: self.workload.file, SIZES_COPY: self.workload.distribution_file}
        return {name: path for name, path in files.items() if path is not None}

    def to_dict(self, *, copied: bool = False) -> dict[str, Any]:
        """The keys as a file would give them, defaults filled in, what was not given left out; `from_dict` takes it back.

        `copied`: paths are those of the copies that a result keeps.
        """
        plain: dict[str, Any] = {}
        for section, cls in _SECTIONS.items():
            values = _to_plain(getattr(self, section) if section else self, cls)
            plain |= {section: values} if section else values
        names = {"file": MATRIX_COPY, "distribution_file": SIZES_COPY}
        if copied:
            plain["workload"] |= {key: name for key, name in names.items() if key in plain["workload"]}
            plain["plugins"] = [f"{usercode.CODE}/{path.name}" for path in self.plugins]
            if self.topology.file is not None:
                plain["topology"]["file"] = f"{usercode.CODE}/{self.topology.file.name}"
        if not self.plugins:
            del plain["plugins"]
        return plain

    def to_json(self) -> str:
        """The one canonical text of this spec: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


_SECTIONS: dict[str, type] = {
    "": Spec,
    "topology": TopologySpec,
    "controller": ControllerSpec,
    "workload": WorkloadSpec,
    "time": TimeSpec,
    "monitor": MonitorSpec,
    "metrics": MetricsSpec,
    "lab": LabSpec,
    "host": HostSpec,
}


def keys() -> tuple[str, ...]:
    """Every key, dotted, in the order of declaration."""
    return tuple(f"{section}.{name}" if section else name for section, cls in _SECTIONS.items() for name in _fields_by_key(cls))


def unit_of(key: str) -> str:
    """The ending of what a key's quantity is called inside: '_bps', '_ns', '_bytes'; '' for what has no unit."""
    section, _, name = key.rpartition(".")
    each = _fields_by_key(_SECTIONS[section]).get(name) if section in _SECTIONS else None
    return next((suffix for suffix in ("_bps", "_ns", "_bytes") if each is not None and each.name.endswith(suffix)), "")


def load(path: str | Path, overrides: Iterable[str] = (), seed: int | None = None) -> Spec:
    """The spec of a TOML file, of a JSON file that `to_dict` wrote, or of a result's manifest.json.

    `overrides` are texts "key=value" that replace keys of the file; `seed` replaces `seed` last.
    """
    source = Path(path)
    data = _read(source)
    data.setdefault("name", source.stem)
    return _overridden(data, overrides, seed, str(source), source.absolute().parent)


def _overridden(data: dict[str, Any], overrides: Iterable[str], seed: int | None, source: str, base: Path) -> Spec:
    origins: dict[str, str] = {}
    for text in overrides:
        key, value = _override(text)
        _put(data, key, value)
        origins[key] = OVERRIDE
    if seed is not None:
        data["seed"] = seed
        origins["seed"] = "--seed"
    return _build(data, source, origins, base)


def read(path: str | Path) -> dict[str, Any]:
    """The plain contents of a spec file, unchecked: what `vary` takes."""
    return _read(Path(path))


def vary(
    data: Mapping[str, Any], base: Path, source: str, overrides: Iterable[str], values: Mapping[str, Any], origin: str
) -> Spec:
    """The spec of plain contents in which `overrides` ("key=value"), then `values` (by dotted key) replace keys.

    `origin` says where the values were written. What a sweep makes its runs of.
    """
    changed = copy.deepcopy(dict(data))
    origins: dict[str, str] = {}
    for key, value in map(_override, overrides):
        _put(changed, key, value)
        origins[key] = OVERRIDE
    for key, value in values.items():
        _put(changed, key, value, origin)
        origins[key] = origin
    return _build(changed, source, origins, base)


def of_preset(name: str, overrides: Iterable[str] = ()) -> Spec:
    """A spec of nothing but a preset's network, for looking at it; the overrides are as in `load`."""
    data: dict[str, Any] = {"name": name, "topology": {"preset": name}, "controller": {"name": "dctcp"}}
    data |= {"workload": {"kind": "many_to_one"}, "time": {"duration": "1s"}}
    return _overridden(data, overrides, None, name, Path.cwd())


def from_dict(data: Mapping[str, Any], base: Path, source: str = "spec") -> Spec:
    """The spec of a dict such as `to_dict` gives; `base` is the folder that workload.file is relative to."""
    return _build(data, source, {}, base)


def _build(data: Mapping[str, Any], source: str, origins: Mapping[str, str], base: Path) -> Spec:
    """Read, check, and build the network once, so that every mistake shows before anything boots."""
    try:
        if (version := data.get("spec_version", SPEC_VERSION)) != SPEC_VERSION:
            _check_version(version)
        _load_plugins(data.get("plugins", []), base)
        spec = Spec(**_parse_all(data, base))
        _check_file("workload.file", spec.workload.file)
        _check_file("workload.distribution_file", spec.workload.distribution_file)
        _check_code(spec)
        with usercode.blamed():
            _check_network(spec)
    except _KeyFault as fault:
        value = _written(data, fault)
        raise SpecError(f"{origins.get(fault.key, source)}: {_KeyFault(fault.key, value, fault.why)}") from None
    except SpecError:
        raise
    except TestbedError as error:
        raise SpecError(f"{source}: {error}") from None
    return spec


def _parse_all(data: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Arguments of Spec."""
    values: dict[str, Any] = {}
    for section, cls in _SECTIONS.items():
        table = data.get(section, {}) if section else {key: value for key, value in data.items() if key not in _SECTIONS}
        if not isinstance(table, Mapping):
            raise _KeyFault(section, table, f"is a table; write [{section}] and a key such as {_first_key(section)}")
        parsed = _parse(table, section, cls)
        parsed = {name: base / value if isinstance(value, Path) else value for name, value in parsed.items()}
        if parsed.get("exec"):
            parsed["exec"] = tuple(each.beside(base) for each in parsed["exec"])
        if not section and "plugins" in parsed:
            parsed["plugins"] = tuple(base / path for path in parsed["plugins"])
        values |= {section: cls(**parsed)} if section else parsed
    return values


def _parse(table: Mapping[str, Any], section: str, cls: type) -> dict[str, Any]:
    """Arguments of a section's dataclass."""
    known = _fields_by_key(cls)
    parsed = {}
    for name, value in table.items():
        key = f"{section}.{name}" if section else name
        if name not in known:
            raise _KeyFault(key, None, "unknown key" + _did_you_mean(key))
        parsed[known[name].name] = _parse_value(key, value, known[name].metadata["kind"])
    return parsed


def _parse_value(key: str, value: Any, kind: _Kind) -> Any:
    if type(value) not in kind.toml_types:
        raise _KeyFault(key, value, f"is {_type_name(value)}; write {kind.example}")
    try:
        return kind.parse(value)
    except _KeyFault:
        raise
    except TestbedError:
        raise _KeyFault(key, value, f"is not understood; write {kind.example}") from None


def _paths(value: list[Any]) -> tuple[Path, ...]:
    if not all(isinstance(path, str) and path for path in value):
        raise SpecError("plugins: not a list of paths")
    return tuple(Path(path) for path in value)


def _pair(value: list[Any]) -> tuple[str, str]:
    if len(value) != 2 or not all(isinstance(word, str) for word in value):
        raise SpecError("between: not two words")
    return value[0], value[1]


def _exec_specs(tables: list[Any]) -> tuple[ExecSpec, ...]:
    """The entries of [[workload.exec]]."""
    specs = []
    for number, table in enumerate(tables):
        section = f"workload.exec[{number}]"
        if not isinstance(table, Mapping):
            raise _KeyFault(section, table, f"is {_type_name(table)}; write [[workload.exec]] and keys below it")
        for name in ("host", "command"):
            if name not in table:
                raise _KeyFault(f"{section}.{name}", None, "is missing; give a host and a command")
        spec = ExecSpec(**_parse(table, section, ExecSpec))
        _check(spec, f"{section}.")
        _check_command(spec, f"{section}.command")
        if spec.stop_ns is not None and spec.stop_ns <= spec.start_ns:
            raise _KeyFault(f"{section}.stop", spec.stop_ns, "is not after its start; give a later time")
        specs.append(spec)
    return tuple(specs)


def _check_command(spec: ExecSpec, key: str) -> None:
    try:
        words = spec.words()
    except ValueError as error:
        raise _KeyFault(key, spec.command, f"cannot be split into words: {error}; close every quote") from None
    if not words:
        raise _KeyFault(key, spec.command, "names no program; give one and its arguments")


def _check_execs(spec: Spec, graph: Graph) -> None:
    """Hosts and programs exist, before anything boots."""
    hosts = [host.name for host in graph.hosts]
    for number, each in enumerate(spec.workload.exec or ()):
        section, program = f"workload.exec[{number}]", each.words()[0]
        if each.host not in hosts:
            raise _KeyFault(f"{section}.host", each.host, f"is none of the hosts {hosts[0]} .. {hosts[-1]} of the topology")
        if each.start_ns >= spec.time.duration_ns:
            raise _KeyFault(f"{section}.start", each.start_ns, "is not before time.duration; it would never run")
        if find_program(program) is None:
            raise _KeyFault(f"{section}.command", each.command, f"there is no program {program!r}; install it, or give its path")


def _link_specs(tables: list[Any]) -> tuple[LinkSpec, ...]:
    """The entries of [[topology.links]]."""
    specs = []
    for number, table in enumerate(tables):
        section = f"topology.links[{number}]"
        if not isinstance(table, Mapping):
            raise _KeyFault(section, table, f"is {_type_name(table)}; write [[topology.links]] and keys below it")
        if "between" not in table:
            raise _KeyFault(f"{section}.between", None, f"is missing; write {_PAIR.example}")
        spec = LinkSpec(**_parse(table, section, LinkSpec))
        _check(spec, f"{section}.")
        specs.append(spec)
    return tuple(specs)


def _check(section: Any, prefix: str) -> None:
    """Every value within the bounds and names of its field."""
    for name, each in _fields_by_key(type(section)).items():
        value, kind = getattr(section, each.name), each.metadata["kind"]
        low, high, names = (each.metadata[what] for what in ("low", "high", "names"))
        if value is None:
            continue
        if isinstance(value, amount.Amount):
            continue
        if low is not None and value < low:
            raise _KeyFault(prefix + name, value, f"is below {kind.write(low)}; give that or more")
        if high is not None and value > high:
            raise _KeyFault(prefix + name, value, f"is above {kind.write(high)}; give that or less")
        if names is not None and value not in names():
            raise _KeyFault(prefix + name, value, f"unknown; one of: {', '.join(names())}")


def _require_given(section: Any, prefix: str, name: str) -> None:
    each = _fields_by_key(type(section))[name]
    if _missing(section, each.name):
        names = each.metadata["names"]
        what = f"one of: {', '.join(names())}" if names else each.metadata["kind"].example
        raise _KeyFault(prefix + name, None, f"is missing; give {what}")


def _missing(section: Any, name: str) -> bool:
    """The loader gave no value to a field that must have one."""
    return getattr(section, name) is None


def _check_version(version: Any) -> None:
    if type(version) is not int or version != SPEC_VERSION:
        remedy = "upgrade dc-gym" if type(version) is int and version > SPEC_VERSION else f"write spec_version = {SPEC_VERSION}"
        raise _KeyFault("spec_version", version, f"this version reads {SPEC_VERSION}; {remedy}")


def _check_file(key: str, path: Path | None) -> None:
    if path is not None and not path.is_file():
        raise _KeyFault(key, str(path), "no such file; paths are relative to the spec")


def _load_plugins(value: Any, base: Path) -> None:
    """Run them first of all: what they register may be named by any other key."""
    for path in _parse_value("plugins", value, _PATHS):
        _check_file("plugins", base / path)
        usercode.load(base / path)


def _check_code(spec: Spec) -> None:
    """A result keeps the files side by side."""
    _check_file("topology.file", spec.topology.file)
    names = [path.name for path in spec.code()]
    for name in names:
        if names.count(name) > 1:
            raise _KeyFault("plugins", name, "is the name of two files; rename one")


def _check_network(spec: Spec) -> None:
    """Topology and workload can be what they ask for, and fit each other."""
    graph = spec.graph()
    _check_execs(spec, graph)
    spec.flows(graph)


def _read(path: Path) -> dict[str, Any]:
    """The plain contents of a spec file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{path}: cannot read the spec: {error.strerror}; give the path of a TOML file") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: the spec is not UTF-8 text; give the path of a TOML file") from None
    try:
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # JSONDecodeError and TOMLDecodeError
        raise SpecError(f"{path}: not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if isinstance(data, dict) and "result_version" in data:
        data = data.get("spec")
    if not isinstance(data, dict):
        raise SpecError(f"{path}: no spec in it; give a TOML file, or the manifest.json of a result")
    return data


def _override(text: str) -> tuple[str, Any]:
    """Key and value of "key=value": a TOML scalar, else the bare text."""
    key, equals, raw = text.partition("=")
    key, raw = key.strip(), raw.strip()
    if not equals or not key:
        raise SpecError(f"{OVERRIDE} {text!r}: not key=value; write it like {OVERRIDE} controller.name=nv")
    try:
        parsed = tomllib.loads(f"value = {raw}")
        value = parsed["value"] if len(parsed) == 1 else raw
    except tomllib.TOMLDecodeError:
        value = raw
    if isinstance(value, dict | list):
        raise SpecError(f"{OVERRIDE} {text!r}: the value is {_type_name(value)}; set one key at a time")
    return key, value


def _put(data: dict[str, Any], key: str, value: Any, origin: str = OVERRIDE) -> None:
    """Set a dotted key."""
    if key not in keys():
        raise SpecError(f"{origin}: {key}: unknown key{_did_you_mean(key)}")
    section, _, name = key.rpartition(".")
    table = data.setdefault(section, {}) if section else data
    if isinstance(table, dict):  # else the file's mistake: it is reported when the section is read
        table[name] = value


def _did_you_mean(key: str) -> str:
    """The nearest known key in words: one of the same last name, else one spelled alike."""
    known = keys()
    same = [each for each in known if each.rpartition(".")[2] == key.rpartition(".")[2]]
    near = same or get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else "; docs/spec.md lists the keys"


def _fields_by_key(cls: type) -> dict[str, Any]:
    """The fields of a section by the names they have in the file."""
    return {each.metadata["name"] or each.name: each for each in fields(cls) if each.metadata}


def _first_key(section: str) -> str:
    name, each = next(iter(_fields_by_key(_SECTIONS[section]).items()))
    return f"{name} ({each.metadata['kind'].example})"


def _to_plain(section: Any, cls: type) -> dict[str, Any]:
    given = {name: (each.metadata["kind"], getattr(section, each.name)) for name, each in _fields_by_key(cls).items()}
    return {name: kind.write(value) for name, (kind, value) in given.items() if value is not None}


def _written(data: Mapping[str, Any], fault: _KeyFault) -> Any:
    """The value as the user wrote it, if he did."""
    if fault.value is None:
        return None
    section, _, name = fault.key.rpartition(".")
    table = data.get(section, {}) if section else data
    if found := fullmatch(r"topology\.links\[([0-9]+)\]", section):
        table = data["topology"]["links"][int(found[1])]
    return table.get(name, fault.value) if isinstance(table, Mapping) else fault.value


def _quoted(value: object) -> str:
    """A value as TOML writes it."""
    return json.dumps(value, default=str, ensure_ascii=False)


def _type_name(value: object) -> str:
    names: dict[type, str] = {bool: "a boolean", int: "a bare number", float: "a fraction"}
    names |= {str: "a text", dict: "a table", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
