# SPDX-License-Identifier: Apache-2.0
"""A workload as a plug-in: short flows and a few long ones, at random times."""

from dc_gym.traffic import workloads
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, WorkloadContext

SHORT_BYTES, LONG_BYTES, LONG_SHARE = 10_000, 1_000_000, 0.1


def mice(context: WorkloadContext) -> list[FlowRequest]:
    """Each host starts `workload.flows` flows to random others. One in ten is long."""
    flows = []
    for src in context.hosts:
        draws = context.stream(src)
        others = [host for host in context.hosts if host != src]
        for _ in range(context.need("flows")):
            start_ns = draws.below(context.horizon_ns)
            size_bytes = LONG_BYTES if draws.chance(LONG_SHARE) else SHORT_BYTES
            flows.append(FlowRequest(src, draws.choose(others), DEFAULT_PORT, start_ns, size_bytes=size_bytes))
    return flows


workloads.register("mice", mice, ("flows", "last_start_ns"))
