# SPDX-License-Identifier: Apache-2.0
"""The environment in labs: Gymnasium's own check, bit-equal episodes, resets that leave nothing, labs that die."""

import os
import signal
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dc_gym.envs.env import DataCenterEnv, as_spec
from dc_gym.envs.registration import ANY, SPECS
from dc_gym.envs.vector import LabVectorEnv
from dc_gym.errors import AgentError, LabError, SpecError

pytestmark = pytest.mark.lab
SPEC = SPECS["dcgym/Dumbbell10m-v0"] | {"agent": {"interval": "1ms"}, "time": {"duration": "2s"}}
SHORT = ["time.duration=100ms"]


def trajectory(env, seed, steps, options=None):
    """Observations, rewards and infos of an episode of random actions; the actions are the same each time."""
    observation, info = env.reset(seed=seed, options=options)
    env.action_space.seed(seed)
    seen, rewards, infos = [observation], [], [info]
    for _ in range(steps):
        observation, reward, _, _, info = env.step(env.action_space.sample())
        seen.append(observation)
        rewards.append(reward)
        infos.append(info)
    return np.stack(seen), np.array(rewards), infos


def same(a, b):
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and a[2] == b[2]


@pytest.fixture
def env(tmp_path):
    made = DataCenterEnv(SPEC, folder=tmp_path)
    yield made
    made.close()
    assert not list(tmp_path.iterdir()), "a closed environment leaves nothing"


@pytest.mark.filterwarnings("ignore:.*not within the observation space.*:UserWarning")
def test_every_registered_id_passes_gymnasiums_check():
    for name in SPECS:
        env = gymnasium.make(name, overrides=SHORT)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()


def test_any_spec_by_its_id(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        '[topology]\npreset = "dumbbell-10m"\n[controller]\nname = "dctcp"\n'
        '[workload]\nkind = "pairs"\n[time]\nduration = "20ms"\n'
    )
    env = gymnasium.make(ANY, spec=file, overrides=["agent.observe=thesis", "agent.action=thesis", "agent.hosts=senders"])
    observation, info = env.reset(seed=1)
    assert observation.shape == (12,) and env.action_space.shape == (2,) and info["seed"] == 1
    assert set(env.unwrapped.unflatten(observation)) == {"switch:backlog", "switch:backlog_change"}
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(20)]
    assert ends == [(False, False)] * 19 + [(False, True)]
    env.close()


def test_episodes_repeat_bit_for_bit_over_boots_and_a_reset_is_as_good_as_one(env, tmp_path):
    first, second = trajectory(env, 3, 200), trajectory(env, 4, 200)
    assert env.session.boots == 1
    assert not np.array_equal(first[0], second[0]), "each seed has traffic of its own"
    other = DataCenterEnv(SPEC, folder=tmp_path)
    assert same(second, trajectory(other, 4, 200)), "an episode after a reset is that of a fresh lab"
    other.close()
    assert same(first, trajectory(env, 3, 200, {"fresh": True})) and env.session.boots == 2


def test_the_reward_is_of_what_was_measured_after_the_action(env):
    env.reset(seed=1)
    floor = np.full(4, -1, np.float32)
    for _ in range(300):
        *_, info = env.step(np.ones(4, np.float32))
    assert info["switch_queue_bytes_max"] > 50_000
    _, reward, _, _, info = env.step(floor)
    queue = info["switch_queue_bytes_max"]
    assert env.episode.frame.enforced_bps.tolist() == [10_000] * 4 and info["enforced"] == pytest.approx(0.001)
    assert reward == pytest.approx(0.001 * (1 - 2 * queue / 400_000))


def test_seeds_of_later_resets_are_drawn_from_the_first(env, tmp_path):
    seeds = [env.reset(seed=7)[1]["seed"], *(env.reset()[1]["seed"] for _ in range(2))]
    again = [env.reset(seed=7)[1]["seed"], *(env.reset()[1]["seed"] for _ in range(2))]
    assert seeds == again and len(set(seeds)) == 3 and seeds[0] == 7


def test_an_episode_ends_as_terminated_when_all_flows_have(tmp_path):
    spec = SPEC | {"workload": {"kind": "pairs", "size": "20kB"}}
    env = DataCenterEnv(spec, folder=tmp_path)
    env.reset(seed=1)
    for _ in range(200):
        *_, terminated, truncated, info = env.step(np.ones(4, np.float32))
        if terminated or truncated:
            break
    assert terminated and not truncated
    totals = info["episode_totals"]
    assert totals["flows_ended"] == 2 and totals["slowdown_mean"] >= 1 and totals["steps"] == env.episode.frame.step
    env.close()


def test_a_lab_that_is_killed_is_an_error_and_the_next_reset_boots_another(env):
    env.reset(seed=1)
    env.step(np.ones(4, np.float32))
    os.kill(env.session.pid, signal.SIGKILL)
    with pytest.raises(LabError):
        env.step(np.ones(4, np.float32))
    assert env.session.pid is None
    env.reset(seed=2)
    assert env.session.boots == 2
    env.step(np.ones(4, np.float32))


