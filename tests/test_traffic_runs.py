# SPDX-License-Identifier: Apache-2.0
"""Traffic in a lab, through the `dcgym` command: what a workload asks for is what the wire carries."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dc_gym.results import load_result

pytestmark = pytest.mark.lab

SPEC = """
[topology]
preset = "dumbbell-10m"
[controller]
name = "dctcp"
[workload]
kind = "pairs"
[time]
duration = "2s"
"""


@pytest.fixture
def run(tmp_path, lab_kernel):
    """Runs the spec with settings; answers its result."""
    tmp_path.chmod(0o755)
    (tmp_path / "spec.toml").write_text(SPEC)

    def go(*settings, out="out", code=0):
        words = [word for setting in settings for word in ("--set", setting)]
        argv = ["run", tmp_path / "spec.toml", "--out", tmp_path / out, "--quiet", "--no-plot", *words]
        done = subprocess.run([sys.executable, "-m", "dc_gym.cli", *map(str, argv)], capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stderr
        return load_result(tmp_path / out, check_digest=True) if code == 0 else done

    return go


def test_datagrams_keep_their_rate(run):
    """Below the line rate all arrive, each in a full frame, exactly at the rate; random gaps keep the mean and use the queue."""
    settings = ("workload.transport=udp", "workload.rate=4Mbit/s")
    exact, again = run(*settings), run(*settings, "workload.gaps=exponential", out="random")
    flows = exact.records("flows")
    sent = 2 * 4_000_000 // 8 // 1472 * 1472
    assert flows["sent_bytes"].tolist() == [sent, sent] and np.all(flows["received_bytes"] >= sent - 2 * 1472)
    assert list(exact.column("flows", "transport")) == ["udp", "udp"]
    port = exact.names.port.index("h1-eth0")
    last = [row for row in exact.records("queues") if row["port"] == port][-1]
    assert last["tx_bytes"] == last["tx_packets"] * 1514
    assert exact.summary["drops"] == again.summary["drops"] == 0
    assert again.records("flows")["sent_bytes"] == pytest.approx(sent, rel=0.15)
    assert again.summary["max_queue_bytes"] > exact.summary["max_queue_bytes"]


def test_datagrams_above_the_line_rate_are_dropped_in_the_queue(run):
    result = run("workload.transport=udp", "workload.rate=10Mbit/s", "time.duration=5s")
    assert result.fit and result.summary["drops"] > 0
    flows = result.records("flows")
    assert np.all(flows["sent_bytes"] > flows["received_bytes"])
    assert result.summary["goodput_bps"] == pytest.approx(10e6 * 1472 / 1514, rel=0.01)
