# SPDX-License-Identifier: Apache-2.0
"""Policies made ready for the NIC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.cli.main import main
from dc_gym.ctrl.nic import algorithms
from dc_gym.methods.rlcc.offline import export
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.spec import load


def fitting(file: NicPolicy, folder: Path) -> dict[str, bool]:
    return {demand.what: demand.fits for demand in export.demands(file, algorithms.load(f"rlcc-{file.kind}", folder))}


def trees(count: int) -> NicPolicy:
    return NicPolicy(Trees(np.full((count, 4), 3), np.zeros((count, 4)), np.zeros((count, 16)), 1.0))


def test_what_fits_rl_cc_s_nic(tmp_path: Path) -> None:
    assert all(fitting(trees(30), tmp_path).values())
    assert [demand for demand, fits in fitting(trees(31), tmp_path).items() if not fits] == ["operations a decision"]
    net = fitting(nic_policy.load("rlcc-mlp"), tmp_path)
    assert [demand for demand, fits in net.items() if not fits] == ["operations a decision", "time of a decision"]


def test_the_folder_has_a_spec_that_runs_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees(3).write(tmp_path / "mine.npz")
    argv = ["method", "rlcc", "export", str(tmp_path / "mine.npz"), "--no-run", "--flows", "4", "--latency", "9us"]
    for _ in range(2):  # a second time, over the first
        assert main([*argv, "--out", str(tmp_path / "out")]) == 0
    stdout = capsys.readouterr().out
    assert 'controller.name = "rlcc-tree"' in stdout and "15 " in stdout and "DOES NOT FIT" not in stdout
    spec = load(tmp_path / "out" / "experiment.toml")
    assert spec.nic.policy == tmp_path / "out" / "policy.npz" and spec.nic.latency_ns == 9000
    assert NicPolicy.read(spec.nic.policy).sha256() == trees(3).sha256()
    assert main([*argv[:3], str(tmp_path / "out" / "policy.npz"), "--no-run", "--out", str(tmp_path / "out")]) == 0  # in place


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--flows", "0"], "--flows 0"), (["--latency", "soon"], "--latency"), (["--out", "/proc/nowhere"], "/proc/nowhere")],
)
def test_what_cannot_be_is_said_in_one_line(capsys: pytest.CaptureFixture[str], more: list[str], message: str) -> None:
    assert main(["method", "rlcc", "export", "rlcc-tree", "--no-run", *more]) == 2
    words = capsys.readouterr().err
    assert message in words and words.count("\n") == 1
