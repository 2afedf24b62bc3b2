# SPDX-License-Identifier: Apache-2.0
"""Test category 2 of the draft: M flows share a bottleneck under DCQCN, M more join after 20 ms, and find their fair share.

The draft's criterion is that all 2M flows are within 10 % of it. That of Jain's index at 0.95 stands beside it. Rates are those
of 5 ms. Hosts are 16 to 1; with more flows a host has several.
"""

from __future__ import annotations

from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.results.results import Result, number
from dc_gym.study import Measure, Study, Variant, collect, series

TITLE = "DCQCN convergence when as many flows join"
FLOWS, SENDERS, JOIN_S = (4, 16, 64), 16, 0.02
PRESETS = {"DCQCN of the paper": "paper", "DCQCN of the firmware": "firmware"}
COLORS = dict(zip(PRESETS, ("#332288", "#D55E00"), strict=True))
JAIN = Measure("jain_s", "until Jain's index is 0.95 (ms)", 1e3)
WITHIN = Measure("within_s", "until 99 % of flows are within 10 % (ms)", 1e3)
NEVER = Measure("never", "flows never within 10 % (%)", 100)


def name(preset: str, flows: int) -> str:
    return f"{preset}, M = {flows}"


def joining(flows: int) -> str:
    """Returns M flows from the start, and M more at JOIN_S, of different senders in turns."""
    rows = [(number % SENDERS + 1, 0.0 if number < flows else JOIN_S) for number in range(2 * flows)]
    return collect.flow_list(f"h{host},h{SENDERS + 1},5001,{start},0,0" for host, start in rows)


def measure(result: Result, flows: int) -> dict[str, float]:
    """Returns how long the change took to settle, by both criteria: the time before is too short to be judged."""
    summary = result.summary
    return {
        JAIN.name: number(summary["convergence_max_s"]),
        WITHIN.name: number(summary["reaction_p99_s"]),
        NEVER.name: number(summary["reaction_never"]) / (2 * flows),
    }


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 2",
    base={
        **common.LINES,
        "topology.kind": "single",
        "topology.hosts": SENDERS + 1,
        "workload.kind": "matrix",
        "workload.jitter": "100us",
        "time.duration": "220ms",
        "monitor.interval": "1ms",
        "metrics.rate_interval": "5ms",
        "metrics.within": 10,
    },
    variants=[
        Variant(
            name(preset, flows),
            {"nic.preset": key, "workload.file": f"{flows}.csv"},
            COLORS[preset],
            given={"flows": flows},
        )
        for preset, key in PRESETS.items()
        for flows in FLOWS
    ],
    files={f"{flows}.csv": joining(flows) for flows in FLOWS},
    measures=(JAIN, WITHIN, NEVER),
    measure=measure,
    seeds=common.SEEDS,
    draw=series.over(COLORS, FLOWS, name, (JAIN, NEVER), "flows (M)", TITLE),
)
