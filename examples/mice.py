# SPDX-License-Identifier: Apache-2.0
"""A workload as a plug-in: short flows and a few long ones, at random times."""

from dataclasses import dataclass

from dc_gym.base.key import COUNT, NUMBER, SIZE, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, WorkloadContext, register


@dataclass(frozen=True, slots=True, kw_only=True)
class MiceKeys:
    """Keys of kind mice."""

    flows: int = key(COUNT, needed=True, low=1, help="flows that each host starts")
    mouse_bytes: int = key(SIZE, 10_000, low=1, help="size of a short flow")
    elephant_bytes: int = key(SIZE, 1_000_000, low=1, help="size of a long flow")
    elephants: float = key(NUMBER, 0.1, low=0, high=1, help="share of the flows that are long")
    last_start_ns: int | None = shared_keys.last_start()


def mice(context: WorkloadContext, keys: MiceKeys) -> list[FlowRequest]:
    """Each host starts `flows` flows to random others. A share of them, `elephants`, is long."""
    flows = []
    for src in context.hosts:
        draws = context.stream(src)
        others = [host for host in context.hosts if host != src]
        for _ in range(keys.flows):
            start_ns = draws.below(context.horizon_ns)
            size_bytes = keys.elephant_bytes if draws.chance(keys.elephants) else keys.mouse_bytes
            flows.append(FlowRequest(src, draws.choose(others), DEFAULT_PORT, start_ns, size_bytes=size_bytes))
    return flows


register("mice", mice, MiceKeys)
