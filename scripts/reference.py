# SPDX-License-Identifier: Apache-2.0
"""Writes what only repeats what the code declares: tables of the documentation, and the JSON Schema of specs.

python scripts/reference.py           # `make lint` runs it; prints a line for each stale region, and fails if there is one
python scripts/reference.py --write   # renews the regions

A region of a page lies between the lines `<!-- generated: NAME -->` and `<!-- end -->`. NAME is one of REGIONS. The schema is
docs/spec.schema.json, as `dcgym schema` writes it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dc_gym.base.amount import write
from dc_gym.base.key import COUNT, default_of, fields_by_key, own_fields
from dc_gym.base.registry import Entry
from dc_gym.base.units import FRAME_BYTES, format_rate, format_size, format_time
from dc_gym.cli.conformance import report
from dc_gym.cli.list import FILES, columns_of, told_of
from dc_gym.cli.schema import schema, to_json
from dc_gym.ctrl import controllers
from dc_gym.results.folder import CONTENTS
from dc_gym.results.metrics.names import FORMULAS
from dc_gym.results.pages.markdown import table
from dc_gym.run.agent import reward
from dc_gym.spec.events import EventSpec
from dc_gym.spec.experiment import SECTIONS
from dc_gym.topologies import marking, presets, qdiscs
from dc_gym.traffic import sizes
from dc_gym.traffic.kinds import storage
from dc_gym.traffic.kinds.iroko import DIALECTS
from dc_gym.traffic.workload_spec import ExecSpec
from dc_gym.traffic.workloads import FAMILIES, KINDS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SCHEMA = "spec.schema.json"
REGION = re.compile(r"(?<=<!-- generated: )([\w. -]+?)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
MEASURED = re.findall(r"generated: (\w+)", report.BEGIN)
"""Regions that commands of dcgym write."""
ASIDE = re.compile(r" \((?![^()]*\]\()([^()\[\]]*)\)")
LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")
REMARK = re.compile(r", (?:so that|whatever|as|such as|in place of|likewise|without|by at most|in both)\b")
MOST_NAMES = 9
"""For a key with more possible values than this, its text links to a table of them."""


def main(argv: list[str], docs: Path = DOCS) -> int:
    """Compares all regions, or renews them. Returns 1 if one is stale or unknown."""
    parser = ArgumentParser(description="Checks the generated tables of the documentation.")
    parser.add_argument("--write", action="store_true", help="renew them")
    write_them, faults = parser.parse_args(argv).write, list[str]()
    for page in sorted(docs.rglob("*.md")):
        old = page.read_text(encoding="utf-8")
        new, names = REGION.sub(_renewed, old), [groups[0] for groups in REGION.findall(old)]
        faults += [f"{page.name}: nothing generates {name!r}" for name in names if name not in (*REGIONS, *MEASURED)]
        if write_them:
            page.write_text(new, encoding="utf-8")
        elif new != old:
            faults.append(f"{page.name}: a generated table is stale; run: python scripts/reference.py --write")
    faults += _schema_faults(docs / SCHEMA, write_them)
    print("".join(f"{fault}\n" for fault in faults), end="")
    return 1 if faults else 0


def _schema_faults(path: Path, write_it: bool) -> list[str]:
    """Compares the schema, or renews it."""
    new = to_json(schema())
    if write_it:
        path.write_text(new, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != new:
        return [f"{path.name}: is stale; run: python scripts/reference.py --write"]
    return []


def _renewed(match: re.Match[str]) -> str:
    name, mark, old = match.groups()
    return f"{name}{mark}{_text_of(name) if name in REGIONS else old}"


def _text_of(name: str) -> str:
    return "".join(f"{line}\n" for line in REGIONS[name]())


def code(*words: str) -> str:
    return ", ".join(f"`{word}`" for word in words)


def keys() -> Iterator[str]:
    """Yields the keys of a spec: a heading and a table for each section."""
    for section, cls in SECTIONS.items():
        summary = (cls.__doc__ or "").partition("\n")[0].partition(": ")[2]
        yield from (f"### `[{section}]`" if section else "### The top of the file", f"{summary[:1].upper()}{summary[1:]}", "")
        yield from _keys_of(cls, f"{section}." if section else "")
        yield ""
        for holder in own_fields(cls):
            yield from _keys_of_kinds(section, holder.metadata["registry"])


def _keys_of_kinds(section: str, registry: Any) -> Iterator[str]:
    """Yields the keys that kinds declare, a row for each key. Where kinds differ, `dcgym list KIND` says how."""
    forms: dict[str, list[Any]] = {}
    for _, declared in registry.keys_by_kind():
        for name, declaration in declared.items():
            forms.setdefault(name, []).append(declaration)
    if not forms:
        return
    yield from (f"Keys of a {registry.key.rpartition('.')[2]}:", "")
    yield from (_row(f"{section}.{name}", of_kinds) for name, of_kinds in forms.items())
    yield ""


def _keys_of(cls: type, prefix: str = "") -> Iterator[str]:
    return (_row(prefix + name, [declaration]) for name, declaration in fields_by_key(cls).items())


def _row(name: str, forms: list[Any]) -> str:
    """Returns a key, its default or what it takes, and its meaning. `forms` are its declarations by different kinds."""
    meanings = dict.fromkeys(short(form.metadata["help"], bool(form.metadata["names"])) for form in forms)
    return f"- {code(name)} ({value_of(forms)}): {'; '.join(meanings)}"


def short(text: str, named: bool = False) -> str:
    """Returns the first clause of a text, with the first link of the rest if it has none.

    `named`: the text of a key with names. What the names mean, behind a colon, goes, unless the text begins with a name.
    Of other texts, asides in parentheses that have more than three words and no link go, too.
    """
    begins = text.startswith("`")
    first = _clause(text, (".",) if named and begins else (";", "."))
    if named and not begins and len((before := _clause(first, (":",))).split()) > 3:
        first = before
    if not named:
        first = ASIDE.sub(lambda match: match[0] if len(match[1].split()) <= 3 else "", first)
        first = first if begins else REMARK.split(first)[0]
    link = LINK.search(text[len(first) :])
    return f"{first} ({link[0]})" if link and not LINK.search(first) else first


def _clause(text: str, ends: tuple[str, ...]) -> str:
    """Returns a text up to the first of these marks before a blank, outside of parentheses and code; "; or" ends no clause."""
    depth, inside = 0, False
    for index, letter in enumerate(text):
        if letter == "`":
            inside = not inside
        elif not inside:
            depth += (letter in "([") - (letter in ")]")
            ends_here = letter in ends and text[index + 1 : index + 2] == " " and text[index - 1] not in " ."
            if not depth and ends_here and text[index + 2 : index + 4] != "or":
                return text[:index]
    return text


def value_of(forms: list[Any]) -> str:
    """Returns what a key takes: its names, the default first; otherwise its default, or what it is and what holds without it."""
    metadata, defaults = forms[0].metadata, list(dict.fromkeys(map(default_of, forms)))
    default = defaults[0] if len(defaults) == 1 else "by kind"
    default = "" if default == "none" else default if default.startswith("`") else _clause(default, (":",))
    if metadata["names"]:
        names = sorted(metadata["names"](), key=lambda name: name != default.strip('`"'))
        taken = code(*names) if len(names) <= MOST_NAMES else f"{code(*names[:2])}, ..."
        if default.strip('`"') in names:
            return taken
        taken = taken if default else f"one of {taken}"
    elif re.fullmatch(r"`[^`]*`|\d+", default):
        return default
    else:
        taken = re.split(r" such as | with its unit|, or |: write ", re.sub(r"^an? ", "", metadata["kind"].example))[0]
        taken = {"whole number": "integer", "true or false": "boolean"}.get(taken, taken)
    return f"{taken}; {default}" if default else taken


def networks() -> Iterator[str]:
    """Yields the kinds of topologies."""
    rows = ((code(name), keys_of(kind), _clause(told_of(kind.call), (".",))) for name, kind in presets.TOPOLOGIES.items())
    return table(("kind", "keys", "shape"), rows)


def keys_of(kind: Entry) -> str:
    """Returns the keys that a kind needs, in bold, and those that it may have."""
    return ", ".join(filter(None, [*(f"**{code(key)}**" for key in kind.needs()), code(*kind.takes())]))


def _ordered(kinds: Mapping[str, Entry], families: Iterable[Any]) -> list[tuple[str, Entry]]:
    modules = [family.__name__ for family in families]
    return sorted(kinds.items(), key=lambda item: modules.index(item[1].call.__module__))


def _preset(name: str) -> tuple[str, ...]:
    spec = presets.PRESETS[name]
    values = dict(spec.shape)
    shape = [
        f"{key} {values[key]}"
        for key, declaration in presets.TOPOLOGIES[spec.kind or ""].declared.items()
        if key in values and declaration.metadata["kind"] is COUNT
    ]
    cables = f"{format_rate(spec.rate_bps or 0)}, {format_time(spec.delay_ns or 0)}"
    for rule in spec.links or ():
        cables += f"; {'-'.join(rule.between)} {format_rate(values['uplink_rate'])}, {format_time(rule.delay_ns or 0)}"
    buffer, k, hosts = spec.buffer_bytes or 0, dict(spec.thresholds)["k_bytes"], len(presets.build(spec).hosts)
    threshold = f"{k // FRAME_BYTES}p" if isinstance(k, int) else write(k)
    origin = _clause(presets.ORIGINS[name], (".", ";", ":"))
    return code(name), f"{spec.kind}, {', '.join(shape)}", str(hosts), cables, write(buffer), threshold, origin


def markings() -> Iterator[str]:
    rows = [(code(name), keys_of(kind), short(kind.help)) for name, kind in marking.KINDS.items()]
    return table(("`marking`", "keys", "it marks"), [(code(marking.AUTO), "", marking.AUTO_HELP), *rows])


def linux_queues() -> Iterator[str]:
    rows = [(code(name), code(*kind.takes()), kind.help) for name, kind in qdiscs.KINDS.items()]
    return table(("`qdisc`", "keys", "it"), rows)


def workloads() -> Iterator[str]:
    """Yields the kinds of workloads, in the order of their modules."""
    rows = ((code(name), keys_of(kind), _clause(told_of(kind.call), (".",))) for name, kind in _ordered(KINDS, FAMILIES))
    return table(("kind", "keys", "who sends what, when"), rows)


def nic_algorithms() -> Iterator[str]:
    algos = [algo for name in controllers.names() if (algo := controllers.find(name)) and algo.nic]
    return table(("algorithm", "from", "reads"), ((code(algo.name), algo.source, algo.reads) for algo in algos))


def rewards() -> Iterator[str]:
    rows = ((code(kind.name), f"{'cost: ' if kind.cost else ''}{kind.formula}") for kind in reward.rewards())
    return table(("reward", "what it is"), rows)


def distributions() -> Iterator[str]:
    """Yields the distributions of flow sizes."""
    rows = (
        (
            code(name),
            short(sizes.comment(name, "workload")),
            f"{round(sizes.load(name).mean_bytes()):,}",
            sizes.load(name).sampling,
        )
        for name in sizes.names()
    )
    return table(("name", "workload", "mean, bytes", "sampling"), rows)


def mixes() -> Iterator[str]:
    """Yields the mixes of storage operations."""
    blocks = {name: dict.fromkeys(map(format_size, (mix.least_bytes, mix.most_bytes))) for name, mix in storage.MIXES.items()}
    rows = ((code(name), f"{mix.reads} : {10 - mix.reads}", " - ".join(blocks[name])) for name, mix in storage.MIXES.items())
    return table(("`mix`", "reads : writes", "blocks"), rows)


def columns(file: str) -> Iterator[str]:
    """Yields the columns of a result's table, or the keys of a JSON file, in short."""
    return (f"- {code(name)}: {short(meaning)}" for name, meaning in columns_of(file))


