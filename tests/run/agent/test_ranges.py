# SPDX-License-Identifier: Apache-2.0
"""Features and rewards that leave the range that they declare: told once, by name; clipped or counted all the same."""

from __future__ import annotations

import numpy as np
import pytest

from dc_gym.run.agent import observation, ranges, reward
from dc_gym.run.agent.observation import Observer
from tests.run.agent.made import frame, scene


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch, registries: None) -> None:
    monkeypatch.setattr(ranges, "_told", set())


def test_a_clipped_feature_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    dumbbell, info = scene()
    observation.register("over", "host", 0.0, 1.0, "x", lambda frame, scene: np.array([0.5, 3.25, 1 + 1e-9, 0.0]))
    observations = [Observer(dumbbell, "over").observe(frame(info)) for _ in range(3)]
    assert observations[0].tolist() == [0.5, 1, 1, 0]
    assert capsys.readouterr().err.splitlines() == [
        "dcgym: warning: feature over is 3.25, outside of its range 0..1: it is clipped; register another range"
    ]


@pytest.mark.parametrize(("bounds", "range_text"), [((0, 1), "0..1"), ((-1.0, float("inf")), "")])
def test_a_reward_out_of_its_range_is_told_once(
    bounds: tuple[float, float], range_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dumbbell, info = scene()
    reward.register("high", bounds, "x", lambda frame, scene, share: 7.0)
    mix = reward.WeightedReward.of("2*high")
    share = np.ones(4)
    assert [mix(frame(info), dumbbell, share) for _ in range(3)] == [14.0] * 3
    lines = capsys.readouterr().err.splitlines()
    line = f"dcgym: warning: reward high is 7, outside of its range {range_text}: it counts as it is; register another range"
    assert lines == ([line] if range_text else [])
