# SPDX-License-Identifier: Apache-2.0
"""The comparison: which runs its studies ask for, when a link has recovered, and `dcgym bench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.benchmarks.studies.compare import cases
from dc_gym.cli import main
from dc_gym.spec import Spec
from dc_gym.study import collect, measured
from dc_gym.study.model import StudyOptions
from dc_gym.traffic.flows import FlowRequest


def specs_of(network: str, traffic: Sequence[str] | None, names: Sequence[str], seed: int = 1, **options: Any) -> dict[str, Spec]:
    study, study_options = cases.study(network, traffic, names), StudyOptions(Path("out"), **options)
    return {variant.name: collect.spec_of(study, variant, study_options, seed) for variant in study.chosen(study_options)}


def flows_of(spec: Spec) -> list[FlowRequest]:
    return spec.flows(spec.graph())


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_every_case_has_a_spec_and_its_flows(network: str) -> None:
    specs = specs_of(network, None, ("dctcp",), all_cases=True)
    assert len(specs) == len(cases.TRAFFIC)
    for name, spec in specs.items():
        assert spec.time.duration_ns > spec.time.warmup_ns
        if "many-to-one-" in name:
            assert len(flows_of(spec)) == int(name.rpartition("-")[2])


def test_by_default_some_of_the_traffic_runs() -> None:
    assert len(specs_of("dumbbell", None, cases.CONTROLLERS)) == len(cases.DEFAULT_TRAFFIC) * len(cases.CONTROLLERS)


def test_keys_that_are_given_win() -> None:
    (spec,) = specs_of("dumbbell", ("many-to-one-8",), ("dctcp",), overrides=("topology.scale=10", "time.duration=5s")).values()
    assert (spec.topology.scale, spec.time.duration_ns) == (10, 5 * 10**9)


def test_seeds_differ_in_traffic_and_controllers_do_not() -> None:
    first, second = (specs_of("dumbbell", ("many-to-one-8",), ("dctcp", "cubic"), seed) for seed in (1, 2))
    dctcp, cubic = (flows_of(first[f"{controller}, many-to-one-8"]) for controller in ("dctcp", "cubic"))
    assert dctcp != flows_of(second["dctcp, many-to-one-8"])
    assert [flow.start_ns for flow in dctcp] == [flow.start_ns for flow in cubic]


def test_networks_at_their_speed_and_slowed_down_have_the_same_packets() -> None:
    slow, full = (specs_of("dumbbell", ("many-to-one-8",), ("dctcp",), full=full) for full in (False, True))
    for cable, other in zip(*(specs["dctcp, many-to-one-8"].graph().cables for specs in (slow, full)), strict=True):
        assert (cable.a.queue, cable.b.queue, cable.rate_bps * 100) == (other.a.queue, other.b.queue, other.rate_bps)
        assert cable.delay_ns == other.delay_ns * 100


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(("dumbbell", None, ("tahoe",)), "tahoe"), (("ring", None, ()), "ring"), (("dumbbell", ("gossip",), ()), "gossip")],
)
def test_unknown_names_are_one_line(arguments: tuple[Any, ...], word: str) -> None:
    with pytest.raises(UsageError, match=f"{word}.*is unknown; one of"):
        cases.study(*arguments)
    names = [row.name for row in cases.study("dumbbell", ("all-to-all",), ("dctcp", "policy.npz", "mine.py:Agent")).variants]
    assert names == ["dctcp, all-to-all", "policy, all-to-all", "mine, all-to-all"]


@pytest.mark.parametrize(("full", "scale"), [(True, 1), (False, 100)])
def test_acc_is_dcqcn_with_agents_that_decide_in_scaled_time(full: bool, scale: int) -> None:
    (spec,) = specs_of("dumbbell", ("many-to-one-8",), ("acc",), full=full).values()
    assert (spec.controller.name, spec.controller.policy) == ("dcqcn", "acc")
    assert (spec.agent.interval_ns, spec.agent.latency_ns) == (500_000 * scale, 10_000 * scale)


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
    (spec,) = specs_of("dumbbell", ("long-short",), ("dctcp",)).values()
    monkeypatch.setattr(measured, "series", lambda *args: drawn)
    monkeypatch.setattr(measured, "without_code", lambda *args: spec)
    recovery_s = measured.recovery_s(Fake())  # type: ignore[arg-type]
    assert recovery_s == (None if expected is None else pytest.approx(expected, abs=0.011))


def test_options_of_compare_are_refused_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["bench", "links", "--full"]) == 2
    assert "--full applies only to bench compare; leave it out" in capsys.readouterr().err
    assert main.main(["bench", "compare", "--workloads", "gossip"]) == 2
    assert "'gossip' is unknown" in capsys.readouterr().err


def test_a_spec_that_cannot_be_is_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    some = ["--controllers", "dctcp,dcqcn", "--workloads", "long-short", "--seeds", "1", "--out", str(out)]
    assert main.main(["bench", "compare", *some, "--set", "nic.preset=peper", "--quiet"]) == 2
    stderr = capsys.readouterr().err
    assert "nic.preset = \"peper\": dcqcn has no preset 'peper'; did you mean paper" in stderr and stderr.count("\n") == 1


@pytest.mark.lab
def test_a_page_from_labs(tmp_path: Path) -> None:
    some = ["--controllers", "dctcp,hpcc", "--topologies", "dumbbell", "--workloads", "many-to-one-8", "--seeds", "2"]
    assert (
        main.main(["bench", "compare", *some, "--set", "time.duration=50ms", "--set", "time.warmup=20ms", "--out", str(tmp_path)])
        == 0
    )
    page = (tmp_path / "compare" / "dumbbell" / "index.html").read_text()
    assert "hpcc, many-to-one-8" in page and (tmp_path / "evidence" / "compare" / "dumbbell.tsv").is_file()
