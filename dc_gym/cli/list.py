# SPDX-License-Identifier: Apache-2.0
"""`dcgym list`: the names that a spec can use; for one name, what it is and which keys it reads.

The meanings of keys come from the table in docs/spec.md, of which the package has a copy.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping

from dc_gym.base.amount import write
from dc_gym.base.errors import UsageError
from dc_gym.base.package import PACKAGE
from dc_gym.base.spelling import unknown
from dc_gym.base.units import format_rate, format_time
from dc_gym.ctrl import controllers
from dc_gym.topologies import presets
from dc_gym.topologies.links import LinkParams, key_of
from dc_gym.traffic import kinds
from dc_gym.traffic.workloads import KINDS

TABLE = PACKAGE / "spec" / "spec.md"
ALL_WORKLOADS = ("size_bytes", "rate_bps", "start_ns", "stop_ns", "jitter_ns", "transport", "gaps")
ALL_TOPOLOGIES = (*LinkParams.__dataclass_fields__, "host_qdisc", "scale", "links", "routing")
MOST_NAMES = 4


def main(args: Namespace) -> int:
    """Runs the command. `args.what` is None, a group, a name in one, or a table of the spec."""
    if args.what is None or args.what in GROUPS:
        for name in (args.what,) if args.what else GROUPS:
            print("\n".join([f"{name}:", *(f"  {line}" for line in GROUPS[name]())]))
        return 0
    if args.what in KINDS:
        return _show_workload(args.what)
    if args.what in presets.PRESETS or args.what in presets.TOPOLOGIES:
        return _show_topology(args.what)
    if args.what in controllers.names():
        return _show_controller(args.what)
    return _show_section(args.what)


def _topologies() -> list[str]:
    lines = [_preset_line(name, params) for name, params in presets.PRESETS.items()]
    return lines + [f"{name:14} (kind) needs {', '.join(kind.required)}" for name, kind in presets.TOPOLOGIES.items()]


def _preset_line(name: str, params: presets.TopologyParams) -> str:
    graph = presets.build(presets.resolve(params))
    texts = (format_rate(params.rate_bps or 0), format_time(params.delay_ns or 0), write(params.buffer_bytes or 0))
    return f"{name:14} {params.kind:10} {len(graph.hosts):3} hosts, {texts[0]}, {texts[1]} a link, {texts[2]} a port"


def _workloads() -> list[str]:
    return [f"{name:14} {_first_line(kind.pattern)}" for name, kind in KINDS.items()]


def _controllers() -> list[str]:
    known = [controllers.find(name) for name in controllers.names()]
    return [f"{each.name:14} {each.label}{', reads ECN' if each.ecn else ''}" for each in known if each]


GROUPS: dict[str, Callable[[], list[str]]] = {
    "topologies": _topologies,
    "workloads": _workloads,
    "controllers": _controllers,
}


def _show_workload(name: str) -> int:
    uses = KINDS[name].uses
    print(f"workload.kind = {name!r}: {_first_line(KINDS[name].pattern)}\n")
    _print_keys(map(kinds.key_of, dict.fromkeys((*uses, *ALL_WORKLOADS))))
    return 0


def _show_topology(name: str) -> int:
    """Prints the keys of a kind, for a preset those of its kind, and the keys that every link has."""
    params = presets.PRESETS.get(name)
    kind = presets.TOPOLOGIES[name if params is None else str(params.kind)]
    if params is None:
        print(f"topology.kind = {name!r}: {_first_line(kind.build)} It needs {', '.join(map(key_of, kind.required))}.\n")
    else:
        print(f"topology.preset = {_preset_line(name, params)}\n")
    known = dict.fromkeys(map(key_of, (*kind.required, *kind.optional, *ALL_TOPOLOGIES)))
    _print_keys(known, {} if params is None else _set_by(params))
    return 0


def _set_by(params: presets.TopologyParams) -> dict[str, str]:
    """Returns the values that a preset gives, by key, as in the file."""
    from dc_gym.base.key import fields_by_key, quoted
    from dc_gym.spec.experiment import SECTIONS

    found = {}
    for name, field in fields_by_key(SECTIONS["topology"]).items():
        if value := getattr(params, field.name, None):
            found[f"topology.{name}"] = "some links" if name == "links" else quoted(field.metadata["kind"].write(value))
    return found


def _show_controller(name: str) -> int:
    """Prints what a controller is and its keys.

    A TCP has one key. A NIC's algorithm describes its parameters itself, and has [nic].
    """
    found = controllers.find(name)
    assert found is not None, "one of names()"
    if found.nic:
        from dc_gym.cli import nic

        nic.main(Namespace(action="show", name=name, preset="", line=None, json=False))
        print("\nset by nic.parameters.NAME; and")
        _print_keys(_keys_of("nic"))
        return 0
    print(f"controller.name = {name!r}: {found.label}{', reads ECN' if found.ecn else ''}\n")
    _print_keys(_keys_of("controller"))
    return 0


def _show_section(name: str) -> int:
    from dc_gym.spec.experiment import SECTIONS

    if name not in SECTIONS or not name:
        names = (*GROUPS, *KINDS, *presets.PRESETS, *presets.TOPOLOGIES, *controllers.names(), *filter(None, SECTIONS))
        raise UsageError(unknown("name", name, dict.fromkeys(names)))
    _print_keys(_keys_of(name))
    return 0


def _keys_of(section: str) -> list[str]:
    from dc_gym.spec import keys

    return [key for key in keys() if key.startswith(f"{section}.")]


def _print_keys(keys: Iterable[str], values: Mapping[str, str] | None = None) -> None:
    """Prints a line for each key: how it is written, its value if `values` has one, otherwise its default, and its meaning."""
    from dc_gym.base.readable import columns

    told, given = meanings(), values or {}
    rows = [(key, _written(key), given.get(key, told[key][0]), told[key][1]) for key in keys if key in told]
    print(columns([("key", "written as", "value or default" if given else "default", "what it is"), *rows]))


def _written(key: str) -> str:
    """Returns how a key is written in the file: its few names, otherwise an example with its unit."""
    from dc_gym.base.key import fields_by_key
    from dc_gym.spec.experiment import SECTIONS

    section, _, name = key.rpartition(".")
    metadata = fields_by_key(SECTIONS[section])[name].metadata
    names = list(metadata["names"]()) if metadata["names"] else []
    if names:
        return " | ".join(names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], "..."])
    return str(metadata["kind"].example)


def meanings() -> dict[str, tuple[str, str]]:
    """Returns default and meaning of every key, from the table of docs/spec.md."""
    rows = re.findall(r"^\| `([a-z_0-9.]+)` \|(.*?)\| (.*) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    return {key: (_plain(default), _plain(meaning)) for key, default, meaning in rows}


def _plain(text: str) -> str:
    """Returns Markdown as plain text."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").strip() or "-"


def _first_line(made: Callable[..., object]) -> str:
    return (made.__doc__ or "").strip().partition("\n")[0]
