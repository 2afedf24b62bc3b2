# SPDX-License-Identifier: Apache-2.0
"""A NIC's pacing: the rate of a lone flow, the gaps between its packets, and 512 flows that share a link.

The departure times are those that the NIC itself records (`nic.trace = "all"`); on a lone flow's idle cable a packet leaves at
once. Rates are set in units of 2^-20 of the line, as an algorithm sets them. Asked is exactly that rate, not the round number
near it.
"""

from __future__ import annotations

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.base.units import format_rate
from dc_gym.run.plan.nics import LINE_RATE
from dc_gym.run.sweep import Cell, runs

pytestmark = pytest.mark.lab
LINE_BPS = 10**10
FRAME_BITS = 1514 * 8
RATE_TOLERANCE, LEAST_JAIN = 0.005, 0.99
SPEC = """
spec_version = 1
name = "pacing"
topology = {{ kind = "single", hosts = 2, rate = "{line}", delay = "1us", buffer = "4MB" }}
controller.name = "fixed"
nic = {{ trace = "all", message = "72kB", parameters = {{ rate = {rate} }} }}
workload = {{ kind = "matrix", file = "{flows}.csv" }}
time = {{ duration = "{duration}", warmup = "{warmup}" }}
monitor.interval = "1ms"
"""


def part_of(rate_bps):
    """Returns the rate in the unit of algorithms, 2^-20 of the line."""
    return min(LINE_RATE, round(rate_bps * LINE_RATE / LINE_BPS))


def gap_ns(part):
    """Returns the time between the starts of two full packets at that rate."""
    return FRAME_BITS * 1e9 / (LINE_BPS * part / LINE_RATE)


def run(folder, count, part, duration, warmup="0s"):
    folder.chmod(0o755)
    lines = [f"h1,h2,{5001 + number},0,0,inf" for number in range(count)]
    (folder / "flows.csv").write_text("\n".join(["source,destination,port,start,stop,size", *lines]) + "\n")
    text = SPEC.format(line=format_rate(LINE_BPS), rate=part, flows="flows", duration=duration, warmup=warmup)
    return runs.run_all([Cell("pacing", runs.write_spec(folder, "pacing", text), folder / "out")], progress=Quiet())["pacing"]


def departures(result, flow):
    """Returns when packets of the flow left."""
    decided = result.records("decisions")
    sent = result.names.event.index("tx")
    return decided["t_ns"][(decided["flow"] == flow) & (decided["event"] == sent)]


def test_rates_are_parts_of_the_line():
    assert part_of(10**10) == 1 << 20 and part_of(10**6) == 105
    assert gap_ns(1 << 20) == pytest.approx(1211.2) and gap_ns(1 << 10) == pytest.approx(1211.2 * 1024)


@pytest.mark.parametrize(
    ("rate_bps", "duration"),
    [
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in ((10**6, "3s"), (10**7, "1s"), (10**8, "300ms"), (10**9, "50ms"))
        ),
        (10**9, "5ms"),
        (LINE_BPS, "2ms"),
    ],
)
def test_a_lone_flow_has_its_rate_and_even_gaps(rate_bps, duration, tmp_path, lab_kernel):
    part = part_of(rate_bps)
    times = departures(run(tmp_path, 1, part, duration), 0)
    measured_bps = (len(times) - 1) * FRAME_BITS * 1e9 / float(times[-1] - times[0])
    assert measured_bps == pytest.approx(LINE_BPS * part / LINE_RATE, rel=RATE_TOLERANCE)
    assert np.abs(np.diff(times) - gap_ns(part)).max() <= FRAME_BITS * 1e9 / LINE_BPS


@pytest.mark.parametrize("flows", [8, pytest.param(512, marks=pytest.mark.long)])
@pytest.mark.parametrize("shares", [1, 64])
def test_flows_share_a_link_fairly_and_drop_none(flows, shares, tmp_path, lab_kernel):
    result = run(tmp_path, flows, min(LINE_RATE // flows * shares, LINE_RATE), "60ms", "20ms")
    assert result.summary["jain"] > LEAST_JAIN
    assert result.manifest["conservation"]["dropped_by_hosts"] == 0
