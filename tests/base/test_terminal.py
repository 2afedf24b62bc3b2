# SPDX-License-Identifier: Apache-2.0
"""Texts of somebody else's files reach the terminal without control characters."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest
import synthetic
from rich.table import Table

from dc_gym.base import terminal
from dc_gym.base.errors import UsageError
from dc_gym.base.package import PACKAGE
from dc_gym.base.progress import Bar, Lines, Quiet, choose
from dc_gym.cli import main
from dc_gym.results.results import write_graph
from dc_gym.spec import of_preset

EVIL = "\x1b]0;owned\x07\x9b31m\u202e"
BELL = "\\x07"  # rich drops it
SEEN = "\\x1b]0;owned\\x07\\x9b31m\\u202e"
APART = {
    *("base/terminal.py", "cli/node.py", "cli/conformance/guest.py", "learn/rllib/reaper.py"),
    *(
        "run/grounds/guest/main.py",
        "run/grounds/guest/report.py",
        "run/grounds/host/inside.py",
        "run/plan/inputs.py",
        "traffic/execs.py",
    ),
}
"""Modules that run without a user's terminal, or print only texts of their own."""


def is_clean(text: str) -> bool:
    return not terminal.CONTROLS.search(text)


def test_visible() -> None:
    assert terminal.visible(f"a{EVIL}b") == f"a{SEEN}b"
    assert terminal.visible("a\tb\nc \u00b5 \u2588 caf\u00e9") == "a\tb\nc \u00b5 \u2588 caf\u00e9"
    assert terminal.visible("not UTF-8: \udce9") == "not UTF-8: \\udce9"


def test_a_console_passes_on_its_own_controls_alone() -> None:
    stream = io.StringIO()
    console = terminal.console(file=stream, force_terminal=True, width=80, color_system="standard", highlight=False, _environ={})
    table = Table("name")
    table.add_row(EVIL)
    console.print(table)
    console.print(EVIL, style="red", markup=False)
    output = stream.getvalue()
    assert (
        "\\x1b]0;owned" in output
        and "\\x9b31m\\u202e" in output
        and "\x1b[31m" in output
        and "\x1b]0" not in output
        and "\x9b" not in output
    )


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    for progress in (Quiet(), Lines(stream), Bar(terminal.console(file=stream, force_terminal=True, _environ={}))):
        progress.announce(EVIL)
        progress.note(EVIL)
    assert "\x1b]0" not in stream.getvalue() and stream.getvalue().replace(BELL, "").count(SEEN.replace(BELL, "")) == 4
    assert capsys.readouterr().err == f"dcgym: {SEEN}\n"
    assert isinstance(choose(False, stream), Lines)


def evil_result(folder: Path, seed: int) -> Path:
    result = synthetic.result(folder)
    write_graph(folder, of_preset("dumbbell-10m").graph())
    topology = {"kind": EVIL, "scale": 2}
    spec = result.manifest["spec"] | {"name": EVIL, "seed": seed, "topology": topology, "controller": {"name": f"{EVIL}{seed}"}}
    scale = {"factor": 2, "not_scale_free": [EVIL]}
    environment = {EVIL: f"{EVIL}{seed}"}
    changed = json.loads((folder / "manifest.json").read_text()) | {"spec": spec, "scale": scale, "environment": environment}
    (folder / "manifest.json").write_text(json.dumps(changed))
    summary = json.loads((folder / "summary.json").read_text()) | {f"{EVIL}_s": EVIL}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", "A", "--against", "B", "--quiet"],
        ["verify", "DIR", "--quiet"],
        ["compare", "A", "B"],
        ["plot", "DIR"],
        ["plot", "DIR", "--x", "seed", "--y", "goodput_bps"],
        ["plot", "DIR", "--each"],
        ["report", "DIR", "--quiet"],
        ["topology", "A"],
        ["run", "A/manifest.json"],
        ["list", EVIL],
    ],
    ids=lambda argv: " ".join(argv[:2]).replace(EVIL, "NAME"),
)
def test_commands_show_no_control_characters(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn
) -> None:
    folder = tmp_path / f"of {EVIL}"
    places = {"DIR": folder, "A": evil_result(folder / f"a{EVIL}", 1), "B": evil_result(folder / f"b{EVIL}", 2)}
    words = [str(places[word]) if word in places else word.replace("A/", f"{places['A']}/") for word in argv]
    main.main(words)
    out, err = capsys.readouterr()
    assert is_clean(out) and is_clean(err) and SEEN.replace(BELL, "") in (out + err).replace(BELL, "")
    raw = [str(warning.message) for warning in recwarn if not is_clean(str(warning.message))]
    assert not raw, "a warning has the text of a figure that a font lacks"


def test_errors(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise UsageError(f"{EVIL}: is wrong")

    monkeypatch.setattr(main, "_dispatch", fail)
    assert main.main(["doctor"]) == 2
    assert capsys.readouterr().err == f"dcgym: {SEEN}: is wrong\n"


def test_commands_print_with_this_module_alone() -> None:
    modules = {str(path.relative_to(PACKAGE)): path for folder in PACKAGE.iterdir() for path in folder.rglob("*.py")}
    assert modules.keys() > APART and "benchmarks/studies/demo.py" in modules, "folders behind links count"
    for path in (modules[name] for name in sorted(modules.keys() - APART)):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            plain = isinstance(called, ast.Name) and name == "print"
            of_rich = name == "Console" and "rich" in text
            assert not plain and not of_rich, f"{path}:{getattr(node, 'lineno', 0)}: print with base/terminal.py"
