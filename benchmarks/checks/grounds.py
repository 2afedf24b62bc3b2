# SPDX-License-Identifier: Apache-2.0
"""Runs the same specs on both grounds, and on the host with cables and with stock qdiscs; reports and draws the differences.

The first case is who owns a packet (docs/host.md): one CUBIC flow into a port of 10 Mbit/s with 300 kB of buffer. The second is
DCTCP on the dumbbell at 1 Mbit/s. Rates are low, so that an emulated CPU keeps up in real time: the queue of K = 2 frames then
lasts ten times as long as a timer may be late.

The lab runs here. The host ground runs here if possible (root, and a kernel with its modules), else in one VM (`dcgym vm`). A
host run that its own fidelity check calls unfit is tried once more. If that run is unfit, too, it is shown and its checks are
skipped, since it measures the machine and not the links. A case without any fit host run has shown nothing: its check fails.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Quiet, choose
from dc_gym.base.terminal import say
from dc_gym.results.figures import kit
from dc_gym.results.results import Result, load_result
from dc_gym.run import runner, sweep
from dc_gym.run.grounds.host import needs, vm
from dc_gym.run.sweep import runs

NAME = "grounds"
FIGURE = Path("results/grounds.png")
BUFFER_BYTES, FRAME = 300_000, 1514
OWNER = """
spec_version = 1
name = "who owns a packet"
topology = { kind = "single", hosts = 2, rate = "20Mbit/s", bottleneck_rate = "10Mbit/s", delay = "0ns", buffer = "300kB" }
controller.name = "cubic"
workload = { kind = "many_to_one" }
time = { duration = "8s", warmup = "2s" }
monitor.interval = "20ms"
"""
DUMBBELL = """
spec_version = 1
name = "dctcp on both grounds"
topology = { preset = "dumbbell-10m", scale = 10 }
controller.name = "dctcp"
workload = { kind = "pairs", jitter = "100ms" }
time = { duration = "8s", warmup = "2s" }
monitor.interval = "20ms"
"""
PORTS = {"owner": "s1-eth2", "dumbbell": "s1-eth3"}
SPECS = {"owner": OWNER, "dumbbell": DUMBBELL}
VARIANTS = {"owner": ("cable", "netem", "tbf"), "dumbbell": ("cable", "netem")}
TITLES = {"owner": "who owns a packet", "dumbbell": "dctcp"}
WORDS = {"lab": "lab, cable", "cable": "host, cable", "netem": "host, tbf + netem", "tbf": "host, tbf alone"}
GOODPUT_TOLERANCE, QUEUE_TOLERANCE = 0.03, 0.15


@dataclass(frozen=True, slots=True)
class Seen:
    """The measurements at one port of a run after the warm-up."""

    t_s: npt.NDArray[np.float64]
    packets: npt.NDArray[np.float64]
    goodput_bps: float
    unfit: Sequence[str]

    @classmethod
    def of(cls, result: Result, port: str) -> Seen:
        queues = result.records("queues")
        warm = queues[(queues["port"] == result.names.port.index(port)) & (queues["t_ns"] >= 2 * 10**9)]
        goodput, reasons = float(result.summary["goodput_bps"] or 0), tuple(result.manifest["unfit_reasons"])
        return cls(warm["t_ns"] / 1e9, warm["backlog_packets"].astype(float), goodput, reasons)

    @property
    def largest(self) -> float:
        return float(self.packets.max())

    @property
    def mean(self) -> float:
        return float(self.packets.mean())

    @property
    def goodput_mbps(self) -> float:
        return self.goodput_bps / 1e6


def checks() -> Iterable[Check]:
    with runs.scratch("grounds") as folder:
        for case, text in SPECS.items():
            runs.write_spec(folder, case, text)
        runs.run_all([sweep.Cell(f"{case}-lab", folder / f"{case}.toml", folder / f"{case}-lab") for case in SPECS])
        host_failures = run_hosts(folder)
        stats = {case: dict(_seen(folder, case)) for case in SPECS}
        yield from owner_checks(stats["owner"], host_failures)
        yield from dumbbell_checks(stats["dumbbell"], host_failures)
        figure = runs.figure_place(FIGURE, NAME)
        draw(stats, figure)
        yield Check("figure", "drawn", str(figure), figure.is_file())


def run_hosts(folder: Path) -> dict[str, str]:
    """Runs all host runs. Returns the error messages of the runs that failed."""
    if os.geteuid() == 0 and not needs.missing(needs.MODULES):
        run_here(folder)
    else:
        vm.check()
        with choose(quiet=False) as progress:
            kernel = vm.prepare(progress)
        argv = python("-m", "dc_gym.benchmarks.checks.grounds", str(folder))
        if vm.run(kernel, argv, vm.environment(), Path.cwd()):
            raise TestbedError("the VM's runs failed; what they said stands above")
    return {name.stem: name.read_text().strip() for name in sorted(folder.glob("*.failed"))}


def run_here(folder: Path) -> None:
    """Runs the host runs on this machine, one after the other. Those that fail leave their message in NAME.failed."""
    for case, links in ((case, links) for case, variants in VARIANTS.items() for links in variants):
        name = f"{case}-{links}"
        try:
            fit = run_fit(spec.load(folder / f"{case}.toml", ["ground=host", f"host.links={links}"]), folder / name)
            outcome = "fit" if fit else "unfit"
        except TestbedError as error:
            outcome = str(error)
            (folder / f"{name}.failed").write_text(f"{error}\n")
        say(f"{name}: {outcome}", flush=True)


def run_fit(experiment: spec.Spec, out: Path) -> bool:
    """Runs an experiment, and runs it again if it is unfit; the second run counts."""
    if runner.run(experiment, out, Quiet(), plot=False).fit:
        return True
    shutil.rmtree(out)
    return runner.run(experiment, out, Quiet(), plot=False).fit


def _seen(folder: Path, case: str) -> Iterator[tuple[str, Seen]]:
    for variant in ("lab", *VARIANTS[case]):
        path = folder / f"{case}-{variant}"
        if (path / "manifest.json").exists():
            yield variant, Seen.of(load_result(path), PORTS[case])


Bound = tuple[str, str, str, str, float, float]
"""The subject of a check, its question in words, the field of Seen and its unit, and the bounds."""


def owner_checks(stats: dict[str, Seen], failures: dict[str, str]) -> Iterator[Check]:
    full, lab = BUFFER_BYTES // FRAME, stats["lab"].largest
    name, words = f"{TITLES['owner']}: lab, cable: largest queue", f"{lab:.0f} packets of {full}"
    yield Check(name, ">= 90 % of the buffer", words, lab >= 0.9 * full)
    near: Bound = ("largest queue", "within 10 % of the lab's", "largest", "packets", 0.9 * lab, 1.1 * lab)
    half = "<= half of the lab's: the sender's limit reaches into the switch"
    few: Bound = ("largest queue", half, "largest", "packets", 0, lab / 2)
    yield from _host_checks("owner", {"cable": [near], "netem": [near], "tbf": [few]}, stats, failures)


def dumbbell_checks(stats: dict[str, Seen], failures: dict[str, str]) -> Iterator[Check]:
    mbps, mean = stats["lab"].goodput_mbps, stats["lab"].mean
    far, long = GOODPUT_TOLERANCE * mbps, max(QUEUE_TOLERANCE * mean, 1.0)
    near_mbps, near_mean = f"{mbps:.3f} +- {GOODPUT_TOLERANCE:.0%}", f"{mean:.2f}, to a packet or {QUEUE_TOLERANCE:.0%}"
    bounds: list[Bound] = [
        ("goodput", near_mbps, "goodput_mbps", "Mbit/s", mbps - far, mbps + far),
        ("mean queue", near_mean, "mean", "packets", mean - long, mean + long),
    ]
    yield from _host_checks("dumbbell", dict.fromkeys(VARIANTS["dumbbell"], bounds), stats, failures)


def _host_checks(case: str, bounds: dict[str, list[Bound]], stats: dict[str, Seen], failures: dict[str, str]) -> Iterator[Check]:
    """Yields the checks on the host's runs of a case, skipped for unfit runs; and the check that not all runs are unfit."""
    for variant, its in bounds.items():
        one = stats.get(variant)
        for quantity, required, field, unit, low, high in its:
            name = f"{TITLES[case]}: {WORDS[variant]}: {quantity}"
            if one is None:
                yield Check(name, required, f"failed: {failures.get(f'{case}-{variant}')}", ok=False)
                continue
            value, unfit = getattr(one, field), f"; unfit: {one.unfit[0]}" if one.unfit else ""
            within = not unfit and bool(low <= value <= high)
            yield Check(name, required, f"{value:.4g} {unit}{unfit}", within, skipped=bool(unfit))
    fits = [not one.unfit for variant, one in stats.items() if variant != "lab"]
    yield Check(f"{TITLES[case]}: fit runs on the host", ">= 1", f"{sum(fits)} of {len(fits)}", any(fits))


