# SPDX-License-Identifier: Apache-2.0
"""ACC's templates, levels and reward by hand; the net's gradient, double DQN and replay against plain formulas; policy files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.methods.acc import template
from dc_gym.methods.acc.double_dqn import DoubleDqn
from dc_gym.methods.acc.policy import AccPolicy
from dc_gym.methods.acc.q_int8 import IntegerQNetwork
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.replay import Replay, Transitions
from dc_gym.methods.acc.settings import DqnSettings
from dc_gym.methods.acc.template import DEPLOYED, SECTION_3, Template, level, linear_worth, step_worth, template_of
from dc_gym.nets.agent_policy import AgentPolicy

KB, MB = 10**3, 10**6
PAIR = ((20 * KB, 20 * KB, 10**6), (20 * KB, 80 * KB, 200_000))
SMALL = Template("small", 500_000, 1, PAIR)


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def transitions(count: int, inputs: int = 4, actions: int = 3, seed: int = 1) -> Transitions:
    random = np.random.default_rng(seed)
    states, nexts = random.normal(size=(2, count, inputs))
    return Transitions(states, random.integers(actions, size=count), random.normal(size=count), nexts)


# --- templates


def test_the_paper_s_counts_fit_the_presets() -> None:
    """Section 6: 3,200 weights, 6.4 kFLOP, 20 inputs, 20 actions. Section 3.3: 12 inputs, 30 pairs with 21 values of Pmax."""
    net = DoubleDqn.random(DEPLOYED.inputs, len(DEPLOYED.actions), DqnSettings(), np.random.default_rng(1)).net
    assert net.sizes == (20, 40, 40, 20) and sum(weight.size for weight in net.weights) == 3200 and net.flops == 6400
    assert (SECTION_3.inputs, len(SECTION_3.actions)) == (12, 30 * 21)
    pairs = {(low, high) for low, high, _ in SECTION_3.actions}
    assert len(pairs) == 30 and {high for _, high in pairs} == {1 * MB, 2 * MB, 5 * MB, 10 * MB}
    assert sorted({ppm // 10**4 for *_, ppm in SECTION_3.actions}) == [1, *range(5, 101, 5)]
    assert {low for low, *_ in DEPLOYED.actions} == {20 * KB * 2**n for n in range(10)}


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        (((80 * KB, 20 * KB, 10**6), PAIR[0]), "action 0: Kmin 80kB is above Kmax 20kB; lower it, or raise Kmax"),
        ((PAIR[0], PAIR[0]), "action 1 is the same as action 0; take one out"),
        ((PAIR[0],), "1 actions; give 2 to 4096"),
        ((PAIR[0], (20 * KB, 80 * KB, 0)), r"action 1: Pmax must be above 0% and at most 100% \(got 0 ppm\)"),
        ((PAIR[0], (0, 80 * KB, 5)), "action 1: Kmin 0B is no threshold; give 1B or more"),
    ],
)
def test_a_template_that_cannot_be_is_refused(actions: tuple[tuple[int, int, int], ...], why: str) -> None:
    with pytest.raises(AgentError, match=f"^template mine: {why}$"):
        Template("mine", 1000, 1, actions)


def test_a_template_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('interval = "1ms"\nhistory = 2\nactions = [["20kB", "20kB", "100%"], ["20kB", "80kB", "20%"]]\n')
    assert template_of(path) == Template("mine.toml", 10**6, 2, PAIR)
    assert template_of("acc-deployed") is DEPLOYED
    with pytest.raises(AgentError, match=r"controller\.template: .*'acc-deploid'.*did you mean acc-deployed"):
        template_of("acc-deploid")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("interval = ", "is no TOML"),
        ('interval = "1ms"\nhistory = 2', "actions is missing"),
        ('interval = "1ms"\nhistory = 2\naction = []', "key 'action' is unknown; did you mean actions"),
        ('interval = "1ms"\nhistory = 2\nactions = [["80kB", "20kB", "1%"], ["20kB", "20kB", "1%"]]', "Kmin 80kB is above Kmax"),
        ('interval = "1ms"\nhistory = 2\nactions = [["80kB", "20kB"]]', "action 0 is not"),
        ('interval = "1ms"\nhistory = 2\nactions = [["80", "20kB", "1%"]]', "action 0"),
        ('interval = "1ms"\nhistory = "2"\nactions = [["20kB", "20kB", "1%"]]', "history '2' is no whole number"),
        ("interval = 5\nhistory = 2\nactions = []", "interval"),
        ('interval = "1ms"\nhistory = 2\nactions = 3', "actions is no list"),
        ('interval = "1ms"\nhistory = 65\nactions = [["20kB", "20kB", "1%"], ["20kB", "20kB", "2%"]]', "history must be 1 to 64"),
        (
            'interval = "1ms"\nhistory = 2\nqueue = "log"\nactions = [["20kB", "20kB", "1%"], ["20kB", "20kB", "2%"]]',
            "queue 'log'",
        ),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(AgentError, match=why) as refusal:
        template_of(path)
    assert "\n" not in str(refusal.value) and str(refusal.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="cannot read the template: No such file"):
        template_of(tmp_path / "none.toml")


def test_levels_and_both_designs_of_the_reward() -> None:
    """E(n) = 20 kB x 2^n. D = 1 - n / 10 with the smallest n such that E(n) >= L; above E(9) it is 0."""
    queues = numbers(0, 10 * KB, 20 * KB, 30 * KB, 40 * KB, 10.24 * MB, 20 * MB)
    assert level(queues) == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 1, 1])
    assert step_worth(numbers(0, 20 * KB, 20 * KB + 1, 40 * KB, 10.24 * MB, 10.24 * MB + 1)) == pytest.approx(
        [1, 1, 0.9, 0.9, 0.1, 0]
    )
    assert linear_worth(queues) == pytest.approx(
        [1, 1 - 0.01 / 10.24, 1 - 0.02 / 10.24, 1 - 0.03 / 10.24, 1 - 0.04 / 10.24, 0, 0]
    )
    assert DEPLOYED.queue_input(queues) == pytest.approx(level(queues))
    assert replace(DEPLOYED, queue="linear").queue_input(queues) == pytest.approx(1 - linear_worth(queues))


@pytest.mark.parametrize("number", range(len(DEPLOYED.actions)))
def test_the_nearest_action_to_an_action_is_itself(number: int) -> None:
    assert DEPLOYED.nearest(*DEPLOYED.actions[number]) == number


def test_the_nearest_action_to_static_markings() -> None:
    labels = [template.told(DEPLOYED.actions[DEPLOYED.nearest(*marking)]) for marking in
            ((18 * KB, 18 * KB, 10**6), (5 * KB, 200 * KB, 10**4), (100 * KB, 400 * KB, 2 * 10**5))]  # fmt: skip
    assert labels == ["20kB .. 20kB, 100 %", "20kB .. 160kB, 1 %", "80kB .. 320kB, 20 %"]


# --- the net


def test_the_gradient_is_that_of_the_values() -> None:
    random = np.random.default_rng(3)
    net = QNetwork.random((4, 6, 5, 3), random)
    states, pull = random.normal(size=(7, 4)), random.normal(size=(3, 7))
    gradient = net.gradient(net.layers(states), pull)
    for number, parameter in enumerate(net.parameters):
        for index in np.ndindex(*parameter.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [weights.copy() for weights in net.parameters]
                moved[number][index] += step
                ends.append(float((pull * QNetwork.of_parameters(moved)(states).T).sum()))
            assert gradient[number][index] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_the_net_is_dense_layers_with_relu() -> None:
    net = QNetwork.random((4, 6, 3), np.random.default_rng(3))
    states = np.random.default_rng(4).normal(size=(5, 4))
    hidden = np.maximum(states @ net.weights[0].T + net.biases[0], 0)
    assert net(states) == pytest.approx(hidden @ net.weights[1].T + net.biases[1])


@pytest.mark.parametrize(
    ("weights", "biases", "why"),
    [
        ((np.zeros((3, 4)),), (), "1 weights and 0 biases"),
        ((np.zeros((3, 4)), np.zeros((2, 4))), (np.zeros(3), np.zeros(2)), "layer 1 has the shapes"),
        ((np.full((3, 4), np.nan),), (np.zeros(3),), "not finite"),
    ],
)
def test_weights_that_make_no_net_are_refused(weights: tuple, biases: tuple, why: str) -> None:
    with pytest.raises(AgentError, match=why):
        QNetwork(weights, biases)


# --- double DQN


def test_an_update_goes_against_the_error_of_double_dqn() -> None:
    """y = r + gamma Q(S', argmax_a Q(S', a; theta); theta'), row by row in plain Python, and one step of Adam."""
    batch, settings = transitions(6), DqnSettings(discount=0.8, learning_rate=0.01)
    learner = DoubleDqn.random(4, 3, settings, np.random.default_rng(1))
    learner.target = QNetwork.random(learner.net.sizes, np.random.default_rng(2))
    net, target = learner.net, learner.target
    errors, pull = [], np.zeros((3, 6))
    for row in range(6):
        best = int(np.argmax(net(batch.nexts[row][None])[0]))
        td_target = batch.rewards[row] + 0.8 * target(batch.nexts[row][None])[0][best]
        errors.append(net(batch.states[row][None])[0][batch.actions[row]] - td_target)
        pull[batch.actions[row], row] = max(-1, min(1, errors[-1])) / 6
    greedy = [batch.rewards[row] + 0.8 * target(batch.nexts[row][None])[0].max() for row in range(6)]
    assert any(abs(net(batch.states[row][None])[0][batch.actions[row]] - greedy[row] - errors[row]) > 1e-6 for row in range(6))
    slope = net.gradient(net.layers(batch.states), pull)
    assert learner.update(batch) == pytest.approx(np.mean(np.abs(errors)))
    for before, after, grad in zip(net.parameters, learner.net.parameters, slope, strict=True):
        moved = np.abs(grad) > 1e-6
        assert after[moved] == pytest.approx((before - 0.01 * np.sign(grad))[moved], abs=1e-4), "Adam's first step is the rate"
        assert (after[grad == 0] == before[grad == 0]).all()


