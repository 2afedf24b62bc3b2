# SPDX-License-Identifier: Apache-2.0
"""Test category 2 of the draft, PFC behaviour under incast: N senders to one receiver at line rate, with and without DCQCN.

N reaches 64 with 68 hosts on 4 leaves. Each sender has 500 kB; senders without DCQCN send at their line's rate until they are
paused.
"""

from __future__ import annotations

from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.benchmarks.studies.bmwg.common import DROPS, GOODPUT, PAUSED, PAUSES
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Study, Variant, above, series
from dc_gym.study.claims import less_than

TITLE = "PFC under incast"
SENDERS, SIZE_BYTES = (2, 4, 8, 16, 32, 64), 500_000
ON, OFF = "DCQCN", "no DCQCN"
CONTROLLERS = {ON: "dcqcn", OFF: "fixed"}
COLORS = {ON: "#D55E00", OFF: "#332288"}


def name(contestant: str, senders: int) -> str:
    return f"{contestant}, {senders}:1"


def measure(result: Result, senders: int) -> dict[str, float]:
    """Returns pauses and their time over all ports, drops, and goodput until the last sender is done."""
    flows = result.records("flows")
    took_s = float((flows["end_ns"].max() - flows["start_ns"].min()) / 1e9) if (flows["end_ns"] >= 0).all() else float("nan")
    return {
        GOODPUT.name: senders * SIZE_BYTES * 8 / common.LINE_BPS / took_s,
        DROPS.name: number(result.summary["drops"]),
    } | common.pauses(result)


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 2",
    base={
        **common.FABRIC,
        "topology.hosts_per_leaf": 17,
        "workload.kind": "many_to_one",
        "workload.size": f"{SIZE_BYTES}B",
        "workload.jitter": "1us",
    },
    variants=[
        Variant(
            name(contestant, senders),
            {
                "controller.name": CONTROLLERS[contestant],
                "workload.senders": senders,
                "time.duration": f"{4 + 2 * senders}ms",
            },
            COLORS[contestant],
            given={"senders": senders},
        )
        for contestant in CONTROLLERS
        for senders in SENDERS
    ],
    measures=(PAUSES, PAUSED, GOODPUT, DROPS),
    measure=measure,
    seeds=common.SEEDS,
    claims=[Claim("DCQCN tells fewer pauses at 16:1", "ours", (above(name(OFF, 16), name(ON, 16), PAUSES),))],
    identities=[less_than(name(contestant, senders), DROPS, 1) for contestant in CONTROLLERS for senders in SENDERS],
    draw=series.over(COLORS, SENDERS, name, (PAUSES, PAUSED, GOODPUT), "senders", TITLE),
)
