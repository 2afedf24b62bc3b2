# SPDX-License-Identifier: Apache-2.0
"""Incasts over RDMA through ports that trim: every frame is accounted for, and nobody waits for a timeout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rdma_lab

from dc_gym.base.errors import SpecError
from dc_gym.results.results import Result

INCAST = """
controller.name = "dcqcn"
nic.retransmit = "selective"
nic.cnp_interval = "50us"
time = { duration = "20ms", warmup = "0s" }
monitor.interval = "1ms"
metrics.slowdown = "off"
[workload]
kind = "incast"
senders = 16
rounds = 1
size = "200kB"
[topology]
rate = "10Gbit/s"
delay = "1us"
buffer = "60kB"
marking = "step"
k_bytes = 20000
"""
SINGLE = 'kind = "single"\nhosts = 17\n'
LEAF_SPINE = 'kind = "leafspine"\nleaves = 2\nhosts_per_leaf = 9\nspines = 3\nbalance = "random"\nshared_buffer = "200kB"\n'
TRIM = "topology.trim=128B"


def run(folder: Path, name: str, *settings: str, text: str = SINGLE) -> Result:
    result = rdma_lab.run(folder, name, *settings, base=INCAST, text=text)
    assert result.fit, result.manifest["unfit_reasons"]
    assert {str(status) for status in result.column("flows", "status")} == {"done"}
    assert (result.records("flows")["received_bytes"] == 200_000).all()
    return result


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    return tmp_path


def of_class(result: Result, name: str, column: str) -> int:
    """Returns a counter of a class at the end, over all ports."""
    rows = result.records("class_queues")
    number = [entry["class"] for entry in result.summary["class_drops"]].index(name)
    return int(rows[column][(rows["t_ns"] == rows["t_ns"].max()) & (rows["class"] == number)].sum())


@pytest.mark.lab
@pytest.mark.parametrize("network", [SINGLE, LEAF_SPINE], ids=["single", "leaf-spine"])
def test_an_incast_drops_nothing_and_ends_sooner(folder: Path, network: str) -> None:
    trimming, again, plain = (run(folder, name, *keys, text=network) for name, *keys in (("a", TRIM), ("b", TRIM), ("c",)))
    assert trimming.summary["trimmed"] > 100 and trimming.summary["drops"] == 0
    assert trimming.summary["nic_timeouts"] == 0
    assert_adds_up(trimming)
    assert plain.summary["trimmed"] is None and plain.summary["drops"] > 0
    assert trimming.records("flows")["fct_ns"].max() < plain.records("flows")["fct_ns"].max()
    assert trimming.digest == again.digest


def assert_adds_up(result: Result) -> None:
    """Each frame that left a sender was accepted, or came a second time, or came trimmed, for which it was asked again."""
    nics, trimmed = result.records("nic_flows"), result.summary["trimmed"]
    assert nics["sent_packets"].sum() == nics["received_packets"].sum() + nics["dropped_packets"].sum()
    assert nics["dropped_packets"].sum() >= trimmed and nics["resent_packets"].sum() >= trimmed


@pytest.mark.lab
@pytest.mark.parametrize("engine", ["native", "bpf"])
def test_telemetry_fits_into_what_is_left(folder: Path, engine: str) -> None:
    settings = ("controller.name=hpcc", "workload.senders=4", "topology.buffer=20kB", "topology.k_bytes=10kB")
    result = run(folder, "a", *settings, "topology.trim=116B", f"nic.engine={engine}")
    assert result.summary["trimmed"] > 10 and result.summary["drops"] == 0
    assert_adds_up(result)


@pytest.mark.lab
def test_where_the_class_is_full_frames_are_dropped_and_counted(folder: Path) -> None:
    result = run(folder, "a", TRIM, "topology.trim_buffer=256B")
    nics, dropped = result.records("nic_flows"), result.manifest["conservation"]["dropped_by_switches"]
    assert result.summary["trimmed"] > 0 and dropped > 0
    assert of_class(result, "all", "drops") == dropped and of_class(result, "trimmed", "drops") == 0
    assert of_class(result, "trimmed", "tx_packets") == result.summary["trimmed"]
    arrived = nics["received_packets"].sum() + nics["dropped_packets"].sum()
    assert nics["sent_packets"].sum() == arrived + dropped, "ACKs are not among the dropped"


@pytest.mark.lab
def test_frames_that_are_not_data_of_a_nic_are_dropped(folder: Path) -> None:
    """TCP beside RDMA fills the same queue."""
    beside = '[[workload.beside]]\nkind = "incast"\nsenders = 16\nsize = "200kB"\ntransport = "tcp"\n'
    settings = (TRIM, "controller.tcp=cubic")
    result = rdma_lab.run(folder, "run", *settings, base=INCAST, text=SINGLE + beside)
    assert result.fit, result.manifest["unfit_reasons"]
    over_rdma = np.asarray(result.column("flows", "transport")) == "rdma"
    flows = result.records("flows")
    assert flows["retransmits"][~over_rdma].sum() > 0 and result.summary["trimmed"] > 0
    assert (flows["received_bytes"][over_rdma] == 200_000).all()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (("nic.retransmit=go-back-n",), "nic.retransmit"),
        (("controller.name=cubic",), "topology.trim"),
        (("nic.tcp=cubic",), "topology.trim"),
        (("ground=host",), "topology.trim"),
        (("topology.shared_buffer=1MB", "topology.pfc=classes"), "topology.trim"),
        (("topology.qdisc=stock",), "topology.trim"),
        (("topology.trim=2kB",), "topology.trim"),
        (("topology.trim=73B",), "topology.trim"),
        (("controller.name=hpcc", "topology.trim=100B"), "topology.trim"),
        (("topology.trim_buffer=100B",), "topology.trim"),
        (('topology.classes=[{name = "trimmed", dscp = [1]}]',), "topology.trim"),
        (('topology.classes=[{name = "a", dscp = [63]}]',), "topology.trim"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, settings: tuple[str, ...], key: str) -> None:
    with pytest.raises(SpecError, match=f"{key}( =|:)"):
        rdma_lab.load(tmp_path, TRIM, *settings, base=INCAST, text=SINGLE)


@pytest.mark.parametrize("key", ["topology.trim_dscp=3", "topology.trim_buffer=10kB"])
def test_parameters_of_trimming_need_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(SpecError, match=r"topology\.trim;"):
        rdma_lab.load(tmp_path, key, base=INCAST, text=SINGLE)
