# SPDX-License-Identifier: Apache-2.0
"""Figure 6 of ACC (Yan et al., SIGCOMM 2021): an incast whose senders and flows are drawn anew from time to time.

ACC redraws every 100 s and shows 300 s, after four hours of training. Its queue is an order of magnitude shorter than with static
marking, and its throughput 26.1 % higher. It does not give which static marking, how many senders and flows, and the rate.

Here 2 to 15 senders with 1 to 32 flows each are drawn anew every 40 ms, five times. Flows begin at line rate, which takes most of
20 ms to settle and would be nothing of 100 s, so the last 20 ms of each draw count. The net is the one that comes with dc-gym. It
does not learn on. Rows whose queues keep the first action of ACC's template show what the shortest queue earns.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.key import MS
from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, EAGER, PAUSES, TRAINED, port_reward, queue_of, rack
from dc_gym.study.collect import Variant
from dc_gym.nets.acc_template import DEPLOYED
from dc_gym.records.results import Result, number
from dc_gym.study import drawing
from dc_gym.study.claims import Claim, Explanation, above, below
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "An incast that is drawn anew"
SOURCE = "ACC, figure 6"
NAME = "redrawn-incast"
LINE_BPS, HOSTS, MOST_FLOWS = 25 * 10**9, 16, 32
PHASE_MS, SETTLING_MS, PHASES = 40, 20, 5
RIVALS = ("SECN0", "SECN1", "SECN2")
WHO = {who: CONTESTANTS[who] for who in (*RIVALS, TRAINED, EAGER)}
COLORS = {**common.COLORS, "SECN0": "#88CCEE"}
QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 3)
USE = Measure("rate", "rate (of the line)", digits=4)
REWARD = Measure("reward", "ACC's reward of the port", digits=4)
COLUMNS = (QUEUE, USE, PAUSES, REWARD)
SHORTER, MORE = 10, 1.261
"""The factors of the paper."""
FILE = "incast-s{seed}.csv"


def flows(seed: int) -> str:
    """Returns the flows of each phase, drawn by the seed, as a list of flows."""
    chance = random.Random(f"redrawn incast, seed {seed}")
    rows = ["source,destination,port,start,stop,size"]
    for start_ms in range(0, PHASE_MS * PHASES, PHASE_MS):
        senders, each = chance.randint(2, HOSTS - 1), chance.randint(1, MOST_FLOWS)
        times = f"{start_ms / 1e3:g},{(start_ms + PHASE_MS) / 1e3:g},0"
        rows += [
            f"h{sender},h{HOSTS},{5000 + len(rows) + flow},{times}" for sender in range(1, senders + 1) for flow in range(each)
        ]
    return "\n".join(rows) + "\n"


ROWS = [
    Variant(
        who,
        {
            **rack(HOSTS),
            "workload.kind": "matrix",
            "workload.jitter": "100us",
            **keys,
            "time.duration": f"{PHASE_MS * PHASES}ms",
            "time.warmup": "0s",
            "monitor.interval": "50us",
            "monitor.tcp_interval": "5ms",
        },
        COLORS[who],
        by_seed={"workload.file": FILE},
    )
    for who, keys in WHO.items()
]
PAGE = "docs/reproduce-acc.md#figure-6"
WHY = "the static marking, the rate, the buffer, the senders and the flows are not given"
LINE = Explanation(
    hypothesis="a static marking leaves less of the line unused than 26.1 % would need, so no agent can gain it",
    experiment="the column `rate` of dcgym reproduce acc figure-6",
    page=PAGE,
    showed="with every static marking the rate is above 1 / 1.261 of the line",
)
SHORTEST = Explanation(
    hypothesis="SECN0 marks all packets from 18 kB on, so its queue is as short as one can be that DCQCN keeps filled",
    experiment="the column `mean queue` of dcgym reproduce acc figure-6",
    page=PAGE,
    showed="SECN0's queue is 7.7 kB (five seeds), a tenth of which is less than a packet",
)
STEPS = Explanation(
    hypothesis="D is the same for every queue up to 20 kB, so ACC's reward does not tell 20 kB from a tenth of SECN1's queue",
    experiment=f"the rows `{EAGER}` of dcgym reproduce acc figure-6",
    page=PAGE,
    showed="with it the queue is 9.5 kB, 18 and 20 times as short, and the reward 0.973 beside ACC's 0.970 (five seeds)",
)
CLAIMS = (
    *(
        Claim(
            f"The mean queue is an order of magnitude shorter than with {rival}",
            SOURCE,
            (below(TRAINED, rival, QUEUE, 1 / SHORTER),),
            why=WHY,
            explanation=SHORTEST if rival == "SECN0" else STEPS,
        )
        for rival in RIVALS
    ),
    *(
        Claim(
            f"The throughput is {MORE - 1:.1%} higher than with {rival}",
            SOURCE,
            (above(TRAINED, rival, USE, MORE),),
            why=WHY,
            explanation=LINE,
        )
        for rival in RIVALS
    ),
    *(
        Claim(
            f"The mean queue is shorter than with {rival}, and the throughput is not lower by more than 1 % (ours)",
            SOURCE,
            (below(TRAINED, rival, QUEUE), above(TRAINED, rival, USE, 0.99)),
            ours=True,
        )
        for rival in RIVALS
    ),
)
FACTS = (
    ("Network", f"{HOSTS} servers on one switch, 25 Gbit/s; 12 MB shared, pauses by ACC's rule (11.11 %)"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    ("Traffic", f"2 to {HOSTS - 1} senders with 1 to {MOST_FLOWS} flows each to one, drawn anew every {PHASE_MS} ms"),
    ("Counted", f"the last {PHASE_MS - SETTLING_MS} ms of each draw"),
    ("ACC", "controller.start = acc-deployed, once in 500 us, in force 10 us later"),
)
NOTES = (
    f"Scaled: {PHASES} draws of {PHASE_MS} ms; ACC draws anew every 100 s and shows three.",
    "The senders, the flows and the buffer are ours: ACC gives none. It does not say which static marking its factors are over.",
)


def measure(result: Result) -> dict[str, float]:
    """Returns the mean queue, the rate and the reward of the receiver's port, in the part of each draw that counts."""
    queue = queue_of(result, f"s1-eth{HOSTS}")
    times_ns = queue["t_ns"].astype(np.int64)
    counts = times_ns[1:] % (PHASE_MS * MS) > SETTLING_MS * MS
    backlog_bytes, passed_ns = queue["backlog_bytes"][1:][counts], np.diff(times_ns)[counts]
    use = np.diff(queue["tx_bytes"].astype(np.int64))[counts] * 8e9 / LINE_BPS
    _, slot = np.unique((times_ns[1:][counts] - 1) // DEPLOYED.interval_ns, return_inverse=True)
    slot_rate = np.bincount(slot, use) / np.bincount(slot, passed_ns)
    slot_queue_bytes = np.bincount(slot, backlog_bytes) / np.bincount(slot)
    return {
        QUEUE.name: float(backlog_bytes.mean()),
        USE.name: float(use.sum() / passed_ns.sum()),
        PAUSES.name: number(result.summary.get("pauses")),
        REWARD.name: port_reward(slot_rate, slot_queue_bytes),
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    files = {FILE.format(seed=seed): flows(seed) for seed in own_rate.seeds_of(options)}
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, files=files)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    return drawing.dots(evidence, QUEUE, TITLE)
