# SPDX-License-Identifier: Apache-2.0
"""`dcgym reproduce`, another name of `dcgym study`: its list, its names of figures, its options, and mistakes."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY, aliases
from dc_gym.cli import main
from dc_gym.study import command


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], dict[str, object]]]:
    """Returns the verbs with the names of studies and the options that commands ask for; nothing runs."""
    calls: list[tuple[str, list[str], dict[str, object]]] = []

    def take(library: object, args: object, progress: object) -> int:
        options = vars(args)
        calls.append((options["verb"], [study.name for study in LIBRARY.chosen(options["names"])], options))
        return 0

    monkeypatch.setattr(command, "main", take)
    return calls


def test_it_lists_all_studies_of_the_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    groups = {line.partition(":")[0] for line in lines if not line.startswith(" ")}
    assert set(aliases.PAPERS) <= groups
    assert [line.split()[0] for line in lines if line.startswith(" ")] == list(LIBRARY.names())
    assert "  iroko/figure-5.2         Dumbbell at 10 Mbit/s, TCP: reward, goodput and queues" in lines


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["iroko", "5.2", "5.3"], ["iroko/figure-5.2", "iroko/figure-5.3"]),
        (["iroko", "figure-1.1"], ["iroko/figure-1.1"]),
        (["iroko", "udp"], ["iroko/udp"]),
        (["pcc-rl", "table-2"], ["pcc-rl/table-2"]),
        (["pcc-rl"], [name for name in LIBRARY.names() if name.startswith("pcc-rl/")]),
        (["all"], [name for paper in aliases.PAPERS for name in LIBRARY.names() if name.startswith(f"{paper}/")]),
    ],
)
def test_figures_have_the_names_of_studies_or_their_numbers_alone(
    argv: list[str], names: list[str], asked: list[tuple[str, list[str], dict[str, object]]]
) -> None:
    assert main.main(["reproduce", *argv]) == 0
    assert [(verb, chosen) for verb, chosen, _ in asked] == [("run", names)]


def test_full_is_the_length_of_the_source_with_all_cases(asked: list[tuple[str, list[str], dict[str, object]]]) -> None:
    for argv in (["pcc-rl", "table-1"], ["pcc-rl", "table-1", "--full"]):
        assert main.main(["reproduce", *argv, "--seeds", "2", "--algorithms", "none"]) == 0
    options = [command.Desk(LIBRARY, Namespace(**arguments), Quiet()).options("pcc-rl") for _, _, arguments in asked]
    assert [(setting.full, setting.all_cases, setting.seeds, setting.algorithms) for setting in options] == [
        (False, False, 2, ()),
        (True, True, 2, ()),
    ]


def test_the_score_is_that_of_all_papers(asked: list[tuple[str, list[str], dict[str, object]]]) -> None:
    assert main.main(["reproduce", "--score"]) == 0
    ((verb, names, _),) = asked
    assert verb == "score" and {name.partition("/")[0] for name in names} == set(aliases.PAPERS)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "reproduce: name a paper (iroko, rl-cc, pcc-rl, fdcc, acc) or all"),
        (["all", "5.2"], "reproduce all 5.2: name the paper of this figure"),
        (["iroco"], "study 'iroco' is unknown; did you mean iroko?"),
        (["iroko", "5.7"], "study 'iroko/5.7' is unknown"),
        (["pcc-rl", "standard"], "did you mean pcc-rl/standard-rl?"),
        (["iroko", "5.2", "--algorithms", "PPO,,DDPG"], "--algorithms 'PPO,,DDPG': write it like PPO,DDPG"),
        (["iroko", "5.2", "--algorithms", "none", "--duration", "soon"], "--duration: value 'soon'"),
        (["pcc-rl", "table-1", "--steps", "5"], "--steps 5: nothing is trained for pcc-rl/table-1"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["reproduce", *argv, "--out", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
