# SPDX-License-Identifier: Apache-2.0
"""Figure 6 of ACC (Yan et al., SIGCOMM 2021): an incast whose senders and flows are drawn anew from time to time.

ACC redraws every 100 s and shows 300 s, after four hours of training. Its queue is an order of magnitude shorter than with static
marking, and its throughput 26.1 % higher. It does not give which static marking, how many senders and flows, and the rate.

Here 2 to 15 senders with 1 to 32 flows each are drawn anew every 40 ms, five times. Flows begin at line rate, which takes most of
20 ms to settle and would be nothing of 100 s, so the last 20 ms of each draw count. The net is the one that comes with dc-gym. It
does not learn on. Rows whose queues keep the first action of ACC's template show the reward of the shortest queue.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np

from dc_gym.base.key import MS
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import EAGER, PAUSES, QUEUE, RIVALS, TRAINED, USE
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.results.results import Result
from dc_gym.study import OURS, Claim, Measure, Study, above, below

SOURCE = "ACC, figure 6"
HOSTS, MOST_FLOWS = 16, 32
PHASE_MS, SETTLING_MS, PHASES = 40, 20, 5
STATIC = ("SECN0", *RIVALS)
REWARD = Measure("reward", "ACC's reward of the port", digits=4)
SHORTER, MORE = 10, 1.261
"""The factors of the paper."""
FILE = "incast-s{seed}.csv"


def flows(seed: int) -> str:
    """Returns the flows of each phase, drawn by the seed, as a list of flows."""
    chance, rows = random.Random(f"redrawn incast, seed {seed}"), list[tuple[int, int, int, str]]()
    for start_ms in range(0, PHASE_MS * PHASES, PHASE_MS):
        senders, count = chance.randint(2, HOSTS - 1), chance.randint(1, MOST_FLOWS)
        times = f"{start_ms / 1e3:g},{(start_ms + PHASE_MS) / 1e3:g},0"
        rows += [(sender, HOSTS, len(rows) + flow, times) for sender in range(1, senders + 1) for flow in range(count)]
    return common.flow_list(rows)


def _claims(rival: str) -> Iterator[Claim]:
    words = f"The mean queue is an order of magnitude shorter than with {rival}"
    source = SOURCE if rival in RIVALS else "ours: the figure has SECN1 and SECN2"
    yield Claim(words, source, (below(TRAINED, rival, QUEUE, 1 / SHORTER),))
    yield Claim(f"The throughput is {MORE - 1:.1%} higher than with {rival}", source, (above(TRAINED, rival, USE, MORE),))
    words = f"The mean queue is shorter than with {rival}, and the throughput is not lower by more than 1 % (ours)"
    yield Claim(words, OURS, (below(TRAINED, rival, QUEUE), above(TRAINED, rival, USE, 0.99)))


def measure(result: Result) -> dict[str, float]:
    """Returns the mean queue, the rate and the reward of the receiver's port, in the part of each draw that counts."""
    queue = common.queue_of(result, f"s1-eth{HOSTS}")
    times_ns = queue["t_ns"].astype(np.int64)
    counts = times_ns[1:] % (PHASE_MS * MS) > SETTLING_MS * MS
    backlog_bytes, passed_ns = queue["backlog_bytes"][1:][counts], np.diff(times_ns)[counts]
    use = np.diff(queue["tx_bytes"].astype(np.int64))[counts] * 8e9 / common.LINE_BPS
    _, slot = np.unique((times_ns[1:][counts] - 1) // DEPLOYED.interval_ns, return_inverse=True)
    slot_rate = np.bincount(slot, use) / np.bincount(slot, passed_ns)
    slot_queue_bytes = np.bincount(slot, backlog_bytes) / np.bincount(slot)
    return {
        QUEUE.name: float(backlog_bytes.mean()),
        USE.name: float(use.sum() / passed_ns.sum()),
        REWARD.name: common.port_reward(slot_rate, slot_queue_bytes),
        **common.pauses(result),
    }


STUDY = Study(
    title="An incast that is drawn anew",
    source=SOURCE,
    base={
        **common.rack(HOSTS),
        "workload.kind": "matrix",
        "workload.jitter": "100us",
        **common.sampled(PHASE_MS * PHASES, 50, 5),
    },
    variants=common.variants((*STATIC, TRAINED, EAGER), by_seed={"workload.file": FILE}),
    files=partial(common.drawn, {FILE: flows}),
    measures=(QUEUE, USE, PAUSES, REWARD),
    measure=measure,
    claims=[claim for rival in STATIC for claim in _claims(rival)],
    facts=common.FACTS,
    runs="redrawn-incast",
)
