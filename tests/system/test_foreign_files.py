# SPDX-License-Identifier: Apache-2.0
"""Whole runs of networks and flows in other tools' files."""

import hashlib
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from dc_gym.results.results import load_result

pytestmark = pytest.mark.lab

HPCC = "6 2 5\n4 5\n0 4 10Gbps 1us 0\n1 4 10Gbps 1us 0\n2 5 10Gbps 1us 0\n3 5 10Gbps 1us 0\n4 5 40Gbps 2us 0\n"
FLOWS = "3\n0 2 3 100 200001 0.001\n1 3 3 100 1 0.002\n2 1 3 100 65536 0\n"
TIER = "Tier {} \nDownlink_speed_Gbps 10\nDownlink_Latency_ns 1000\nRadix_Down {}\n"
TOPO = f"Nodes 8\nTiers 2\nPodsize 8\n{TIER.format(0, 4)}Radix_Up 2\nOversubscribed 2\n{TIER.format(1, 2)}"
MATRIX = """Nodes 8
Connections 4
Triggers 1
0->7 id 1 start 0 size 100000 send_done_trigger 1
1->7 id 2 start 1000000 size 200000 recv_done_trigger 1
7->4 id 3 trigger 1 size 3
5->2 id 4 start 1000000000 size 70000
trigger id 1 barrier count 2
"""


def dcgym(*words):
    argv = [sys.executable, "-m", "dc_gym.cli.main", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


def run(folder, network, flows):
    (folder / "net").write_text(network)
    (folder / "flows").write_text(flows)
    words = ("--flows", folder / "flows", "--set", "controller.name=dctcp", "--out", folder / "out")
    child = dcgym("run", folder / "net", *words, "--quiet", "--no-plot")
    assert child.returncode == 0, child.stderr
    rows = pq.read_table(folder / "out" / "flows.parquet").to_pylist()
    assert all(row["status"] == "done" and row["received_bytes"] == row["size_bytes"] for row in rows)
    return child.stderr, rows


def test_hpcc(tmp_path, lab_kernel):
    """The sizes arrive, the file is told of, kept and recorded, and the result runs again without the original."""
    told, rows = run(tmp_path, HPCC, FLOWS)
    assert "flows: not used: priority groups, and ports of destinations\n" in told
    assert [(row["src"], row["dst"], row["due_ns"], row["received_bytes"]) for row in rows] == [
        *(("h0", "h2", 1_000_000, 200_001), ("h1", "h3", 2_000_000, 1), ("h2", "h1", 0, 65536))
    ]
    manifest = load_result(tmp_path / "out", check_digest=True).manifest
    assert manifest["inputs"] == {
        f"{section}-file": hashlib.sha256(text.encode()).hexdigest()
        for section, text in (("topology", HPCC), ("workload", FLOWS))
    }
    assert (tmp_path / "out" / "topology-file").read_text() == HPCC and "files" in manifest["environment"]
    (tmp_path / "net").unlink()
    (tmp_path / "flows").unlink()
    shutil.move(tmp_path / "out", tmp_path / "moved")
    child = dcgym("verify", tmp_path / "moved", "--quiet")
    assert child.returncode == 0 and "equal, digest" in child.stdout, child.stderr


def test_htsim(tmp_path, lab_kernel):
    """A flow with a trigger starts when both flows have ended that the barrier waits for."""
    told, rows = run(tmp_path, TOPO, MATRIX)
    assert "not used: the end of sending" in told
    assert [row["received_bytes"] for row in rows] == [100_000, 200_000, 3, 70_000]
    assert [row["dst"] for row in rows] == ["h7", "h7", "h4", "h2"] and rows[3]["due_ns"] == 1_000_000
    assert 0 <= rows[2]["start_ns"] - max(row["end_ns"] for row in rows[:2]) < 1000
