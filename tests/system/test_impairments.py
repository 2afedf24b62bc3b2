# SPDX-License-Identifier: Apache-2.0
"""Runs over links that lose, delay and reorder: they are fit, every frame is accounted for, and equal seeds give equal bits."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.run.runner import run

pytestmark = pytest.mark.lab

SPEC = """
[topology]
preset = "acc24a"
loss = "0.2%"
scale = 10
[[topology.links]]
between = ["leaf", "spine"]
loss = 0
jitter = "2us"
reorder = "1%"
reorder_delay = "3us"
[controller]
name = "cubic"
[workload]
kind = "pairs"
[time]
duration = "10ms"
[monitor]
interval = "1ms"
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    file = tmp_path_factory.mktemp("impaired") / "spec.toml"
    file.write_text(SPEC)
    return spec.load(file)


@pytest.fixture(scope="module")
def result(experiment, tmp_path_factory, lab_kernel):
    return run(experiment, tmp_path_factory.mktemp("impaired") / "result", Quiet(), plot=False)


def test_a_lost_frame_is_accounted_for_and_leaves_the_run_fit(result):
    """Data crosses two links that lose, so do its acknowledgements: of all frames that hosts sent, 0.2 % once or twice."""
    assert result.fit, result.manifest["unfit_reasons"]
    account = result.manifest["conservation"]
    lost, sent = account["lost_on_links"], account["sent_by_hosts"]
    assert sent > 10_000
    assert abs(lost - 2 * 0.002 * sent) < 4 * sqrt(2 * 0.002 * sent)
    assert sent == sum(account[name] for name in ("received_by_hosts", "dropped_by_switches", "under_way", "lost_on_links"))
    assert result.summary["retransmits"] > 0


def test_the_result_says_what_links_lost_and_which(result):
    """The hosts' links lose frames, in both directions; drops of queues are counted apart."""
    account, summary = result.manifest["conservation"], result.summary
    assert summary["lost_on_links"] == account["lost_on_links"]
    assert summary["loss_ratio"] == account["lost_on_links"] / account["sent_by_hosts"]
    ports = result.derived("port_metrics").to_pydict()
    lost = dict(zip(ports["port"], ports["lost"], strict=True))
    lossy = {port["name"] for port in result.ports if port["loss"]}
    assert sum(lost.values()) == summary["lost_on_links"]
    assert {port for port, count in lost.items() if count} <= lossy
    assert sum(count > 0 for count in lost.values()) > 10


def test_ports_say_what_was_asked_for(result):
    ports = {port["name"]: port for port in result.ports}
    host, spine = ports["s1-eth1"], ports["s1-eth13"]
    assert (host["loss"], host["jitter_ns"], host["reorder"], host["rate_bps"]) == (0.002, 0, 0.0, 25 * 10**8)
    assert (spine["loss"], spine["jitter_ns"], spine["reorder"], spine["reorder_delay_ns"]) == (0.0, 20_000, 0.01, 30_000)
    assert result.manifest["scale"]["factor"] == 10


def test_equal_seeds_give_equal_bits_and_others_do_not(experiment, result, tmp_path):
    again = run(experiment, tmp_path / "again", Quiet(), plot=False)
    assert again.digest == result.digest
    other = run(replace(experiment, seed=2), tmp_path / "other", Quiet(), plot=False)
    assert other.digest != result.digest and other.fit
