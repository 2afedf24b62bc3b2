# SPDX-License-Identifier: Apache-2.0
"""Checks on a NIC's pacing: the rate of a lone flow, the gaps between its packets, and 512 flows that share a link.

The departure times are those that the NIC itself records (`nic.trace = "all"`); on a lone flow's idle cable a packet leaves at
once. Rates are set in units of 2^-20 of the line, as an algorithm sets them. The checks ask for exactly that rate, not for the
round number near it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.checks import Check
from dc_gym.base.readable import quantity
from dc_gym.base.units import format_rate
from dc_gym.grounds.nics import LINE_RATE
from dc_gym.records.results import Result
from dc_gym.sweep import Cell, runs

LINE_BPS = 10**10
FRAME_BITS = 1514 * 8
LONE = {10**6: "3s", 10**7: "1s", 10**8: "300ms", 10**9: "50ms", LINE_BPS: "10ms"}
"""Rates of lone flows, and how long each sends: at least about 250 packets."""
FLOWS = 512
SHARES = {"their shares": LINE_RATE // FLOWS, "64 times their shares": LINE_RATE // FLOWS * 64}
RATE_TOLERANCE, LEAST_JAIN = 0.005, 0.99
SPEC = """
spec_version = 1
name = "pacing"
topology = {{ kind = "single", hosts = 2, rate = "{line}", delay = "1us", buffer = "4MB" }}
controller.name = "fixed"
nic = {{ trace = "all", message = "72kB", parameters = {{ rate = {rate} }} }}
workload = {{ kind = "matrix", file = "{flows}.csv" }}
time = {{ duration = "{duration}", warmup = "{warmup}" }}
monitor.interval = "1ms"
"""

Ints = npt.NDArray[np.int64]


def checks() -> Iterable[Check]:
    with runs.scratch("nic-pacing") as folder:
        for name, count in (("lone", 1), ("many", FLOWS)):
            lines = [f"h1,h2,{5001 + number},0,0,inf" for number in range(count)]
            (folder / f"{name}.csv").write_text("\n".join(["source,destination,port,start,stop,size", *lines]) + "\n")
        lone = {bps: _cell(folder, f"lone-{bps}", "lone", part_of(bps), LONE[bps], "0s") for bps in LONE}
        many = {name: _cell(folder, f"many-{rate}", "many", rate, "60ms", "20ms") for name, rate in SHARES.items()}
        found = runs.run_all([*lone.values(), *many.values()])
        for bps, cell in lone.items():
            yield from _lone_checks(format_rate(bps), part_of(bps), found[cell.name])
        for name, cell in many.items():
            yield _shared_check(name, found[cell.name])
        yield _distribution(found[many["their shares"].name])


def part_of(rate_bps: int) -> int:
    """Returns the rate in the unit of algorithms, 2^-20 of the line."""
    return min(LINE_RATE, round(rate_bps * LINE_RATE / LINE_BPS))


def gap_ns(part: int) -> float:
    """Returns the time between the starts of two full packets at that rate."""
    return FRAME_BITS * 1e9 / (LINE_BPS * part / LINE_RATE)


def departures(result: Result, flow: int) -> Ints:
    """Returns when packets of the flow left."""
    decided = result.records("decisions")
    sent = result.names.event.index("tx")
    times: Ints = decided["t_ns"][(decided["flow"] == flow) & (decided["event"] == sent)]
    return times


def _cell(folder: Path, name: str, flows: str, part: int, duration: str, warmup: str) -> Cell:
    text = SPEC.format(line=format_rate(LINE_BPS), rate=part, flows=flows, duration=duration, warmup=warmup)
    return Cell(name, runs.write_spec(folder, name, text), folder / name)


def _lone_checks(name: str, part: int, result: Result) -> Iterator[Check]:
    times = departures(result, 0)
    asked_bps = LINE_BPS * part / LINE_RATE
    measured_bps = (len(times) - 1) * FRAME_BITS * 1e9 / float(times[-1] - times[0])
    error = measured_bps / asked_bps - 1
    words = f"{measured_bps / 1e6:,.4f} Mbit/s ({error:+.4%}) over {len(times):,} packets"
    yield Check(
        f"{name}, alone: rate", f"{asked_bps / 1e6:,.4f} Mbit/s +- {RATE_TOLERANCE:.1%}", words, abs(error) <= RATE_TOLERANCE
    )
    off = np.diff(times) - gap_ns(part)
    packet_ns = FRAME_BITS * 1e9 / LINE_BPS
    words = f"{gap_ns(part):,.0f} ns {off.min():+,.0f} .. {off.max():+,.0f} ns"
    asked = f"{gap_ns(part):,.0f} ns +- {packet_ns:,.0f} ns"
    yield Check(f"{name}, alone: gaps", asked, words, bool(np.abs(off).max() <= packet_ns))


def _shared_check(name: str, result: Result) -> Check:
    jain = float(result.summary["jain"])
    dropped = result.manifest["conservation"]["dropped_by_hosts"]
    deepest = quantity(result.summary["host_max_queue_bytes"], "bytes", 6)
    words = f"Jain {jain:.5f}, {result.summary['goodput_bps'] / 1e9:.3f} Gbit/s, {dropped} dropped in the host,"
    words += f" its queue at most {deepest} (sampled)"
    return Check(f"{FLOWS} flows at {name}", f"Jain > {LEAST_JAIN}, none dropped", words, jain > LEAST_JAIN and dropped == 0)


def _distribution(result: Result) -> Check:
    """Reports the gaps of flows that share a transmitter, relative to those asked for."""
    gaps = np.concatenate([np.diff(departures(result, flow)[5:]) for flow in range(FLOWS)]) / gap_ns(SHARES["their shares"])
    low, middle, high = np.percentile(gaps, [1, 50, 99])
    words = f"p1 {low:.4f}, p50 {middle:.4f}, p99 {high:.4f}, largest {gaps.max():.4f} of {len(gaps):,}"
    return Check(f"{FLOWS} flows at their shares: gaps over those asked", "reported", words, True)
