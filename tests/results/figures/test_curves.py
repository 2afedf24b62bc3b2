# SPDX-License-Identifier: Apache-2.0
"""Curves over many results: the values, the intervals, and what is refused. The results are synthetic."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import S, result

from dc_gym import spec
from dc_gym.base.errors import UsageError
from dc_gym.cli import main
from dc_gym.results import results
from dc_gym.results.figures import curves, kit, spec_keys, styles, sweep_figure, titles
from dc_gym.results.figures.axes import bar_of, draw_bar, set_scale
from dc_gym.results.figures.sweep_figure import Axis, Curve, CurvePoint
from dc_gym.results.metrics import names


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
                run_result = result(folder)
                spec = dict(run_result.manifest["spec"])
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
    assert dctcp.points[0].few and dctcp.points[0].half_width is None, "two values have no interval that makes sense"


def test_lines_of_a_quantity_are_in_its_order(sweep: Path) -> None:
    """Values are ordered by size, not by spelling: 50kB is less than 1MB, 2 less than 12."""
    by_buffer = curves.curves(curves.find_results(sweep), "controller.name", "mean_srtt_us", "topology.buffer")
    assert [line.name for line in by_buffer] == ["50kB", "1MB"]
    for path in sweep.glob("dctcp-*/manifest.json"):
        spec = json.loads(path.read_text())["spec"]
        edit(path, spec=spec | {"seed": {1: 12, 2: 2}[spec["seed"]]})
    dctcp = [dctcp_result for dctcp_result in curves.find_results(sweep) if "dctcp" in dctcp_result.path.name]
    assert [line.name for line in curves.curves(dctcp, "topology.buffer", "mean_srtt_us", "seed")] == ["2", "12"]


def test_a_policy_has_a_line_of_its_own(sweep: Path) -> None:
    """The TCP below the policies is the same."""
    for path in sweep.glob("cubic-*/manifest.json"):
        spec = json.loads(path.read_text())["spec"]
        edit(path, spec=spec | {"controller": {"name": "cubic", "policy": "max" if spec["seed"] == 1 else "fair-share"}})
    lines = curves.curves(curves.find_results(sweep), "topology.buffer", "mean_srtt_us", "controller.name")
    assert {line.name for line in lines} == {"dctcp", "max over CUBIC", "fair-share over CUBIC"}
    by_policy = curves.curves(curves.find_results(sweep), "topology.buffer", "mean_srtt_us", "controller.policy")
    assert {line.name for line in by_policy} == {"-", "max", "fair-share"}


def test_policies_from_files_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    """All specs say policy.npz: lines have the policies' names, and those of one name are told apart by content."""
    for content, name in (("a", "ppo"), ("b", "ppo"), ("c", "sac")):
        run = result(tmp_path / content, inputs={"policy.npz": content * 64}, policies={"policy.npz": name})
        edit(run.path / "manifest.json", spec=run.manifest["spec"] | {"controller": {"name": "cubic", "policy": "policy.npz"}})
    found_results = curves.find_results(tmp_path)
    lines = curves.curves(found_results, "seed", "mean_srtt_us", "controller.name")
    assert [line.name for line in lines] == ["ppo over CUBIC aaaaaaaa", "ppo over CUBIC bbbbbbbb", "sac over CUBIC"]
    lines = curves.curves(found_results, "controller.policy", "mean_srtt_us", "topology.preset")
    assert [point.x for line in lines for point in line.points] == ["ppo aaaaaaaa", "ppo bbbbbbbb", "sac"]


def test_one_result_has_no_interval(sweep: Path) -> None:
    dctcp = [result for result in curves.find_results(sweep) if "dctcp" in result.path.name]
    lines = curves.curves(dctcp, "seed", "mean_srtt_us", "topology.buffer")
    assert {line.name for line in lines} == {"1MB", "50kB"}
    single = curves.curves(curves.find_results(sweep)[:1], "seed", "mean_srtt_us", "controller.name")
    assert single[0].points[0].half_width is None


