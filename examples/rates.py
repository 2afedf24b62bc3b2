# SPDX-License-Identifier: Apache-2.0
"""A study of one's own: how DCTCP's queue depends on the rate of a link. `dcgym study run examples/rates.py`"""

from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, below

QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3)
GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)


def measure(result: Result) -> dict[str, float]:
    return {QUEUE.name: result.summary["mean_queue_bytes"], GOODPUT.name: result.summary["goodput_bps"]}


STUDY = Study(
    title="DCTCP by the rate of the link",
    base={
        "topology.preset": "dumbbell-10m",
        "controller.name": "dctcp",
        "workload.kind": "pairs",
        "workload.jitter": "10ms",
        "time.duration": "1s",
        "time.warmup": "200ms",
    },
    variants=[Variant(rate, {"topology.rate": rate}) for rate in ("5Mbit/s", "10Mbit/s", "20Mbit/s")],
    measures=[QUEUE, GOODPUT],
    measure=measure,
    claims=[Claim("A faster link carries more", "by its rate", (below("5Mbit/s", "10Mbit/s", GOODPUT, 0.6),))],
)
