# SPDX-License-Identifier: Apache-2.0
"""Tests a policy in incasts of the fluid model: flows of one size that begin at one BDP within the thesis' 1 ms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dc_gym.methods.fdcc.offline.episodes import Decisions, FlowPolicy, Flows
from dc_gym.methods.fdcc.offline.telemetry_fluid import Incasts

PACKETS = 11.2
"""Packets in the thesis' BDP: 1.36 us at 100 Gbit/s, in full frames."""
START_RTTS = 73.5 / 6
"""Standard deviation of starts within 1 ms, in base round trips of the network of the study learning/fdcc: 10 Gbit/s."""
MOST_SIZE_BDP, SIZE_BDP = 300.0, 10_000.0
"""The most that a flow sends, and that all flows send together: 5 MB and 170 MB there."""
MOST_STEPS = 20_000
DONE = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class ModelIncast:
    """The measures of an incast."""

    used: float
    """The bytes of all flows, as a share of the line's capacity until the last flow ended."""
    unfair: float
    """(largest rate - mean rate) / mean rate, as in the thesis; a flow's rate is its size over its time."""
    queue_bdp: float
    """Mean queue over time."""
    longest_bdp: float


def run(
    policy: FlowPolicy, flows: int, seed: int = 1, packets: float = PACKETS, watch: Callable[[Decisions], None] | None = None
) -> ModelIncast:
    """Runs an incast to its end. If a flow does not end, everything but the queue is nan.

    `watch` is given the decisions of each step.
    """
    size_bdp = min(MOST_SIZE_BDP, SIZE_BDP / flows)
    starts = np.random.default_rng(seed).standard_normal((1, flows)) * START_RTTS
    starts -= starts.min()
    none = np.zeros(1)
    model_flows = Flows(Incasts(np.ones((1, flows)), starts, np.full(1, packets), none, none, size_bdp), policy)
    model, ends, area, longest = model_flows.model, np.full(flows, np.nan), 0.0, 0.0
    for _ in range(MOST_STEPS):
        before = model.now[0]
        decided = model_flows.step()
        if watch and decided:
            watch(decided)
        area, longest = area + float(model.queue[0] * (model.now[0] - before)), max(longest, float(model.queue[0]))
        ends[np.isnan(ends) & (model.acked[0] >= DONE * size_bdp)] = model.now[0]
        if not np.isnan(ends).any():
            break
    rates = size_bdp / (ends - starts[0])
    unfair = float((rates.max() - rates.mean()) / rates.mean())
    return ModelIncast(float(flows * size_bdp / ends.max()), unfair, area / float(model.now[0]), longest)
