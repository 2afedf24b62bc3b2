# SPDX-License-Identifier: Apache-2.0
"""PCC-RL's network with an LSTM: its gradient, its integers against C and floats, what it settles at, and its files."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.base.package import PROGRAMS
from dc_gym.cli.main import main
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.ctrl.nic.events import RTT
from dc_gym.methods.rlcc import fluid, lstm
from dc_gym.methods.rlcc.decision import Scaling, action
from dc_gym.methods.rlcc.fluid import Bottleneck, Fluid
from dc_gym.methods.rlcc.lstm import MEMORY, SHAPES, Lstm
from dc_gym.methods.rlcc.offline import cells, explain, importing
from dc_gym.methods.rlcc.offline.on_fluid import Bottlenecks, FluidTrainingSettings, train
from dc_gym.methods.rlcc.policy import ARRAYS, KINDS
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

RLCC_SHIPPED = [path for path in nic_policy.all_shipped() if NicPolicy.read(path).kind in KINDS]
FEW = FluidTrainingSettings(net="lstm", updates=3, batch_size=512, sequence_length=4, bottlenecks=((2, 10), (4, 5)))


@cache
def shipped():
    return NicPolicy.read(nic_policy.shipped("rlcc-lstm"))


def signed(words):
    return np.asarray(words, np.uint32).view(np.int32).astype(np.int64)


def drawn(count, seed=3):
    """Returns a random network, and decisions of some flows with a history."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(count, 7, 4)) + np.array([1, 0, 1, 0])
    return lstm.random_network(random), inputs, random.normal(size=(7, MEMORY)) / 3, random.normal(size=(count, 7))


def test_it_has_as_many_weights_as_the_paper_says():
    assert sum(weight.size for weight in shipped().policy.weights) == 2753


def test_products_are_the_same_in_any_order():
    random = np.random.default_rng(1)
    left, right = random.normal(size=(5, 300)), random.normal(size=(300, 7)) * 1e-6
    order = random.permutation(300)
    assert (lstm.product(left, right) == lstm.product(left[:, order], right[order])).all()
    assert np.abs(lstm.product(left, right) - left @ right).max() < 1e-6 * np.abs(left @ right).max() * 50
    assert (lstm.product(np.zeros((2, 3)), right[:3]) == 0).all()


def test_the_gradient_goes_back_through_all_of_a_stretch():
    net, inputs, memory, factors = drawn(6)
    slopes, random = net.policy_gradient(inputs, memory, factors), np.random.default_rng(4)
    for layer, shape in enumerate(SHAPES):
        index = tuple(int(random.integers(size)) for size in shape)
        moved = []
        for step in (1e-3, -1e-3):
            weights = [weight.copy() for weight in net.weights]
            weights[layer][index] += step
            moved.append(float((factors * action(Lstm(tuple(weights)).steps(inputs, memory).output)).mean()))
        assert slopes[layer][index] == pytest.approx((moved[0] - moved[1]) / 2e-3, rel=5e-3, abs=2e-6)


def test_decisions_in_a_row_are_those_one_by_one():
    net, inputs, memory, _ = drawn(5)
    together = net.steps(inputs, memory)
    for now in range(5):
        acted, memory = net.step(inputs[now], memory)
        assert acted == pytest.approx(action(together.output[now]), abs=1e-6)
    assert memory == pytest.approx(together.cells.memory, abs=1e-6)


