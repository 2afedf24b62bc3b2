# SPDX-License-Identifier: Apache-2.0
"""Actions and rates: equations 4.1 and 4.2 of the thesis by hand, the other heads, and the way back."""

import math

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.run.agent import action as actions
from dc_gym.run.agent.action import Action, register
from tests.run.agent.made import STEP, random_values, scene

FLOOR = 0.001  # 10 kbit/s of 10 Mbit/s


def shares(name, *values):
    dumbbell, _ = scene()
    numbers = [*values, *[0.0] * (4 - len(values))]
    return (Action(dumbbell, name).to_values(numbers) / 1e7)[: len(values)].tolist()


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
    dumbbell, _ = scene()
    action = Action(dumbbell, name)
    rates = np.array([2e6, 3e6, 5e6, 8e6])
    assert action.to_values(action.from_values(rates)) == pytest.approx(rates, rel=1e-5)
    assert action.from_values([1e9] * 4).tolist() == [action.head.bound] * 4
    assert action.from_values([0] * 4).tolist() == [-action.head.bound] * 4


def test_a_floor_at_the_line_leaves_no_choice():
    from dc_gym.run.agent.scene import Scene
    from tests.run.agent.made import experiment

    dumbbell = Scene.of(experiment('agent.floor="10Mbit/s"'))
    for head in actions.heads():
        action = Action(dumbbell, head.name)
        assert (action.to_values([-1, 0, 0.5, 1]) == 1e7).all()
        assert action.space.contains(action.from_values([1e7] * 4))


def marking(*overrides):
    dumbbell, _ = scene(STEP, 'agent.actuators="s1-eth3:marking"', *overrides)
    return dumbbell


@pytest.mark.parametrize("name", ["linear", "log"])
def test_the_whole_range_of_each_value(name):
    action = Action(marking(), name)
    assert action.space.shape == (3,)
    assert action.to_values([-1, -1, -1]).tolist() == [1514, 1514, 10_000]
    assert action.to_values([1, 1, 1]).tolist() == [400_000, 400_000, 1_000_000]
    assert action.to_values([-9, 9, math.inf]).tolist() == [1514, 400_000, 1_000_000]
    assert action.from_values([0, 0, 0]).tolist() == [-1, -1, -1] and action.from_values([1e9] * 3).tolist()[::2] == [1, 1]


def test_values_of_marking_by_hand():
    """Bytes and millionths are whole numbers. kmax goes from kmin to the buffer."""
    linear, log = (Action(marking(), name) for name in ("linear", "log"))
    kmin = 1514 + (400_000 - 1514) * 0.25
    assert linear.to_values([-0.5, 0, 0]).tolist() == [round(kmin), round((round(kmin) + 400_000) / 2), 505_000]
    assert log.to_values([0, 0, 0]).tolist() == [24_609, round(math.sqrt(24_609 * 400_000)), 100_000]
    assert round(math.sqrt(1514 * 400_000)) == 24_609
    assert linear.to_values([0.5, -1, 0]).tolist()[:2] == [300_378, 300_378], "kmax is never below kmin"


@pytest.mark.parametrize("name", ["linear", "log"])
def test_a_whole_number_comes_back(name):
    """Also through the space's float32."""
    action, rng = Action(marking(), name), np.random.default_rng(1)
    for _ in range(200):
        kmin, kmax = np.sort(rng.integers(1514, 400_001, 2))
        thresholds = [kmin, kmax, rng.integers(10_000, 1_000_001)]
        assert action.to_values(action.from_values(thresholds)).tolist() == thresholds


@pytest.mark.parametrize("name", [head.name for head in actions.heads()])
def test_any_action_gives_values_that_can_be_set(name):
    dumbbell, rng = scene(STEP, 'agent.actuators="marking,rate"')[0], np.random.default_rng(1)
    action, low, high = Action(dumbbell, name), bounds(dumbbell, "low"), bounds(dumbbell, "high")
    for _ in range(200):
        values = action.to_values(rng.normal(0, action.head.bound, len(low)))
        assert (values >= low).all() and (values <= high).all()
        dumbbell.check(values)
        marks = values[: 3 * 6]
        assert (marks == np.floor(marks)).all()


def bounds(dumbbell, side):
    return np.concatenate([getattr(rows, side).ravel() for rows in dumbbell.actuated])


@pytest.mark.parametrize("name", ["linear", "log"])
def test_the_way_back_of_values(name):
    dumbbell, rng = scene(STEP, 'agent.actuators="marking,rate"')[0], np.random.default_rng(1)
    action = Action(dumbbell, name)
    for _ in range(200):
        values = random_values(dumbbell, rng)
        numbers = action.from_values(values)
        assert action.space.contains(numbers)
        assert action.to_values(numbers) == pytest.approx(values, rel=1e-3, abs=1)


