# SPDX-License-Identifier: Apache-2.0
"""Every command and every Python snippet of README.md, docs/ and examples/: the command line takes it, and it works.

docs_commands.toml says for each of them what makes it short, or why it is not run here. A page's commands are run in their order
in one folder, as a reader would: results that one leaves are there for the next.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import doc_pages
import pytest
from doc_pages import ROOT, Command, Item, Saved, Snippet

from dc_gym.benchmarks.bench import BENCHES
from dc_gym.cli import main, parser

TABLE = Path(__file__).with_name("docs_commands.toml")
SHEET: dict[str, Any] = tomllib.loads(TABLE.read_text())
KEYS = {"add", "instead", "level", "seconds", "exit", "not_run"}
LEVELS = ("quick", "long", "rl")
QUICK_S, ALL_QUICK_S = 2.0, 60.0
"""CPU seconds of one quick item, and of all quick items together. Items that take longer belong to another level."""
REQUIRED = "DCGYM_REQUIRE_RL"
NEEDS_RL = pytest.mark.skipif(
    find_spec("ray") is None and not os.environ.get(REQUIRED), reason="needs the extra rl (make test-rl installs it)"
)
PARSER = parser.build()
COMMAND_S = 1800.0
"""Wall time after which a command counts as hanging."""


def entry_of(item: Command | Snippet, sheet: Mapping[str, Any] = SHEET) -> dict[str, Any]:
    """Returns the table's entry for an item: the first key that fits. A command's key may have `*`; a snippet holds its key."""
    if isinstance(item, Snippet):
        entry = next((entry for key, entry in sheet["python"].items() if key in item.text), None)
    else:
        entry = next((entry for key, entry in sheet["commands"].items() if fits(key, item.text)), None)
    if entry is None:
        raise AssertionError(advice(item))
    return dict(entry)


def fits(key: str, command: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, key.split("*"))), command) is not None


def advice(item: Command | Snippet) -> str:
    """Tells what to add to the table for an item that it lacks."""
    if isinstance(item, Snippet):
        key = next(line for line in item.text.splitlines() if line and not line.startswith(("#", "import ", "from ")))
        section = "[python]"
    else:
        key, section = item.text, "[commands]"
    row = f"{quoted(key)} = {{ seconds = 1 }}"
    return (
        f"{item.where}\n  {TABLE.name} says nothing of it. Add to {section}\n    {row}\n  with the CPU seconds that it takes;"
        ' what makes it short (add = "--set time.duration=1s"); level = "long" above 2 s, or "rl" if it needs Ray;'
        ' or not_run = "why" if nothing here can run it. The head of the table has all keys.'
    )


def quoted(key: str) -> str:
    """Returns the text as a key of TOML."""
    return json.dumps(key) if "'" in key else f"'{key}'"


def level_of(item: Item) -> str | None:
    """Returns the item's level; None if it is not run. Files to save are there for every level."""
    if isinstance(item, Saved):
        return "quick"
    entry = entry_of(item)
    return None if "not_run" in entry else entry.get("level", "quick")


def all_items() -> Iterator[Item]:
    for page in PAGES:
        yield from doc_pages.items(page)


def known(items: Iterable[Item]) -> Iterator[tuple[Command | Snippet, dict[str, Any]]]:
    """Returns the items that the table has; another test requires that it has all."""
    for item in items:
        if not isinstance(item, Saved):
            try:
                yield item, entry_of(item)
            except AssertionError:
                continue


PAGES = [page for page in doc_pages.pages() if Path(page).suffix in (".md", ".toml", ".py", ".h")]
COMMANDS = [item for item in all_items() if isinstance(item, Command)]
SNIPPETS = [item for item in all_items() if isinstance(item, Snippet)]


def pages_with(level: str) -> list[str]:
    """Returns the pages that have something to run at a level."""
    return [
        page
        for page in PAGES
        if any("not_run" not in entry and entry.get("level", "quick") == level for _, entry in known(doc_pages.items(page)))
    ]


def as_typed(text: str, words: Mapping[str, str] = SHEET["words"]) -> str:
    """Returns a command with its placeholders filled in, and with all optional parts of a synopsis."""
    text = re.sub(r"(?<=\s)\[(-[^\]]*)\]", r"\1", text)
    for word, stands in words.items():
        text = re.sub(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", stands, text)
    return text


def dcgym_words(command: str) -> list[str] | None:
    """Returns the arguments of a `dcgym` command; None for another program's command."""
    words = shlex.split(as_typed(command))
    words = words[1:] if words[0] == "sudo" else words
    return words[1:] if Path(words[0]).name == "dcgym" else None


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: subparser
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, subparser in action.choices.items()
    }


