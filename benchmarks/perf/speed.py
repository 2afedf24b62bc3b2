# SPDX-License-Identifier: Apache-2.0
"""Checks the speed of whole `dcgym run` processes, with queues sampled every 10 ms.

Wall time depends on the machine, so each check is a ratio to the virtual time of the same run. A packet-hop is a frame sent over
a cable. Its cost is CPU time of all processes while traffic runs, for DCTCP and for DCQCN in NICs on one network.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.benchmarks.perf import meter
from dc_gym.records.results import Result
from dc_gym.sweep import runs

REPEATS = 3
SPEC = runs.plain_spec("speed", "dumbbell-10m", "60s") + 'monitor.interval = "10ms"\n'
ONE_GIGABIT = ("topology.preset=dumbbell-1g", "time.duration=5s")
RED_INSTANT = ("topology.marking=red-instant", "topology.kmin=20p", "topology.kmax=160p", "topology.pmax=20%")
COSTS = {
    "DCTCP": ("controller.name=dctcp",),
    "DCQCN in NICs": ("controller.name=dcqcn", *RED_INSTANT, "nic.latency=900ns"),
}
COSTLY = ("topology.preset=dctcp-10g", "workload.kind=many_to_one", "time.duration=500ms")
"""Settings of the runs whose packet-hops are counted, beside those of COSTS."""
FAT_TREE = ("topology.preset=fattree-k4", "topology.rate=100Mbit/s", "workload.kind=hotspot", "time.duration=1s")


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: its result, and the wall time of the whole process."""

    result: Result
    wall_s: float

    @property
    def cpu_s(self) -> dict[str, float]:
        """CPU time, in s, by phase."""
        return dict(self.result.manifest["cpu_s"])

    @property
    def loop_share(self) -> float:
        """The share of the links' events that ran without a timer interrupt."""
        return float(self.result.manifest["lab_loop_events"] / self.result.manifest["lab_events"])

    def phase_s(self, *names: str) -> float:
        return float(sum(self.result.manifest["wall_s"].get(name, 0.0) for name in names))

    @property
    def virtual_s(self) -> float:
        return float(self.result.manifest["virtual_s"])

    @property
    def packet_hops(self) -> int:
        """The number of frames that left the ports' queues during the traffic."""
        queues = self.result.records("queues")
        last = queues[queues["t_ns"] == queues["t_ns"].max()]
        return int(np.asarray(last["tx_packets"], np.int64).sum())


def checks() -> Iterable[Check]:
    with runs.scratch("speed") as folder:
        spec = runs.write_spec(folder, "speed", SPEC)
        slow = _median(folder, spec, "dumbbell-10m", ())
        whole, traffic = slow.virtual_s / slow.wall_s, slow.virtual_s / slow.phase_s("traffic")
        yield Check("dumbbell-10m, 60 s: the whole run", ">= 10x real time", f"{whole:.1f}x ({_phases(slow)})", whole >= 10)
        yield Check("dumbbell-10m: traffic phase", ">= 50x", f"{traffic:.1f}x", traffic >= 50)
        fast = _median(folder, spec, "dumbbell-1g", ONE_GIGABIT)
        ratio = fast.virtual_s / fast.phase_s("traffic")
        yield Check("dumbbell-1g, 5 s: traffic phase", ">= 0.7x", f"{ratio:.2f}x ({_phases(fast)})", ratio >= 0.7)
        tree = _median(folder, spec, "fattree-k4", FAT_TREE)
        start = tree.phase_s(*runs.START_PHASES)
        yield Check("fattree-k4: start", "<= 8 s", f"{start:.2f} s ({_phases(tree)})", start <= 8)
        for name, settings in COSTS.items():
            yield _cost(name, _median(folder, spec, name.replace(" ", "-"), (*COSTLY, *settings)))


def _cost(name: str, run: Timed) -> Check:
    """Returns the cost of a packet-hop, and the CPU time of each phase."""
    hops, cpu_s = run.packet_hops, run.cpu_s
    phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in cpu_s.items())
    words = (
        f"{cpu_s['traffic'] / hops * 1e6:.3f} us of {hops} hops; {run.loop_share:.1%} of the events in the loop; CPU s: {phases}"
    )
    return Check(f"{name}: CPU time a packet-hop", "recorded", words, ok=True)


def _median(folder: Path, spec: Path, name: str, settings: tuple[str, ...]) -> Timed:
    """Returns the run with the median wall time."""
    found = [meter.run_spec(spec, folder / f"{name}-{number}", settings) for number in range(REPEATS)]
    timed = [Timed(result, cost.wall_s) for result, cost in found]
    return sorted(timed, key=lambda run: run.wall_s)[statistics.median_low(range(len(timed)))]


def _phases(run: Timed) -> str:
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in run.result.manifest["wall_s"].items())
    return f"{run.wall_s:.2f} s: {parts}"
