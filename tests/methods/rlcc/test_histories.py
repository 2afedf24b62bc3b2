# SPDX-License-Identifier: Apache-2.0
"""Tests histories: the inputs of policies, and the errors that follow their decisions."""

import numpy as np
import pytest

from dc_gym.base.errors import ProtocolError
from dc_gym.methods.rlcc import lstm, mlp
from dc_gym.methods.rlcc.offline.gradient import Batch
from dc_gym.methods.rlcc.offline.histories import RTT, Histories, inputs
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.run.plan.nics import STEP_DTYPE

PLAIN = NicPolicy(mlp.random_network(np.random.default_rng(1))).table()
TABLES = [NicPolicy(lstm.random_network(np.random.default_rng(seed))).table() for seed in (1, 2)]


def rows(*pairs):
    """Returns a row for each (flow, error), with an action of 1.1 before it."""
    records = np.zeros(len(pairs), STEP_DTYPE)
    records["event"], records["t_ns"], records["rate"] = RTT, np.arange(len(pairs)), 1000
    for row, (flow, error) in zip(records, pairs, strict=True):
        row["flow"] = flow
        row["state"][:4] = np.array([0, 0, round(0.1 * Q16), round(error * Q16)], np.int64).astype(np.int32).view(np.uint32)
    return records


def learned(batch):
    """Returns, for the rows that count, the latest error that was seen and the error that followed."""
    return batch.inputs[..., 3][batch.counted].tolist(), batch.errors[batch.counted].tolist()


def test_inputs_are_the_first_four_words_of_the_context():
    assert inputs(rows((0, -0.75)))[0].tolist() == pytest.approx([1.0, 0.0, 1.1, -0.75], abs=1e-5)


def test_a_decision_has_the_error_of_so_many_later_of_its_own_flow():
    steps = rows((0, 1.0), (7, -1.0), (0, 2.0), (0, 3.0), (7, -2.0), (0, 4.0))
    assert learned(Histories(2, PLAIN).add(steps)) == ([1.0, 2.0], [3.0, 4.0])


@pytest.mark.parametrize("delta_lag", [1, 3])
def test_batches_give_what_the_whole_gives(delta_lag):
    random = np.random.default_rng(1)
    steps = rows(*zip(random.integers(0, 5, 200).tolist(), random.normal(size=200).tolist(), strict=True))
    whole = Histories(delta_lag, PLAIN).add(steps)
    split = Histories(delta_lag, PLAIN)
    parts = [split.add(steps[at : at + 7]) for at in range(0, 200, 7)]
    pairs = [sorted(zip(*learned(batch), strict=True)) for batch in (whole, Batch.joined(parts))]
    assert pairs[0] == pairs[1] and len(pairs[0]) == 200 - 5 * delta_lag


def test_what_is_no_decision_of_the_policy_has_no_part():
    steps = rows((0, 1.0), (0, 2.0), (0, 3.0))
    steps["event"][1] = RTT + 1
    assert learned(Histories(1, PLAIN).add(steps)) == ([1.0], [3.0])
    nothing = Histories(1, PLAIN).add(steps[:0])
    assert nothing.inputs.shape == (1, 0, 4) and nothing.errors.shape == (1, 0)


@pytest.mark.parametrize(("rate", "sign"), [(1 << 20, -1.0), (1 << 6, 1.0)])
def test_what_would_have_changed_nothing_teaches_nothing(rate, sign):
    steps = rows((0, 1.0), (0, 2.0 * sign), (0, 3.0))
    steps["rate"][0] = rate
    assert learned(Histories(1, PLAIN).add(steps)) == ([2.0 * sign], [3.0])


@pytest.mark.parametrize(("rate", "sign"), [(1 << 20, 1.0), (1 << 6, -1.0)])
def test_who_is_at_an_end_learns_to_leave_it(rate, sign):
    steps = rows((0, 1.0), (0, 2.0 * sign))
    steps["rate"][0] = rate
    assert learned(Histories(1, PLAIN).add(steps)) == ([1.0], [2.0 * sign])


def remembered(flows, errors, change):
    """Returns rows of a NIC with an LSTM, and its memories: the first table decides before row `change`, then the second."""
    steps, memory, memories = rows(*zip(flows, errors, strict=True)), {}, []
    for number, row in enumerate(steps):
        before = memory.get(int(row["flow"]), np.zeros((1, lstm.MEMORY), np.int64))
        policy = TablePolicy(TABLES[number >= change])
        inputs_q16 = np.rint(inputs(steps[number : number + 1]) * Q16).astype(np.int64)
        action, memory[int(row["flow"])] = policy.integers(inputs_q16, before)
        row["state"][4] = np.int32(action[0] - Q16).view(np.uint32)
        memories.append(before[0] / Q16)
    return steps, np.array(memories)


def test_a_policy_that_remembers_learns_from_stretches_with_the_memory_before_them():
    flows, errors = [0, 3, 0, 0, 3, 0, 0, 3, 0, 3], np.linspace(-1, 1, 10).tolist()
    steps, memories = remembered(flows, errors, change=5)
    histories = Histories(1, TABLES[0])
    first = histories.add(steps[:5])
    histories.table = TABLES[1]
    second = histories.add(steps[5:])
    lane_errors = [np.round(np.array(errors)[numbers], 4) for numbers in ([0, 2], [1], [3, 5, 6], [4, 7])]
    for batch, lanes, starts in ((first, lane_errors[:2], [0, 1]), (second, lane_errors[2:], [3, 4])):
        assert batch.counted.sum(axis=0).tolist() == [len(lane) for lane in lanes]
        for index, lane in enumerate(lanes):
            assert batch.inputs[: len(lane), index, 3] == pytest.approx(lane, abs=1e-4)
            assert (batch.counted[:, index] == (np.arange(len(batch.counted)) < len(lane))).all()
        assert (batch.memory == memories[starts]).all()
    assert first.errors[:, 0] == pytest.approx([errors[2], errors[3]], abs=1e-4) and first.errors[1, 1] == 0
    both = Batch.joined([first, second])
    assert both.inputs.shape == (3, 4, 4) and both.memory.shape == (4, lstm.MEMORY) and both.counted.sum() == 8


def test_what_does_not_teach_keeps_its_place_in_a_stretch():
    steps, _ = remembered([0, 0, 0], [1.0, -1.0, -2.0], change=3)
    steps["rate"][0] = 1 << 20
    batch = Histories(1, TABLES[0]).add(steps)
    assert batch.counted.tolist() == [[False], [True]] and batch.inputs[:, 0, 3].tolist() == [1.0, -1.0]


def test_a_nic_that_acted_by_another_table_is_found_out():
    steps, _ = remembered([0, 0, 0], [1.0, -1.0, 0.5], change=0)
    with pytest.raises(ProtocolError, match="acted otherwise"):
        Histories(1, TABLES[0]).add(steps)
