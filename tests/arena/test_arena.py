# SPDX-License-Identifier: Apache-2.0
"""The arena: cases and their draws, entrants, rows as files, ranks, and a row that is made again in labs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from facts import states

from dc_gym import __version__
from dc_gym.arena import entrant, page, play, ranking, row, suite, verify
from dc_gym.arena.row import CaseRow, Row
from dc_gym.arena.suite import Secret
from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.results.fingerprint import fingerprint

pytestmark = pytest.mark.usefixtures("registries")
ROOT = Path(__file__).resolve().parents[2]
SECRET = Secret("a secret of tests")
DIGESTS = ("a" * 32, "b" * 32, "c" * 32)


def made_up(name: str, held_out: str = "", **cases: dict[str, float | None]) -> Row:
    """Returns a row of the TCP track with these measures; underscores in names of cases are hyphens."""
    rows = {case.replace("_", "-"): CaseRow(DIGESTS, measures) for case, measures in cases.items()}
    return Row(name, "tcp", "", (), {}, "0.1.0", suite.track("tcp").suite, "f", {}, held_out, "", rows)


@pytest.mark.parametrize("name", suite.TRACKS)
def test_each_track_has_eight_cases_whose_held_out_ones_have_other_numbers(name: str, tmp_path: Path) -> None:
    track = suite.track(name)
    assert len(track.cases) == 8
    player = entrant.resolve(track.reference[0])
    for case in track.cases.values():
        public, drawn = (case.spec_of(player.keys, case.seeds(secret)[0], secret, tmp_path) for secret in (None, SECRET))
        assert public.to_dict() != drawn.to_dict() and public.workload.kind == drawn.workload.kind
        assert case.drawn(SECRET) == case.drawn(Secret(SECRET.text)) != case.drawn(Secret("another"))
        assert case.seeds(None) == suite.SEEDS != case.seeds(SECRET)


def test_a_commitment_is_the_sha256_of_the_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text("told afterwards, by the judge\n")
    assert main(["arena", "commit", str(tmp_path / "secret"), "--quiet"]) == 0
    assert capsys.readouterr().out.strip() == hashlib.sha256(b"told afterwards, by the judge").hexdigest()
    assert main(["arena", "commit", str(tmp_path / "secret.txt")[-10:], "--quiet"]) == 2
    assert states(capsys.readouterr().err, "secret.txt ... 10 characters")


@pytest.mark.parametrize(
    ("name", "track", "facts"),
    [
        ("dctpc", "", "dctpc ... dctcp"),
        ("dctcp", "nic", "dctcp ... tcp, not nic"),
        ("mine.c", "", "mine.c: no such file"),
        (str(ROOT / "examples/ring.py"), "", "ring.py ... registers 0 policies"),
        (str(ROOT / "dc_gym/methods/acc/acc-deployed.npz"), "tcp", "marking, not tcp"),
    ],
)
def test_an_entrant_that_cannot_play_is_one_line(name: str, track: str, facts: str) -> None:
    with pytest.raises(UsageError) as error:
        entrant.resolve(name, track)
    assert states(str(error.value), facts) and "\n" not in str(error.value)


def test_files_play_the_track_of_what_they_are() -> None:
    policies = {"acc/acc-deployed": "marking", "rlcc/rlcc-tree": "nic", "fdcc/fdcc": "nic"}
    for name, track in policies.items():
        path = ROOT / f"dc_gym/methods/{name}.npz"
        player = entrant.resolve(str(path))
        assert (player.track.name, player.file) == (track, path.name)
        assert player.source == {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}


def test_a_row_survives_its_file(tmp_path: Path) -> None:
    made = made_up("mine", bulk_10m={"goodput_bps": 1.5, "drops": None})
    assert row.read(made.write(tmp_path / "row.json")) == made


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"suite": None}, "suite is missing"),
        ({"file": "../../etc/passwd"}, "file '../../etc/passwd' is no plain name"),
        ({"entrant": "/bin/sh"}, "entrant '/bin/sh' is no plain name"),
        ({"track": "udp"}, "track 'udp' is none of tcp"),
        ({"row_version": 9}, "row_version 9"),
        ({"cases": {}}, "no case"),
        ({"cases": {"mine": {}}}, "case 'mine' is none of track tcp"),
        ({"cases": {"bulk-10m": {"digests": ["0"], "measures": {}}}}, "bulk-10m ... 3 of 32"),
        ({"cases": {"bulk-10m": {"digests": DIGESTS, "measures": {"speed": 1}}}}, "speed = 1 is no measure"),
        ({"cases": {"bulk-10m": {"digests": DIGESTS}}}, "measures is missing"),
        ({"source": ["a"]}, "not a row"),
    ],
)
def test_a_strange_row_is_one_line(change: dict[str, Any], facts: str, tmp_path: Path) -> None:
    path = made_up("mine", bulk_10m={"drops": 0}).write(tmp_path / "row.json")
    data = {name: value for name, value in {**json.loads(path.read_text()), **change}.items() if value is not None}
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError) as error:
        row.read(path)
    assert states(str(error.value), f"{path} ... {facts}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"entrant": "mine.py"}, "entrant 'mine.py' is unknown"),
        ({"file": "mine.py"}, "give the file mine.py by --entrant"),
        ({"settings": ["nic.policy=mine.npz"]}, "nic.policy=mine.npz ... no path"),
        ({"settings": ["controller.policy=mine.py:Mine"]}, "mine.py:Mine ... no path"),
        ({"settings": ["plugins=mine.py"]}, "plugins=mine.py ... no path"),
        ({"held_out": "0" * 64}, "need the secret"),
        ({"held_out": "0" * 64, "secret": "mine.py"}, "the secret has SHA-256"),
    ],
)
def test_a_row_leads_to_no_file(
    change: dict[str, Any], facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("raise SystemExit('it ran')\n")
    edited = replace(made_up("dctcp", bulk_10m={"drops": 0}), **change)
    assert main(["arena", "verify", str(edited.write(Path("row.json"))), "--quiet"]) == 2
    assert states(told := capsys.readouterr().err, facts) and told.count("\n") == 1
    if "secret" in change:
        assert hashlib.sha256(b"mine.py").hexdigest() in told, "it is the text, not the file of that name"


def test_ranks_ratios_and_the_front_are_of_a_measure_alone() -> None:
    league = ranking.leagues(
        [
            made_up("dctcp", bulk_10m={"goodput_bps": 8, "queueing_delay_p99_s": 2}, incast_1g={"queueing_delay_p99_s": 4}),
            made_up("fast", bulk_10m={"goodput_bps": 9, "queueing_delay_p99_s": 8}, incast_1g={"queueing_delay_p99_s": 1}),
            made_up("slow", bulk_10m={"goodput_bps": 7, "queueing_delay_p99_s": None}, incast_1g={"queueing_delay_p99_s": 4}),
        ]
    )[0]
    assert league.ranks("bulk-10m", "queueing_delay_p99_s") == {"dctcp": 1, "fast": 2, "slow": 3}
    assert [league.rank(name, "queueing_delay_p99_s") for name in ("dctcp", "fast", "slow")] == [1.5, 1.5, 2.5]
    assert league.front(league.track.cases["bulk-10m"]) == {"dctcp", "fast"}
    assert league.ratio("fast", "goodput_bps") == pytest.approx(9 / 8)
    assert league.ratio("fast", "queueing_delay_p99_s") == pytest.approx(1)  # 8 / 2 and 1 / 4


def test_rows_of_other_cases_are_never_compared() -> None:
    rows = [made_up("dctcp", bulk_10m={"drops": 0}), made_up("dctcp", "ab", bulk_10m={"drops": 0})]
    rows.append(replace(rows[0], suite="older"))
    assert [len(league.rows) for league in ranking.leagues(rows)] == [1, 1, 1]


def test_what_ships_is_complete_and_the_crammer_falls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = row.shipped()
    assert all(list(one.cases) == list(suite.track(one.track).cases) for one in rows)
    assert all(one.suite == suite.track(one.track).suite for one in rows), "the cases changed: make the rows again"
    public = [one for one in rows if not one.held_out]
    assert len(public) >= 12 and {one.track for one in public} == set(suite.TRACKS)
    assert main(["arena", "table", "--out", str(tmp_path / "page.html"), "--quiet"]) == 0
    ((_, changes),) = page.fallen(ranking.leagues(rows))
    fallen = {(change.entrant, change.measure) for change in changes if change.falls}
    assert {("crammer", "goodput_bps"), ("crammer", "queueing_delay_p99_s")} <= fallen
    assert ("swift", "goodput_bps") not in fallen
    text = (tmp_path / "page.html").read_text()
    assert "falls" in text and "not sandboxed" in text
    assert states(capsys.readouterr().out, "crammer falls: goodput_bps")


def test_a_digest_that_depends_on_the_order_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player, case = entrant.resolve("dctcp"), suite.track("tcp").cases["bulk-10m"]
    claimed = verify.Claimed(made_up("dctcp", bulk_10m={"drops": 0}), player, None, [case])
    calls: list[int] = []

    def run(runs: list[Any], *_: Any) -> dict[str, Any]:
        calls.append(len(runs))
        return {one.name: SimpleNamespace(digest=f"{len(calls)}" * 64) for one in runs}

    monkeypatch.setattr(play, "run", run)
    monkeypatch.setattr(play.measures, "measure", lambda *_: dict.fromkeys(case.measures, 0.0))
    lines = list(verify.differences(claimed, tmp_path, 1, Quiet()))
    assert calls == [3, 1, 1, 1]
    for line, digest in zip(lines, DIGESTS, strict=True):
        assert states(line, f"digest {digest} ... {'1' * 32} here ... depends on the order")


@pytest.mark.lab
def test_a_row_of_a_file_is_made_again_and_what_was_edited_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = ROOT / "examples/tcp_mine.c", tmp_path / "arena"
    assert main(["arena", "run", str(source), "--case", "bulk-10m", "--out", str(out), "--quiet"]) == 0
    path = out / "tcp-mine.json"
    made = row.read(path)
    assert made.source == {"tcp_mine.c": hashlib.sha256(source.read_bytes()).hexdigest()}
    assert made.cases["bulk-10m"].measures["goodput_bps"] == pytest.approx(9.57e6, rel=0.01)

    def judged(edited: Row, *more: str, file: Path = source) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["arena", "verify", str(edited.write(tmp_path / "row.json")), "--entrant", str(file), "--quiet", *more])
        return status, "".join(capsys.readouterr())

    case = made.cases["bulk-10m"]
    assert judged(made) == (0, f"{tmp_path / 'row.json'}: mine: verified, 1 of 1 cases\n")
    better = replace(case, digests=("f" * 32, *case.digests[1:]))
    status, told = judged(replace(made, cases={"bulk-10m": better}))
    assert (
        status == 1 and states(told, f"bulk-10m-1: digest {'f' * 32} in the row, {case.digests[0]} here") and "order" not in told
    )
    better = replace(case, measures={**case.measures, "drops": 0})
    status, told = judged(replace(made, environment={**made.environment, "programs": "other"}, cases={"bulk-10m": better}))
    assert status == 1 and states(told, "other release: programs other in the row") and "drops" not in told
    status, told = judged(replace(made, cases={"bulk-10m": better}))
    assert status == 1 and states(told, f"bulk-10m: drops 0 in the row, its runs give {case.measures['drops']}")
    changed = tmp_path / "tcp_mine.c"
    changed.write_text(source.read_text().replace("70", "80"))
    status, told = judged(made, file=changed)
    assert status == 2 and states(told, f"row.json: it is of tcp_mine.c {made.source['tcp_mine.c'][:16]}")


def test_a_setting_replaces_nothing_of_a_case(tmp_path: Path) -> None:
    player = entrant.resolve("secn1", settings=["controller.name=cubic", "nic.latency=1us"])
    with pytest.raises(UsageError) as error:
        play.points(player, list(player.track.cases.values()), None, tmp_path)
    assert states(str(error.value), "--set controller.name=cubic ... value of its own")


def test_a_row_is_of_the_environment_of_all_its_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "environment", lambda spec, _: {spec.controller.name: "1"})
    player = entrant.resolve("secn1")
    environment = {"dctcp": "1", "dcqcn": "1"}
    cases = {name: CaseRow(DIGESTS, {}) for name in player.track.cases}
    stamp = (__version__, player.track.suite, fingerprint(environment), environment)
    made = Row("secn1", "marking", "", (), {}, *stamp, "", "", cases)
    some = list(player.track.cases.values())[-1:]
    assert verify.other_release(verify.Claimed(made, player, None, some), tmp_path, Quiet()) == []
    forged = verify.Claimed(replace(made, fingerprint="f" * 16), player, None, some)
    assert states(verify.other_release(forged, tmp_path, Quiet())[0], "f" * 16 + " ... was changed")


@pytest.mark.lab
def test_two_rows_of_one_header_are_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in sorted(row.SHIPPED.glob("nic-crammer*.json"))]
    words = ["--entrant", str(ROOT / "examples/crammer.h"), "--case", "many-to-one-10g", "--any-release", "--quiet"]
    status = main(["arena", "verify", *paths, *words])
    told = capsys.readouterr().out
    assert len(paths) == 2 and told.count("crammer: ") == 2 and "digest" not in told
    assert status == ("other release" in told)
