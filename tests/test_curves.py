# SPDX-License-Identifier: Apache-2.0
"""Curves over many results: the values, the intervals, and what is refused. The results are synthetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import result

from dc_gym import cli
from dc_gym.errors import UsageError
from dc_gym.figures import curves


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two controllers, two buffers, two seeds; the metric is 1, 2, ... in this order."""
    number = 0
    for controller in ("dctcp", "cubic"):
        for buffer in ("1MB", "50kB"):
            for seed in (1, 2):
                number += 1
                folder = tmp_path / f"{controller}-{buffer}-{seed}"
                made = result(folder)
                spec = dict(made.manifest["spec"])
                spec |= {
                    "seed": seed,
                    "controller": {"name": controller},
                    "topology": {"preset": "dumbbell-10m", "buffer": buffer},
                }
                edit(folder / "manifest.json", spec=spec)
                edit(folder / "summary.json", mean_srtt_us=float(number))
    return tmp_path


def test_a_point_is_the_mean_over_seeds_with_its_interval(sweep: Path) -> None:
    cubic, dctcp = curves.curves(curves.find_results(sweep), "topology.buffer", "mean_srtt_us", "controller.name")
    assert (cubic.name, dctcp.name) == ("cubic", "dctcp")
    assert [(point.x, point.mean, point.results) for point in dctcp.points] == [(50e3, 3.5, 2), (1e6, 1.5, 2)]
    assert [point.mean for point in cubic.points] == [7.5, 5.5]
    # two values that differ by 1: standard deviation 1/sqrt(2), of the mean 1/2, and t = 12.706205 for one degree of freedom
    assert dctcp.points[0].half_width == pytest.approx(12.706205 / 2)


def test_a_policy_has_a_line_of_its_own(sweep: Path) -> None:
    """The TCP below them is the same."""
    for path in sweep.glob("cubic-*/manifest.json"):
        spec = json.loads(path.read_text())["spec"]
        edit(path, spec=spec | {"controller": {"name": "cubic", "policy": "max" if spec["seed"] == 1 else "fair-share"}})
    lines = curves.curves(curves.find_results(sweep), "topology.buffer", "mean_srtt_us", "controller.name")
    assert {line.name for line in lines} == {"dctcp", "max over CUBIC", "fair-share over CUBIC"}
    by_policy = curves.curves(curves.find_results(sweep), "topology.buffer", "mean_srtt_us", "controller.policy")
    assert {line.name for line in by_policy} == {"-", "max", "fair-share"}


def test_policies_from_files_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    """The specs of all of them say policy.npz."""
    for content in ("a", "b"):
        made = result(tmp_path / content, inputs={"policy.npz": content * 64})
        edit(made.path / "manifest.json", spec=made.manifest["spec"] | {"controller": {"name": "cubic", "policy": "policy.npz"}})
    lines = curves.curves(curves.find_results(tmp_path), "seed", "mean_srtt_us", "controller.name")
    assert [line.name for line in lines] == ["policy.npz over CUBIC aaaaaaaa", "policy.npz over CUBIC bbbbbbbb"]


def test_one_result_has_no_interval(sweep: Path) -> None:
    dctcp = [result for result in curves.find_results(sweep) if "dctcp" in result.path.name]
    lines = curves.curves(dctcp, "seed", "mean_srtt_us", "topology.buffer")
    assert {line.name for line in lines} == {"1MB", "50kB"}
    single = curves.curves(curves.find_results(sweep)[:1], "seed", "mean_srtt_us", "controller.name")
    assert single[0].points[0].half_width is None


def test_results_of_different_experiments_are_no_samples_of_one(sweep: Path) -> None:
    """A third axis must not look like the spread over seeds."""
    with pytest.raises(UsageError, match=r"topology.buffer varies, too \(1MB, 50kB\)"):
        curves.curves(curves.find_results(sweep), "controller.name", "mean_srtt_us", "topology.preset")


def test_unfit_results_are_left_out(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(sweep / "dctcp-1MB-1" / "manifest.json", fit=False)
    words = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "left out: 1 unfit of 8 results" in said
    assert "1 MB            2  (n = 1)" in said
    for folder in sweep.iterdir():
        if folder.is_dir():
            edit(folder / "manifest.json", fit=False)
    assert cli.main(words) == 2
    assert "all of its 8 results are unfit" in capsys.readouterr().err


def test_null_metrics_are_left_out_and_none_at_all_is_an_error(sweep: Path) -> None:
    for folder in sweep.iterdir():
        if folder.name.startswith("cubic"):
            edit(folder / "summary.json", mean_srtt_us=None)
    results = curves.find_results(sweep)
    assert [line.name for line in curves.curves(results, "topology.buffer", "mean_srtt_us", "controller.name")] == ["dctcp"]
    with pytest.raises(UsageError, match="null in every result"):
        curves.curves(results, "seed", "fct_p99_s", "controller.name")


def test_the_command_draws_and_prints(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us", "--y", "utilization"]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    path = sweep / "mean_srtt_us-utilization.png"
    assert said.splitlines()[-1] == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "50 kB          3.5 +- 6.35  (n = 2)" in said
    assert cli.main(["plot", str(sweep), "--x", "controller.name", "--y", "mean_srtt_us", "--by", "topology.buffer"]) == 0
    assert "cubic" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--x", "seed"], "--x and --y belong together"),
        (["--x", "topology.bufer", "--y", "jain"], "no key of a spec"),
        (["--x", "seed", "--y", "speed"], "is no metric of"),
        (["--x", "seed", "--y", "flow_goodput_bps"], "is not one number"),
    ],
)
def test_what_is_refused(sweep: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plot", str(sweep), *words]) == 2
    assert reason in capsys.readouterr().err


def test_parts_of_lists_can_be_named(sweep: Path) -> None:
    for number, folder in enumerate(sorted(sweep.iterdir())):
        spec = json.loads((folder / "manifest.json").read_text())["spec"]
        spec["topology"]["links"] = [{"between": ["h1", "s1"], "delay": f"{number + 1}ms"}]
        edit(folder / "manifest.json", spec=spec)
        edit(folder / "summary.json", flow_goodput_bps=[1e6 * number, 5e6])
    results = curves.find_results(sweep)
    cubic, dctcp = curves.curves(results, "topology.links.0.delay", "flow_goodput_bps.0", "controller.name")
    assert [(point.x, point.mean) for point in dctcp.points] == [((n + 1) * 1e6, n * 1e6) for n in range(4, 8)]
    assert len(cubic.points) == 4
    assert curves.curves(results[:1], "topology.links.1.delay", "flow_goodput_bps.1", "seed")[0].points[0].x == "-"


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no result"):
        curves.find_results(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        curves.find_results(tmp_path / "none")
