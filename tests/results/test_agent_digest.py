# SPDX-License-Identifier: Apache-2.0
"""The digest of agents: rewards, actions and learned states, beside the digest of the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic

from dc_gym.base.errors import ResultError
from dc_gym.base.npz import write_arrays
from dc_gym.base.progress import Quiet
from dc_gym.cli import main
from dc_gym.cli.verify import verify
from dc_gym.results.agent_digest import agent_digest, agent_digest_of, first_agent_difference
from dc_gym.results.folder import LEARNED
from dc_gym.results.results import Result, load_result, write_derived
from dc_gym.run import runner
from dc_gym.spec import load

TABLE = {
    "step": np.arange(3, dtype=np.uint32),
    "t_ns": np.arange(3, dtype=np.int64) * 10,
    "reward": np.array([0.0, 0.5, np.nan]),
    "wanted_bps_h1": np.array([1e6, 2e6, 3e6]),
}
NETS = {"weights": np.arange(6.0).reshape(2, 3), "steps": np.array(7)}
RANDOM = """
import os
from dc_gym.run.agent import reward
reward.register("luck", (0, 1), "random", lambda frame, scene, share: os.urandom(1)[0] / 255, flows=False)
"""
SPEC = """
spec_version = 1
plugins = ["luck.py"]
topology.preset = "dumbbell-10m"
controller.policy = "max"
agent = { interval = "10ms", reward = "luck" }
workload.kind = "pairs"
time.duration = "50ms"
"""


def changed(arrays: dict[str, Any], name: str, index: Any, value: float) -> dict[str, Any]:
    other = {key: values.copy() for key, values in arrays.items()}
    other[name][index] = value
    return other


def made(folder: Path, table: dict[str, Any] = TABLE, nets: dict[str, Any] | None = NETS) -> Result:
    """Returns a result in which an agent acted. The records are always the same."""
    result = synthetic.result(folder, agent_digest=agent_digest(table, nets or {}))
    write_derived(folder, "agent", table)
    if nets:
        write_arrays(folder / LEARNED, nets)
    return result


def test_the_files_have_the_digest_of_the_arrays(tmp_path: Path) -> None:
    assert made(tmp_path / "a").agent_digest == agent_digest(TABLE, NETS)
    assert made(tmp_path / "b", nets=None).agent_digest == agent_digest(TABLE, {})
    assert agent_digest_of(synthetic.result(tmp_path / "c").path) == ""


@pytest.mark.parametrize("name", TABLE)
def test_every_column_counts(name: str) -> None:
    assert agent_digest(changed(TABLE, name, 1, 77), NETS) != agent_digest(TABLE, NETS)


def test_learned_states_names_types_and_shapes_count() -> None:
    others = [
        changed(NETS, "weights", (1, 2), 5.5),
        NETS | {"weights": NETS["weights"].reshape(3, 2)},
        NETS | {"weights": NETS["weights"].astype(np.float32)},
        {"weight": NETS["weights"], "steps": NETS["steps"]},
        {},
    ]
    digests = {agent_digest(TABLE, nets) for nets in (NETS, *others)}
    assert len(digests) == 1 + len(others)
    assert agent_digest(TABLE, {name: values.astype(values.dtype.newbyteorder(">")) for name, values in NETS.items()}) in digests


@pytest.mark.parametrize(
    ("table", "nets", "words"),
    [
        (changed(TABLE, "reward", 1, 0.25), NETS, "agent.parquet, step 1 at t = 10 ns: reward 0.5 and 0.25 (row 1)"),
        ({name: values[:2] for name, values in TABLE.items()}, NETS, "agent.parquet: 3 and 2 steps"),
        ({name: TABLE[name] for name in ("step", "t_ns", "reward")}, NETS, "agent.parquet: other columns: wanted_bps_h1"),
        (TABLE, changed(NETS, "weights", (1, 0), 9.5), "learned.npz: weights[1, 0] is 3.0 and 9.5"),
        (TABLE, None, "learned.npz: only A has weights"),
    ],
)
def test_the_first_difference_is_named(tmp_path: Path, table: Any, nets: Any, words: str) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", table, nets)
    assert first_agent_difference(a.path, b.path) == words
    comparison = verify.compare(a, b)
    assert (comparison.same, comparison.digest_a) == (False, comparison.digest_b) and words in "\n".join(comparison.lines())


def test_verify_tells_other_rewards_of_equal_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", changed(TABLE, "reward", 2, 1.5))
    assert main.main(["verify", str(a.path), "--against", str(b.path), "--quiet"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        f"different agents, digests {a.agent_digest} and {b.agent_digest}",
        "  first difference: agent.parquet, step 2 at t = 20 ns: reward nan and 1.5 (row 2)",
        f"equal records, digest {a.digest}",
    ]
    assert main.main(["verify", str(a.path), "--against", str(made(tmp_path / "c").path), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent_digest_b"] == a.agent_digest


def test_a_changed_table_of_agents_is_refused(tmp_path: Path) -> None:
    a = made(tmp_path / "a")
    write_derived(a.path, "agent", changed(TABLE, "reward", 1, 1.0))
    with pytest.raises(ResultError, match=r"agent\.parquet and learned\.npz .*digest \w+, the manifest .*\w+"):
        load_result(a.path, check_digest=True)


@pytest.mark.lab
@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(("reward", "code"), [("luck", 1), ("goodput", 0)])
def test_a_random_reward_is_not_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str], reward: str, code: int) -> None:
    (tmp_path / "luck.py").write_text(RANDOM)
    (tmp_path / "spec.toml").write_text(SPEC.replace('"luck" }', f'"{reward}" }}'))
    result = runner.run(load(tmp_path / "spec.toml"), tmp_path / "a", Quiet(), plot=False)
    rewards = result.derived("agent").column("reward").to_pylist()  # type: ignore[union-attr]
    assert result.summary["return"] == pytest.approx(sum(rewards))
    assert main.main(["verify", str(result.path), "--trust", "--quiet"]) == code
    assert ("first difference: agent.parquet, step 1" in capsys.readouterr().out) == bool(code)
