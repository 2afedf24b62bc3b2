# SPDX-License-Identifier: Apache-2.0
"""The columns of tcp.parquet outside the digest: what the kernel says of a sender, and null for other transports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.results.tables import TABLES
from dc_gym.run import runner
from dc_gym.spec import load

SPEC = """
spec_version = 1
topology = { preset = "dumbbell-10m", buffer = "30kB" }
controller.name = "cubic"
workload = { kind = "pairs" }
time.duration = "4s"
"""


@pytest.mark.lab
def test_a_sender_that_loses_has_a_threshold_and_recovers(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC)
    result = runner.run(load(spec), tmp_path / "out", Quiet(), plot=False)
    tcp, unknown = result.records("tcp"), TABLES["tcp"].unknown
    samples = tcp[tcp["flow"] == 0]
    known = samples["ssthresh_packets"] != unknown["ssthresh_packets"]
    lost = samples["retransmits"] > 0
    assert not known[0] and known[-1] and result.summary["drops"] > 0
    assert not known[~lost & (samples["ca_state"] == 0) & (np.cumsum(lost) == 0)].any(), (
        "there is no threshold before the first loss"
    )
    assert {0, 3} <= set(samples["ca_state"].tolist()) <= {0, 1, 2, 3, 4}
    recovering = samples[samples["ca_state"] == 3]
    assert (recovering["cwnd_packets"] <= recovering["ssthresh_packets"] + 3).all(), "PRR keeps the window near its target"
    settled = samples[(samples["ca_state"] == 0) & known]
    expected_bps = settled["cwnd_packets"] * 1448 * 8 / (settled["srtt_us"] / 1e6)
    ratio = np.median(settled["pacing_rate_bps"] / expected_bps)
    assert 1.0 <= ratio <= 2.0, "Linux paces at 120 % of cwnd / srtt, 200 % in slow start"


@pytest.mark.lab
def test_udp_has_none_of_them(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.replace('kind = "pairs"', 'kind = "pairs", transport = "udp", rate = "1Mbit/s"').replace("4s", "100ms"))
    result = runner.run(load(spec), tmp_path / "out", Quiet(), plot=False)
    for name in TABLES["tcp"].unknown:
        column = result.arrow("tcp").column(name)
        assert len(column) and column.null_count == len(column)
