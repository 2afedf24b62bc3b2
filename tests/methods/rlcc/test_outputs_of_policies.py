# SPDX-License-Identifier: Apache-2.0
"""Where RL-CC's commands write policies: they replace their own output for the same inputs; anything else stays."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from dc_gym.cli import main
from dc_gym.methods.rlcc.offline import record_policies
from dc_gym.nets import nic_policy

CAT = b"a picture of my cat"


def test_policies_replace_only_those_of_the_same_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_policies, "policies", cache(record_policies.policies))  # made once, written thrice
    ours = nic_policy.shipped("rlcc-mlp").read_bytes()
    copied, out = tmp_path / "net.npz", tmp_path / "out.npz"
    copied.write_bytes(ours)
    words = ["method", "rlcc", "distil", str(copied), "--out"]
    assert main.main([*words, str(copied)]) == 2 and copied.read_bytes() == ours, "least of all the network itself"
    out.write_bytes(CAT)
    assert main.main([*words, str(out)]) == 2 and out.read_bytes() == CAT
    fit = ["method", "rlcc", "rebuild", "--out", str(tmp_path / "fit")]
    assert main.main(fit) == 0 == main.main(fit)
    outputs = sorted((tmp_path / "fit").iterdir())
    outputs[0].write_bytes(CAT)
    assert main.main(fit) == 2 and outputs[0].read_bytes() == CAT
    assert main.main([*fit, "--force"]) == 0


def test_a_deployment_is_of_one_policy(tmp_path: Path) -> None:
    folder, words = tmp_path / "mine", ["method", "rlcc", "export", "rlcc-tree", "--no-run", "--out"]
    assert main.main([*words, str(folder)]) == 0 == main.main([*words, str(folder)])
    words[3] = "rlcc-mlp"
    assert main.main([*words, str(folder)]) == 2
    assert main.main([*words, str(folder), "--force"]) == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    assert main.main([*words, str(tmp_path / "other")]) == 2
