# SPDX-License-Identifier: Apache-2.0
"""Flows as rows of actuators and as agents: bounds, names, features by hand, masks, views, and what is refused."""

from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.run.agent.agent_observation import observer_of
from dc_gym.run.agent.agents import divide
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Observer
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.scene import Scene
from dc_gym.run.agent.view import View
from tests.run.agent.made import DONE, RUNNING, experiment, flows, frame, scene

AGENT = ('controller.name="agent"', 'controller.policy="max"', 'agent.actuators="cwnd"')


def sets(*overrides: str) -> tuple[Scene, Any]:
    return scene(*AGENT, *overrides)


def half_over(info: Any) -> Frame:
    """The first flow runs, with a round trip of twice the base; the second has ended."""
    first = {
        "status": RUNNING,
        "srtt_us": 7704,
        "min_rtt_us": 3852,
        "cwnd_packets": 4,
        "received_bytes": 14480,
        "acked_bytes": 14480,
    }
    first |= {"retransmits": 10, "rate_bps": 5_000_000}
    second = first | {"status": DONE}
    now, before = flows(first, second), flows({"status": RUNNING, "srtt_us": 5704}, {"status": RUNNING})
    return frame(info, flows=now, flows_before=before, enforced=np.array([4.0, 0.0]), wanted=np.array([4.0, 9.0]))


def test_the_bounds_of_windows_and_rates() -> None:
    """10 Mbit/s x 3.852 ms are 4815 bytes; the buffer is 400 kB, and a frame 1514 bytes."""
    lab_scene, _ = sets('agent.actuators="cwnd,clamp,pacing"', "agent.least_window=2")
    cwnd, clamp, pacing = lab_scene.actuated
    most = -(-2 * 404_815 // 1514)
    assert cwnd.low.tolist() == [[2], [2]] and cwnd.high.tolist() == [[most]] * 2 and cwnd.start.tolist() == [[10]] * 2
    assert clamp.high.tolist() == clamp.start.tolist() == [[most]] * 2
    assert pacing.low.tolist() == [[10_000]] * 2 and pacing.start.tolist() == pacing.high.tolist() == [[1e7]] * 2
    assert lab_scene.value_names[:3] == ("flow0", "flow1", "flow0")
    assert lab_scene.columns_of_values[::2] == ("window_packets_flow0", "clamp_packets_flow0", "pacing_bps_flow0")
    few, _ = sets("agent.largest_window=5", "agent.flows=3")
    assert few.actuated[0].start.tolist() == [[5]] * 3 and few.flow_row.tolist() == [6, 7, -1]


def test_features_of_flows_by_hand() -> None:
    lab_scene, info = sets()
    observer = Observer(lab_scene, "tcp_info,aurora,window")
    assert observer.names[:2] == ("flow0/running", "flow1/running") and observer.names[-1] == "flow1/window"
    seen = {name: values.tolist() for name, values in observer.unflatten(observer.observe(half_over(info))).items()}
    assert all(second == 0 for _, second in seen.values()), "a flow that has ended is masked"
    values = {name: first for name, (first, _) in seen.items()}
    assert values == pytest.approx(
        {
            "flow:running": 1,
            "flow:srtt": 1,
            "flow:rtt_min": 0,
            "flow:cwnd": 4 * 1514 / 4815,
            "flow:goodput": 10 * 1514 / 12_500,
            "flow:retransmits": 10 * 1514 / 12_500,
            "flow:delivery_rate": 0.5,
            "flow:latency_gradient": 0.2,
            "flow:latency_ratio": 2,
            "flow:sending_ratio": 2,
            "window": 4 / 535,
        }
    )


def test_agents_by_who_they_are() -> None:
    lab_scene, info = sets()
    for kind, names in (("central", ["network"]), ("hosts", ["h1", "h2"]), ("flows", ["flow0", "flow1"])):
        members = divide(lab_scene, kind)
        assert [member.name for member in members] == names
        assert np.concatenate([member.values for member in members]).tolist() == [0, 1]
    observer = observer_of(members, lab_scene, "backlog,tcp_info", 2, "flows")
    assert observer.names_of[0][:2] == ("own/running@-1", "own/srtt@-1") and len(observer.names_of[0]) == 14
    running, ended = observer.observe(half_over(info))
    assert running[7:9].tolist() == [1, 1] and not ended.any()
    hosts = observer_of(divide(lab_scene, "hosts"), lab_scene, "srtt,tcp_info", 1, "hosts")
    assert hosts.names_of == (("own/srtt",),) * 2 and [seen.tolist() for seen in hosts.observe(half_over(info))] == [[1], [0]]


def test_the_own_reward_of_a_flow_is_of_its_path_alone() -> None:
    lab_scene, info = sets()
    views = [View.of(lab_scene, info, agent.rows, agent.flow) for agent in divide(lab_scene, "flows")]
    assert [np.flatnonzero(view.ports).tolist() for view in views] == [sorted(rows.tolist()) for rows in info.rows]
    now, goodput = half_over(info), WeightedReward.of("goodput")
    alone_bps = 1e7 * 1448 / 1514
    for view in views:
        own = view.frame(now)
        assert goodput(own, view.scene, view.scene.share(own.in_force_bps)) == pytest.approx(14480 * 800 / alone_bps)
    missing = View.of(lab_scene, info, np.array([6]), 5)
    assert not missing.flows.any() and not missing.ports.any(), "an episode may lack a flow"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (['agent.agents="flows"', 'agent.actuators="rate"'], 'agent.agents = "flows": no flow has the rate'),
        (['workload.kind="none"'], "no flow of TCP"),
        (['workload.transport="udp"', 'workload.rate="1Mbit/s"'], "no flow of TCP"),
        (['controller.name="cubic"'], 'controller.name = "cubic": has a window of its own'),
        (["agent.least_window=0"], "agent.least_window = 0: is below 1"),
        (["agent.largest_window=0"], "agent.largest_window = 0: is below 1"),
        (["agent.flows=1"], "agent.flows = 1: the workload has 2 flows"),
        (["agent.flows=2", 'agent.actuators="rate"'], "agent.flows = 2: nothing is set at flows"),
        (
            ['workload.kind="poisson"', "workload.load=0.5", 'workload.size="100B"', 'time.duration="2s"'],
            "agents set 8192 at most",
        ),
        (['agent.actuators="s1-*:cwnd"'], "every flow has its cwnd"),
        (['agent.control="network"'], "'cwnd' has other ports"),
        (['ground="host"'], "kernel alone"),
        (
            ['ground="host"', 'controller.name="cubic"', 'agent.actuators="clamp"'],
            "'clamp' cannot be enforced on ground \"host\"",
        ),
    ],
)
def test_what_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        experiment(*AGENT, *overrides)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_what_an_agent_cannot_be_or_see() -> None:
    lab_scene, _ = sets()
    with pytest.raises(AgentError, match='cwnd of flow0 is set by none of the switches; give "hosts"'):
        divide(lab_scene, "switches")
    with pytest.raises(AgentError, match="rate of h1 is set by none of the flows"):
        divide(scene()[0], "flows")
    with pytest.raises(AgentError, match="has no feature of flows"):
        observer_of(divide(lab_scene, "flows"), lab_scene, "default", 1, "flows")
    with pytest.raises(AgentError, match="agents set no flows"):
        Observer(scene()[0], "flow:srtt")
