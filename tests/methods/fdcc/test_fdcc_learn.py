# SPDX-License-Identifier: Apache-2.0
"""FDCC's learner: gradients against finite differences, rewards by hand, the replay, and what one seed gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.methods.fdcc import net as fdcc
from dc_gym.methods.fdcc.offline import actor, incasts, twin_critics
from dc_gym.methods.fdcc.offline.episodes import CENTRAL, Streams, play
from dc_gym.methods.fdcc.offline.presets import PRESETS, FdccTrainingSettings, our_reward, teacher, thesis_reward
from dc_gym.methods.fdcc.offline.streams import StreamReplay
from dc_gym.methods.fdcc.offline.td3 import Td3
from dc_gym.methods.fdcc.offline.telemetry_fluid import Signals

SMALL = FdccTrainingSettings(
    episodes=2, stages=(2, 4), tested=(4,), flows=8, steps=60, updates=2, history=4, sequences=8, replay=4000
)
STEP = 1e-4


def slope(value: Callable[[Sequence[np.ndarray]], float], weights: Sequence[np.ndarray], index: int, way: np.ndarray) -> float:
    """Returns how a value changes as one of the weights goes that way."""

    def moved(step: float) -> float:
        return value([weight + step * way if number == index else weight for number, weight in enumerate(weights)])

    return (moved(STEP) - moved(-STEP)) / (2 * STEP)


def test_the_actor_is_the_nics_network_and_its_gradient_that_of_finite_differences() -> None:
    random = np.random.default_rng(1)
    net = fdcc.random_network(random)
    inputs, memory = random.normal(size=(7, 20, 8)), 0.3 * random.normal(size=(20, 32))
    pull = random.normal(size=(7, 20))
    weights = [array.astype(np.float32) for array in net.weights]
    forward = actor.forward(weights, inputs.astype(np.float32), memory.astype(np.float32))
    exact = net.steps(inputs, memory)
    assert forward.output == pytest.approx(exact.output, abs=1e-5)
    assert forward.memory == pytest.approx(exact.cells.memory, abs=1e-5)
    gradient = actor.backward(weights, forward, pull.astype(np.float32))

    def value(moved: Sequence[np.ndarray]) -> float:
        return float((pull * fdcc.FdccNet(tuple(moved)).steps(inputs, memory).output).sum())

    for index, weight in enumerate(net.weights):
        way = random.normal(size=weight.shape)
        expected = slope(value, net.weights, index, way)
        assert float((gradient[index] * way).sum()) == pytest.approx(expected, rel=5e-3, abs=5e-3), index


def test_the_critics_gradients_are_those_of_finite_differences() -> None:
    random = np.random.default_rng(2)
    weights = twin_critics.random_critics(20, random)
    columns, pull = random.normal(size=(20, 30)).astype(np.float32), random.normal(size=(2, 1, 30)).astype(np.float32)
    weight_gradients, entered = twin_critics.gradient(weights, twin_critics.values(weights, columns), pull)
    wide = [array.astype(np.float64) for array in weights]

    def value(moved: Sequence[np.ndarray]) -> float:
        return float((pull * twin_critics.values(moved[:-1], moved[-1])[-1]).sum())

    everything, gradients = [*wide, columns.astype(np.float64)], [*weight_gradients, entered.sum(axis=0)]
    for index, weight in enumerate(everything):
        way = random.normal(size=weight.shape) / 100
        expected = slope(value, everything, index, way)
        assert float((gradients[index] * way).sum()) == pytest.approx(expected, rel=1e-2, abs=1e-3), index


def signals(**overrides: float) -> Signals:
    quiet = {
        "rtt": 1.0,
        "queue": 0.0,
        "switch_rate": 1.0,
        "goodput": 0.0,
        "rtt_change": 0.0,
        "queue_change": 0.0,
        "ins_rate": 0.0,
    }
    return Signals(*(np.array([value]) for value in (quiet | overrides).values()))


def test_the_rewards_are_the_thesis_and_ours() -> None:
    four = np.array([4.0])
    assert thesis_reward(signals(rtt=2.0, queue=0.5, goodput=0.3), four) == pytest.approx(0.3 + 0.5 - 0.05**2)
    assert thesis_reward(signals(rtt=2.0, queue=0.51, goodput=0.3), four) == -2
    assert thesis_reward(signals(rtt=1.0, queue=0.4, switch_rate=0.5, goodput=0.1), four) == pytest.approx(1.1 - 0.15**2)
    fair = signals(rtt=1 + 0.75 * 2, queue=1.5, goodput=0.25)
    assert our_reward(fair, four) == 0
    assert our_reward(replace(fair, goodput=np.array([0.5])), four) == pytest.approx(-0.5), "an octave too much"
    assert our_reward(replace(fair, goodput=np.array([0.0625])), four) == pytest.approx(-1.5), "two too little"
    assert our_reward(replace(fair, rtt=np.array([5.0])), four) == pytest.approx(-0.5)
    assert our_reward(replace(fair, goodput=np.array([1 / 512])), np.array([256.0])) < -0.5, "shares count with many flows, too"
    assert our_reward(replace(fair, rtt=np.array([1.04])), four, 0.02) == 0 and our_reward(fair, four, 0.02) < -0.4


def test_the_teacher_leaves_the_queue_that_the_preset_wants() -> None:
    four = np.array([4.0])
    for name in ("ours", "short-queue"):
        rest = (1 + PRESETS[name].queue_per_root * 2) / 4
        assert teacher(np.array([rest]), four, PRESETS[name].queue_per_root) == pytest.approx(0, abs=1e-12)
    assert teacher(np.array([0.3]), four) > 0 > teacher(np.array([0.3]), four, PRESETS["short-queue"].queue_per_root)


def streams(lengths: Sequence[int], first: int = 0) -> Streams:
    """Returns flows with these numbers of decisions. Each observation is the decision's number, counted through."""
    total = sum(lengths)
    number = np.arange(first, first + total, dtype=np.float32)
    position = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    wide = [np.repeat(number[:, None], width, axis=1) for width in (8, CENTRAL, 32)]
    return Streams(*wide, number, number, number, position)


