# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a Spec, or into a one-line error with the place where the wrong value was written."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from re import findall, fullmatch
from typing import Any

from dc_gym.base import bounded, plain_json, spelling, usercode
from dc_gym.base.errors import MachineError, SpecError, TestbedError, with_remedy
from dc_gym.base.key import COUNT, PATHS, KeyFault, UnknownKey, fields_by_key, own_fields, parse, parse_value, type_name
from dc_gym.base.readers import PLACED, head_of
from dc_gym.base.units import format_rate
from dc_gym.ctrl import controllers, tcp_sources
from dc_gym.spec import result_code
from dc_gym.spec.experiment import DEFAULT_INTERVAL_NS, SECTIONS, SPEC_VERSION, Spec, check_version, field_of_key, keys
from dc_gym.spec.nic import LEAST_LINE_BPS
from dc_gym.spec.settings import MetricsSpec, MonitorSpec, TimeSpec
from dc_gym.topologies import files, presets, telemetry
from dc_gym.topologies.graph import Graph
from dc_gym.traffic import files as flow_files
from dc_gym.traffic.execs import find_program

OVERRIDE = "--set"  # source of a value that no file gave
SHORT = {
    "controller": ("controller.policy", "controller.name"),
    "topology": ("topology.preset", "topology.kind"),
    "workload": ("workload.kind",),
}
"""The keys whose value may replace a whole table, as a plain text. It is the first key's, unless another key has that value."""
POLICY_KEY = "controller.policy"
LISTS = ("plugins", result_code.PATCH_KEY)
"""The keys with lists of files of code. A plain text is a list of one."""
PLUGGED = ("topology.kind", "topology.marking", "controller.name", "workload.kind")
"""The keys to whose names a plug-in may add."""
MANIFEST = "manifest.json"
VALUE = r"([a-z_.]+): value (\S+) (.+)"
"""An error about the value of a key, from code that has it only in the unit in which it is stored."""
NOT_WRITTEN = object()
GRID = ("base", "grid", "cells", "sweep_version")
"""Keys that the file of a sweep has, and no spec."""
Say = Callable[[str], object]
"""Shows the user a line."""


@dataclass(frozen=True, slots=True)
class RecordedSpec:
    """The keys of a result's spec that readers of its tables need. No plug-in declares any of them."""

    name: str
    seed: int
    time: TimeSpec
    monitor: MonitorSpec
    metrics: MetricsSpec


def load(
    path: str | Path, overrides: Iterable[str] = (), seed: int | None = None, *, trust: bool = False, say: Say | None = None
) -> Spec:
    """Returns the spec of a TOML file, of a JSON file that `to_dict` wrote, or of a result's manifest.json.

    Args:
        path: The file.
        overrides: Texts "key=value" that replace keys of the file.
        seed: Replaces `seed`, after the overrides.
        trust: The user trusts the code of a result (result_code.py).
        say: Called with a line for each part of a result's code that runs, and for what another tool's file has and dc-gym
            lacks.

    Raises:
        SpecError: In one line: the key, the value as given, and the remedy.
    """
    source = file_of(path)
    data = _read(source, trust, say)
    if any(key in data for key in GRID):
        raise SpecError(f"{source}: holds a grid of runs, not one spec; `dcgym sweep` runs it, and other commands take its base")
    data.setdefault("name", source.stem)
    spec = _overridden(data, overrides, seed, str(source), source.absolute().parent)
    if say is not None:
        for line in _not_used(spec):
            say(line)
    return spec


def _not_used(spec: Spec) -> Iterator[str]:
    """Yields what files of other tools have and dc-gym has not, and what they do not say, a line each."""
    for section, path in spec.foreign_files(("file",)):
        content = files.read(path) if section == "topology" else flow_files.read(path)
        yield from (f"{path.name}: not used: {line}" for line in content.not_used)
        yield from (f"{path.name}: {line}" for line in content.assumed)


def _overridden(data: dict[str, Any], overrides: Iterable[str], seed: int | None, source: str, base: Path) -> Spec:
    origins = _put_all(data, overrides, source, base)
    if seed is not None:
        data["seed"] = seed
        origins["seed"] = "--seed"
    return _build(data, source, origins, base)


