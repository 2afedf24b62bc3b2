# SPDX-License-Identifier: Apache-2.0
"""`dcgym new`: all answers give specs that load, comments are the keys' declared meanings, and wrong answers are one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from dc_gym import spec as specs
from dc_gym.cli import main, new
from dc_gym.cli.list import meanings
from dc_gym.ctrl import controllers
from dc_gym.results.results import load_result

ODD = ("dctcp-10g", "pairs")
"""The one network and the one traffic that do not fit: it has five hosts."""


def one_of_each_class() -> Iterator[str]:
    """Yields a controller for each way in which a spec treats controllers: as TCP or NICs, with marks or telemetry."""
    known = {(cc.nic, cc.ecn, cc.telemetry): name for name in controllers.names() if (cc := controllers.find(name))}
    yield from known.values()


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*words: str) -> int:
    return main.main(["new", "mine.toml", *words])


@pytest.mark.parametrize("network", new.NETWORKS)
def test_every_answer_gives_a_spec_that_loads(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    for traffic in new.TRAFFIC:
        try_answers(network, traffic, "dctcp", capsys)
    for controller in one_of_each_class():
        try_answers(network, new.Answers().traffic, controller, capsys)


@pytest.mark.long
@pytest.mark.parametrize("network", new.NETWORKS)
def test_all_answers_together_give_a_spec_that_loads(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    for traffic, controller in product(new.TRAFFIC, one_of_each_class()):
        try_answers(network, traffic, controller, capsys)


def try_answers(network: str, traffic: str, controller: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command loads what it writes; what is read back is what was asked for."""
    code = write("--network", network, "--traffic", traffic, "--controllers", controller, "--force")
    _, err = capsys.readouterr()
    if (network, traffic) == ODD:
        assert (code, err.count("\n")) == (2, 1) and "5 hosts are an odd number" in err
        return
    assert (code, err) == (0, ""), (traffic, controller, err)
    spec = specs.load("mine.toml")
    assert (spec.topology.preset, spec.workload.kind, spec.controller.name) == (network, traffic, controller)
    assert 0 < spec.time.warmup_ns < spec.time.duration_ns <= new.LONGEST_NS


def test_every_controller_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert write("--controllers", ",".join(controllers.names())) == 0, capsys.readouterr().err
    for name in controllers.names():
        assert specs.load("mine.toml", [f"controller.name={name}"]).controller.name == name


def test_each_key_has_its_declared_meaning_above_it() -> None:
    assert write() == 0
    declared, section, comment, described_keys = meanings(), "", list[str](), list[str]()
    for line in Path("mine.toml").read_text().splitlines():
        if line.startswith("["):
            section = f"{line[1:-1]}."
        elif line.startswith("# "):
            comment.append(line[2:])
            continue
        elif " = " in line:
            key = section + line.removeprefix("#").partition(" = ")[0]
            assert " ".join(comment).startswith(declared[key][1]), key
            described_keys.append(key)
        comment = []
    data = tomllib.loads(Path("mine.toml").read_text())
    written_keys = [f"{table}.{key}" for table, keys in data.items() if isinstance(keys, dict) for key in keys]
    assert {*written_keys, "name", "seed", "topology.rate", "topology.buffer"} <= set(described_keys)


def test_a_key_that_several_kinds_declare_has_the_meaning_of_the_chosen_one() -> None:
    assert write("--traffic", "incast") == 0
    assert "\n# simultaneous flows\nsenders = 4\n" in Path("mine.toml").read_text()


