# SPDX-License-Identifier: Apache-2.0
"""Flows that come and go: long and short ones (RL-CC, figure 7), on and off, and one after the other (FDCC's fairness test)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dc_gym.base.key import COUNT, TIME, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import MOST_FLOWS, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, Gates, WorkloadContext, bounded, chained, register, require
from dc_gym.traffic.kinds.patterns import endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class LongShortKeys:
    """Keys of kind long_short."""

    size_bytes: int = shared_keys.size()
    long: int = key(COUNT, 1, low=1, help="number of long flows")
    short: int = key(COUNT, needed=True, low=1, help="number of short flows")
    short_start_ns: int | None = key(TIME, low=0, otherwise="by seed", help="start time of the short flows")
    ends: str = shared_keys.ends()


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOffKeys:
    """Keys of kind on_off."""

    senders: int | None = shared_keys.senders("hosts that send", "half of the hosts")
    on_ns: int = key(TIME, needed=True, low=1, help="how long a sender sends")
    off_ns: int = key(TIME, needed=True, low=1, help="how long a sender pauses")
    intervals: str = shared_keys.intervals(of="times on and off")
    ends: str = shared_keys.ends()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinsKeys:
    """Keys of kind joins."""

    flows: int = key(COUNT, needed=True, low=1, help="flows that join")
    interval_ns: int | None = shared_keys.interval("time between two joins", None, "duration / (2 `flows`)")
    ends: str = shared_keys.ends()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatKeys:
    """Keys of kind repeat."""

    size_bytes: int = shared_keys.size()
    senders: int | None = shared_keys.senders("hosts that send", "half of the hosts")
    rounds: int | None = shared_keys.rounds("repetitions")
    interval_ns: int = shared_keys.interval("time from the end of a flow to the next")
    intervals: str = shared_keys.intervals()
    ends: str = shared_keys.ends()


def long_short(context: WorkloadContext, keys: LongShortKeys) -> list[FlowRequest]:
    """`long` endless flows from the start; at one instant `short` flows of `size` join them (RL-CC, figure 7).

    The instant is `short_start`, or drawn by seed from the middle half of the run. Groups `long` and `short`.
    """
    longs, at_ns = keys.long, keys.short_start_ns
    if at_ns is None:
        at_ns = context.horizon_ns // 4 + context.stream().below(context.horizon_ns // 2 + 1)
    ends = endpoints(context, keys.ends, longs + keys.short)
    flows = [FlowRequest(src, dst, DEFAULT_PORT, group="long") for src, dst in ends[:longs]]
    return flows + [
        FlowRequest(src, dst, DEFAULT_PORT, start_ns=at_ns, size_bytes=keys.size_bytes, group="short")
        for src, dst in ends[longs:]
    ]


def on_off(context: WorkloadContext, keys: OnOffKeys) -> list[FlowRequest]:
    """Each of `senders` sends for `on`, pauses for `off`, and repeats; each on period is a flow.

    With `intervals` uniform or exponential both times are random, and a sender begins with a pause.
    """
    on_ns, off_ns, pattern = keys.on_ns, keys.off_ns, keys.intervals
    senders = keys.senders or len(context.hosts) // 2
    expected = senders * context.horizon_ns // (on_ns + off_ns)
    require(expected <= MOST_FLOWS, "on", on_ns, f"makes about {expected} flows, a run takes {MOST_FLOWS}; give more")
    flows: list[FlowRequest] = []
    for number, (src, dst) in enumerate(endpoints(context, keys.ends, senders)):
        stream = context.stream(number)
        first_ns = 0 if pattern == "exact" else stream.around(off_ns, pattern)
        now_ns, rep = first_ns, 0
        while now_ns < context.horizon_ns:
            length_ns = max(1, stream.around(on_ns, pattern))
            flows.append(FlowRequest(src, dst, DEFAULT_PORT, start_ns=now_ns, stop_ns=now_ns + length_ns, rep=rep))
            now_ns, rep = now_ns + length_ns + max(1, stream.around(off_ns, pattern)), rep + 1
    return sorted(flows, key=lambda flow: flow.start_ns)


def joins(context: WorkloadContext, keys: JoinsKeys) -> list[FlowRequest]:
    """Flow i starts at i x `interval`; then flows leave at the same interval, the last to join first.

    FDCC's fairness test: `flows = 4`, `interval = "35ms"`.
    """
    count, interval_ns = keys.flows, keys.interval_ns
    if interval_ns is None:
        interval_ns = context.horizon_ns // (2 * count)
    require(interval_ns > 0, "interval", interval_ns, "leaves no time between two flows; give more")
    return [
        FlowRequest(src, dst, DEFAULT_PORT, start_ns=interval_ns * number, stop_ns=interval_ns * (2 * count - 1 - number))
        for number, (src, dst) in enumerate(endpoints(context, keys.ends, count))
    ]


def repeat(context: WorkloadContext, keys: RepeatKeys) -> list[FlowRequest]:
    """Each of `senders` sends `size` again and again, each time `interval` after the last has ended.

    It does so `rounds` times, or endlessly.
    """
    senders = keys.senders or len(context.hosts) // 2
    gates, flows = Gates(), list[FlowRequest]()
    for number, (src, dst) in enumerate(endpoints(context, keys.ends, senders)):
        flow = FlowRequest(src, dst, DEFAULT_PORT, size_bytes=keys.size_bytes)
        flows += chained(context, gates, keys.rounds, _again(context, keys, flow, number))
    return bounded(flows)


def _again(
    context: WorkloadContext, keys: RepeatKeys, flow: FlowRequest, number: int
) -> Callable[[int], tuple[FlowRequest, int]]:
    stream = context.stream(number)
    return lambda rep: (flow, stream.around(keys.interval_ns, keys.intervals))


register("long_short", long_short, LongShortKeys)
register("on_off", on_off, OnOffKeys)
register("joins", joins, JoinsKeys)
register("repeat", repeat, RepeatKeys)
