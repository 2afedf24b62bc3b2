# SPDX-License-Identifier: Apache-2.0
"""[episodes]: keys that are drawn anew in each episode, seeds of trainings and of held-out episodes, and mistakes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, SpecError
from dc_gym.base.units import parse_rate_bps, parse_share, parse_size_bytes, parse_time_ns
from dc_gym.run.agent.channel import ObservationChannel
from dc_gym.spec import FIRST_HELD_OUT, LARGEST_SEED, AgentSpec, Spec, from_dict, vary
from dc_gym.spec.episodes import LOG_UNIFORM, UNIFORM

KEYS: dict[str, Any] = {
    "topology": {"preset": "dumbbell-10m"},
    "controller": {"name": "cubic"},
    "workload": {"kind": "poisson", "load": 0.5, "size": "20kB", "beside": [{"kind": "pairs", "jitter": "1ms"}]},
    "events": [
        {"at": "300ms", "link": ["s1", "s2"], "rate": "5Mbit/s", "loss": "1%"},
        {"at": "400ms", "port": "s1-*", "kmin": 3028, "kmax": 3028},
        {"at": "500ms", "workload": {"load": 0.2}},
    ],
    "time": {"duration": "1s"},
}


def spec(draw: dict[str, Any], **episodes: Any) -> Spec:
    return vary({**KEYS, "episodes": {"draw": draw, **episodes}}, Path.cwd(), "spec", [], {}, "spec")


RANGES: dict[str, tuple[list[Any], Any]] = {
    "workload.load": ([0.2, 0.9], lambda value: value),
    "workload.size": (["2kB", "50kB"], lambda value: parse_size_bytes(value)),
    "workload.beside[0].start": (["0s", "20ms"], lambda value: parse_time_ns(value)),
    "events[0].at": (["100ms", "350ms"], lambda value: parse_time_ns(value)),
    "events[0].rate": (["1Mbit/s", "9Mbit/s"], lambda value: parse_rate_bps(value)),
    "events[0].loss": ([0.001, "2%"], lambda value: parse_share(value, 10**9)),
    "events[1].kmin": ([1514, 3028], lambda value: value),
    "events[2].workload.load": ([0.1, 0.3], lambda value: value),
    "agent.observation_delay": ([0, 5], lambda value: value),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_value_lies_in_its_range_and_is_that_of_the_key(name: str) -> None:
    (low, high), number = RANGES[name]
    drawing = spec({name: {UNIFORM: [low, high]}})
    values = [drawing.drawn(seed)[name] for seed in range(200)]
    numbers = [number(value) for value in values]
    assert number(low) <= min(numbers) < max(numbers) <= number(high) and len(set(values)) > 5
    assert number(low) + 0.4 * (number(high) - number(low)) < np.mean(numbers) < number(low) + 0.6 * (number(high) - number(low))
    episode = drawing.episode(7).to_dict()
    table: Any = episode
    for part in name.replace("[", ".").replace("]", "").split("."):
        table = table[int(part)] if isinstance(table, list) else table[part]
    assert table == drawing.drawn(7)[name]
    assert {key: part for key, part in episode.items() if key != name.partition(".")[0].partition("[")[0]} == {
        key: part for key, part in drawing.to_dict().items() if key != name.partition(".")[0].partition("[")[0]
    }


def test_each_key_is_drawn_by_itself_and_logarithms_are_even() -> None:
    size, load = {"workload.size": {LOG_UNIFORM: ["1kB", "1MB"]}}, {"workload.load": {"choice": [0.2, 0.4]}}
    both, alone = spec(size | load), spec(size)
    assert [both.drawn(seed)["workload.size"] for seed in range(9)] == [alone.drawn(seed)["workload.size"] for seed in range(9)]
    decades = np.log10([parse_size_bytes(alone.drawn(seed)["workload.size"]) for seed in range(300)])
    assert np.histogram(decades, [3, 4, 5, 6.01])[0].min() > 70
    assert {both.drawn(seed)["workload.load"] for seed in range(20)} == {0.2, 0.4}


def test_keys_may_be_written_with_and_without_quotes() -> None:
    assert spec({"workload": {"load": {UNIFORM: [0.2, 0.9]}}}) == spec({"workload.load": {UNIFORM: [0.2, 0.9]}})


def test_a_run_is_the_episode_of_its_seed_and_its_spec_draws_the_same_again() -> None:
    drawing = spec({"workload.load": {UNIFORM: [0.2, 0.9]}}, split="held-out")
    run = drawing.as_run()
    assert run.seed == FIRST_HELD_OUT + 1 and run.to_dict()["workload"]["load"] == drawing.drawn(run.seed)["workload.load"]
    assert from_dict(run.to_dict(), Path.cwd()).as_run() == run


def test_a_spec_without_the_section_is_as_it_was() -> None:
    plain = vary(KEYS, Path.cwd(), "spec", [], {}, "spec")
    assert "episodes" not in plain.to_dict() and plain.episode(3) is plain and plain.as_run() is plain
    assert [plain.episodes.seed_of(seed) for seed in (0, FIRST_HELD_OUT, LARGEST_SEED)] == [0, FIRST_HELD_OUT, LARGEST_SEED]


def test_no_seed_is_of_a_training_and_held_out() -> None:
    load = {"workload.load": {UNIFORM: [0.2, 0.9]}}
    training, held_out = spec(load).episodes, spec(load, split="held-out").episodes
    asked = [0, 1, FIRST_HELD_OUT - 1]
    assert [training.seed_of(seed) for seed in asked] == asked
    assert [held_out.seed_of(seed) for seed in asked] == [FIRST_HELD_OUT, FIRST_HELD_OUT + 1, LARGEST_SEED]
    assert held_out.seed_of(held_out.seed_of(5)) == held_out.seed_of(5)
    for train in (training, spec({}, split="train").episodes):
        with pytest.raises(AgentError, match=f"seed {FIRST_HELD_OUT} is of a held-out episode"):
            train.seed_of(FIRST_HELD_OUT)


@pytest.mark.parametrize(
    ("name", "entry", "line"),
    [
        ("topology.rate", {UNIFORM: ["1Mbit/s", "2Mbit/s"]}, "topology.rate: is part of the network"),
        ("agent.latency", {"choice": ["1ms"]}, "agent.latency: is part of the network"),
        ("events[0].link", {"choice": [["s1", "s2"]]}, r"events\[0\].link: is part of the network"),
        ("workload.dscp", {"choice": [3]}, "workload.dscp: is part of the network"),
        ("workload.laod", {UNIFORM: [0.1, 0.2]}, "workload.laod: unknown key; did you mean load?"),
        ("load", {UNIFORM: [0.1, 0.2]}, "draw.load: unknown key"),
        ("workload.load", {UNIFORM: [0.9, 0.2]}, r"load = \[0.9, 0.2\]: is an empty range"),
        ("workload.load", {UNIFORM: [0.2, 0.2]}, r"load = \[0.2, 0.2\]: is an empty range"),
        ("workload.load", {UNIFORM: [0.2]}, r"lacks its values; write { uniform = \[LOW, HIGH\] }"),
        ("workload.load", {"choice": []}, "lacks its values; write { choice"),
        ("workload.load", {"normal": [0, 1]}, "distribution 'normal' is unknown"),
        ("workload.load", 0.3, "load = 0.3: is not one distribution"),
        ("workload.load", {UNIFORM: [0.2, 1.5]}, "load = 1.5: is above 1"),
        ("workload.load", {UNIFORM: [0.2, 0.30000001]}, "load = 0.30000001: has more than six decimals"),
        ("workload.size", {LOG_UNIFORM: ["0B", "1kB"]}, "begins at 0"),
        ("workload.kind", {UNIFORM: ["pairs", "poisson"]}, "has no order to draw from; give choice"),
        ("workload.kind", {"choice": ["poison"]}, 'kind = "poison": unknown; did you mean poisson'),
        ("events[3].rate", {"choice": ["1Mbit/s"]}, "the spec has 3 of these"),
        ("events[0].delay", {"choice": ["1ms"]}, "the event has no delay"),
        ("events[0].at", {UNIFORM: ["1ms", "2s"]}, r'events\[0\].at = "2s": is not before time.duration'),
        ("workload.beside[0].rate", {"choice": ["fast"]}, 'rate = "fast"'),
    ],
)
def test_a_mistake_is_one_line(name: str, entry: Any, line: str) -> None:
    with pytest.raises(SpecError, match=line) as excinfo:
        spec({name: entry})
    assert str(excinfo.value).startswith("spec: episodes.draw.") and "\n" not in str(excinfo.value)


def test_an_observation_is_late_or_lost_and_the_last_one_stays() -> None:
    sent = [np.array([step], np.float32) for step in range(400)]
    late = ObservationChannel(AgentSpec(observation_delay=2), 1)
    assert [int(late.deliver(message)[0]) for message in sent[:6]] == [0, 0, 0, 1, 2, 3]
    lossy = ObservationChannel(AgentSpec(observation_loss_ppb=300_000_000), 1)
    arrived = [int(lossy.deliver(message)[0]) for message in sent]
    assert all(now in (step, before) for step, (before, now) in enumerate(pairwise(arrived), 1))
    assert 0.2 < np.mean([now != step for step, now in enumerate(arrived)]) < 0.4
    again = ObservationChannel(AgentSpec(observation_loss_ppb=300_000_000), 1)
    assert [int(again.deliver(message)[0]) for message in sent] == arrived
    assert ObservationChannel.of(AgentSpec(), 1) is None
