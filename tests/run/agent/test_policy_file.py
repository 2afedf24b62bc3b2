# SPDX-License-Identifier: Apache-2.0
"""The envelope of policy files: one format for NICs' and agents' policies; what each reader refuses, and how it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.cli.main import main
from dc_gym.nets import nic_policy
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.nets.policy_file import PolicyFile, digest

EXAMPLE = Path(__file__).parents[3] / "examples" / "dumbbell.toml"
ONE = np.ones(1)
AGENT = AgentPolicy((np.ones((1, 1)),), (ONE,), -ONE, ONE, ("x",), ("h1",), provenance={"command": "dcgym train", "seed": 3})
RUN = ["--out", "{out}", "--quiet"]
NET = nic_policy.shipped("rlcc-mlp")


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    AGENT.write(tmp_path / "agent.npz")
    return tmp_path / "agent.npz"


def manifest_of(path: Path) -> dict[str, Any]:
    with np.load(path) as arrays:
        return dict(json.loads(str(arrays["manifest"])))


def changed(path: Path, **changes: Any) -> Path:
    """Writes the file again with another manifest, and the checksum that belongs to it."""
    with np.load(path) as stored:
        arrays = dict(stored)
    manifest = json.loads(str(arrays.pop("manifest"))) | changes
    manifest.pop("sha256", None)
    manifest["sha256"] = digest(manifest, arrays)
    out = path.with_name("changed.npz")
    np.savez(out, manifest=np.array(json.dumps(manifest)), **arrays)
    return out


def test_both_kinds_have_the_same_envelope(agent: Path) -> None:
    dense, mlp = manifest_of(agent), manifest_of(NET)
    assert dense.keys() == mlp.keys() == {"format", "version", "kind", "payload", "provenance", "sha256"}
    assert (dense["format"], dense["version"]) == (mlp["format"], mlp["version"]) == ("dcgym-policy", 2)
    assert dense["provenance"] == {"command": "dcgym train", "seed": 3}
    assert (mlp["provenance"]["command"], mlp["provenance"]["seed"]) == ("dcgym method rlcc train", 1)
    assert AgentPolicy.read(agent).sha256() == dense["sha256"] and NicPolicy.read(NET).sha256() == mlp["sha256"]


def test_a_policy_of_the_other_owner_is_refused_with_how_to_run_it(agent: Path, tmp_path: Path) -> None:
    with pytest.raises(AgentError) as excinfo:
        NicPolicy.read(agent)
    reason = "is a policy for an agent (kind 'dense', made by dcgym train), not for a NIC; run it with"
    assert str(excinfo.value) == f"{agent}: {reason} --set controller={agent}"
    with pytest.raises(AgentError) as excinfo:
        AgentPolicy.read(NET)
    reason = "is a policy for a NIC (kind 'mlp', made by dcgym method rlcc train), not for an agent; run it with"
    assert str(excinfo.value) == f"{NET}: {reason} --set controller=rlcc-mlp --set nic.policy={NET}"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["method", "rlcc", "explain", "{agent}"], "is a policy for an agent"),
        (["method", "rlcc", "distil", "{agent}", "--out", "{out}"], "is a policy for an agent"),
        (
            ["run", "{spec}", "--set", "controller=rlcc-mlp", "--set", "nic.policy={agent}", "--out", "{out}", "--quiet"],
            "nic.policy: ",
        ),
        (["run", "{spec}", "--set", "controller={net}", *RUN], "is a policy for a NIC"),
    ],
)
def test_commands_say_so_in_one_line(
    words: list[str], reason: str, agent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"agent": agent, "net": NET, "spec": EXAMPLE, "out": tmp_path / "out"}
    assert main([word.format(**places) for word in words]) == 2
    error = capsys.readouterr().err
    assert reason in error and "run it with --set" in error and len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "onnx"}, "format 'onnx', version 2; this version of dc-gym reads 'dcgym-policy', version 2"),
        ({"version": 3}, "format 'dcgym-policy', version 3; this version of dc-gym reads 'dcgym-policy', version 2"),
        ({"version": [1]}, "version [1]; this version of dc-gym reads"),
        ({"kind": "forest"}, "kind 'forest' is unknown; one of: dense, "),
        ({"kind": 7}, "'kind' of its manifest is no str"),
        ({"provenance": None}, "'provenance' of its manifest is no dict"),
        ({"payload": {}}, "of its manifest is no"),
    ],
)
@pytest.mark.parametrize("reader", [AgentPolicy, NicPolicy])
def test_an_envelope_that_cannot_be_read_is_one_line(
    changes: dict[str, Any], reason: str, reader: type[PolicyFile], agent: Path
) -> None:
    if "payload" in changes and reader is NicPolicy:
        reason, path = "something is missing or of the wrong type ('scaling')", changed(_copy(NET, agent), **changes)
    else:
        path = changed(agent, **changes)
    with pytest.raises(AgentError) as excinfo:
        reader.read(path)
    assert reason in str(excinfo.value) and str(excinfo.value).startswith(f"{path}: ") and "\n" not in str(excinfo.value)


def _copy(path: Path, to: Path) -> Path:
    to.write_bytes(path.read_bytes())
    return to


def test_a_file_that_was_changed_by_hand_is_refused(agent: Path) -> None:
    with np.load(agent) as stored:
        arrays = dict(stored)
    np.savez(agent, **arrays | {"b0": arrays["b0"] * 1.0001})
    with pytest.raises(AgentError, match="checksum"):
        AgentPolicy.read(agent)
