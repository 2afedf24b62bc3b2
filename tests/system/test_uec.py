# SPDX-License-Identifier: Apache-2.0
"""Transport uec: packets take the paths of their entropy values, nothing is sent again without a loss, and losses alone are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import rdma_lab

from dc_gym.base.errors import SpecError
from dc_gym.results.results import Result
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies.ecmp import path
from dc_gym.traffic.flows import RDMA_PORT

ENTROPIES, ROUNDS, PAYLOAD_BYTES = 64, 4, 1440
SPEC = f"""
controller.name = "fixed"
nic.trace = "off"
time = {{ duration = "20ms", warmup = "0s" }}
monitor.interval = "1ms"
metrics.slowdown = "off"
[topology]
kind = "leafspine"
leaves = 2
hosts_per_leaf = 4
spines = 4
rate = "10Gbit/s"
delay = "1us"
buffer = "4MB"
marking = "step"
k_bytes = 30000
[workload]
transport = "uec"
size = "{ENTROPIES * ROUNDS * PAYLOAD_BYTES}B"
"""
PERMUTATION = 'kind = "stride"\nstride = 4\n'
INCAST = 'kind = "incast"\nsenders = 6\nrounds = 1\n'
LOSSES = ("controller.name=nscc", "topology.buffer=40kB", "topology.k_bytes=20kB")
TRIM = "topology.trim=128B"
BALANCERS = ("oblivious", "bitmap", "reps")


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    return tmp_path


def run(folder: Path, name: str, *settings: str, text: str = PERMUTATION) -> Result:
    result = rdma_lab.run(folder, name, *settings, base=SPEC, text=text)
    assert result.fit, result.manifest["unfit_reasons"]
    assert {str(status) for status in result.column("flows", "status")} == {"done"}
    return result


def sums(result: Result, *names: str) -> list[int]:
    return [int(result.records("nic_flows")[name].sum()) for name in names]


def sent_by_port(result: Result) -> dict[str, int]:
    """Returns the frames that each port of a leaf to a spine has sent."""
    rows = result.records("queues")
    last = rows[rows["t_ns"] == rows["t_ns"].max()]
    names = [str(port["name"]) for port in result.ports]
    sent = {names[row["port"]]: int(row["tx_packets"]) for row in last}
    return {port: sent[port] for port in sent if port.split("-")[0] in ("s1", "s2") and int(port.split("eth")[1]) > 4}


@pytest.mark.lab
def test_packets_and_their_acks_take_the_paths_of_their_entropy_values(folder: Path) -> None:
    """In each round a flow uses every value once. So the frames of each uplink follow from the hashes alone."""
    result = run(folder, "run", "controller.name=none")
    experiment = Experiment.of(rdma_lab.load(folder, "controller.name=none", base=SPEC, text=PERMUTATION))
    expected: Counter[str] = Counter()
    for flow in experiment.schedule.flows:
        for port in (flow.src_port ^ value for value in range(ENTROPIES)):
            for ends in ((flow.src, flow.dst), (flow.dst, flow.src)):
                expected[path(experiment.graph, experiment.router, *ends, port, RDMA_PORT, "udp")[1]] += ROUNDS
    sent = sent_by_port(result)
    assert len(sent) == 8 and sent == {port: expected[port] for port in sent}
    mean = 2 * 4 * ENTROPIES * ROUNDS / 4  # 4 flows and the ACKs of 4 others over 4 uplinks
    deviation = ROUNDS * (2 * 4 * ENTROPIES * 1 / 4 * 3 / 4) ** 0.5  # binomial: each value's uplink is one of four
    assert all(abs(count - mean) < 4 * deviation for count in sent.values())


@pytest.mark.lab
@pytest.mark.parametrize("balancer", BALANCERS)
def test_nothing_is_sent_again_without_a_loss(folder: Path, balancer: str) -> None:
    result = run(folder, "run", f"nic.balancer={balancer}", "controller.name=nscc", "topology.k_bytes=5kB")
    assert result.summary["drops"] == 0
    assert sums(result, "resent_packets", "nacks", "timeouts", "dropped_packets", "cnps") == [0] * 5
    assert sums(result, "marked_packets")[0] > 0


@pytest.mark.lab
@pytest.mark.parametrize("settings", [(), (TRIM,)], ids=["dropped", "trimmed"])
def test_what_is_lost_is_sent_again_and_nothing_else(folder: Path, settings: tuple[str, ...]) -> None:
    result, again = (run(folder, name, *LOSSES, *settings, text=INCAST) for name in ("a", "b"))
    lost = result.summary["trimmed"] if settings else result.summary["drops"]
    resent, received, dropped = sums(result, "resent_packets", "received_packets", "dropped_packets")
    assert lost > 40 and resent == lost and received == 6 * ENTROPIES * ROUNDS
    assert dropped == (lost if settings else 0), "no packet came twice"
    assert result.digest == again.digest


@pytest.mark.lab
@pytest.mark.parametrize("balancer", BALANCERS)
def test_engines_and_the_balancer_s_draws_agree(folder: Path, balancer: str) -> None:
    settings = (TRIM, *LOSSES, f"nic.balancer={balancer}")
    native, bpf = (run(folder, engine, *settings, f"nic.engine={engine}", text=INCAST) for engine in ("native", "bpf"))
    other = run(folder, "other", *settings, "seed=2", text=INCAST)
    assert native.digest == bpf.digest != other.digest


@pytest.mark.lab
def test_balancers_leave_a_path_whose_packets_are_marked(folder: Path) -> None:
    """One link to a spine has a fifth of the rate of the others."""
    slow = '[[topology.links]]\nfrom = "s1"\nto = "s3"\nrate = "2Gbit/s"\n'
    shares = {}
    for balancer in BALANCERS:
        result = run(folder, balancer, f"nic.balancer={balancer}", "controller.name=nscc", text=PERMUTATION + slow)
        sent = {port: count for port, count in sent_by_port(result).items() if port.startswith("s1")}
        shares[balancer] = sent["s1-eth5"] / sum(sent.values())
    assert shares["bitmap"] < 0.9 * shares["oblivious"] and shares["reps"] < 0.9 * shares["oblivious"], shares


@pytest.mark.lab
def test_a_lost_ack_costs_nothing_and_a_lost_packet_itself(folder: Path) -> None:
    """Links that lose, delay and reorder: all arrives, each packet once."""
    result = run(folder, "run", "controller.name=nscc", *rdma_lab.BAD_LINKS, "time.duration=200ms")
    lost = result.manifest["conservation"]
    received, dropped, resent = sums(result, "received_packets", "dropped_packets", "resent_packets")
    assert received == 8 * ENTROPIES * ROUNDS and lost
    assert 0 < resent < 0.2 * received and dropped <= resent


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (("nic.retransmit=go-back-n",), "nic.retransmit"),
        (("controller.name=cubic",), "workload.transport"),
        (("nic.tcp=cubic",), "workload.transport"),
        (("ground=host",), "workload.transport"),
        (("controller.name=hpcc",), "workload.transport"),
        (("metrics.slowdown=closed-form",), "metrics.slowdown"),
        (("nic.balancer=plb",), "nic.balancer"),
        (("nic.entropies=48",), "nic.entropies"),
        (("nic.entropies=512",), "nic.entropies"),
        (("workload.transport=rdma", "nic.balancer=reps"), "nic.balancer"),
        (("workload.transport=rdma", "nic.entropies=16"), "nic.entropies"),
        (("workload.transport=rdma", "controller.name=nscc"), "controller.name"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, settings: tuple[str, ...], key: str) -> None:
    with pytest.raises(SpecError, match=f"{key}( =|:)"):
        rdma_lab.load(tmp_path, *settings, base=SPEC, text=PERMUTATION)


def test_rdma_beside_uec_is_refused(tmp_path: Path) -> None:
    beside = '[[workload.beside]]\nkind = "pairs"\ntransport = "rdma"\n'
    with pytest.raises(SpecError, match=r"workload\.transport"):
        rdma_lab.load(tmp_path, base=SPEC, text=PERMUTATION + beside)
