# SPDX-License-Identifier: Apache-2.0
"""The host ground leaves the machine as it was, whenever and whatever of it is killed. Each test boots a VM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.grounds.test_vm import needs_qemu, scripted

PROGRAM = Path(__file__).with_name("host_ground_kills.py")
KILLS = {"cables": 6, "qdiscs": 6, "ending": 2, "RDMA": 2, "environment": 2, "agent": 1, "sweep": 1}
"""Kills of each kind of command."""


@pytest.mark.long
@needs_qemu
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", KILLS)
def test_the_machine_is_as_it_was_after_kill_9_in_each_phase(case: str, tmp_path: Path) -> None:
    """Namespaces, devices, queues, settings, modules, BPF, mounts, processes, files."""
    script = f"import runpy, sys; sys.argv.append({case!r}); runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    child = scripted(script, tmp_path, timeout=3500)
    assert child.returncode == 0 and "\n0 kills left something" in child.stdout, child.stdout + child.stderr
    assert child.stdout.count("kill -9 of") == KILLS[case] and "kill -9 of None" not in child.stdout, child.stdout
