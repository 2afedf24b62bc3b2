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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec, sweep
from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Quiet, choose
from dc_gym.base.terminal import say
from dc_gym.figures import kit
from dc_gym.grounds.host import needs, vm
from dc_gym.records.results import Result, load_result
from dc_gym.run import runner
from dc_gym.sweep import runs

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
        rows = queues[queues["port"] == result.names.port.index(port)]
        warm = rows[rows["t_ns"] >= 2 * 10**9]
        goodput = float(result.summary["goodput_bps"] or 0)
        reasons = tuple(result.manifest["unfit_reasons"])
        return cls(warm["t_ns"] / 1e9, warm["backlog_packets"].astype(float), goodput, reasons)

    @property
    def largest(self) -> float:
        return float(self.packets.max())

    @property
    def mean(self) -> float:
        return float(self.packets.mean())


def checks() -> Iterable[Check]:
    with runs.scratch("grounds") as folder:
        for case, text in SPECS.items():
            runs.write_spec(folder, case, text)
        run_labs(folder)
        host_failures = run_hosts(folder)
        seen = {case: dict(_seen(folder, case)) for case in SPECS}
        yield from owner_checks(seen["owner"], host_failures)
        yield from dumbbell_checks(seen["dumbbell"], host_failures)
        figure = runs.figure_place(FIGURE, NAME)
        draw(seen, figure)
        yield Check("figure", "drawn", str(figure), figure.is_file())


def run_labs(folder: Path) -> None:
    cells = [sweep.Cell(f"{case}-lab", folder / f"{case}.toml", folder / f"{case}-lab") for case in SPECS]
    runs.run_all(cells)


def run_hosts(folder: Path) -> dict[str, str]:
    """Runs all host runs. Returns the error messages of those that failed."""
    if os.geteuid() == 0 and not needs.missing(needs.MODULES):
        return run_here(folder)
    vm.check()
    with choose(quiet=False) as progress:
        kernel = vm.prepare(progress)
    argv = python("-m", "dc_gym.benchmarks.checks.grounds", str(folder))
    if vm.run(kernel, argv, vm.environment(), Path.cwd()):
        raise TestbedError("the VM's runs failed; what they said stands above")
    return {name.stem: name.read_text().strip() for name in sorted(folder.glob("*.failed"))}


def run_here(folder: Path) -> dict[str, str]:
    """Runs the host runs on this machine, one after the other."""
    failures = {}
    for case, links in ((case, links) for case, variants in VARIANTS.items() for links in variants):
        name = f"{case}-{links}"
        try:
            experiment = spec.load(folder / f"{case}.toml", ["ground=host", f"host.links={links}"])
            fit = run_fit(experiment, folder / name)
            say(f"{name}: {'fit' if fit else 'unfit'}", flush=True)
        except TestbedError as error:
            failures[name] = str(error)
            (folder / f"{name}.failed").write_text(f"{error}\n")
            say(f"{name}: {error}", flush=True)
    return failures


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


def owner_checks(seen: dict[str, Seen], failures: dict[str, str]) -> Iterator[Check]:
    full = BUFFER_BYTES // FRAME
    lab = seen["lab"].largest
    words = f"{lab:.0f} packets of {full}"
    yield Check("who owns a packet: lab, cable: largest queue", ">= 90 % of the buffer", words, lab >= 0.9 * full)
    for variant in VARIANTS["owner"]:
        name = f"who owns a packet: {WORDS[variant]}: largest queue"
        if variant == "tbf":
            asked, good = "<= half of the lab's: the sender's limit reaches into the switch", _at_most(lab / 2)
        else:
            asked, good = "within 10 % of the lab's", _within(lab, 0.1)
        yield _check(name, asked, seen.get(variant), lambda one: one.largest, "packets", good, failures.get(f"owner-{variant}"))
    yield fit_check("who owns a packet", seen)


