# SPDX-License-Identifier: Apache-2.0
"""RL-CC's training: networks trained on labs from random weights, then run on the lab's data path.

Each seed is a `dcgym method rlcc train --seed N`, which never has more than eight flows; the first also runs with `--net lstm`.
Policies run on one bottleneck (methods/rlcc/offline/bottleneck.py) with 2 to 128 flows, all of which begin at line rate.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dc_gym.benchmarks.studies.learning.common import AfterTraining, Method
from dc_gym.methods.rlcc.offline import theory
from dc_gym.methods.rlcc.offline.bottleneck import BASE_NS, BUFFER_BYTES, LINE_BPS, PAYLOAD_SHARE, START_GAP_S
from dc_gym.methods.rlcc.offline.on_lab import USUAL
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Criterion, Measure, Study, Variant, between, collect, less_than, more_than, series

SENDERS = 8
SETTLED_MS = {2: 400, 8: 400, 32: 600, 128: 1000}
"""Settling time in ms by the number of flows; nothing before it is measured."""
MEASURED_MS, NEAR = 200, 0.1
NETS = {"mlp": ("mlp-{seed}/policy.npz", "#332288"), "lstm": ("lstm-1/policy.npz", "#CC6677")}
INFLATION = Measure("inflation", "RTT inflation", digits=4)
GOODPUT = Measure("goodput", "goodput (of the line)", digits=4)
UTILIZATION = Measure("utilization", "utilization (%)", 100, 4)
JAIN, DROPS = Measure("jain", "Jain's index"), Measure("drops", "frames dropped")
MEASURES = (INFLATION, GOODPUT, UTILIZATION, JAIN, DROPS)
BASE = {
    "nic.trace": "changes",
    "nic.message": "72kB",
    "workload.kind": "matrix",
    "monitor.interval": "100us",
    "monitor.tcp_interval": "1ms",
    "topology.kind": "single",
    "topology.hosts": SENDERS + 1,
    "topology.rate": "10Gbit/s",
    "topology.delay": "25us",
    "topology.host_buffer": "400kB",
}


def keys(net: str, flows: int, settled_ms: int, measured_ms: int, buffer_bytes: int = BUFFER_BYTES) -> dict[str, Any]:
    """Returns the keys of a run of the bottleneck besides the policy."""
    return {
        "controller.name": f"rlcc-{net}",
        "workload.file": f"{flows}-flows.csv",
        "time.duration": f"{settled_ms + measured_ms}ms",
        "time.warmup": f"{settled_ms}ms",
        "topology.buffer": f"{buffer_bytes}B",
    }


def flows_file(flows: int) -> str:
    """Returns the list of flows; flows are assigned to senders in turn, and stay."""
    rows = [f"h{n % SENDERS + 1},h{SENDERS + 1},{5001 + n},{n * START_GAP_S:.6f},0.000000,inf" for n in range(flows)]
    return collect.flow_list(rows)


def measure(result: Result) -> dict[str, float]:
    """Returns numbers of settled flows. The inflation is a mean over time: probes would count short round trips more often."""
    summary = result.summary
    values = {column.name: number(summary.get(column.name)) for column in (UTILIZATION, JAIN, DROPS)}
    return values | {
        INFLATION.name: 1 + number(summary["queueing_delay_s"]) * 1e9 / BASE_NS,
        GOODPUT.name: number(summary["goodput_bps"]) / LINE_BPS / PAYLOAD_SHARE,
    }


def name(net: str, flows: int) -> str:
    return f"{net}, {flows} flows"


def near_law(net: str, flows: int) -> Criterion:
    law = theory.EQ_2(flows)
    return between(name(net, flows), INFLATION, (1 - NEAR) * law, (1 + NEAR) * law)


lines = partial(series.over, name=name, columns=(INFLATION, GOODPUT, JAIN), xlabel="flows")
ALL = [(net, flows) for net in NETS for flows in SETTLED_MS]
STUDY = Study(
    title="Networks trained on labs from random weights, beside eq. 2",
    source="RL-CC, eq. 2",
    base=BASE,
    variants=[
        Variant(
            name(net, flows),
            keys(net, flows, SETTLED_MS[flows], MEASURED_MS),
            color,
            paper={INFLATION.name: theory.EQ_2(flows)},
            by_seed={"nic.policy": policy},
        )
        for net, (policy, color) in NETS.items()
        for flows in SETTLED_MS
    ],
    files={f"{flows}-flows.csv": flows_file(flows) for flows in SETTLED_MS},
    measures=MEASURES,
    measure=measure,
    seeds=3,
    claims=[
        *(
            Claim(f"{net}: RTT inflation is that of eq. 2", "RL-CC, eq. 2", tuple(near_law(net, flows) for flows in SETTLED_MS))
            for net in NETS
        ),
        Claim(
            "The line is full and shared equally",
            "ours: 90 % of it with probes, Jain's index above 0.95",
            tuple(more_than(name(*case), *bound) for case in ALL for bound in ((UTILIZATION, 0.9), (JAIN, 0.95))),
        ),
        Claim(
            "Settled flows lose nothing",
            "ours: the buffer is 5 MB",
            tuple(less_than(name(*case), DROPS, 1) for case in ALL),
        ),
    ],
    draw=lines({net: color for net, (_, color) in NETS.items()}, tuple(SETTLED_MS), title="Trained on labs"),
    facts=[("Bottleneck", "8 senders on a switch, 10 Gbit/s, 25 us a link; flows begin at line rate, 0.5 ms apart")],
    collect=AfterTraining(
        Method("rlcc", "--updates", USUAL["mlp"].updates),
        lambda seed: {f"mlp-{seed}": (), "lstm-1": ("--net", "lstm")},
    ),
    trains=True,
)
