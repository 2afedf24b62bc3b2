# SPDX-License-Identifier: Apache-2.0
"""The benches of agents: what they compute, and that they find what they look for."""

import numpy as np
import pytest

from dc_gym.benchmarks.checks import enforce
from dc_gym.benchmarks.checks.enforce import RatePoint, each_step, once, spec_of
from dc_gym.benchmarks.perf import steps
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.learn.session import Session

COSTS = {"actions": 10.0, "all of a step": 15.0}


def test_all_take_turns_and_medians_count(monkeypatch):
    """Rounds of 1, 4 and 1 s a run, and 2 s each of two labs at once; a tenth of each is Python's."""
    calls, clock = [], iter(np.cumsum([0, 1, 0, 2, 0, 4, 0, 2, 0, 1, 0, 2]).tolist())
    monkeypatch.setattr(steps, "_times", lambda racer: (wall_s := next(clock), wall_s / 10, wall_s / 5))

    class Lab:
        pid = None

    def racer(name, labs):
        return steps.Racer(name, lambda: None, lambda number: calls.append(name), [Lab()] * labs)

    paces = steps.race([racer("a", 1), racer("b", 2)], rounds=3, steps=8)
    assert [paces[name].steps_per_s for name in "ab"] == [8, 8]
    assert paces["a"].python_us == pytest.approx(1e5 * 2 / 8) and paces["b"].cpu_us == pytest.approx(3e5 / 8)
    assert "".join(calls) == ("a" * (steps.WARM_UP + 8) + "b" * (steps.WARM_UP + 8)) * 3


@pytest.mark.parametrize(("env", "passes"), [(850, True), (840, False)])
def test_the_bar_of_steps_is_their_share_of_the_bare_channels(env, passes):
    paces = {"bare": 1000, "sweep": 2000, "lab": 1250, "env": env}
    check, *others = steps.step_checks({name: steps.RacerPace(rate, 50, 150) for name, rate in paces.items()}, COSTS)
    assert check.ok == passes and check.measured.startswith(f"{env / 1000:.2f} ")
    words = [other.measured for other in others]
    assert all(other.ok for other in others) and words[0] == "1.00 (200 of 200 us a step)"
    assert words[2] == "800 us (1250 steps/s): channel and sweep 500 us, traffic and rates 300 us; CPU 150 us"


@pytest.mark.parametrize(("labs", "passes"), [(500, True), (490, False)])
def test_the_bar_of_rllib_is_its_share_of_a_vector_that_costs_nothing(labs, passes):
    check, other = steps.sampling_checks({"labs": labs, "single": 4000, "together": 1000})
    assert check.ok == passes and check.measured.startswith(
        f"{labs / 1000:.2f} ({labs} of 1000 steps/s; RLlib's own 1000 us a step"
    )
    assert other.ok and other.required == "recorded" and other.measured.startswith(f"{labs / 4000:.2f} (4000 steps/s")


def test_without_rllib_its_bar_is_skipped_and_says_why(monkeypatch):
    monkeypatch.setattr(steps, "find_spec", lambda name: None)
    (check,) = steps.rllib_checks()
    assert check.skipped and "not installed" in check.measured


@pytest.mark.lab
def test_a_race_in_labs(lab_kernel, tmp_path):
    env = DataCenterEnv(steps.SPECS[steps.ID], folder=tmp_path)
    actions = steps.drawn(env.action_space, 60)
    with steps.BareSession(plain=True) as plain, steps.BareSession(plain=False) as swept:
        racers = [steps.channel_racer("bare", plain), steps.channel_racer("sweep", swept), steps.env_racer("env", env, actions)]
        for racer in racers:
            racer.start()
            racer.run(20)
        assert plain.lab.answer(0) is None and plain.lab.until_step()[0] == 21, "each step is one of the lab"
        assert env.episode.frame.step == 20
        paces = steps.race(racers, rounds=1, steps=20)
        assert all(pace.steps_per_s > 0 and pace.python_us > 0 for pace in paces.values())
    costs = steps.python_parts(env, actions)
    assert list(costs) == ["actions", "observations and rewards", "all of a step"] and min(costs.values()) > 0
    env.close()


def test_the_worst_host_decides():
    points = [RatePoint(10**7, "tcp", "once", 10_000, 10_050), RatePoint(10**7, "tcp", "once", 1e7, 0.985e7)]
    assert enforce.bar_of(points[:1]).ok and not enforce.bar_of(points).ok
    assert enforce.bar_of(points).measured.startswith("-1.500% at the worst: 9.85 Mbit/s where 10 Mbit/s were")


def test_points_are_written_and_drawn(tmp_path):
    points = [
        RatePoint(line, transport, changes, line / 10, line / 10 * 1.001)
        for line in enforce.LINES_BPS
        for transport in enforce.TRANSPORTS
        for changes in enforce.CHANGES
    ]
    enforce.save(points, tmp_path / "enforce.csv")
    lines = (tmp_path / "enforce.csv").read_text().splitlines()
    assert len(lines) == 13 and lines[1] == "10000000,tcp,once,1000000.0,1000999.9999999999,0.001000"
    enforce.draw_figure(points, tmp_path / "enforce.png")
    assert (tmp_path / "enforce.png").stat().st_size > 10_000


@pytest.mark.lab
@pytest.mark.parametrize("transport", enforce.TRANSPORTS)
def test_hosts_send_what_was_commanded(transport, lab_kernel):
    points = list(enforce.measure(10**7, transport, shares=(0.1, 1)))
    assert [point.changes for point in points] == ["once", "once", "each step", "each step"]
    assert all(abs(point.error) <= enforce.TOLERANCE for point in points), points


@pytest.mark.lab
def test_the_bench_sees_that_stock_tbf_enforces_nothing_that_changes_each_step(lab_kernel):
    keys = spec_of(10**7, "tcp", (0.1, 1), frames=50)
    keys["agent"] |= {"tbf": "stock"}
    with Session(as_spec(keys)) as session:
        for draw, low, high in ((once, 0.95, 1.05), (each_step, 1.2, 99)):
            commanded, measured = enforce.episode(session, np.array([1e6, 1e7]), draw)
            assert low < measured[0] / commanded[0] < high
