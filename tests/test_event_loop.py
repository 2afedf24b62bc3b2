# SPDX-License-Identifier: Apache-2.0
"""The lab kernel's event loop changes no result: runs and episodes with it and without it."""

from __future__ import annotations

import pytest

from dc_gym.benchmarks.checks import event_loop, resets

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    "name", ["single-dctcp", "dumbbell-nv", "leafspine-cubic", "nic-swift", "agent", "bbr-fq", "bbr-fifo", "red-average"]
)
def test_a_run_is_equal(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (check,) = event_loop.checks([name], {})
    assert check.ok, check.measured


@pytest.mark.parametrize("name", ["RED with an average", "incast, and TIME_WAIT"])
def test_an_episode_is_equal(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (check,) = event_loop.checks([], {name: resets.CASES[name]})
    assert check.ok, check.measured


@pytest.mark.long
def test_everything_is_equal(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not [check for check in event_loop.checks() if not check.ok]
