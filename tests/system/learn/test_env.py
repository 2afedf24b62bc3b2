# SPDX-License-Identifier: Apache-2.0
"""The environment in labs: Gymnasium's own check, bit-equal episodes, resets that leave nothing, labs that die."""

import itertools
import os
import signal
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dc_gym.base.errors import AgentError, LabError, SpecError
from dc_gym.base.progress import Quiet
from dc_gym.learn import session
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.learn.registration import ANY, SPECS
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.runner import run
from dc_gym.spec import LARGEST_SEED

pytestmark = pytest.mark.lab
SPEC = SPECS["dcgym/Dumbbell10m-v0"] | {"agent": {"interval": "1ms", "reward": "thesis"}, "time": {"duration": "2s"}}
SHORT = ["time.duration=100ms"]
OF_CLASSES = "s1-eth3:backlog,s1-eth3:marks,s1-eth3:*:backlog,s1-eth3:*:marks,class:paused,kmin"


def trajectory(env, seed, steps, options=None):
    """Returns observations, rewards and infos of an episode of random actions; the actions are the same each time."""
    observation, info = env.reset(seed=seed, options=options)
    env.action_space.seed(seed)
    observations, rewards, infos = [observation], [], [info]
    for _ in range(steps):
        observation, reward, _, _, info = env.step(env.action_space.sample())
        observations.append(observation)
        rewards.append(reward)
        infos.append(info)
    return np.stack(observations), np.array(rewards), infos


def same(a, b):
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and a[2] == b[2]


@pytest.fixture
def env(tmp_path):
    environment = DataCenterEnv(SPEC, folder=tmp_path)
    yield environment
    environment.close()
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


def test_an_agent_sets_the_marking_of_a_class_and_sees_its_marks(tmp_path):
    """The flows are of the class rdma. Its threshold alone decides what is marked, and both classes have what was set."""
    classes = [{"name": name, "dscp": [dscp], "weight": 50} for name, dscp in (("tcp", 0), ("rdma", 26))]
    topology = {"kind": "dumbbell", "pairs": 2, "rate": "100Mbit/s", "delay": "10us", "buffer": "200kB"}
    plain = {
        "name": "two classes",
        "topology": topology | {"marking": "step", "k_bytes": "100kB", "classes": classes},
        "controller": {"name": "dctcp"},
        "agent": {"interval": "1ms", "actuators": "s1-eth3:*:marking", "observe": OF_CLASSES, "reward": "-drops"},
        "workload": {"kind": "pairs", "dscp": 26},
        "time": {"duration": "20ms"},
    }
    with closing(DataCenterEnv(plain, folder=tmp_path)) as environment:
        _, observer = environment.reset(seed=1), environment.episode.observer
        start, (rows,) = environment.session.scene.start, environment.session.scene.actuated
        assert rows.names == ("s1-eth3:tcp", "s1-eth3:rdma") and (environment.episode.frame.enforced == start).all()
        marked = {}
        for name, kmin in (("high", 200_000), ("low of tcp", 200_000), ("low", 3028)):
            markings = np.array([[3028 if "tcp" in name else 200_000, 200_000, 10**6], [kmin, max(kmin, 4000), 10**6]])
            action = environment.episode.action.from_values(markings.ravel())
            marked[name] = np.zeros(2)
            for _ in range(4):
                values = environment.unflatten(environment.step(action)[0])
                frame = environment.episode.frame
                assert np.allclose(frame.enforced, environment.episode.action.to_values(action), rtol=0, atol=0)
                assert np.array_equal(observer.observe(frame), np.concatenate(list(values.values())))
                marked[name] += values["s1-eth3:*:marks"]
                assert values["s1-eth3:*:backlog"][1] == values["s1-eth3:backlog"][0] > 0 == values["s1-eth3:*:backlog"][0]
                assert values["s1-eth3:marks"][0] == pytest.approx(values["s1-eth3:*:marks"].sum())
            assert values["kmin"] == pytest.approx(markings[:, 0] / 200_000, abs=1e-4)
        assert not marked["high"].any() and not marked["low of tcp"].any()
        assert marked["low"][1] > 0 == marked["low"][0]
        first, _ = environment.reset(seed=1)
        assert (environment.episode.frame.enforced == start).all(), "an episode begins with the marking of the spec"
        assert not environment.unflatten(first)["s1-eth3:*:backlog"].any()


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
    with pytest.raises(AgentError, match="reset first"):
        env.step(np.ones(4, np.float32))
    env.reset(seed=2)
    assert env.session.boots == 2
    env.step(np.ones(4, np.float32))


