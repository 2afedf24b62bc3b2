# SPDX-License-Identifier: Apache-2.0
"""DCTCP's queue beside the closed form of its paper, and TCP NV at two rates.

M. Alizadeh et al., SIGCOMM 2010, section 3.3, for N synchronized flows on a link of C packets/s, round trip RTT, threshold K:

    W* = (C RTT + K) / N            window at which the queue reaches K
    alpha from alpha^2 (1 - alpha/4) = (2 W* + 1) / (W* + 1)^2      (equation 6)
    D = (W* + 1) alpha / 2          a flow's oscillation            (equation 7)
    A = N D                         amplitude of the queue          (equation 8)
    Q_max = K + N                   largest queue                   (equation 10)

So the mean of the sawtooth is Q_max - A/2. The paper counts all packets of a window in flight or queued; RTT is the round trip
without queueing. A single flow whose own link is no faster than the receiver's link queues in its host, where nothing marks. So
with one flow the senders' links have four times the rate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dc_gym.base.units import FRAME_BYTES, parse_time_ns
from dc_gym.results.results import Result, number
from dc_gym.study import Evidence, Measure, Study, Variant, series
from dc_gym.study.claims import Claim, Criterion, Outcome, between, bounded, less_than, more_than
from dc_gym.study.theory import crossing

ACK_BYTES, RATE_BPS, DELAY_NS, K_PACKETS = 66, 10 * 10**9, 2_500, 60
FLOWS, FASTER = (1, 2, 4), 4
LEAST, MOST = 0.85, 1.15
"""The bounds of a measurement, as multiples of an equation's value."""
SOURCE, THESIS = "M. Alizadeh et al., SIGCOMM 2010", "F. Ruffy Varga's thesis, section 5"
UTILIZATION = Measure("utilization", "utilization (%)", 100, 4)
QUEUE = Measure("queue_packets", "mean queue (packets)")
AMPLITUDE = Measure("amplitude_packets", "amplitude of the queue (packets)")
SWING = Measure("swing_packets", "swing of a flow's window (packets)")
DRAWN = (QUEUE, AMPLITUDE, SWING)
GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)
FILLED = Measure("filled", "mean queue (% of the buffer)", 100, 3)
SRTT = Measure("srtt_s", "mean srtt (us)", 1e6)
JAIN, DROPS = Measure("jain", "Jain's index"), Measure("drops", "drops")
DCTCP: dict[str, Any] = {
    "topology.preset": "dctcp-10g",
    "controller.name": "dctcp",
    "workload.kind": "many_to_one",
    "time.duration": "60ms",
    "time.warmup": "20ms",
    "monitor.interval": "10us",
    "monitor.tcp_interval": "10us",
}
SLOW, FAST = "10 Mbit/s", "1 Gbit/s"
PAIRS = {
    SLOW: {"topology.preset": "dumbbell-10m", "time.duration": "30s", "time.warmup": "5s"},
    FAST: {"topology.preset": "dumbbell-1g", "time.duration": "2s", "time.warmup": "500ms"},
}
COLORS = {"nv": "#44AA99", "cubic": "#DDCC77", "dctcp": "#332288"}


class Sawtooth(NamedTuple):
    """The queue of N synchronized DCTCP flows, in packets (equations above)."""

    window: float
    alpha: float
    amplitude: float
    largest: float

    @property
    def mean(self) -> float:
        return self.largest - self.amplitude / 2


def closed_form(flows: int, capacity_pps: float, rtt_s: float, k_packets: float) -> Sawtooth:
    """Returns the sawtooth of `flows` DCTCP flows; alpha is the root of equation 6."""
    window = (capacity_pps * rtt_s + k_packets) / flows
    target = (2 * window + 1) / (window + 1) ** 2
    alpha = crossing(0.0, 1.0, lambda alpha: alpha**2 * (1 - alpha / 4) < target, 1e-15)
    return Sawtooth(window, alpha, flows * (window + 1) * alpha / 2, k_packets + flows)


