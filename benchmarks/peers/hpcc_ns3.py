# SPDX-License-Identifier: Apache-2.0
"""HPCC's authors' simulator as a peer: runs flows into one port there, and reads queue and rates from its trace.

The simulator is alibaba-edu/High-Precision-Congestion-Control, a fork of ns-3.17 under GPL-2. It is not part of this project:
build it as docs/peers.md says. `third` reads a configuration and three lists, and writes a record of each packet at a port.

    python -m dc_gym.benchmarks.peers.hpcc_ns3 FOLDER [NAME ...]     # prints the rows of hpcc_ns3.toml

FOLDER is the simulator's `simulation`; NAME an algorithm of ALGORITHMS, all if none is given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError, TestbedError, UsageError
from dc_gym.base.terminal import say
from dc_gym.metrics.fairness import jain

DATA = Path(__file__).resolve().with_name("hpcc_ns3.toml")
"""The simulator's results, with its commit, build and command."""
PROGRAM, LIBRARIES = Path("build/scratch/third"), Path("build")
FLOW_BYTES = 4_000_000_000
"""A flow's size, near the most that the simulator counts (2^32): none ends while it is measured."""
PORT, PRIORITY = 100, 3
UDP, ENQUEUE, DEQUEUE = 0x11, 1, 2
RECORD = np.dtype(
    {
        "names": ["t_ns", "node", "port", "queue_bytes", "source", "bytes", "protocol", "event"],
        "formats": ["<u8", "<u2", "u1", "<u4", "<u4", "<u2", "u1", "u1"],
        "offsets": [0, 8, 10, 12, 16, 24, 26, 27],
        "itemsize": 56,
    }
)
"""One event of a packet (trace-format.h). `queue_bytes` is without the packet itself."""
PORT_SPEED_BYTES = 11
"""A port's entry in the trace's head."""


