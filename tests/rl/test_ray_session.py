# SPDX-License-Identifier: Apache-2.0
"""Ray's start: what it says when it does not come up is one line, and nothing is left of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from dc_gym.base.errors import MachineError
from dc_gym.rl import ray_session


def test_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ray_session.require()
    import ray

    def busy(**options: object) -> None:
        raise Exception("The current node timed out during startup.\nMore of it.")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray, "init", busy)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # of the session that other tests have
    with pytest.raises(MachineError) as told, ray_session.session(None, 1, 1):
        pass
    said = "Ray does not start here (The current node timed out during startup.); wait until this machine is less busy"
    assert str(told.value) == said
    assert not list(tmp_path.iterdir())


def test_a_cluster_of_another_python_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_session.require()
    import ray

    def other(**options: object) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Python: 3.11.7\nThis process:\n    Python: 3.11.2\n"
        )

    monkeypatch.setattr(ray, "init", other)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(MachineError, match=r"3\.11\.7 This process: .* the same Python$"), ray_session.session("here", 1, 1):
        pass
