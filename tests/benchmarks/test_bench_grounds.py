# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench grounds`: how it judges measurements; and the bench itself, in a VM (long)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.benchmarks.checks import grounds
from dc_gym.run.grounds.host import vm


def seen(largest: float, goodput_bps: float = 9.5e6, unfit: tuple[str, ...] = ()) -> grounds.Seen:
    packets = np.array([1.0, 2.0, largest])
    return grounds.Seen(np.arange(3.0), packets, goodput_bps, unfit)


def verdicts(checks) -> list[str]:
    return ["skipped" if check.skipped else "good" if check.ok else "short" for check in checks]


def test_who_owns_a_packet_is_judged_against_the_lab():
    good = {"lab": seen(198), "cable": seen(190), "netem": seen(198), "tbf": seen(58)}
    assert verdicts(grounds.owner_checks(good, {})) == ["good"] * 5
    bad = {"lab": seen(150), "cable": seen(100), "netem": seen(198), "tbf": seen(100)}
    assert verdicts(grounds.owner_checks(bad, {})) == ["short"] * 4 + ["good"]


def test_an_unfit_run_is_shown_and_skipped_and_a_failed_one_is_short():
    some = {"lab": seen(198), "cable": seen(20, unfit=("a CPU was 99% busy",)), "netem": seen(198)}
    checks = list(grounds.owner_checks(some, {"owner-tbf": "no sch_tbf"}))
    assert verdicts(checks) == ["good", "skipped", "good", "short", "good"]
    assert "a CPU was 99% busy" in checks[1].measured and "no sch_tbf" in checks[3].measured


def test_a_case_without_a_fit_host_run_is_short():
    late = ("one timer in ten was late",)
    some = {"lab": seen(198)} | {variant: seen(198, unfit=late) for variant in ("cable", "netem", "tbf")}
    assert verdicts(grounds.owner_checks(some, {})) == ["good", "skipped", "skipped", "skipped", "short"]
    some = {"lab": seen(4)} | {variant: seen(4, unfit=late) for variant in ("cable", "netem")}
    assert verdicts(grounds.dumbbell_checks(some, {})) == ["skipped"] * 4 + ["short"]


@pytest.mark.parametrize(("fits", "runs"), [((True,), 1), ((False, True), 2), ((False, False), 2)])
def test_an_unfit_run_is_tried_once_more(monkeypatch, tmp_path, fits, runs):
    outs = []

    def run(experiment, out, progress, plot):
        out.mkdir()
        outs.append(out)
        return SimpleNamespace(fit=fits[len(outs) - 1])

    monkeypatch.setattr(grounds.runner, "run", run)
    assert grounds.run_fit(None, tmp_path / "out") == fits[-1] and outs == [tmp_path / "out"] * runs


def test_dctcp_may_differ_by_three_percent_and_a_packet():
    lab = seen(4)
    near = {"lab": lab, "cable": seen(6, 9.3e6), "netem": seen(4, 9.6e6)}
    assert verdicts(grounds.dumbbell_checks(near, {})) == ["good"] * 5
    far = {"lab": lab, "cable": seen(12, 9.0e6), "netem": seen(4, 9.9e6)}
    assert verdicts(grounds.dumbbell_checks(far, {})) == ["short", "short", "short", "good", "good"]


def test_it_is_drawn(tmp_path):
    both = {"owner": {"lab": seen(198), "tbf": seen(3)}, "dumbbell": {"lab": seen(4), "cable": seen(5, unfit=("late",))}}
    grounds.draw(both, tmp_path / "grounds.png")
    assert (tmp_path / "grounds.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.lab
@pytest.mark.skipif(shutil.which(vm.QEMU) is None, reason="no qemu: make test-all installs it")
@pytest.mark.timeout(3600)
def test_both_grounds_agree_where_the_host_keeps_up(tmp_path, lab_kernel):
    tmp_path.chmod(0o755)
    argv = [sys.executable, "-m", "dc_gym.cli.main", "bench", "grounds", "--json", "checks.json"]
    process = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    checks = json.loads((tmp_path / "checks.json").read_text())["checks"]
    assert len(checks) == 11 and checks[0]["ok"] and (tmp_path / "results" / "grounds.png").is_file()
