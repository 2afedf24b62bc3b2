# SPDX-License-Identifier: Apache-2.0
"""Contracts that all registered features, rewards, actions and policies keep on any frame: bounds, numbers, shapes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.run.agent import observation, policies, reward, totals
from dc_gym.run.agent.action import Action, heads
from dc_gym.run.agent.observation import Observer
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.policy_selection import policy_of
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies import presets
from tests.run.agent.made import STEP, random_frame, scene

SCENES = [
    *[(['workload.size="1MB"'], hosts) for hosts in ("all", "senders")],
    (['workload.kind="all_to_all"', 'workload.transport="udp"', 'workload.rate="3Mbit/s"', 'workload.size="1MB"'], "all"),
    (['workload.kind="partition_aggregate"', "workload.senders=2", 'workload.size="10kB"', 'workload.interval="100ms"'], "all"),
    (['workload.kind="none"'], "all"),
]


@pytest.fixture(params=SCENES, ids=lambda param: " ".join([*param[0][:1], param[1]]))
def episode(request):
    """Returns a scene, its flows, and twenty random frames."""
    agent_scene, info = scene(*request.param[0], hosts=request.param[1])
    rng = np.random.default_rng(7)
    return agent_scene, info, [random_frame(agent_scene, info, rng, step) for step in range(20)]


@pytest.mark.parametrize(
    "feature", [feature for feature in observation.features() if feature.kind != "flow"], ids=lambda feature: feature.name
)
def test_a_feature_is_bounded_and_has_one_value_each(feature, episode):
    agent_scene, _, frames = episode
    observer = Observer(agent_scene, feature.name)
    assert observer.space.shape == (len(agent_scene.ports) if feature.kind == "port" else len(agent_scene.hosts),)
    assert math.isfinite(feature.low) and math.isfinite(feature.high)
    for frame in frames:
        assert observer.space.contains(observer.observe(frame))


@pytest.mark.parametrize("history", [1, 3])
@pytest.mark.parametrize("preset", [name for name in observation.PRESETS if name not in ("marking", "tcp_info", "aurora")])
def test_presets_stay_in_their_space(preset, history, episode):
    agent_scene, _, frames = episode
    observer = Observer(agent_scene, preset, history)
    assert len(observer.names) == len(set(observer.names)) == observer.space.shape[0]
    for frame in frames:
        assert observer.space.contains(observer.observe(frame))


@pytest.mark.parametrize("history", [1, 3])
@pytest.mark.parametrize("observe", ["marking", "kmin,kmax,pmax,enforced,backlog", "s1-*:pmax,s2-eth2:kmin"])
def test_what_agents_set_stays_in_its_space(observe, history):
    agent_scene, info = scene(STEP, 'agent.actuators="rate,s2-*:marking,s1-eth3:marking"')
    rng = np.random.default_rng(7)
    observer = Observer(agent_scene, observe, history)
    assert len(observer.names) == len(set(observer.names)) == observer.space.shape[0]
    for step in range(20):
        assert observer.space.contains(observer.observe(random_frame(agent_scene, info, rng, step)))


@pytest.mark.parametrize("history", [1, 3])
def test_what_flows_show_stays_in_its_space(history):
    agent_scene, info = scene(
        'controller.name="agent"', 'controller.policy="max"', 'agent.actuators="cwnd,pacing"', "agent.flows=3"
    )
    rng = np.random.default_rng(7)
    observer = Observer(agent_scene, "tcp_info,aurora,window,pacing", history)
    assert len(observer.names) == len(set(observer.names)) == observer.space.shape[0] == 3 * 12 * history
    for step in range(20):
        assert observer.space.contains(observer.observe(random_frame(agent_scene, info, rng, step)))


@pytest.mark.parametrize("term", reward.rewards(), ids=lambda term: term.name)
def test_a_reward_is_a_number_in_its_range(term, episode):
    agent_scene, _, frames = episode
    mix = WeightedReward.of(("-" if term.cost else "") + term.name)
    low, high = mix.range(agent_scene)
    for frame in frames:
        value = mix(frame, agent_scene, agent_scene.share(frame.wanted_bps))
        assert type(value) is float and math.isfinite(value)
        assert low - 1e-9 <= value <= high + 1e-9


@pytest.mark.parametrize("head", heads(), ids=lambda head: head.name)
def test_rates_lie_between_floor_and_line_and_lead_back(head, episode):
    agent_scene = episode[0]
    action, rng = Action(agent_scene, head.name), np.random.default_rng(3)
    edges = [np.full(len(agent_scene.hosts), edge) for edge in (-np.inf, -head.bound, 0, head.bound, np.inf)]
    for numbers in [*edges, *(action.space.sample() for _ in range(20)), rng.normal(0, 100, len(agent_scene.hosts))]:
        rates = action.to_values(numbers)
        assert (rates >= agent_scene.floor_bps).all() and (rates <= agent_scene.line_bps).all()
        assert action.space.contains(action.from_values(rates))
        assert action.to_values(action.from_values(rates)) == pytest.approx(rates, rel=1e-4)
    assert (
        np.diff([action.to_values(np.full(len(agent_scene.hosts), a))[0] for a in np.linspace(-head.bound, head.bound, 9)]) > 0
    ).all()


@pytest.mark.parametrize("name", [name for name in policies.names() if name != "acc"])  # which sets no rates
def test_a_policy_acts_in_the_action_space(name, episode):
    agent_scene, _, frames = episode
    observer, action = Observer(agent_scene), Action(agent_scene, "linear")
    policy = policy_of(name, PolicyContext(agent_scene, observer, action))
    for frame in frames:
        assert action.space.contains(np.asarray(policy.act(observer.observe(frame), frame), np.float32))


def test_metrics_and_totals_are_numbers(episode):
    agent_scene, _, frames = episode
    sums, names = totals.EpisodeTotals(agent_scene), set(totals.metrics(frames[0], agent_scene))
    assert sums.result() == {"return": 0, "steps": 0}
    for frame in frames:
        values = totals.metrics(frame, agent_scene)
        assert set(values) == names
        assert all(type(value) is float and math.isfinite(value) and value >= 0 for value in values.values()), values
        sums.add(frame, 0.5)
    result = sums.result()
    assert all(type(value) is float and math.isfinite(value) for value in result.values()), result
    assert (result["steps"], result["return"]) == (20, 10)


def test_nothing_depends_on_what_a_frame_was_asked_before(episode):
    """Frames keep values that they have computed: in any order of questions the answers are the same."""
    agent_scene, info, _ = episode
    once, again = (random_frame(agent_scene, info, np.random.default_rng(9)) for _ in range(2))
    forwards = [Observer(agent_scene, "full").observe(once), totals.metrics(once, agent_scene)]
    backwards = [totals.metrics(again, agent_scene), Observer(agent_scene, "full").observe(again)]
    assert (forwards[0] == backwards[1]).all() and forwards[1] == backwards[0]


SAMPLED = ("received_bytes", "acked_bytes", "srtt_us", "min_rtt_us", "cwnd_packets", "retransmits", "rate_bps")


def sampled_otherwise(frame, rng):
    """Returns the same frame with other values in the fields that only samples of flows fill."""
    flows, before = frame.flows.copy(), frame.flows_before.copy()
    for name in SAMPLED:
        for records in (flows, before):
            records[name] = rng.integers(0, 2**20, len(records))
    return replace(frame, flows=flows, flows_before=before)


@pytest.mark.parametrize(
    "term", [*observation.features(), *reward.rewards()], ids=lambda term: f"{type(term).__name__} {term.name}"
)
def test_what_says_that_it_reads_no_samples_of_flows_reads_none(term, episode):
    """Features and rewards that do read samples of flows declare it."""
    agent_scene, info, frames = episode
    rng, equal = np.random.default_rng(3), []
    is_feature = isinstance(term, observation.Feature)
    for frame in frames:
        pair = frame, sampled_otherwise(frame, rng)
        more = [() if is_feature else (agent_scene.share(now.wanted_bps),) for now in pair]
        equal.append(np.array_equal(*(term.compute(now, agent_scene, *rest) for now, rest in zip(pair, more, strict=True))))
    assert all(equal) if not term.flows or not len(info) else not all(equal)


@pytest.mark.parametrize("preset", sorted(presets.PRESETS))
def test_every_network_has_a_scene_that_all_can_be_seen_of(preset):
    network = Experiment.of(spec.of_preset(preset))
    agent_scene = Scene.of(network)
    frame = random_frame(agent_scene, flow_info(network, agent_scene), np.random.default_rng(1))
    observer = Observer(agent_scene, "full")
    assert observer.space.contains(observer.observe(frame))
    assert (Action(agent_scene, "linear").to_values(np.ones(len(agent_scene.hosts))) == agent_scene.line_bps).all()


def test_what_a_frame_takes_over_from_the_one_before_is_what_it_would_work_out(episode):
    agent_scene, info, _ = episode
    rng = np.random.default_rng(11)
    last = random_frame(agent_scene, info, rng)
    for elapsed_ns in (last.elapsed_ns, 7, 7, 10**7):
        found_before = [Observer(agent_scene, "full").observe(last), totals.metrics(last, agent_scene), last.at_work]
        assert len(found_before) == 3  # it has worked out all that there is
        alone = replace(random_frame(agent_scene, info, rng), before=last.cells, flows_before=last.flows, elapsed_ns=elapsed_ns)
        after = replace(alone)
        after.follow(last)
        for term in reward.rewards():
            values = [term.compute(frame, agent_scene, agent_scene.share(frame.wanted_bps)) for frame in (alone, after)]
            assert values[0] == values[1], term.name
        assert (Observer(agent_scene, "full").observe(alone) == Observer(agent_scene, "full").observe(after)).all()
        last = after
