# SPDX-License-Identifier: Apache-2.0
"""RLlib writes the episodes of a training in labs, each once, and behaviour cloning reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgpack
import msgpack_numpy
import numpy as np
import pytest
from pyarrow import parquet

from dc_gym.learn.tasks import find
from dc_gym.nets.agent_policy import AgentPolicy

EXAMPLE = Path(__file__).parents[3] / "examples" / "behaviour_cloning.py"
TASK = find("ChangingLink")
CONFIG = """
[run]
evaluate_episodes = 0
labs = 2
[training]
train_batch_size_per_learner = 200
[reporting]
min_sample_timesteps_per_iteration = 200
[env_runners]
batch_mode = "complete_episodes"
[offline_data]
output = "episodes"
output_max_rows_per_file = 2
"""


@pytest.mark.lab
def test_a_net_learns_from_the_episodes_of_a_training(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    (tmp_path / "output.toml").write_text(CONFIG)

    def run(*words: str) -> str:
        process = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        return process.stdout

    run("-m", "dc_gym.cli.main", "train", TASK.id, "--config", "output.toml", "--steps", "400", "--out", "ppo")
    packed = [one for file in tmp_path.glob("episodes/**/*.parquet") for one in parquet.read_table(file)["item"].to_pylist()]
    states = [msgpack.unpackb(one, object_hook=msgpack_numpy.decode, strict_map_key=False) for one in packed]
    assert len({state["id_"] for state in states}) == len(states) == 4
    for state in states:
        assert state["is_truncated"] and state["t_started"] == 0 and len(state["rewards"]["data"]) == 100
        assert {part.dtype for part in state["observations"]["data"]} == {np.dtype(np.float32)}
    assert run(str(EXAMPLE), "episodes", TASK.id).startswith("episodes     3 learnt, 1 others")
    assert AgentPolicy.read(tmp_path / "clone.npz").provenance["task"] == TASK.id