def read(path: str | Path, *, trust: bool = False, say: Say | None = None) -> dict[str, Any]:
    """Returns the plain contents of a spec file, unchecked, for `vary`.

    Args:
        path: The file.
        trust: As in `load`.
        say: As in `load`.

    Raises:
        SpecError: The file cannot be read.
    """
    return _read(file_of(path), trust, say)


def file_of(path: str | Path) -> Path:
    """Returns the file of a spec: of a result's folder, its manifest.json."""
    source = Path(path)
    if not source.is_dir():
        return source
    if not (source / MANIFEST).is_file():
        raise SpecError(f"{path}: is a folder, and no result's; give a TOML file, or the folder of a result")
    return source / MANIFEST


def vary(
    data: Mapping[str, Any], base: Path, source: str, overrides: Iterable[str], values: Mapping[str, Any], origin: str
) -> Spec:
    """Returns the spec of plain contents in which keys are replaced. A sweep makes its runs with it.

    Args:
        data: The contents, as `read` returns them.
        base: The folder to which paths are relative.
        source: The name of the file, for errors.
        overrides: Texts "key=value", applied first.
        values: Values by dotted key, applied after them.
        origin: Says where the values were written, for errors.

    Raises:
        SpecError: As in `load`.
    """
    changed = copy.deepcopy(dict(data))
    origins = _put_all(changed, overrides, source, base)
    for key, value in values.items():
        _put(changed, key, value, origin)
        origins[key] = origin
    return _build(changed, source, origins, base)


