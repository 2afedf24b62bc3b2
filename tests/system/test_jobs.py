# SPDX-License-Identifier: Apache-2.0
"""Jobs in a lab: closed forms to the nanosecond over RDMA, TCP within 2 %, and what tables and summary say of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rdma_lab import run

from dc_gym.results.results import Result

SPEC = """
controller.name = "none"
topology = { kind = "single", hosts = 4, rate = "1Gbit/s", delay = "1us", buffer = "1MB" }
nic.ack_packets = 128
workload.kind = "job"
time.duration = "20ms"
monitor.interval = "1ms"
"""
FRAME_NS, ACK_NS, DELAY_NS, PAYLOAD = 12112, 592, 1000, 1440
"""A full frame (1514 bytes) and an ACK (74) at 1 Gbit/s, a cable's delay, and the payload of a full frame."""
GOAL = """num_ranks 3
rank 0 {
l1: calc 1000
l2: send 14400b to 1 tag 7
l2 requires l1
l3: recv 2880b from 2
}
rank 1 {
l1: recv 14400b from 0 tag 7
l2: calc 2000
l2 requires l1
l3: calc 3000
l3 requires l1
l4: send 1440b to 2
l4 requires l3
l5: send 1440b to 2 tag 1
l5 irequires l3
}
rank 2 {
l1: recv 1440b from 1
l2: recv 1440b from 1 tag 1
l3: calc 3000
l3 requires l1
l3 requires l2
l4: calc 2000 cpu 1
l4 requires l1
l5: send 2880b to 0
l5 requires l3
l5 requires l4
}
"""


def message_ns(frames: int) -> int:
    """Returns the time of a message of so many full frames over the two cables of the path."""
    return (frames + 1) * FRAME_NS + 2 * DELAY_NS


def play(folder: Path, name: str, *settings: str) -> Result:
    result = run(folder, name, *settings, base=SPEC)
    assert result.fit, result.manifest["unfit_reasons"]
    return result


def require_whole(result: Result) -> None:
    """Checks that all messages arrived in their order, and that bytes and times add up."""
    messages, flows, ranks = (result.records(name) for name in ("messages", "flows", "ranks"))
    assert (messages["last_ns"] > messages["posted_ns"]).all() and (flows["end_ns"] >= 0).all()
    of_flow = np.bincount(messages["flow"], messages["bytes"], len(flows))
    assert of_flow.tolist() == flows["size_bytes"].tolist() == flows["received_bytes"].tolist()
    for flow in flows["flow"]:
        assert (np.diff(messages["last_ns"][messages["flow"] == flow]) >= 0).all()
    assert (ranks["calc_ns"] + ranks["transfer_ns"] + ranks["wait_ns"] == ranks["end_ns"] - ranks["start_ns"]).all()
    assert ranks["end_ns"].max() >= messages["last_ns"].max()


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    return tmp_path


@pytest.mark.lab
def test_a_ring_over_rdma_takes_its_closed_form_to_the_nanosecond(folder: Path) -> None:
    """2 (N - 1) messages follow one another. From the second on a NIC first sends the ACK of the last frame of the one before."""
    frames, rounds, compute_ns, steps = 100, 2, 5000, 6
    keys = (f"workload.size={4 * frames * PAYLOAD}B", f"workload.rounds={rounds}", f"workload.compute={compute_ns}ns")
    ring = ("workload.collective=all_reduce_ring", *keys)
    result = play(folder, "out", *ring)
    require_whole(result)
    messages, ranks = result.records("messages"), result.records("ranks")
    iteration_ns = compute_ns + steps * message_ns(frames) + (steps - 1) * ACK_NS
    assert ranks["end_ns"].tolist() == [iteration_ns] * 4 + [2 * iteration_ns] * 4
    assert len(messages) == rounds * steps * 4 and (ranks["calc_ns"] == compute_ns).all() and not ranks["wait_ns"].any()
    first = messages[messages["rep"] + messages["step"] == 0]
    assert set((first["last_ns"] - first["posted_ns"]).tolist()) == {message_ns(frames)}
    summary = result.summary
    assert (summary["job_iterations"], summary["job_s"]) == (rounds, 2 * iteration_ns / 1e9)
    assert summary["iteration_mean_s"] == summary["iteration_max_s"] == iteration_ns / 1e9
    bus_bps = 2 * 3 * frames * PAYLOAD * 8e9 / (iteration_ns - compute_ns)
    assert summary["bus_bandwidth_bps"] == pytest.approx(bus_bps)
    assert summary["exposed_share"] == pytest.approx(1 - compute_ns / iteration_ns)
    assert play(folder, "again", *ring).digest == result.digest


