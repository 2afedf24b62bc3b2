# SPDX-License-Identifier: Apache-2.0
"""`dcgym verify`: two results side by side, and damaged results. No lab is booted."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import synthetic

from dc_gym.cli import main
from dc_gym.cli.verify import verify
from dc_gym.results.digest import DIGEST_VERSION
from dc_gym.results.results import Result
from dc_gym.results.tables import Tables


@pytest.fixture
def a(tmp_path: Path) -> Result:
    return synthetic.result(tmp_path / "a")


def other(a: Result, **change: int) -> Result:
    """Returns the same experiment with one changed value: marks of queue record 300, or srtt of TCP record 500."""
    tables = a.tables
    queues, tcp = tables.queues.copy(), tables.tcp.copy()
    queues["marks"][300] += change.get("marks", 0)
    tcp["srtt_us"][500] += change.get("srtt", 0)
    changed = dataclasses.replace(tables, queues=queues, tcp=tcp)
    return synthetic.result(a.path.parent / "b", changed, spec=a.manifest["spec"])


def edit(result: Result, **values: Any) -> None:
    """Damages a manifest; None removes a key."""
    path = result.path / "manifest.json"
    manifest = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value is not None}))


def said(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, str, str]:
    code = main.main(["verify", *map(str, argv), "--quiet"])
    return code, *capsys.readouterr()


def test_equal_results(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    b = other(a)
    assert said(capsys, a.path, "--against", b.path) == (0, f"A  {a.path}\nB  {b.path}\nequal, digest {a.digest}\n", "")


def test_the_first_difference_with_ten_records_before_it(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    b = other(a, marks=3, srtt=1)
    code, out, _ = said(capsys, a.path, "--against", b.path)
    assert code == 1
    marks = int(a.tables.queues["marks"][300])
    lines = out.splitlines()
    assert (
        lines[3]
        == f"  first difference: queues, port s1-eth3 of s1 at t = 1000000000 ns: marks {marks} and {marks + 3} (record 300)"
    )
    assert lines[4].split() == ["t_ns", "backlog_bytes", "tx_bytes", "marks", "|", "t_ns", "backlog_bytes", "tx_bytes", "marks"]
    rows = [line.removeprefix("  ").lstrip(">").split() for line in lines[5:16]]
    assert [row[0] for row in rows] == [str(t * 10_000_000) for t in range(90, 101)]
    assert all(row[:4] == row[5:] for row in rows[:-1]), "before the first difference all is the same"
    assert lines[15].startswith("  > ") and rows[-1][3] == f"{marks}*" and rows[-1][-1] == f"{marks + 3}*"
    assert "the same in all of these: port s1-eth3, backlog_packets 0" in lines[16]


def test_a_record_that_one_lacks(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    tables = a.tables
    b = synthetic.result(a.path.parent / "b", dataclasses.replace(tables, tcp=tables.tcp[:-1]), spec=a.manifest["spec"])
    code, out, _ = said(capsys, a.path, "--against", b.path)
    assert code == 1 and "only A has this record" in out
    last = next(line for line in out.splitlines() if line.startswith("  > "))
    assert set(last.partition("|")[2].split()) == {"-"}
    assert said(capsys, b.path, "--against", a.path)[1].count("only B has this record") == 1


def test_a_flow_beside_the_flows_before_it(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    flows = a.tables.flows.copy()
    flows["retransmits"][1] += 1
    b = synthetic.result(a.path.parent / "b", dataclasses.replace(a.tables, flows=flows), spec=a.manifest["spec"])
    out = said(capsys, a.path, "--against", b.path)[1]
    assert "flows, flow 1 (h1 to h2)" in out and "retransmits 0 and 1" in out
    assert next(line for line in out.splitlines() if line.startswith("  > ")).split()[1] == "1"


def test_what_the_experiments_differ_in_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"kernel": "7.2.12", "libc": "glibc 2.41"}
    a = synthetic.result(tmp_path / "a", environment=environment)
    spec = a.manifest["spec"] | {"seed": 2, "controller": {"name": "nv"}}
    changed = environment | {"libc": "glibc 2.36"}
    b = synthetic.result(tmp_path / "b", synthetic.run(seed=2), spec=spec, environment=changed, fingerprint="beef")
    out = said(capsys, a.path, "--against", b.path)[1].splitlines()
    assert out[2:6] == [
        'other spec controller.name: "dctcp" and "nv"',
        "other spec seed: 1 and 2",
        'other environment libc: "glibc 2.41" and "glibc 2.36"',
        "other fingerprint: f00d and beef",
    ]
    assert "first difference: " in out[7]


def test_other_files_of_one_spec_are_named(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    b = other(a)
    for result, digit in ((a, "1"), (b, "2")):
        edit(result, inputs={"matrix.csv": digit * 64}, code=[{"file": "code/mine.py", "sha256": digit * 64}])
    out = said(capsys, a.path, "--against", b.path)[1]
    assert f'other inputs matrix.csv: "{"1" * 64}" and "{"2" * 64}"\n' in out
    assert f'other inputs code/mine.py: "{"1" * 64}" and "{"2" * 64}"\n' in out


def test_runs_in_real_time_are_not_expected_to_be_equal(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    b = other(a, marks=3)
    edit(b, ground="host")
    assert "other ground than a lab: in real time no two runs are equal" in said(capsys, a.path, "--against", b.path)[1]


def test_other_ports(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    tables = a.tables
    ports = ({**tables.ports[0], "name": "s1-eth9"}, *tables.ports[1:])
    b = synthetic.result(a.path.parent / "b", Tables(tables.flows, tables.queues[:-1], tables.tcp, ports))
    code, out, _ = said(capsys, a.path, "--against", b.path)
    assert code == 1 and "ports, port 0: name 's1-eth3' and 's1-eth9'" in out


def test_json(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    b = other(a, srtt=1)
    code, out, _ = said(capsys, a.path, "--against", b.path, "--json")
    report = json.loads(out)
    assert code == 1 and report["same"] is False
    assert report["difference"]["columns"][0]["column"] == "srtt_us" and report["difference"]["row"] == 500


@pytest.mark.parametrize("damage", [{"spec": None}, {"fingerprint": None}, {"environment": "?", "fingerprint": 7}, {"spec": []}])
def test_damaged_manifests_are_compared_all_the_same(a: Result, capsys: pytest.CaptureFixture[str], damage: Any) -> None:
    b = other(a)
    edit(b, **damage)
    code, out, err = said(capsys, a.path, "--against", b.path)
    assert code == 0 and not err and "equal, digest" in out
    assert "(not stated)" in out or "f00d and 7" in out


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"spec": None}, "spec is missing"),
        ({"spec": 3}, "spec is missing or no table"),
        ({"spec": {"topology": {"preset": "torus"}}}, "torus"),
        ({"digest": "0" * 64}, "they were changed"),
        ({"digest": None}, "digest is missing"),
    ],
)
def test_damaged_manifests_are_not_run_again(a: Result, capsys: pytest.CaptureFixture[str], damage: Any, words: str) -> None:
    edit(a, **damage)
    code, out, err = said(capsys, a.path)
    assert code == 2 and not out and len(err.splitlines()) == 1 and words in err


def test_digests_of_two_versions(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    b = other(a)
    edit(b, digest_version=DIGEST_VERSION + 1)
    code, _, err = said(capsys, a.path, "--against", b.path)
    assert code == 2 and f"digest of version {DIGEST_VERSION}" in err


def test_nothing_to_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys)[0] == 2
    code, _, err = said(capsys, "--against", tmp_path / "none")
    assert code == 2 and "no such folder" in err


def test_every_result_of_a_sweep_is_verified(a: Result, tmp_path: Path, capsys, monkeypatch) -> None:
    """A line each: equal, different, and one that cannot be run again; the exit code is the worst."""
    sweep = tmp_path / "sweep"
    for name in ("s1", "s2", "s3"):
        synthetic.result(sweep / name, spec=dict(a.manifest["spec"], seed=int(name[1])))
    changed = other(a, marks=3)

    def run_again(spec: Any, *_args: Any, **_how: Any) -> Result:
        return synthetic.result(Path(mkdtemp(dir=tmp_path)) / "again", changed.tables if spec.seed == 2 else None)

    monkeypatch.setattr(verify.runner, "run", run_again)
    monkeypatch.setattr(verify, "scratch", lambda *_: nullcontext(tmp_path))
    edit(Result(sweep / "s3", json.loads((sweep / "s3" / "manifest.json").read_text()), {}, a.ports), spec="gone")
    code, out, err = said(capsys, sweep)
    lines = out.splitlines()
    assert (code, len(lines), err) == (2, 4, "")
    assert lines[0] == f"{sweep / 's1'}: equal, digest {a.digest}"
    assert lines[1].startswith(f"{sweep / 's2'}: different, digest {changed.digest}; first difference: queues, port s1-eth3")
    assert lines[2] == f"{sweep / 's3'}: {sweep / 's3' / 'manifest.json'}: spec is missing or no table, so it cannot be run again"
    assert lines[3] == "1 of 3 equal"
    (sweep / "s3" / "manifest.json").unlink()
    code, out, _ = said(capsys, sweep, "--json")
    assert (code, [result["same"] for result in json.loads(out)["results"]]) == (1, [True, False])


def test_a_folder_without_results_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1) and "not a result" in err


def test_equal_records_under_different_fingerprints_are_worth_saying(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"libc": "glibc 2.41", "programs": "1" * 16, "numpy": "2.1.0"}
    sources = {"traffic": "1" * 16, "spec": "2" * 16, "envs": "3" * 16}
    a = synthetic.result(tmp_path / "a", environment=environment, sources=sources)
    changed = environment | {"numpy": "2.2.0", "programs": "2" * 16}
    changes = {"environment": changed, "sources": sources | {"traffic": "4" * 16}, "fingerprint": "beef"}
    b = synthetic.result(tmp_path / "b", spec=a.manifest["spec"], **changes)
    code, out, _ = said(capsys, a.path, "--against", b.path)
    assert code == 0 and out.splitlines()[2:5] == [
        'other environment numpy: "2.1.0" and "2.2.0"',
        f'other environment programs: "{"1" * 16}" and "{"2" * 16}"',
        "other fingerprint: f00d and beef",
    ]
    last = f"equal, digest {a.digest}; equal records under different fingerprints (numpy, programs: traffic)"
    assert out.splitlines()[5:] == [last]
    assert json.loads(said(capsys, a.path, "--against", b.path, "--json")[1])["software"] == "numpy, programs: traffic"
    edit(b, sources=None)
    assert said(capsys, a.path, "--against", b.path)[1].endswith("under different fingerprints (numpy, programs)\n")
    edit(b, environment=None)
    edit(a, environment=None)
    assert said(capsys, a.path, "--against", b.path)[1].endswith("(parts that they do not state)\n")