def test_what_is_wrong_is_said_in_one_line(env, tmp_path):
    for broken, told in (
        (lambda: env.step(np.ones(4)), "reset first"),
        (lambda: env.reset(options={"frsh": True}), "'frsh' is unknown"),
        (lambda: DataCenterEnv(SPEC, ["agent.observe=backlg"]), "backlog"),
        (lambda: DataCenterEnv(SPEC, ["agent.reward=goodpt"]), "goodput"),
        (lambda: DataCenterEnv(SPEC, ["agent.action=linar"]), "linear"),
        (lambda: DataCenterEnv(SPEC, render_mode="human"), "dcgym watch"),
        (lambda: DataCenterEnv(as_spec(SPEC), ["agent.reward=goodput"]), "overrides"),
        (lambda: LabVectorEnv(0, SPEC), "num_envs"),
        (lambda: LabVectorEnv(2), "spec"),
    ):
        with pytest.raises(AgentError, match=told) as found:
            broken()
        assert "\n" not in str(found.value)
    with pytest.raises(SpecError, match="does not divide"):
        DataCenterEnv(SPEC, ["agent.interval=3ms"])
    env.reset(seed=1)
    with pytest.raises(AgentError, match="3 values for 4 hosts"):
        env.step(np.ones(3))
    with pytest.raises(AgentError, match="not a number"):
        env.step(np.full(4, np.nan))


def test_a_vector_of_labs_is_its_labs(tmp_path):
    keys = ["agent.interval=1ms", "time.duration=2s"]
    labs = gymnasium.make_vec("dcgym/Dumbbell10m-v0", 2, "vector_entry_point", folder=tmp_path, overrides=keys)
    observations, infos = labs.reset(seed=3)
    assert infos["seed"].tolist() == [3, 4] and observations.shape == (2, *labs.single_observation_space.shape)
    actions = [np.random.default_rng(step).uniform(-1, 1, (2, 4)).astype(np.float32) for step in range(50)]
    seen = [labs.step(action) for action in actions]
    labs.close()
    for index, seed in enumerate((3, 4)):
        env = DataCenterEnv(SPEC, folder=tmp_path)
        assert np.array_equal(env.reset(seed=seed)[0], observations[index])
        for action, step in zip(actions, seen, strict=True):
            observation, reward, *_ = env.step(action[index])
            assert np.array_equal(observation, step[0][index]) and reward == step[1][index]
        env.close()
    assert not list(tmp_path.iterdir())


def test_a_dead_lab_of_a_vector_is_replaced_and_the_others_go_on(tmp_path):
    labs = LabVectorEnv(2, SPEC, SHORT, folder=tmp_path)
    labs.reset(seed=1)
    go = np.ones((2, 4), np.float32)
    labs.step(go)
    os.kill(labs.sessions[0].pid, signal.SIGKILL)
    _, rewards, terminated, truncated, infos = labs.step(go)
    assert truncated.tolist() == [True, False] and not terminated.any() and infos["lab_died"][0]
    assert labs.episodes[1].frame.step == 2 and rewards[1] != 0
    _, _, _, truncated, infos = labs.step(go)
    assert not truncated.any() and labs.sessions[0].boots == 2 and labs.sessions[1].boots == 1
    assert [episode.frame.step for episode in labs.episodes] == [0, 3]
    labs.close()
    assert not list(tmp_path.iterdir())


def test_the_step_after_an_episodes_end_resets_that_lab(tmp_path):
    labs = LabVectorEnv(1, SPEC, ["time.duration=3ms", "workload.jitter=1ms"], folder=tmp_path)
    labs.reset(seed=1)
    ends = [labs.step(np.ones((1, 4), np.float32))[3][0] for _ in range(8)]
    assert ends == [False, False, True, False, False, False, True, False]
    labs.close()


def test_a_policy_in_a_run_is_scored_like_an_environment(tmp_path):
    from dc_gym.cli import main
    from dc_gym.results import load_result

    spec = tmp_path / "spec.toml"
    spec.write_text('[topology]\npreset = "dumbbell-10m"\n[workload]\nkind = "pairs"\n[time]\nduration = "500ms"\n')
    found = {}
    for policy in ("max", "fair-share"):
        out = tmp_path / policy
        assert main(["run", str(spec), "--set", f"controller={policy}", "--out", str(out), "--quiet", "--no-plot"]) == 0
        found[policy] = load_result(out)
        assert found[policy].fit and found[policy].derived("agent")["step"].to_pylist() == list(range(501))
    cubic, oracle = (found[name].manifest["agent"] for name in ("max", "fair-share"))
    assert oracle["queueing_delay_s"] < cubic["queueing_delay_s"] / 3 and oracle["goodput_bps"] > 0.9 * cubic["goodput_bps"]
    assert Path(tmp_path / "max" / "agent.parquet").is_file()