def _look(number: int, variant: str, one: Seen) -> dict[str, Any]:
    label = WORDS[variant] + (" (unfit)" if one.unfit else "")
    return {"color": kit.FLOW_COLORS[number], "linewidth": 1.3, "alpha": 0.5 if one.unfit else 1.0, "label": label}


def draw(stats: dict[str, dict[str, Seen]], path: Path) -> None:
    """Draws the port's queue with one panel per case and one line per variant: CUBIC's over time, DCTCP's as a distribution."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with kit.style():
        figure = kit.new_figure(11, 4.2)
        over_time, share = figure.subplots(1, 2)
        for number, (variant, one) in enumerate(stats["owner"].items()):
            over_time.plot(one.t_s, one.packets, **_look(number, variant, one))
        for number, (variant, one) in enumerate(stats["dumbbell"].items()):
            share.ecdf(one.packets, **_look(number, variant, one))
        queue = "Queue of {} (packets)"
        over_time.set(xlabel="Time (s)", ylabel=queue.format(PORTS["owner"]), ylim=(0, None))
        share.set(xlabel=queue.format(PORTS["dumbbell"]), ylabel="Share of samples up to that", ylim=(0, 1.02))
        over_time.set_title("CUBIC into 10 Mbit/s, 300 kB: who owns a packet", loc="left")
        share.set_title("DCTCP on the dumbbell at 1 Mbit/s", loc="left")
        for axes in (over_time, share):
            axes.legend(fontsize=8)
        kit.save(figure, path, mark=runs.mark_of(NAME))


if __name__ == "__main__":
    run_here(Path(sys.argv[1]))
