# SPDX-License-Identifier: Apache-2.0
"""Figure 10 of ACC (Yan et al., SIGCOMM 2021): the speed of a training with a parameter server, with ACC and static markings.

ACC: 7 workers and 1 parameter server, P100, batches of 64. With ACC ResNet-50 trains up to 7 % faster than with SECN1 and 12 %
faster than with SECN2; figure 10b counts pauses, also of AlexNet. It does not give the time of computing.

Here 8 servers are on one switch at 25 Gbit/s. Workers push all parameters at once and pull them back at once. Computing takes as
long as a P100 needs for 64 images in TensorFlow's benchmarks of 2017 (AlexNet: at the speed of batches of 512). An iteration is
the time from a worker's push to its next one. Round trips are those of WRITEs of one byte from the first worker to the parameter
server, one each ms while it receives. A row whose queues keep the last action of ACC's template, which marks nothing below 10 MB,
shows the cost of a marking: pauses alone hold the queue there. Its reward is ACC's, so it can be compared with that of ACC's net.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import COLORS, CONTESTANTS, PAUSES, QUEUE, REWARD, RIVALS, TRAINED, UNMARKED
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Measure, Study, Variant, above
from dc_gym.traffic.flows import GROUPS

SOURCE = "ACC, figure 10"
WORKERS, BATCH = 7, 64
"""Workers, and images of a batch."""
PARAMETER_BYTES = {"AlexNet": 244_000_000, "ResNet-50": 102_000_000}
IMAGES_PER_S = {"AlexNet": 2987, "ResNet-50": 219}
"""The speed of one P100 by TensorFlow's benchmarks of 2017 (AlexNet in batches of 512)."""
DURATION_MS = {"AlexNet": 1800, "ResNet-50": 760}
PINGS, PING_FILE = 200, "pings.csv"
"""WRITEs of one byte, one each ms: a push of ResNet-50 takes longer."""
FASTER = {"SECN1": 7, "SECN2": 12}
"""The most percent by which the paper's ResNet-50 trains faster with ACC."""
SPEED = Measure("images_per_s", "training speed (images/s)", digits=4)
ITERATION = Measure("iteration_s", "iteration (ms)", 1e3, 4)
PUSH = Measure("push_s", "push (ms)", 1e3, 3)
PULL = Measure("pull_s", "pull (ms)", 1e3, 3)
RTT = Measure("rtt_s", "RTT while workers push (us)", 1e6, 3)


def name(model: str, contestant: str) -> str:
    return f"{model}, {contestant}"


def compute_ns(model: str) -> int:
    """Returns a worker's time of computing in an iteration, in ns."""
    return BATCH * 10**9 // IMAGES_PER_S[model]


VARIANTS = tuple(
    Variant(
        name(model, who),
        {"workload.size": f"{size_bytes}B", **CONTESTANTS[who], **common.sampled(DURATION_MS[model], 100, 20)},
        COLORS[who],
        given={"model": model},
    )
    for (model, size_bytes), who in product(PARAMETER_BYTES.items(), (*RIVALS, TRAINED, UNMARKED))
    if (model, who) != ("AlexNet", UNMARKED)
)
CLAIMS = [
    Claim(
        f"{model} trains faster than with {rival}" + (f", by up to {percent} %" if model == "ResNet-50" else ""),
        SOURCE,
        (above(name(model, TRAINED), name(model, rival), SPEED),),
    )
    for model, (rival, percent) in product(PARAMETER_BYTES, FASTER.items())
]


def measure(result: Result, model: str) -> dict[str, float]:
    """Returns the mean times of the workers' iterations."""
    flows = result.records("flows")
    if (flows["end_ns"] < 0).any():
        return {}
    kind, pings = np.array(GROUPS)[flows["group"]], flows[flows["size_bytes"] == 1]
    push, pull = flows[kind == "push"], flows[kind == "pull"]
    iteration_s = (float(pull["end_ns"].mean()) - float(push["start_ns"].mean()) + compute_ns(model)) / 1e9
    return {
        SPEED.name: WORKERS * BATCH / iteration_s,
        ITERATION.name: iteration_s,
        PUSH.name: float((push["end_ns"].max() - push["start_ns"].min()) / 1e9),
        PULL.name: float((pull["end_ns"].max() - pull["start_ns"].min()) / 1e9),
        RTT.name: float((pings["end_ns"] - pings["start_ns"]).mean() / 1e9),
        QUEUE.name: number(result.summary["mean_queue_bytes"]),
        REWARD.name: common.reward_of(result),
        **common.pauses(result),
    }


STUDY = Study(
    title="Speed of a training with a parameter server",
    source=SOURCE,
    base={
        **common.rack(WORKERS + 1),
        "workload.kind": "parameter_server",
        "workload.senders": WORKERS,
        "workload.rounds": 1,
        "workload.beside": [{"kind": "matrix", "file": PING_FILE}],
    },
    variants=VARIANTS,
    files={PING_FILE: common.flow_list((1, WORKERS + 1, ping, f"{ping / 1e3:g},0,1") for ping in range(1, PINGS + 1))},
    measures=(SPEED, ITERATION, PUSH, PULL, RTT, QUEUE, PAUSES, REWARD),
    measure=measure,
    claims=CLAIMS,
    seeds=3,
    facts=common.FACTS,
    runs="parameter-server",
)
