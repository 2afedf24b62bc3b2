# SPDX-License-Identifier: Apache-2.0
"""Figures from synthetic runs: what is drawn, in which units, with which numbers; never how it looks."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from matplotlib.image import imread
from synthetic import S

from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.readable import Scale
from dc_gym.benchmarks.studies import demo
from dc_gym.ctrl import controllers
from dc_gym.results.figures import cases, kit, markings, styles, timeline
from dc_gym.results.figures.markings import Markings
from dc_gym.results.metrics import Series, Window, series
from dc_gym.results.results import Result
from dc_gym.study import Evidence, Track

pytestmark = pytest.mark.filterwarnings("error")
WINDOW = Window(2 * S, 10 * S)


def a_series(intervals: int = 50, **options: object) -> Series:
    return series(synthetic.run(**options), 10 * S, WINDOW, intervals)  # type: ignore[arg-type]


def a_case(title: str = "dumbbell-10m", **queues: float) -> cases.CaseRuns:
    queues = queues or {"dctcp": 6000, "cubic": 150_000}
    runs = {
        name: [demo.track_of(a_series(seed=seed, controller=name, queue_bytes=size)) for seed in (1, 2, 3)]
        for name, size in queues.items()
    }
    return cases.CaseRuns(title, runs, "10 Mbit/s")


def labels(axes: list) -> list[str]:
    return [ax.get_ylabel() for ax in axes]


def test_run_figure() -> None:
    run = a_series()
    figure = timeline.run_figure(run, "a title", ["h1 to h3", "h2 to h4"], warmup_s=2)
    axes = figure.axes
    assert labels(axes) == ["Queue (kB)", "Goodput (Mbit/s)", "RTT (ms)", "Jain's index"]
    assert axes[0].get_title(loc="left") == "Queue of s1-eth3, marking from K = 3,028 B"
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), run.queue_bytes / 1e3)
    np.testing.assert_allclose(axes[0].lines[1].get_ydata(), 3.028)
    np.testing.assert_allclose([line.get_ydata() for line in axes[1].lines], run.goodput_bps / 1e6)
    np.testing.assert_allclose(axes[2].lines[1].get_ydata(), run.srtt_us[1] / 1e3)
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == ["h1 to h3", "h2 to h4"]
    assert axes[3].get_xlim() == (0, 10)
    for ax in axes[:3]:
        assert ax.get_ylim()[0] == 0


def test_windows_are_steps_above_the_rtt() -> None:
    windows = {1: (np.array([0.5, 2.0]), np.array([10.0, 12.0]))}
    axes = timeline.run_figure(a_series(), "t", ["a", "b"], windows=windows).axes
    assert labels(axes)[1:4] == ["Goodput (Mbit/s)", "Window (packets)", "RTT (ms)"]
    (line,) = axes[2].lines
    assert line.get_drawstyle() == "steps-post" and line.get_color() == kit.FLOW_COLORS[1]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.5, 2.0], [10.0, 12.0])


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_dollars_in_names_are_no_formula(tmp_path: Path, suffix: str) -> None:
    name = r"$\cost$ of _a_ run"
    figure = timeline.run_figure(a_series(), name, [name, "h2 to h4"], programs=[timeline.ProgramTimes(name, 1, 2)], caption=name)
    assert kit.save(figure, tmp_path / f"figure{suffix}").stat().st_size


def test_run_without_marking_has_no_k() -> None:
    figure = timeline.run_figure(dataclasses.replace(a_series(), k_bytes=None), "t", [])
    assert len(figure.axes[0].lines) == 1 and figure.axes[0].get_title(loc="left") == "Queue of s1-eth3"


def test_many_flows_are_thin_with_their_mean() -> None:
    run = a_series(flows=16)
    figure = timeline.run_figure(run, "t", ["x"] * 16)
    assert len(figure.axes[1].lines) == 17
    under_way = np.nanmean(np.where(run.goodput_bps > 0, run.goodput_bps, np.nan), axis=0)
    np.testing.assert_allclose(figure.axes[1].lines[-1].get_ydata(), under_way / 1e3)
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == [
        "each of 16 flows",
        "mean of those under way",
    ]


def test_flows_that_are_too_many_to_tell_apart_are_summed() -> None:
    run = a_series(flows=300)
    figure = timeline.run_figure(run, "t", ["x"] * 300)
    goodput, rtt = figure.axes[1], figure.axes[2]
    assert goodput.get_title(loc="left") == "Goodput of all 300 flows" and len(goodput.lines) == len(rtt.lines) == 1
    np.testing.assert_allclose(goodput.lines[0].get_ydata(), run.total_bps / 1e6)
    assert goodput.get_legend() is None


def over_rdma(flows: int, srtt_us: int) -> Series:
    """Returns a run over RDMA in which flow n has a rate of n Mbit/s."""
    samples = [
        {"t_ns": t, "flow": n, "delivery_rate_bps": n * 10**6, "srtt_us": srtt_us, "bytes_received": t // 1000}
        for t in (0, S)
        for n in range(flows)
    ]
    rows = [synthetic.flow_row(n, transport="rdma") for n in range(flows)]
    return series(synthetic.tables(rows, tcp=samples, nic_flows=[{"flow": n} for n in range(flows)]), 2 * S, Window(0, 2 * S), 2)


def test_runs_over_rdma_show_what_nics_allow() -> None:
    run = over_rdma(2, 90)
    assert run.rate_bps[1].tolist() == [1e6, 1e6] and np.isnan(run.rate_bps[0]).all()
    with_probes = labels(timeline.run_figure(run, "t", []).axes)
    assert with_probes == ["Queue (B)", "Goodput (Mbit/s)", "Rate (kbit/s)", "RTT (\u00b5s)", "Jain's index"]
    without_probes = labels(timeline.run_figure(over_rdma(2, 0), "t", []).axes)
    assert without_probes == ["Queue (B)", "Goodput (Mbit/s)", "Rate (kbit/s)", "Jain's index"]
    many = timeline.run_figure(over_rdma(300, 90), "t", []).axes
    assert labels(many)[2:4] == ["Rate (Mbit/s)", "RTT (\u00b5s)"] and len(many[2].lines) == 1


def test_units_follow_the_values() -> None:
    fast = a_series(rate_bps=10**10)
    assert labels(timeline.run_figure(fast, "t", []).axes)[1:3] == ["Goodput (Gbit/s)", "RTT (\u00b5s)"]
    short = series(synthetic.run(duration_ns=S // 5), S // 5, Window(0, S // 5), 20)
    figure = timeline.run_figure(short, "t", [], warmup_s=0.1)
    assert figure.axes[-1].get_xlabel() == "Time (ms)" and figure.axes[-1].get_xlim() == pytest.approx((0, 200))


def test_a_run_of_programs_has_no_panels_of_flows() -> None:
    """Quantities that are not measured have no axes."""
    tables = synthetic.run()
    alone = series(dataclasses.replace(tables, flows=tables.flows[:0], tcp=tables.tcp[:0]), 10 * S, WINDOW, 50)
    rows = [{"host": "h4", "command": ["/x/server.py"], "start_ns": 0, "end_ns": 9 * S}, {"host": "h2", "command": ["a"]}]
    programs = [timeline.ProgramTimes.of(row) for row in rows]
    figure = timeline.run_figure(alone, "t", [], programs=programs)
    assert labels(figure.axes) == ["Queue (kB)", "Sent (Mbit/s)", ""]
    assert "s1-eth3 sent" in figure.axes[1].get_title(loc="left") and "10 Mbit/s" in figure.axes[1].get_title(loc="left")
    assert max(figure.axes[1].lines[0].get_ydata()) == pytest.approx(9.9, rel=0.02)
    assert [text.get_text() for text in figure.axes[2].get_yticklabels()] == ["h4: server.py", "h2: a"]
    assert [patch.get_width() for patch in figure.axes[2].patches] == [9.0], "one did not start"
    beside = timeline.run_figure(a_series(), "t", ["x", "y"], programs=programs[:1])
    assert labels(beside.axes)[:3] == ["Queue (kB)", "Sent (Mbit/s)", "Goodput (Mbit/s)"] and len(beside.axes) == 6
    assert beside.axes[2].get_legend() is not None


def test_a_queue_that_was_always_empty_and_a_program_that_ended_at_once() -> None:
    """The queue's axis names no number but 0, and the program's bar is visible."""
    still = a_series()
    still = dataclasses.replace(still, queue_bytes=still.queue_bytes * 0, k_bytes=None)
    figure = timeline.run_figure(still, "t", ["x", "y"], programs=[timeline.ProgramTimes("h4: ping", 0.001, 0.001)])
    assert list(figure.axes[0].get_yticks()) == [0]
    (bar,) = figure.axes[-1].patches
    assert bar.get_linewidth() > 0 and bar.get_edgecolor()[:3] == bar.get_facecolor()[:3]


def test_a_band_ends_at_what_links_can_carry() -> None:
    def run(*mbps: float) -> Track:
        return demo.track_of(dataclasses.replace(a_series(2), total_bps=np.array(mbps) * 1e6, most_bps=9.5e6))

    figure = cases.demo_figure([cases.CaseRuns("x", {"cubic": [run(9, 2), run(5, 2), run(9.5, 2)]})])
    heights = figure.axes[2].collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(9.5)
    assert heights.min() < 2, "the lower end is where the interval has it"


def test_a_run_without_data_is_drawn_empty(tmp_path: Path) -> None:
    empty = series(synthetic.tables(), S, Window(0, S), 10)
    kit.save(timeline.run_figure(empty, "nothing", []), tmp_path / "x.png")
    kit.save(cases.demo_figure([cases.CaseRuns("nothing", {"dctcp": [demo.track_of(empty)]})]), tmp_path / "y.png")


def test_demo_figure() -> None:
    drawn = [a_case(), a_case("dumbbell-1g", nv=6000)]
    figure = cases.demo_figure(drawn, "digest 1234")
    grid = np.array(figure.axes).reshape(2, 5)
    assert [ax.get_title(loc="left") for ax in grid[0][1:]] == [
        "Bottleneck queue",
        "Goodput, all flows",
        "Smoothed RTT",
        "Fairness",
    ]
    assert [text.get_text() for text in grid[1][0].texts] == ["dumbbell-1g", "10 Mbit/s"]
    assert labels(list(grid[0][1:])) == ["Queue (kB)", "Goodput (Mbit/s)", "RTT (ms)", "Jain's index"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["DCTCP", "CUBIC", "TCP NV"]
    assert len(figure.legends) == 1 and figure.get_supxlabel() == "digest 1234"
    dctcp, cubic = grid[0][2].lines
    assert (dctcp.get_color(), cubic.get_color()) == (styles.find("dctcp").color, styles.find("cubic").color)
    totals = np.array(
        [a_series(seed=seed, controller="cubic", queue_bytes=150_000).goodput_bps.sum(axis=0) for seed in (1, 2, 3)]
    )
    totals /= 1e6
    np.testing.assert_allclose(cubic.get_ydata(), totals.mean(axis=0))


def test_the_demo_makes_its_own_damaged_result_again_and_refuses_another_one(tmp_path: Path) -> None:
    result_folder = tmp_path / "runs" / f"{demo.STUDY.variants[0].name}-s1"
    synthetic.result(result_folder)
    with pytest.raises(UsageError, match="something else than the demo"):
        demo.require_places(tmp_path)
    (result_folder / "manifest.json").write_text("{")
    demo.require_places(tmp_path)


def test_the_demos_table_has_means_over_the_seeds() -> None:
    variant = demo.STUDY.variants[0]
    metrics = {"goodput_bps": {1: 9e6, 2: 10e6}, "mean_queue_bytes": {1: 3000.0, 2: 4000.0}, "drops": {1: 1234.0, 2: 1236.0}}
    head, row = demo.table(Evidence({variant.name: variant.evidence(metrics)})).splitlines()
    assert head.split() == ["case", "controller", "goodput", "mean", "queue", "srtt", "Jain", "drops", "marks"]
    assert row.split() == ["dumbbell-10m", "dctcp", "9.5", "Mbit/s", "3.5", "kB", "-", "-", "1,235", "-"]


def test_panels_whose_lines_lie_far_apart_are_logarithmic() -> None:
    far, near = (cases.demo_figure([case]).axes[1] for case in (a_case(), a_case(dctcp=6000, nv=12000)))
    assert (far.get_yscale(), near.get_yscale()) == ("symlog", "linear")
    assert far.get_ylim()[0] == 0, "an empty queue is on the axis"


def test_one_run_has_no_band_and_sets_the_axis() -> None:
    one = cases.CaseRuns("x", {"dctcp": [demo.track_of(dataclasses.replace(a_series(2), total_bps=np.array([8e6, 4e6])))]})
    assert 8 <= cases.demo_figure([one]).axes[2].get_ylim()[1] < 12


def test_a_case_without_runs_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no runs"):
        cases.demo_figure([cases.CaseRuns("x", {})])


def test_plot_of_a_result_on_disk(tmp_path: Path) -> None:
    result = synthetic.result(tmp_path / "run")
    path = timeline.plot_result(result)
    assert path == result.path / "plot.png"
    image = imread(path)
    assert image.shape[0] > 800 and image.shape[1] > 800 and image.std() > 0.02
    first = path.read_bytes()
    assert timeline.plot_result(result, tmp_path / "again.png").read_bytes() == first, "the same result, the same picture"


def with_markings(result: Result, *names: str) -> Result:
    """Adds what an agent had in force at these ports: Kmin doubles at each of eleven steps at the first one alone."""
    columns: dict[str, Any] = {"step": np.arange(11, dtype=np.uint32), "t_ns": np.arange(11) * S}
    for number, name in enumerate(names):
        kmin = 5000.0 * 2.0 ** (np.arange(11) if number == 0 else np.zeros(11))
        columns |= {f"enforced_kmin_bytes_{name}": kmin, f"enforced_kmax_bytes_{name}": 4 * kmin}
        columns[f"enforced_pmax_ppm_{name}"] = np.full(11, 200_000.0)
    pq.write_table(pa.table(columns), result.path / "agent.parquet")
    return result


def test_markings_of_agents_are_read_and_drawn_where_the_queue_is(tmp_path: Path) -> None:
    result = synthetic.result(tmp_path / "run")
    assert Markings.of(result) is None
    port = timeline.load_series(result).queue_port
    assert port
    timeline.plot_result(result, tmp_path / "plain.png")
    run_markings = Markings.of(with_markings(result, f"{port}:rdma", "s9-eth1"))
    assert run_markings is not None and run_markings.at("s9-eth2") is None
    marking = run_markings.at(port)
    assert marking is not None and marking.names == (f"{port}:rdma",) and marking.kmin_bytes[0, -1] == 5000 * 2**10
    assert (run_markings.pmax == 0.2).all() and run_markings.most_changed(1).names == marking.names
    figure = timeline.run_figure(timeline.load_series(result), "x", [], markings=run_markings)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert f"Marking in force at {port}, set by an agent" == titles[1]
    assert imread(timeline.plot_result(result)).shape[0] > imread(tmp_path / "plain.png").shape[0]


def test_the_figure_of_all_ports_has_a_row_for_each(tmp_path: Path) -> None:
    names = [f"s1-eth{number}" for number in range(1, 31)]
    run_markings = Markings.of(with_markings(synthetic.result(tmp_path / "run"), *names))
    assert run_markings is not None
    rows = [text.get_text() for text in markings.all_ports(run_markings, Scale(1.0, "s"), 8.0).axes[0].get_yticklabels()]
    assert rows == names[: markings.MOST_PORTS], "as many as fit; the one that changed is among them"


def test_rare_samples_leave_no_gaps(tmp_path: Path) -> None:
    rare = synthetic.run(interval_ns=S)
    spec = synthetic.result(tmp_path / "run", rare).manifest["spec"] | {"monitor": {"interval": "1s"}}
    run_series = timeline.load_series(synthetic.result(tmp_path / "again", rare, spec=spec))
    assert len(run_series.t_s) == 10 and np.isfinite(run_series.queue_bytes).all() and np.isfinite(run_series.srtt_us).all()


def test_a_result_without_a_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="no spec"):
        timeline.plot_result(synthetic.result(tmp_path / "run", spec=None))


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = timeline.run_figure(a_series(), "t", [])

    def fill(path: Path, content: bytes) -> int:
        with Path("/dev/full").open("wb", buffering=0) as full:
            return full.write(content)

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(TestbedError, match=r"cannot write .*x\.png: No space left"):
        kit.save(figure, tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


def test_no_state_is_left_in_matplotlib() -> None:
    """No pyplot, no settings."""
    script = """
import sys; sys.path.insert(0, sys.argv[1])
import matplotlib, synthetic, io
from dc_gym.benchmarks.studies import demo
from dc_gym.results.figures import cases, kit, timeline
from dc_gym.results.metrics import Series, Window, series
assert "matplotlib.figure" not in sys.modules, "imported before anything is drawn"
settings = lambda: {key: dict.__getitem__(matplotlib.rcParams, key) for key in matplotlib.rcParams}  # without choosing a backend
before = settings()
run = demo.track_of(series(synthetic.run(), 10**10, Window(0, 10**10)))
cases.demo_figure([cases.CaseRuns("x", {"nv": [run]})]).savefig(io.BytesIO())
assert settings() == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script, str(Path(__file__).parents[2])], check=True)


def test_registered_controllers_have_colours_of_their_own() -> None:
    assert len(set(styles.colors())) == len(controllers.names()) and not set(styles.colors()) & set(styles.COLORS)