def not_given(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Returns the values that no override names, for calls of `vary` in which the user's value has priority.

    Args:
        values: Values by dotted key.
        overrides: Texts "key=value".
    """
    overridden = {key for key, _ in map(_override, overrides)}
    return {key: value for key, value in values.items() if key not in overridden}


def of_preset(name: str, overrides: Iterable[str] = ()) -> Spec:
    """Returns a spec that has only a preset's network, to show it.

    Args:
        name: The preset.
        overrides: As in `load`.

    Raises:
        SpecError: As in `load`.
    """
    data: dict[str, Any] = {"name": name, "topology": {"preset": name}, "controller": {"name": "dctcp"}}
    data |= {"workload": {"kind": "many_to_one"}, "time": {"duration": "1s"}}
    return _overridden(data, overrides, None, name, Path.cwd())


def from_dict(data: Mapping[str, Any], base: Path, source: str = "spec") -> Spec:
    """Returns the spec of a dict such as `to_dict` gives, and runs its code.

    Its settings of the NICs are checked when it runs. To read a result, call `without_code` or `recorded` instead.

    Args:
        data: Sections and keys, as a file has them.
        base: The folder to which paths are relative.
        source: A name for errors.

    Raises:
        SpecError: As in `load`.
    """
    return _build(_of_result(data), source, {}, base, to_run=False)


def without_code(data: Mapping[str, Any], base: Path, source: str = "spec") -> Spec:
    """Returns the spec of a result that is only read.

    Args:
        data: The spec in the result's manifest.
        base: The result's folder.
        source: A name for errors.

    Raises:
        SpecError: The spec needs code: a reader runs none.
    """
    result_code.require_no_code(source, data)
    return from_dict(data, base, source)


def recorded(data: Mapping[str, Any], source: str) -> RecordedSpec:
    """Returns the parts of a result's spec that readers of its tables need. Nothing is run or opened.

    Args:
        data: The spec in the result's manifest.
        source: A name for errors.
    """
    with _told(data, source, {}):
        time = TimeSpec(**parse(_table(data, "time"), "time", TimeSpec))
        monitor = _table(data, "monitor")
        if "interval" in monitor:
            monitor_spec = MonitorSpec(**parse(monitor, "monitor", MonitorSpec))
        else:
            monitor_spec = MonitorSpec(interval_ns=min(DEFAULT_INTERVAL_NS, time.duration_ns))
        metrics = MetricsSpec(**parse(_table(data, "metrics"), "metrics", MetricsSpec))
        seed = parse_value("seed", data.get("seed", 1), COUNT)
        return RecordedSpec(str(data.get("name", "experiment")), seed, time, monitor_spec, metrics)


def _table(data: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    table = data.get(section, {})
    if not isinstance(table, Mapping):
        raise KeyFault(section, table, f"is not a table; write [{section}] and keys below it")
    return table


def _build(data: Mapping[str, Any], source: str, origins: Mapping[str, str], base: Path, to_run: bool = True) -> Spec:
    """Reads and checks the spec, and builds the network once, so that every mistake shows before anything boots."""
    _run_plugins(data, source, origins, base)
    with _told(data, source, origins):
        here = frozenset(key for key, origin in origins.items() if origin == OVERRIDE)
        with usercode.blamed():  # the keys of a plug-in may check themselves
            spec = Spec(**_parse_all(data, base, here))
        for section, name, path in spec.paths():
            _check_file(f"{section}.{name}", path)
        for path in spec.kernel.patch:
            _check_file(result_code.PATCH_KEY, path)
            usercode.read(path)
        _check_code(spec)
        with usercode.blamed():
            _check_network(spec, to_run)
    return spec


@contextmanager
def _told(data: Mapping[str, Any], source: str, origins: Mapping[str, str]) -> Iterator[None]:
    """Turns an error into one line that begins with the place where the value was written."""
    try:
        yield
    except KeyFault as fault:
        why = fault.why + _did_you_mean(fault.key, fault.beside) if isinstance(fault, UnknownKey) else fault.why
        if fault.key in PLUGGED and why.startswith("unknown; one of:") and not data.get("plugins"):
            why += ' (the name of a plug-in needs plugins = ["FILE.py"])'
        key_fault = KeyFault(fault.key, _written(data, fault.key, fault.value), why)
        raise SpecError(f"{origins.get(fault.key.partition('[')[0], source)}: {key_fault}") from None
    except (SpecError, MachineError):
        raise
    except TestbedError as error:
        match = fullmatch(VALUE, str(error))
        written = _written(data, match[1], NOT_WRITTEN) if match else NOT_WRITTEN
        if match and written is not NOT_WRITTEN:
            raise SpecError(f"{origins.get(match[1], source)}: {KeyFault(match[1], written, match[3])}") from None
        raise SpecError(str(error) if hasattr(error, PLACED) else f"{source}: {error}") from None


def _parse_all(data: Mapping[str, Any], base: Path, here: Collection[str]) -> dict[str, Any]:
    """Returns the arguments of Spec.

    `here` holds the keys that were set on the command line, so that their paths do not belong to the file's folder.
    """
    values: dict[str, Any] = {}
    for section, cls in SECTIONS.items():
        table = data.get(section, {}) if section else {key: part for key, part in data.items() if not key or key not in SECTIONS}
        if not isinstance(table, Mapping):
            raise KeyFault(section, table, f"is a table; write [{section}] and a key such as {_first_key(section)}")
        parsed = _placed(parse(table, section, cls), section, cls, base, here)
        if parsed.get("exec"):
            parsed["exec"] = tuple(program.beside(base) for program in parsed["exec"])
        if parsed.get("beside"):
            parsed["beside"] = tuple(traffic.placed(base) for traffic in parsed["beside"])
        values |= {section: cls(**parsed)} if section else parsed
    return values


def _placed(parsed: dict[str, Any], section: str, cls: type, base: Path, here: Collection[str]) -> dict[str, Any]:
    """Returns the arguments of a section with absolute paths."""

    def based(key: str, value: Any) -> Any:
        name = f"{section}.{key}" if section else key
        if isinstance(value, str) and name == POLICY_KEY:
            return _place_class(value, base, POLICY_KEY in here)
        if isinstance(value, tuple) and name in LISTS:
            return tuple(_place(path, base, name in here) for path in value)
        return _place(value, base, name in here) if isinstance(value, Path) else value

    keys = {key_field.name: key for key, key_field in fields_by_key(cls).items()}
    kind_values = {
        holder.name: tuple((key, based(key, value)) for key, value in parsed.get(holder.name, ())) for holder in own_fields(cls)
    }
    return {name: based(keys.get(name, name), value) for name, value in parsed.items()} | kind_values


def _place(path: Path, base: Path, here: bool) -> Path:
    """Returns the absolute place of a path, from the spec's folder.

    A path set by an override is first looked for from the working folder.
    """
    return Path.cwd() / path if here and Path(path).is_file() else base / path


def _place_class(text: str, base: Path, here: bool) -> str:
    """Returns FILE.py:Class with the absolute place of the file, if it is there; any other text as it is."""
    file, colon, name = text.rpartition(":")
    if not (colon and file.endswith(usercode.SUFFIX)):
        return text
    path = _place(Path(file), base, here)
    return f"{path}:{name}" if path.is_file() else text


def _check_execs(spec: Spec, graph: Graph, to_run: bool) -> None:
    """Checks that hosts and programs exist before anything boots. In a run that is only shown, the programs may be gone."""
    hosts = [host.name for host in graph.hosts]
    for number, entry in enumerate(spec.workload.exec or ()):
        section, program = f"workload.exec[{number}]", entry.words()[0]
        if entry.host not in hosts:
            raise KeyFault(f"{section}.host", entry.host, f"is not one of the hosts {hosts[0]} .. {hosts[-1]} of the topology")
        if entry.start_ns >= spec.time.duration_ns:
            raise KeyFault(f"{section}.start", entry.start_ns, "is not before time.duration; it would never run")
        if (name := entry.stranger(graph)) is not None:
            raise KeyFault(
                f"{section}.command", entry.command, f"{{{name}}} is the address of no host; {hosts[0]} .. {hosts[-1]} have one"
            )
        if to_run and find_program(program) is None:
            raise KeyFault(f"{section}.command", entry.command, f"there is no program {program!r}; install it, or give its path")


def _check_file(key: str, path: str | Path | None) -> None:
    """Raises KeyFault if a path names no file. A name is not a path."""
    if isinstance(path, Path) and not path.is_file():
        raise KeyFault(key, str(path), "no such file; paths are relative to the spec")


def _run_plugins(data: Mapping[str, Any], source: str, origins: Mapping[str, str], base: Path) -> None:
    """Runs the plug-ins before everything else, because any other key may use the names that they register."""
    with _told(data, source, origins):
        if (version := data.get("spec_version", SPEC_VERSION)) != SPEC_VERSION:
            check_version(version)
        for path in parse_value("plugins", data.get("plugins", []), PATHS):
            plugin = _place(path, base, origins.get("plugins") == OVERRIDE)
            _check_file("plugins", plugin)
            tcp_sources.load_plugin(plugin)


def _check_code(spec: Spec) -> None:
    """Checks that the files of code have different names, since a result keeps them side by side."""
    names = [path.name for path in spec.code()]
    for name in names:
        if names.count(name) > 1:
            raise KeyFault("plugins", name, "is the name of two files; rename one")


def _check_network(spec: Spec, to_run: bool) -> None:
    """Checks that topology and workload are possible as requested, and that they fit each other."""
    graph = spec.graph()
    spec.capture.check_ports(graph)
    _check_execs(spec, graph, to_run)
    spec.actuated(graph)
    spec.balance(graph)
    spec.changes(graph)
    spec.check_episodes(graph)
    spec.monitor.traced(spec.flows(graph))
    if spec.controller.nic:
        _check_nics(spec, graph, to_run)


def _check_nics(spec: Spec, graph: Graph, to_run: bool) -> None:
    """Checks the NICs. With `to_run`, also checks the algorithm's own rules, for which it may have to be compiled."""
    lines_bps = [graph.cable_of(port).rate_bps for host in graph.hosts for port in graph.ports_of(host.name)]
    if min(lines_bps) < LEAST_LINE_BPS:
        why = f"a host's link has {format_rate(min(lines_bps))}, and NICs need {format_rate(LEAST_LINE_BPS)}; give that or more"
        raise KeyFault("topology.rate", None, why)
    if spec.controller.telemetry:
        telemetry.check(graph, spec.controller.name, spec.later_rates_bps)
    if to_run:
        from dc_gym.spec import nic_configuration  # imports NumPy

        nic_configuration.check(spec, max(lines_bps))


def _read(path: Path, trust: bool, say: Say | None) -> dict[str, Any]:
    """Returns the plain contents of a spec file, or of one for a Mininet file. A result's code is checked and reported."""
    if path.suffix == usercode.SUFFIX:
        return _of_mininet(path)
    if files.is_network(path):
        return _of_network_file(path)
    try:
        text = bounded.read_text(path)
    except OSError as error:
        raise SpecError(f"{path}: cannot read the spec: {with_remedy(error, 'give the path of a TOML file')}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: the spec is not UTF-8 text; give the path of a TOML file") from None
    try:
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except RecursionError:
        raise SpecError(f"{path}: its lists or tables lie too deep in one another; give the path of a TOML file") from None
    except ValueError as error:  # JSONDecodeError and TOMLDecodeError
        raise SpecError(f"{path}: not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}{_remedy_of(path)}") from None
    manifest = _manifest_of(path, data)
    for line in [] if manifest is None else result_code.require_safe(path, manifest, trust=trust):
        if say is not None:
            say(line)
    is_result = isinstance(data, dict) and "result_version" in data
    spec = data.get("spec") if is_result else data
    if not isinstance(spec, dict):
        raise SpecError(f"{path}: contains no spec; give a TOML file, or the folder of a result")
    return dict(_of_result(spec)) if is_result else spec


def _remedy_of(path: Path) -> str:
    """Returns what to do with a file that is no spec."""
    if path.suffix in (".toml", ".json"):
        return ""
    if flow_files.FORMATS.find(head_of(path)) is not None:
        return "; it holds flows: give it by --flows, and a network before it"
    return f"; give a spec, or a network in one of these formats: {files.FORMATS.titles}"


def _of_mininet(path: Path) -> dict[str, Any]:
    """Returns a spec for the `Topo` in a Python file: Mininet's queues, and flows between pairs of hosts."""
    topology = {"kind": "mininet", "file": path.name, "rate": "1Gbit/s", "buffer": "1000p"}
    return {"topology": topology, "controller": {"name": "cubic"}, "workload": {"kind": "pairs"}, "time": {"duration": "1s"}}


def _of_network_file(path: Path) -> dict[str, Any]:
    """Returns a spec for the network in another tool's file, in which each host sends to another one."""
    topology = {"kind": "file", "file": path.name, "rate": "10Gbit/s", "delay": "1us", "buffer": "1000p", "k_bytes": "65p"}
    other = {"controller": {"name": "cubic"}, "workload": {"kind": "random_bijective"}, "time": {"duration": "1s"}}
    return {"topology": topology, **other}


def _of_result(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the spec of a result as it is written now. Earlier ones over RDMA have `transport = "tcp"`, which had no effect."""
    controller, nic, workload = (data.get(section) for section in ("controller", "nic", "workload"))
    if not isinstance(controller, Mapping) or not isinstance(workload, Mapping) or workload.get("transport") != "tcp":
        return data
    known = controllers.find(str(controller.get("name")))
    capped = isinstance(nic, Mapping) and "tcp" in nic
    if known is None or not known.nic or "tcp" in controller or capped:
        return data
    return {**data, "workload": {key: value for key, value in workload.items() if key != "transport"}}


def _manifest_of(path: Path, data: Any) -> dict[str, Any] | None:
    """Returns the manifest of the result to which a spec file belongs, with the file's own spec; None if it belongs to none.

    Besides manifest.json itself it may be another spec in the result's folder.
    """
    if isinstance(data, dict) and "result_version" in data:
        return data
    try:
        beside = plain_json.read(path.parent / MANIFEST)
    except (OSError, ValueError):
        return None
    return {**beside, "spec": data} if isinstance(beside, dict) and "result_version" in beside else None


def _put_all(data: dict[str, Any], overrides: Iterable[str], source: str, base: Path) -> dict[str, str]:
    """Sets the keys, and returns the origin of each. A network given only by its name replaces preset and kind."""
    origins: dict[str, str] = {}
    named = [(text.partition("=")[0].strip(), text) for text in overrides]
    for text in (text for name, text in named if name == "plugins"):
        _put(data, *_override(text))
        origins["plugins"] = OVERRIDE
    _run_plugins(data, source, origins, base)  # the other texts may be names and keys that a plug-in registers
    for name, text in [pair for pair in named if pair[0] != "plugins"]:
        key, value = _override(text)
        _put(data, key, value)
        origins[key] = OVERRIDE
        if name == "topology" and key in SHORT["topology"]:
            other = next(short_key for short_key in SHORT["topology"] if short_key != key)
            data["topology"].pop(other.rpartition(".")[2], None)
    return origins


def _override(text: str) -> tuple[str, Any]:
    """Returns key and value of "key=value".

    A value is read as TOML, such as a list, otherwise as bare text. A table is accepted only for keys that are tables.
    """
    key, equals, raw = text.partition("=")
    key, raw = key.strip(), raw.strip()
    if not equals or not key:
        raise SpecError(f"{OVERRIDE} {text!r}: not key=value; write it like {OVERRIDE} controller.name=nv")
    try:
        parsed = tomllib.loads(f"value = {raw}")
        value = parsed["value"] if len(parsed) == 1 else raw
    except (ValueError, RecursionError) as error:  # TOMLDecodeError; a number or a list that is too long or too deep to be read
        if raw.startswith("["):  # in most cases the shell has removed the quotation marks
            raise SpecError(
                f"{OVERRIDE} {text!r}: not a TOML list ({error}); quote it: {OVERRIDE} 'plugins=[\"ring.py\"]'"
            ) from None
        value = raw
    if isinstance(value, str) and key in LISTS:
        value = [value]
    elif isinstance(value, str):
        key = _key_of_section(key, value)
    if isinstance(value, dict) and not _is_table(key):
        raise SpecError(f"{OVERRIDE} {text!r}: the value is {type_name(value)}; set one key at a time")
    return key, value


def _key_of_section(key: str, value: str) -> str:
    """Returns the key that a plain text for a table stands for: controller=nv is controller.name=nv."""
    known = {"controller.name": controllers.names(), "topology.kind": presets.TOPOLOGIES}
    named = [candidate for candidate in SHORT.get(key, ()) if value in known.get(candidate, ())]
    return next(iter((*named, *SHORT.get(key, ()))), key)


def _is_table(key: str) -> bool:
    """Returns True for a key that is a table with arbitrary names."""
    key_field = field_of_key(key)
    return key_field is not None and dict in key_field.metadata["kind"].toml_types


def _put(data: dict[str, Any], key: str, value: Any, origin: str = OVERRIDE) -> None:
    """Sets a dotted key, or an entry of a key that is a table: nic.parameters.g."""
    if key not in keys() and not _is_table(key.rpartition(".")[0]):
        raise SpecError(f"{origin}: {key}: unknown key{_did_you_mean(key)}")
    *outer, name = key.split(".")
    table: Any = data
    for part in outer:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return  # a mistake in the file; it is reported when the section is read
    table[name] = value


def _did_you_mean(key: str, beside: Iterable[str] = ()) -> str:
    """Returns a hint with the most similar known key.

    That is one of those beside it in an array of tables, one with the same last name, or one with similar spelling.
    """
    known = keys()
    if key in SHORT:
        return f"; write {' or '.join(SHORT[key])}"
    section, _, name = key.rpartition(".")
    if section.endswith("]"):
        return f"; {spelling.hint(name, beside)}"
    same = [other for other in known if other.rpartition(".")[2] == key.rpartition(".")[2]]
    near = spelling.near(key, same) or same or spelling.near(key, [*known, *filter(None, SECTIONS)])
    return f"; did you mean {near[0]}?" if near else "; docs/spec.md lists the keys"


def _first_key(section: str) -> str:
    name, key_field = next(iter(fields_by_key(SECTIONS[section]).items()))
    return f"{name} ({key_field.metadata['kind'].example})"


def _written(data: Mapping[str, Any], key: str, otherwise: Any) -> Any:
    """Returns the value of a key such as events[0].at as the user wrote it, `otherwise` if the user wrote none or it is None."""
    node: Any = None if otherwise is None else data
    for name, number in findall(r"([^.\[\]]+)(?:\[([0-9]+)\])?", key):
        if not isinstance(node, Mapping) or name not in node:
            return otherwise
        node = node[name]
        if number and isinstance(node, list) and int(number) < len(node):
            node = node[int(number)]
    return node
