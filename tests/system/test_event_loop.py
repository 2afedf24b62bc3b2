# SPDX-License-Identifier: Apache-2.0
"""The lab kernel's event loop changes no result: digests, episodes and TCP tests with it and without it (lab.event_loop)."""

from __future__ import annotations

from dataclasses import replace

import episodes
import pytest
from specs import MORE, OTHERS

from dc_gym.base.progress import Quiet
from dc_gym.cli import conformance
from dc_gym.cli.conformance import host
from dc_gym.cli.conformance.tun import FAMILIES
from dc_gym.cli.verify import golden
from dc_gym.kernel import build, selftests
from dc_gym.results.divergence import first_difference
from dc_gym.run.sweep import Cell, runs
from dc_gym.spec import vary

pytestmark = pytest.mark.lab
QUICK = ("single-dctcp", "dumbbell-nv", "leafspine-cubic", "nic-swift", "agent", "bbr-fq", "bbr-fifo", "red-average")
QUICK_EPISODES = ("RED with an average", "incast, and TIME_WAIT")


def quick_first(names, quick):
    return [*quick, *(pytest.param(name, marks=pytest.mark.long) for name in names if name not in quick)]


def cell_of(name, folder):
    if name in golden.scenarios():
        return golden.cell(folder, name)
    return Cell(name, runs.write_spec(folder, name, (OTHERS | MORE)[name]), folder, (), ("--no-plot", "--force"))


@pytest.mark.parametrize("name", quick_first([*golden.scenarios(), *OTHERS, *MORE], QUICK))
def test_a_run_is_equal(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cell = cell_of(name, tmp_path)
    on = replace(cell, name="on", out=tmp_path / "on")
    off = replace(cell, name="off", out=tmp_path / "off", settings=(*cell.settings, "lab.event_loop=off"))
    results = runs.run_all([on, off], progress=Quiet())
    assert results["on"].manifest["lab_loop_events"] > 0 and results["off"].manifest["lab_loop_events"] == 0
    assert results["on"].digest == results["off"].digest, first_difference(results["on"].tables, results["off"].tables)


@pytest.mark.parametrize("name", quick_first(episodes.CASES, QUICK_EPISODES))
def test_an_episode_is_equal(name, tmp_path):
    """It is an episode after others with the loop, against a fresh lab without."""
    on = vary({"name": "event-loop", **episodes.CASES[name]}, tmp_path, "case", [], {}, "case")
    off = replace(on, lab=replace(on.lab, event_loop="off"))
    lab, other = episodes.Episodes(on, tmp_path), episodes.Episodes(off, tmp_path)
    with lab.session, other.session:
        for seed, share in episodes.BEFORE:
            lab.run(seed, share)
        after, fresh = lab.run(episodes.COMPARED), other.run(episodes.COMPARED)
    assert episodes.difference(fresh, after) is None


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_kernel_s_tcp_tests_end_alike():
    kernel = build.ensure(Quiet())
    tests = selftests.ensure(kernel.manifest["source"]["identity"], kernel.version, Quiet())
    paths = [*sorted(conformance.OWN.glob("*.pkt")), *sorted(tests.scripts.glob("*.pkt"))]
    host.check_programs(kernels_own=True)
    chosen, _ = host.select(paths, [], list(FAMILIES))
    header = tests.tcp_header.read_text()
    on, off = (host.run(chosen, header, kernel.path, host.default_jobs(), Quiet(), event_loop=loop) for loop in (True, False))
    assert len(on) > 100
    assert [(run.script, run.family, run.status) for run in on] == [(run.script, run.family, run.status) for run in off]
