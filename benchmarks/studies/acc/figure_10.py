# SPDX-License-Identifier: Apache-2.0
"""Figure 10 of ACC (Yan et al., SIGCOMM 2021): the speed of a training with a parameter server, with ACC and static markings.

ACC: 7 workers and 1 parameter server, P100, batches of 64. With ACC ResNet-50 trains up to 7 % faster than with SECN1 and 12 %
faster than with SECN2; figure 10b counts pauses, also of AlexNet. It does not give the time of computing.

Here 8 servers are on one switch. Workers push all parameters at once and pull them back at once. An iteration is the time from a
worker's push to its next one. Rows whose queues keep the last action of ACC's template, which marks nothing below 10 MB, show
what a marking costs: pauses alone hold the queue there. Their reward is ACC's, so it can be compared with that of ACC's net.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc.common import COLORS, CONTESTANTS, PAUSES, TRAINED, UNMARKED, rack, reward_of
from dc_gym.study.collect import Variant
from dc_gym.records.results import Result, number
from dc_gym.study import drawing
from dc_gym.study.claims import Claim, Explanation, above
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.traffic.flows import GROUPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Speed of a training with a parameter server"
SOURCE = "ACC, figure 10"
NAME = "parameter-server"
WORKERS, BATCH, PART = 7, 64, 4
"""Workers, images of a batch, and by how much sizes and times of computing are divided."""
PARAMETER_BYTES = {"AlexNet": 244_000_000, "ResNet-50": 102_000_000}
IMAGES_PER_S = {"AlexNet": 2987, "ResNet-50": 219}
"""The speed of one P100 by TensorFlow's benchmarks of 2017 (AlexNet in batches of 512)."""
DURATION_MS = {"AlexNet": 450, "ResNet-50": 190}
WHO = {who: CONTESTANTS[who] for who in ("SECN1", "SECN2", TRAINED, UNMARKED)}
FASTER = {"SECN1": 7, "SECN2": 12}
"""The most percent by which the paper's ResNet-50 trains faster with ACC."""
SPEED = Measure("images_per_s", "training speed (images/s)", digits=4)
ITERATION = Measure("iteration_s", "iteration, a quarter of the size (ms)", 1e3, 4)
PUSH = Measure("push_s", "push (ms)", 1e3, 3)
PULL = Measure("pull_s", "pull (ms)", 1e3, 3)
QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 3)
REWARD = Measure("reward", "ACC's reward", digits=3)
COLUMNS = (SPEED, ITERATION, PUSH, PULL, QUEUE, PAUSES, REWARD)
PAGE = "docs/reproduce-acc.md#figure-10"


def name(model: str, who: str) -> str:
    return f"{model}, {who}"


def compute_ns(model: str) -> int:
    """Returns a worker's time of computing in an iteration, in the part that is run."""
    return BATCH * 10**9 // IMAGES_PER_S[model] // PART


ROWS = [
    Variant(
        name(model, who),
        {
            **rack(WORKERS + 1),
            "workload.kind": "parameter_server",
            "workload.senders": WORKERS,
            "workload.size": f"{size_bytes // PART}B",
            "workload.rounds": 1,
            **keys,
            "time.duration": f"{DURATION_MS[model]}ms",
            "time.warmup": "0s",
            "monitor.interval": "100us",
            "monitor.tcp_interval": "20ms",
        },
        COLORS[who],
    )
    for model, size_bytes in PARAMETER_BYTES.items()
    for who, keys in WHO.items()
]
PRICE = Explanation(
    hypothesis="ACC's reward trades throughput for a short queue, so the fastest marking is not what its agents look for",
    experiment=f"the rows `{UNMARKED}` of dcgym reproduce acc figure-10",
    page=PAGE,
    showed="with it ResNet-50 trains 10 % faster than with ACC; the queue is 112 times as long, and the reward lower",
)
CLAIMS = tuple(
    Claim(
        f"{model} trains faster than with {rival}" + (f", by up to {percent} %" if model == "ResNet-50" else ""),
        SOURCE,
        (above(name(model, TRAINED), name(model, rival), SPEED),),
        explanation=PRICE,
        why="the time of computing, the network and the framework's order of transfers are not given",
    )
    for model, (rival, percent) in product(PARAMETER_BYTES, FASTER.items())
)
FACTS = (
    ("Network", f"{WORKERS} workers and a parameter server on one switch, 25 Gbit/s; 12 MB shared, pauses by ACC's rule"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    (
        "Traffic",
        f"one iteration, sizes and computing divided by {PART}: "
        + "; ".join(
            f"{model} {size_bytes // PART / 1e6:g} MB, {compute_ns(model) / 1e6:.1f} ms"
            for model, size_bytes in PARAMETER_BYTES.items()
        ),
    ),
)
NOTES = (
    f"Speed = {WORKERS * BATCH} images an iteration. Computing takes as long as a P100 needs for {BATCH} images in TensorFlow's "
    "benchmarks of 2017 (AlexNet: at the speed of batches of 512); ACC gives none.",
    f"The rows `{UNMARKED}` are ours: it marks nothing below 10 MB.",
)


def measure(result: Result) -> dict[str, float]:
    """Returns the mean times of the workers' iterations."""
    flows = result.records("flows")
    kind = np.array(GROUPS)[flows["group"]]
    if (flows["end_ns"] < 0).any():
        return {}
    push, pull = flows[kind == "push"], flows[kind == "pull"]
    model = next(model for model, size_bytes in PARAMETER_BYTES.items() if size_bytes // PART == int(push["size_bytes"][0]))
    iteration_s = (float(pull["end_ns"].mean()) - float(push["start_ns"].mean()) + compute_ns(model)) / 1e9
    return {
        SPEED.name: WORKERS * BATCH / (PART * iteration_s),
        ITERATION.name: iteration_s,
        PUSH.name: float((push["end_ns"].max() - push["start_ns"].min()) / 1e9),
        PULL.name: float((pull["end_ns"].max() - pull["start_ns"].min()) / 1e9),
        QUEUE.name: number(result.summary["mean_queue_bytes"]),
        PAUSES.name: number(result.summary.get("pauses")),
        REWARD.name: reward_of(result),
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measure)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    return drawing.dots(evidence, SPEED, TITLE)
