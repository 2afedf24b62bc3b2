# SPDX-License-Identifier: Apache-2.0
"""Tests `dcgym bench peers` without its simulators: the cases, what is stored, how it is compared, and wrong paths."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.errors import ProtocolError, UsageError
from dc_gym.benchmarks.checks import peers
from dc_gym.benchmarks.peers import __main__ as rows_of_a_peer
from dc_gym.benchmarks.peers import cases, files, hpcc_ns3, htsim, registry, sources
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.cli import main

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


@pytest.mark.parametrize("name", list(peers.PEERS))
def test_stored_rows_have_every_column_that_is_compared(name: str) -> None:
    data = cases.stored(peers.PEERS[name].data)
    assert {"repository", "commit", "build", "command"} <= data.simulator.keys()
    for algorithm in {case.algorithm for case in data.rows}:
        groups = Counter(case.group for case in data.rows if case.algorithm == algorithm)
        assert len(groups) == 4 and min(groups.values()) >= 3
        shapes = {(case.topology, case.flows) for case in data.rows if case.algorithm == algorithm}
        assert shapes == {("single", 2), ("single", 8), ("single", 64), ("leafspine", 16)}
    for row in data.rows.values():
        assert row.queue_bytes > 0 and 0 < row.utilization < 1.02 and 0 < row.jain <= 1 and row.hop_ns > 0


def test_every_bar_is_of_something_stored() -> None:
    stored = {(name, case.algorithm) for name, peer in peers.PEERS.items() for case in cases.stored(peer.data).rows}
    assert set(peers.BARS) < stored


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, row = tmp_path / "rows.toml", PeerRow(1.5, 0.25, 0.5, 200.0, 12.5, 3)
    path.write_text('[simulator]\ncommit = "x"\n' + cases.row_text(CASE, row))
    assert dict(cases.stored(path).rows) == {CASE: row}


def test_a_case_is_the_same_network_for_the_lab_and_for_peers(tmp_path: Path) -> None:
    found = cases.write_files(CASE, tmp_path)
    loaded = spec.load(tmp_path / f"{CASE.name}.toml")
    assert (loaded.time.warmup_ns, loaded.time.duration_ns) == (3_000_000, 5_000_000)
    nodes, links, flows = files.read_experiment(tmp_path)
    assert sum(address != files.NO_ADDRESS for address in nodes.values()) == 16 and len(links) == 20
    assert [(flow.src, flow.dst) for flow in flows] == CASE.ends() and {flow.protocol for flow in flows} == {"swift"}
    assert len({flow.dst for flow in flows}) == 16
    assert {len(path) for path in found.paths} == {CASE.links}
    assert len(found.shared) == 8
    assert {sum(port in path for path in found.paths) for port in found.shared} == {4}


def test_convergence_is_the_first_fair_bin_after_the_last_start() -> None:
    t_ns = np.arange(0, 1_000_001, 100_000)
    first, second = 2.0 * np.arange(11), np.concatenate([np.zeros(5), np.arange(1, 7) * 2.0])
    assert cases.converged_us((t_ns, np.stack([first, second], axis=1)), 200_000) == 400
    assert cases.converged_us((t_ns, np.stack([first, 0 * second], axis=1)), 200_000) == cases.NEVER
    assert cases.converged_us((t_ns[:1], np.ones((1, 2))), 200_000) == cases.NEVER


def test_a_peer_s_files_become_a_row(tmp_path: Path) -> None:
    case = replace(CASE, topology="single", flows=2, rate_gbps=8, from_us=100, until_us=300)
    found = cases.write_files(case, tmp_path)
    (port,) = found.shared
    (tmp_path / "queues-out.csv").write_text(f"port,queue_bytes\n{port},4000\ns1-eth1,9\n")
    rows = [f"{t},{flow},{t // 1000 * (flow + 1)}" for t in (100_000, 200_000, 300_000) for flow in (0, 1)]
    (tmp_path / "progress-out.csv").write_text("\n".join(["t_ns,flow,received_bytes", *rows]) + "\n")
    row = cases.read_back(case, found, tmp_path, 1.0, 1048)
    carried = (200 + 400) * 8 / (8 * 200_000)
    assert row == PeerRow(4000.0, round(carried, 4), 0.9, 200.0, round(1e9 * 1048 / (900 * 2), 1))
    (tmp_path / "progress-out.csv").write_text("t_ns,flow,received_bytes\n1,0,1\n")
    with pytest.raises(ProtocolError, match="1 rows are not whole samples of 2 flows"):
        files.read_progress(tmp_path, 2)


def test_a_port_carries_the_data_of_the_flows_through_it(tmp_path: Path) -> None:
    """A permutation's ports carry ACKs of other flows, too. They do not count, here and at peers."""
    found = cases.write_files(CASE, tmp_path)
    line_bps = CASE.rate_gbps * 1e9
    alike = np.full(CASE.flows, line_bps / 4)
    assert cases.carried(CASE, found, alike) == pytest.approx(1)
    only = np.zeros(CASE.flows)
    only[0] = line_bps
    assert cases.carried(CASE, found, only) == pytest.approx(2 / 8), "one uplink and one downlink of eight"


