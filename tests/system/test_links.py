# SPDX-License-Identifier: Apache-2.0
"""A part of the links bench in a lab, and what its comparison catches."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.checks import link_cases, links
from dc_gym.benchmarks.checks.lab_job import play_jobs
from dc_gym.benchmarks.checks.link_cases import LinkCase, grid_case
from dc_gym.benchmarks.checks.oracle import OracleFrame, OraclePort
from dc_gym.run import runner

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def answered(lab_kernel):
    """Returns cases and the lab's answers, by name of the case."""
    cases = [
        grid_case(10**7, 50 * 10**6, "1514", "burst", 1),
        grid_case(10**9, 1_000, "mixed", "marks", 1),
        grid_case(10**11, 100, "60", "overflow", 1),
        grid_case(25 * 10**9, 10_000, "mixed", "overflow", 2),
        grid_case(4 * 10**10, 100, "590", "spaced", 2),
        grid_case(10**10, 1_000, "mixed", "marks", 4),
        grid_case(10**11, 100, "60", "marks", 4),
        *list(link_cases.incast())[-2:],
        list(link_cases.conservation())[4],
        list(link_cases.conservation())[-1],
    ]
    return {case.name: (case, reply) for case, reply in zip(cases, links.play(lab_kernel, [c.job() for c in cases]), strict=True)}


def test_the_lab_is_what_the_oracle_says(answered):
    faults = {name: links.compare(*pair).faults for name, pair in answered.items()}
    assert {name: case_faults for name, case_faults in faults.items() if case_faults} == {}


def test_the_cases_are_worth_it(answered):
    verdicts = [links.compare(*pair) for pair in answered.values()]
    assert sum(verdict.drops for verdict in verdicts) > 100
    assert sum(verdict.marks for verdict in verdicts) > 100
    assert sum(verdict.samples for verdict in verdicts) > 100


@pytest.mark.parametrize("hop", [1, 3])
@pytest.mark.parametrize(
    "change", [{"rate_bps": 4_990_000_000}, {"delay_ns": 1_003}, {"limit_bytes": 8_900}, {"mark_bytes": 4_400}], ids=str
)
def test_another_port_would_be_noticed(answered, change, hop):
    case, reply = answered["4 hops, 10000 Mbit/s, 1000 ns, mixed B, marks"]
    ports = tuple(replace(port, **change) if index == hop else port for index, port in enumerate(case.ports))
    assert links.compare(replace(case, ports=ports), reply).faults


def test_a_byte_that_vanishes_is_noticed(answered):
    name = next(name for name in answered if name.startswith("counted midway"))
    case, reply = answered[name]
    for counter in ("tx_bytes", "rx_bytes", "flight_bytes", "lost_bytes", "backlog_bytes", "drops", "rx_packets"):
        tampered = copy.deepcopy(reply)
        tampered["drained"][0][counter] += 1
        assert links.compare(case, tampered).faults, counter


def test_frames_under_way_to_a_receiver_that_goes_down_are_counted_as_lost(answered):
    case, reply = answered["the receiver goes down"]
    assert case.cut
    assert reply["counters"][0]["flight_packets"] == reply["drained"][0]["lost_packets"] == len(case.frames)
    assert reply["drained"][0]["lost_bytes"] == sum(frame.length for _, frame in case.frames)


