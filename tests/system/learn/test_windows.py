# SPDX-License-Identifier: Apache-2.0
"""Agents that set windows, clamps and pacing rates of flows, in labs: what the flows do with them, and that episodes repeat."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.base.progress import Quiet
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.multi_agent import Agents
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run.agent.frame import Frame
from dc_gym.run.runner import run
from dc_gym.spec import load

pytestmark = pytest.mark.lab
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MSS, RATE_BPS = 1448, 100_000_000
SPEC: dict[str, Any] = {
    "name": "windows",
    "topology": {"kind": "dumbbell", "pairs": 1, "rate": "100Mbit/s", "delay": "1ms", "buffer": "400kB"},
    "controller": {"name": "agent"},
    "agent": {"interval": "20ms", "actuators": "cwnd", "observe": "tcp_info,aurora,window"},
    "workload": {"kind": "pairs"},
    "time": {"duration": "2s"},
}
CLAMP = ["controller.name=cubic", "agent.actuators=clamp", "agent.observe=tcp_info,clamp", "agent.largest_window=1000"]


def frames(values: Any, overrides: list[str] = [], steps: int = 100, seed: int = 1) -> list[Frame]:  # noqa: B006
    """Returns the frames of an episode in which the agent sets these values in each step: one for all, or a function of the
    step."""
    with closing(DataCenterEnv(SPEC, overrides)) as env:
        env.reset(seed=seed)
        seen = []
        for step in range(steps):
            wanted = np.broadcast_to(values(step) if callable(values) else values, env.episode.action.bound.shape)
            *_, terminated, truncated, _ = env.step(env.episode.action.from_values(wanted))
            assert env.episode.frame is not None
            seen.append(env.episode.frame)
            if terminated or truncated:
                break
        return seen


def rate_bps(seen: list[Frame]) -> np.ndarray[Any, Any]:
    """Returns the flows' payload rates over the last three quarters of an episode."""
    first, last = seen[len(seen) // 4], seen[-1]
    received = last.flows["received_bytes"].astype(float) - first.flows["received_bytes"]
    return received * 8e9 / (last.t_ns - first.t_ns)


@pytest.mark.parametrize("window", [10, 25])
def test_a_constant_window_gives_the_throughput_of_window_over_round_trip(window: int) -> None:
    seen = frames(window)
    rtt_s = seen[-1].info.base_rtt_ns[0] / 1e9 + 1514 * 8 / RATE_BPS  # an ACK is for two frames, and waits for the second
    assert rate_bps(seen)[0] == pytest.approx(window * MSS * 8 / rtt_s, rel=0.02)
    assert {frame.enforced.item() for frame in seen} == {window}, "nothing was lost, so what is read back is what was set"
    assert {int(frame.flows["cwnd_packets"][0]) for frame in seen[1:]} == {window}


def test_the_window_follows_the_agent_at_once() -> None:
    seen = frames(lambda step: 10 + step % 30)
    assert [frame.enforced.item() for frame in seen] == [10 + step % 30 for step in range(100)]


def test_a_clamp_of_half_the_product_halves_cubics_rate() -> None:
    free = frames(1000, CLAMP)
    product = RATE_BPS * free[-1].info.base_rtt_ns[0] / 8e9 / 1514
    half = frames(round(product / 2), CLAMP)
    assert rate_bps(free)[0] == pytest.approx(RATE_BPS * MSS / 1514, rel=0.01)
    assert rate_bps(half)[0] == pytest.approx(rate_bps(free)[0] / 2, rel=0.03)
    assert {frame.enforced.item() for frame in half} == {round(product / 2)}
    assert max(frame.flows["cwnd_packets"][0] for frame in half) == round(product / 2)


def test_a_pacing_rate_is_what_a_flow_sends() -> None:
    seen = frames(20e6, ["controller.name=cubic", "agent.actuators=pacing", "agent.observe=pacing"])
    assert rate_bps(seen)[0] == pytest.approx(20e6, rel=0.01)
    assert {frame.enforced.item() for frame in seen} == {20e6}


def test_a_loss_lowers_the_window_and_the_kernel_recovers() -> None:
    window = 40
    seen = frames(window, ["topology.loss=0.1%", "agent.interval=2ms"], steps=1000)
    enforced = np.array([frame.enforced.item() for frame in seen])
    assert seen[-1].flows["retransmits"][0] > 0
    assert enforced.min() < window and enforced.max() == window, "in a recovery the window is below what was set"
    assert {frame.wanted.item() for frame in seen} == {window}
    lowered = np.flatnonzero((enforced[:-1] < window) & (enforced[1:] == window))
    assert len(lowered) > 1, "each recovery ends at what was set"
    assert rate_bps(seen)[0] > 0.5 * window * MSS * 8e9 / seen[-1].info.base_rtt_ns[0]


def test_two_actuators_of_one_flow() -> None:
    overrides = ["controller.name=bbr", "agent.actuators=pacing,clamp", "agent.observe=pacing,clamp", "topology.pairs=2"]
    seen = frames([10e6, 20e6, 15, 30], overrides)
    assert seen[-1].enforced.tolist() == [10e6, 20e6, 15, 30]
    assert (rate_bps(seen) <= [10.1e6, 20.2e6]).all()


def test_the_example_keeps_cubics_goodput_without_its_queue(tmp_path: Path) -> None:
    results = {}
    for policy in ("max", "orca"):
        loaded = load(EXAMPLES / "orca.toml", [f"controller.policy={policy}", "time.duration=2s", "time.warmup=500ms"])
        results[policy] = run(loaded, tmp_path / policy, Quiet(), plot=False).summary
    assert results["orca"]["goodput_bps"] > 0.98 * results["max"]["goodput_bps"]
    assert results["orca"]["mean_srtt_us"] < 0.5 * results["max"]["mean_srtt_us"]


# --- episodes


def trajectory(env: DataCenterEnv, seed: int, **options: Any) -> tuple[Any, ...]:
    """Returns the observations and rewards of an episode of random actions, and the windows that were read back."""
    observation, _ = env.reset(seed=seed, options=options or None)
    env.action_space.seed(seed)
    observations, rewards, enforced = [observation], [], []
    for _ in range(30):
        observation, reward, *_ = env.step(env.action_space.sample())
        assert env.episode.frame is not None
        observations.append(observation)
        rewards.append(reward)
        enforced.append(env.episode.frame.enforced.copy())
    return np.stack(observations), np.array(rewards), np.stack(enforced)


JITTER = ["topology.pairs=2", "workload.jitter=50ms", "topology.buffer=60kB"]
BOTH = ["cwnd", "clamp"]


@pytest.mark.parametrize("actuator", BOTH)
def test_an_episode_after_a_reset_is_that_of_a_fresh_lab(actuator: str) -> None:
    overrides = [*JITTER, f"agent.actuators={actuator}", "agent.observe=tcp_info,aurora"]
    with closing(DataCenterEnv(SPEC, overrides)) as env, closing(DataCenterEnv(SPEC, overrides)) as other:
        trajectory(env, 3)
        second = trajectory(env, 4)
        assert env.session.boots == 1
        for ours, theirs in zip(second, trajectory(other, 4), strict=True):
            assert np.array_equal(ours, theirs)
        assert second[2].min() == 0 < second[2].max(), "before a flow starts, it has no window"


def test_vectors_equal_single_environments() -> None:
    """Also with commands that take some time."""
    for overrides in (JITTER, [*JITTER, "agent.latency=7ms"]):
        with closing(LabVectorEnv(2, SPEC, overrides)) as labs, closing(DataCenterEnv(SPEC, overrides)) as env:
            seen = [labs.reset(seed=[5, 6])[0]]
            env.action_space.seed(5)
            actions = [env.action_space.sample() for _ in range(30)]
            rewards = []
            for action in actions:
                observations, reward, *_ = labs.step(np.stack([action, action]))
                seen.append(observations)
                rewards.append(reward[0])
            expected = trajectory(env, 5)
            assert np.array_equal(np.stack(seen)[:, 0], expected[0]) and np.array_equal(rewards, expected[1])


# --- many agents


def test_a_flow_that_has_ended_is_masked() -> None:
    """Two flows of 300 kB: one ends while the other runs."""
    overrides = [
        "topology.pairs=2",
        "agent.agents=flows",
        "workload.size=300kB",
        "workload.jitter=300ms",
        "agent.observe=tcp_info,window",
    ]
    agents = Agents(SPEC, [*overrides, "agent.reward_scope=own"])
    with closing(agents):
        assert agents.names == ("flow0", "flow1")
        turn = agents.begin(seed=2)
        running = []
        while not (turn.terminated or turn.truncated):
            frame = agents.episode.frame
            assert frame is not None
            mask = frame.under_way
            running.append(mask.tolist())
            for number, name in enumerate(agents.names):
                seen = turn.observations[name]
                assert (seen[0] == 1) == mask[number] and (mask[number] or not seen.any())
                assert mask[number] == (frame.enforced[number] > 0)
            turn = agents.step({"flow0": [0.0], "flow1": [0.5]})
    assert [True, False] in running or [False, True] in running


def test_hosts_and_the_network_set_windows_too() -> None:
    for kind, names in (("hosts", ("h1", "h2")), ("flows", ("flow0", "flow1"))):
        with closing(Agents(SPEC, ["topology.pairs=2", "agent.observe=backlog,flow:srtt"], agents=kind)) as agents:
            assert agents.names == names
            agents.begin(seed=1)
            for _ in range(5):
                agents.step({name: [0.0 if name == names[0] else 1.0] for name in names})
            frame = agents.episode.frame
            assert frame is not None and frame.enforced[0] < frame.enforced[1]


def test_an_episode_has_at_most_as_many_flows_as_agents_set() -> None:
    overrides = ["workload.kind=poisson", "workload.load=0.3", "workload.size=20kB", "time.duration=100ms"]
    with closing(DataCenterEnv(SPEC, overrides)) as env:
        settable, counts = len(env.session.scene.flow_row), []
        with pytest.raises(AgentError, match=f"agents set {settable}; give agent.flows = "):
            for seed in range(50):
                env.reset(seed=seed)
                env.step(env.action_space.sample())
                frame = env.episode.frame
                assert frame is not None
                counts.append(len(frame.info))
                assert not frame.enforced[counts[-1] :].any(), "flows that are not there have no window"
        assert counts and min(counts) < settable, "an episode with fewer flows is one"