def round_trip_s(sender_rate_bps: int = RATE_BPS) -> float:
    """Returns the round trip without queueing: four propagation delays, and a frame and an ACK serialized on both links."""
    return 4 * DELAY_NS * 1e-9 + (FRAME_BYTES + ACK_BYTES) * 8 * (1 / RATE_BPS + 1 / sender_rate_bps)


def measured_amplitude(queue: npt.NDArray[np.float64]) -> float:
    """Returns the mean height of the sawtooth, from each peak to the trough that follows it.

    A cycle ends where the queue has fallen by more than half of its whole range (between the 1st and 99th percentile). This
    separates teeth from the noise of single packets.
    """
    bottom, top = np.percentile(queue, [1, 99])
    high, low = bottom + 0.7 * (top - bottom), bottom + 0.3 * (top - bottom)
    heights, peak, trough, falling = [], queue[0], queue[0], False
    for value in queue:
        if falling:
            trough = min(trough, value)
            if value > high:
                heights.append(peak - trough)
                falling, peak = False, value
        else:
            peak = max(peak, value)
            if value < low:
                falling, trough = True, value
    return float(np.mean(heights)) if heights else float(top - bottom)


def measure(result: Result, sawtooth: bool = False) -> dict[str, float]:
    """Returns numbers of the summary and of the sawtooth: of the port's queue and of the windows after the warm-up."""
    summary = result.summary
    port = next(row for row in result.ports if row["name"] == summary["bottleneck_port"])
    values = {column.name: number(summary.get(column.name)) for column in (UTILIZATION, GOODPUT, JAIN, DROPS)}
    values |= {FILLED.name: summary["mean_queue_bytes"] / port["buffer_bytes"], SRTT.name: number(summary["mean_srtt_us"]) / 1e6}
    if not sawtooth:
        return values
    warmup_ns = parse_time_ns(result.manifest["spec"]["time"]["warmup"])
    queues, windows = result.records("queues"), result.records("tcp")
    windows = windows[windows["t_ns"] >= warmup_ns]
    samples = queues[(queues["port"] == result.names.port.index(port["name"])) & (queues["t_ns"] >= warmup_ns)]
    packets = np.asarray(samples["backlog_bytes"], np.float64) / FRAME_BYTES
    flows = [windows["cwnd_packets"][windows["flow"] == flow].astype(np.float64) for flow in np.unique(windows["flow"])]
    swing = float(np.mean([measured_amplitude(window) for window in flows]))
    return values | {QUEUE.name: float(packets.mean()), AMPLITUDE.name: measured_amplitude(packets), SWING.name: swing}


def of_flows(flows: int) -> str:
    return f"DCTCP, {flows} flow{'s' if flows > 1 else ''}"


THEORY = {
    flows: closed_form(flows, RATE_BPS / (8 * FRAME_BYTES), round_trip_s(RATE_BPS if flows > 1 else FASTER * RATE_BPS), K_PACKETS)
    for flows in FLOWS
}
SAWTEETH = [of_flows(flows) for flows in FLOWS]


def mean_of(evidence: Evidence, name: str, measure: Measure) -> float:
    return float(np.mean([*evidence.values(name, measure.name).values()]))


def amplitude(flows: int) -> Criterion:
    """Returns the criterion that the amplitude is within 15 % of equation 8, or explained by the effects that the fluid model
    leaves out.

    The explanation is checked: a window is a whole number of packets, so its swing may differ by up to one from equation 7. And a
    delayed ACK releases two frames at once, which adds up to one frame at either end of the queue's swing.
    """

    def judge(evidence: Evidence) -> Outcome:
        queue, swing = mean_of(evidence, name, AMPLITUDE), mean_of(evidence, name, SWING)
        explained = abs(swing - predicted / flows) <= 1 and abs(queue - flows * swing) <= 2
        text = f"{name}: {queue:.2f} of {predicted:.2f} packets, a window swings by {swing:.2f} of {predicted / flows:.2f}"
        return bounded(LEAST <= queue / predicted <= MOST or explained, text, sure=True)

    name, predicted = of_flows(flows), THEORY[flows].amplitude
    words = f"amplitude of {name} {predicted:.2f} packets +- 15 %, or off by whole packets alone"
    return Criterion(words, (name,), judge, (AMPLITUDE.name, SWING.name))


