# SPDX-License-Identifier: Apache-2.0
"""Whatever a user or another person gets wrong ends with one line and exit code 2, never with a traceback."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dc_gym import spec
from dc_gym.base.errors import ProtocolError, TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli import main
from dc_gym.cli.watch.snapshot import Attached
from dc_gym.kernel import share
from dc_gym.results.results import load_result
from dc_gym.run import runner

ROOT = Path(__file__).resolve().parents[3]
SPEC = ROOT / "examples" / "dumbbell.toml"
SHORT = ("time.duration=200ms", "time.warmup=10ms")
WRONG = (None, "x", -1, 1e308, [], {}, True, [[1]])
"""Each of them takes the place of each value of a result's JSON files."""
JSON = ("manifest.json", "summary.json", "ports.json", "graph.json")
Place = tuple[str | int, ...]

READERS: dict[str, Callable[[Path, Path], list[str]]] = {
    "compare": lambda a, b: ["compare", f"{a}", f"{b}", "--json"],
    "verify": lambda a, b: ["verify", f"{a}", "--against", f"{b}", "--quiet"],
    "verify the other": lambda a, b: ["verify", f"{b}", "--against", f"{a}", "--quiet", "--json"],
    "topology": lambda a, b: ["topology", f"{a}"],
    "plot": lambda a, b: ["plot", f"{a}", "--force"],
    "plot of many": lambda a, b: ["plot", f"{a.parent}", "--x", "seed", "--y", "goodput_bps", "--force"],
    "report": lambda a, b: ["report", f"{a}", f"{b}", "--quiet", "--out", f"{a.parent / 'page.html'}", "--force"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two results of a dumbbell."""
    folder = tmp_path_factory.mktemp("results")
    folder.chmod(0o755)
    for seed in (1, 2):
        runner.run(spec.load(SPEC, SHORT, seed), folder / f"seed-{seed}", Quiet(), plot=False)
    return folder / "seed-1", folder / "seed-2"


def places(value: Any, keys: Place = ()) -> Iterator[Place]:
    """Yields the place of each value in a JSON text, of each list for its first row alone."""
    yield keys
    for name in value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ():
        yield from places(value[name], (*keys, name))


def spoilt(whole: Any, keys: Place, wrong: Any) -> Any:
    if not keys:
        return wrong
    changed = copy.deepcopy(whole)
    inner = changed
    for name in keys[:-1]:
        inner = inner[name]
    inner[keys[-1]] = wrong
    return changed


def read_one(name: str, a: Path, b: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs a reading command. An exception that it raises is a traceback; what it says of an error is one line."""
    code = main.main(READERS[name](a, b))
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert code in (0, 1) or (code == 2 and len(lines) == 1 and lines[0].startswith("dcgym: ")), (name, code, lines)


def read_spoilt(
    results: tuple[Path, Path], folder: Path, capsys: pytest.CaptureFixture[str], step: int, share_read: float
) -> int:
    """Spoils each value in turn, or one of `step`, and reads the result: by the commands if it is no more refused as a whole,
    with that probability. Returns the number of those that were refused."""
    chance, refused = random.Random(1), 0
    a, b = folder / "a", folder / "b"
    for source, copied in zip(results, (a, b), strict=True):
        shutil.copytree(source, copied)
    for name in JSON:
        whole = json.loads((a / name).read_text())
        for keys, wrong in [(keys, wrong) for keys in places(whole) for wrong in WRONG][::step]:
            (a / name).write_text(json.dumps(spoilt(whole, keys, wrong)))
            if refusal(a, "" if name == "graph.json" or not keys else f"{keys[0]}"):
                refused += 1
            elif chance.random() < share_read:
                read_one(chance.choice(list(READERS)), a, b, capsys)
        (a / name).write_text(json.dumps(whole))
    return refused


def refusal(folder: Path, key: str) -> bool:
    """Returns whether the result is refused as a whole. The line names file and key."""
    with suppress(TestbedError):
        spec.load(folder / "manifest.json", trust=True)
    try:
        load_result(folder).graph()
    except TestbedError as error:
        assert error.exit_code == 2 and "\n" not in str(error) and str(error).startswith(str(folder)), error
        assert key in str(error), error
        return True
    return False


@pytest.mark.lab
def test_a_value_of_another_type_in_a_result_is_one_line(
    results: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_spoilt(results, tmp_path, capsys, step=5, share_read=0.1) > 100


@pytest.mark.lab
@pytest.mark.long
def test_every_reader_of_every_spoilt_result(
    results: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_spoilt(results, tmp_path, capsys, step=1, share_read=1) > 500


@pytest.mark.lab
def test_the_line_names_file_and_key(results: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(results[0], tmp_path / "a")
    path = tmp_path / "a" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"wall_s": {"boot": "long"}}))
    assert main.main(["compare", f"{tmp_path / 'a'}", f"{results[1]}"]) == 2
    line = f"dcgym: {path}: wall_s.boot: 'long' is not a number; the file was changed\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("sizes", [(2**63, 2**63), (1, 100), (0, 0), (8, 2**40), (2**64 - 8, 2**64 - 1), (0, 4096)])
def test_a_lab_s_socket_that_tells_nonsense_is_one_line(sizes: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / ".lab").mkdir()
    with share.RegionServer(tmp_path / ".lab") as server, (tmp_path / "memory").open("w+b") as memory:
        memory.truncate(4096)
        request = share.Request(tmp_path / ".lab", 1)
        server.serve_one(memory.fileno(), *sizes)
        assert request.is_answered(1)
        with pytest.raises(ProtocolError, match="state matrix"):
            Attached(tmp_path / ".lab", request.take())


def test_a_lab_s_socket_that_gives_no_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".lab").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / ".lab" / share.NAME))
        server.listen()

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"nonsense" * 2)

        threading.Thread(target=answer).start()
        with pytest.raises(UsageError, match="the lab has just ended"):
            share.attach(tmp_path / ".lab")


