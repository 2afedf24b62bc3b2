# SPDX-License-Identifier: Apache-2.0
"""`dcgym verify`: reports whether two runs are the same and, if not, the first record in virtual time where they diverge. The
same means equal records, and equal actions, rewards and learned states of agents.

    dcgym verify DIR                  runs DIR's spec again and compares the two (so does --against DIR alone)
    dcgym verify DIR --against OTHER  compares two results and runs nothing
    dcgym verify SWEEP                runs every result below a folder again, a line each

It first reports differences between the experiments themselves (spec, its files, environment), because these cause differences of
the results.
"""

from __future__ import annotations

import json
import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import ResultError, TestbedError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.results import results
from dc_gym.results.agent_digest import first_agent_difference
from dc_gym.results.divergence import Difference, Value, first_difference, history, values_of
from dc_gym.results.results import Result
from dc_gym.results.tables import TABLES, Tables
from dc_gym.run import runner
from dc_gym.spec import from_dict
from dc_gym.spec.result_code import require_safe

__all__ = ["Verdict", "compare", "experiment_differences", "main", "verify"]

BEFORE = 10
MISSING = "(not stated)"
OF_SOURCES = ("programs", "agents")
"""The parts of the environment that are hashes over our sources."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of two results."""

    a: str
    b: str
    same: bool
    digest_a: str
    digest_b: str
    software: str
    """The parts of the fingerprint that differ; empty if the fingerprints are equal."""
    experiments: tuple[str, ...]
    """Differences of spec and environment, one line each. If it is empty, a difference of the results is unexpected."""
    difference: Difference | None
    before: tuple[str, ...]
    """The records before the difference and the differing ones, side by side."""
    agent_digest_a: str = ""
    """The digest of agents' actions and learned states; '' if none acted."""
    agent_digest_b: str = ""
    agent_difference: str = ""
    """Where the agents first differ, in words; '' if they do not."""

    @property
    def same_records(self) -> bool:
        return self.digest_a == self.digest_b

    def lines(self) -> Iterator[str]:
        """Yields the verdict in words."""
        yield f"A  {self.a}"
        yield f"B  {self.b}"
        yield from (f"other {experiment}" for experiment in self.experiments)
        if self.same:
            yield self._equal()
            return
        if self.agent_difference:
            yield f"different agents, digests {self.agent_digest_a or '-'} and {self.agent_digest_b or '-'}"
            yield f"  first difference: {self.agent_difference}"
        if self.same_records:
            yield f"equal records, digest {self.digest_a}"
            return
        yield f"different, digests {self.digest_a} and {self.digest_b}"
        if self.difference is None:
            yield "  every record is the same; only the digests that the manifests state differ"
            return
        yield f"  first difference: {self.difference}"
        if self.difference.also:
            yield f"  at the same instant also: {_listed(self.difference.also)}"
        yield from (f"  {line}" for line in self.before)

    def _equal(self) -> str:
        under = f"; equal records under different fingerprints ({self.software})" if self.software else ""
        agents = f", agent digest {self.agent_digest_a}" if self.agent_digest_a else ""
        return f"equal, digest {self.digest_a}{agents}{under}"

    def line(self) -> str:
        """Returns the verdict in one line."""
        if self.same:
            return self._equal()
        why = "every record is the same" if self.difference is None else f"first difference: {self.difference}"
        why += f"; the agents differ: {self.agent_difference}" if self.agent_difference else ""
        return "; ".join([f"different, digest {self.digest_b}", why, *(f"other {experiment}" for experiment in self.experiments)])


