# SPDX-License-Identifier: Apache-2.0
"""The NIC's HPCC beside its authors' simulator: queue, utilization and shares of the same flows into one port.

The simulator's results are stored (peers/hpcc_ns3.toml): nothing of it need be installed. Its packets carry 1000 bytes and have
1090; ours have 1090, too, of which 974 are payload. docs/peers.md says what differs, and how the simulator is built and asked.

Each case is run with several gaps between the flows' starts, and medians are compared: in both, single runs differ by how the
flows' packets happen to meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from dc_gym.base.checks import Check
from dc_gym.benchmarks.peers import hpcc_ns3
from dc_gym.benchmarks.peers.hpcc_ns3 import PeerCase, PeerRow
from dc_gym.records.results import Result
from dc_gym.sweep import Cell, runs

ALGORITHM = "hpcc"
TOLERANCE = 0.15
"""The largest difference of the medians, of the simulator's."""
PAYLOAD_BYTES = 974
TITLES = {"queue_bytes": "mean queue (kB)", "utilization": "utilization", "jain": "Jain's index"}
SPEC = """
spec_version = 1
name = "{name}"
controller.name = "hpcc"
nic = {{ preset = "ns3", payload = "{payload}B", trace = "off", message = "1GB" }}
workload = {{ kind = "matrix", file = "{name}.csv" }}
time = {{ duration = "{until_us}us", warmup = "{from_us}us" }}
monitor = {{ interval = "{sweep_us}us", tcp_interval = "100us" }}
metrics.slowdown = "off"
[topology]
kind = "{topology}"
{size}
rate = "{rate}Gbit/s"
delay = "{delay}ns"
buffer = "32MB"
host_buffer = "4MB"
"""
SWEEP_US = 10
"""From one reading of the queue to the next."""


def checks() -> Iterable[Check]:
    data = hpcc_ns3.stored()
    simulator = data.simulator
    yield Check("the simulator", "recorded", f"{simulator['repository']}, {simulator['commit'][:7]}", ok=True)
    wanted = {name_of(case): case for case in data.rows if case.algorithm == ALGORITHM}
    with runs.scratch("hpcc-peer") as folder:
        found = runs.run_all([cell(name, case, folder) for name, case in wanted.items()])
    for group in dict.fromkeys(map(group_of, wanted.values())):
        names = [name for name, case in wanted.items() if group_of(case) == group]
        yield from compared(group, [data.rows[wanted[name]] for name in names], [measured(found[name]) for name in names])


def group_of(case: PeerCase) -> str:
    """Returns the name of the cases that differ by their gap alone."""
    return f"{case.topology}-{case.flows}-{case.rate_gbps}g-{case.delay_ns}ns"


def name_of(case: PeerCase) -> str:
    return f"{group_of(case)}-gap-{case.gap_ns}ns"


def cell(name: str, case: PeerCase, folder: Path) -> Cell:
    """Returns the run of a case in the lab, with its files in a folder."""
    single = case.topology == "single"
    receiver = f"h{case.flows + 1}"
    rows = [f"h{n + 1},{receiver},{5001 + n},{start / 1e9:.9f},0,inf" for n, start in enumerate(case.starts_ns())]
    (folder / f"{name}.csv").write_text("\n".join(["source,destination,port,start,stop,size", *rows]) + "\n")
    text = SPEC.format(
        name=name,
        payload=PAYLOAD_BYTES,
        until_us=case.until_us,
        from_us=case.from_us,
        sweep_us=SWEEP_US,
        topology=case.topology,
        size=f"hosts = {case.flows + 1}" if single else f"pairs = {case.flows}",
        rate=case.rate_gbps,
        delay=case.delay_ns,
    )
    return Cell(name, runs.write_spec(folder, name, text), folder / name)


def compared(group: str, theirs: Sequence[PeerRow], ours: Sequence[PeerRow]) -> Iterator[Check]:
    """Yields the checks of cases that differ by their gap alone: medians, with the least and the greatest."""
    for what, unit, digits in (("queue_bytes", 1e3, 2), ("utilization", 1, 3), ("jain", 1, 3)):
        mine, other = ([getattr(row, what) / unit for row in rows] for rows in (ours, theirs))
        off = median(mine) / median(other) - 1
        words, asked = (f"{median(each):.{digits}f} ({min(each):.{digits}f}..{max(each):.{digits}f})" for each in (mine, other))
        yield Check(f"{group}: {TITLES[what]}", f"{asked} +- {TOLERANCE:.0%}", f"{words}, {off:+.1%}", abs(off) <= TOLERANCE)


def measured(result: Result) -> PeerRow:
    summary = result.summary
    return PeerRow(float(summary["switch_mean_queue_bytes"]), float(summary["utilization"]), float(summary["jain"]))
