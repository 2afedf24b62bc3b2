# SPDX-License-Identifier: Apache-2.0
"""One agent per flow on the fluid model: turns, rewards, starts and ends of flows, and PettingZoo's own checks."""

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.offline.flows import Flows, FlowsConfig
from dc_gym.methods.rlcc.offline.on_fluid import Bottlenecks, FluidTrainingSettings
from dc_gym.nets.nic_policy import load

STILL = FluidTrainingSettings(flow_end_probability=0.0)
NET = load("rlcc-mlp").policy


def episode(config, seed, act):
    """Returns all turns of an episode with actions by `act(name, observation)`."""
    flows = Flows(config)
    turn = flows.begin(seed)
    turns = [turn]
    while not turn.over:
        turn = flows.step({name: act(name, turn.observations[name]) for name in turn.decides})
        turns.append(turn)
    return turns


def plain(turns):
    return [(turn.decides, {n: s.tolist() for n, s in turn.observations.items()}, turn.rewards, turn.ended) for turn in turns]


def test_one_seed_and_the_same_actions_are_one_episode():
    config = FlowsConfig(round_trips=40)

    def dice(seed):
        random = np.random.default_rng(seed)
        return lambda name, observation: [0.84 + 0.3 * random.random()]

    once, again, other = (plain(episode(config, seed, dice(5))) for seed in (7, 7, 8))
    assert once == again != other and len(once) > 20


def test_a_network_as_all_agents_does_what_it_does_in_the_model_itself():
    """Actions from outside, one flow at a time, give the same queue and rates as the model's own loop."""
    config = FlowsConfig(flows=(4,), spare_agents=0, round_trips=60, model=STILL)
    model = Bottlenecks(replace(STILL, seed=3, delta_lag=1, bottlenecks=((4, 1),)), config.scaling)
    inflation, rates = [], np.zeros(4)
    for _ in range(60 * STILL.steps_per_rtt):
        model.step(NET)
        inflation.append(1.0 + model.queue[0])
        rates += model.rate
    totals = episode(config, 3, lambda name, observation: NET(observation.astype(np.float64)))[-1].totals
    assert totals["inflation"] == pytest.approx(np.mean(inflation), rel=1e-4)  # agents see float32
    assert totals["jain"] == pytest.approx(rates.sum() ** 2 / (4 * (rates**2).sum()), rel=1e-4)
    assert totals["sum_of_rates"] == pytest.approx(rates.sum() / len(inflation), rel=1e-4) and totals["flows"] == 4


def test_an_action_is_answered_at_the_flows_next_decision_by_minus_the_square_of_its_error():
    config = FlowsConfig(flows=(2,), spare_agents=0, round_trips=20, max_error=3.0, model=STILL)
    turns = episode(config, 1, lambda name, observation: [1.2])
    first = set()
    for turn in turns[:-1]:
        for name, reward in turn.rewards.items():
            error = turn.observations[name][3] / config.scaling.unit
            assert reward == (pytest.approx(-(min(abs(error), 3.0) ** 2), rel=1e-5) if name in first else 0.0)
            first.add(name)
    assert {round(turn.rewards[name], 3) for turn in turns[:-1] for name in turn.decides} >= {-9.0, -1.0, 0.0}


def test_flows_that_end_make_place_for_agents_of_their_own_while_there_are_any():
    config = FlowsConfig(flows=(3,), spare_agents=2, round_trips=200, model=FluidTrainingSettings(flow_end_probability=0.2))
    turns = episode(config, 2, lambda name, observation: [1.0])
    left = [name for turn in turns[:-1] for name in turn.ended]
    assert len(left) == len(set(left)) == 2 and set(turns[-1].ended) == set(config.names) - set(left)
    for number, turn in enumerate(turns):
        gone = {name for past in turns[:number] for name in past.ended}
        assert not gone & {*turn.decides, *turn.observations}


def test_mistakes_are_one_line_each():
    flows = Flows(FlowsConfig(flows=(2,)))
    with pytest.raises(AgentError, match="reset first"):
        flows.step({})
    turn = flows.begin(1)
    act = {name: [1.0] for name in turn.decides}
    with pytest.raises(AgentError, match="flow9"):
        flows.step(act | {"flow9": [1.0]})
    with pytest.raises(AgentError, match=f"{turn.decides[0]} .*action"):
        flows.step({name: act[name] for name in turn.decides[1:]})
    with pytest.raises(AgentError, match=r"give one number, 0\.833 to 1\.2"):
        flows.step(act | {turn.decides[0]: [1.0, 2.0]})
    with pytest.raises(AgentError, match="max_error above 0"):
        FlowsConfig(max_error=0.0)


def test_pettingzoos_own_checks():
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test

    from dc_gym.methods.rlcc.offline.flows_parallel import FlowsParallelEnv

    parallel_api_test(FlowsParallelEnv(flows=(2, 3), round_trips=30), num_cycles=200)


def test_the_parallel_form_passes_actions_on_when_a_probe_is_back():
    """A constant policy through PettingZoo gives the same episode; actions of agents whose probe is not back are ignored."""
    pytest.importorskip("pettingzoo")
    from dc_gym.methods.rlcc.offline.flows_parallel import FlowsParallelEnv

    config = FlowsConfig(round_trips=60)
    env = FlowsParallelEnv(config)
    observations, infos = env.reset(seed=4)
    rewards, decided = 0.0, 0
    while env.agents:
        decides = [name for name in env.agents if infos[name]["decides"]]
        decided += len(decides)
        actions = {name: np.array([0.95 if name in decides else 1.2]) for name in env.agents}
        observations, paid, ended, over, infos = env.step(actions)
        rewards += sum(paid.values())
        assert observations.keys() == paid.keys() == ended.keys() == over.keys() == infos.keys()
    turns = episode(config, 4, lambda name, observation: [0.95])
    assert decided == sum(len(turn.decides) for turn in turns)
    assert rewards == pytest.approx(sum(sum(turn.rewards.values()) for turn in turns))
    assert next(iter(infos.values()))["episode_totals"] == turns[-1].totals
    env.reset(seed=4)
    with pytest.raises(AgentError, match="flow99"):
        env.step(dict.fromkeys((*env.agents, "flow99"), np.ones(1)))


def test_the_spaces_hold_what_is_seen():
    config = FlowsConfig(round_trips=50)
    space = config.observation_space()
    turns = episode(config, 6, lambda name, observation: [1.2])
    assert all(space.contains(observation) for turn in turns for observation in turn.observations.values())
    assert config.action_space().low[0] == pytest.approx(1 / 1.2) and fluid.MIN_RATE > 0


def test_an_unknown_key_of_a_training_of_flows_is_one_line_with_the_nearest_name() -> None:
    with pytest.raises(AgentError, match=r"FlowsConfig: flow\b.*did you mean flows\?$"):
        FlowsConfig.of({"flow": (2,)})