def test_one_head_for_each_actuator():
    dumbbell, _ = scene(STEP, 'agent.actuators="rate,s1-eth3:marking"')
    both = Action(dumbbell, "thesis, log")
    assert both.space.high.tolist() == [5] * 4 + [1] * 3 and both.name == "thesis, log"
    numbers = [-5, 0, 2, 5, -1, 0, 1]
    rates = Action(scene()[0], "thesis").to_values(numbers[:4])
    marks = Action(marking(), "log").to_values(numbers[4:])
    assert both.to_values(numbers).tolist() == [*rates, *marks]
    assert both.from_values([*rates, *marks]) == pytest.approx(numbers, abs=1e-3)
    swapped = Action(scene(STEP, 'agent.actuators="s1-eth3:marking,rate"')[0], "log,thesis")
    assert swapped.to_values([*numbers[4:], *numbers[:4]]).tolist() == [*marks, *rates]


@pytest.mark.parametrize("name", ["linear,log,log", "linear,log"])
def test_as_many_heads_as_actuators(name):
    count = len(name.split(","))
    with pytest.raises(AgentError) as excinfo:
        Action(marking() if count == 2 else scene(STEP, 'agent.actuators="rate,marking"')[0], name)
    message = f"agent.action: '{name}' names {count} heads for {count - 1} actuators; give one for all, or one for each"
    assert str(excinfo.value) == message


@pytest.mark.parametrize(("index", "name"), [(0, "s1-eth3/kmin"), (2, "s1-eth3/pmax")])
def test_a_value_that_is_no_number_is_named(index, name):
    numbers = [0.0] * 3
    numbers[index] = math.nan
    with pytest.raises(AgentError, match=f"action: .*{name}.*number"):
        Action(marking(), "log").to_values(numbers)


def test_a_head_that_fails_for_ports_says_so(registries):
    register("mine", 1, "x", lambda a, floor: 0.5, lambda share, floor: np.array([math.nan]))
    action = Action(marking(), "mine")
    with pytest.raises(AgentError, match=r"0\.5 .*shape \(1,\).*port.*mend"):
        action.to_values([0] * 3)
    with pytest.raises(AgentError, match=r"from_share of 'mine'.*nan.*s1-eth3.*mend"):
        action.from_values([2000] * 3)


def test_only_those_who_act_have_an_action():
    dumbbell, _ = scene(hosts="senders")
    assert Action(dumbbell, "linear").space.shape == (2,)
    assert Action(dumbbell, "thesis").space.high.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ([0, 0, 0], "3 numbers where 4 values are set; give one for each"),
        ([0, math.nan, 0, 0], "that of h2 is not a number; has the policy diverged?"),
        ([math.inf, 0, math.nan, -math.inf], "that of h3 is not a number"),
        ("full", "'full' is no array of numbers; give one for each value"),
        ([0, [0, 0], 0], "[0, [0, 0], 0] is no array of numbers"),
    ],
)
def test_a_wrong_action_is_one_line(numbers, line):
    dumbbell, _ = scene()
    with pytest.raises(AgentError) as excinfo:
        Action(dumbbell, "linear").to_values(numbers)
    assert line in str(excinfo.value)


def test_a_wrong_head_is_one_line():
    dumbbell, _ = scene()
    with pytest.raises(AgentError, match=r"'linaer'.*did you mean linear"):
        Action(dumbbell, "linaer")
    with pytest.raises(AgentError, match="action 'log' is registered already"):
        register("log", 1, "", lambda a, floor: a, lambda share, floor: share)
    with pytest.raises(AgentError, match="bound inf"):
        register("wide", math.inf, "", lambda a, floor: a, lambda share, floor: share)


@pytest.mark.parametrize(
    ("shares_out", "line"),
    [
        (None, "gives None instead of numbers of shape (4,), one for each host; mend the function"),
        (0.5, "gives 0.5 instead of numbers of shape (4,)"),
        (np.zeros((4, 1)), "gives an array of shape (4, 1) instead of numbers of shape (4,)"),
        (np.array([None] * 4), "gives an array of shape (4,) of objects instead of numbers of shape (4,)"),
        (np.array([0, 1, math.nan, 0]), "gives nan for h3; mend the function"),
    ],
)
def test_a_head_that_gives_something_else_is_one_line(shares_out, line, registries):
    register("mine", 1, "x", lambda a, floor: shares_out, lambda share, floor: shares_out)
    action = Action(scene()[0], "mine")
    with pytest.raises(AgentError) as to_values:
        action.to_values([0] * 4)
    with pytest.raises(AgentError) as from_values:
        action.from_values([0] * 4)
    assert str(to_values.value).startswith(f"agent.action: to_share of 'mine' {line}")
    assert str(from_values.value) == str(to_values.value).replace("to_share", "from_share")


def test_a_head_of_the_user_s(registries):
    register(
        "halves", 1, "the floor or the line", lambda a, floor: np.where(a > 0, 1.0, floor), lambda s, floor: np.sign(s - 0.5)
    )
    assert shares("halves", -0.1, 0.1) == [FLOOR, 1]