def main(args: Namespace, progress: Progress) -> int:
    """Runs the command with `args.dir`, `args.against`, `args.json`.

    Returns 0 when all are the same, otherwise 1, or 2 where one could not be compared.
    """
    folders = [Path(folder) for folder in (args.dir, args.against) if folder is not None]
    if not folders:
        raise UsageError("verify: give the folder of a result, or two: dcgym verify DIR --against OTHER")
    if len(folders) == 1 and results.holds_results(folders[0]):
        return _verify_all(folders[0], progress, args.json, trust=args.trust)
    if len(folders) == 1:
        verdict = verify(folders[0], progress, trust=args.trust)
    else:
        one, other = (results.load_result(folder, check_digest=True) for folder in folders)
        verdict = compare(one, other)
    say(json.dumps(asdict(verdict), indent=1) if args.json else "\n".join(verdict.lines()))
    return 0 if verdict.same else 1


def _verify_all(folder: Path, progress: Progress, to_json: bool, *, trust: bool) -> int:
    """Verifies every result below a folder, such as a sweep's, and prints a line for each as soon as it is known."""
    places, verdicts, codes = results.result_folders(folder), [], []
    for number, path in enumerate(places, 1):
        progress.note(f"{number} of {len(places)}: {path}")
        try:
            outcome = verify(path, progress, trust=trust)
        except TestbedError as error:
            verdict, code = {"a": str(path), "error": str(error)}, error.exit_code
            line = f"{path}: {str(error).removeprefix(f'{path}: ')}"
        else:
            verdict, code, line = asdict(outcome), 0 if outcome.same else 1, f"{path}: {outcome.line()}"
        verdicts.append(verdict)
        codes.append(code)
        if not to_json:
            say(line, flush=True)
    if to_json:
        say(json.dumps({"results": verdicts}, indent=1))
    else:
        say(f"{codes.count(0)} of {len(codes)} equal")
    return max(codes)


def verify(folder: Path, progress: Progress, *, trust: bool = False) -> Verdict:
    """Runs a result's spec again and compares the results. Code that the user has not run before runs only with `trust`."""
    result = results.load_result(folder, check_digest=True)
    written = _stated(result, "spec")
    if written is None:
        raise ResultError(f"{folder / 'manifest.json'}: spec is missing or no table, so it cannot be run again")
    for line in require_safe(folder / "manifest.json", result.manifest, trust=trust):
        progress.announce(line)
    spec = from_dict(written, folder, f"{folder / 'manifest.json'}: spec")
    if spec.clock == "real":
        raise UsageError(f"{folder}: a run in real time never repeats to the bit; compare two with dcgym compare A B")
    beside = folder.resolve().parent
    parent = beside if os.access(beside, os.W_OK) else Path(tempfile.gettempdir())  # the result may belong to somebody else
    with scratch(parent, "dcgym-verify-") as work:
        again = runner.run(spec, work / "again", progress, plot=False)
        return compare(result, again, (str(folder), f"{folder} run again"))


def compare(a: Result, b: Result, labels: tuple[str, str] | None = None) -> Verdict:
    """Compares any two results. Raises ResultError if their digests are of different versions."""
    versions = [result.manifest.get("digest_version", 1) for result in (a, b)]
    if versions[0] != versions[1]:
        raise ResultError(f"{a.path} has a digest of version {versions[0]}, {b.path} of {versions[1]}; run one of them again")
    names = labels or (str(a.path), str(b.path))
    differing, software = tuple(experiment_differences(a, b)), ", ".join(software_differences(a, b))
    agents = (a.agent_digest, b.agent_digest)
    unlike = "" if agents[0] == agents[1] else first_agent_difference(a.path, b.path)
    if a.digest == b.digest:
        return Verdict(*names, not unlike, a.digest, b.digest, software, differing, None, (), *agents, unlike)
    tables = (a.tables, b.tables)
    difference = first_difference(*tables)
    before = () if difference is None else tuple(side_by_side(*tables, difference))
    return Verdict(*names, False, a.digest, b.digest, software, differing, difference, before, *agents, unlike)


