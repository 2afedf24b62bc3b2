# SPDX-License-Identifier: Apache-2.0
"""FDCC in floating point: a flow's observation, and the effect of an output on its window. fdcc.h is tested against it.

The policy between the two feeds on its own outputs, so that in floats a flow would take another course after some decisions. So
this reference takes the NIC's outputs, and checks the NIC's observations. The distance of the outputs from the policy in floats
is measured decision by decision (`policy_distance`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dc_gym.base.errors import TestbedError
from dc_gym.ctrl.nic.events import ACK, RTT, Decision, NicEvent, NicFlow, Telemetry, since
from dc_gym.ctrl.nic.reference import LINE, Bound, Parameters, clamped
from dc_gym.ctrl.nic.reference_telemetry import MOST, MOST_LINE_MBPS, MOST_WINDOW_BYTES, PortSpan, share, spans_between
from dc_gym.nets.nic_kind import NicKindReference

if TYPE_CHECKING:
    from dc_gym.nets.nic_policy import NicPolicy

INPUTS = 8
MEMORY_AT = 27
"""Index of the memory in the state of fdcc.h; trees have none."""
WINDOW_AT, OUTPUT_AT = 8, 11
"""Indices of W, Q26, and of the last output."""
SLACK = 2.0**-19
"""Observations are in units of 2^-20, rounded down. A change is the difference of two, divided by t / T."""
LEAST_CARRIED = 2**20
"""Mbit/s x ns from which the NIC's integers for a line's capacity, in units of 128, are fine enough to compare shares."""
INPUT_BOUND = 0.001
"""Bound on the difference of an input from the input in floats, beyond the effect of SLACK."""
BOUND = Bound(16, 0.003, whole_packets=True)
NETWORK_BOUND, TREES_BOUND = 0.01, 0.001
"""Bounds on the difference of an output, in -1..1, from the policy's output in floats, for the same inputs and memory: for the
network, with weights of 8 bits, and for trees, where each leaf is rounded to Q16."""


class Fdcc:
    """Zhang 2023, chapter 4.

    `states`: the words of a flow's state in the NIC after each event, for all flows of a trace, whose references share it.
    """

    def __init__(self, parameters: Parameters, states: Iterator[Sequence[int]]) -> None:
        self._p = parameters
        self._states = states
        self._state: Sequence[int] = ()
        self._window = max(parameters["window_initial"], parameters["window_least"]) / 2**26
        self._rtt_ns: int | None = None
        self._inflation: float | None = None
        """That of the last decision."""
        self._output = 0.0
        self._slack = math.inf
        """Slack of the changes in the latest observations; infinite if the NIC's integers are too coarse for them."""
        self._acked = 0
        self._heard_ns = 0
        self._before: Telemetry | None = None

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        self._state = next(self._states)
        if event.type == RTT:
            self._rtt_ns = event.rtt_ns
        if event.type == ACK:
            self._acked = min(2**32 - 1, self._acked + event.bytes)
            if event.telemetry is not None and event.telemetry.hops and self._due(event, flow):
                self._acknowledged(event, event.telemetry, flow)
        return self._decision(flow)

    def _due(self, event: NicEvent, flow: NicFlow) -> bool:
        passed_ns = since(self._heard_ns, event.now_ns)
        needed_ns = (flow.base_rtt_ns if self._rtt_ns is None else self._rtt_ns) * self._p["period"] // 2**16
        return self._before is None or passed_ns >= needed_ns

    def _acknowledged(self, event: NicEvent, telemetry: Telemetry, flow: NicFlow) -> None:
        passed_ns = since(self._heard_ns, event.now_ns)
        if spans := spans_between(self._before, telemetry, passed_ns):
            self._decide(self._observed(spans, max(1, passed_ns), flow), flow)
        self._heard_ns, self._before, self._acked = event.now_ns, telemetry, 0

    def _observed(self, spans: Sequence[PortSpan], passed_ns: int, flow: NicFlow) -> list[float]:
        """Returns the observations in the order of fdcc.OBSERVATIONS."""
        base_ns = flow.base_rtt_ns
        loads = [port.share(port.sent_bytes, port.time_ns) + port.share(port.queue_bytes, base_ns) for port in spans]
        port = spans[loads.index(max(loads))]
        inflation = 1.0 if self._rtt_ns is None else max(2.0**-20, min(MOST, self._rtt_ns / max(1, base_ns)))
        before = inflation if self._inflation is None else self._inflation
        queue, queue_before = port.share(port.queue_bytes, base_ns), port.share(port.before_bytes, base_ns)
        goodput = share(self._acked, min(MOST_LINE_MBPS, flow.line_mbps), passed_ns)
        changes = [(now - then) * base_ns / passed_ns for now, then in ((inflation, before), (queue, queue_before))]
        self._inflation = inflation
        sent = port.share(port.sent_bytes, port.time_ns)
        carried = min(flow.line_mbps * passed_ns, port.mbps * port.time_ns, port.mbps * base_ns)
        self._slack = SLACK * max(1.0, base_ns / passed_ns) if carried >= LEAST_CARRIED else math.inf
        return [inflation, queue, sent, goodput, *changes, self._window, self._output]

    def _decide(self, observed: Sequence[float], flow: NicFlow) -> None:
        from dc_gym.methods.fdcc import net as fdcc

        self._output = self._followed(observed)
        self._window = self._limited(self._window * float(fdcc.factor(self._output)))
        if self._p["whole"]:
            bdp = _bdp_bytes(flow)
            self._window = self._limited(self._packets(flow) * flow.packet_bytes / bdp if bdp else LINE)
            window = self._state[WINDOW_AT] / 2**26  # by the other side of a border between two packets
            self._window = window if abs(window - self._window) * bdp <= 1.001 * flow.packet_bytes else self._window

    def _followed(self, observed: Sequence[float]) -> float:
        """Returns the NIC's output. Raises TestbedError if the NIC saw something else."""
        import numpy as np

        from dc_gym.methods.fdcc import net as fdcc
        from dc_gym.nets.fixed_point import Q16

        words = np.array([*self._state[:INPUTS], self._state[OUTPUT_AT]], np.uint32).view(np.int32) / Q16
        allowed = np.full(INPUTS, SLACK)
        allowed[fdcc.CHANGES] = self._slack
        low, high = (fdcc.to_inputs(np.asarray(observed) + way * allowed) for way in (-1, 1))
        apart = np.maximum(low - words[:-1], words[:-1] - high)
        if self._slack < math.inf and apart.max() > INPUT_BOUND:
            name = fdcc.OBSERVATIONS[int(apart.argmax())]
            raise TestbedError(f"input {name} is off by {apart.max():.2g}, at most {INPUT_BOUND:g}; in floats: {observed}")
        return float(words[-1])

    def _limited(self, window: float) -> float:
        return max(self._p["window_least"] / 2**26, min(LINE, window))

    def _packets(self, flow: NicFlow) -> int:
        """Returns the whole packets in the window. A millionth of one short of a packet is a packet."""
        return max(1, math.floor(_bdp_bytes(flow) * self._window / max(1, flow.packet_bytes) + 1e-6))

    def _decision(self, flow: NicFlow) -> Decision:
        return Decision(clamped(self._window), max(1.0, self._packets(flow) * flow.packet_bytes), True)