def test_a_peer_that_ends_before_its_last_sample_carries_no_less() -> None:
    t_ns = np.arange(100_000, CASE.until_us * 1000 + 1, 100_000)
    received = np.outer(t_ns, np.ones(CASE.flows)) * 10 / 8
    for samples in (len(t_ns), len(t_ns) - 1):
        found = cases.rates_bps(CASE, (t_ns[:samples], received[:samples]))
        assert found == pytest.approx(np.full(CASE.flows, 10e9))


def test_a_port_s_counters_tell_data_from_acks(tmp_path: Path) -> None:
    case = replace(CASE, topology="single", flows=2, rate_gbps=8, from_us=100, until_us=300)
    found = cases.write_files(case, tmp_path)
    (name,) = found.shared
    rows = np.zeros(3, [("t_ns", "<i8"), ("port", "<u4"), ("tx_bytes", "<u8"), ("tx_packets", "<u8")])
    rows["t_ns"], rows["port"] = [100_000, 200_000, 300_000], 1
    rows["tx_packets"] = [7, 57, 107]
    rows["tx_bytes"] = 5000 + np.array([0, 25, 50]) * (1048 + 74)
    result = SimpleNamespace(ports=[{"name": "s1-eth9"}, {"name": name}], records=lambda _: rows)
    assert cases.carried_here(case, result, found) == pytest.approx(50 * 1048 * 8 / (8 * 200_000))


def test_swift_s_parameters_are_the_nic_s(tmp_path: Path) -> None:
    given = dict(word[2:].split("=") for word in htsim.options(CASE, tmp_path))
    assert (given["from-ns"], given["stop-ns"], given["packet-bytes"]) == ("3000000", "5000000", "1048")
    assert (given["base-target-ns"], given["hop-ns"], given["fs-range-ns"]) == ("25000", "3050", "100000")
    assert (float(given["fs-max"]), float(given["ai"]), float(given["max-mdf"])) == (100, 1, 0.5)
    assert float(given["cwnd-initial"]) == pytest.approx(4 * (2000 + 83.84) * 12.5 / 1048)


def test_only_the_bar_s_columns_are_judged() -> None:
    theirs = {
        replace(CASE, algorithm="dctcp", topology="single", flows=2, gap_ns=gap): replace(ROW, utilization=0.9)
        for gap in (19_700, 20_000, 20_300)
    }
    ours = {case: PeerRow(9e9, 0.908, 0.1) for case in theirs}
    queue, share, fairness, *_ = peers.compared("ns3", theirs, ours)
    assert queue.ok and share.ok and fairness.ok and queue.required.startswith("recorded; there 1.00")
    ours = {case: PeerRow(1000.0, 0.92, 0.9) for case in theirs}
    assert [each.ok for each in peers.compared("ns3", theirs, ours)][:3] == [True, False, True]
    assert all(each.required.startswith("recorded") for each in peers.compared("htsim", theirs, ours))
    theirs, ours = ({replace(case, topology="leafspine", flows=16): row for case, row in rows.items()} for rows in (theirs, ours))
    assert all(each.required.startswith("recorded") for each in peers.compared("ns3", theirs, ours)), "UNJUDGED"