# --- integers


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Returns golden traces, and the decisions of the algorithm in C on them with the shipped table."""
    algorithm = algorithms.load("rlcc-lstm", PROGRAMS)
    table = golden.table_of(algorithm, tmp_path_factory.mktemp("lstm"))
    argv = golden.runner_argv(algorithm, golden.values_of(algorithm, ""), table)
    traces = {kind: golden.trace(kind, algorithm, 1) for kind in golden.KINDS}
    return {kind: (steps, golden.decisions(argv, steps)) for kind, steps in traces.items()}


@pytest.mark.parametrize("kind", golden.KINDS)
def test_the_integers_of_c_and_python_are_equal_bit_for_bit_memory_included(traces, kind):
    steps, rows = traces[kind]
    before, after = [], []
    for number, ((event, _), row) in enumerate(zip(steps, rows, strict=True)):
        if event.type == RTT:
            new = event.flags & golden.NEW_FLOW
            before.append((0,) * len(row.state) if new else rows[number - 1].state)
            after.append(row.state)
    before, after = signed(before), signed(after)
    acted, memory = TablePolicy(shipped().table()).integers(after[:, :4] + [Q16, 0, Q16, 0], before[:, cells.WORDS :])
    assert len(after) > 400 and (memory != 0).any()
    assert (acted - Q16 == after[:, cells.A_LAST]).all() and (memory == after[:, cells.WORDS :]).all()


def test_integers_stay_near_floats_for_what_they_saw_and_over_whole_lives(traces):
    assert all(cells.distance(shipped(), *traces[kind])[1] < cells.BOUNDS["lstm"] for kind in golden.KINDS)
    _, inputs, _, _ = drawn(60)
    inputs[:, :, 3] = np.round(inputs[:, :, 3] * Q16) / Q16
    inputs[:, :, 2] = np.round((1 + (inputs[:, :, 2] - 1) / 10) * Q16) / Q16
    deployed, exact, memory = TablePolicy(shipped().table()), np.zeros((7, MEMORY)), np.zeros((7, MEMORY))
    for now in inputs:
        (deployed_action, memory), (float_action, exact) = deployed.step(now, memory), shipped().policy.step(now, exact)
        assert np.abs(deployed_action - float_action).max() < 0.01


def test_a_connectx_has_no_room_for_it():
    algorithm = algorithms.load("rlcc-lstm", PROGRAMS)
    assert not algorithm.fits and algorithm.state_words == cells.WORDS + MEMORY


# --- the closed loop


def test_each_flow_has_a_memory_of_its_own():
    model, deployed = Fluid(Bottleneck(5, steps_per_rtt=4, seed=2)), TablePolicy(shipped().table())
    while not len(flows := model.step(deployed)):
        pass
    others = np.setdiff1d(np.arange(5), flows)
    assert 0 < len(flows) < 5
    assert (model.memory[flows] != 0).any(axis=1).all() and (model.memory[others] == 0).all()


@pytest.mark.parametrize("flows", [2, 8, 32, 128])
def test_the_shipped_network_keeps_eq_2_far_beyond_what_it_was_trained_on(flows):
    state = fluid.settle(TablePolicy(shipped().table()), Bottleneck(flows, steps_per_rtt=8), round_trips=250)
    assert state.inflation == pytest.approx(float(Scaling().inflation(flows)), rel=0.1)
    assert state.jain > 0.95 and state.sum_of_rates > 0.97 and state.lost_bdp == 0


@pytest.mark.parametrize("path", RLCC_SHIPPED, ids=lambda path: path.stem)
def test_what_ships_is_read_as_written_and_is_table_vi_in_integers(path, tmp_path):
    file = NicPolicy.read(path)
    file.write(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()
    assert max(abs(cell.integer - cell.exact) for cell in cells.table(file)) < cells.BOUNDS[file.kind]


def test_pcc_rl_s_keeps_its_own_law_with_a_real_round_trip_s_lag():
    file = NicPolicy.read(nic_policy.shipped("pccrl-lstm"))
    state = fluid.settle(TablePolicy(file.table()), Bottleneck(64, steps_per_rtt=8), file.scaling, 250)
    assert file.scaling.beta == 0 and state.inflation == pytest.approx(0.8 * 64**0.5, rel=0.1)
    assert state.jain > 0.95 and state.lost_bdp == 0


def test_it_rests_near_the_target():
    assert abs(fluid.resting_error(shipped().policy)) < 0.3


def test_one_seed_is_one_network():
    once, again, other = (train(one).net.weights for one in (FEW, FEW, replace(FEW, seed=2)))
    assert all((a == b).all() for a, b in zip(once, again, strict=True))
    assert any((a != b).any() for a, b in zip(once, other, strict=True))


def test_a_new_flow_remembers_nothing_of_the_one_before():
    training = FluidTrainingSettings(net="lstm", flow_end_probability=1.0, bottlenecks=((4, 3),))
    model = Bottlenecks(training, Scaling(), MEMORY)
    for _ in range(6):
        model.step(shipped().policy)
    assert (model.memory == 0).all() and (model._age == 0).all()


def test_an_unknown_network_or_an_empty_stretch_is_refused():
    for wrong in ({"net": "gru"}, {"sequence_length": 0}):
        with pytest.raises(UsageError):
            FluidTrainingSettings(**wrong)


# --- files


def test_its_file_comes_back_and_is_the_same_bytes(tmp_path):
    shipped().write(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == nic_policy.shipped("rlcc-lstm").read_bytes()
    with pytest.raises(AgentError, match="kind 'lstm'"):
        nic_policy.load("rlcc-mlp", nic_policy.shipped("rlcc-lstm"))


def test_import_takes_eight_arrays_and_what_it_makes_runs(tmp_path, capsys):
    names = ARRAYS["lstm"]
    np.savez(tmp_path / "own.npz", **dict(zip(names, shipped().policy.weights, strict=True)))
    assert main(["method", "rlcc", "import", str(tmp_path / "own.npz"), "--out", str(tmp_path / "p.npz")]) == 0
    assert "2-32-16-LSTM16-1" in capsys.readouterr().out
    assert (NicPolicy.read(tmp_path / "p.npz").table() == shipped().table()).all()
    assert main(["method", "rlcc", "distil", str(tmp_path / "p.npz"), "--out", str(tmp_path / "t.npz")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("W2", lambda weight: weight[:, :16], "shape \\(64, 16\\)"),
        ("b2", lambda weight: weight * np.nan, "not finite"),
        ("b3", lambda weight: weight.astype(int), "int64"),
    ],
)
def test_import_refuses_what_no_nic_could_run(tmp_path, name, change, message):
    arrays = dict(zip(ARRAYS["lstm"], shipped().policy.weights, strict=True))
    np.savez(tmp_path / "own.npz", **{**arrays, name: change(arrays[name])})
    with pytest.raises(AgentError, match=message) as refusal:
        importing.network(tmp_path / "own.npz", Scaling())
    assert "\n" not in str(refusal.value)


def test_layers_that_grow_beyond_a_word_are_refused():
    w0, b0, w1, *others = shipped().policy.weights
    with pytest.raises(AgentError, match="can reach"):
        Lstm((np.full_like(w0, 15.9), b0, np.full_like(w1, 15.9), *others))


def test_errors_beyond_what_an_input_holds_are_refused():
    with pytest.raises(AgentError, match="lower its max_error"):
        NicPolicy(shipped().policy, Scaling(max_error=200.0))


def test_what_was_trained_has_both_orders_of_table_vi_if_its_flow_was_on_target_for_long():
    """A new flow has not been on target: it has just begun at line rate, and cuts."""
    assert all(check.holds for check in explain.check_policy(shipped()))
    new = shipped().policy.step(np.array([[1.0, 0.0, 1.0, 0.0]]), np.zeros((1, MEMORY)))[0]
    assert new[0] < 0.95


def test_explain_tells_of_it(capsys, monkeypatch):
    monkeypatch.setattr(explain, "FLOWS", (2, 8))
    monkeypatch.setattr(explain, "REPEATED", 2)
    assert main(["method", "rlcc", "explain", "rlcc-lstm"]) == 0
    out = capsys.readouterr().out
    assert "2-32-16-LSTM16-1" in out and "trained on labs" in out and "Table VI" in out
