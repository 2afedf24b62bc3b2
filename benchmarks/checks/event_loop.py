# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench event-loop`: the lab kernel's event loop changes no result.

Everything runs with the loop and without it (lab.event_loop): the golden scenarios, NICs, an agent, pacing by fq and by TCP
itself, a fabric with marking by an average, agents' episodes after resets, and the kernel's own TCP tests. Digests, trajectories
and outcomes must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dc_gym import conformance, sweep
from dc_gym.base.checks import Check
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.checks import determinism, resets
from dc_gym.conformance import host
from dc_gym.conformance.guest import ScriptOutcome
from dc_gym.conformance.tun import FAMILIES
from dc_gym.kernel import build, selftests
from dc_gym.records.divergence import first_difference
from dc_gym.records.results import Result
from dc_gym.spec import vary
from dc_gym.sweep import runs
from dc_gym.verify import golden

OFF = "lab.event_loop=off"
PACED = """
topology = {{ preset = "dumbbell-1g", host_qdisc = "{qdisc}" }}
controller.name = "bbr"
workload = {{ kind = "pairs", jitter = "1ms" }}
time = {{ duration = "300ms" }}
monitor.interval = "1ms"
"""
AVERAGED = """
topology = { preset = "fattree-k4", rate = "100Mbit/s", marking = "iroko-thesis" }
controller.name = "cubic"
workload = { kind = "poisson", load = 0.5, size = "100kB" }
time = { duration = "300ms" }
monitor.interval = "1ms"
"""
"""RED with an average counts how long a queue was idle."""
MORE = {"bbr-fq": PACED.format(qdisc="fq"), "bbr-fifo": PACED.format(qdisc="bfifo"), "red-average": AVERAGED}


def checks(names: Iterable[str] | None = None, cases: Mapping[str, Any] | None = None) -> Iterator[Check]:
    """Yields one check for each run, episode and set of scripts. `names` and `cases`: only these runs, only these episodes."""
    with runs.scratch("event-loop") as folder:
        yield from _runs(folder, names)
        for name, keys in (resets.CASES if cases is None else cases).items():
            yield _episodes(name, keys, folder)
    if names is None:
        yield _scripts()


def cells(folder: Path) -> list[sweep.Cell]:
    """Returns the runs."""
    found = [replace(golden.cell(folder, name), out=folder / f"on-{name}") for name in golden.scenarios()]
    for name, text in (determinism.OTHERS | MORE).items():
        spec = runs.write_spec(folder, name, f'spec_version = 1\nname = "{name}"\n{text}')
        found.append(sweep.Cell(name, spec, folder / f"on-{name}", (), ("--no-plot", "--force")))
    return found


def _runs(folder: Path, names: Iterable[str] | None) -> Iterator[Check]:
    on = [cell for cell in cells(folder) if names is None or cell.name in names]
    off = [replace(cell, out=folder / f"off-{cell.name}", settings=(*cell.settings, OFF)) for cell in on]
    with_loop, without = runs.run_all(on), runs.run_all(off)
    for name, result in with_loop.items():
        yield _equal(name, result, without[name])


def _equal(name: str, on: Result, off: Result) -> Check:
    share = on.manifest["lab_loop_events"] / max(on.manifest["lab_events"], 1)
    words = f"equal; {share:.1%} of {on.manifest['lab_events']:,} events in the loop"
    same = on.digest == off.digest
    if off.manifest["lab_loop_events"]:
        return Check(name, "no event in the loop when it is off", f"{off.manifest['lab_loop_events']}", ok=False)
    return Check(name, "equal digests", words if same else str(first_difference(on.tables, off.tables)), same)


def _episodes(name: str, keys: Mapping[str, Any], folder: Path) -> Check:
    """Returns the check on an episode after others with the loop, against a fresh lab without."""
    on = vary({"name": "event-loop", **keys}, folder, "case", [], {}, "case")
    off = replace(on, lab=replace(on.lab, event_loop="off"))
    lab, other = resets.TimedSession.of(on, folder), resets.TimedSession.of(off, folder)
    with lab.session, other.session:
        for seed, share in resets.BEFORE:
            lab.episode(seed, share)
        after, fresh = lab.episode(resets.COMPARED), other.episode(resets.COMPARED)
    found = resets.difference(fresh, after)
    words = "equal" if found is None else found.words()
    return Check(f"{name}: after resets, in the loop", "equal to a fresh lab's without", words, found is None)


def _scripts() -> Check:
    """Returns the check on the kernel's scripts."""
    kernel = build.ensure(Quiet())
    tests = selftests.ensure(kernel.manifest["source"]["identity"], kernel.version, Quiet())
    paths = [*sorted(conformance.OWN.glob("*.pkt")), *sorted(tests.scripts.glob("*.pkt"))]
    host.check_programs(kernels_own=True)
    chosen, _ = host.select(paths, [], list(FAMILIES))
    header = tests.tcp_header.read_text()
    on, off = (host.run(chosen, header, kernel.path, host.default_jobs(), Quiet(), event_loop=loop) for loop in (True, False))
    differ = [one.script for one, other in zip(on, off, strict=True) if _outcome(one) != _outcome(other)]
    words = f"equal: {sum(one.status == 'passed' for one in on)} passed" if not differ else f"differ: {' '.join(differ)}"
    return Check(f"{len(on)} scripts of packetdrill", "equal outcomes", words, not differ)


def _outcome(of: ScriptOutcome) -> tuple[str, str, str]:
    return of.script, of.family, of.status
