# SPDX-License-Identifier: Apache-2.0
"""dc_gym/base/processes.py: who a process is, its children, and its CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from dc_gym.base import processes
from dc_gym.base.processes import Process, ProcessStat


def test_a_process_and_its_descendants_are_found() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        while len(family := processes.descendants(parent.pid)) < 2:
            pass
        child = family[1]
        assert family[0] == Process.of(parent.pid) and list(processes.children(parent.pid)) == [child.pid]
        assert parent.pid in processes.children(os.getpid()) and all(process.alive() for process in family)
        assert child.name.startswith("python")
        parent.communicate(b"\n")
    assert not any(process.alive() for process in family)
    assert child.name == "a process that had ended"


def test_a_number_used_again_is_another_process() -> None:
    me = Process.of(os.getpid())
    assert me.alive() and not replace(me, start=me.start + 1).alive()


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        stat = ProcessStat.of(child.pid)
        assert stat is not None and stat.state == "Z"
        assert not Process.of(child.pid).alive() and processes.descendants(child.pid) == []
    assert ProcessStat.of(child.pid) is None and processes.cpu_s(child.pid) == 0 and Process.of(child.pid).start == 0


def test_cpu_time_counts_work() -> None:
    before = processes.cpu_s(os.getpid())
    while processes.cpu_s(os.getpid()) == before:
        sum(range(10_000))
    stat = ProcessStat.of(os.getpid())
    assert stat is not None and stat.cpu_s > before


def test_cpu_time_of_a_tree_whose_processes_end_at_any_moment() -> None:
    """A child that ends between its name and its threads counts nothing, as one that had ended before."""
    script = "while :; do /bin/true & /bin/true & wait; done"
    with subprocess.Popen(["sh", "-c", script]) as parent:
        try:
            for _ in range(5_000):
                processes.tree_cpu_s(parent.pid)
            assert processes.tree_cpu_s(parent.pid) > 0
        finally:
            parent.kill()