def does_well(rate: str, expected: bool) -> Criterion:
    nv, dctcp = f"nv, {rate}", f"dctcp, {rate}"

    def judge(evidence: Evidence) -> Outcome:
        filled, share, of = (mean_of(evidence, *pair) for pair in ((nv, FILLED), (nv, GOODPUT), (dctcp, GOODPUT)))
        well = filled < 0.1 and share > 0.9 * of
        return bounded(
            well is expected, f"{nv}: {share / of:.1%} of DCTCP's goodput, {filled:.1%} of the buffer filled", sure=True
        )

    words = f"{nv} does {'' if expected else 'not '}have above 90 % of DCTCP's goodput with a queue below a tenth of the buffer"
    return Criterion(words, (nv, dctcp), judge, (FILLED.name, GOODPUT.name))


def variant(flows: int) -> Variant:
    faster = {"topology.rate": "40Gbit/s", "topology.bottleneck_rate": "10Gbit/s"} if flows == 1 else {}
    theory = THEORY[flows]
    paper = {QUEUE.name: theory.mean, AMPLITUDE.name: theory.amplitude, SWING.name: theory.amplitude / flows}
    keys = {**DCTCP, "workload.senders": flows, **faster}
    return Variant(of_flows(flows), keys, COLORS["dctcp"], paper=paper, given={"sawtooth": True})


STUDY = Study(
    title="DCTCP's queue beside its closed form; TCP NV at two rates",
    source=SOURCE,
    variants=[
        *map(variant, FLOWS),
        *(
            Variant(f"{who}, {rate}", {**keys, "controller.name": who, "workload.kind": "pairs"}, color)
            for rate, keys in PAIRS.items()
            for who, color in COLORS.items()
        ),
    ],
    measures=(*DRAWN, UTILIZATION, GOODPUT, FILLED, SRTT, JAIN, DROPS),
    measure=measure,
    seeds=1,
    claims=[
        Claim("The link is full", f"{SOURCE}, section 3.4", tuple(more_than(variant, UTILIZATION, 0.98) for variant in SAWTEETH)),
        Claim(
            "The queue's mean is that of the sawtooth",
            f"{SOURCE}, equations 6 to 10",
            tuple(between(of_flows(n), QUEUE, LEAST * sawtooth.mean, MOST * sawtooth.mean) for n, sawtooth in THEORY.items()),
        ),
        Claim("The queue's amplitude is that of the sawtooth", f"{SOURCE}, equation 8", tuple(map(amplitude, FLOWS))),
        Claim(
            "The mean queue is a little below K",
            "ours: equations 8 and 10, 80 % to 105 % of K",
            tuple(between(variant, QUEUE, 0.8 * K_PACKETS, 1.05 * K_PACKETS) for variant in SAWTEETH),
        ),
        Claim("TCP NV does badly at 10 Mbit/s", THESIS, (does_well(SLOW, expected=False),)),
        Claim("TCP NV does well at 1 Gbit/s", THESIS, (does_well(FAST, expected=True),)),
    ],
    identities=[less_than(variant, DROPS, 1) for variant in SAWTEETH],
    draw=series.over(
        {"DCTCP": COLORS["dctcp"]}, FLOWS, lambda _, n: of_flows(n), DRAWN, "flows", "DCTCP's queue and its closed form", None
    ),
    facts=[
        ("DCTCP", f"N senders to one over 10 Gbit/s, K of {K_PACKETS} packets; printed values are the paper's equations"),
        ("TCP NV", "two pairs over a dumbbell of the thesis; it judges by eye, here by goodput and queue"),
    ],
)
