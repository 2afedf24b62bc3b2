# SPDX-License-Identifier: Apache-2.0
"""A short form of each bench: its own code with fewer and shorter runs, so that no bench falls behind the keys of specs.

SHORT has the constants that make a bench short, and `judged`: whether its checks must pass in that form. Those of the others are
about speed, or about more flows than a short form has. ELSEWHERE has the benches whose short form stands in a file of tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dc_gym.benchmarks import bench
from dc_gym.benchmarks.perf import scale

HERE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Short:
    """The short form of a bench."""

    constants: dict[str, Any] = field(default_factory=dict)
    judged: bool = True


SHORT = {
    "enforce": Short({"LINES_BPS": (10**9,), "SHARES": (0.1, 1.0)}),
    "scale": Short(
        {
            "HOSTS": (4, 6, 8, 10),
            "TRIED": 12,
            "STARTS": {"acc24": scale.STARTS["acc288"], "fattree-k4": scale.STARTS["fattree-k4"]},
        },
        judged=False,
    ),
    "speed": Short(
        {
            "REPEATS": 1,
            "ONE_GIGABIT": ("topology.preset=dumbbell-1g", "time.duration=100ms"),
            "LENGTHS_MS": {2: (10, 20)},
        },
        judged=False,
    ),
}
ELSEWHERE = {
    "compare": "benchmarks/test_bench_compare.py",
    "grounds": "benchmarks/test_bench_grounds.py",
    "learn": "benchmarks/test_bench_learn.py",
    "links": "system/test_links.py",
    "nic-cost": "benchmarks/test_nic_cost.py",
    "ns3": "benchmarks/peers/test_peers.py",
    "ns3-fct": "benchmarks/test_ns3_fct.py",
    "port-cost": "benchmarks/test_port_cost.py",
    "steps": "benchmarks/test_bench_agent.py",
    "sweep": "run/sweep/test_sweep.py",
}


def test_every_bench_has_a_short_form() -> None:
    assert {*SHORT, *ELSEWHERE} == {*bench.BENCHES} - {*bench.OF_METHODS} and not {*SHORT} & {*ELSEWHERE}
    for name, file in ELSEWHERE.items():
        assert name.replace("-", "_") in (HERE / file).read_text(), f"{file} does not name the bench {name}"


@pytest.mark.lab
@pytest.mark.parametrize("name", SHORT)
def test_a_short_form_runs(name: str, tmp_path: Path, lab_kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short, module = SHORT[name], bench.module_of(name)
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    for constant, value in short.constants.items():
        assert hasattr(module, constant)
        monkeypatch.setattr(module, constant, value)
    checks = list(module.checks())
    assert checks and not (short.judged and [check for check in checks if not check.ok])