def parse(words: list[str]) -> argparse.Namespace:
    """Parses the arguments of `dcgym`, and those of the command that `dcgym vm` hands on."""
    args = PARSER.parse_args(words)
    if words[0] == "vm":
        parse(words[words.index("--") + 1 :])
    if words[0] == "bench":
        assert args.name in BENCHES, f"no bench {args.name}"
    return args


@pytest.mark.parametrize("page", PAGES)
def test_the_table_knows_every_command_and_snippet(page: str) -> None:
    unknown = []
    for item in doc_pages.items(page):
        try:
            level_of(item)
        except AssertionError as error:
            unknown.append(str(error))
    assert not unknown, "\n" + "\n".join(unknown)


def test_the_table_has_no_more_than_that() -> None:
    stale = [key for key in SHEET["commands"] if not any(fits(key, command.text) for command in COMMANDS)]
    stale += [key for key in SHEET["python"] if not any(key in snippet.text for snippet in SNIPPETS)]
    stale += [word for word in SHEET["words"] if not any(as_typed(entry.text, {word: ""}) != entry.text for entry in COMMANDS)]
    stale += [page for page in SHEET["before"] if page not in PAGES]
    assert not stale, f"no page has this any more; remove it from {TABLE.name}: {stale}"


def test_entries_say_what_they_may() -> None:
    for section in ("commands", "python"):
        for key, entry in SHEET[section].items():
            extra = set() if section == "commands" else {"replace", "before", "same_as"}
            assert set(entry) <= KEYS | extra, f"{key}: unknown {set(entry) - KEYS - extra}"
            assert ("not_run" in entry) != ("seconds" in entry), f"{key}: give either seconds or not_run"
            level = entry.get("level", "quick")
            assert level in LEVELS, f"{key}: level {level!r} is none of {LEVELS}"
            assert level != "quick" or entry.get("seconds", 0) <= QUICK_S, f'{key}: above {QUICK_S:.0f} s; give level = "long"'


def test_what_is_quick_fits_into_a_default_run() -> None:
    total = sum(
        entry["seconds"] for _, entry in known(all_items()) if entry.get("level", "quick") == "quick" and "seconds" in entry
    )
    assert 0 < total <= ALL_QUICK_S, f'{total:.0f} s of CPU; give some commands of {TABLE.name} level = "long"'


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.page}:{command.line}")
def test_the_command_line_takes_it(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    if (words := dcgym_words(command.text)) is not None:
        try:
            parse(words)
        except SystemExit:
            pytest.fail(f"{command.where}\n{capsys.readouterr().err}")
    elif command.text.startswith("make "):
        target = command.text.split()[1]
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"{command.where}: no such target"
    elif extra := re.search(r"'dc-gym\[(\w+)\]'", command.text):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert extra[1] in extras, f"{command.where}: no such extra"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.page}:{command.line}")
def test_the_files_that_it_names_are_there(command: Command) -> None:
    for word in shlex.split(as_typed(command.text)):
        path = word.partition(":")[0]
        if path.startswith(("examples/", "kernel/", "docs/", "tests/")):
            assert (ROOT / path).exists(), f"{command.where}: no {path}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".md")])
def test_options_that_sentences_name_exist(page: str) -> None:
    """In running text `dcgym ...` may have placeholders and gaps, but its command, subcommand and options exist."""
    wrong = []
    for line, text in doc_pages.mentions(page):
        parser, words = PARSER, re.split(r"[\s\[\]|]+", text)[1:]
        while words and (choices := subcommands(parser)) and re.fullmatch(r"[a-z]+", words[0]):
            if words[0] not in choices:
                wrong.append(f"{page}:{line}: `{text}`: no {words[0]}")
                break
            parser = choices[words.pop(0)]
        options = set(parser._option_string_actions)
        inner = words.index("--") if "--" in words else len(words)
        wrong += [
            f"{page}:{line}: `{text}`: no option {word}"
            for word in words[:inner]
            if re.match(r"--\w", word) and word.partition("=")[0] not in options
        ]
        if text.startswith("dcgym bench ") and words and re.fullmatch(r"[a-z0-9-]+", words[0]) and words[0] not in BENCHES:
            wrong.append(f"{page}:{line}: `{text}`: no such bench")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: f"{snippet.page}:{snippet.line}")
def test_snippets_are_python(snippet: Snippet) -> None:
    compile(textwrap.dedent(snippet.text), snippet.where, "exec")


@pytest.mark.lab
@pytest.mark.parametrize("page", pages_with("quick"))
def test_a_page_s_commands_work(page: str, tmp_path: Path, lab_kernel: Any) -> None:
    work_through(page, "quick", tmp_path)


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", pages_with("long"))
def test_a_page_s_long_commands_work(page: str, tmp_path: Path, lab_kernel: Any) -> None:
    work_through(page, "long", tmp_path)


