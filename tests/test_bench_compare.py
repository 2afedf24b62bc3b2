# SPDX-License-Identifier: Apache-2.0
"""The comparison: which runs it asks for, which controller is best, when a link has recovered, and the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_marked
from dc_gym.benchmarks.studies.compare import measured, page
from dc_gym.benchmarks.studies.compare.measured import DELAY, GOODPUT, P99_SLOWDOWN, Compared, Competitor
from dc_gym.benchmarks.studies.compare.scenarios import (
    DEFAULT_TRAFFIC,
    TRAFFIC,
    CompareOptions,
    CompareScenario,
    check,
    grid,
    scenarios,
)
from dc_gym.cli import main
from dc_gym.spec import Spec
from dc_gym.traffic.flows import FlowRequest


def options(**changes: Any) -> CompareOptions:
    return CompareOptions(**({"controllers": ("dctcp", "cubic"), "seeds": 3} | changes))


def flows_of(spec: Spec) -> list[FlowRequest]:
    return spec.flows(spec.graph())


def scenario_of(name: str, network: str = "dumbbell") -> CompareScenario:
    return next(scenarios(options(networks=(network,), traffic=(name,))))


def entry(name: str, flows: int = 5000, **numbers: Mapping[int, float]) -> Competitor:
    return Competitor(name, name.upper(), "#0072B2", "o", numbers, flows)


def compared(name: str, *entries: Competitor, unfit: tuple[str, ...] = ()) -> Compared:
    scenario = scenario_of(name)
    return Compared(scenario, entries, unfit, grid(scenario, options(), ()).points[0].spec)


@pytest.mark.parametrize("network", ["dumbbell", "fattree-k4", "rlcc64"])
@pytest.mark.parametrize("name", TRAFFIC)
def test_every_case_has_a_spec_and_its_flows(network: str, name: str) -> None:
    asked = grid(scenario_of(name, network), options(seeds=1), ())
    assert [point.name for point in asked.points] == ["dctcp-s1", "cubic-s1"]
    assert all(point.spec.time.duration_ns > point.spec.time.warmup_ns for point in asked.points)
    if name.startswith("many-to-one-"):
        assert len(flows_of(asked.points[0].spec)) == int(name.rpartition("-")[2])


def test_keys_that_are_given_win() -> None:
    spec = grid(scenario_of("many-to-one-8"), options(), ["topology.scale=10", "time.duration=5s"]).points[0].spec
    assert (spec.topology.scale, spec.time.duration_ns) == (10, 5 * 10**9)


def test_seeds_differ_in_traffic_and_controllers_do_not() -> None:
    points = {point.name: flows_of(point.spec) for point in grid(scenario_of("many-to-one-8"), options(), ()).points}
    assert points["dctcp-s1"] != points["dctcp-s2"]
    assert [flow.start_ns for flow in points["dctcp-s1"]] == [flow.start_ns for flow in points["cubic-s1"]]


def test_networks_at_their_speed_and_slowed_down_have_the_same_packets() -> None:
    slow = grid(scenario_of("many-to-one-8"), options(), ()).points[0].spec
    full = grid(next(scenarios(options(full=True, scale=1, traffic=("many-to-one-8",)))), options(), ()).points[0].spec
    for mine, other in zip(slow.graph().cables, full.graph().cables, strict=True):
        assert (mine.a.queue, mine.b.queue, mine.rate_bps * 100) == (other.a.queue, other.b.queue, other.rate_bps)
        assert mine.delay_ns == other.delay_ns * 100


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"controllers": ("tahoe",)}, "tahoe"), ({"networks": ("ring",)}, "ring"), ({"traffic": ("gossip",)}, "gossip")],
)
def test_unknown_names_are_one_line(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=f"{word}.*is unknown; one of"):
        check(options(**changes))
    check(options(controllers=("dctcp", "policy.npz", "mine.py:Agent")))


@pytest.mark.parametrize("scale", [1, 100])
def test_acc_is_dcqcn_with_agents_that_decide_in_scaled_time(scale: int) -> None:
    asked = options(controllers=("acc",), traffic=("many-to-one-8",), seeds=1, scale=scale)
    (point,) = grid(next(scenarios(asked)), asked, ()).points
    spec = point.spec
    assert (spec.controller.name, spec.controller.policy) == ("dcqcn", "acc") and point.name == "acc-s1"
    assert (spec.agent.interval_ns, spec.agent.latency_ns) == (500_000 * scale, 10_000 * scale)


def test_best_are_those_that_none_beats() -> None:
    fast, slow = {1: 10.0, 2: 11.0, 3: 12.0}, {1: 5.0, 2: 6.0, 3: 7.1}
    noisy = {1: 12.0, 2: 8.0, 3: 12.5}
    found = compared(
        "many-to-one-8", entry("a", goodput_bps=fast), entry("b", goodput_bps=slow), entry("c", goodput_bps=noisy), entry("d")
    )
    assert found.best(GOODPUT) == {"a", "c"}
    assert found.best(DELAY) == frozenset() and found.metrics == (GOODPUT,)
    alike = compared("many-to-one-8", entry("a", goodput_bps=fast), entry("b", goodput_bps=fast))
    assert alike.best(GOODPUT) == frozenset(), "all are"
    less = compared("many-to-one-8", entry("a", queueing_delay_s=fast), entry("b", queueing_delay_s=slow))
    assert less.best(DELAY) == {"b"}


def test_the_page_says_what_was_found_and_marks_what_is_thin(tmp_path: Path) -> None:
    slowdown = {1: 4.0, 2: 5.0, 3: 6.0}
    few = compared("websearch-60", entry("dctcp", 200, slowdown_p99=slowdown), unfit=("dctcp-s4 unfit, not counted: <b>",))
    many = compared("websearch-60", entry("dctcp", 2000, slowdown_p99=slowdown))
    text = page.write(tmp_path, [few], [("Seeds", "1 to 3")]).read_text()
    assert is_marked(page.MARK)(tmp_path / page.FIGURE)
    assert "\u2020" in text.split("<h2>")[0] or "&dagger;" in text.split("<h2>")[0]
    assert "not counted: &lt;b&gt;" in text and "5.0\u00a0\u00b1\u00a02.5" in text
    assert "base round trips" in text, "what is not scale-free"
    assert "&dagger;</span>" not in page.write(tmp_path, [many], []).read_text()
    rows = (tmp_path / "table.csv").read_text().splitlines()
    assert rows[1] == f"dumbbell,websearch-60,dctcp,1,{P99_SLOWDOWN.name},4.0" and len(rows) == 4


@pytest.mark.parametrize(("back_at", "expected"), [(1.2, 0.2), (None, None)])
def test_recovery_is_from_the_last_short_flow_to_what_was_before(
    monkeypatch: pytest.MonkeyPatch, back_at: float | None, expected: float | None
) -> None:
    t_s = (np.arange(200) + 0.5) / 100
    rate = np.where(t_s < 0.5, 100.0, 20.0)
    if back_at is not None:
        rate[t_s >= back_at] = 95.0
    rate[(t_s > 1.1) & (t_s < 1.12)] = 100.0  # for a moment alone does not count

    class Fake:
        path = Path()
        manifest = {"spec": {}}
        stored = None

        def records(self, name: str) -> np.ndarray[Any, Any]:
            rows = [(0, 0, -1), (50_000, 500_000_000, 1_000_000_000)]
            return np.array(rows, [("size_bytes", "<u8"), ("start_ns", "<i8"), ("end_ns", "<i8")])

    drawn = type("Drawn", (), {"goodput_bps": np.array([rate, rate * 0]), "t_s": t_s})
    monkeypatch.setattr(measured, "series", lambda *args: drawn)
    monkeypatch.setattr(measured, "without_code", lambda *args: grid(scenario_of("long-short"), options(), ()).points[0].spec)
    found = measured.recovery_s(Fake())  # type: ignore[arg-type]
    assert found == (None if expected is None else pytest.approx(expected, abs=0.011))


def test_options_of_compare_are_refused_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["bench", "links", "--full"]) == 2
    assert "--full applies only to bench compare; leave it out" in capsys.readouterr().err
    assert main.main(["bench", "compare", "--workloads", "gossip"]) == 2
    assert "'gossip' is unknown" in capsys.readouterr().err
    assert set(DEFAULT_TRAFFIC) <= set(TRAFFIC)


def test_a_spec_that_cannot_be_is_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    some = ["--controllers", "dctcp,dcqcn", "--workloads", "long-short", "--seeds", "1", "--out", str(out)]
    assert main.main(["bench", "compare", *some, "--set", "nic.preset=peper"]) == 2
    said = capsys.readouterr().err
    assert "--set: nic.preset = \"peper\": dcqcn has no preset 'peper'; did you mean paper" in said and said.count("\n") == 1
    assert not out.exists()