def test_the_target_is_copied_every_n_updates() -> None:
    learner = DoubleDqn.random(4, 3, DqnSettings(target_every=3), np.random.default_rng(1))
    first, copies = learner.target, []
    for _ in range(7):
        learner.update(transitions(4))
        copies.append(learner.target is first)
        if learner.updates % 3 == 0:
            assert learner.target is learner.net
            first = learner.target
    assert copies == [True, True, False, True, True, False, True]


def test_a_learner_finds_the_better_action_of_each_state() -> None:
    """A bandit with two kinds of states: action 0 is right where the input is positive, action 2 where it is negative."""
    random = np.random.default_rng(1)
    learner, replay = DoubleDqn.random(1, 3, DqnSettings(discount=0.0, learning_rate=0.01), random), Replay(500, 1)
    states = random.uniform(-1, 1, size=(500, 1))
    actions = random.integers(3, size=500)
    right = np.where(states[:, 0] > 0, 0, 2)
    replay.add(Transitions(states, actions, (actions == right).astype(float), states))
    for _ in range(400):
        learner.learn(replay, random)
    probes = np.array([[-0.8], [-0.4], [0.4], [0.8]])
    assert learner.net(probes).argmax(axis=1).tolist() == [2, 2, 0, 0]
    assert learner.net(probes).max(axis=1) == pytest.approx([1, 1, 1, 1], abs=0.25)


