# SPDX-License-Identifier: Apache-2.0
"""The command: exit codes, one-line errors, what it hands to the runner, and progress. No lab is booted."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import synthetic
from rich.console import Console

from dc_gym import __version__
from dc_gym.base import progress
from dc_gym.base.errors import KernelError, LabError, UsageError
from dc_gym.cli import main, parser, run
from dc_gym.learn.rllib import settings
from dc_gym.results import results

SPEC = """
name = "My Run"
[topology]
preset = "dumbbell-10m"
[controller]
name = "dctcp"
[workload]
kind = "pairs"
[time]
duration = "10s"
"""
ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("run", "verify", "conformance", "golden", "compare", "sweep", "plot", "list", "bench", "doctor", "kernel", "clean")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(main.TRACEBACK, raising=False)
    (tmp_path / "exp.toml").write_text(SPEC)
    return tmp_path


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces a module that runs labs."""

    def put(name: str, **members: Any) -> None:
        fake = types.ModuleType(name)
        vars(fake).update(members)
        monkeypatch.setitem(sys.modules, name, fake)

    return put


def raising(error: BaseException) -> Callable[..., Any]:
    def body(*args: Any, **options: Any) -> Any:
        raise error

    return body


def usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the message of argparse, which must exit with 2."""
    with pytest.raises(SystemExit) as system_exit:
        main.main(argv)
    assert system_exit.value.code == 2
    return capsys.readouterr().err


def test_run_hands_over_what_was_asked_for(folder: Path, module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments: list[Any] = []

    def run(spec: Any, out: Path, display: Any, *, force: bool, plot: bool, disturb: str, gdb: bool) -> results.Result:
        arguments.extend([spec.controller.name, spec.seed, out, type(display), force, plot])
        return synthetic.result(folder / out)

    module("dc_gym.run.runner", run=run)
    assert main.main(["run", "exp.toml", "--set", "controller.name=nv", "--seed", "7", "--quiet", "--no-plot"]) == 0
    assert arguments == ["nv", 7, Path("results/my-run-nv-s7"), progress.Quiet, False, False]
    output = capsys.readouterr()
    assert "Mbit/s" in output.out and f"digest       {results.load_result('results/my-run-nv-s7').digest}" in output.out
    assert output.err == ""
    arguments.clear()
    assert main.main(["run", "exp.toml", "--out", "x", "--force"]) == 0
    assert arguments == ["dctcp", 1, Path("x"), progress.Lines, True, True]


# Each import costs the user of a command its time, and in a run the lab waits for it.
LATER = ("numpy", "pyarrow", "matplotlib", "gymnasium", "pandas", "polars", "jsonschema", "ray", "torch", "scipy", "asyncio")


def imported(program: str) -> set[str]:
    """Returns the names of the packages that a program has imported in a new process."""
    text = f"import sys\n{program}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(process.stdout.splitlines()[-1].split())


def test_help_imports_no_library() -> None:
    packages = imported(
        "import contextlib\nfrom dc_gym.cli import main\nwith contextlib.suppress(SystemExit):\n main.main(['--help'])"
    )
    assert not packages & set(LATER) and "dc_gym" in packages


def test_a_lab_waits_for_no_library() -> None:
    modules = "dc_gym.cli.main, dc_gym.cli.run, dc_gym.spec, dc_gym.run.runner, dc_gym.run.grounds.lab"
    assert not imported(f"import {modules}") & set(LATER)


def test_a_run_begins_before_any_library_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    program = (
        "from dc_gym.base.errors import LabError\nfrom dc_gym.cli import main\nfrom dc_gym.run import runner\n"
        "def run(*_, **__): raise LabError('the lab would boot now')\n"
        f"runner.run = run\nassert main.main(['run', {str(tmp_path / 'spec.toml')!r}, '--quiet']) == 1"
    )
    assert not imported(program) & set(LATER)


@pytest.mark.lab
def test_a_run_without_plot_imports_no_library_that_draws_or_learns(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "spec.toml").write_text(SPEC.replace("10s", "20ms"))
    argv = ["run", str(tmp_path / "spec.toml"), "--no-plot", "--quiet", "--out", str(tmp_path / "out")]
    packages = imported(f"from dc_gym.cli import main\nassert main.main({argv}) == 0")
    assert {"numpy", "pyarrow"} <= packages
    assert not packages & set(LATER) - {"numpy", "pyarrow"}


def closing_lines(numbers: Mapping[str, Any], module: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Returns the output of `dcgym run` for a result whose summary has these numbers."""

    def run(_spec: Any, out: Path, _shown: Any, **_: Any) -> results.Result:
        result = synthetic.result(out)
        (result.path / "summary.json").write_text(json.dumps(dict(result.summary) | dict(numbers)))
        return results.load_result(result.path)

    module("dc_gym.run.runner", run=run)
    assert main.main(["run", "exp.toml", "--quiet"]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_closing_lines_are_in_units_that_people_read(folder: Path, module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = {"goodput_bps": 7.34e10, "mean_srtt_us": 2.723e5, "mean_queue_bytes": 3506.2, "utilization": 1, "jain": 0.99631}
    numbers |= {"drops": 0, "marks": 10312, "lost_on_links": 723, "loss_ratio": 0.15116}

    lines = closing_lines(numbers, module, capsys)
    assert [line for line in lines if line.startswith(("goodput", "mean", "util", "fair", "drops", "lost"))] == [
        "goodput      73.4 Gbit/s",
        "utilization  100 %",
        "mean queue   3.506 kB at s1-eth3",
        "mean srtt    272.3 ms",
        "fairness     0.9963 (Jain, 2 of 2 flows)",
        "drops        0, marks 10,312",
        "lost         723 on links (15.12 % of what hosts sent)",
    ]


INCASTS = {"flows": 24, "fct_flows": 24, "fct_unfinished": 0, "fct_mean_s": 1e-3, "goodput_bps": 128e6, "jain": None}


def test_an_incast_shows_completion_first_and_no_goodput_over_idle_time(
    folder: Path, module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = INCASTS | {"jain_flows": 0, "active_s": 0.002, "active_goodput_bps": 6.4e9}

    lines = closing_lines(numbers, module, capsys)
    assert lines[:2] == [
        "completion   1 ms on average, 24 of 24 flows finished",
        "goodput      6.4 Gbit/s in the 2 ms with active flows",
    ]
    assert "fairness     - (Jain; 0 of 24 flows active throughout)" in lines


def test_an_unfit_run_is_1(folder: Path, module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    reasons = ["softnet lost 3 packets", "set-up was late"]
    module("dc_gym.run.runner", run=lambda spec, out, display, **_: synthetic.result(out, fit=False, unfit_reasons=reasons))
    assert main.main(["run", "exp.toml", "--quiet"]) == 1
    assert capsys.readouterr().err == "dcgym: unfit: softnet lost 3 packets\ndcgym: unfit: set-up was late\n"


def test_a_run_without_any_sample_can_be_shown(folder: Path, module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module("dc_gym.run.runner", run=lambda spec, out, display, **_: synthetic.result(out, synthetic.tables()))
    assert main.main(["run", "exp.toml", "--quiet"]) == 0
    assert "mean queue   - at -" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (LabError("the lab died"), 1, "dcgym: the lab died\n"),
        (KernelError("no kernel"), 2, "dcgym: no kernel\n"),
        (UsageError("x exists"), 2, "dcgym: x exists\n"),
        (KeyboardInterrupt(), 130, "dcgym: interrupted\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 2, "dcgym: /x/y: No space left on device; free some room\n"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), 2, "dcgym: /x/y: Permission denied\n"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "dcgym: reading or writing: No space left on device; free some room\n",
        ),
    ],
)
def test_failures_are_one_line(
    folder: Path, module: Any, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    module("dc_gym.run.runner", run=raising(error))
    assert main.main(["run", "exp.toml", "--quiet"]) == code
    assert capsys.readouterr() == ("", words)


def test_bugs_keep_their_traceback(folder: Path, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module("dc_gym.run.runner", run=raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main.main(["run", "exp.toml", "--quiet"])
    module("dc_gym.run.runner", run=raising(OSError(errno.EBADF, "Bad file descriptor")))
    with pytest.raises(OSError, match="Bad file"):
        main.main(["run", "exp.toml", "--quiet"])
    monkeypatch.setenv(main.TRACEBACK, "1")
    module("dc_gym.run.runner", run=raising(LabError("x")))
    with pytest.raises(LabError):
        main.main(["run", "exp.toml", "--quiet"])


def test_spec_mistakes_are_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["run", "none.toml"]) == 2
    assert main.main(["run", "exp.toml", "--set", "topology.rat=1Mbit/s"]) == 2
    assert main.main(["run", "exp.toml", "--seed", "-1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("dcgym: none.toml: ")
    assert lines[1] == "dcgym: --set: topology.rat: unknown key; did you mean topology.rate?"
    assert lines[2] == "dcgym: --seed: seed = -1: is below 0; give that or more"
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["run"], "SPEC"),
        (["run", "exp.toml", "--seed", "x"], "--seed"),
        (["run", "exp.toml", "--what"], "--what"),
        (["run", "exp.toml", "--ground", "hots"], "value 'hots' is unknown; did you mean host?"),
        (["sweep", "exp.toml", "--seeds", "1..x"], "write it like 1..5 or 1,2,3"),
        (["sweep", "exp.toml", "--seeds", "5..1"], "write it like"),
        (["sweep", "exp.toml", "--seeds", "1,1"], "different seeds"),
        (["sweep", "exp.toml", "--seeds", "0..99999999999"], "write it like"),
        (["sweep", "exp.toml", "--controllers", "nv,nv"], "different names"),
        (["sweep", "exp.toml", "--jobs", "0"], "give 1 or more"),
        (["kernel", "eat"], "eat"),
        (["kernel"], "COMMAND"),
        (["kernel", "build", "--source", "x", "--version", "6"], "not allowed with"),
    ],
)
def test_bad_arguments_are_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in usage(argv, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "SPEC is missing; give a TOML file, or --agents flows"),
        (["a.toml", "--agents", "flows", "--out", "x"], "SPEC a.toml: --agents flows trains on RL-CC's fluid model"),
    ],
)
def test_a_spec_belongs_to_agents_other_than_flows(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


def test_an_unknown_key_of_a_training_is_one_line_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text("[run]\nkeep_checkpoint = 5\n")
    with pytest.raises(UsageError, match=r"\[run\] keep_checkpoint is unknown; did you mean keep_checkpoints\?$"):
        settings.read(tmp_path / "train.toml", "PPO", {})


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_that_parses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as system_exit:
        main.main([command, "--help"])
    assert system_exit.value.code == 0
    text = capsys.readouterr().out
    example = text.split("example:\n  dcgym ")[1].splitlines()[0]
    assert parser.build().parse_args(example.split()).command


def epilogs(built: argparse.ArgumentParser) -> list[str]:
    """Returns the closing words of a command's help, and of those below it."""
    groups = [action for action in built._actions if isinstance(action, argparse._SubParsersAction)]
    below = [subparser for group in groups for subparser in group.choices.values()]
    return [built.epilog or "", *(text for subparser in below for text in epilogs(subparser))]


def test_each_line_of_an_example_parses_and_its_files_are_there() -> None:
    lines = [line.strip() for text in epilogs(parser.build()) for line in text.split("example:\n")[-1].splitlines()]
    examples = [line for line in lines if line.startswith("dcgym ")]
    assert len(examples) > 30
    for line in examples:
        words = shlex.split(line.removeprefix("dcgym ").partition(" > ")[0], comments=True)
        assert parser.build().parse_args(words).command, line
        assert all((ROOT / word).is_file() for word in words if word.startswith("examples/")), line


def test_the_parser_of_one_command_has_no_other_and_says_the_same() -> None:
    def helps(built: argparse.ArgumentParser) -> dict[str, str]:
        subparsers = next(action for action in built._actions if isinstance(action, argparse._SubParsersAction))
        return {name: subparser.format_help() for name, subparser in subparsers.choices.items()}

    every = helps(parser.build())
    assert list(parser.ADD) == list(every) and helps(parser.build("no such command")) == every
    for command, text in every.items():
        assert helps(parser.build(command)) == {command: text}


def test_commands_are_all_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    text = capsys.readouterr().out
    assert all(re.search(rf"\n    {command}\s", text) for command in COMMANDS)
    with pytest.raises(SystemExit):
        main.main(["--version"])
    assert capsys.readouterr().out == f"dcgym {__version__}\n"


def test_delegated_commands(folder: Path, module: Any) -> None:
    call: dict[str, Any] = {}

    def body(name: str) -> Callable[..., int]:
        def main(args: Any, *rest: Any) -> int:
            call[name] = (args, rest)
            return 1

        return main

    for name in ("cli.verify.verify", "run.sweep", "benchmarks.bench", "cli.doctor", "cli.kernel", "cli.clean"):
        module(f"dc_gym.{name}", main=body(name))
    sweep = ["sweep", "exp.toml", "--seeds", "2..4", "--controllers", "nv,bbr", "--jobs", "2"]
    for argv in (["verify", "r"], sweep, ["bench", "links"], ["doctor"], ["kernel", "info"], ["clean", "a", "b", "--cache"]):
        assert main.main(argv) == 1
    assert call["cli.verify.verify"][0].dir == Path("r") and isinstance(call["cli.verify.verify"][1][0], progress.Lines)
    args = call["run.sweep"][0]
    assert (args.seeds, args.controllers, args.jobs, args.overrides, args.force) == ([2, 3, 4], ["nv", "bbr"], 2, [], False)
    assert (call["benchmarks.bench"][0].name, call["benchmarks.bench"][0].json) == ("links", None)
    assert call["cli.kernel"][0].action == "info" and call["cli.kernel"][1] == ()
    assert main.main(["kernel", "build", "--jobs", "2", "--source", "linux.tar.xz"]) == 1
    args = call["cli.kernel"][0]
    assert (args.action, args.jobs, args.source, args.version, args.force) == ("build", 2, Path("linux.tar.xz"), None, False)
    assert (call["cli.clean"][0].folders, call["cli.clean"][0].cache, call["cli.clean"][1]) == ([Path("a"), Path("b")], True, ())


def test_compare_and_plot(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.result(folder / "a")
    synthetic.result(folder / "b", synthetic.run(seed=2))
    assert main.main(["compare", "a", "b"]) == 0
    assert "mean_queue_bytes" in capsys.readouterr().out
    assert main.main(["compare", "a", "c"]) == 2
    assert capsys.readouterr().err == "dcgym: c: no such folder; give the folder of a result\n"
    assert main.main(["plot", "a"]) == 0
    assert (folder / "a" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert main.main(["plot", "a", "--out", "new/x.pdf"]) == 0
    assert Path("new/x.pdf").read_bytes().startswith(b"%PDF")
    capsys.readouterr()
    assert main.main(["plot", "a", "--out", "new/x.pdf/x.png"]) == 2
    assert capsys.readouterr().err == "dcgym: cannot write new/x.pdf/x.png: File exists; give another path\n"
    assert main.main(["plot", ".", "--each"]) == 0
    assert capsys.readouterr().out.split() == ["a/plot.png", "b/plot.png"]
    assert (folder / "b" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert main.main(["plot", ".", "--each", "--y", "jain"]) == 2
    assert "--each draws DIR/NAME/plot.png of each result; leave out" in capsys.readouterr().err
    assert main.main(["plot", "a", "--out", "x.xyz"]) == 2
    assert "x.xyz: a figure's name ends in .png, .pdf, .svg" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["list"]) == 0
    text = capsys.readouterr().out
    for word in ("dumbbell-10m", "10Mbit/s", "16 hosts", "hotspot", "dctcp          DCTCP, reads ECN", "bbr"):
        assert word in text
    assert main.main(["list", "controllers"]) == 0
    assert "hotspot" not in capsys.readouterr().out


def test_a_preset_is_listed_with_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    def listing(name: str) -> dict[str, str]:
        assert main.main(["list", name]) == 0
        cells = (re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines() if line.startswith("topology."))
        return {row[0]: row[2] for row in cells if len(row) > 2}

    values = listing("acc24")
    assert (values["topology.rate"], values["topology.nics"], values["topology.links"]) == ('"25Gbit/s"', "2", "some links")
    assert values["topology.host_buffer"] == "buffer", "a default that the preset leaves"
    assert listing("leafspine")["topology.rate"] == "-"


def test_help_is_quick() -> None:
    """Nothing heavy is imported before a command runs."""
    heavy = "{'numpy', 'pyarrow', 'matplotlib', 'rich', 'mininet', 'dc_gym.spec'}"
    script = f"import sys; from dc_gym.cli import parser; parser.build(); print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_closed_pipe_is_silent() -> None:
    script = "import sys; from dc_gym.cli import main; sys.exit(main.main(['list']))"
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "")


class Wall:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_lines_tell_phase_speed_and_rest() -> None:
    stream, wall = io.StringIO(), Wall()
    with progress.Lines(stream, wall) as display:
        display.phase("boot")
        display.virtual(-5, 10**9)
        display.phase("traffic")
        for tick in range(101):
            display.virtual(tick * 10**8, 10 * 10**9)
            wall.now_s += 0.05
        display.note("hello")
        display.phase("done")
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["dcgym: boot", "dcgym: traffic"]
    assert lines[2] == "dcgym: 1 of 10 s (2x real time, 4.5 s to go)"
    assert lines[-2:] == ["dcgym: 10 of 10 s (2x real time, 0 s to go)", "dcgym: hello"]
    assert len(lines) == 13


def test_long_work_gets_a_line_now_and_then() -> None:
    stream, wall = io.StringIO(), Wall()
    display = progress.Lines(stream, wall)
    display.phase("compile")
    for count in range(100):
        wall.now_s += 0.3
        display.advance(count, 100)
    assert stream.getvalue().splitlines()[1:] == ["dcgym: 33 of about 100", "dcgym: 67 of about 100"]


def test_a_second_run_starts_afresh() -> None:
    stream, wall = io.StringIO(), Wall()
    display = progress.Lines(stream, wall)
    for _ in range(2):
        display.phase("traffic")
        display.virtual(10**9, 2 * 10**9)
        wall.now_s += 1
        display.virtual(2 * 10**9, 2 * 10**9)
        display.phase("done")
    lines = stream.getvalue().splitlines()
    assert lines[:3] == lines[3:] and len(lines) == 6


def test_a_bar_is_drawn_and_wiped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    wall = Wall()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None)
    with progress.Bar(console, wall) as display:
        display.phase("traffic")
        display.virtual(10**9, 4 * 10**9)
        wall.now_s += 2
        display.virtual(2 * 10**9, 4 * 10**9)
        display.note("[bold] is not markup")
        display.phase("done")
        after = len(stream.getvalue())
        display.virtual(3 * 10**9, 4 * 10**9)
    text = stream.getvalue()
    assert "traffic" in text and "2 of 4 s" in text and "0.5x real time, 4 s to go" in text and "[bold] is not markup" in text
    assert "3 of 4 s" not in text[after:]


def test_choice_of_progress() -> None:
    assert isinstance(progress.choose(True), progress.Quiet)
    assert type(progress.choose(False, io.StringIO())) is progress.Lines


@pytest.mark.parametrize(("seconds", "text"), [(3.21, "3.2 s"), (42.3, "42 s"), (250, "4 min 10 s"), (7500, "2 h 5 min")])
def test_durations_in_words(seconds: float, text: str) -> None:
    assert progress.short_time(seconds) == text


def test_how_programs_ended_is_told() -> None:
    ends = [
        {"host": "h1", "command": ["sh", "-c", "exit 3"], "exit": 3, "stopped": False},
        {"host": "h2", "command": ["sleep", "9"], "exit": -15, "stopped": True},
    ]
    assert run._program_rows(ends) == [("program", "sh in h1: exit 3"), ("program", "sleep in h2: stopped")]


def test_a_run_without_a_completion_time_that_counts_says_so() -> None:
    ((name, text),) = run._completion_rows({"fct_flows": 0, "flows_done": 26})
    assert name == "completion" and text.startswith("- (26 flows done;")
    assert run._completion_rows({"fct_flows": 0, "flows_done": 0}) == []


def test_a_library_that_a_package_lacks_is_named_in_one_line(monkeypatch, capsys):
    """numpy reports a missing library in a message of many lines."""

    def dispatch(args):
        raise ImportError("\n\nIMPORTANT\n\n\nOriginal error was: libstdc++.so.6: cannot open shared object file: No such file\n")

    monkeypatch.setattr(main, "_dispatch", dispatch)
    assert main.main(["doctor"]) == 2
    words = "dcgym: this machine lacks the library libstdc++.so.6, which a Python package loads: install the"
    assert capsys.readouterr().err.startswith(words)
    monkeypatch.setattr(main, "_dispatch", lambda args: importlib.import_module("dc_gym.no_such_module"))
    with pytest.raises(ModuleNotFoundError):
        main.main(["doctor"])


def test_ctrl_c_is_heard_before_anything_is_imported() -> None:
    """Until then it shows a traceback. What Python itself imports at its start is not the command's."""
    program = "import sys; before = set(sys.modules); import dc_gym.cli.entry; print(*sorted(set(sys.modules) - before))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    own_modules = {"dc_gym", "dc_gym.cli", "dc_gym.cli.early", "dc_gym.cli.entry", "__future__"}
    assert set(process.stdout.split()) <= own_modules


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    ("spec", "names", "message"),
    [
        ("gym.toml", "dctcp,nvv", 'controller.name = "nvv": unknown; did you mean nv?'),
        ("aimd.toml", "aimd,nvv", 'controller.name = "nvv": unknown; did you mean nv?'),
    ],
)
def test_controllers_of_a_sweep_are_those_that_its_spec_knows(spec, names, message, tmp_path, capsys):
    """A plug-in of the spec registers its own."""
    path = Path(__file__).resolve().parents[2] / "examples" / spec
    assert main.main(["sweep", str(path), "--trust", "--controllers", names, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