def test_sequences_are_of_one_flow_and_histories_end_at_its_first_decision() -> None:
    replay, random = StreamReplay(50), np.random.default_rng(1)
    replay.add(streams([20, 3, 12]))
    rows = replay.draw(random, 40, 6)
    drawn = replay.rows(rows)
    assert drawn.action.shape == (6, 40) and drawn.memory.shape == (6, 40, 32)
    assert (np.diff(drawn.place, axis=0) == 1).all() and (np.diff(drawn.action, axis=0) == 1).all()
    assert set(drawn.action[0].astype(int)) <= {*range(15), *range(23, 30)}
    history = replay.histories(np.array([0, 2, 25]), 4).reshape(3, 4, 8)[..., 0]
    assert history.tolist() == [[0, 0, 0, 0], [2, 1, 0, 0], [25, 24, 23, 0]]
    replay.add(streams([30], 35))
    assert len(replay) == 50 and replay.rows(np.array([0, 49])).action.tolist() == [15, 64]
    assert replay.histories(np.array([1]), 4).reshape(4, 8)[:, 0].tolist() == [16, 15, 0, 0], "what is gone is not seen"
    again = StreamReplay.of_arrays(replay.arrays("a_"), "a_", 50)
    assert (again.rows(np.arange(50)).observed == replay.rows(np.arange(50)).observed).all()
    with pytest.raises(AgentError, match=r"40 times.*more --steps"):
        replay.draw(random, 1, 40)
    with pytest.raises(AgentError, match="its replay's memory has the shape"):
        StreamReplay.of_arrays(replay.arrays("a_") | {"a_memory": np.zeros((50, 31), np.float32)}, "a_", 50)


@pytest.mark.parametrize("name", PRESETS)
def test_one_seed_gives_one_learner_and_another_gives_another(name: str) -> None:
    settings, how = replace(SMALL, preset=name), PRESETS[name]

    def learned(seed: int) -> Td3:
        random, learner, replay = np.random.default_rng(seed), Td3.new(settings), StreamReplay(settings.replay)
        drawn = incasts.drawn(random, 2, 4, how)
        replay.add(play(drawn, learner.actor, how, 80, random, 0.3))
        for _ in range(6):
            learner.update(replay, random)
        return learner

    one, again, other = learned(1), learned(1), learned(2)
    assert all((array == same).all() for array, same in zip(one.arrays().values(), again.arrays().values(), strict=True))
    assert any((array != its).any() for array, its in zip(one.actor, other.actor, strict=True))
    goes_on = Td3.of_arrays(one.arrays(), settings)
    assert all((array == same).all() for array, same in zip(one.arrays().values(), goes_on.arrays().values(), strict=True))
    begun = Td3.new(settings)
    assert all((array != its).any() for array, its in zip(one.actor, begun.actor, strict=True)), "every layer has learned"
    assert one.critics[0].shape[2] == 4 * 8 + 1 + (CENTRAL if how.central else 0)


def test_a_learner_finds_a_better_action() -> None:
    """One decision earns more the larger its action is. The actor's actions rise, whatever it sees."""
    random, settings = np.random.default_rng(3), replace(SMALL, preset="thesis", sequences=16)
    learner, replay = Td3.new(settings), StreamReplay(4000)
    stream = play(incasts.drawn(random, 2, 4, PRESETS["thesis"]), learner.actor, PRESETS["thesis"], 100, random, 0.5)
    replay.add(replace(stream, reward=stream.action))
    before = actor.forward(learner.actor, stream.observed[None], stream.memory).output.mean()
    for _ in range(120):
        learner.update(replay, random)
    after = actor.forward(learner.actor, stream.observed[None], stream.memory).output.mean()
    assert after > before + 0.3


def test_rewards_are_those_of_the_next_measurement() -> None:
    """With a reward that tells what was seen, a decision's reward is what its flow saw next."""
    random, settings = np.random.default_rng(1), replace(SMALL)
    learner = Td3.new(settings)
    how = replace(PRESETS["ours"], reward=lambda signals, count, queue: signals.rtt)
    stream = play(incasts.drawn(random, 2, 4, how), learner.actor, how, 100, random, 0.3)
    rtts = 2.0 ** (3 * stream.observed[:, 0].astype(float)) - 2.0**-12
    follows = np.flatnonzero(stream.place[1:] == stream.place[:-1] + 1)
    assert len(follows) > 50 and stream.reward[follows] == pytest.approx(np.minimum(rtts, 1024)[follows + 1], rel=1e-4)
    assert np.abs(stream.action).max() <= 1 and stream.action[follows] == pytest.approx(stream.observed[follows + 1, 7], abs=1e-6)
