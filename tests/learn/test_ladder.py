# SPDX-License-Identifier: Apache-2.0
"""The suite's specs, and how a ladder is judged."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from dc_gym import learn
from dc_gym.base.errors import UsageError
from dc_gym.cli.main import main
from dc_gym.learn import ladder
from dc_gym.learn.env import as_spec
from dc_gym.learn.ladder import LEVELS, Constant, Ladder, Rung, interquartile_mean, interval
from dc_gym.learn.session import Session
from dc_gym.learn.tasks import TASKS, Task, find, path_of
from dc_gym.run.agent.observation import Observer

assert learn.__doc__  # importing it registers the ids
MOST_NUMBERS = 64
"""The largest observation of a task."""


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_a_task_has_an_id_draws_its_episodes_and_shows_little(task: Task) -> None:
    assert gymnasium.spec(task.id).kwargs == {"spec": task.id} and find(task.id) is find(task.name) is task
    spec = task.spec()
    assert len({repr(spec.drawn(spec.episodes.seed_of(seed))) for seed in range(5)}) == 5
    session = Session(spec)
    observer = Observer(session.scene, spec.agent.observe)
    assert len(observer.names) <= MOST_NUMBERS
    assert task.path.read_text().startswith(f"# {task.id}: ")
    assert task.spec(*task.rule_keys).controller.policy is None
    assert path_of(Path(task.id)) == task.path and as_spec(task.id) == task.training_spec()


def rung(name: str, *returns: float, fct: float = 1.0) -> Rung:
    return Rung(name, [{"return": value, "fct_mean_s": fct} for value in returns])


def test_an_oracle_pays_by_distance_or_by_the_cost_of_its_task() -> None:
    worst, best = rung("worst", 0, 0, -100), rung("best", 10, 10, 10)
    ladder = Ladder(worst, best, best, rung("oracle", 13.1, 12.9, 30, fct=0.81), rung("policy", 11, 11, 11))
    assert ladder.pays("").tolist() == [True, False, False] and not ladder.pays("fct_mean_s").any()
    cheap = Ladder(worst, best, best, rung("oracle", 10.1, 9.9, 30, fct=0.79), None)
    assert cheap.pays("fct_mean_s").tolist() == [True, False, True]


def test_the_middle_half_counts_and_its_interval_repeats() -> None:
    pytest.importorskip("scipy")
    values = np.array([-1000.0, 1, 2, 3, 4, 5, 6, 1000])
    low, high = interval(values)
    assert interquartile_mean(values) == 3.5 and low < 3.5 < high and interval(values) == (low, high)
    assert interval(np.full(5, 2.0)) == (2.0, 2.0)
    best, oracle, policy = (rung(name, *[value] * 4) for name, value in (("best", 10.0), ("oracle", 30.0), ("policy", 25.0)))
    assert Ladder(best, best, best, oracle, policy).reached == 0.75


def test_a_search_finds_a_level_for_each_number(monkeypatch: pytest.MonkeyPatch) -> None:
    best = np.array([-0.6, 0.4, 1.0])

    def of_constants(spec: object, policy: partial[Constant], seeds: list[int]) -> list[dict[str, float]]:
        return [{"return": -float(np.square(policy.keywords["level"] - best).sum())} for _ in seeds]

    monkeypatch.setattr(ladder, "evaluate", of_constants)
    assert ladder.search(find("ElephantsAndIncast").spec(), [1, 2], 0.2, LEVELS) == pytest.approx(best)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ChangingLnik"], "task 'ChangingLnik' is unknown; did you mean dcgym/ChangingLink-v1"),
        (["ChangingLink", "--episodes", "1"], "--episodes 1: an interval needs 2 or more"),
        (["ChangingLink", "--seed", "-3"], "seed -3 is out of range"),
        (["maxx", "ChangingLink"], "policy 'maxx' is unknown; did you mean max"),
        (["ChangingLink", "--set", "agent.reword=goodput"], "agent.reword: unknown key; did you mean agent.reward"),
        (["ChangingLink", "--set", "episodes.split=train"], "episodes.split=train: a task is measured on held-out episodes"),
    ],
)
def test_a_mistake_of_an_evaluation_is_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")
    assert main(["evaluate", *words, "--quiet"]) == 2
    captured = capsys.readouterr()
    assert line in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_a_name_that_is_no_task_is_refused() -> None:
    with pytest.raises(UsageError, match="one of: dcgym/"):
        find("zzz")
