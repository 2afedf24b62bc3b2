# SPDX-License-Identifier: Apache-2.0
"""Checks on the NICs' closed loops: DCQCN's state machine and shares, Swift's target, RL-CC's round trips, and where HPCC,
PowerTCP and FDCC rest.

Everything runs on one bottleneck (bottleneck.py), with eight senders.

- DCQCN has its paper's parameters, scaled to the line (ctrl/nic/algorithms.py). Every event of one flow is replayed with the
  algorithm in userspace, which must decide the same; golden traces compare that with a float reference.
- Swift: the delay of its probes is compared with the target that its windows ask for.
- RL-CC: the round trip is the bottleneck's mean over time, since a mean over probes would count short round trips more often.
  With few flows it oscillates, as the same policy does in a fluid model with a feedback delay of one round trip. The mean is that
  of eq. 2 with the offset at which the network rests.
- HPCC: W eta / U + W_AI leaves W as it is where U, utilization and queue over line rate x T, is eta + N W_AI.
- PowerTCP: W / P + beta leaves W as it is where the flows share a queue of N beta. A window lets whole packets out, which is
  half a packet more for each flow.
- FDCC runs the policy that is written by hand (nets/fdcc_scripted.py), whose law is known: a flow rests where q sqrt(W) is its
  target, with the queue q and its window W in line rate x T. The windows of N flows hold what is on the way and the queue, so
  that they rest at q sqrt((1 + q) / N) = target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.checks import Check
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.ctrl.nic.reference import NicEvent, NicFlow
from dc_gym.grounds import nics
from dc_gym.grounds.experiment import Experiment
from dc_gym.methods.rlcc import bottleneck
from dc_gym.methods.rlcc.bottleneck import FRAME_BYTES, LINE_BPS, PAYLOAD_SHARE, BottleneckRun
from dc_gym.nets import fluid, nic_policy
from dc_gym.nets.fdcc_scripted import TARGET as TARGET_BDP
from dc_gym.records.results import Result
from dc_gym.records.tables import NIC_EVENTS
from dc_gym.spec import load
from dc_gym.sweep import Cell, runs

LEAST_GOODPUT, FAIR, TARGET, INFLATION = 0.9, 0.1, 0.1, 0.05
LOAD, QUEUE, CHANCE_BYTES = 0.02, 0.1, 2500
"""Tolerances: of HPCC's load, of PowerTCP's queue, and of its queue by the chance of when packets meet."""
FDCC_QUEUE, FDCC_JAIN = 0.05, 0.98
"""Tolerance of FDCC's queue; its least fairness."""
MOST_HPCC_QUEUE = 0.1
"""The longest mean queue of HPCC, of line rate x T."""
FLOWS = {
    "dcqcn": (2, 8),
    "swift": (2, 8),
    "rlcc-mlp": (8, 64, 512),
    "rlcc-tree": (8, 64, 512),
    "hpcc": (2, 8, 64),
    "powertcp": (2, 8, 64),
    "fdcc": (2, 8, 64),
}
POLICIES = {"fdcc": "fdcc-scripted"}
"""Policies other than the algorithm's own."""
RLCC_SETTLED_MS, RLCC_MEASURED_MS = {8: 300, 64: 1500, 512: 2500}, dict.fromkeys((8, 64, 512), 200)
TELEMETRY_SETTLED_MS, TELEMETRY_MEASURED_MS = {2: 20, 8: 20, 64: 60}, dict.fromkeys((2, 8, 64), 20)
SETTLED_MS = {
    "dcqcn": {2: 400, 8: 400},
    "swift": {2: 100, 8: 100},
    "rlcc-mlp": RLCC_SETTLED_MS,
    "rlcc-tree": RLCC_SETTLED_MS,
    "hpcc": TELEMETRY_SETTLED_MS,
    "powertcp": TELEMETRY_SETTLED_MS,
    "fdcc": TELEMETRY_SETTLED_MS,
}
"""Convergence times; nothing before them is measured."""
MEASURED_MS = {
    "dcqcn": {2: 1000, 8: 3000},
    "swift": {2: 100, 8: 100},
    "rlcc-mlp": RLCC_MEASURED_MS,
    "rlcc-tree": RLCC_MEASURED_MS,
    "hpcc": TELEMETRY_MEASURED_MS,
    "powertcp": TELEMETRY_MEASURED_MS,
    "fdcc": TELEMETRY_MEASURED_MS,
}
"""Measured times. Eight flows of DCQCN are marked together, and a rate that chance has moved takes 0.13 s to come half of its way
back. In windows of 1 s the largest distance to a share is 4 to 11 %, in 3 s it is 5 to 6 %."""
LAGGING = 40
"""Parts per base round trip in the fluid model with a feedback delay."""


