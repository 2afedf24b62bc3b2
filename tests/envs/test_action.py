# SPDX-License-Identifier: Apache-2.0
"""Actions and rates: equations 4.1 and 4.2 of the thesis by hand, the other heads, and the way back."""

import math

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.envs import action as actions
from dc_gym.envs.action import Action, register
from tests.envs.made import scene

FLOOR = 0.001  # 10 kbit/s of 10 Mbit/s


def shares(name, *values):
    found, _ = scene()
    given = [*values, *[0.0] * (4 - len(values))]
    return (Action(found, name).to_values(given) / 1e7)[: len(values)].tolist()


def test_equations_4_1_and_4_2():
    for name in ("rates", "thesis"):
        for a in (-1.0, -0.3, 0.0, 0.5, 1.0):
            expected = (math.tanh(a) + 1) / 2 * (1 - FLOOR) + FLOOR
            assert shares(name, a) == pytest.approx([expected], rel=1e-6)
    assert shares("thesis", 0) == pytest.approx([0.5005])


def test_what_tanh_reaches():
    """Actions of -1..1 reach 12 to 88 % of the range; those of the thesis are not bounded, and ours do as well at 5."""
    assert shares("rates", -1, 1) == pytest.approx([0.1201, 0.8809], abs=1e-3)
    assert shares("rates", -50, 50) == shares("rates", -1, 1)
    low, high = shares("thesis", -5, 5)
    assert low == pytest.approx(FLOOR, rel=0.05) and 0.9999 < high < 1


def test_linear():
    assert shares("linear", -1, 1) == [FLOOR, 1]
    assert shares("linear", 0) == pytest.approx([0.5005])
    assert shares("linear", -7, 7) == [FLOOR, 1]


def test_log_goes_in_equal_ratios():
    assert shares("log", -1, -1 / 3, 1 / 3, 1) == pytest.approx([0.001, 0.01, 0.1, 1])


@pytest.mark.parametrize("name", ["linear", "log", "rates", "thesis"])
def test_the_way_back(name):
    found, _ = scene()
    action = Action(found, name)
    rates = np.array([2e6, 3e6, 5e6, 8e6])
    assert action.to_values(action.from_values(rates)) == pytest.approx(rates, rel=1e-5)
    assert action.from_values([1e9] * 4).tolist() == [action.head.bound] * 4
    assert action.from_values([0] * 4).tolist() == [-action.head.bound] * 4


def test_a_floor_at_the_line_leaves_no_choice():
    from dc_gym.envs.scene import Scene
    from tests.envs.made import experiment

    found = Scene.of(experiment('agent.floor="10Mbit/s"'))
    for head in actions.heads():
        action = Action(found, head.name)
        assert (action.to_values([-1, 0, 0.5, 1]) == 1e7).all()
        assert action.space.contains(action.from_values([1e7] * 4))


def test_only_those_who_act_have_an_action():
    found, _ = scene(hosts="senders")
    assert Action(found, "linear").space.shape == (2,)
    assert Action(found, "thesis").space.high.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ([0, 0, 0], "3 values for 4 hosts; give one for each"),
        ([0, math.nan, 0, 0], "that of h2 is not a number; has the policy diverged?"),
        ([math.inf, 0, math.nan, -math.inf], "that of h3 is not a number"),
        ("full", "'full' is no array of numbers; give one for each host"),
        ([0, [0, 0], 0], "[0, [0, 0], 0] is no array of numbers"),
    ],
)
def test_a_wrong_action_is_one_line(given, line):
    found, _ = scene()
    with pytest.raises(AgentError) as caught:
        Action(found, "linear").to_values(given)
    assert line in str(caught.value)


def test_a_wrong_head_is_one_line():
    found, _ = scene()
    with pytest.raises(AgentError, match="action 'linaer' is unknown; did you mean linear"):
        Action(found, "linaer")
    with pytest.raises(AgentError, match="action 'log' is registered already"):
        register("log", 1, "", lambda a, floor: a, lambda share, floor: share)
    with pytest.raises(AgentError, match="the bound inf is not positive and finite"):
        register("wide", math.inf, "", lambda a, floor: a, lambda share, floor: share)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (None, "gives None instead of numbers of shape (4,), one for each host; mend the function"),
        (0.5, "gives 0.5 instead of numbers of shape (4,)"),
        (np.zeros((4, 1)), "gives an array of shape (4, 1) instead of numbers of shape (4,)"),
        (np.array([None] * 4), "gives an array of shape (4,) of objects instead of numbers of shape (4,)"),
        (np.array([0, 1, math.nan, 0]), "gives nan for h3; mend the function"),
    ],
)
def test_a_head_that_gives_something_else_is_one_line(given, line, registries):
    register("mine", 1, "x", lambda a, floor: given, lambda share, floor: given)
    made = Action(scene()[0], "mine")
    with pytest.raises(AgentError) as to_values:
        made.to_values([0] * 4)
    with pytest.raises(AgentError) as from_values:
        made.from_values([0] * 4)
    assert str(to_values.value).startswith(f"agent.action: to_share of 'mine' {line}")
    assert str(from_values.value) == str(to_values.value).replace("to_share", "from_share")


def test_a_head_of_the_user_s(registries):
    register(
        "halves", 1, "the floor or the line", lambda a, floor: np.where(a > 0, 1.0, floor), lambda s, floor: np.sign(s - 0.5)
    )
    assert shares("halves", -0.1, 0.1) == [FLOOR, 1]
