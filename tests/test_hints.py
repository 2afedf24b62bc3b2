# SPDX-License-Identifier: Apache-2.0
"""The commands and options that messages name exist, and the command that prints the message has the option."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dc_gym.cli import parser

PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = ("dc_gym", "kernel", "topologies", "traffic", "monitors", "ctrl", "benchmarks")
SPEAKS = ("raise", "print", "say", "note", "announce", "_fail", "phase", "fault", "UsageError", "Check")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9_-]+)")
COMMAND = re.compile(r"dcgym ((?:[a-z]+ ?){1,3})((?:(?! dcgym )[^`;:,\n])*)")
OTHERS = (
    ("ray start ", ("--head", "--include-dashboard", "--resources")),
    ("ray get-auth-token ", ("--generate",)),
    ("apt-get install ", ("--no-install-recommends",)),
    ("is qmon running", ("--matrix",)),
    ("git worktree", ("--format",)),
    ("the --out of a run", ("--out",)),
    ("an address", ("--local_ip", "--remote_ip")),
    ("#!/bin/sh", ("--inhibit-cache", "--library-path")),
)
"""Words that show that a message speaks of another program, and that program's options."""
WHO_SAYS = {
    "benchmarks": ("bench",),
    "benchmarks/studies": ("study",),
    "benchmarks/bench.py": ("bench",),
    "benchmarks/checks": ("bench",),
    "dc_gym/cli/nic_check.py": ("nic",),
    "benchmarks/perf": ("bench",),
    "dc_gym/cli/conformance": ("conformance",),
    "benchmarks/studies/demo.py": ("demo",),
    "dc_gym/cli/doctor.py": ("doctor",),
    "dc_gym/cli/clean.py": ("clean",),
    "dc_gym/results/figures/curves.py": ("plot",),
    "dc_gym/results/pages/report": ("report",),
    "dc_gym/cli/verify/golden.py": ("golden",),
    "dc_gym/cli/verify/verify.py": ("verify",),
    "dc_gym/study": ("study",),
    "dc_gym/learn/rllib/export.py": ("export",),
    "dc_gym/learn/rllib": ("train",),
    "dc_gym/methods/rlcc/offline/flow_task.py": ("train",),
    "dc_gym/methods/rlcc/offline/flow_training.py": ("train",),
    "dc_gym/methods": ("method",),
    "dc_gym/run/sweep/cluster.py": ("sweep",),
    "dc_gym/run/sweep": ("sweep", "study", "bench"),
    "dc_gym/cli/topology.py": ("topology",),
    "dc_gym/cli/watch": ("watch",),
    "kernel/source.py": ("kernel",),
    "kernel/build.py": ("kernel",),
}
"""For each beginning of a module's path (the longest match counts): the commands that print its messages. Where a message names
an option without a command, all of these must have the option. For modules that are not listed, any command may have it."""


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields every command and subcommand with its words."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, subparser in action.choices.items():
                yield from parsers(subparser, f"{name} {word}".strip())


COMMANDS = dict(parsers(parser.build()))
OF_ALL = {option for command_parser in COMMANDS.values() for option in command_parser._option_string_actions}


def options_of(name: str) -> set[str]:
    """Returns the options of a command and of its subcommands."""
    return {option for words, entry in COMMANDS.items() if words.split()[:1] == [name] for option in entry._option_string_actions}


def spoken(path: Path) -> Iterator[tuple[int, str]]:
    """Yields a module's messages to its user: those of errors, those that it prints, and those that it keeps for later."""
    for node in ast.walk(ast.parse(path.read_text())):
        expressions: list[ast.expr] = []
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            expressions = node.exc.args
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            expressions = node.args if name in SPEAKS else []
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            expressions = [node.value] if node.value is not None else []
        for expression in expressions:
            yield from ((node.lineno, text) for text in texts(expression) if " " in text)


def texts(node: ast.AST) -> Iterator[str]:
    """Yields the sentences in an expression; strings in lists are arguments of programs, and left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
    elif isinstance(node, ast.BinOp | ast.IfExp | ast.BoolOp | ast.Call):
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def modules() -> list[Path]:
    paths = {path.resolve() for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")}
    return sorted(path for path in paths if path.is_relative_to(PACKAGE) and path.name != "parser.py")


def sayers(path: Path) -> tuple[str, ...]:
    """Returns the commands that print a module's messages; empty if it may be any."""
    relative = str(path.relative_to(PACKAGE))
    known = [prefix for prefix in WHO_SAYS if relative.startswith(prefix)]
    return WHO_SAYS[max(known, key=len)] if known else ()


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yields the commands that a text names, with what follows them."""
    for match in COMMAND.finditer(text):
        words = match[1].split()
        known = [name for count in (3, 2, 1) if (name := " ".join(words[:count])) in COMMANDS]
        yield from ((name, match[0]) for name in known[:1])


def wrong_hints(path: Path) -> list[str]:
    """Returns the options in a module's messages that no command which could be meant has."""
    faults = dict[str, None]()
    for line, text in spoken(path):
        foreign_options = {option for words, options in OTHERS if words in text for option in options}
        by_name = {option for command, _ in named(text) for option in options_of(command.split()[0])}
        for option in OPTION.findall(text):
            if option in foreign_options or option in by_name:
                continue
            commands = sayers(path)
            if not (all(option in options_of(command) for command in commands) if commands else option in OF_ALL):
                faults[f"{path.relative_to(PACKAGE)}:{line}: {option} in {text!r}"] = None
    return list(faults)


def test_options_that_messages_name_exist() -> None:
    wrong = [hint for path in modules() for hint in wrong_hints(path)]
    assert not wrong, "\n".join(wrong)


def test_commands_that_messages_name_exist() -> None:
    wrong = []
    for path in modules():
        for line, text in spoken(path):
            for words in re.findall(r"`dcgym ([a-z]+)", text):
                if words not in COMMANDS:
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: dcgym {words}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("dc_gym/study/collect.py", "raise UsageError('x: --resume goes on')"),
        ("dc_gym/results/pages/report/page.py", "raise UsageError(f'{x} exists; give another --baselin')"),
        ("dc_gym/run/sweep/command.py", "print('--seed runs it again')"),
        ("kernel/cache.py", "raise UsageError('run dcgym clean --cash')"),
    ],
)
def test_a_wrong_hint_is_found(module: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / module
    path.parent.mkdir(parents=True)
    path.write_text(text + "\n")
    monkeypatch.setattr("test_hints.PACKAGE", tmp_path)
    assert wrong_hints(path)