def experiment_differences(a: Result, b: Result) -> Iterator[str]:
    """Yields one line for each difference in keys of the specs, files that they read, and parts of the environments."""
    for section in ("spec", "inputs", "environment"):
        stated = [result.inputs if section == "inputs" else _stated(result, section) or {} for result in (a, b)]
        one, other = map(_flat, stated)
        for key in sorted(one.keys() | other.keys()):
            values = [json.dumps(table[key]) if key in table else MISSING for table in (one, other)]
            if values[0] != values[1] and (section, key) != ("spec", "name"):
                yield f"{section} {key}: {values[0]} and {values[1]}"
    if "host" in (a.manifest.get("ground"), b.manifest.get("ground")):
        yield "ground than a lab: in real time no two runs are equal"
    prints = [str(result.manifest.get("fingerprint", MISSING)) for result in (a, b)]
    if prints[0] != prints[1]:
        yield f"fingerprint: {prints[0]} and {prints[1]}"


def software_differences(a: Result, b: Result) -> list[str]:
    """Returns the parts in which two fingerprints differ, such as "libc" and "programs: traffic, spec"."""
    if a.manifest.get("fingerprint") == b.manifest.get("fingerprint"):
        return []
    parts = _differing(a, b, "environment")
    folders = _differing(a, b, "sources") if all(_stated(result, "sources") for result in (a, b)) else []
    names = [part for part in parts if part not in OF_SOURCES]
    if any(part in OF_SOURCES for part in parts):
        names.append("programs" + (f": {', '.join(folders)}" if folders else ""))
    return names or ["parts that they do not state"]


def _differing(a: Result, b: Result, section: str) -> list[str]:
    one, other = (_stated(result, section) or {} for result in (a, b))
    return [key for key in dict.fromkeys((*one, *other)) if one.get(key) != other.get(key)]


def side_by_side(a: Tables, b: Tables, difference: Difference, count: int = BEFORE) -> Iterator[str]:
    """Yields the `count` records before the difference, and the differing one, of A and of B.

    There is one line for each record. '>' and '*' mark the differences.
    """
    if difference.table not in TABLES:
        return
    table = TABLES[difference.table]
    rows = [*history(a, b, difference, count), difference.row]
    sides = [
        [values_of(tables, table.name, row) if row < len(tables.table(table.name)) else None for row in rows] for tables in (a, b)
    ]
    for side, lacks in zip(sides, ("b", "a"), strict=True):
        side[-1] = None if difference.only == lacks else side[-1]
    yield from _layout([name for name, _ in table.digested], table.order[:1], *sides)


Row = Mapping[str, Value] | None


def _layout(columns: Sequence[str], keys: Sequence[str], one: Sequence[Row], other: Sequence[Row]) -> Iterator[str]:
    """Yields two blocks of the columns that change. The others are listed below them."""
    stated = [row for row in (*one, *other) if row is not None]
    shown = [name for name in columns if name not in keys and len({row[name] for row in stated}) > 1]
    left = _block([*keys, *shown], one, other)
    right = _block([*keys, *shown], other, one)
    for number, (left_line, right_line) in enumerate(zip(left, right, strict=True)):
        yield f"{'  ' if number < len(left) - 1 else '> '}{left_line} | {right_line}".rstrip()
    same = [f"{name} {stated[0][name]}" for name in columns if name not in keys and name not in shown]
    if same:
        yield f"  the same in all of these: {', '.join(same)}"


def _block(columns: Sequence[str], side: Sequence[Row], beside: Sequence[Row]) -> list[str]:
    """Returns the lines of one side, heading first. A value that differs on the other side has a star."""
    lines = [[*(f"{name} " for name in columns)]]
    for row, opposite in zip(side, beside, strict=True):
        lines.append([_cell(row, opposite, name) for name in columns])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [" ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]


def _cell(row: Row, opposite: Row, name: str) -> str:
    if row is None:
        return "- "
    return f"{row[name]}{' ' if opposite is None or opposite[name] == row[name] else '*'}"


def _stated(result: Result, key: str) -> Mapping[str, Any] | None:
    value = result.manifest.get(key)
    return value if isinstance(value, Mapping) else None


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested tables with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _listed(words: Sequence[str], most: int = 8) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