def test_a_learner_waits_for_a_batch() -> None:
    learner, replay = DoubleDqn.random(4, 3, DqnSettings(batch_size=8), np.random.default_rng(1)), Replay(20, 4)
    replay.add(transitions(7))
    assert np.isnan(learner.learn(replay, np.random.default_rng(1))) and learner.updates == 0
    replay.add(transitions(1))
    assert learner.learn(replay, np.random.default_rng(1)) > 0 and learner.updates == 1


def test_a_learner_goes_on_from_its_arrays_with_the_same_bits() -> None:
    settings, random = DqnSettings(target_every=2), np.random.default_rng(1)
    learner = DoubleDqn.random(4, 3, settings, random)
    for number in range(3):
        learner.update(transitions(4, seed=number))
    again = DoubleDqn.of_arrays(learner.arrays(), settings)
    for dqn in (learner, again):
        for number in range(3):
            dqn.update(transitions(4, seed=9 + number))
    assert all((array == other).all() for array, other in zip(learner.arrays().values(), again.arrays().values(), strict=True))
    broken = learner.arrays() | {"mean0": np.zeros(3)}
    with pytest.raises(AgentError, match="moments"):
        DoubleDqn.of_arrays(broken, settings)


# --- the replay


def test_a_replay_keeps_the_newest_and_tells_what_is_new() -> None:
    replay, all_of = Replay(5, 4), transitions(12)
    replay.add(all_of.rows(slice(0, 3)))
    assert len(replay) == 3 and replay.since(1).rewards.tolist() == all_of.rewards[1:3].tolist()
    replay.add(all_of.rows(slice(3, 12)))
    assert (len(replay), replay.added) == (5, 12)
    assert replay.since(0).rewards.tolist() == all_of.rewards[7:].tolist()
    assert replay.since(10).rewards.tolist() == all_of.rewards[10:].tolist() and not len(replay.since(12))


