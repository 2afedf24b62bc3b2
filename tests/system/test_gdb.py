# SPDX-License-Identifier: Apache-2.0
"""A lab under gdb: symbols of the kernel and of a TCP of one's own, the records, and the watchdog."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.base.errors import UsageError
from dc_gym.base.processes import ProcessStat
from dc_gym.base.progress import Quiet
from dc_gym.kernel import lab
from dc_gym.results.results import load_result
from dc_gym.run import runner
from dc_gym.run.grounds import debugger
from dc_gym.spec import load

ROOT = Path(__file__).parents[2]
SPEC = f"""
plugins = ["{ROOT}/examples/tcp_mine.c"]
controller.name = "mine"
topology = {{ preset = "dumbbell-10m", buffer = "30kB", delay = "1ms" }}
workload.kind = "pairs"
time.duration = "1s"
"""
WORDS = "break mine_cong_avoid", "continue", "print acked", "backtrace 2", "delete", "continue"


@pytest.mark.lab
@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb: apt install gdb")
@pytest.mark.parametrize("more", ["", 'workload.exec = [{ host = "h1", command = "true" }]'])
def test_a_tcp_is_stopped_in_gdb_and_its_run_has_the_records_of_one_without(more: str, tmp_path: Path, registries: None) -> None:
    (tmp_path / "mine.toml").write_text(f"{SPEC}\n{more}")
    plain = runner.run(load(tmp_path / "mine.toml"), tmp_path / "plain", Quiet(), plot=False)
    words = ("run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "gdb"), "--no-plot", "--quiet", "--gdb")
    run = subprocess.Popen([sys.executable, "-m", "dc_gym.cli.main", *words], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert run.stderr is not None
        command = re.search(r"gdb -x (\S+)", run.stderr.readline())
        assert command
        options = [option for word in WORDS for option in ("-ex", word)]
        gdb = subprocess.run(["gdb", "-batch", "-nx", "-x", command[1], *options], capture_output=True, text=True, check=True)
        assert run.wait() == 0, run.stderr.read()
    finally:
        run.kill()
        run.wait()
    assert "mine_cong_avoid (sk=0x" in gdb.stdout and "$1 = 1\n" in gdb.stdout and "in tcp_ack ()" in gdb.stdout
    assert load_result(tmp_path / "gdb").digest == plain.digest


@pytest.mark.parametrize("state, hangs", [("t", False), ("S", True)])
def test_the_watchdog_lets_a_lab_be_that_a_debugger_has_stopped(state: str, hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.ProcessStat, "of", lambda pid: ProcessStat(state, 1, 0.0, 0.0, 1))
    monkeypatch.setattr(lab, "children", lambda pid: {})
    still = lab._Standstill(7, 100.0)
    lasts = [still.too_long(1, now_s, watchdog_s=1.0) for now_s in (100 + n / 2 for n in range(25))]
    assert any(lasts) is hangs


def test_what_gdb_needs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registries: None) -> None:
    (tmp_path / "mine.toml").write_text(SPEC.replace("mine", "cubic").replace(f'"{ROOT}/examples/tcp_cubic.c"', ""))
    spec = load(tmp_path / "mine.toml")
    with pytest.raises(UsageError, match=r'--gdb.*ground = "lab"'):
        runner.run(load(tmp_path / "mine.toml", ["ground=host"]), tmp_path / "out", Quiet(), gdb=True)
    monkeypatch.setattr(debugger.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"--gdb.*apt install gdb"):
        runner.run(spec, tmp_path / "out", Quiet(), gdb=True)
    monkeypatch.setattr(debugger.shutil, "which", lambda name: name)
    (tmp_path / "scope").write_text("1\n")
    monkeypatch.setattr(debugger, "YAMA", tmp_path / "scope")
    monkeypatch.setattr(debugger.os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"--gdb.*ptrace_scope = 1"):
        debugger.check()
