# SPDX-License-Identifier: Apache-2.0
"""Runs that are forked from a process which has imported everything: each is as one that starts by itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dc_gym.base import warm
from dc_gym.base.processes import Process, children
from dc_gym.base.progress import Quiet
from dc_gym.cli.early import INTERRUPTED
from dc_gym.run.sweep import pool

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab_kernel")]
SPEC = """
spec_version = 1
topology.preset = "dumbbell-10m"
controller.name = "dctcp"
workload.kind = "pairs"
time.duration = "100ms"
"""
IN_A_FORK = f"import sys; assert {warm.MODULE!r} in sys.orig_argv, sys.orig_argv\n"
VANDAL = """
import builtins, os, random, signal, sys
import numpy as np
from dc_gym.ctrl import controllers
from dc_gym.results import fingerprint
vars(controllers).clear()
fingerprint.programs = lambda: "another"
np.array = np.asarray = None
builtins.sorted = None
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.environ["PATH"] = os.environ["HOME"] = "/nowhere"
os.umask(0o777)
os.closerange(0, 3)
os._exit(7)
"""

Cells = Callable[..., list[pool.Cell]]


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    (tmp_path / "spec.toml").write_text(SPEC)

    def make(*plug_ins: str) -> list[pool.Cell]:
        """Returns a cell for each plug-in's text; those with an empty one have none."""
        pool_cells = []
        for number, text in enumerate(plug_ins):
            (file := tmp_path / f"plug_in_{number}.py").write_text(text)
            settings = [f'plugins=["{file.name}"]'] if text else []
            pool_cells.append(pool.Cell(f"c{number}", tmp_path / "spec.toml", tmp_path / f"c{number}", settings))
        return pool_cells

    return make


def digest(cell: pool.Cell) -> str:
    return str(json.loads((cell.out / "manifest.json").read_text())["digest"])


def test_a_run_finds_nothing_of_the_one_before_it(cells: Cells) -> None:
    bad, sound, alone = cells(VANDAL, "", "")
    spoilt, forked = pool.run_cells([bad, sound], 1, Quiet())
    assert (spoilt.status, forked.status, forked.message) == (7, 0, "")
    assert pool.run_cells([alone], 1, Quiet())[0].status == 0
    assert digest(sound) == digest(alone)
    manifests = [json.loads((cell.out / "manifest.json").read_text()) for cell in (sound, alone)]
    assert manifests[0]["fingerprint"] == manifests[1]["fingerprint"]


def test_runs_with_a_policy_find_its_modules_imported(cells: Cells, tmp_path: Path) -> None:
    imported = f"{IN_A_FORK}assert 'dc_gym.run.agent.driver' in sys.modules"
    (tmp_path / "spec.toml").write_text(f'{SPEC}controller.policy = "random"\nagent.interval = "10ms"\n')
    forked = [replace(cell, has_policy=True) for cell in cells(imported, imported)]
    outcomes = pool.run_cells(forked, 1, Quiet())
    assert [(outcome.status, outcome.message) for outcome in outcomes] == [(0, "")] * 2
    (alone,) = cells("")
    alone = replace(alone, out=tmp_path / "alone")
    assert pool.run_cells([alone], 1, Quiet())[0].status == 0
    digests = [json.loads((cell.out / "manifest.json").read_text())["agent_digest"] for cell in (*forked, alone)]
    assert len(set(digests)) == 1


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("raise ValueError('no')", 1, "ValueError: no"),
        ("raise SystemExit('enough')", 1, "enough"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import os; os.kill(os.getpid(), 2)", INTERRUPTED, "interrupted"),
        ("nonsense", 2, "plug_in_2.py:2: NameError"),
    ],
)
def test_a_run_ends_as_one_that_starts_by_itself(cells: Cells, text: str, status: int, message: str) -> None:
    one, other, alone = cells(IN_A_FORK + text, IN_A_FORK, "# on its second line too\n" + text)
    forked, second = pool.run_cells([one, other], 2, Quiet())
    (cold,) = pool.run_cells([alone], 1, Quiet())
    assert (forked.status, second.status) == (cold.status, 0), (forked.message, second.message)
    assert forked.message.replace("_0", "_2") == cold.message
    assert message in cold.message


def test_without_the_warm_process_runs_start_by_themselves(cells: Cells) -> None:
    plug_in_cells = cells(IN_A_FORK + "import os; os.kill(os.getppid(), 9); import time; time.sleep(9)", "", "")
    outcomes = pool.run_cells(plug_in_cells, 1, Quiet())
    assert [outcome.status for outcome in outcomes] == [-signal.SIGKILL, 0, 0]


def test_what_only_a_start_of_its_own_can_give_is_not_forked(cells: Cells) -> None:
    fork, with_env, masked = cells(IN_A_FORK, IN_A_FORK, IN_A_FORK)
    others = [replace(with_env, env={"DCGYM_X": "1"}), replace(masked, umask=0o077)]
    outcomes = pool.run_cells([fork, replace(fork, name="again", out=fork.out.with_name("again")), *others], 2, Quiet())
    assert [outcome.status for outcome in outcomes[:2]] == [0, 0]
    assert all(outcome.status != 0 and "AssertionError" in outcome.message for outcome in outcomes[2:])


def test_no_process_is_left(cells: Cells) -> None:
    before = children(os.getpid())
    snippet = "\nimport os, sys; print(os.getppid(), file=sys.stderr)"
    outcomes = pool.run_cells(cells(IN_A_FORK + snippet, IN_A_FORK), 2, Quiet())
    assert [outcome.status for outcome in outcomes] == [0, 0]
    assert children(os.getpid()).keys() <= before.keys()
    assert not Process.of(int(outcomes[0].message)).alive()
