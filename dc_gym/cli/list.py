# SPDX-License-Identifier: Apache-2.0
"""`dcgym list`: the names that a spec can use; for one name, its description and keys; the contents of a result's files."""

from __future__ import annotations

import inspect
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dc_gym.base.amount import write
from dc_gym.base.errors import UsageError
from dc_gym.base.key import default_of, fields_by_key, quoted, to_plain
from dc_gym.base.registry import Entry
from dc_gym.base.spelling import unknown
from dc_gym.base.terminal import say
from dc_gym.base.units import format_rate, format_time
from dc_gym.ctrl import actuators, controllers, tcp_sources
from dc_gym.ctrl import policies as policy_kinds
from dc_gym.spec import AgentSpec
from dc_gym.spec.settings import ControllerSpec
from dc_gym.topologies import marking, presets, qdiscs
from dc_gym.topologies.topology_spec import TopologySpec
from dc_gym.traffic import sizes
from dc_gym.traffic.workload_spec import WorkloadSpec
from dc_gym.traffic.workloads import KINDS

WORKLOAD, TOPOLOGY = fields_by_key(WorkloadSpec), fields_by_key(TopologySpec)
AGENT, CONTROLLER = fields_by_key(AgentSpec), fields_by_key(ControllerSpec)
"""The keys that all kinds have."""
MOST_NAMES = 4


def main(args: Namespace) -> int:
    """Runs the command. `args.what` is None, a group, a name in one, or a table of the spec."""
    for path in args.plugins:
        tcp_sources.load_plugin(path)
    if args.what is None or args.what in GROUPS:
        for name in (args.what,) if args.what else GROUPS:
            say("\n".join([f"{name}:", *(f"  {line}" for line in GROUPS[name]())]))
        return 0
    printers = [show for known, show in SHOWN if args.what in known()]
    for number, show in enumerate(printers):
        say(end="\n" if number else "")  # a workload and a marking may have the same name
        show(args.what)
    if not printers:
        _show_section(args.what)
    return 0


def _topologies() -> list[str]:
    lines = [_preset_line(name, params) for name, params in presets.PRESETS.items()]
    return lines + [f"{name:14} (kind) needs {', '.join(kind.needs()) or 'nothing'}" for name, kind in presets.TOPOLOGIES.items()]


def _preset_line(name: str, params: TopologySpec) -> str:
    graph = presets.build(presets.resolve(params))
    texts = (format_rate(params.rate_bps or 0), format_time(params.delay_ns or 0), write(params.buffer_bytes or 0))
    return f"{name:14} {params.kind:10} {len(graph.hosts):3} hosts, {texts[0]}, {texts[1]} a link, {texts[2]} a port"


def _workloads() -> list[str]:
    return [f"{name:14} {first_line(kind.call)}" for name, kind in KINDS.items()]


def _markings() -> list[str]:
    return [
        f"{marking.AUTO:14} {plain(marking.AUTO_HELP)}",
        *(f"{name:14} {plain(kind.help)}" for name, kind in marking.KINDS.items()),
    ]


def _qdiscs() -> list[str]:
    return [f"{name:14} {plain(kind.help)}" for name, kind in qdiscs.KINDS.items()]


def _controllers() -> list[str]:
    known = [controllers.find(name) for name in controllers.names()]
    return [f"{entry.name:14} {entry.label}{', reads ECN' if entry.ecn else ''}" for entry in known if entry]


def _actuators() -> list[str]:
    return [f"{name:14} {plain(kind.help)}" for name, kind in actuators.KINDS.items()]


def _policies() -> list[str]:
    return [f"{name:16} {first_line(kind.call)}" for name, kind in _known_policies().items()]


def _features() -> list[str]:
    return [f"{name:14} {description}" for name, description in _known_features().items()]


def _rewards() -> list[str]:
    return [f"{name:16} {description}" for name, description in _known_rewards().items()]


def _known_policies() -> Mapping[str, Entry]:
    """Returns the registered policies. Importing them takes a moment, so it happens here."""
    import dc_gym.run.agent.policy_selection  # noqa: F401

    return policy_kinds.KINDS


def _known_features() -> dict[str, str]:
    """Describes each feature: the registered ones, and the values that actuators set."""
    from dc_gym.run.agent import observation
    from dc_gym.run.agent.scene import RATE

    texts = {
        feature.name: f"{feature.kind}{' or class' * feature.classes}, {feature.low:g}..{feature.high:g}: {feature.formula}"
        for feature in observation.features()
    }
    for name in actuators.names():
        kind = "flow" if _actuator(name).of_flows else "port"
        for quantity in _actuator(name).quantities:
            if quantity.name not in (*texts, RATE):
                texts[quantity.name] = f"{kind}, 0..1: what is in force of actuator {name} over its upper bound: {quantity.help}"
    return texts