def test_results_of_different_experiments_are_no_samples_of_one(sweep: Path) -> None:
    """Values of a third axis must not count as the spread over seeds."""
    with pytest.raises(UsageError, match=r"topology\.buffer.*\(1MB, 50kB\)"):
        curves.curves(curves.find_results(sweep), "controller.name", "mean_srtt_us", "topology.preset")


def test_unfit_results_are_left_out(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(sweep / "dctcp-1MB-1" / "manifest.json", fit=False)
    words = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]
    assert main.main(words) == 0
    stdout = capsys.readouterr().out
    assert "left out: 1 unfit of 8 results" in stdout
    assert re.search(r"dctcp +1 MB +2 +\(n = 1\)", stdout)
    for folder in sweep.iterdir():
        if folder.is_dir():
            edit(folder / "manifest.json", fit=False)
    assert main.main(words) == 2
    assert "all of its 8 results are unfit" in capsys.readouterr().err


def test_null_metrics_are_left_out_and_none_at_all_is_an_error(sweep: Path) -> None:
    for folder in sweep.iterdir():
        if folder.name.startswith("cubic"):
            edit(folder / "summary.json", mean_srtt_us=None)
    results = curves.find_results(sweep)
    assert [line.name for line in curves.curves(results, "topology.buffer", "mean_srtt_us", "controller.name")] == ["dctcp"]
    with pytest.raises(UsageError, match="null in every result"):
        curves.sheets_of(sweep, "seed", ["fct_p99_s"])


