# SPDX-License-Identifier: Apache-2.0
"""Whole runs of networks and flows in other tools' files."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pyarrow.parquet as pq
import pytest
from readers import CLAB, SONIC

from dc_gym.results.results import load_result

pytestmark = pytest.mark.lab

HPCC = "6 2 5\n4 5\n0 4 10Gbps 1us 0\n1 4 10Gbps 1us 0\n2 5 10Gbps 1us 0\n3 5 10Gbps 1us 0\n4 5 40Gbps 2us 0\n"
FLOWS = "3\n0 2 3 100 200001 0.001\n1 3 3 100 1 0.002\n2 1 3 100 65536 0\n"
EXAMPLES = Path(__file__).parents[2] / "examples"


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
    for name, text in (("topology-file", HPCC), ("workload-file", FLOWS)):
        assert manifest["inputs"][name] == hashlib.sha256(text.encode()).hexdigest()
    assert (tmp_path / "out" / "topology-file").read_text() == HPCC and "files" in manifest["environment"]
    (tmp_path / "net").unlink()
    (tmp_path / "flows").unlink()
    shutil.move(tmp_path / "out", tmp_path / "moved")
    child = dcgym("verify", tmp_path / "moved", "--quiet")
    assert child.returncode == 0 and "equal, digest" in child.stdout, child.stderr


def test_htsim(tmp_path, lab_kernel):
    """A flow with a trigger starts when both flows have ended that the barrier waits for."""
    told, rows = run(tmp_path, (EXAMPLES / "clos.topo").read_text(), (EXAMPLES / "clos.cm").read_text())
    assert "not used" not in told
    assert [(row["src"], row["dst"], row["received_bytes"]) for row in rows] == [
        *(("h0", "h15", 2_000_000), ("h4", "h15", 2_000_000), ("h15", "h0", 1000))
    ]
    assert 0 <= rows[2]["start_ns"] - max(row["end_ns"] for row in rows[:2]) < 1000


def test_containerlab_and_a_log(tmp_path, lab_kernel):
    log = "start_ms,src,dst,size_kb,tag\n20,c2,c1,50,x\n10,c1,c2,3,y\n"
    told, rows = run(tmp_path, CLAB.replace("loss: 1, rate: 100", "rate: 100000"), log)
    assert "flows: not used: columns tag\n" in told
    expected = [("c2", "c1", 20_000_000, 50_000), ("c1", "c2", 10_000_000, 3_000)]
    assert [(row["src"], row["dst"], row["due_ns"], row["size_bytes"]) for row in rows] == expected
    assert all(row["end_ns"] - row["start_ns"] > 3 * 5_000_000 for row in rows), "three times the link's delay of 5 ms"


def test_graphml_and_a_capture_of_its_run(tmp_path, lab_kernel):
    """What a run sent is captured, and the capture is the workload of another run: the same flows, from the first one on."""
    nx.write_graphml(nx.star_graph(3), tmp_path / "net")
    flows = "start_us,src,dst,bytes\n500,h2,h1,200000\n700,h1,h3,1\n9000,h3,h1,65536\n"
    (tmp_path / "flows").write_text(flows)
    common = ("--quiet", "--no-plot", "--set", "controller.name=dctcp")
    child = dcgym("run", tmp_path / "net", "--flows", tmp_path / "flows", "--pcap", "s0-eth1", "--out", tmp_path / "one", *common)
    assert child.returncode == 0 and "net: no node has type host, so the 3 nodes with one link are hosts\n" in child.stderr
    capture = tmp_path / "one" / "capture" / "s0-eth1.pcapng"
    child = dcgym("run", tmp_path / "net", "--flows", capture, "--out", tmp_path / "two", *common)
    assert child.returncode == 0 and "its 3 addresses are the hosts" in child.stderr, child.stderr
    sent, again = (pq.read_table(tmp_path / name / "flows.parquet").to_pylist() for name in ("one", "two"))
    assert [(row["src"], row["dst"], row["size_bytes"]) for row in again] == [
        (row["src"], row["dst"], row["size_bytes"]) for row in sent
    ]
    assert [row["due_ns"] for row in again] == pytest.approx([row["start_ns"] - sent[0]["start_ns"] for row in sent], abs=5000)


def test_queues_of_sonic(tmp_path, lab_kernel):
    """The effective spec has the thresholds, the lossless class drops nothing, and --set goes first."""
    spec = 'topology = {kind = "single", hosts = 5, rate = "1Gbit/s", delay = "1us"}\ncontroller.name = "dctcp"\n'
    spec += 'workload = {kind = "many_to_one", size = "100kB", dscp = 3}\ntime.duration = "20ms"\nspec_version = 1\n'
    (tmp_path / "spec.toml").write_text(spec)
    (tmp_path / "config_db.json").write_text(json.dumps(SONIC))
    words = ("--qos", tmp_path / "config_db.json", "--set", "topology.alpha=4", "--out", tmp_path / "out", "--quiet", "--no-plot")
    child = dcgym("run", tmp_path / "spec.toml", *words)
    assert child.returncode == 0, child.stderr
    topology = json.loads((tmp_path / "out" / "manifest.json").read_text())["spec"]["topology"]
    lossless = next(entry for entry in topology["classes"] if entry["name"] == "q3")
    assert lossless | {"marking": "red-instant", "kmin": 1000, "kmax": 2000, "lossless": True} == lossless
    assert topology["alpha"] == 4 and (topology["shared_buffer"], topology["xoff"]) == ("10MB", "1/8")
    summary = load_result(tmp_path / "out").summary
    assert summary["drops"] == 0 and summary["marks"] > 0 and summary["flows_done"] == 4