COMMAND = "import sys; from {module} import main; sys.argv = ['dcgym', *sys.argv[1:]]; sys.exit(main())"


def command(*words: str) -> list[str]:
    """Returns the installed command, as pyproject.toml names it."""
    module, _, name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["dcgym"].partition(":")
    assert name == "main"
    return [sys.executable, "-c", COMMAND.format(module=module), *words]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(closed: str, tmp_path: Path) -> None:
    argv = ["sh", "-c", f'"$@" {closed}', "sh", *command("topology", "dumbbell-10m", "--png", "net.png")]
    child = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert child.returncode == 0 and child.stderr == "", child.stderr
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG"), "nothing was printed into the file"


INTERRUPTED = """
import os, signal, sys
class Interrupter:
    def find_spec(self, name, *rest):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
"""


@pytest.mark.parametrize("module", ["dc_gym.cli.main", "argparse", "dc_gym.base.terminal", "dc_gym.cli.parser"])
def test_an_interruption_while_the_command_is_loaded_is_one_line(module: str) -> None:
    python, option, script, *words = command("list")
    child = subprocess.run([python, option, INTERRUPTED.format(module=module) + script, *words], capture_output=True, text=True)
    assert (child.returncode, child.stderr) == (130, "dcgym: interrupted\n")


@pytest.mark.root
@pytest.mark.parametrize("uid", ["abc", "-1", "4294967295", "1" * 30, "\u0663", "1 "])
def test_a_number_of_sudo_that_is_none_is_one_line(uid: str, tmp_path: Path) -> None:
    argv = command("run", str(SPEC), "--out", "out", "--quiet", "--no-plot", *(f"--set={setting}" for setting in SHORT))
    env = {**os.environ, "SUDO_UID": uid, "SUDO_GID": "1000"}
    child = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert child.returncode == 2 and child.stderr.startswith(f"dcgym: SUDO_UID={uid}: "), child.stderr
    assert child.stderr.count("\n") == 1


def test_a_result_s_place_that_is_not_utf_8_is_refused_before_the_run(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/out-\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        runner.run(spec.load(SPEC, SHORT), Path(path), Quiet())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limit", "option"), [("ulimit -n 64", "ulimit -n"), ("ulimit -f 100", "ulimit -f")])
def test_a_limit_that_a_lab_meets_is_one_line_with_a_remedy(limit: str, option: str, tmp_path: Path) -> None:
    words = command("run", str(SPEC), "--out", "out", "--quiet", "--no-plot", *(f"--set={setting}" for setting in SHORT))
    child = subprocess.run(["sh", "-c", f'{limit}; "$@"', "sh", *words], cwd=tmp_path, capture_output=True, text=True)
    assert child.returncode == 2 and child.stderr.count("\n") == 1 and f"({option})" in child.stderr, child.stderr
    assert list(tmp_path.iterdir()) == []