def test_what_is_wrong_is_said_in_one_line(env, tmp_path):
    for broken, message in (
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
        with pytest.raises(AgentError, match=message) as excinfo:
            broken()
        assert "\n" not in str(excinfo.value)
    with pytest.raises(SpecError, match="does not divide"):
        DataCenterEnv(SPEC, ["agent.interval=3ms"])
    env.reset(seed=1)
    with pytest.raises(AgentError, match=r"3 numbers.*4 values"):
        env.step(np.ones(3))
    with pytest.raises(AgentError, match="not a number"):
        env.step(np.full(4, np.nan))


def test_a_vector_of_labs_is_its_labs(tmp_path):
    keys = ["agent.interval=1ms", "agent.reward=thesis", "time.duration=2s"]
    labs = gymnasium.make_vec("dcgym/Dumbbell10m-v0", 2, "vector_entry_point", folder=tmp_path, overrides=keys)
    observations, infos = labs.reset(seed=3)
    assert infos["seed"].tolist() == [3, 4] and observations.shape == (2, *labs.single_observation_space.shape)
    actions = [np.random.default_rng(step).uniform(-1, 1, (2, 4)).astype(np.float32) for step in range(50)]
    steps = [labs.step(action) for action in actions]
    labs.close()
    for index, seed in enumerate((3, 4)):
        env = DataCenterEnv(SPEC, folder=tmp_path)
        assert np.array_equal(env.reset(seed=seed)[0], observations[index])
        for action, step in zip(actions, steps, strict=True):
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


def test_a_lab_of_a_vector_that_dies_in_a_reset_is_replaced_and_the_others_go_on(tmp_path):
    labs = LabVectorEnv(2, SPEC, ["time.duration=2ms", "workload.jitter=1ms"], folder=tmp_path)
    go = np.ones((2, 4), np.float32)
    labs.reset(seed=1)
    assert labs.sessions[0].experiment is labs.sessions[1].experiment, "what is equal is worked out once"
    labs.step(go)
    assert labs.step(go)[3].all()
    os.kill(labs.sessions[0].pid, signal.SIGKILL)
    _, _, terminated, truncated, infos = labs.step(go)
    assert not (terminated | truncated).any() and infos["_seed"].all() and "lab_died" not in infos
    assert [session.boots for session in labs.sessions] == [2, 1]
    labs.step(go)
    os.kill(labs.sessions[1].pid, signal.SIGKILL)
    labs.reset()
    assert [session.boots for session in labs.sessions] == [2, 2]
    labs.close()
    assert not list(tmp_path.iterdir())


def test_a_lab_of_a_vector_that_cannot_be_replaced_is_an_error_when_all_are_heard(tmp_path, monkeypatch):
    labs = LabVectorEnv(2, SPEC, SHORT, folder=tmp_path)
    labs.reset(seed=1)
    os.kill(labs.sessions[0].pid, signal.SIGKILL)
    with monkeypatch.context() as broken:
        broken.setattr(labs.sessions[0], "begin", raiser(LabError("no second one")))
        with pytest.raises(LabError, match="no second one"):
            labs.reset(seed=2)
    with pytest.raises(AgentError, match="reset first"):
        labs.step(np.ones((2, 4), np.float32))
    labs.reset(seed=3)
    assert [session.boots for session in labs.sessions] == [2, 1]
    labs.close()


def raiser(error):
    def call(*args, **kwargs):
        raise error

    return call


def test_a_vector_outlives_a_bad_action_and_a_failed_exchange(tmp_path, monkeypatch):
    labs = LabVectorEnv(2, SPEC, SHORT, folder=tmp_path)
    go = np.ones((2, 4), np.float32)
    with pytest.raises(AgentError, match="reset first"):
        labs.step(go)
    labs.reset(seed=1)
    bad = go.copy()
    bad[1, 2] = np.nan
    for actions, message in ((bad, "h3 is not a number"), (go[:1], "1 actions for 2 labs")):
        with pytest.raises(AgentError, match=message):
            labs.step(actions)
    labs.step(go)
    assert [episode.frame.step for episode in labs.episodes] == [1, 1], "nothing was posted before"
    with monkeypatch.context() as broken:
        broken.setattr(labs._stepper._library, "exchange", raiser(OSError("no room")))
        with pytest.raises(OSError, match="no room"):
            labs.step(go)
    with pytest.raises(AgentError, match="reset first"):
        labs.step(go)
    labs.reset(seed=2)
    labs.step(go)
    assert [episode.frame.step for episode in labs.episodes] == [1, 1]
    labs.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("latency", ["0s", "20ms", "25ms"])
def test_the_reward_is_of_the_command_that_was_in_force(tmp_path, latency):
    """The kernel's own rates, read back at the end of each step, show which command was in force."""
    keys = ["agent.interval=10ms", f"agent.latency={latency}", "agent.reward=action", "agent.action=linear"]
    env = DataCenterEnv(SPEC, keys, folder=tmp_path)
    env.reset(seed=1)
    actions = np.random.default_rng(1).uniform(-1, 1, (12, 4)).astype(np.float32)
    shares, enforced = [], [np.ones(4)]
    for step, action in enumerate(actions, 1):
        _, reward, _, _, info = env.step(action)
        frame, scene = env.episode.frame, env.episode.scene
        shares.append(scene.share(frame.in_force_bps))
        enforced.append(scene.share(frame.enforced_bps))
        assert reward == shares[-1].mean() and frame.t_ns == step * 10_000_000 and frame.elapsed_ns == 10_000_000
        assert info["wanted"] == pytest.approx(scene.share(env.episode.action.to_values(action)).mean())
    behind, late = {"0s": (0, 0), "20ms": (2, 0), "25ms": (2, 0.5)}[latency]
    expected = [late * before + (1 - late) * now for before, now in itertools.pairwise(enforced)]
    assert np.allclose(shares, expected, rtol=0, atol=1e-6)
    assert (np.array(shares[:behind]) == 1).all() and shares[behind].max() < 1
    if not late:
        commanded = [scene.share(env.episode.action.to_values(action)) for action in actions]
        assert np.array_equal(shares[behind:], commanded[: len(commanded) - behind])
    env.close()


POISSON = SPEC | {"workload": {"kind": "poisson", "load": 0.5, "size": "2kB"}, "time": {"duration": "50ms"}}


@pytest.fixture
def seeds():
    """Two seeds; the one with fewer flows comes first."""
    experiment = Experiment.of(as_spec(POISSON))
    return sorted((1, 2), key=lambda seed: len(experiment.episode(seed).schedule.flows))


def test_a_seed_with_more_flows_than_there_is_room_for_boots_anew(tmp_path, monkeypatch, seeds):
    monkeypatch.setattr(session, "_rows", lambda flows: flows)
    env = DataCenterEnv(POISSON, folder=tmp_path)
    for seed, boots in ((seeds[0], 1), (seeds[0], 1), (seeds[1], 2), (seeds[0], 2)):
        env.reset(seed=seed)
        assert env.session.boots == boots
        env.step(np.ones(4, np.float32))
    env.close()


def test_files_of_episodes_that_are_over_go(env):
    for seed in range(5):
        env.reset(seed=seed)
    private = env.session._folder / ".lab"
    names = sorted(file.name for pattern in ("flows*.records", "episode-*") for file in private.glob(pattern))
    assert env.session.boots == 1 and names == ["episode-3.json", "episode-4.json", "flows-3.records", "flows-4.records"]
    env.step(np.ones(4, np.float32))


def test_seeds_that_no_traffic_has_are_one_line_and_cost_nothing(env, tmp_path):
    env.reset(seed=LARGEST_SEED)
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    for broken in (
        lambda: env.reset(seed=LARGEST_SEED + 1),
        lambda: env.reset(seed=-1),
        lambda: env.session.begin(2**64),
        lambda: labs.reset(seed=LARGEST_SEED),
        lambda: labs.reset(seed=[1, 2**64]),
    ):
        with pytest.raises(AgentError, match=r"out of range; give 0 \.\. 9223372036854775807") as excinfo:
            broken()
        assert "\n" not in str(excinfo.value)
    assert [lab_session.boots for lab_session in labs.sessions] == [0, 0]
    env.step(np.ones(4, np.float32))
    assert env.session.boots == 1


def test_a_policy_in_a_run_is_scored_like_an_environment(tmp_path):
    from dc_gym.cli.main import main
    from dc_gym.results.results import load_result

    spec = tmp_path / "spec.toml"
    spec.write_text('[topology]\npreset = "dumbbell-10m"\n[workload]\nkind = "pairs"\n[time]\nduration = "500ms"\n')
    results = {}
    for policy in ("max", "fair-share"):
        out = tmp_path / policy
        assert main(["run", str(spec), "--set", f"controller={policy}", "--out", str(out), "--quiet", "--no-plot"]) == 0
        results[policy] = load_result(out)
        assert results[policy].fit and results[policy].derived("agent")["step"].to_pylist() == list(range(501))
    cubic, oracle = (results[name].manifest["agent"] for name in ("max", "fair-share"))
    assert oracle["queueing_delay_s"] < cubic["queueing_delay_s"] / 3 and oracle["goodput_bps"] > 0.9 * cubic["goodput_bps"]
    assert Path(tmp_path / "max" / "agent.parquet").is_file()


@pytest.mark.parametrize("workload", [{"kind": "pairs"}, {"kind": "pairs", "transport": "udp", "rate": "6Mbit/s"}])
def test_an_environment_and_a_run_with_its_seed_say_the_same_to_the_last_step(tmp_path, workload):
    """They agree at the last instant, too, when the traffic ends: no flow has stopped yet, and no FIN is on its way."""
    spec = SPEC | {"agent": {"interval": "10ms"}, "workload": workload, "time": {"duration": "300ms"}, "name": "both"}
    result = run(as_spec(spec, ["controller=max", "seed=3"]), tmp_path / "run", Quiet(), plot=False)
    agent = result.derived("agent")
    with closing(DataCenterEnv(spec, folder=tmp_path)) as env:
        env.reset(seed=3)
        steps = [env.step(np.ones(env.action_space.shape, np.float32)) for _ in range(30)]
    assert [reward for _, reward, _, _, _ in steps] == agent["reward"].to_pylist()[1:]
    assert steps[-1][-1]["flows"] == 2 and steps[-1][-1]["episode_totals"] == result.manifest["agent"]
