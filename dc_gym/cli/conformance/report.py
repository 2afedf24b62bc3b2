# SPDX-License-Identifier: Apache-2.0
"""Shows verdicts as a table, as JSON, and as the section of a document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_json_of, require_place
from dc_gym.cli.conformance.guest import ScriptOutcome
from dc_gym.cli.conformance.known import KNOWN
from dc_gym.cli.conformance.tun import FAMILIES

__all__ = ["as_json", "check_places", "lacking_options", "lines", "save", "surprises", "write_counts"]

COMMAND = "conformance"
STATUSES = ("passed", "failed", "unsupported", "broken")
MARKS = {"passed": "pass", "failed": "FAIL", "unsupported": "unsupported", "broken": "BROKEN"}
BEGIN, END = "<!-- generated: conformance -->", "<!-- end -->"
EXACT_NS = 1000


def lines(verdicts: Sequence[ScriptOutcome], verbose: bool = False) -> Iterator[str]:
    """Yields a line for every script, with the reason if it did not pass, and the counts."""
    width = max(len(verdict.script) for verdict in verdicts)
    yield "  ".join(["script".ljust(width), *(f"{name:16}" for name in FAMILIES), "packets", "worst timing"])
    for script, by_family in _by_script(verdicts).items():
        cells = [f"{MARKS[by_family[name].status] if name in by_family else '-':16}" for name in FAMILIES]
        yield "  ".join([script.ljust(width), *cells, f"{_packets(by_family):7}", f"{_shown(_worst_ns(by_family)):>12}"])
    for verdict in verdicts:
        if verdict.status != "passed":
            yield f"{verdict.status}: {verdict.script} ({verdict.family}): {verdict.why}"
            known = KNOWN.get((verdict.script, verdict.family))
            yield from [f"  known: {known}"] if known else []
        if verbose or verdict.status == "failed":
            yield from (f"  a command said: {line}" for line in verdict.said)
    yield from summary(verdicts)


def summary(verdicts: Sequence[ScriptOutcome]) -> Iterator[str]:
    """Yields how many passed, by IP version and in total, and how exact their timing is."""
    for name in (*FAMILIES, "all"):
        counts = Counter(verdict.status for verdict in verdicts if name in (verdict.family, "all"))
        if counts:
            yield f"{name}: {', '.join(f'{counts[status]} {status}' for status in STATUSES if counts[status])}"
    passed = [verdict for verdict in verdicts if verdict.status == "passed"]
    exact = sum(verdict.worst_ns <= EXACT_NS for verdict in passed)
    yield f"of {len(passed)} that passed, {exact} have every packet within a microsecond of the script's time"


def surprises(verdicts: Sequence[ScriptOutcome], unsupported_too: bool = False) -> Iterator[str]:
    """Yields the differences to known.py: scripts that fail and should not, and the other way round."""
    bad = ("failed", "broken", "unsupported") if unsupported_too else ("failed", "broken")
    for verdict in verdicts:
        known = (verdict.script, verdict.family) in KNOWN
        if verdict.status in bad and not known:
            yield f"{verdict.script} ({verdict.family}) {verdict.status}"
        if verdict.status == "passed" and known:
            yield f"{verdict.script} ({verdict.family}) passed, and dc_gym/cli/conformance/known.py expects it to fail"


def as_json(verdicts: Sequence[ScriptOutcome], kernel: str, missing_options: Sequence[str]) -> dict[str, Any]:
    """Returns one object: the kernel, the counts, every case."""
    return {
        "command": COMMAND,
        "kernel": kernel,
        "options_lacking": list(missing_options),
        "counts": dict(Counter(verdict.status for verdict in verdicts)),
        "cases": [
            {**asdict(verdict), "known": KNOWN.get((verdict.script, verdict.family))}
            for verdict in sorted(verdicts, key=lambda outcome: (outcome.script, outcome.family))
        ],
    }


def lacking_options(scripts: Path, kernel: Path) -> list[str]:
    """Returns the options that the file beside the kernel's scripts asks for and that the lab kernel's configuration lacks."""
    want, have = (
        re.findall(r"^(CONFIG_\w+=\S+)$", path.read_text() if path.exists() else "", re.MULTILINE) for path in (scripts, kernel)
    )
    chosen = ["CONFIG_HZ_1000=y"] if "CONFIG_HZ=1000" in have else []  # User Mode Linux has a number instead of a choice
    return [option for option in want if option not in (*have, *chosen)]


def check_places(to_json: Path | None, to_write: Path | None) -> None:
    """Raises UsageError unless the files can be written. It is called before minutes are spent."""
    if to_json is not None and not to_json.absolute().parent.is_dir():
        raise UsageError(f"--json {to_json}: there is no folder {to_json.parent}")
    if to_json is not None:
        require_place(to_json, is_json_of(command=COMMAND), remedy="move it, or give another --json")
    if to_write is not None:
        _page(to_write)


def _page(path: Path) -> str:
    """Returns a document with the two marks in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--write {path}: {error.strerror}") from None
    if BEGIN not in text or END not in text:
        raise UsageError(f"--write {path}: the lines '{BEGIN}' and '{END}' are not in it")
    return text


def write_counts(path: Path, verdicts: Sequence[ScriptOutcome], kernel: str, missing_options: Sequence[str]) -> None:
    """Writes the counts, and the scripts that did not pass, between two marks in a document."""
    text = _page(path)
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text("\n".join([before + BEGIN, *_document(verdicts, kernel, missing_options), END + after]), encoding="utf-8")


def _document(verdicts: Sequence[ScriptOutcome], kernel: str, missing_options: Sequence[str]) -> Iterator[str]:
    yield f"Kernel {kernel}. Options that the scripts ask for and this kernel lacks: {', '.join(missing_options) or 'none'}."
    yield ""
    yield from (f"- {line}" for line in summary(verdicts))
    bad = [verdict for verdict in verdicts if verdict.status != "passed"]
    yield ""
    for verdict in bad:
        known = KNOWN.get((verdict.script, verdict.family), "not explained yet")
        yield f"- `{verdict.script}` ({verdict.family}), {verdict.status}: {known}. It said: {verdict.why.splitlines()[-1]}"


def _by_script(verdicts: Sequence[ScriptOutcome]) -> dict[str, dict[str, ScriptOutcome]]:
    by_name: dict[str, dict[str, ScriptOutcome]] = {}
    for verdict in sorted(verdicts, key=lambda outcome: outcome.script):
        by_name.setdefault(verdict.script, {})[verdict.family] = verdict
    return by_name


def _packets(by_family: Mapping[str, ScriptOutcome]) -> int:
    return max(verdict.packets for verdict in by_family.values())


def _worst_ns(by_family: Mapping[str, ScriptOutcome]) -> int:
    return max(verdict.worst_ns for verdict in by_family.values())


def _shown(worst_ns: int) -> str:
    """Returns a time in microseconds or milliseconds."""
    return f"{worst_ns / 1e6:.2f} ms" if worst_ns >= 100_000 else f"{worst_ns / 1e3:.2f} us"


def save(path: Path, document: Mapping[str, Any]) -> None:
    """Writes the document as JSON."""
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