def test_a_draw_is_the_same_after_a_replay_was_kept() -> None:
    replay = Replay(5, 4)
    replay.add(transitions(8))
    again = Replay.of_arrays(replay.arrays("x_"), "x_", 5)
    for buffer in (replay, again):
        buffer.add(transitions(2, seed=7))
    drawn = [buffer.draw(np.random.default_rng(1), 50, 0.5) for buffer in (replay, again)]
    assert (drawn[0].states == drawn[1].states).all() and set(drawn[0].rewards) == set(replay.since(0).rewards)


def test_a_draw_may_prefer_large_rewards() -> None:
    """The larger of two uniform draws has the mean 2/3."""
    replay, rewards = Replay(1000, 1), np.linspace(0, 1, 1000)
    replay.add(Transitions(np.zeros((1000, 1)), np.zeros(1000, np.int64), rewards, np.zeros((1000, 1))))
    means = [replay.draw(np.random.default_rng(1), 20_000, prefer).rewards.mean() for prefer in (0.0, 0.5, 1.0)]
    assert means == pytest.approx([1 / 2, 7 / 12, 2 / 3], abs=0.01)


# --- the policy file


def policy(template: Template = SMALL) -> AccPolicy:
    sizes = (template.inputs, 3, len(template.actions))
    return AccPolicy(QNetwork.random(sizes, np.random.default_rng(1)), template, {"seed": 1})


def test_a_policy_file_gives_back_what_was_written(tmp_path: Path) -> None:
    acc_policy, path = policy(), tmp_path / "acc.npz"
    acc_policy.write(path)
    again = AccPolicy.read(path)
    assert again.sha256() == acc_policy.sha256() and again.template == SMALL and again.net.sizes == (4, 3, 2)
    assert all((array == other).all() for array, other in zip(acc_policy.net.parameters, again.net.parameters, strict=True))
    with pytest.raises(AgentError, match=r"--set controller\.policy=acc --set controller\.start="):
        AgentPolicy.read(path)


def test_a_net_of_another_template_is_refused() -> None:
    with pytest.raises(AgentError, match=r"template small .*4 inputs.*2 actions.*20.*20"):
        AccPolicy(policy(DEPLOYED).net, SMALL)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(SMALL, name="other"), ""),
        (replace(SMALL, interval_ns=10**6), "decides each 500us, not 1ms"),
        (replace(SMALL, history=2), "sees 1 samples, not 2"),
        (replace(SMALL, queue="linear"), "sees queues as levels, not linear"),
        (replace(SMALL, actions=(PAIR[0], PAIR[1], (1, 2, 3))), "has 2 actions, not 3"),
        (replace(SMALL, actions=PAIR[::-1]), r"has action 0 = 20kB .. 20kB, 100 %, not 20kB .. 80kB, 20 %"),
    ],
)
def test_templates_differ_in_what_they_decide(other: Template, why: str) -> None:
    assert SMALL.difference(other) == why


# --- the integer form


def test_the_integer_form_values_as_the_net_does_within_what_8_bits_leave() -> None:
    random = np.random.default_rng(3)
    net = QNetwork.random((20, 40, 40, 20), random)
    states = random.random((500, 20))
    integer, exact = IntegerQNetwork.of(net), net(states)
    assert integer.memory_bytes == 3200 + 100 * 12
    off = np.abs(integer.values(states) / 65536 - exact)
    assert 0 < off.max() < 0.05 * np.abs(exact).max()
    second, first = np.sort(exact, axis=1)[:, -2:].T
    clear = first - second > 2 * off.max()
    assert clear.sum() > 50 and (integer.best(states) == exact.argmax(axis=1))[clear].all()


def test_the_integer_form_of_whole_weights_is_exact() -> None:
    net = QNetwork((np.array([[127.0, -1, 2, 3], [0, 0, 0, -127]]),), (np.array([1.0, -3]),))
    states = np.array([[0.5, 1, 0, 2], [0, 0, 0, 1]])
    assert (IntegerQNetwork.of(net).values(states) == net(states) * 65536).all()


def test_a_net_without_an_integer_form_is_refused() -> None:
    net = QNetwork.random((20, 40, 40, 20), np.random.default_rng(1))
    with pytest.raises(AgentError, match=r"reach 1.*smaller weights"):
        IntegerQNetwork.of(QNetwork(tuple(1e4 * weight for weight in net.weights), net.biases))
    with pytest.raises(AgentError, match=r"\(3, 2\).*multiple of 4"):
        IntegerQNetwork.of(QNetwork.random((3, 2), np.random.default_rng(1)))
