# SPDX-License-Identifier: Apache-2.0
"""Former names: each is refused in one line that gives the new one, and CHANGELOG.md lists it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_gym.base import renamed
from dc_gym.base.errors import AgentError, SpecError, UsageError
from dc_gym.base.renamed import MODULES, RENAMED
from dc_gym.cli.main import main
from dc_gym.methods.rlcc.flows import FlowsConfig
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.nets.policy_file import Payload
from dc_gym.rl import settings
from dc_gym.spec import load

ROOT = Path(__file__).parents[1]


def test_the_changelog_has_a_row_for_each_name():
    text = (ROOT / "CHANGELOG.md").read_text()
    rows = {
        tuple(cell.strip().strip("`") for cell in line.strip("|").split("|"))
        for line in text[text.index("## Renamed") :].splitlines()
        if line.startswith("| ")
    }
    names = {(old, new, place) for place, table in RENAMED.items() if place != MODULES for old, new in table.items()}
    assert names <= rows


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "fluid", "--agents", "flows", "--out", "x"], "SPEC fluid: it is dcgym train --agents flows now"),
        (["train", "lab", "--agents", "flows", "--algo", "RLCC", "--out", "x"], "SPEC lab: it is dcgym rlcc train now"),
        (["nic", "fit"], "'fit': it is rebuild now"),
        (["rlcc", "train", "--on", "fluid", "--out", "x"], "--on: it is --ground now"),
        (["rlcc", "train", "--episode=5", "--out", "x"], "--episode: it is --updates-per-episode now"),
        (["rlcc", "train", "--free-running", "--out", "x"], "--free-running: it is --asynchronous now"),
        (["rlcc", "distil", "rlcc-mlp", "--by", "own", "--out", "x"], "--by: it is --fitter now"),
        (["rlcc", "distil", "rlcc-mlp", "--band", "3", "--out", "x"], "--band: it is --near-weight now"),
        (["rlcc", "distil", "rlcc-mlp", "--from", "lasting", "--out", "x"], "--from lasting: it is persistent now"),
        (["train", "--agents", "flows", "--algo", "rlcc", "--out", "x"], "--algo rlcc: it is dcgym rlcc train now"),
    ],
)
def test_an_old_name_is_one_line_with_the_new_one(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as exit:  # argparse's
        code = exit.code
    last = capsys.readouterr().err.splitlines()[-1]
    assert code == 2 and said in last and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--out", "x"], "SPEC is missing; give a TOML file, or --agents flows"),
        (["train", "a.toml", "--agents", "flows", "--out", "x"], "SPEC a.toml: --agents flows trains on RL-CC's fluid model"),
    ],
)
def test_a_spec_belongs_to_agents_other_than_flows(words, said, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_an_old_key_of_a_spec_is_one_line_with_the_new_one(monkeypatch):
    monkeypatch.setitem(RENAMED, "spec", {"topology.rates": "topology.rate"})
    with pytest.raises(SpecError, match=r"topology\.rates: unknown key; it is topology\.rate now"):
        load(ROOT / "examples" / "dumbbell.toml", ["topology.rates=1Gbit/s"])


def test_an_old_field_of_an_environment_is_one_line_with_the_new_one():
    with pytest.raises(AgentError, match="FlowsConfig: most_error is unknown; it is max_error now"):
        FlowsConfig.of({"most_error": 3.0})
    with pytest.raises(AgentError, match="FlowsConfig: flow is unknown; did you mean flows"):
        FlowsConfig.of({"flow": (2,)})


def test_an_old_key_of_a_configuration_is_one_line_with_the_new_one(tmp_path):
    (tmp_path / "train.toml").write_text("[run]\nkeep = 5\n")
    with pytest.raises(UsageError, match=r"\[run\] keep is unknown; it is keep_checkpoints now"):
        settings.read(tmp_path / "train.toml", "PPO", {})


def test_a_name_that_was_never_used_has_no_new_one():
    assert renamed.hint("dcgym train SPEC", "examples/dumbbell.toml") == "" == renamed.hint("dcgym none", "fluid")


def test_an_old_key_of_a_policy_file_is_one_line_with_the_new_one(tmp_path):
    class Former(NicPolicy):
        def to_payload(self) -> Payload:
            found = super().to_payload()
            scaling = {"reach" if name == "max_error" else name: value for name, value in found.entries["scaling"].items()}
            return Payload({"scaling": scaling}, found.arrays)

    shipped = NicPolicy.read(nic_policy.shipped("rlcc-mlp"))
    Former(shipped.policy, shipped.scaling).write(tmp_path / "former.npz")
    with pytest.raises(AgentError, match="reach in its scaling: it is max_error now"):
        NicPolicy.read(tmp_path / "former.npz")
