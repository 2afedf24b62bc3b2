# SPDX-License-Identifier: Apache-2.0
"""Waits that follow from the network: their values, and runs on paths that are long, slow or have small queues."""

import json
import subprocess
import sys

import pytest

from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec.load import from_dict
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.topologies.waits import LAB_T0_NS, Waits

S, MS = 10**9, 10**6
SHORT = {"kind": "single", "hosts": 2, "rate_bps": 10**10, "delay_ns": 1000, "buffer_bytes": 100_000}


def waits(**changes):
    return Waits.of(build(TopologySpec.of(**SHORT | changes)))


def test_short_paths_keep_the_least_waits():
    assert waits() == Waits(warm_burst=64, warm_gap_ns=1 * MS, warm_settle_ns=100 * MS, drain_ns=waits().drain_ns)
    assert waits().drain_ns < 1 * MS


def test_a_wait_is_longer_than_the_longest_path():
    assert waits(delay_ns=200 * MS).warm_settle_ns >= 2 * 2 * 200 * MS
    assert waits(delay_ns=S).drain_ns >= 2 * 2 * S
    slow = waits(rate_bps=64_000, buffer_bytes=100_000)
    assert slow.drain_ns >= 2 * 2 * 100_000 * 8 * S // 64_000
    assert slow.warm_gap_ns >= 64 * 60 * 8 * S // 64_000


def test_a_burst_fits_into_the_smallest_queue():
    assert waits(buffer_bytes=3200).warm_burst * 60 <= 3200


def test_t0_is_put_off_by_whole_seconds_where_paths_are_long():
    assert waits(delay_ns=S).t0_ns(LAB_T0_NS, 2) == LAB_T0_NS
    late = waits(delay_ns=9 * S).t0_ns(LAB_T0_NS, 2)
    assert late % S == 0 and late >= LAB_T0_NS + 2 * 2 * 9 * S - 5 * S
    assert waits(delay_ns=9 * S).t0_ns(late, 2) == late, "a stored spec keeps its t0"
    assert waits().t0_ns(11 * S, 2) == 11 * S, "what the user asks for"


PATHS = {
    "100 ms one way": """
topology = { kind = "single", hosts = 2, rate = "100Mbit/s", delay = "100ms", buffer = "1bdp" }
workload.kind = "pairs"
time.duration = "5s"
""",
    "9 s a link": """
topology = { kind = "dumbbell", pairs = 2, rate = "100Mbit/s", delay = "9s", buffer = "100kB" }
workload.kind = "pairs"
time.duration = "200s"
""",
    "64 kbit/s": """
topology = { kind = "single", hosts = 2, rate = "64kbit/s", delay = "1ms", buffer = "10kB" }
workload.kind = "pairs"
time.duration = "5s"
""",
    "a queue of two packets": """
topology = { kind = "single", hosts = 65, rate = "10Gbit/s", delay = "1us", buffer = "3200B" }
workload = { kind = "many_to_one", senders = 64 }
time.duration = "5ms"
""",
    "UDP over a second": """
topology = { kind = "single", hosts = 2, rate = "100Mbit/s", delay = "500ms", buffer = "1MB" }
workload = { kind = "pairs", transport = "udp", rate = "50Mbit/s" }
time.duration = "3s"
""",
}


@pytest.mark.lab
@pytest.mark.parametrize("path", PATHS)
def test_a_run_is_fit_on_any_path(path, tmp_path, lab_kernel):
    (tmp_path / "spec.toml").write_text(f'name = "path"\ncontroller.name = "cubic"\n{PATHS[path]}')
    argv = [sys.executable, "-m", "dc_gym.cli.main", "run", tmp_path / "spec.toml", "--out", tmp_path / "out", "--quiet"]
    child = subprocess.run([*map(str, argv)], capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["unfit_reasons"] == []
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["goodput_bps"] > 0


def test_an_experiment_has_the_t0_of_its_network(tmp_path):
    fields = {"name": "far", "topology": SPEC | {"delay": "9s"}, "controller": {"name": "cubic"}}
    spec = from_dict(fields | {"workload": {"kind": "pairs"}, "time": {"duration": "1s"}}, tmp_path)
    assert Experiment.of(spec).spec.lab.t0_ns > LAB_T0_NS


SPEC = {"kind": "single", "hosts": 2, "rate": "1Gbit/s", "buffer": "1MB"}