def checks() -> Iterable[Check]:
    with runs.scratch("nic-loop") as folder:
        cells = {(name, count): _cell(folder, name, count) for name, counts in FLOWS.items() for count in counts}
        found = runs.run_all(list(cells.values()))
        for (name, count), cell in cells.items():
            yield from BARS[name](name, count, cell, found[cell.name])


def _cell(folder: Path, name: str, flows: int) -> Cell:
    marks = name == "dcqcn"
    trace = "all" if marks and flows == FLOWS[name][0] else "changes"
    policy = nic_policy.shipped(POLICIES[name]) if name in POLICIES else None
    case = BottleneckRun(name, flows, SETTLED_MS[name][flows], MEASURED_MS[name][flows], policy, trace=trace, marks=marks)
    return case.cell(folder, f"{name}-{flows}")


# --- DCQCN


def _dcqcn_checks(name: str, count: int, cell: Cell, result: Result) -> Iterator[Check]:
    yield _shares(f"{name}, {count} flows, after {SETTLED_MS[name][count]} ms", result)
    if count == FLOWS[name][0]:
        yield _replayed(cell, result)


def _shares(name: str, result: Result) -> Check:
    rates = np.array(result.summary["flow_goodput_bps"])
    goodput, off = rates.sum() / LINE_BPS / PAYLOAD_SHARE, np.abs(rates / rates.mean() - 1).max()
    asked = f"goodput > {LEAST_GOODPUT} of what frames leave room for, each within {FAIR:.0%} of its share"
    words = f"{goodput:.3f} ({rates.sum() / 1e9:.3f} Gbit/s), shares within {off:.1%}, {result.summary['drops']} dropped"
    return Check(name, asked, words, bool(goodput > LEAST_GOODPUT and off <= FAIR))