def test_the_command_draws_and_prints(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us", "--y", "utilization"]
    assert main.main(words) == 0
    stdout = capsys.readouterr().out
    path = sweep / "mean_srtt_us-utilization-by-topology.buffer.png"
    assert stdout.splitlines()[-1] == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "mean_srtt_us (us) by topology.buffer, a line for each controller.name" in stdout
    assert re.search(r"dctcp +50 kB +3, 4 +\(n = 2\)", stdout)
    assert main.main(["plot", str(sweep), "--x", "controller.name", "--y", "mean_srtt_us", "--by", "topology.buffer"]) == 0
    assert "cubic" in capsys.readouterr().out


def test_without_axes_it_says_which_there_are(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--x", "topology.buffer"], ["--y", "jain"]):
        assert main.main(["plot", str(sweep), *words]) == 2
        output = capsys.readouterr()
        assert re.search(r"^  topology.buffer +50kB, 1MB$", output.out, re.MULTILINE), "by size, not by name"
        assert re.search(r"^  controller.name +cubic, dctcp$", output.out, re.MULTILINE)
        assert re.search(r"^  seed +1, 2$", output.out, re.MULTILINE)
        assert re.search(r"^  mean_srtt_us +Smoothed RTT, mean$", output.out, re.MULTILINE) and "flow_goodput_bps.0" in output.out
        assert "fct_mean_s" not in output.out, "null everywhere"
        assert output.err.count("\n") == 1 and f"dcgym plot {sweep} --x topology.buffer --y mean_srtt_us" in output.err
    assert main.main(output.err.strip().split(": ")[-1].split()[1:]) == 0, "and the example works"


def test_nothing_but_a_figure_of_the_same_results_is_overwritten(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]
    out = tmp_path / "mine.png"
    out.write_bytes(b"a picture of my cat")
    assert main.main([*words, "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err and out.read_bytes() == b"a picture of my cat"
    assert main.main([*words, "--out", str(out), "--force"]) == 0
    assert main.main([*words, "--out", str(out)]) == 0, "its own it renews"
    one = sweep / "dctcp-1MB-1"
    assert main.main(["plot", str(one), "--out", str(out)]) == 2, "this is of other results"
    assert main.main(["plot", str(one)]) == 0 == main.main(["plot", str(one)]), "plot.png is the result's own"


def a_sheet(key: str, lines: dict[str, dict[Any, list[float]]], metric: str = "mean_srtt_us", **more: Any) -> sweep_figure.Sheet:
    """Returns a sheet with one panel, from values by line and x."""
    panel = [
        Curve(name, tuple(CurvePoint(x, sum(values) / len(values), 1.0, tuple(values)) for x, values in points.items()))
        for name, points in lines.items()
    ]
    family = {"topology.buffer": "bytes"}.get(key, "")
    return sweep_figure.Sheet("title", {metric: panel} | more.pop("panels", {}), Axis(key, family, **more), "controller.name", "")


def drawn(sheet: sweep_figure.Sheet) -> Any:
    """Returns the figure, laid out as it is when written."""
    figure = sweep_figure.draw(sheet)
    figure.canvas.draw()
    return figure


def joined(ax: Any) -> bool:
    return any(line.get_linestyle() == "-" and len(line.get_xdata()) > 2 for line in ax.lines)


def test_every_number_that_was_tried_is_on_the_axis() -> None:
    senders = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    figure = drawn(a_sheet("workload.senders", {"dctcp": {float(n): [n * 1.0] for n in senders}}))
    labels = [label for label in figure.axes[0].get_xticklabels() if label.get_visible()]
    assert [label.get_text() for label in labels] == [str(n) for n in senders]
    boxes = [label.get_window_extent() for label in labels]
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes)), "and none touches its neighbour"


def test_only_amounts_are_joined() -> None:
    amounts = drawn(a_sheet("topology.buffer", {"dctcp": {1e3: [1.0], 2e3: [2.0], 4e3: [3.0]}}))
    seeds = drawn(a_sheet("seed", {"dctcp": {1.0: [1.0], 2.0: [2.0], 3.0: [3.0]}}))
    kinds = drawn(a_sheet("topology.kind", {"dctcp": {"fattree": [1.0], "single": [2.0], "ring": [1.0]}}))
    assert [joined(figure.axes[0]) for figure in (amounts, seeds, kinds)] == [True, False, False]
    assert [label.get_text() for label in kinds.axes[0].get_xticklabels()] == ["fattree", "single", "ring"]
    assert amounts.axes[0].get_xlabel() == "Buffer of a switch port (kB)"


def test_elements_of_one_list_have_one_scale() -> None:
    far, near = (
        [Curve("dctcp", tuple(CurvePoint(x, y, None, (y,)) for x, y in points))]
        for points in (((1.0, 1e6), (2.0, 90e6)), ((1.0, 50e6), (2.0, 95e6)))
    )
    panels = {"flow_goodput_bps.0": far, "flow_goodput_bps.1": near}
    figure = drawn(sweep_figure.Sheet("t", panels, Axis("workload.senders", ""), "controller.name", ""))
    first, second = figure.axes
    assert (first.get_yscale(), first.get_ylim()) == (second.get_yscale(), second.get_ylim())
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Goodput of flow 0", "Goodput of flow 1"]
    assert first.get_ylabel() == "Mbit/s"


def test_bars_end_on_the_axis() -> None:
    """An interval that reaches below 0 does not fit on a logarithmic axis: an arrow at the edge shows it."""
    figure = kit.new_figure(4, 3)
    ax = figure.subplots()
    bars = [bar_of(0.5, 0.01), bar_of(60.0, 270.0), bar_of(200.0, 5.0)]
    set_scale(ax, "y", bars)
    for at, bar in enumerate(bars):
        draw_bar(ax, at, bar, "black")
    low, high = ax.get_ylim()
    assert ax.get_yscale() == "log" and low < 0.5 and high > 330
    heights = [y for line in ax.lines for y in line.get_ydata()]
    assert min(heights) >= low and max(heights) <= high
    assert [line.get_marker() for line in ax.lines if line.get_linestyle() == "None"] == ["_", "_", "v", "_", "_", "_"]


def test_bars_stop_at_what_can_be() -> None:
    assert bar_of(0.98, 0.05, most=1.0).high == 1.0 and bar_of(3.0, 9.0).low == 0.0
    assert bar_of(-3.0, 1.0).low == -4.0 and bar_of(3.0, None) == bar_of(3.0, 0.0)
    ax = kit.new_figure(4, 3).subplots()
    set_scale(ax, "y", [bar_of(0.97, None, 1.0), bar_of(1.0, None, 1.0)], 1.0)
    assert ax.get_ylim()[0] == pytest.approx(0.9) and ax.get_ylim()[1] > 1.0, "not from 0, where nothing is"


def test_every_metric_and_every_title_is_there(sweep: Path) -> None:
    summary = curves.find_results(sweep)[0].summary
    lists = {name for name, value in summary.items() if isinstance(value, list)} - {"flow_goodput_bps"}
    ports = {name for name in summary if name.endswith("_port")}
    jobs = {"job_s", "job_iterations", "iteration_mean_s", "iteration_max_s", "bus_bandwidth_bps", "exposed_share"}
    only_in_some = {"paused_share", "pauses", "return", *jobs}
    assert names.TITLES.keys() - only_in_some == summary.keys() - lists - ports - {"classes", "class_drops"}
    assert set(titles.KEYS) <= set(spec.keys())
    assert (
        titles.of_key("topology.links.0.delay") == "Propagation delay of links[0]" and titles.of_key("agent.see") == "agent.see"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--x", "seed"], "--x and --y belong together"),
        (["--x", "topology.bufer", "--y", "jain"], "not a key of a spec; did you mean topology.buffer?"),
        (["--x", "seed", "--y", "xyz"], "; its summary.json has them"),
        (["--x", "seed", "--y", "mean_srtt"], "is not a metric of"),
        (["--x", "seed", "--y", "mean_srtt"], "did you mean mean_srtt_us?"),
        (["--x", "seed", "--y", "flow_goodput_bps"], "is not one number"),
    ],
)
def test_what_is_refused(sweep: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", str(sweep), *words]) == 2
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


@pytest.mark.usefixtures("registries")
def test_a_plug_ins_controller_beside_known_ones_is_drawn_with_its_recorded_style(sweep: Path) -> None:
    """The plug-in does not run when results are read, so its controller is not registered."""
    style = {"color": "#123456", "marker": "d", "label": "Mine"}
    for folder in sweep.glob("cubic-*"):
        spec = json.loads((folder / "manifest.json").read_text())["spec"] | {"controller": {"name": "mine"}}
        edit(folder / "manifest.json", spec=spec, style=style)
    assert main.main(["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]) == 0
    (sheet,) = curves.sheets_of(sweep, "topology.buffer", ["mean_srtt_us"])[0].values()
    legend = sweep_figure.draw(sheet).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["DCTCP", "Mine"]
    assert "#123456" in styles.colors() and styles.names()[-1] == "mine"


def test_a_metric_that_only_some_runs_have_is_null_in_the_others(sweep: Path) -> None:
    for number, folder in enumerate(sorted(sweep.glob("cubic-*"))):
        edit(folder / "summary.json", **{"return": float(number)})
    lines = curves.curves(curves.find_results(sweep), "topology.buffer", "return", "controller.name")
    assert [(line.name, [point.values for point in line.points]) for line in lines] == [("cubic", [(2.0, 3.0), (0.0, 1.0)])]


def test_two_seeds_are_two_dots_without_mean_and_bar(sweep: Path) -> None:
    (sheet,) = curves.sheets_of(sweep, "topology.buffer", ["mean_srtt_us"])[0].values()
    assert "n = 2 seeds, a dot each" in sheet.caption and "interval" not in sheet.caption
    ax = sweep_figure.draw(sheet).axes[0]
    dots = sorted(float(y) for line in ax.lines if line.get_linestyle() == "None" for y in line.get_ydata())
    assert dots == [1, 2, 3, 4, 5, 6, 7, 8], "each result once, no mean, no end of a bar"
    assert ax.get_ylim()[1] < 10, "the axis ends near the largest result, not at that of an interval"


def test_equal_runs_of_several_seeds_are_told(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]
    notice = "equal runs (each number of summary.json) for several seeds at 4 of 4 points: the seed changes nothing there"
    assert main.main(argv) == 0 and "equal runs" not in capsys.readouterr().out
    for folder in sweep.glob("*-*-2"):
        shutil.copy(folder.with_name(folder.name[:-1] + "1") / "summary.json", folder)
    assert main.main([*argv, "--force"]) == 0 and notice in capsys.readouterr().out


def spread(sweep: Path, key: str, *values: Any) -> None:
    """Copies the results of a sweep for each value of a further key of the topology; the metric grows by 100 with each."""
    originals = sorted(sweep.iterdir())
    for number, value in enumerate(values):
        for folder in originals:
            copy = Path(shutil.copytree(folder, sweep / f"{folder.name}-{number}"))
            spec = json.loads((copy / "manifest.json").read_text())["spec"]
            edit(copy / "manifest.json", spec=spec | {"topology": spec["topology"] | {key: value}})
            metric = json.loads((copy / "summary.json").read_text())["mean_srtt_us"]
            edit(copy / "summary.json", mean_srtt_us=metric + 100 * number)
    for folder in originals:
        shutil.rmtree(folder)


def test_a_third_key_makes_panels_with_the_same_axes(sweep: Path) -> None:
    spread(sweep, "hosts", 32, 1, 8)
    sheets, _ = curves.sheets_of(sweep, "topology.buffer", ["mean_srtt_us", "utilization"])
    assert list(sheets) == ["1 host", "8 hosts", "32 hosts"], "by size, in words"
    figure = sweep_figure.draw_panels(sheets)
    figure.canvas.draw()
    first, last = figure.axes[:3], figure.axes[3:]
    assert [ax.get_title(loc="left") for ax in first] == list(sheets) and len(last) == 3
    assert len({(ax.get_ylim(), ax.get_yscale(), ax.get_xlim()) for ax in first}) == 1
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "Smoothed RTT, mean (\u00b5s)",
        "",
        "",
        "Utilization of the busiest\nlink (%)",
        "",
        "",
    ]
    assert [ax.get_xlabel() for ax in last] == ["Buffer of a switch port (kB)"] * 3
    assert figure.legends[0].get_title().get_text().endswith(", by buffer of a switch port and hosts")
    dots = [sorted(float(y) for line in ax.lines if line.get_linestyle() == "None" for y in line.get_ydata()) for ax in first]
    assert dots == [[100.0 + n for n in range(1, 9)], [200.0 + n for n in range(1, 9)], [float(n) for n in range(1, 9)]]
    assert "panels: topology.hosts" in next(iter(sheets.values())).caption


def test_a_panel_without_some_runs_is_drawn_all_the_same(sweep: Path) -> None:
    spread(sweep, "rate", "10Gbit/s", "25Gbit/s")
    for folder in sweep.glob("cubic-*-1"):
        shutil.rmtree(folder)
    for path in sweep.glob("dctcp-*-1/summary.json"):
        edit(path, mean_srtt_us=None)
    sheets, _ = curves.sheets_of(sweep, "topology.buffer", ["mean_srtt_us"])
    assert {title: [line.name for line in sheet.panels["mean_srtt_us"]] for title, sheet in sheets.items()} == {
        "10 Gbit/s": ["cubic", "dctcp"],
        "25 Gbit/s": [],
    }
    assert [ax.get_title(loc="left") for ax in sweep_figure.draw_panels(sheets).axes] == ["10 Gbit/s", "25 Gbit/s"]
    assert main.main(["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]) == 0


def test_a_third_key_may_be_the_controller(sweep: Path) -> None:
    """The settings of NICs, which follow from it, are no further keys."""
    for path in sweep.glob("cubic-*/manifest.json"):
        spec = json.loads(path.read_text())["spec"]
        edit(path, spec=spec | {"nic": {"latency": "1us"}, "workload": {"kind": "pairs", "transport": "rdma"}})
    sheets, _ = curves.sheets_of(sweep, "seed", ["mean_srtt_us"], "topology.buffer")
    assert list(sheets) == ["DCTCP", "CUBIC"]
    assert [line.name for line in sheets["CUBIC"].panels["mean_srtt_us"]] == ["50kB", "1MB"]


def test_a_fourth_key_asks_for_a_value_which_exists(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spread(sweep, "hosts", 8, 32)
    spread(sweep, "rate", "25Gbit/s", "10Gbit/s")
    words = ["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us"]
    assert main.main(words) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "topology.hosts (8, 32) and topology.rate (10Gbit/s, 25Gbit/s) vary, too" in stderr
    remedy = stderr.strip().partition(" add ")[2].split()
    assert remedy == ["--where", "topology.rate=10Gbit/s"]
    assert main.main([*words, *remedy]) == 0
    assert (sweep / "mean_srtt_us-by-topology.buffer-topology.rate-10Gbit-s.png").exists()


def test_panels_that_are_too_many_are_refused(sweep: Path) -> None:
    spread(sweep, "hosts", *range(2, 15))
    with pytest.raises(UsageError, match=r"topology\.hosts \(2, 3, .*\).*12 panels: .*hosts=2"):
        curves.sheets_of(sweep, "topology.buffer", ["mean_srtt_us"])


@pytest.mark.parametrize(
    ("where", "expected_srtts_us"),
    [
        (["topology.buffer=50kB"], {3, 4, 7, 8}),
        (["topology.buffer=0.05MB", "seed=2"], {4, 8}),
        (["seed=1..2", "controller.name=dctcp"], {1, 2, 3, 4}),
        (["controller.name=dctcp", "controller.name=cubic", "topology.buffer = 1MB"], {1, 2, 5, 6}),
        (['topology.buffer=["50kB", "1MB"]', "seed=1", "controller.name='cubic'"], {5, 7}),
    ],
)
def test_where_chooses_results_by_quantity_number_or_name(sweep: Path, where: list[str], expected_srtts_us: set[int]) -> None:
    chosen = spec_keys.choose(curves.find_results(sweep), where)
    assert {result.summary["mean_srtt_us"] for result in chosen} == expected_srtts_us


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (
            ["topology.bufer=1MB"],
            "--where topology.bufer=1MB: 'topology.bufer' is not a key of a spec; did you mean topology.buffer?",
        ),
        (["topology.buffer=3MB"], "--where topology.buffer=3MB: no run has it; topology.buffer is 50kB, 1MB"),
        (["topology.buffer=1ms"], "no run has it"),
        (["seed=2..3"], "--where seed=2..3: no run has it; seed is 1, 2"),
        (["seed=3..2"], "no run has it; seed is 1, 2"),
        (["controller.name=dctcp", "controller.policy=max"], "no run of those left has it; controller.policy is -"),
        (["topology.buffer"], "--where 'topology.buffer': not KEY=VALUE; write it like --where topology.hosts=8"),
    ],
)
def test_a_condition_that_nothing_fulfils_is_one_line(
    sweep: Path, where: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for text in where for word in ("--where", text)]
    assert main.main(["plot", str(sweep), "--x", "topology.buffer", "--y", "mean_srtt_us", *words]) == 2
    stderr = capsys.readouterr().err
    assert reason in stderr and stderr.count("\n") == 1


def test_where_is_for_many_results(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", str(sweep / "dctcp-1MB-1"), "--where", "seed=1"]) == 2
    assert "--where chooses among many results" in capsys.readouterr().err
    assert main.main(["plot", str(sweep), "--where", "controller.name=dctcp"]) == 2
    stdout = capsys.readouterr().out
    assert "4 results" in stdout and "controller.name" not in stdout and "topology.buffer" in stdout


def test_values_are_titled_in_words() -> None:
    expected_titles = {
        ("topology.hosts", "32"): "32 hosts",
        ("workload.senders", "1"): "1 sender",
        ("topology.rate", "10Gbit/s"): "10 Gbit/s",
        ("topology.delay", "2us"): "Propagation delay of a link: 2 \u00b5s",
        ("workload.load", "0.3"): "Load 0.3",
        ("controller.name", "dcqcn"): "DCQCN",
        ("topology.buffer", "-"): "Buffer of a switch port: not given",
    }
    assert {key_value: titles.of_value(*key_value) for key_value in expected_titles} == expected_titles


def test_a_long_title_is_broken(sweep: Path) -> None:
    for path in sweep.glob("*/manifest.json"):
        spec = json.loads(path.read_text())["spec"]
        edit(path, spec=spec | {"name": "a name of many words that nobody would give to a sweep of buffers, one hopes"})
    (sheet,) = curves.sheets_of(sweep, "topology.buffer", ["mean_srtt_us"])[0].values()
    figure = drawn(sheet)
    assert figure.legends[0].get_title().get_window_extent().x1 <= figure.bbox.x1


def sized(folder: Path, controller: str, seed: int, load: float, more: float = 0.0) -> None:
    """Writes a result of 40 flows of 1, 2, ... kB with slowdowns 1, 2, ... and `more`; another one does not finish."""
    rows = [synthetic.flow_row(n, size_bytes=1000 * (n + 1), start_ns=3 * S, status="done", fct_ns=S) for n in range(40)]
    rows.append(synthetic.flow_row(40, size_bytes=10**6, start_ns=3 * S))
    run_result = result(folder, synthetic.tables(flows=rows))
    spec = run_result.manifest["spec"] | {"seed": seed, "controller": {"name": controller}}
    edit(folder / "manifest.json", spec=spec | {"workload": {"kind": "poisson", "load": load}})
    slowdown = np.append(np.arange(1.0, 41.0) + more, np.nan)
    results.write_derived(folder, "flow_metrics", {"slowdown": slowdown})


@pytest.fixture
def sizes(tmp_path: Path) -> Path:
    for load in (0.3, 0.6):
        for seed in (1, 2):
            for controller in ("dctcp", "dcqcn"):
                sized(tmp_path / f"{controller}-{load}-{seed}", controller, seed, load, more=(seed == 2) * 0.5)
    return tmp_path


def test_slowdown_by_size_takes_all_seeds_together(sizes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first of 20 bins of the 82 flows has five: of 1, 1, 2, 2 and 3 kB, with slowdowns 1, 1.5, 2, 2.5 and 3."""
    drawn: list[Any] = []
    with pytest.MonkeyPatch.context() as patched:
        inner = kit.save
        patched.setattr(kit, "save", lambda figure, *rest, **options: drawn.append(figure) or inner(figure, *rest, **options))
        assert main.main(["plot", str(sizes), "--x", "flow_size"]) == 0
    stdout = capsys.readouterr().out
    assert stdout.splitlines()[-1] == str(sizes / "slowdown-by-flow_size.png")
    assert re.search(r"^  DCTCP +up to 3 kB +median 2 +p99 2.98 +\(n = 5\)$", stdout, re.MULTILINE), stdout
    (figure,) = drawn
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Load 0.3", "Load 0.6"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["DCTCP", "DCQCN", "p99", "median"]
    tail, median = figure.axes[0].lines[:2]
    assert (len(tail.get_ydata()), median.get_ydata()[0], median.get_color()) == (20, 2.0, kit.color_of("dctcp"))
    assert tail.get_ydata()[0] == pytest.approx(np.percentile([1, 1.5, 2, 2.5, 3], 99))
    assert "8 unfinished flows" in figure.get_supxlabel().replace("\n", " ")


def test_slowdown_of_some_runs_and_over_other_lines(sizes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", str(sizes), "--x", "flow_size", "--where", "workload.load=0.3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(sizes / "slowdown-by-flow_size-workload.load-0.3.png")
    assert main.main(["plot", str(sizes), "--x", "flow_size", "--by", "workload.load"]) == 0
    assert "a line for each workload.load; DCQCN" in capsys.readouterr().out


def test_slowdown_needs_sizes_and_takes_no_metric(sweep: Path, sizes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", str(sizes), "--x", "flow_size", "--y", "slowdown_p50"]) == 2
    assert "leave out --y" in capsys.readouterr().err
    for folder in sizes.iterdir():
        (folder / "flow_metrics.parquet").unlink(missing_ok=True)
    assert main.main(["plot", str(sizes), "--x", "flow_size", "--where", "workload.kind=poisson"]) == 2
    stderr = capsys.readouterr().err
    assert "no flow has a slowdown" in stderr and stderr.count("\n") == 1
