# SPDX-License-Identifier: Apache-2.0
"""Figure 6 of ACC (Yan et al., SIGCOMM 2021): an incast whose senders and flows are drawn anew from time to time.

ACC redraws every 100 s and shows 300 s, after four hours of training. Its queue is an order of magnitude shorter than with static
marking, and its throughput 26.1 % higher. It does not give which static marking, how many senders and flows, and the rate.

Here 2 to 15 senders with 1 to 32 flows each are drawn anew every second, three times. Flows begin at line rate, which takes most
of 20 ms to settle and would be nothing of 100 s, so the first 20 ms of each draw do not count. The net is the one that comes with
dc-gym, in a switch that learns on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np

from dc_gym.base.key import MS
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import LEARNING, PAUSES, QUEUE, RIVALS, USE
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, above, below
from dc_gym.study.claims import any_of

SOURCE = "ACC, figure 6"
HOSTS, MOST_FLOWS = 16, 32
PHASE_MS, SETTLING_MS, PHASES = 1000, 20, 3
REWARD = Measure("reward", "ACC's reward of the port", digits=4)
SHORTER, MORE = 10, 1.261
"""The factors of the paper."""
FILE = "incast-s{seed}.csv"
QUEUES = [Measure(f"queue_{phase}_bytes", f"mean queue, draw {phase} (kB)", 1e-3, 3) for phase in range(1, PHASES + 1)]
USES = [Measure(f"rate_{phase}", f"rate, draw {phase} (of the line)", digits=4) for phase in range(1, PHASES + 1)]


def flows(seed: int) -> str:
    """Returns the flows of each phase, drawn by the seed, as a list of flows."""
    chance, rows = random.Random(f"redrawn incast, seed {seed}"), list[tuple[int, int, int, str]]()
    for start_ms in range(0, PHASE_MS * PHASES, PHASE_MS):
        senders, count = chance.randint(2, HOSTS - 1), chance.randint(1, MOST_FLOWS)
        times = f"{start_ms / 1e3:g},{(start_ms + PHASE_MS) / 1e3:g},0"
        rows += [(sender, HOSTS, len(rows) + flow, times) for sender in range(1, senders + 1) for flow in range(count)]
    return common.flow_list(rows)


def _claims(rival: str) -> Iterator[Claim]:
    shorter = below(LEARNING, rival, QUEUE, 1 / SHORTER)
    yield Claim(f"The mean queue is an order of magnitude shorter than with {rival}", SOURCE, (shorter,))
    yield Claim(f"The throughput is {MORE - 1:.1%} higher than with {rival}", SOURCE, (above(LEARNING, rival, USE, MORE),))


def behind() -> Claim:
    """Returns the claim that in each draw but the first each static marking is behind ACC."""
    pairs = [(rival, *pair) for rival in RIVALS for pair in zip(USES[1:], QUEUES[1:], strict=True)]
    either = (any_of([[above(LEARNING, rival, use)], [below(LEARNING, rival, queue)]]) for rival, use, queue in pairs)
    return Claim("After the first draw SECN1 and SECN2 are behind in throughput or in queue", SOURCE, (*either,))


def measure(result: Result) -> dict[str, float]:
    """Returns the mean queue and the rate of the receiver's port, and its reward, in the part of each draw that counts."""
    queue = common.queue_of(result, f"s1-eth{HOSTS}")
    times_ns = queue["t_ns"].astype(np.int64)
    counts = (times_ns[1:] - 1) % (PHASE_MS * MS) >= SETTLING_MS * MS
    backlog_bytes, passed_ns = queue["backlog_bytes"][1:][counts], np.diff(times_ns)[counts]
    use = np.diff(queue["tx_bytes"].astype(np.int64))[counts] * 8e9 / common.LINE_BPS
    ends_ns = times_ns[1:][counts] - 1
    _, slot = np.unique(ends_ns // DEPLOYED.interval_ns, return_inverse=True)
    slot_rate = np.bincount(slot, use) / np.bincount(slot, passed_ns)
    slot_queue_bytes = np.bincount(slot, backlog_bytes) / np.bincount(slot)
    of_phase = [ends_ns // (PHASE_MS * MS) == phase for phase in range(PHASES)]
    return {
        QUEUE.name: float(backlog_bytes.mean()),
        USE.name: float(use.sum() / passed_ns.sum()),
        **{queue.name: float(backlog_bytes[drawn].mean()) for queue, drawn in zip(QUEUES, of_phase, strict=True)},
        **{rate.name: float(use[drawn].sum() / passed_ns[drawn].sum()) for rate, drawn in zip(USES, of_phase, strict=True)},
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
        **common.sampled(PHASE_MS * PHASES, 100, 50),
    },
    variants=common.variants((*RIVALS, LEARNING), by_seed={"workload.file": FILE}),
    files=partial(common.drawn, {FILE: flows}),
    measures=(QUEUE, USE, *QUEUES, *USES, PAUSES, REWARD),
    measure=measure,
    claims=[*(claim for rival in RIVALS for claim in _claims(rival)), behind()],
    seeds=3,
    facts=common.FACTS,
    runs="redrawn-incast",
)