def test_the_keys_in_comments_are_what_the_preset_gives() -> None:
    assert write("--network", "acc24a") == 0
    before = specs.load("mine.toml").graph()
    text = "\n".join(
        line.removeprefix("#") if line.startswith("#rate") else line for line in Path("mine.toml").read_text().splitlines()
    )
    Path("mine.toml").write_text(text)
    assert 'rate = "25Gbit/s"' in text and specs.load("mine.toml").graph() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--network", "dumbell-10m"], "--network: network 'dumbell-10m' is unknown; did you mean dumbbell-10m"),
        (
            ["--network", "acc288"],
            "--network: 'acc288' has more than 24 hosts, too many for a first run; take one of: dumbbell-10m,",
        ),
        (["--traffic", "incst"], "--traffic: traffic 'incst' is unknown; did you mean incast?"),
        (["--controllers", "dctcp,kubic"], "--controllers: controller 'kubic' is unknown; did you mean cubic"),
        (["--controllers", ""], "--controllers: controller '' is unknown; "),
    ],
)
def test_a_wrong_answer_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(*words) == 2
    _, err = capsys.readouterr()
    assert err.startswith(f"dcgym: {message}") and err.count("\n") == 1 and not Path("mine.toml").exists()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("there.toml", "dcgym: there.toml exists; replace it with --force, or give another name\n"),
        ("folder.toml", "dcgym: folder.toml is a folder; give the name of a file\n"),
        ("mine.py", "dcgym: mine.py: a spec's name ends in .toml; give 'mine.toml'\n"),
        ("no/mine.toml", "dcgym: no/mine.toml: No such file or directory\n"),
    ],
)
def test_a_place_that_is_taken_or_wrong_is_one_line(file: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there.toml").write_text("mine")
    Path("folder.toml").mkdir()
    assert main.main(["new", file]) == 2 and capsys.readouterr().err == message
    assert Path("there.toml").read_text() == "mine"
    assert main.main(["new", "there.toml", "--force"]) == 0 and specs.load("there.toml").name == "there"


def at_a_terminal(typed: str, *words: str) -> tuple[int, str]:
    """Types into the command, which has a terminal of its own; returns its exit code and what the terminal showed."""
    master, slave = os.openpty()
    argv = [sys.executable, "-m", "dc_gym.cli.main", "new", "mine.toml", *words]
    child = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.write(master, typed.encode())
    screen = b""
    try:
        while part := os.read(master, 1 << 16):
            screen += part
    except OSError:  # the command has ended
        pass
    os.close(master)
    return child.wait(), screen.decode().replace("\r", "")


def test_at_a_terminal_it_asks_again_until_an_answer_fits() -> None:
    code, screen = at_a_terminal("dctcp-10g\npairs\nincst\nincast\n\n")
    assert code == 0, screen
    assert "5 hosts are an odd number" in screen and "did you mean incast?" in screen and "Which network?" in screen
    spec = specs.load("mine.toml")
    assert (spec.topology.preset, spec.workload.kind, spec.controller.name) == ("dctcp-10g", "incast", "dctcp")


def test_at_a_terminal_it_does_not_ask_what_options_answer() -> None:
    code, screen = at_a_terminal("bbr,nv\n", "--network", "fattree-k4", "--traffic", "poisson")
    assert code == 0 and "Which network?" not in screen and "Which traffic?" not in screen
    assert "dcgym sweep mine.toml --controllers bbr,nv --seeds 1..3" in screen
    assert specs.load("mine.toml").controller.name == "bbr"


def test_the_end_of_the_input_writes_nothing() -> None:
    code, screen = at_a_terminal("dumbbell-1g\n\x04")
    assert code == 2 and "mine.toml was not written: the input ended; answer the questions, or give --network" in screen
    assert not Path("mine.toml").exists()


@pytest.mark.lab
def test_what_it_writes_runs(tmp_path: Path, lab_kernel: object, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o755)
    assert write("--network", "dctcp-10g", "--traffic", "incast", "--controllers", "cubic") == 0
    assert main.main(["run", "mine.toml", "--out", "result", "--no-plot", "--quiet"]) == 0, capsys.readouterr().err
    summary = load_result(tmp_path / "result").summary
    assert summary["utilization"] > 0.5
