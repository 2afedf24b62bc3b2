# SPDX-License-Identifier: Apache-2.0
"""FDCC: its inputs in floats and integers, its network, its policy files, and what it does in the NICs of a lab."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.errors import AgentError, SpecError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.methods.fdcc import net as fdcc
from dc_gym.methods.fdcc.net import MEMORY, OBSERVATIONS, Q20, FdccNet
from dc_gym.methods.fdcc.policy import NETWORK
from dc_gym.methods.fdcc.scripted import scripted_network, scripted_policy
from dc_gym.nets import nic_policy
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.results.tables import NIC_EVENTS
from dc_gym.run import runner

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/fdcc.toml"
SMALL = ("topology.hosts=9", "workload.size=200kB", "time.duration=6ms", "metrics.slowdown=off")
FULL_FRAME = 1514
TRANSFORM_BOUND = 1e-4
"""Largest distance of an input in integers from the same in floats."""


def drawn_observations(count, seed=1):
    """Returns observations that cover all their range, in integers: Q20, the action in Q16."""
    random = np.random.default_rng(seed)
    values = np.exp2(random.uniform(-14, 11, (count, 8)))
    values[:, fdcc.CHANGES] *= random.choice([-1, 1], (count, 2))
    values[: count // 10, random.integers(7)] = 0
    whole = np.rint(values * Q20).astype(np.int64)
    whole[:, -1] = random.integers(-Q16, Q16 + 1, count)
    return whole


def as_floats(whole):
    return whole / np.array([Q20] * 7 + [Q16])


def test_inputs_in_integers_are_those_in_floats_within_a_bound():
    whole = drawn_observations(20000)
    inputs = fdcc.integer_inputs(whole) / Q16
    assert np.abs(inputs - fdcc.to_inputs(as_floats(whole))).max() < TRANSFORM_BOUND
    assert np.abs(inputs).max() <= fdcc.MAX_INPUT


def test_inputs_at_their_ends():
    ends = [[0.0] * 8, [1.0] * 8, [5000.0] * 8, [-5000.0] * 8]
    inputs = fdcc.to_inputs(ends)
    assert inputs[0] == pytest.approx([-4, -4, 0, -4, 0, 0, -4, 0])
    assert inputs[1] == pytest.approx([0, 0, 1, 0, 1, 1, 0, 1], abs=0.03)
    assert inputs[2] == pytest.approx([10 / 3, 10 / 3, 4, 10 / 3, 3.5, 3.5, 10 / 3, 1], abs=1e-3)
    assert inputs[3] == pytest.approx([-4, -4, 0, -4, -3.5, -3.5, -4, -1], abs=1e-3)


def test_the_logarithm_in_integers_never_falls():
    values = np.concatenate([np.arange(1, 70000), np.arange(2**31 - 70000, 2**31 + 70000)])
    logarithms = fdcc.integer_log2(values)
    assert (np.diff(logarithms) >= 0).all() and np.abs(logarithms / Q16 - np.log2(values)).max() < 2.0**-14


def test_factors():
    assert fdcc.factor([-1.0, 0.0, 0.5, 1.0]) == pytest.approx([2 / 3, 1, 1.25, 1.5])
    outputs = np.arange(-Q16, Q16 + 1)
    factors = fdcc.integer_factor(outputs) / Q20
    assert np.abs(factors - fdcc.factor(outputs / Q16)).max() < 2 / Q20 and (np.diff(factors) >= 0).all()


def test_decisions_in_a_row_are_those_one_by_one():
    random = np.random.default_rng(2)
    net, inputs, memory = fdcc.random_network(random), random.normal(size=(5, 7, 8)), random.normal(size=(7, MEMORY)) / 3
    together = net.steps(inputs, memory)
    for now in range(5):
        output, memory = net.step(inputs[now], memory)
        assert output == pytest.approx(together.output[now], abs=1e-6)
    assert memory == pytest.approx(together.cells.memory, abs=1e-6)


def test_integers_stay_near_floats_over_whole_lives():
    random = np.random.default_rng(3)
    policy = NicPolicy(fdcc.random_network(random))
    deployed, exact, memory = TablePolicy(policy.table()), np.zeros((7, MEMORY)), np.zeros((7, MEMORY))
    for number in range(60):
        now = fdcc.to_inputs(as_floats(drawn_observations(7, number)))
        (deployed_output, memory), (exact_output, exact) = deployed.step(now, memory), policy.policy.step(now, exact)
        assert np.abs(deployed_output - exact_output).max() < 0.03
    assert deployed.memory == policy.policy.memory == MEMORY


def test_the_scripted_policy_falls_with_the_queue_and_grows_without_one():
    def output(queue, ins_rate):
        observation = np.zeros((1, 8))
        observation[0, [0, 1, 2, 3, 6]] = 1 + queue, queue, 1, ins_rate, ins_rate
        return scripted_network().step(fdcc.to_inputs(observation), np.zeros((1, MEMORY)))[0][0]

    queues = [output(queue, 0.25) for queue in (0, 0.1, 0.5, 1, 4, 50)]
    assert (np.diff(queues) < 0).all() and queues[1] > 0 > queues[3]
    assert output(0.5, 1.0) < output(0.5, 0.25) == pytest.approx(0, abs=1e-3)


# --- files


def test_rl_cc_s_commands_refuse_it_in_one_line(capsys):
    assert main(["method", "rlcc", "explain", "fdcc"]) == 2
    stderr = capsys.readouterr().err
    assert len(stderr.splitlines()) == 1 and "is a policy of FDCC" in stderr and "fdcc.npz" in stderr


def test_the_scripted_policy_ships_as_it_is_written(tmp_path):
    scripted_policy().write(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == nic_policy.shipped("fdcc-scripted").read_bytes()


def test_what_ships_is_fdcc_s_and_tells_of_itself(tmp_path):
    file = nic_policy.load("fdcc")
    file.write(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == nic_policy.shipped("fdcc").read_bytes()
    assert file.kind == "fdcc" and "8-16-LSTM16-1" in file.describe() and "histories of" in file.describe()


@pytest.mark.parametrize(
    ("algorithm", "name", "message"),
    [
        ("fdcc", "rlcc-lstm", "kind 'lstm', which rlcc-lstm runs; fdcc was asked for"),
        ("rlcc-lstm", "fdcc", "kind 'fdcc', which fdcc runs; rlcc-lstm was asked for"),
    ],
)
def test_a_policy_of_another_kind_is_refused(algorithm, name, message):
    with pytest.raises(AgentError, match=message) as refusal:
        nic_policy.load(algorithm, nic_policy.shipped(name))
    assert "\n" not in str(refusal.value)


def test_a_policy_of_an_agent_is_told_how_fdcc_s_runs(tmp_path):
    with pytest.raises(AgentError, match="controller=fdcc --set nic"):
        AgentPolicy.read(nic_policy.shipped("fdcc"))


def weights_with(**changed):
    names = NETWORK.arrays
    arrays = dict(zip(names, scripted_network().weights, strict=True)) | changed
    return tuple(arrays[name] for name in names)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"W0": np.zeros((16, 9))}, "has 9 inputs; FDCC has 8 observations"),
        ({"W1": np.zeros((64, 16))}, "shapes"),
        ({"b2": np.full(1, np.nan)}, "not finite"),
        ({"W0": np.full((16, 8), 17.0)}, "not within 16"),
    ],
)
def test_networks_that_no_nic_could_run_are_refused(changed, message):
    with pytest.raises(AgentError, match=message) as refusal:
        FdccNet(weights_with(**changed))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("history", [0, 9, "8"])
def test_a_history_beyond_the_thesis_s_is_refused(history):
    with pytest.raises(AgentError, match="1 to 8 observations"):
        replace(scripted_network(), history=history)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"history": 12}, "its history is 12"),
        ({"observations": [*OBSERVATIONS, "flows"]}, "it observes flows: only training has the count of flows"),
        ({"observations": [*OBSERVATIONS, "ttl"]}, "it observes ttl: a NIC has none of it"),
        ({"observations": list(OBSERVATIONS[::-1])}, "in this order"),
        ({"observations": 8}, "not a list"),
    ],
)
def test_a_file_that_wants_what_a_nic_has_not_is_refused_in_one_line(monkeypatch, tmp_path, changed, message):
    entries = {"observations": list(OBSERVATIONS), "history": 8} | changed
    monkeypatch.setattr("dc_gym.methods.fdcc.policy.NETWORK", replace(NETWORK, entries=lambda network: entries))
    scripted_policy().write(tmp_path / "p.npz")
    monkeypatch.undo()
    with pytest.raises(AgentError, match=message) as refusal:
        NicPolicy.read(tmp_path / "p.npz")
    assert "\n" not in str(refusal.value) and "p.npz" in str(refusal.value)


# --- in the NICs of a lab


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("topology.qdisc=stock",), "topology.qdisc"),
        (("nic.policy=rlcc-mlp",), "is a policy of the kind 'mlp', which rlcc-mlp runs; fdcc was asked for"),
        (("nic.preset=thesis",), "has no preset 'thesis'"),
        (("nic.parameters.window_least=4095",), "window_least is a whole number of 4096..67108864"),
    ],
)
def test_a_spec_that_no_nic_could_run_is_refused_in_one_line(settings, message):
    with pytest.raises(SpecError, match=message.replace(".", "[.]")) as refusal:
        spec.load(EXAMPLE, [*SMALL, *settings])
    assert "\n" not in str(refusal.value)


def incast(folder, preset):
    """Returns the decisions of flows by the policy by hand at ACKs that changed something, in an incast that drops nothing."""
    folder.chmod(0o755)
    settings = (f"nic.preset={preset}", "nic.policy=fdcc-scripted")
    result = runner.run(spec.load(EXAMPLE, [*SMALL, *settings]), folder / "out", Quiet(), plot=False)
    assert result.summary["drops"] == 0 and set(result.column("flows", "status")) == {"done"}
    rows = result.records("decisions")
    return rows[rows["event"] == NIC_EVENTS.index("ack")]


@pytest.mark.lab
def test_windows_in_force_are_whole_packets_and_rates_move_by_at_most_a_half(tmp_path, lab_kernel):
    decided = incast(tmp_path, "default")
    assert len(decided) > 500 and len(np.unique(decided["rate_bps"])) > 400
    assert (decided["window_bytes"] % FULL_FRAME == 0).all() and decided["window_bytes"].min() == FULL_FRAME
    factors = decided["rate_bps"] / decided["rate_before_bps"]
    assert 0.66 < factors.min() < 1 < factors.max() < 1.51


@pytest.mark.lab
def test_word_for_word_a_window_of_one_packet_never_grows(tmp_path, lab_kernel):
    decided = incast(tmp_path, "thesis-literal")
    last = {flow: decided[decided["flow"] == flow][-1] for flow in range(8)}
    assert {int(row["window_bytes"]) for row in last.values()} == {FULL_FRAME}
    assert len({int(row["rate_bps"]) for row in last.values()}) == 1 and len(decided) < 100
