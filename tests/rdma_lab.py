# SPDX-License-Identifier: Apache-2.0
"""Short runs over RDMA for tests: two pairs of hosts on dumbbell-1g, and links that lose, delay and reorder frames."""

from __future__ import annotations

from pathlib import Path

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.results.results import Result
from dc_gym.run import runner

SPEC = """
controller.name = "fixed"
topology.preset = "dumbbell-1g"
workload.kind = "pairs"
time.duration = "20ms"
monitor.interval = "1ms"
metrics.slowdown = "off"
"""
BAD_LINKS = ("topology.loss=1%", "topology.reorder=1%", "topology.reorder_delay=60us", "topology.jitter=5us")


def load(folder: Path, *settings: str, text: str = "", base: str = SPEC) -> spec.Spec:
    (folder / "spec.toml").write_text(base + text)
    return spec.load(folder / "spec.toml", settings)


def run(folder: Path, name: str, *settings: str, text: str = "", base: str = SPEC) -> Result:
    folder.chmod(0o755)
    return runner.run(load(folder, *settings, text=text, base=base), folder / name, Quiet(), plot=False)