@NEEDS_RL
@pytest.mark.lab
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", pages_with("rl"))
def test_a_page_s_trainings_work(page: str, tmp_path: Path, lab_kernel: Any) -> None:
    work_through(page, "rl", tmp_path)


def work_through(page: str, level: str, folder: Path) -> None:
    """Runs a page's items of the level and its quick ones; reports all failures together."""
    desk = Desk(folder)
    wrong = [desk.shell(before, 0)] if (before := SHEET["before"].get(page)) else []
    for item in doc_pages.items(page):
        if level_of(item) in ("quick", level):
            report = desk.do(item)
            wrong.append(f"{item.where}\n{report}" if report and not isinstance(item, Saved) else report)
    assert not any(wrong), "\n\n" + "\n\n".join(filter(None, wrong))


class Desk:
    """A folder that looks like a checkout to the commands that run in it; they do not change the checkout itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        for name in ("examples", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "kernel").symlink_to(ROOT / "kernel")
        self.environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "ROOT": str(ROOT)}
        self.environment.pop(main.TRACEBACK, None)

    def do(self, item: Item) -> str:
        """Runs an item; returns what went wrong, or an empty text."""
        if isinstance(item, Saved):
            (self.folder / item.file).write_text(item.text)
            return ""
        entry = entry_of(item)
        if isinstance(item, Snippet):
            return self.python(item, entry)
        text = entry.get("instead") or f"{as_typed(item.text)} {entry.get('add', '')}".strip()
        return self.shell(text, entry.get("exit", 0))

    def python(self, snippet: Snippet, entry: Mapping[str, Any]) -> str:
        if same := entry.get("same_as"):
            return "" if without_head((ROOT / same).read_text()) == without_head(snippet.text) else f"it differs from {same}"
        text = snippet.text
        for old, new in entry.get("replace", {}).items():
            assert old in text, f"{snippet.where}: no {old!r} to replace"
            text = text.replace(old, new)
        file = self.folder / (snippet.file or "snippet.py")
        file.write_text(entry.get("before", "") + text)
        return self.shell(f"python {file.name}", 0)

    def shell(self, text: str, code: int) -> str:
        """Runs the command in bash, in a session of its own, which ends with it."""
        child = subprocess.Popen(
            ["bash", "-e", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        try:
            output, _ = child.communicate(timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGTERM)
            output, _ = child.communicate()
            return f"  ran: {text}\n  for more than {COMMAND_S:.0f} s\n{tail(output)}"
        return "" if child.returncode == code else f"  ran: {text}\n  exit code {child.returncode}, not {code}\n{tail(output)}"


def test_a_command_that_nobody_knows_is_told(tmp_path: Path) -> None:
    text = "Prose.\n\n```\ndcgym frobnicate \\\n  --often   # a comment\n```\n\n```python\nimport os\nprint('new')\n```\n"
    command, snippet = doc_pages.items("docs/new.md", text)
    assert isinstance(command, Command) and isinstance(snippet, Snippet)
    assert command.text == "dcgym frobnicate --often" and command.line == 4
    with pytest.raises(AssertionError, match=r"docs/new.md:4.*\n.*docs_commands.toml(?s:.)*'dcgym frobnicate --often' = \{"):
        entry_of(command)
    with pytest.raises(AssertionError, match=r"\[python\]\n *\"print\('new'\)\" = \{"):
        entry_of(snippet)


@pytest.mark.parametrize("words", ["run", "run a.toml --no-such-option", "bench no-such-bench", "vm -- run --no-such-option"])
def test_a_wrong_command_is_refused(words: str) -> None:
    with pytest.raises((SystemExit, AssertionError)):
        parse(words.split())


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.shell("ls examples/gym.toml && dcgym --version", 0) == ""
    assert "exit code 3, not 0" in desk.shell("echo why; exit 3", 0) and "why" in desk.shell("echo why; exit 3", 0)
    assert desk.shell("exit 3", 3) == ""
    changed = Snippet("docs/new.md", 1, "print('another')\n", None)
    assert "differs" in desk.python(changed, {"same_as": "examples/a2c.py"})


def tail(output: str, lines: int = 25) -> str:
    return textwrap.indent("\n".join(output.splitlines()[-lines:]), "    ")


def without_head(text: str) -> str:
    """Returns a program from its first line that is no comment."""
    lines = text.splitlines()
    return "\n".join(lines[next(n for n, line in enumerate(lines) if not line.startswith("#")) :]).strip()