def _known_rewards() -> dict[str, str]:
    from dc_gym.run.agent import reward

    return {entry.name: f"{'cost: ' if entry.cost else ''}{entry.formula}" for entry in reward.rewards()}


def _actuator(name: str) -> actuators.Actuator:
    actuator = actuators.find(name)
    assert actuator is not None, "one of KINDS"
    return actuator


def _distributions() -> list[str]:
    return [f"{name:14} {sizes.comment(name, 'workload')}" for name in sizes.names()]


GROUPS: dict[str, Callable[[], list[str]]] = {
    "topologies": _topologies,
    "markings": _markings,
    "qdiscs": _qdiscs,
    "workloads": _workloads,
    "controllers": _controllers,
    "actuators": _actuators,
    "policies": _policies,
    "features": _features,
    "rewards": _rewards,
    "distributions": _distributions,
}
FILES = (
    *("flows.parquet", "queues.parquet", "tcp.parquet", "nic_flows.parquet", "decisions.parquet", "classes.parquet"),
    *("class_queues.parquet", "nic_events.parquet", "acks.parquet", "nexthops.parquet", "reordering.parquet"),
    *("messages.parquet", "ranks.parquet", "port_metrics.parquet", "flow_metrics.parquet"),
    *("ports.json", "summary.json"),
)
"""The files of a result that have columns or keys."""


def _show_workload(name: str) -> None:
    entry = KINDS[name]
    say(f"workload.kind = {name!r}: {plain(told_of(entry.call))}\n")
    _print_keys(
        "workload", entry.declared | {name: field for name, field in WORKLOAD.items() if name not in ("kind", *entry.declared)}
    )


def _show_topology(name: str) -> None:
    """Prints the keys of a kind, or of a preset's kind, and the keys that all kinds have."""
    params = presets.PRESETS.get(name)
    entry = presets.TOPOLOGIES[name if params is None else str(params.kind)]
    if params is None:
        needs = f" It needs {', '.join(f'topology.{key}' for key in entry.needs())}." if entry.needs() else ""
        say(f"topology.kind = {name!r}: {plain(told_of(entry.call))}{needs}\n")
    else:
        say(f"topology.preset = {_preset_line(name, params)}\nfrom: {plain(presets.ORIGINS.get(name, ''))}\n")
    marks = marking.KINDS[marking.resolve(None if params is None else params.marking, ecn=True)]
    rest = {name: field for name, field in TOPOLOGY.items() if name not in ("preset", "kind")}
    _print_keys("topology", entry.declared | rest | marks.declared, {} if params is None else _set_by(params))


def _show_marking(name: str) -> None:
    entry = marking.KINDS[name]
    say(f"topology.marking = {name!r}: {plain(entry.help)}\n")
    _print_keys("topology", {"marking": TOPOLOGY["marking"]} | entry.declared)


def _show_qdisc(name: str) -> None:
    entry = qdiscs.KINDS[name]
    say(f"topology.qdisc = {name!r}: {plain(entry.help)}\n")
    _print_keys("topology", {"qdisc": TOPOLOGY["qdisc"]} | entry.declared)


def _set_by(params: TopologySpec) -> dict[str, str]:
    """Returns the values that a preset gives, by key, as in the file."""
    plain = to_plain(params, TopologySpec)
    return {f"topology.{name}": "some links" if name == "links" else quoted(value) for name, value in plain.items()}


def _show_controller(name: str) -> None:
    """Prints a controller's description and its keys.

    A TCP has one key. A NIC's algorithm describes its parameters itself, and has [nic].
    """
    controller = controllers.find(name)
    assert controller is not None, "one of names()"
    if controller.nic:
        from dc_gym.cli import nic

        nic.main(Namespace(action="show", name=name, preset="", line=None, json=False))
        say("\nset by nic.parameters.NAME; and")
        _print_keys("nic", _keys_of("nic"))
        return
    say(f"controller.name = {name!r}: {controller.label}{', reads ECN' if controller.ecn else ''}\n")
    _print_keys("controller", _keys_of("controller"))


def _show_actuator(name: str) -> None:
    """Prints the values that an actuator sets, and its keys."""
    actuator = _actuator(name)
    say(f"agent.actuators = {name!r}: {plain(actuator.help)}; ground {' or '.join(actuator.grounds)}\n")
    for quantity in actuator.quantities:
        say(f"{quantity.name}, {quantity.unit}: {plain(quantity.help)}")
    say()
    _print_keys("agent", {"actuators": AGENT["actuators"]} | actuators.KINDS[name].declared)


def _show_policy(name: str) -> None:
    entry = policy_kinds.KINDS[name]
    say(f"controller.policy = {name!r}: {plain(told_of(entry.call))}\n")
    _print_keys("controller", {"policy": CONTROLLER["policy"]} | entry.declared)


