# SPDX-License-Identifier: Apache-2.0
"""Episodes with drawn values: in vectors as in single environments, and as runs in which the values are set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.base.progress import Quiet
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.learn.multi_agent import Agents
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run import runner
from dc_gym.spec import FIRST_HELD_OUT, from_dict

pytestmark = pytest.mark.lab
SPEC: dict[str, Any] = {
    "topology": {"preset": "dumbbell-10m"},
    "controller": {"name": "cubic"},
    "agent": {"interval": "10ms", "observe": "default,srtt,s1-*:capacity", "history": 2},
    "workload": {"kind": "poisson", "load": 0.5, "size": "20kB"},
    "events": [{"at": "100ms", "link": ["s1", "s2"], "rate": "5Mbit/s", "loss": "1%"}],
    "time": {"duration": "400ms"},
    "monitor": {"interval": "10ms"},
    "episodes": {
        "draw": {
            "workload.load": {"uniform": [0.3, 0.9]},
            "workload.size": {"log_uniform": ["2kB", "50kB"]},
            "events[0].rate": {"uniform": ["2Mbit/s", "9Mbit/s"]},
            "events[0].at": {"uniform": ["50ms", "200ms"]},
            "agent.observation_delay": {"choice": [0, 1, 3]},
            "agent.observation_loss": {"uniform": [0.05, 0.3]},
        }
    },
}
STEPS, SEEDS = 40, [3, 4, 5]


def test_a_vector_draws_as_its_single_environments_do(tmp_path: Path) -> None:
    labs, one = LabVectorEnv(3, SPEC, folder=tmp_path), DataCenterEnv(SPEC, folder=tmp_path)
    actions = np.random.default_rng(1).uniform(-1, 1, (STEPS, 3, *labs.single_action_space.shape)).astype(np.float32)
    first, info = labs.reset(seed=SEEDS)
    steps = [labs.step(action) for action in actions]
    labs.close()
    for lab, seed in enumerate(SEEDS):
        observation, own_info = one.reset(seed=seed)
        drawn = {name: values[lab] for name, values in info["drawn"].items() if not name.startswith("_")}
        assert own_info["drawn"] == drawn == as_spec(SPEC).drawn(seed)
        assert np.array_equal(observation, first[lab])
        for action, (observations, rewards, *_) in zip(actions, steps, strict=True):
            observation, reward, *_ = one.step(action[lab])
            assert np.array_equal(observation, observations[lab]) and reward == rewards[lab]
    assert one.session.boots == 1
    one.close()


def test_an_episode_is_the_run_in_which_its_values_are_set_by_hand(tmp_path: Path) -> None:
    """Also record by record, and in an environment that has had other episodes before."""
    tmp_path.chmod(0o755)
    drawing = as_spec(SPEC | {"seed": 4}, ["controller.policy=max"])
    plain = drawing.to_dict()
    del plain["episodes"]
    for name, value in drawing.drawn(4).items():
        section, _, last = name.partition(".")
        (plain["events"][0] if section == "events[0]" else plain[section])[last] = value
    by_hand = runner.run(from_dict(plain, tmp_path), tmp_path / "hand", Quiet(), plot=False)
    drawn = runner.run(drawing, tmp_path / "drawn", Quiet(), plot=False)
    assert drawn.digest == by_hand.digest and drawn.manifest["agent_digest"] == by_hand.manifest["agent_digest"]
    assert drawn.manifest["drawn"] == drawing.drawn(4) and "drawn" not in by_hand.manifest
    env = DataCenterEnv(SPEC, folder=tmp_path)
    for seed in (7, 8, 4):
        env.reset(seed=seed)
        rewards = [env.step(np.ones(env.action_space.shape))[1] for _ in range(STEPS)]
    assert rewards == pq.read_table(by_hand.path / "agent.parquet")["reward"].to_pylist()[1:]
    env.close()


def test_observations_are_delayed_alone_and_for_each_agent(tmp_path: Path) -> None:
    """Rewards and frames stay, and without losses each observation is the one of the step before."""
    steady = SPEC | {"episodes": {}}
    seen = []
    for overrides in ([], ["agent.observation_delay=1"]):
        env = DataCenterEnv(steady, overrides, folder=tmp_path)
        first, _ = env.reset(seed=1)
        turns = [env.step(np.zeros(env.action_space.shape)) for _ in range(9)]
        agents = Agents(steady, overrides, agents="hosts", folder=tmp_path)
        results = [agents.begin(1), *(agents.step({name: [0.0] for name in agents.names}) for _ in range(9))]
        hosts = [result.observations["h1"] for result in results]
        seen.append(([first, *(turn[0] for turn in turns)], [turn[1] for turn in turns], hosts))
        env.close()
        agents.close()
    (now, rewards, hosts), (late, late_rewards, late_hosts) = seen
    assert rewards == late_rewards and not np.array_equal(now[1:], now[:-1])
    assert np.array_equal(late, [now[0], *now[:-1]]) and np.array_equal(late_hosts, [hosts[0], *hosts[:-1]])


def test_held_out_episodes_are_no_training_episodes(tmp_path: Path) -> None:
    training, held_out = (DataCenterEnv(SPEC, overrides, folder=tmp_path) for overrides in ([], ["episodes.split=held-out"]))
    drawn = [[env.reset(seed=seed)[1]["seed"] for seed in (1, None)] for env in (training, held_out)]
    assert max(drawn[0]) < FIRST_HELD_OUT == drawn[1][0] - 1 and drawn[1][1] == drawn[0][1] + FIRST_HELD_OUT
    with pytest.raises(AgentError, match=f"seed {FIRST_HELD_OUT + 1} is of a held-out episode"):
        training.reset(seed=FIRST_HELD_OUT + 1)
    training.close()
    held_out.close()
    labs = LabVectorEnv(2, SPEC, ["episodes.split=held-out"], folder=tmp_path)
    assert labs.reset(seed=1)[1]["seed"].tolist() == [FIRST_HELD_OUT + 1, FIRST_HELD_OUT + 2]
    labs.close()
