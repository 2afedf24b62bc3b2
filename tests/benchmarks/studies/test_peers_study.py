# SPDX-License-Identifier: Apache-2.0
"""Tests the studies of peers without their simulators: the cases, what is stored, how it is compared, and wrong paths."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.errors import ProtocolError, UsageError
from dc_gym.benchmarks.peers import __main__ as rows_of_a_peer
from dc_gym.benchmarks.peers import cases, files, hpcc_ns3, htsim, sources
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.peers import common
from dc_gym.study.claims import Verdict, judge
from dc_gym.study.collect import folder, spec_of, write
from dc_gym.study.evidence import Evidence, VariantEvidence
from dc_gym.study.model import Study, StudyOptions

CASE = PeerCase("swift", "leafspine", 16, 100, 1000, 20_000, 3000, 5000)
ROW = PeerRow(1000.0, 0.9, 0.9)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    argv = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit, as a peer's source tree."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


@pytest.mark.parametrize("name", cases.SIMULATORS)
def test_stored_rows_are_complete_and_run_here(name: str, tmp_path: Path) -> None:
    rows, study = cases.stored(name), LIBRARY.load(f"peers/{name}")
    groups = Counter(case.group for case in rows)
    assert len(groups) == 4 * len({case.algorithm for case in rows}) and min(groups.values()) >= 3
    assert all(number == 7 for group, number in groups.items() if group.startswith("hpcc, ") and group.endswith("to 1"))
    for row in rows.values():
        assert row.queue_bytes > 0 and 0 < row.utilization < 1.02 and 0 < row.jain <= 1 and row.hop_ns > 0
    options = StudyOptions(tmp_path)
    write(folder(study.runs, options), study.files_of([1]))
    for case, variant in zip(rows, study.variants, strict=True):
        assert spec_of(study, variant, options, 1).time.duration_ns == case.until_us * 1000


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, row = tmp_path / "rows.tsv", PeerRow(1.5, 0.25, 0.5, cases.NEVER, 12.5, 3)
    path.write_text("\t".join(cases.COLUMNS) + "\n" + cases.row_text("one", CASE, row) + "\n")
    assert cases.stored("one", path) == {CASE: row} and cases.stored("other", path) == {}


def test_a_case_s_flows_and_shared_ports(tmp_path: Path) -> None:
    experiment = cases.experiment(CASE, tmp_path)
    flows = [flow.request for flow in experiment.schedule.flows]
    assert [(flow.src, flow.dst) for flow in flows] == CASE.ends() and len({flow.dst for flow in flows}) == 16
    assert [flow.start_ns for flow in flows] == [20_000 * number for number in range(16)]
    fabric = [cable for cable in experiment.graph.cables if not cable.a.node.startswith("h") and not cable.b.node.startswith("h")]
    shared = cases.shared_here(CASE, experiment.graph)
    assert shared == sorted(port.ifname for cable in fabric for port in (cable.a, cable.b)) and len(shared) == 8
    one = cases.experiment(replace(CASE, topology="single", flows=2), tmp_path)
    assert cases.shared_here(replace(CASE, topology="single", flows=2), one.graph) == ["s1-eth3"]


def test_convergence_is_the_first_fair_bin_after_the_last_start() -> None:
    t_ns = np.arange(0, 1_000_001, 100_000)
    first, second = 2.0 * np.arange(11), np.concatenate([np.zeros(5), np.arange(1, 7) * 2.0])
    case = replace(CASE, flows=2, gap_ns=200_000)
    assert cases.converged_us((t_ns, np.stack([first, second], axis=1)), case) == 400
    assert cases.converged_us((t_ns, np.stack([first, 0 * second], axis=1)), case) == cases.NEVER
    assert cases.converged_us((t_ns[:1], np.ones((1, 2))), case) == cases.NEVER


def test_a_peer_s_files_become_a_row(tmp_path: Path) -> None:
    case = replace(CASE, topology="single", flows=2, rate_gbps=8, from_us=100, until_us=300)
    graph = cases.experiment(case, tmp_path).graph
    (port,) = cases.shared_here(case, graph)
    (tmp_path / "queues-out.csv").write_text(f"port,queue_bytes\n{port},4000\ns1-eth1,9\n")
    rows = [f"{t},{flow},{t // 1000 * (flow + 1)}" for t in (100_000, 200_000, 300_000) for flow in (0, 1)]
    (tmp_path / "progress-out.csv").write_text("\n".join(["t_ns,flow,received_bytes", *rows]) + "\n")
    row = cases.read_back(case, graph, tmp_path, 1.0, 1048)
    carried = (200 + 400) * 8 / (8 * 200_000)
    assert row == PeerRow(4000.0, round(carried, 4), 0.9, 200.0, round(1e9 * 1048 / (900 * 2), 1))
    (tmp_path / "progress-out.csv").write_text("t_ns,flow,received_bytes\n1,0,1\n")
    with pytest.raises(ProtocolError, match=r"1 rows.*2 flows"):
        files.read_progress(tmp_path, 2)


@pytest.mark.parametrize("samples", [3, 2])
def test_a_permutation_s_shared_ports_carry_two_links_of_each_flow(tmp_path: Path, samples: int) -> None:
    """Also if the peer ended before its last sample."""
    graph = cases.experiment(CASE, tmp_path).graph
    (tmp_path / "queues-out.csv").write_text(
        "port,queue_bytes\n" + "".join(f"{port},8\n" for port in cases.shared_here(CASE, graph))
    )
    line_bytes = CASE.rate_gbps * 1_000_000 // 8
    rows = [f"{ms * 1_000_000},{flow},{ms * line_bytes * (flow == 0)}" for ms in range(3, 3 + samples) for flow in range(16)]
    (tmp_path / "progress-out.csv").write_text("\n".join(["t_ns,flow,received_bytes", *rows]) + "\n")
    measurement = cases.read_back(CASE, graph, tmp_path, 1.0, 1048)
    assert measurement.utilization == 2 / 8, "one uplink and one downlink of eight"


def test_a_port_s_counters_tell_data_from_acks() -> None:
    case = replace(CASE, topology="single", flows=2, rate_gbps=8, from_us=100, until_us=300)
    rows = np.zeros(3, [("t_ns", "<i8"), ("port", "<u4"), ("tx_bytes", "<u8"), ("tx_packets", "<u8")])
    rows["t_ns"], rows["port"] = [100_000, 200_000, 300_000], 1
    rows["tx_packets"] = [7, 57, 107]
    rows["tx_bytes"] = 5000 + np.array([0, 25, 50]) * (1048 + 74)
    result = SimpleNamespace(ports=[{"name": "s1-eth9"}, {"name": "s1-eth3"}], records=lambda _: rows)
    assert common.carried(case, result, ["s1-eth3"]) == pytest.approx(50 * 1048 * 8 / (8 * 200_000))


def test_swift_s_parameters_are_the_nic_s(tmp_path: Path) -> None:
    options = dict(word[2:].split("=") for word in htsim.options(CASE, tmp_path))
    assert (options["from-ns"], options["stop-ns"], options["packet-bytes"]) == ("3000000", "5000000", "1048")
    assert (options["base-target-ns"], options["hop-ns"], options["fs-range-ns"]) == ("25000", "3050", "100000")
    assert (float(options["fs-max"]), float(options["ai"]), float(options["max-mdf"])) == (100, 1, 0.5)
    assert float(options["cwnd-initial"]) == pytest.approx(4 * (2000 + 83.84) * 12.5 / 1048)


def evidence_of(study: Study, group: str, values: dict[str, float], *others: dict[str, float]) -> Evidence:
    """Returns what the study makes of runs in which all gaps but the first of `others` gave the same."""
    names = [variant.name for variant in study.variants if variant.name.startswith(f"{group}, gap")]
    rows = [*others, *[values] * (len(names) - len(others))]
    runs = {
        name: VariantEvidence(name, name, "#000000", {key: {1: value} for key, value in row.items()})
        for name, row in zip(names, rows, strict=True)
    }
    return study.derive(Evidence(runs))


def test_medians_over_gaps_are_judged_by_the_bound() -> None:
    study = LIBRARY.load("peers/htsim")
    printed = common.printed({case: row for case, row in cases.stored("htsim").items() if case.group == "swift, 2 to 1"})
    claim = next(candidate for candidate in study.claims if candidate.text.startswith("swift, 2 to 1"))
    assert printed["queue_bytes"] == 336947 and "pauses" not in printed
    for factor, verdict in ((1.09, Verdict.SAME), (0.91, Verdict.SAME), (1.11, Verdict.OPPOSITE), (0.89, Verdict.OPPOSITE)):
        there = {name: value * (factor if name == "queue_bytes" else 1) for name, value in printed.items()}
        evidence = evidence_of(study, "swift, 2 to 1", there, {**there, "queue_bytes": 9e9})
        assert evidence.variants["swift, 2 to 1"].paper == printed
        assert judge(claim, evidence).verdict is verdict, factor
    missing = replace(evidence, variants={})
    assert judge(claim, missing).verdict is Verdict.NOT_TESTED


def test_a_group_without_all_its_gaps_is_left_out_and_a_run_that_did_not_converge_counts_as_the_longest() -> None:
    study = LIBRARY.load("peers/ns3")
    some = {study.variants[0].name: VariantEvidence("one", "one", "#000000", {"jain": {1: 1.0}})}
    assert study.derive(Evidence(some)).variants == {}
    converged, never, group = {"queue_bytes": 1.0, "converged_s": 3.0}, {"queue_bytes": 1.0}, "dctcp, 2 to 1"
    assert evidence_of(study, group, converged, never).values(group, "converged_s") == {1: 3.0}
    assert evidence_of(study, group, converged, never, never).values(group, "converged_s") == {}


def test_what_is_judged_of_each_peer() -> None:
    judged = {name: LIBRARY.load(f"peers/{name}").claims for name in cases.SIMULATORS}
    assert {name: len(claims) for name, claims in judged.items()} == {"hpcc-ns3": 16, "htsim": 4, "ns3": 3}
    assert {criterion.measures for claim in judged["ns3"] for criterion in claim.criteria} == {("utilization",)}
    assert not any(claim.counted for claims in judged.values() for claim in claims)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "no peer is given"),
        ("htsin=/tmp", "peer 'htsin' is unknown; did you mean htsim?"),
        ("htsim", "'nothing' is no folder; give htsim=PATH"),
        ("htsim=/nowhere", "'/nowhere' is no folder"),
        ("ns3=/tmp", "give ns3 alone"),
        ("ns3 swfit", "algorithm 'swfit' is unknown"),
    ],
)
def test_wrong_peers_are_one_line_and_status_2(arguments: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows_of_a_peer.main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1


def test_rows_are_printed_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(rows_of_a_peer, "PEERS", {"htsim": (lambda path: path, lambda program, case: ROW)})
    assert rows_of_a_peer.main([f"htsim={tmp_path}", "swift"]) == 0
    file = tmp_path / "rows.tsv"
    file.write_text(capsys.readouterr().out)
    assert cases.stored("htsim", file) == {case: ROW for case in cases.stored("htsim") if case.algorithm == "swift"}


def test_another_commit_is_refused(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = git(tree, "rev-parse", "HEAD")
    sources.require_commit(tree, head)
    with pytest.raises(UsageError, match=f"{head[:7]}.*results.*0000000"):
        sources.require_commit(tree, "0" * 40)
    with pytest.raises(UsageError, match="its commit cannot be read"):
        sources.require_commit(tmp_path, head)
    assert rows_of_a_peer.main([f"htsim={tree}"]) == 2
    error = capsys.readouterr().err
    assert f"it is at {head[:7]}" in error and len(error.strip().splitlines()) == 1


def test_a_tree_without_a_build_and_a_program_that_does_not_build(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the C compiler that all tests need: one for C++ may be missing."""
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "cc")
    source, library = tmp_path / "one.c", tree / "lib.a"
    library.write_bytes(b"!<arch>\n")
    source.write_text("int main() { return absent; }\n")
    with pytest.raises(UsageError, match=r"one\.c.*a tree: .*absent"):
        sources.built(source, library, (), (), "a tree")
    source.write_text("int main() { return 7; }\n")
    program = sources.built(source, library, (), (str(library),), "a tree")
    assert subprocess.run([program]).returncode == 7
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"'no-such-compiler'.*apt-get install g"):
        sources.built(source, library, (), (), "a tree")
    monkeypatch.setattr(cases, "SIMULATORS", {"htsim": {"commit": git(tree, "rev-parse", "HEAD")}})
    with pytest.raises(UsageError, match=r"it has no sim/libhtsim\.a; build it"):
        htsim.program_of(tree)
    with pytest.raises(UsageError, match="it has no build/scratch/third"):
        hpcc_ns3.program_of(tree)