def test_a_given_peer_runs_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Path] = []

    def run(path: Path, _: PeerCase) -> PeerRow:
        asked.append(path)
        return replace(ROW, queue_bytes=77_000.0)

    known = replace(peers.PEERS["htsim"], program=lambda path: path, run=run, version=lambda: "7777777")
    monkeypatch.setattr(peers, "PEERS", {"htsim": known})
    monkeypatch.setattr(peers, "run_lab", lambda wanted: {case: ROW for case in wanted})
    assert not any("77.00" in each.required for each in peers.checks())
    found = list(peers.checks([f"htsim={tmp_path}"]))
    assert any("77.00" in each.required for each in found) and "7777777 runs anew" in found[0].measured
    assert set(asked) == {tmp_path}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("htsin=/tmp", "peer 'htsin' is unknown; did you mean htsim?"),
        ("htsim", "'nothing' is no folder; give htsim=PATH"),
        ("htsim=/nowhere", "'/nowhere' is no folder"),
        ("ns3=/tmp", "give --peer ns3 alone"),
        ("ns3 ns3", "ns3 is given twice"),
    ],
)
def test_wrong_peers_are_one_line_and_status_2(given: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    words_of = [word for each in given.split() for word in ("--peer", each)]
    assert main.main(["bench", "peers", *words_of]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1


def test_stored_rows_are_printed_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = replace(registry.PEERS["htsim"], program=lambda path: path, run=lambda program, case: ROW)
    monkeypatch.setattr(registry, "PEERS", {"htsim": known})
    assert rows_of_a_peer.main([f"htsim={tmp_path}", "swift"]) == 0
    file = tmp_path / "rows.toml"
    file.write_text('[simulator]\ncommit = "x"\n' + capsys.readouterr().out)
    assert cases.stored(file).rows == {case: ROW for case in cases.stored(htsim.DATA).rows if case.algorithm == "swift"}
    for words, said in (
        ([], "no peer is given"),
        ([f"htsim={tmp_path}", "swfit"], "did you mean swift?"),
        (["htsim"], "no folder"),
    ):
        assert rows_of_a_peer.main(words) == 2
        error = capsys.readouterr().err
        assert said in error and len(error.strip().splitlines()) == 1


def test_other_benches_take_no_peer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["bench", "links", "--peer", "ns3"]) == 2
    assert "--peer applies only to bench peers" in capsys.readouterr().err


def test_another_commit_is_refused(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = git(tree, "rev-parse", "HEAD")
    sources.require_commit(tree, head)
    with pytest.raises(UsageError, match=f"it is at {head[:7]}, and the stored results are of 0000000"):
        sources.require_commit(tree, "0" * 40)
    with pytest.raises(UsageError, match="its commit cannot be read"):
        sources.require_commit(tmp_path, head)
    assert main.main(["bench", "peers", "--peer", f"htsim={tree}"]) == 2
    error = capsys.readouterr().err
    assert f"it is at {head[:7]}" in error and len(error.strip().splitlines()) == 1


def test_a_tree_without_a_build_and_a_program_that_does_not_build(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the C compiler that all tests need: one for C++ may be missing."""
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "cc")
    head, library = git(tree, "rev-parse", "HEAD"), Path("lib.a")
    source = tmp_path / "one.c"
    source.write_text("int main() { return absent; }\n")
    with pytest.raises(UsageError, match=r"it has no lib\.a; build it"):
        sources.built(tree, library, source, (), (), head)
    (tree / library).write_bytes(b"!<arch>\n")
    with pytest.raises(UsageError, match=r"one\.c does not build against .*absent"):
        sources.built(tree, library, source, (), (), head)
    source.write_text("int main() { return 7; }\n")
    program = sources.built(tree, library, source, (), (), head)
    assert subprocess.run([program]).returncode == 7
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"no C\+\+ compiler 'no-such-compiler' .*: apt-get install g"):
        sources.built(tree, library, source, (), (), head)
    with pytest.raises(UsageError, match="it has no build/scratch/third"):
        hpcc_ns3.program_of(tree)
