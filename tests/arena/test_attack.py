# SPDX-License-Identifier: Apache-2.0
"""The adversary: scenes and their moves, a search and what it leaves of an attack, and attacks that repeat to the bit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from facts import states

from dc_gym.arena import attack, entrant, scene, suite
from dc_gym.arena.scene import Act, Attack
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli import arguments
from dc_gym.cli.main import main
from dc_gym.results.results import load_result
from dc_gym.run.sweep.grid import Grid
from dc_gym.run.sweep.state import RunState, Status
from dc_gym.study import collect
from dc_gym.study.model import StudyOptions

pytestmark = pytest.mark.usefixtures("registries")
ROOT = Path(__file__).resolve().parents[2]
SCENES = sorted(path.stem for path in scene.FOLDER.glob("*.toml"))
FOUND = sorted((ROOT / "examples" / "attacks").glob("*.toml"))
SHORT = """
title = "one flow over 20 Mbit/s"
track = "tcp"
measure = "harm"
others = { port = "s1-eth3", behind = "s1-eth3", share = 1.0 }
[spec]
topology = { kind = "dumbbell", pairs = 2, rate = "20Mbit/s", delay = "1ms", buffer = "20p", k_bytes = "10p" }
workload = { kind = "many_to_one", senders = 1 }
time = { duration = "1s", warmup = "100ms" }
[moves.losses]
title = "loss"
add = "events"
table = { port = "s1-eth3", loss = 1.0 }
until = { loss = 0.0 }
draw = { at = { uniform = ["100ms", "500ms"] }, lasts = { log_uniform = ["1ms", "100ms"] } }
"""


class MadeUp(attack.Judge):
    """A judge to whom long losses are the harm, so that no run is needed."""

    def harms(self, attacks: Sequence[Attack]) -> list[float | None]:
        return [
            max((act.numbers["lasts"] / 10**8 for act in tried if act.move.name == "losses"), default=0.0) for tried in attacks
        ]


def made_up(name: str, folder: Path) -> MadeUp:
    return MadeUp(scene.load(name), entrant.resolve("reno"), folder, StudyOptions(folder), Quiet())


@pytest.mark.parametrize("name", SCENES)
def test_every_move_at_either_end_is_an_experiment(name: str, tmp_path: Path) -> None:
    known = scene.load(name)
    player = entrant.shipped(suite.track(known.track).reference[0], known.track)
    start = known.spec((), player, tmp_path).to_dict()
    for move in known.moves:
        for end in ("low", "high"):
            act = Act(move, {key: getattr(drawn, end) for key, drawn in move.drawn.items()})
            assert known.spec((act,), player, tmp_path).to_dict() != start


def test_a_search_keeps_what_does_the_harm_in_round_numbers(tmp_path: Path) -> None:
    found, again = (attack.find(made_up("tcp-line", tmp_path), 64, lambda: False, seed=1) for _ in range(2))
    assert (found.attack, found.trials, found.start) == (again.attack, 64, 0.0)
    (act,) = found.attack
    assert act.move.name == "losses" and found.harm >= 0.8 * found.worst
    assert all(re.fullmatch(r"\d{1,4}0*", str(number)) for number in act.numbers.values())
    assert states(str(found), f"reno, tcp-line: harm {found.harm:.3g} ... loss of every frame at ... lasts")


def test_a_search_without_time_tries_one_round(tmp_path: Path) -> None:
    assert attack.find(made_up("tcp-line", tmp_path), None, lambda: True, seed=1).trials == attack.ROUND


@pytest.mark.lab
def test_an_attack_is_a_spec_that_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short.toml").write_text(SHORT)
    words = [
        "arena",
        "attack",
        "reno",
        "--scene",
        str(tmp_path / "short.toml"),
        "--trials",
        "8",
        "--out",
        str(tmp_path),
        "--quiet",
    ]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert states(printed, "reno, short: harm 0. ... lasts ... spec ... attack.toml, digest")
    path = tmp_path / "reno-short" / "attack.toml"
    assert main(["run", str(path), "--out", str(tmp_path / "again"), "--quiet", "--no-plot"]) == 0
    assert f"# digest {load_result(tmp_path / 'again').digest}\n" in path.read_text()
    monkeypatch.setattr(attack.Judge, "_measure", None)  # every score is known
    assert main(words) == 0 and capsys.readouterr().out.splitlines()[-2:] == printed.splitlines()[-2:]


def test_a_run_that_fails_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(grid: Grid, *_: object, **__: object) -> list[Status]:
        return [Status(point, RunState.FAILED, 1, "No space left on device\nmore") for point in grid.points]

    monkeypatch.setattr(collect.sweep, "run_grid", full)
    monkeypatch.setattr(attack.play, "environment", lambda spec, _: {})
    judge = attack.Judge(scene.load("tcp-line"), entrant.resolve("reno"), tmp_path, StudyOptions(tmp_path), Quiet())
    with pytest.raises(TestbedError) as error:
        judge.harms([()])
    assert states(str(error.value), "No space left on device; the same command goes on") and not list(tmp_path.iterdir())


@pytest.mark.lab
@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_a_weakness_that_was_found_is_there_elsewhere(path: Path, tmp_path: Path) -> None:
    assert main(["run", str(path), "--out", str(tmp_path / "run"), "--quiet", "--no-plot"]) == 0
    result = load_result(tmp_path / "run")
    assert f"# digest {result.digest}\n" in path.read_text() and len(result.manifest["spec"].get("events", ())) <= 6


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (("track =", "tracks ="), "not a scene: track is missing"),
        (('measure = "harm"', 'measure = "speed"'), "measure 'speed' is none of harm, drop_ratio"),
        (('add = "events"', 'add = "event"'), "moves.losses.add = 'event' is none of events, workload.beside"),
        (("at = {", "att = {"), "moves.losses.draw.att: no key of events"),
        (('["1ms", "100ms"]', '["100ms", "1ms"]'), "moves.losses.draw.lasts ... empty range"),
        (("[spec]", "[spec"), "not a scene"),
    ],
)
def test_a_scene_that_is_none_is_one_line(change: tuple[str, str], facts: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SHORT.replace(*change))
    with pytest.raises(UsageError) as error:
        scene.load(str(path))
    assert states(str(error.value), facts) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["reno", "--scene", "tcp-lime"], "tcp-lime ... tcp-line"),
        (["dcqcn", "--scene", "tcp-line"], "scene tcp-line is of the track tcp, not nic; that one has nic-buffer"),
        (["reno", "--scene", "mine.toml"], "mine.toml ... give"),
        (["secn1"], "no scene of the track marking ships; give yours by --scene"),
    ],
)
def test_an_attack_that_cannot_begin_is_one_line(words: list[str], facts: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arena", "attack", *words, "--quiet"]) == 2
    assert states(capsys.readouterr().err, facts)


def test_a_budget_is_a_number_and_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert [arguments.budget_s(text) for text in ("90s", "10m", "1h")] == [90, 600, 3600]
    with pytest.raises(SystemExit):
        main(["arena", "attack", "reno", "--budget", "1d"])
    assert states(capsys.readouterr().err, "'1d' is not a time to spend; write it like 90s, 10m or 1h")