@dataclass(frozen=True, slots=True)
class PeerAlgorithm:
    """An algorithm as the simulator's run.py sets it."""

    mode: int
    raise_mbps: float
    """Additive increase at 100 Gbit/s."""
    fast_raise_mbps: float
    """Hyper increase at 100 Gbit/s."""
    window: bool
    """A window that follows the rate, and a reaction to each ACK."""
    alpha_us: int = 1
    cut_us: int = 4
    raise_us: int = 300

    def settings(self, rate_gbps: int) -> dict[str, object]:
        """Returns the configuration's keys that the algorithm decides."""
        telemetry = self.mode == 3
        return {
            "CC_MODE": self.mode,
            "ALPHA_RESUME_INTERVAL": self.alpha_us,
            "RATE_DECREASE_INTERVAL": self.cut_us,
            "RP_TIMER": self.raise_us,
            "RATE_AI": f"{self.raise_mbps * rate_gbps / 100:g}Mb/s",
            "RATE_HAI": f"{self.fast_raise_mbps * rate_gbps / 100:g}Mb/s",
            "HAS_WIN": int(self.window),
            "VAR_WIN": int(self.window),
            "FAST_REACT": int(self.window),
            "ACK_HIGH_PRIO": int(not self.window),
            "INT_MULTI": max(1, rate_gbps // 25) if telemetry else 1,
        }


ALGORITHMS = {
    "hpcc": PeerAlgorithm(3, 40, 40, window=True),
    "dcqcn": PeerAlgorithm(1, 20, 200, window=False),
    "dcqcn_paper": PeerAlgorithm(1, 20, 200, window=False, alpha_us=50, cut_us=50, raise_us=55),
    "timely": PeerAlgorithm(7, 100, 500, window=False),
}
"""By name; run.py's `--cc` is hp, dcqcn, dcqcn_paper and timely."""
COMMON: Mapping[str, object] = {
    "ENABLE_QCN": 1,
    "USE_DYNAMIC_PFC_THRESHOLD": 1,
    "PACKET_PAYLOAD_SIZE": 1000,
    "CLAMP_TARGET_RATE": 0,
    "EWMA_GAIN": 0.00390625,
    "FAST_RECOVERY_TIMES": 1,
    "MIN_RATE": "1000Mb/s",
    "DCTCP_RATE_AI": "1000Mb/s",
    "ERROR_RATE_PER_LINK": 0,
    "L2_CHUNK_SIZE": 4000,
    "L2_ACK_INTERVAL": 1,
    "L2_BACK_TO_ZERO": 0,
    "GLOBAL_T": 1,
    "U_TARGET": 0.95,
    "MI_THRESH": 0,
    "MULTI_RATE": 0,
    "SAMPLE_FEEDBACK": 0,
    "RATE_BOUND": 1,
    "LINK_DOWN": "0 0 0",
    "ENABLE_TRACE": 1,
    "QLEN_MON_START": 10**18,
    "QLEN_MON_END": 10**18,
}
MARKING = {"KMIN_MAP": "{0} {1}", "KMAX_MAP": "{0} {2}", "PMAX_MAP": "{0} 0.2"}
"""The line rate in bit/s, and the thresholds in kB, which are run.py's: 100 and 400 kB at 25 Gbit/s."""
FILES = {
    "TOPOLOGY_FILE": "topology.txt",
    "FLOW_FILE": "flows.txt",
    "TRACE_FILE": "traced.txt",
    "TRACE_OUTPUT_FILE": "trace",
    "FCT_OUTPUT_FILE": "ends.txt",
    "PFC_OUTPUT_FILE": "pauses.txt",
    "QLEN_MON_FILE": "queues.txt",
}


@dataclass(frozen=True, slots=True)
class PeerCase:
    """Flows of one algorithm that begin one after the other and share a port, each from its own sender."""

    algorithm: str
    topology: str
    """`single`: all hosts at one switch. `dumbbell`: the receiver is at a second one, and the link between them is shared."""
    flows: int
    rate_gbps: int
    delay_ns: int
    """Delay of each link."""
    gap_ns: int
    """From one flow's start to the next."""
    from_us: int
    until_us: int
    """The window in which queue and rates are measured."""

    def starts_ns(self) -> list[int]:
        return [number * self.gap_ns for number in range(self.flows)]


@dataclass(frozen=True, slots=True)
class PeerRow:
    """The results of a case."""

    queue_bytes: float
    """Mean over time of what waits in the shared port. A packet that is being sent waits no more."""
    utilization: float
    """Bytes of whole packets that left the port, over its line rate."""
    jain: float
    """Jain's index of the flows' bytes."""


@dataclass(frozen=True, slots=True)
class PeerData:
    """The simulator's results, and how it was asked for them."""

    simulator: Mapping[str, str]
    rows: Mapping[PeerCase, PeerRow]


def stored(path: Path = DATA) -> PeerData:
    with path.open("rb") as file:
        read = tomllib.load(file)
    return PeerData(read["simulator"], {_part(PeerCase, each): _part(PeerRow, each) for each in read["run"]})


def _part(kind: type[Any], row: Mapping[str, object]) -> Any:
    return kind(**{each.name: row[each.name] for each in fields(kind)})


def network(case: PeerCase) -> tuple[list[int], list[tuple[int, int]], int]:
    """Returns switches, links and the receiver. Senders come first, then the receiver; the first switch has the shared port."""
    receiver = case.flows
    switches = [receiver + 1] if case.topology == "single" else [receiver + 1, receiver + 2]
    trunk = [] if case.topology == "single" else [(switches[0], switches[1])]
    return switches, [*((sender, switches[0]) for sender in range(case.flows)), *trunk, (receiver, switches[-1])], receiver


def write_inputs(case: PeerCase, folder: Path) -> Path:
    """Writes what the simulator reads, and returns the configuration."""
    switches, links, receiver = network(case)
    ends = [f"{a} {b} {case.rate_gbps}Gbps {case.delay_ns}ns 0" for a, b in links]
    first = f"{receiver + 1 + len(switches)} {len(switches)} {len(links)}"
    _lines(folder / FILES["TOPOLOGY_FILE"], [first, " ".join(map(str, switches)), *ends])
    flows = [
        f"{sender} {receiver} {PRIORITY} {PORT} {FLOW_BYTES} {start / 1e9:.9f}" for sender, start in enumerate(case.starts_ns())
    ]
    _lines(folder / FILES["FLOW_FILE"], [str(case.flows), *flows])
    _lines(folder / FILES["TRACE_FILE"], ["1", str(switches[0])])
    path = folder / "config.txt"
    _lines(path, [f"{key} {value}" for key, value in settings(case, folder).items()])
    return path


def _lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def settings(case: PeerCase, folder: Path) -> dict[str, object]:
    """Returns the configuration."""
    thresholds = case.rate_gbps * 10**9, 4 * case.rate_gbps, 16 * case.rate_gbps
    return {
        **COMMON,
        **ALGORITHMS[case.algorithm].settings(case.rate_gbps),
        **{name: f"1 {text.format(*thresholds)}" for name, text in MARKING.items()},
        **{name: folder / each for name, each in FILES.items()},
        "BUFFER_SIZE": 32,
        "SIMULATOR_STOP_TIME": f"{case.until_us / 1e6:.6f}",
    }


def run(simulator: Path, case: PeerCase) -> PeerRow:
    """Runs a case. Raises TestbedError if the simulator failed, or paused a port: the case is meant to be without PFC."""
    program = simulator.resolve() / PROGRAM
    if not program.is_file():
        raise UsageError(f"no {program}: build the simulator as docs/peers.md says")
    with tempfile.TemporaryDirectory(prefix="dcgym-peer-") as name:
        folder = Path(name)
        path = write_inputs(case, folder)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(simulator.resolve() / LIBRARIES)}
        done = subprocess.run([program, path], cwd=folder, env=environment, capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise TestbedError(f"{program} {case}: status {done.returncode}: {done.stderr.strip()[-200:] or 'no message'}")
        if pauses := len((folder / FILES["PFC_OUTPUT_FILE"]).read_text().splitlines()):
            raise TestbedError(f"{case}: {pauses} pauses (PFC); give fewer flows, or a larger BUFFER_SIZE")
        return measure(case, read_trace(folder / FILES["TRACE_OUTPUT_FILE"]))


def read_trace(path: Path) -> npt.NDArray[np.void]:
    """Returns the events of data packets at the port that most of them leave by."""
    with path.open("rb") as file:
        speeds = int(np.fromfile(file, "<u4", 1)[0])
        file.seek(4 + PORT_SPEED_BYTES * speeds + 4)
        events = np.fromfile(file, RECORD)
    events = events[(events["protocol"] == UDP) & np.isin(events["event"], (ENQUEUE, DEQUEUE))]
    if not len(events):
        raise ProtocolError(f"{path.name}: no packet left a port")
    busiest: npt.NDArray[np.void] = events[events["port"] == np.bincount(events["port"]).argmax()]
    return busiest


def measure(case: PeerCase, events: npt.NDArray[np.void]) -> PeerRow:
    """Returns the means of the window."""
    start_ns, end_ns = case.from_us * 1000, case.until_us * 1000
    times = events["t_ns"].astype(np.int64)
    queue = events["queue_bytes"] + np.where(events["event"] == ENQUEUE, events["bytes"], 0).astype(np.int64)
    lasting = np.diff(np.clip(np.append(times, end_ns), start_ns, end_ns))
    left = events[(times >= start_ns) & (times < end_ns) & (events["event"] == DEQUEUE)]
    sender = left["source"] >> 8 & 0xFFFF
    sent = np.bincount(sender, weights=left["bytes"], minlength=case.flows)
    line_bytes = case.rate_gbps * (end_ns - start_ns) / 8
    fairness = jain(sent.astype(np.float64))
    if fairness is None:
        raise ProtocolError(f"{case.algorithm}: no packet left the port from {case.from_us} to {case.until_us} us")
    return PeerRow(
        round(float((queue * lasting).sum() / (end_ns - start_ns)), 1),
        round(float(sent.sum() / line_bytes), 4),
        round(fairness, 4),
    )


def cases(names: Sequence[str] = ()) -> Iterator[PeerCase]:
    """Yields the cases that are stored."""
    yield from (case for case in stored().rows if not names or case.algorithm in names)


def row_text(case: PeerCase, row: PeerRow) -> str:
    """Returns a row of DATA."""
    values = {**asdict(case), **asdict(row)}
    pairs = [f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in values.items()]
    return "\n".join(["[[run]]", *pairs, ""])


def main(argv: Sequence[str]) -> int:
    if not argv:
        raise UsageError("give the simulator's folder `simulation`, as docs/peers.md says")
    for case in cases(argv[1:]):
        say(row_text(case, run(Path(argv[0]), case)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
