# SPDX-License-Identifier: Apache-2.0
"""Short incasts on a lossless fabric in a lab: nothing is dropped, pauses are counted, and nothing stays charged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.results.results import Result
from dc_gym.run import runner

pytestmark = pytest.mark.lab
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/pfc.toml"
SMALL = ("topology.hosts=9", "topology.shared_buffer=500kB", "workload.size=400kB", "time.duration=6ms", "metrics.slowdown=off")
RDMA = ("controller.name=dcqcn", "topology.marking=secn1")
FULL_FRAME = 1514


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def run(folder: Path, name: str, *settings: str) -> Result:
    return runner.run(spec.load(EXAMPLE, [*SMALL, *settings]), folder / name, Quiet(), plot=False)


def drops(result: Result) -> int:
    queues = result.records("queues")
    return int(queues["drops"][queues["t_ns"] == queues["t_ns"].max()].sum())


def assert_lossless(result: Result) -> None:
    assert result.fit, result.manifest["unfit_reasons"]
    classes = result.records("class_queues")
    last = classes[classes["t_ns"] == classes["t_ns"].max()]
    owners = result.column("class_queues", "port")[classes["t_ns"] == classes["t_ns"].max()]
    switch = [str(owner).startswith("s") for owner in owners]
    assert drops(result) == 0 and not last["drops"].any()
    assert last["pauses"][switch].sum() > 0, "the buffer was never short: the test tests nothing"
    assert last["paused_ns"][[not is_switch for is_switch in switch]].any(), "no host was paused"
    assert classes["charged_bytes"].any() and not last["charged_bytes"].any(), "all that came in has left"
    conservation = result.manifest["conservation"]
    assert conservation["dropped_by_switches"] == 0
    flows = result.records("flows")
    assert {str(status) for status in result.column("flows", "status")} == {"done"}
    assert (flows["received_bytes"] == flows["size_bytes"]).all()


def test_an_incast_loses_nothing_with_pauses_and_something_without(folder: Path) -> None:
    lossless, again = (run(folder, name) for name in "ab")
    assert_lossless(lossless)
    assert not lossless.records("flows")["retransmits"].any()
    assert lossless.digest == again.digest
    lossless.check_digest()
    lossy = run(folder, "c", "topology.pfc=off")
    assert lossy.fit and drops(lossy) > 0
    assert not lossy.records("class_queues")["pauses"].any()


def test_an_agent_s_run_has_classes_and_may_end_in_a_pause(folder: Path) -> None:
    """The matrix of an agent has the rows that every run has."""
    keys = ("topology.marking=step", "topology.k_bytes=100kB", "controller.name=dctcp", "controller.policy=max")
    sets = ("agent.actuators=class:marking", "agent.observe=class:paused", "agent.interval=100us", "agent.reward=-drops")
    result = run(folder, "out", *keys, *sets, "time.duration=1500us")
    assert result.fit, result.manifest["unfit_reasons"]
    classes = result.records("class_queues")
    last = classes[classes["t_ns"] == classes["t_ns"].max()]
    assert last["paused_ns"].any() and last["charged_bytes"].any(), "a pause is in force: the test tests nothing without"
    assert "deadlock" not in result.manifest
    plain = run(folder, "plain", *keys[:3], "time.duration=1500us").records("class_queues")
    for name in ("backlog_bytes", "marks", "pauses", "charged_bytes"):
        assert np.array_equal(classes[name], plain[name]), f"{name}: the agent changes nothing"


def test_pauses_hold_the_rings_of_nics(folder: Path) -> None:
    """Packets that a paused host may not send wait in the ring, not in the queue behind it."""
    result = run(folder, "out", *RDMA)
    assert_lossless(result)
    queues, owners = result.records("queues"), result.column("queues", "port")
    of_hosts = queues["backlog_bytes"][[str(owner).startswith("h") for owner in owners]]
    assert of_hosts.max() <= 2 * FULL_FRAME
    assert not result.records("nic_flows")["resent_packets"].any()
