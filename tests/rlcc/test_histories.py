# SPDX-License-Identifier: Apache-2.0
"""What policies saw, and what came of it."""

import numpy as np
import pytest

from dc_gym.ctrl.nic.observation import Q16
from dc_gym.rlcc.histories import RTT, Histories, inputs
from dc_gym.run.nics import STEP_DTYPE


def rows(*made):
    """Of (flow, error) each; an action of 1.1 before it."""
    found = np.zeros(len(made), STEP_DTYPE)
    found["event"], found["t_ns"], found["rate"] = RTT, np.arange(len(made)), 1000
    for row, (flow, error) in zip(found, made, strict=True):
        row["flow"] = flow
        row["state"][:4] = np.array([0, 0, round(0.1 * Q16), round(error * Q16)], np.int64).astype(np.int32).view(np.uint32)
    return found


def test_inputs_are_the_first_four_words_of_the_context():
    assert inputs(rows((0, -0.75)))[0].tolist() == pytest.approx([1.0, 0.0, 1.1, -0.75], abs=1e-5)


def test_a_decision_has_the_error_of_so_many_later_of_its_own_flow():
    made = rows((0, 1.0), (7, -1.0), (0, 2.0), (0, 3.0), (7, -2.0), (0, 4.0))
    seen, errors = Histories(later=2).add(made)
    assert seen[:, 3].tolist() == [1.0, 2.0] and errors.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("later", [1, 3])
def test_batches_give_what_the_whole_gives(later):
    random = np.random.default_rng(1)
    made = rows(*zip(random.integers(0, 5, 200).tolist(), random.normal(size=200).tolist(), strict=True))
    whole = Histories(later).add(made)
    split = Histories(later)
    parts = [split.add(made[at : at + 7]) for at in range(0, 200, 7)]
    found = np.concatenate([np.column_stack(part) for part in parts])
    assert sorted(map(tuple, np.column_stack(whole))) == sorted(map(tuple, found)) and len(found) == 200 - 5 * later


def test_what_is_no_decision_of_the_policy_has_no_part():
    made = rows((0, 1.0), (0, 2.0), (0, 3.0))
    made["event"][1] = RTT + 1
    seen, errors = Histories(later=1).add(made)
    assert (seen[:, 3].tolist(), errors.tolist()) == ([1.0], [3.0])
    seen, errors = Histories(later=1).add(made[:0])
    assert seen.shape == (0, 4) and len(errors) == 0


@pytest.mark.parametrize(("rate", "sign"), [(1 << 20, -1.0), (1 << 6, 1.0)])
def test_what_would_have_changed_nothing_teaches_nothing(rate, sign):
    made = rows((0, 1.0), (0, 2.0 * sign), (0, 3.0))
    made["rate"][0] = rate
    seen, errors = Histories(later=1).add(made)
    assert (seen[:, 3].tolist(), errors.tolist()) == ([2.0 * sign], [3.0])


@pytest.mark.parametrize(("rate", "sign"), [(1 << 20, 1.0), (1 << 6, -1.0)])
def test_who_is_at_an_end_learns_to_leave_it(rate, sign):
    made = rows((0, 1.0), (0, 2.0 * sign))
    made["rate"][0] = rate
    seen, errors = Histories(later=1).add(made)
    assert (seen[:, 3].tolist(), errors.tolist()) == ([1.0], [2.0 * sign])