def metrics() -> Iterator[str]:
    return (f"- {code(*metric.titles)}: {short(metric.formula)}" for metric in FORMULAS)


def layers() -> Iterator[str]:
    """Yields the folders from the highest to the lowest, as pyproject.toml's contracts have them. Siblings share a number."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    inside = {contract["containers"][0]: contract["layers"] for contract in linter["contracts"] if contract["type"] == "layers"}
    yield "```"
    for number, row in enumerate(inside["dc_gym"], 1):
        for position, room in enumerate(row.split(" | ")):
            folder = ROOT / "dc_gym" / room
            file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            summary = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
            yield f"{'' if position else number:>2} {room:10} {summary}"
            if below := inside.get(f"dc_gym.{room}"):
                yield f"{'':13} order: {' > '.join(siblings.replace(' | ', ', ') for siblings in below)}"
    yield "```"


REGIONS: dict[str, Callable[[], Iterator[str]]] = {
    "layers": layers,
    "keys": keys,
    "programs": lambda: _keys_of(ExecSpec),
    "events": lambda: _keys_of(EventSpec),
    "networks": networks,
    "presets": lambda: table(("preset", "shape", "hosts", "links", "buffer", "K", "from"), map(_preset, presets.PRESETS)),
    "markings": markings,
    "qdiscs": linux_queues,
    "workloads": workloads,
    "algorithms": nic_algorithms,
    "rewards": rewards,
    "distributions": distributions,
    "mixes": mixes,
    "dialects": lambda: table(
        ("dialect", "header", "of note"), ((name, f"`{','.join(header)}`", what) for name, (header, what) in DIALECTS.items())
    ),
    **{file: partial(columns, file) for file in FILES},
    "summary.json": metrics,
    "files": lambda: (f"- {code(name)}: {short(text)}" for name, text in CONTENTS.items()),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