def _show_feature(name: str) -> None:
    say(f"agent.observe = {name!r}: {_known_features()[name]}")


def _show_reward(name: str) -> None:
    say(f"agent.reward = {name!r}: {_known_rewards()[name]}")


def _show_section(name: str) -> None:
    from dc_gym.spec.experiment import SECTIONS

    if name not in SECTIONS or not name:
        known = [known_name for named, _ in SHOWN for known_name in named()]
        names = (*GROUPS, *known, *filter(None, SECTIONS))
        raise UsageError(unknown("name", name, dict.fromkeys(names)))
    say(f"{first_line(SECTIONS[name])}\n")
    _print_keys(name, _keys_of(name))


def _show_file(name: str) -> None:
    """Prints the description of a result's file, and of each of its columns or keys."""
    from dc_gym.base.readable import columns
    from dc_gym.results.folder import CONTENTS

    say(f"{name}: {plain(CONTENTS[name])}\n")
    rows = ((key, plain(meaning)) for key, meaning in columns_of(name))
    say(columns([("column" if name.endswith("parquet") else "key", "what it is"), *rows]))


SHOWN: tuple[tuple[Callable[[], Iterable[str]], Callable[[str], None]], ...] = (
    (lambda: KINDS, _show_workload),
    (lambda: (*presets.PRESETS, *presets.TOPOLOGIES), _show_topology),
    (lambda: marking.KINDS, _show_marking),
    (lambda: qdiscs.KINDS, _show_qdisc),
    (controllers.names, _show_controller),
    (lambda: actuators.KINDS, _show_actuator),
    (_known_policies, _show_policy),
    (_known_features, _show_feature),
    (_known_rewards, _show_reward),
    (lambda: FILES, _show_file),
)
"""The names that can be explained, and the function that explains one."""


def columns_of(file: str) -> list[tuple[str, str]]:
    """Returns the names of the columns or keys of one of FILES, each with its meaning in Markdown."""
    from dc_gym.results import results, tables
    from dc_gym.results.metrics import names, pauses, queues, summary

    if file == "summary.json":
        return [(name, metrics.formula) for metrics in names.FORMULAS for name in metrics.titles]
    derived: dict[str, Mapping[str, str]] = {
        "ports.json": results.PORT_KEYS,
        "port_metrics.parquet": {**queues.COLUMNS, **queues.LOST},
        "flow_metrics.parquet": {**summary.FLOW_COLUMNS, **pauses.COLUMNS, **summary.IDEAL_COLUMNS},
    }
    if file in derived:
        return list(derived[file].items())
    return [(column.name, column.meaning) for column in tables.TABLES[file.removesuffix(".parquet")].declared]


def _keys_of(section: str) -> dict[str, Any]:
    """Returns the keys of a section, including the keys of all kinds."""
    from dc_gym.base.key import all_fields
    from dc_gym.spec.experiment import SECTIONS

    return all_fields(SECTIONS[section])


def _print_keys(section: str, keys: Mapping[str, Any], values: Mapping[str, str] | None = None) -> None:
    """Prints a line for each key: how it is written, its value if `values` has one, otherwise its default, and its meaning."""
    from dc_gym.base.readable import columns

    set_values, rows = values or {}, []
    for name, field in keys.items():
        key = f"{section}.{name}"
        default = default_of(field) or ("needed" if field.metadata["needed"] else "")
        rows.append((key, _written(field), set_values.get(key, plain(default)), plain(field.metadata["help"])))
    say(columns([("key", "written as", "value or default" if set_values else "default", "what it is"), *rows]))


def _written(field: Any) -> str:
    """Returns how a key is written in the file: its few names, otherwise an example with its unit, and the bounds."""
    kind, low, high = (field.metadata[name] for name in ("kind", "low", "high"))
    names = list(field.metadata["names"]()) if field.metadata["names"] else []
    if names:
        return " | ".join(names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], "..."])
    bounds = [f"at least {kind.write(low)}"] if low not in (None, 0, 1) else []
    bounds += [f"at most {kind.write(high)}"] if high is not None else []
    return ", ".join([str(kind.example), *bounds])


def meanings() -> dict[str, tuple[str, str]]:
    """Returns default and meaning of every key, as plain text."""
    from dc_gym.spec.experiment import SECTIONS

    texts = {}
    for section in SECTIONS:
        for name, field in _keys_of(section).items():
            texts[f"{section}.{name}" if section else name] = (plain(default_of(field)), plain(field.metadata["help"]))
    return texts


def plain(text: str) -> str:
    """Returns Markdown as plain text."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").strip() or "-"


def told_of(definition: Any) -> str:
    """Returns the docstring of a class or a function in one line."""
    return " ".join((inspect.getdoc(definition) or "").split())


def first_line(definition: Callable[..., object]) -> str:
    return plain((definition.__doc__ or "").strip().partition("\n")[0])