@pytest.mark.lab
def test_a_straggler_delays_each_iteration_by_what_it_computes_longer(folder: Path) -> None:
    frames, compute_ns, steps = 100, 4000, 6
    keys = (f"workload.size={4 * frames * PAYLOAD}B", "workload.rounds=2", f"workload.compute={compute_ns}ns")
    slow = ("workload.stragglers=1", "workload.slowdown=2.5")
    result = play(folder, "out", "workload.collective=all_reduce_ring", *keys, *slow)
    require_whole(result)
    (straggler,) = result.manifest["workload"]["job"]["stragglers"]
    ranks = result.records("ranks")
    assert ranks["calc_ns"][ranks["rank"] == straggler].sum() == 2 * 2.5 * compute_ns
    iteration_ns = 2.5 * compute_ns + steps * message_ns(frames) + (steps - 1) * ACK_NS
    second_ns = iteration_ns - ACK_NS  # it begins an ACK earlier, when the messages of the straggler itself are done
    assert ranks["end_ns"].tolist() == [iteration_ns] * 4 + [iteration_ns + second_ns] * 4


@pytest.mark.lab
def test_a_ring_over_tcp_is_within_two_percent(folder: Path) -> None:
    """A receiver acknowledges each second segment, over the cable on which it sends."""
    size, header, ack, mss = 80_000_000, 66, 66, 1448
    base = SPEC.replace('"none"', '"cubic"').replace("nic.ack_packets = 128\n", "")
    keys = ("workload.collective=all_reduce_ring", f"workload.size={size}B", "time.duration=2s")
    result = run(folder, "out", *keys, base=base)
    require_whole(result)
    ideal_s = 6 * size / 4 / mss * (mss + header + ack / 2) * 8 / 1e9
    assert ideal_s < result.summary["job_s"] < 1.02 * ideal_s


@pytest.mark.lab
def test_a_goal_file_takes_its_closed_form(folder: Path) -> None:
    """A rank computes one thing at a time on a processor; irequires waits for a beginning; a message may come before its recv."""
    (folder / "job.goal").write_text(GOAL)
    result = play(folder, "out", "workload.file=job.goal")
    require_whole(result)
    messages = result.records("messages")
    arrived_ns = 1000 + message_ns(10)
    begun_ns = arrived_ns + 2000  # the second calc waits for the processor
    last_ns = begun_ns + message_ns(1)
    last_two_ns = max(begun_ns + 3000 + message_ns(1), last_ns + FRAME_NS)
    posted_ns = last_two_ns + 3000
    assert messages["posted_ns"].tolist() == [1000, begun_ns, begun_ns + 3000, posted_ns]
    assert messages["last_ns"].tolist() == [arrived_ns, last_ns, last_two_ns, posted_ns + message_ns(2)]
    assert [int(calc) for calc in result.records("ranks")["calc_ns"]] == [1000, 5000, 3000]


@pytest.mark.lab
@pytest.mark.parametrize("retransmit", ["go-back-n", "selective"])
def test_all_messages_arrive_over_bad_links(folder: Path, retransmit: str) -> None:
    bad = ("topology.loss=1%", "topology.reorder=1%", "topology.reorder_delay=60us", "topology.jitter=5us")
    quick = ("nic.nack_interval=500us", "nic.timeout=5ms", f"nic.retransmit={retransmit}", "time.duration=1s")
    collective = ("workload.collective=all_to_all", "workload.size=400kB", "workload.rounds=3", "workload.placement=random")
    result = play(folder, "out", *collective, *bad, *quick)
    require_whole(result)
    assert result.records("nic_flows")["messages"].tolist() == [3] * 12
    assert result.records("nic_flows")["resent_packets"].sum() > 0, "nothing was lost: the test tests nothing"


@pytest.mark.lab
def test_two_jobs_and_one_that_does_not_end(folder: Path) -> None:
    jobs = """
[workload]
kind = "job"
collective = "all_gather"
size = "57600B"

[[workload.beside]]
kind = "job"
collective = "broadcast"
size = "1440kB"
ranks = 3
start = "5ms"
"""
    result = run(folder, "out", base=SPEC.replace('workload.kind = "job"\n', "") + jobs)
    one, two = result.summary["jobs"]
    assert one["job_s"] == (3 * message_ns(10) + 2 * ACK_NS) / 1e9 == result.summary["job_s"]
    assert (two["job_s"], two["job_iterations"]) == (None, 0) and not (result.records("ranks")["job"] == 1).any()
    messages = result.records("messages")
    second = messages[messages["job"] == 1]
    assert second["posted_ns"].tolist() == [5_000_000, 5_000_000 + message_ns(1000)]
    assert second["last_ns"].tolist() == [5_000_000 + message_ns(1000), -1]
