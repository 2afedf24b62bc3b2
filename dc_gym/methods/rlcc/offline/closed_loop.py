# SPDX-License-Identifier: Apache-2.0
"""A policy without exploration on bottlenecks of the fluid model, with few flows and with more than it was trained on."""

from __future__ import annotations

from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.fluid import Bottleneck

FLOWS = (2, 4, 8, 32, 128)
ROUND_TRIPS, STEPS_PER_RTT = 400, 8
"""The length in base round trips, of which the second half counts, and the model's steps in a base round trip: a real round
trip's lag."""
TOTALS = ("flows", "inflation", "inflation_std", "sum_of_rates", "slowest_over_fastest", "jain", "lost_bdp")
"""The fields of a fluid.SettledState that `totals` returns."""


def totals(policy: fluid.Policy, flows: int, scaling: Scaling) -> dict[str, float]:
    """Returns the state at which so many flows settle, and their inflation relative to eq. 2."""
    steady_state = fluid.settle(policy, Bottleneck(flows, steps_per_rtt=STEPS_PER_RTT), scaling, ROUND_TRIPS)
    law = float(scaling.inflation(flows))
    return {name: float(getattr(steady_state, name)) for name in TOTALS} | {"inflation_over_eq_2": steady_state.inflation / law}
