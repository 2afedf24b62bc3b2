# SPDX-License-Identifier: Apache-2.0
"""Flows that come and go: long and short ones (RL-CC, figure 7), on and off, and one after the other (FDCC's fairness test)."""

from __future__ import annotations

from collections.abc import Callable

from dc_gym.traffic.flows import MOST_FLOWS, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, Gates, WorkloadContext, bounded, chained, register, require
from dc_gym.traffic.patterns import endpoints


def long_short(context: WorkloadContext) -> list[FlowRequest]:
    """`long` endless flows from the start; at one instant `short` flows of `size` join them (RL-CC, figure 7).

    The instant is `short_start`, or drawn by seed from the middle half of the run. Groups `long` and `short`.
    """
    size, shorts, longs = context.need("size_bytes"), context.need("short"), context.params.long or 1
    at_ns = context.params.short_start_ns
    if at_ns is None:
        at_ns = context.horizon_ns // 4 + context.stream().below(context.horizon_ns // 2 + 1)
    ends = endpoints(context, longs + shorts)
    flows = [FlowRequest(src, dst, DEFAULT_PORT, group="long") for src, dst in ends[:longs]]
    return flows + [
        FlowRequest(src, dst, DEFAULT_PORT, start_ns=at_ns, size_bytes=size, group="short") for src, dst in ends[longs:]
    ]


def on_off(context: WorkloadContext) -> list[FlowRequest]:
    """Each of `senders` sends for `on`, pauses for `off`, and repeats; each on period is a flow.

    With `intervals` uniform or exponential both times are random, and a sender begins with a pause.
    """
    on_ns, off_ns = context.need("on_ns"), context.need("off_ns")
    pattern = context.params.intervals or "exact"
    senders = context.params.senders or len(context.hosts) // 2
    expected = senders * context.horizon_ns // (on_ns + off_ns)
    require(expected <= MOST_FLOWS, "on_ns", on_ns, f"makes about {expected} flows, a run takes {MOST_FLOWS}; give more")
    flows: list[FlowRequest] = []
    for number, (src, dst) in enumerate(endpoints(context, senders)):
        stream = context.stream(number)
        first_ns = 0 if pattern == "exact" else stream.around(off_ns, pattern)
        now_ns, rep = first_ns, 0
        while now_ns < context.horizon_ns:
            length_ns = max(1, stream.around(on_ns, pattern))
            flows.append(FlowRequest(src, dst, DEFAULT_PORT, start_ns=now_ns, stop_ns=now_ns + length_ns, rep=rep))
            now_ns, rep = now_ns + length_ns + max(1, stream.around(off_ns, pattern)), rep + 1
    return sorted(flows, key=lambda flow: flow.start_ns)


def joins(context: WorkloadContext) -> list[FlowRequest]:
    """Flow i starts at i x `interval`; then flows leave at the same interval, the last to join first.

    FDCC's fairness test: `flows = 4`, `interval = "35ms"`.
    """
    count, interval_ns = context.need("flows"), context.params.interval_ns
    if interval_ns is None:
        interval_ns = context.horizon_ns // (2 * count)
    require(interval_ns > 0, "interval_ns", interval_ns, "leaves no time between two flows; give more")
    return [
        FlowRequest(src, dst, DEFAULT_PORT, start_ns=interval_ns * number, stop_ns=interval_ns * (2 * count - 1 - number))
        for number, (src, dst) in enumerate(endpoints(context, count))
    ]


def repeat(context: WorkloadContext) -> list[FlowRequest]:
    """Each of `senders` sends `size` again and again, each time `interval` after the last has ended.

    It does so `rounds` times, or endlessly.
    """
    senders = context.params.senders or len(context.hosts) // 2
    gates, flows = Gates(), list[FlowRequest]()
    for number, (src, dst) in enumerate(endpoints(context, senders)):
        flow = FlowRequest(src, dst, DEFAULT_PORT, size_bytes=context.need("size_bytes"))
        flows += chained(context, gates, context.params.rounds, _again(context, flow, number))
    return bounded(flows)


def _again(context: WorkloadContext, flow: FlowRequest, number: int) -> Callable[[int], tuple[FlowRequest, int]]:
    stream, pattern = context.stream(number), context.params.intervals or "exact"
    return lambda rep: (flow, stream.around(context.params.interval_ns or 0, pattern))


register("long_short", long_short, ("size_bytes", "long", "short", "short_start_ns", "ends"))
register("on_off", on_off, ("senders", "on_ns", "off_ns", "intervals", "ends"))
register("joins", joins, ("flows", "interval_ns", "ends"))
register("repeat", repeat, ("size_bytes", "senders", "rounds", "interval_ns", "intervals", "ends"))