def _replayed(cell: Cell, result: Result) -> Check:
    """Replays all events of flow 0 with the algorithm in userspace."""
    spec = load(cell.spec, cell.settings)
    algorithm = algorithms.load("dcqcn", cell.out)
    setting = algorithms.resolve_parameters(algorithm, "", {}, LINE_BPS)
    rows = result.records("decisions")
    rows = rows[rows["flow"] == 0]
    experiment = Experiment.of(spec)
    base_ns = nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, spec)[0]
    flow = NicFlow(base_ns, LINE_BPS // 10**6, FRAME_BYTES, len(experiment.schedule.flows[0].ports))
    t0 = int(result.manifest["t0_ns"])
    steps = [(_event(row, t0), flow) for row in rows]
    made = golden.decisions(golden.runner_argv(algorithm, setting.values), steps)
    rates = np.array([LINE_BPS * each.rate // nics.LINE_RATE for each in made])
    differing = int((rates != rows["rate_bps"].astype(np.int64)).sum())
    cuts, raises = int((rates < rows["rate_before_bps"]).sum()), int((rates > rows["rate_before_bps"]).sum())
    words = f"{len(steps):,} events, {cuts} cuts, {raises} raises: {differing} decisions differ (preset {setting.preset})"
    return Check(
        "dcqcn in the NIC decides as its state machine",
        "equal, event by event",
        words,
        differing == 0 and cuts > 2 and raises > 10,
    )


def _event(row: np.void, t0_ns: int) -> NicEvent:
    """Returns the event as the NIC reported it: single, and of a full packet."""
    kind, now = int(row["event"]), (t0_ns + int(row["t_ns"])) % 2**32
    packets = int(NIC_EVENTS[kind] == "tx")
    return NicEvent(kind, int(row["flags"]), now, now, 1, packets * FRAME_BYTES, packets, 0, 0, 0)


# --- Swift and RL-CC: round trips


def _rtts(result: Result, from_ms: int) -> npt.NDArray[np.void]:
    """Returns the probes that came back in the window."""
    rows = result.records("decisions")
    late = rows["t_ns"] >= from_ms * 10**6
    found: npt.NDArray[np.void] = rows[late & (rows["event"] == NIC_EVENTS.index("rtt"))]
    return found


def swift_target_ns(cwnd: npt.NDArray[np.float64], base_ns: int, hops: int, values: dict[str, int]) -> npt.NDArray[np.float64]:
    """Computes the target of ctrl/nic/algorithms/swift.h in floats."""
    low, high = (2**10 / np.sqrt(values[name]) for name in ("fs_max", "fs_min"))
    added = values["fs_range"] * np.clip((1 / np.sqrt(cwnd) - low) / (high - low), 0, 1)
    target: npt.NDArray[np.float64] = (values["base_target"] + hops * values["hop"] + added) * base_ns / values["reference_rtt"]
    return target


def _swift_checks(name: str, count: int, cell: Cell, result: Result) -> Iterator[Check]:
    rows, base_ns = _rtts(result, SETTLED_MS[name][count]), bottleneck.base_ns(cell)
    values = _values(name, cell)
    cwnd = np.maximum(rows["window_bytes"] / FRAME_BYTES, 1e-3)
    target = float(swift_target_ns(cwnd, base_ns, 2, values).mean())
    measured = float(rows["rtt_ns"].mean())
    words = (
        f"{measured / 1e3:.1f} us ({measured / target - 1:+.1%}) over {len(rows):,} probes, windows of {cwnd.mean():.1f} packets"
    )
    asked = f"{target / 1e3:.1f} us +- {TARGET:.0%}"
    yield Check(f"{name}, {count} flows: delay", asked, words, abs(measured / target - 1) <= TARGET)
    yield _shares(f"{name}, {count} flows, after {SETTLED_MS[name][count]} ms", result)


def _rlcc_checks(name: str, count: int, cell: Cell, result: Result) -> Iterator[Check]:
    file, used = nic_policy.load(name), float(result.summary["utilization"])
    measured = bottleneck.inflation(cell, result)
    if name == "rlcc-mlp":
        rest = fluid.resting_error(file.policy, file.scaling)
        asked, what = float(file.scaling.inflation(count, rest)), f"eq. 2, offset {rest:.3f}"
    else:
        asked, what = fluid.settle(file.policy, fluid.Bottleneck(count), file.scaling).inflation, "at rest in a fluid"
    lagging = fluid.settle(file.policy, fluid.Bottleneck(count, LAGGING), file.scaling)
    words = f"{measured:.3f} ({measured / asked - 1:+.1%})"
    words += f"; a fluid with a lag: {lagging.inflation:.3f}, link {lagging.sum_of_rates:.3f}"
    good = abs(measured / asked - 1) <= INFLATION
    yield Check(f"{name}, {count} flows: RTT inflation", f"{asked:.3f} ({what}) +- {INFLATION:.0%}", words, good)
    drops, goodput = int(result.summary["drops"]), float(result.summary["goodput_bps"]) / LINE_BPS
    words = f"{used:.3f} of the link, goodput {goodput:.3f}, Jain {result.summary['jain']:.3f}, {drops} dropped after"
    words += f" {SETTLED_MS[name][count]} ms"
    yield Check(f"{name}, {count} flows: link", f"> {LEAST_GOODPUT}, none dropped", words, used > LEAST_GOODPUT and not drops)


# --- HPCC and PowerTCP: telemetry


def _bdp_bytes(cell: Cell) -> float:
    return LINE_BPS / 8e9 * bottleneck.base_ns(cell)


def _values(name: str, cell: Cell) -> dict[str, int]:
    return dict(algorithms.resolve_parameters(algorithms.load(name, cell.out), "", {}, LINE_BPS).values)


def _hpcc_checks(name: str, count: int, cell: Cell, result: Result) -> Iterator[Check]:
    eta, expected = 0.95, _values(name, cell)["flows"]
    asked = eta + count * (1 - eta) / expected
    used, queue = float(result.summary["utilization"]), float(result.summary["mean_queue_bytes"])
    load, drops = used + queue / _bdp_bytes(cell), int(result.summary["drops"])
    words = f"{load:.3f}: {used:.3f} of the link, {queue / 1e3:.1f} kB queued, Jain {result.summary['jain']:.3f}, {drops} dropped"
    good = abs(load - asked) <= LOAD and queue < MOST_HPCC_QUEUE * _bdp_bytes(cell) and not drops
    yield Check(
        f"{name}, {count} flows: utilization and queue over line rate x T",
        f"{asked:.3f} +- {LOAD}, the queue below {MOST_HPCC_QUEUE}",
        words,
        good,
    )


def _powertcp_checks(name: str, count: int, cell: Cell, result: Result) -> Iterator[Check]:
    share = count / _values(name, cell)["flows"]
    asked = share * _bdp_bytes(cell) + count * FRAME_BYTES / 2
    used, queue = float(result.summary["utilization"]), float(result.summary["mean_queue_bytes"])
    words = f"{queue / 1e3:.1f} kB, {used:.3f} of the link, Jain {result.summary['jain']:.3f}"
    yield Check(
        f"{name}, {count} flows: queue",
        f"N (beta + half a packet), {asked / 1e3:.1f} kB, +- {QUEUE:.0%} and {CHANCE_BYTES / 1e3:.1f} kB; link > {LEAST_GOODPUT}",
        words,
        abs(queue - asked) <= QUEUE * asked + CHANCE_BYTES and used > LEAST_GOODPUT,
    )


def resting_queue(flows: int) -> float:
    """Returns the q, in line rate x T, at which flows of the policy by hand rest: q sqrt((1 + q) / flows) is its target."""
    low, high = 0.0, TARGET_BDP * flows**0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * ((1 + middle) / flows) ** 0.5 < TARGET_BDP else (low, middle)
    return low


def _fdcc_checks(name: str, count: int, cell: Cell, result: Result) -> Iterator[Check]:
    asked, measured = resting_queue(count), float(result.summary["mean_queue_bytes"]) / _bdp_bytes(cell)
    used, jain, drops = (float(result.summary[key]) for key in ("utilization", "jain", "drops"))
    yield Check(
        f"{name} with the policy by hand, {count} flows: queue over line rate x T",
        f"{asked:.3f} +- {FDCC_QUEUE:.0%}; link > {LEAST_GOODPUT}, Jain > {FDCC_JAIN}, none dropped",
        f"{measured:.3f} ({measured / asked - 1:+.1%}), {used:.3f} of the link, Jain {jain:.3f}, {drops:.0f} dropped",
        abs(measured / asked - 1) <= FDCC_QUEUE and used > LEAST_GOODPUT and jain > FDCC_JAIN and not drops,
    )


BARS = {
    "fdcc": _fdcc_checks,
    "hpcc": _hpcc_checks,
    "powertcp": _powertcp_checks,
    "dcqcn": _dcqcn_checks,
    "swift": _swift_checks,
    "rlcc-mlp": _rlcc_checks,
    "rlcc-tree": _rlcc_checks,
}