def _bdp_bytes(flow: NicFlow) -> float:
    return min(MOST_WINDOW_BYTES, min(MOST_LINE_MBPS, flow.line_mbps) * flow.base_rtt_ns / 8000)


def policy_distances(file: NicPolicy, traces: Iterable[tuple[Sequence[Any], Sequence[Any]]]) -> tuple[int, float, int]:
    """Returns the decisions, the largest difference and the differing ones of several traces (policy_distance)."""
    rows = [policy_distance(file, [row.state for row in decisions]) for _, decisions in traces]
    return sum(row[0] for row in rows), max(row[1] for row in rows), sum(row[2] for row in rows)


def policy_distance(file: NicPolicy, states: Sequence[Sequence[int]]) -> tuple[int, float, int]:
    """Compares outputs in the NIC with the policy's outputs in floats, and with its integers in Python.

    `states` are the words of a flow's state after each event, one flow after the other; each decision is compared for the inputs
    and the memory that it had. A decision that left inputs, output and memory as they were is not counted. Returns the number of
    decisions, the largest difference from floats, and the count of decisions whose output or memory differs from the integers in
    Python.
    """
    import numpy as np

    from dc_gym.methods.fdcc.net import FdccNet
    from dc_gym.methods.fdcc.trees import FdccTrees
    from dc_gym.nets.fixed_point import Q16
    from dc_gym.nets.nic_policy import TablePolicy

    assert isinstance(file.policy, FdccNet | FdccTrees)
    words = np.asarray(states, np.uint32).view(np.int32).astype(np.int64)
    before, after = words[:-1], words[1:]
    policy = [*range(INPUTS), OUTPUT_AT, *range(MEMORY_AT, words.shape[1])]
    decided = (after[:, policy] != before[:, policy]).any(axis=1) & (after[:, policy] != 0).any(axis=1)
    new = (after[:, INPUTS - 1] != before[:, OUTPUT_AT]) & decided
    memory = np.where(new[:, None], 0, before[:, MEMORY_AT:])[decided]
    inputs, output = after[decided, :INPUTS], after[decided, OUTPUT_AT]
    exact, _ = file.policy.step(inputs / Q16, memory / Q16)
    integer, integer_memory = TablePolicy(file.table()).integers(inputs, memory)
    wrong = (integer != output) | (integer_memory != after[decided, MEMORY_AT:]).any(axis=1)
    return len(inputs), float(np.abs(output / Q16 - exact).max()), int(wrong.sum())


OF_NETWORK = NicKindReference(make=Fdcc, bound=BOUND, output_bound=NETWORK_BOUND, distances=policy_distances)
OF_TREES = NicKindReference(make=Fdcc, bound=BOUND, output_bound=TREES_BOUND, distances=policy_distances)