@pytest.mark.parametrize("rate", [10**11, 4 * 10**10, 7 * 10**9, 3 * 10**7])
def test_no_drift_over_ten_thousand_frames(lab_kernel, rate):
    """60 bytes at 100 Gbit/s are 4.8 ns; at 7 Gbit/s they are no whole number of picoseconds."""
    frames = tuple((0, OracleFrame(0, 60, False, seq)) for seq in range(10_000))
    case = LinkCase("drift", "chain1", (OraclePort(rate, 100, 1 << 26),), frames)
    (reply,) = links.play(lab_kernel, [case.job()])
    departures = links.parse(reply["probe"]).departures
    assert [departures[seq] for seq in range(10_000)] == [-(-seq * 480 * 10**9 // rate) for seq in range(10_000)]
    verdict = links.compare(case, reply)
    assert not verdict.faults and verdict.worst_ns == 0 and verdict.samples == 9


FLOW_NS, SWITCH_LIMIT = 25 * 10**9, 300_000


def lone_cubic_flow(kernel, net, *ports):
    """Returns the lab's answer on a flow that sends for 25 s, looked at each ms."""
    case = LinkCase("CUBIC", net, ports, ((0, OracleFrame(0, 60, False, 0)),), samples=0)
    schedule = "".join(f"{t_ns},0,0,0,0\n" for t_ns in range(10**6, FLOW_NS, 10**6))
    job = case.job() | {"schedule": schedule, "tcp": "cubic"}
    return play_jobs(kernel, "lone_flow_guest", [job], [Path(__file__).resolve().parents[1]])[0]


def test_a_lone_cubic_flow_fills_a_switch(lab_kernel):
    """A switch knows no sockets: only the buffer limits what a lone flow queues there."""
    ports = OraclePort(10**9, 10_000, link_cases.AMPLE_BYTES), OraclePort(10**7, 10_000, SWITCH_LIMIT)
    reply = lone_cubic_flow(lab_kernel, "chain2", *ports)
    longest = max(backlogs[2] for backlogs in links.parse(reply["probe"]).backlogs)
    assert SWITCH_LIMIT - link_cases.FULL_FRAME < longest <= SWITCH_LIMIT and reply["counters"][1]["drops"] > 0


def test_a_lone_cubic_flow_does_not_fill_its_host(lab_kernel):
    """A host knows its sockets and applies TCP small queues (TSQ).

    A flow continues to send while the sum of its frames' truesize is at most max(2 frames, pacing rate / 2^10), so that much plus
    one frame may wait. The first half of the run is left out, because the pacing rate still comes from the handshake's round
    trip.
    """
    reply = lone_cubic_flow(lab_kernel, "chain1", OraclePort(10**7, 10_000, SWITCH_LIMIT))
    tcp, queue = reply["tcp"], reply["counters"][0]
    truesize = tcp["charged_bytes"] // queue["backlog_packets"]
    limit = min(max(2 * truesize, tcp["pacing_rate"] >> 10), tcp["limit_output_bytes"])
    longest = max(backlog for t_ns, backlog in links.parse(reply["probe"]).backlogs if t_ns >= FLOW_NS // 2)
    assert 0 < longest <= (limit // truesize + 1) * link_cases.FULL_FRAME and queue["drops"] == 0


ONE_WAY = """
controller.name = "cubic"
workload.kind = "pairs"
time.duration = "100ms"
monitor.interval = "1ms"
metrics.slowdown = "off"
[topology]
preset = "dumbbell-1g"
[[topology.links]]
from = "s1"
to = "s2"
rate = "200Mbit/s"
delay = "1ms"
[[topology.links]]
from = "s2"
to = "s1"
loss = "1%"
"""


def test_directions_of_a_link_differ(tmp_path, lab_kernel):
    """Data crosses s1-eth3, which sends at 200 Mbit/s. ACKs cross s2-eth3, which alone loses frames."""
    tmp_path.chmod(0o755)
    (tmp_path / "spec.toml").write_text(ONE_WAY)
    result = runner.run(spec.load(tmp_path / "spec.toml"), tmp_path / "out", Quiet(), plot=False)
    assert result.fit, result.faults
    lost = {row["port"]: row["lost"] for row in pq.read_table(result.path / "port_metrics.parquet").to_pylist()}
    assert lost["s2-eth3"] == sum(lost.values()) > 0
    queues, port = result.records("queues"), result.names.port.index("s1-eth3")
    samples = queues[queues["port"] == port]
    sent = dict(zip((samples["t_ns"] // 10**6).tolist(), samples["tx_bytes"].tolist(), strict=True))
    assert abs((int(sent[90]) - int(sent[50])) - 2 * 10**8 // 8 * 40 // 1000) <= 1514
    assert result.records("tcp")["min_rtt_us"].max() >= 1000
