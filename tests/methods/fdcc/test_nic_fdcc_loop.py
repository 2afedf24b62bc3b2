# SPDX-License-Identifier: Apache-2.0
"""FDCC's closed loop on one bottleneck, with the policy that is written by hand (scripted.py), whose law is known.

A flow rests where q sqrt(W) is its target, with the queue q and its window W in line rate x T. The windows of N flows hold the
packets on the way and the queue, so that they rest at q sqrt((1 + q) / N) = target.
"""

from __future__ import annotations

import pytest

from dc_gym.methods.fdcc import scripted
from dc_gym.nets import nic_policy
from tests.system.test_nic_loop import RESTING, bdp_bytes, settled  # noqa: F401 (a fixture)

pytestmark = pytest.mark.lab


def resting_queue(flows):
    """Returns the q, in line rate x T, at which flows of the policy by hand rest: q sqrt((1 + q) / flows) is its target."""
    low, high = 0.0, scripted.TARGET * flows**0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * ((1 + middle) / flows) ** 0.5 < scripted.TARGET else (low, middle)
    return low


@pytest.mark.parametrize(("flows", "settled_ms"), RESTING)
def test_the_queue_is_where_the_policy_by_hand_rests(settled, flows, settled_ms):  # noqa: F811
    cell, result = settled("fdcc", flows, settled_ms, 20, policy=nic_policy.shipped("fdcc-scripted"))
    assert result.summary["mean_queue_bytes"] / bdp_bytes(cell) == pytest.approx(resting_queue(flows), rel=0.05)
    assert result.summary["utilization"] > 0.9 and result.summary["jain"] > 0.98 and result.summary["drops"] == 0