def fit_check(case: str, seen: dict[str, Seen]) -> Check:
    """Returns the check that not all host runs of a case are skipped."""
    hosts = [one for variant, one in seen.items() if variant != "lab"]
    fit = sum(not one.unfit for one in hosts)
    return Check(f"{case}: fit runs on the host", ">= 1", f"{fit} of {len(hosts)}", fit >= 1)


def dumbbell_checks(seen: dict[str, Seen], failures: dict[str, str]) -> Iterator[Check]:
    lab = seen["lab"]
    for variant in VARIANTS["dumbbell"]:
        one, failed = seen.get(variant), failures.get(f"dumbbell-{variant}")
        good = _within(lab.goodput_bps / 1e6, GOODPUT_TOLERANCE)
        asked = f"{lab.goodput_bps / 1e6:.3f} +- {GOODPUT_TOLERANCE:.0%}"
        yield _check(f"dctcp: {WORDS[variant]}: goodput", asked, one, lambda s: s.goodput_bps / 1e6, "Mbit/s", good, failed)
        allowed = max(QUEUE_TOLERANCE * lab.mean, 1.0) / max(lab.mean, 1e-9)
        asked = f"{lab.mean:.2f}, to a packet or {QUEUE_TOLERANCE:.0%}"
        yield _check(
            f"dctcp: {WORDS[variant]}: mean queue", asked, one, lambda s: s.mean, "packets", _within(lab.mean, allowed), failed
        )
    yield fit_check("dctcp", seen)


Predicate = Callable[[float], bool]


def _at_most(limit: float) -> Predicate:
    return lambda value: value <= limit


def _within(asked: float, share: float) -> Predicate:
    return lambda value: abs(value - asked) <= share * asked


def _check(
    name: str, asked: str, one: Seen | None, of: Callable[[Seen], float], unit: str, good: Predicate, failure: str | None
) -> Check:
    """Returns a check on a host run; it is skipped if the run is unfit."""
    if one is None:
        return Check(name, asked, f"failed: {failure}", ok=False)
    value = of(one)
    words = f"{value:.4g} {unit}"
    if one.unfit:
        return Check(name, asked, f"{words}; unfit: {one.unfit[0]}", ok=False, skipped=True)
    return Check(name, asked, words, good(value))


def _look(number: int, variant: str, one: Seen) -> dict[str, Any]:
    label = WORDS[variant] + (" (unfit)" if one.unfit else "")
    return {"color": kit.FLOW_COLORS[number], "linewidth": 1.3, "alpha": 0.5 if one.unfit else 1.0, "label": label}


def draw(seen: dict[str, dict[str, Seen]], path: Path) -> None:
    """Draws the port's queue with one panel per case and one line per variant: CUBIC's over time, DCTCP's as a distribution."""
    path.parent.mkdir(parents=True, exist_ok=True)
    titles = {"owner": "CUBIC into 10 Mbit/s, 300 kB: who owns a packet", "dumbbell": "DCTCP on the dumbbell at 1 Mbit/s"}
    with kit.style():
        figure = kit.new_figure(11, 4.2)
        over_time, share = figure.subplots(1, 2)
        for number, (variant, one) in enumerate(seen["owner"].items()):
            over_time.plot(one.t_s, one.packets, **_look(number, variant, one))
        for number, (variant, one) in enumerate(seen["dumbbell"].items()):
            lengths, counts = np.unique(one.packets, return_counts=True)
            share.step(lengths, np.cumsum(counts) / counts.sum(), where="post", **_look(number, variant, one))
        over_time.set(xlabel="Time (s)", ylabel=f"Queue of {PORTS['owner']} (packets)", ylim=(0, None))
        share.set(
            xlabel=f"Queue of {PORTS['dumbbell']} (packets)",
            ylabel="Share of samples up to that",
            ylim=(0, 1.02),
        )
        for ax, case in ((over_time, "owner"), (share, "dumbbell")):
            ax.set_title(titles[case], loc="left")
            ax.legend(fontsize=8)
        kit.save(figure, path, mark=runs.mark_of(NAME))


if __name__ == "__main__":
    run_here(Path(sys.argv[1]))
