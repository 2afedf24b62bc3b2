# SPDX-License-Identifier: Apache-2.0
"""The figures with ACC's agents: the traffic that they draw, the specs that they run, and what they measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc import figure_6, figure_7, figure_9, figure_10, figure_13, figure_14, figure_15, figure_16
from dc_gym.benchmarks.studies.acc.common import LEARNING, TRAINED
from dc_gym.figures import kit
from dc_gym.study.evidence import VariantEvidence, Evidence
from dc_gym.study.options import StudyOptions
from dc_gym.spec import Spec
from dc_gym.traffic.storage import MIXES


def spec_of(folder: Path, module, name: str, files: dict[str, str] | None = None) -> Spec:
    (row,) = (each for each in module.ROWS if each.name == name)
    (folder / "x").mkdir(exist_ok=True)
    for file, content in (files or {}).items():
        (folder / "x" / file).write_text(content)
    return own_rate._spec("x", row, StudyOptions(folder), 1)


def test_messages_make_the_load_with_all_sizes_alike() -> None:
    sent = {load: 0 for load in figure_7.LOADS}
    counts = dict.fromkeys(figure_7.SIZES_BYTES, 0)
    for load, seed in ((load, seed) for load in figure_7.LOADS for seed in range(1, 9)):
        rows = [row.split(",") for row in figure_7.messages(load, seed).splitlines()[1:]]
        assert {row[0] for row in rows} == {"h1", "h2"} and {row[1] for row in rows} == {"h3"}
        assert len({row[2] for row in rows}) == len(rows), "each message has a port of its own"
        assert max(float(row[3]) for row in rows) < figure_7.LAST_START_MS[load] / 1e3
        for row in rows:
            counts[int(row[5])] += 1
            sent[load] += own_rate.wire_bytes(int(row[5]))
    for load, share in figure_7.LOADS.items():
        assert sent[load] * 8 / (8 * figure_7.LAST_START_MS[load] / 1e3) == pytest.approx(share * figure_7.LINE_BPS, rel=0.1)
    assert np.array(list(counts.values())) == pytest.approx(sum(counts.values()) / len(counts), rel=0.1)


def test_messages_follow_the_seed() -> None:
    first, again, other = (figure_7.messages("60 %", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_figure_6_counts_the_end_of_each_draw_alone() -> None:
    """The port sends at half its rate. Its queue is 30 kB where it counts, so D = 0.9 (E(1) = 40 kB), and 1 MB elsewhere."""
    times_ns = np.arange(0, 200_000_001, 50_000)
    queue = np.zeros(len(times_ns), [("t_ns", "<i8"), ("backlog_bytes", "<i8"), ("tx_bytes", "<i8")])
    queue["t_ns"], queue["tx_bytes"] = times_ns, times_ns * 25 // 16
    queue["backlog_bytes"] = np.where(times_ns % 40_000_000 > 20_000_000, 30_000, 10**6)
    result = SimpleNamespace(ports=[{"name": "s1-eth16"}], records=lambda name: queue, summary={"pauses": 3})
    found = figure_6.measure(result)
    assert found["queue_bytes"] == 30_000 and found["pauses"] == 3
    assert found["rate"] == pytest.approx(0.5) and found["reward"] == pytest.approx(0.7 * 0.5 + 0.3 * 0.9)


@pytest.mark.parametrize("who", figure_7.WHO)
def test_all_contestants_of_figure_7_get_the_same_messages(tmp_path: Path, who: str) -> None:
    files = {figure_7.file_of("60 %").format(seed=1): figure_7.messages("60 %", 1)}
    made = spec_of(tmp_path, figure_7, figure_7.name("60 %", who), files)
    assert len(made.flows(made.graph())) == files.popitem()[1].count("\n") - 1
    assert made.controller.policy == ("acc" if who in (TRAINED, LEARNING) else None)


def test_a_run_of_figure_7_is_measured(tmp_path: Path) -> None:
    """100 ms instead of 2.2 s: the percentiles are of few messages, and their order holds all the same."""
    from dc_gym.run.runner import run

    files = {figure_7.file_of("60 %").format(seed=1): figure_7.messages("60 %", 1)}
    made = spec_of(tmp_path, figure_7, figure_7.name("60 %", TRAINED), files)
    made = replace(made, time=replace(made.time, duration_ns=100_000_000))
    found = figure_7.measure(run(made, tmp_path / "run", Quiet(), plot=False))
    assert 0 < found["small_s"] < found["small_p99_s"] <= found["small_p999_s"] < found["large_s"]
    assert 0 < found["queue_bytes"] < found["queue_sd_bytes"] < 1e6 and 0 < found["unfinished"] < found["messages"]


@pytest.mark.parametrize("model", figure_10.PARAMETER_BYTES)
def test_workers_compute_as_long_as_a_p100_does(tmp_path: Path, model: str) -> None:
    assert figure_10.compute_ns(model) * figure_10.PART == pytest.approx(64e9 / figure_10.IMAGES_PER_S[model], rel=1e-6)
    made = spec_of(tmp_path, figure_10, figure_10.name(model, TRAINED))
    pushes = [flow for flow in made.flows(made.graph()) if flow.group == "push"]
    assert {flow.size_bytes * figure_10.PART for flow in pushes} == {figure_10.PARAMETER_BYTES[model]} and len(pushes) == 7


@pytest.mark.parametrize("mix", figure_9.DEPTHS)
def test_storage_has_the_same_operations_for_all_and_room_beyond_the_line(tmp_path: Path, mix: str) -> None:
    made = [spec_of(tmp_path, figure_9, figure_9.name(mix, 128, who)) for who in (*figure_9.WHO, figure_9.UNMARKED)]
    flows = [[*each.flows(each.graph())] for each in made]
    assert all(each == flows[0] for each in flows)
    carried = figure_9.STORING * 25e9 / 8 * figure_9.DURATION_MS / 1e3 * 2  # both directions of the storage servers' lines
    assert sum(flow.size_bytes for flow in flows[0]) > carried
    reads = np.mean([flow.group == "read" for flow in flows[0]])
    assert reads == pytest.approx(MIXES[mix].reads / 10, abs=0.02)


def test_storage_of_the_paper_s_size_has_three_computing_servers_for_each_that_stores(tmp_path: Path) -> None:
    (row,) = (each for each in figure_9.ROWS if each.name == figure_9.name("vdi", 16, TRAINED))
    made = own_rate._spec("x", row, StudyOptions(tmp_path, full=True), 1)
    flows = [*made.flows(made.graph())]
    writes = [flow for flow in flows if flow.group == "write"]
    assert len({flow.src for flow in writes}) == 18 and len({flow.dst for flow in writes}) == 6
    first = [flow for flow in flows if flow.rep == 0]
    assert len(first) == 18 * 16


def test_a_run_of_figure_9_is_measured(tmp_path: Path) -> None:
    """1 ms instead of 12, at the least depth."""
    from dc_gym.run.runner import run

    made = spec_of(tmp_path, figure_9, figure_9.name("vdi", 1, TRAINED))
    made = replace(made, time=replace(made.time, duration_ns=1_000_000, warmup_ns=500_000))
    found = figure_9.measure(run(made, tmp_path / "run", Quiet(), plot=False))
    mean_bytes = sum(MIXES["vdi"].sizes()) / len(MIXES["vdi"].sizes())
    most = figure_9.STORING * 2 * 25e9 / 8 / mean_bytes
    assert 0.1 * most < found["iops"] < most and found["places_at_end"] == 0
    assert 1e-6 < found["operation_s"] < found["operation_p99_s"] < 5e-4


@pytest.mark.parametrize("load", figure_13.LOADS)
def test_websearch_has_the_same_flows_for_all(tmp_path: Path, load: int) -> None:
    flows = [
        [*made.flows(made.graph())] for who in figure_13.WHO for made in [spec_of(tmp_path, figure_13, figure_13.name(load, who))]
    ]
    assert all(each == flows[0] for each in flows) and len(flows) == len(figure_13.WHO)


# --- figure 14


def test_the_central_agent_has_one_setting_for_each_direction_and_is_slow(tmp_path: Path) -> None:
    made = {who: spec_of(tmp_path, figure_14, who) for who in figure_14.WHO}
    agents = {who: (each.agent.agents, each.agent.latency_ns) for who, each in made.items() if each.controller.policy}
    assert agents == {
        "D-ACC": ("switches", 10_000),
        "C-ACC": ("central", 2_000_000),
        "C-ACC in 10 us": ("central", 10_000),
        "a switch's directions": ("switches", 10_000),
        "the first action": ("switches", 10_000),
    }
    groups = {who: dict(made[who].controller.own).get("groups", "queue") for who in agents}
    assert groups == {who: "queue" if who in ("D-ACC", "the first action") else "direction" for who in agents}
    assert dict(made["the first action"].controller.own)["constant"] == 0
    flows = [list(each.flows(each.graph())) for each in made.values()]
    assert all(each == flows[0] for each in flows)


def test_figure_14_has_the_paper_s_servers_with_full(tmp_path: Path) -> None:
    (row,) = (each for each in figure_14.ROWS if each.name == "C-ACC")
    short, full = (own_rate._spec("x", row, StudyOptions(tmp_path, full=full), 1).graph() for full in (False, True))
    assert (len(short.hosts), len(full.hosts)) == (32, 96)
    for graph in (short, full):
        down = sum(cable.rate_bps for cable in graph.cables if cable.rate_bps == 25 * 10**9)
        up = sum(cable.rate_bps for cable in graph.cables if cable.rate_bps == 100 * 10**9)
        assert down == up > 0, "as wide above the leaves as below"


# --- figure 16


def rows_of(seed: int, faster: int = figure_16.FASTER) -> list[list[str]]:
    return [row.split(",") for row in figure_16.flows(seed, faster).splitlines()[1:]]


def test_the_flows_of_a_full_run_have_room_beside_its_agents() -> None:
    """64 bytes each of 4 MiB. On the paper's own clock they have not."""
    full, own = (len(rows_of(1, faster)) for faster in (figure_16.FULL_FASTER, 1))
    assert full < 60_000 < 65_536 < own


def test_the_workload_changes_at_the_paper_s_times() -> None:
    rows = rows_of(1)
    assert rows == rows_of(1) != rows_of(2)
    assert {row[0] for row in rows} == {row[1] for row in rows} == {f"h{number}" for number in range(1, 7)}
    assert all(row[0] != row[1] for row in rows)
    small = {}
    for part, (first_ms, last_ms) in figure_16.PARTS.items():
        sizes = [int(row[5]) for row in rows if first_ms <= float(row[3]) * 1e3 * figure_16.FASTER < last_ms]
        small[part] = np.mean(np.array(sizes) < 10_000)
    mining, search = [small["spike"], small["after"], small["again"]], [small["before"], small["back"]]
    assert min(mining) > 0.7 and max(search) < 0.3, "80 % of DataMining's flows, and few of WebSearch's, have less than 10 kB"


def test_the_workload_has_its_load() -> None:
    rows = [row for seed in range(1, 9) for row in rows_of(seed) if float(row[3]) * 1e3 * figure_16.FASTER < 4500]
    sent = sum(own_rate.wire_bytes(int(row[5])) for row in rows) * 8
    seconds = 8 * figure_16.HOSTS * 4.5 / figure_16.FASTER
    assert sent / seconds == pytest.approx(figure_16.LOAD * figure_16.LINE_BPS, rel=0.05)


def test_a_slow_row_is_compared_with_those_of_its_clock() -> None:
    rows = {row.name for row in figure_16.ROWS}
    for claim in figure_16.CLAIMS:
        (criterion,) = claim.criteria
        assert set(criterion.about) <= rows and len({figure_16.faster_of(who) for who in criterion.about}) == 1
    assert {figure_16.faster_of(who, full=True) for who in rows} == {figure_16.FULL_FASTER}


def test_the_rise_is_over_secn1_s_and_each_seed_s_own() -> None:
    def one(who: str, spike: tuple[float, float], after: tuple[float, float]) -> VariantEvidence:
        numbers = {"spike_s": dict(enumerate(spike, 1)), "after_s": dict(enumerate(after, 1))}
        return VariantEvidence(who, who, "#000000", numbers)

    found = figure_16.with_rise(
        Evidence(
            {
                "SECN1": one("SECN1", (2, 4), (1, 2)),
                "ACC": one("ACC", (3, 2), (0.5, 2)),
                "SECN1, slow clock": one("SECN1, slow clock", (1, 1), (2, 4)),
                "ACC, slow clock": one("ACC, slow clock", (4, 3), (4, 4)),
            }
        ),
    )
    assert found.values("ACC", figure_16.RISE.name) == {1: 1.5 - 0.5, 2: 0.5 - 1}
    assert found.values("SECN1", figure_16.RISE.name) == {1: 0, 2: 0}
    assert found.values("ACC, slow clock", figure_16.RISE.name) == {1: 4 - 2, 2: 3 - 1}


def test_bandits_differ_in_how_they_learn_alone_and_explore_before_the_change_on_any_clock() -> None:
    rows = {row.name: row for row in figure_16.ROWS}
    bandit, slow, other = (rows[who] for who in (figure_16.BANDIT, figure_16.slow(figure_16.BANDIT), figure_16.UNTRAINED))
    rival = rows[figure_16.slow("SECN1")]
    assert slow.by_seed == rival.by_seed != bandit.by_seed == other.by_seed
    for full, faster in ((False, figure_16.FASTER), (True, figure_16.FULL_FASTER), (False, figure_16.SLOW_FASTER)):
        own = {**figure_16.BANDITS, figure_16.HALF_LIFE: figure_16.half_life(faster)}
        if faster == figure_16.SLOW_FASTER:
            assert slow.asked(full) == rival.asked(full) | {key: other.values[key] for key in figure_16.FROM_NOTHING} | own
        else:
            assert bandit.asked(full) == other.asked(full) | own
        decisions = figure_16.PHASES[1][0] / faster / 0.5
        share = own["controller.explore"] * 0.5 ** (decisions / own[figure_16.HALF_LIFE])
        assert share == pytest.approx(0.01, rel=0.05)


@pytest.mark.lab
def test_a_run_of_figure_16_is_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as fast as the figure's own clock, and drawn: every part has flows, and agents learn from nothing."""
    from dc_gym.run.runner import run

    faster = 10 * figure_16.FASTER
    monkeypatch.setattr(figure_16, "FASTER", faster)
    files = {figure_16.file_of(figure_16.UNTRAINED).format(seed=1): figure_16.flows(1, faster)}
    made = spec_of(tmp_path, figure_16, figure_16.UNTRAINED, files)
    made = replace(made, time=replace(made.time, duration_ns=figure_16.END_MS * 10**6 // faster + 20_000_000))
    result = run(made, tmp_path / "run", Quiet(), plot=False)
    found = figure_16.measure(result)
    assert all(found[each.name] > 0 for each in figure_16.MEAN.values()) and found["flows"] == files.popitem()[1].count("\n") - 1
    assert found["unfinished"] < 0.2 * found["flows"] and (tmp_path / "run/learned.npz").exists()
    over_time = figure_16.track(result)
    assert over_time.x[0] == 0.25 and over_time.x[-1] == 10.25 and np.isfinite(over_time.values[figure_16.OVER_TIME]).mean() > 0.8
    both = over_time.values
    assert np.nanmax(both[figure_16.MICE_OVER_TIME]) < np.nanmax(both[figure_16.OVER_TIME])
    who = {name: VariantEvidence(name, name, "#000000", {}, over_time={1: over_time}) for name in figure_16.WHO}
    both_clocks = who | {figure_16.slow(name): who[name] for name in figure_16.SLOW_WHO}
    for file, variants, full in (("figure.png", both_clocks, False), ("full.png", who, True)):
        kit.save(figure_16._figure(Evidence(variants), full), tmp_path / file)
        assert (tmp_path / file).stat().st_size > 10_000


def test_bursts_come_beside_flows_that_last(tmp_path: Path) -> None:
    rows = [row.split(",") for row in figure_15.flows(1).splitlines()[1:]]
    lasting, burst = ([row for row in rows if (row[5] == "0") == ends] for ends in (True, False))
    assert {row[0] for row in lasting} == {"h1", "h2"} and len(lasting) == figure_15.LASTING * figure_15.LASTING_EACH
    assert all(float(row[4]) == figure_15.PERIOD_MS * (figure_15.BURSTS + 1) / 1e3 for row in lasting)
    assert len(burst) == figure_15.BURSTS * 13 * figure_15.BURST_EACH and len({row[2] for row in rows}) == len(rows)
    late_s = [float(row[3]) % (figure_15.PERIOD_MS / 1e3) for row in burst]
    assert max(late_s) < figure_15.SPREAD_S and len(set(late_s)) == len(burst)
    assert figure_15.flows(1) == figure_15.flows(1) != figure_15.flows(2)


@pytest.mark.parametrize("who", figure_15.WHO)
def test_all_contestants_of_figure_15_get_the_same_bursts(tmp_path: Path, who: str) -> None:
    files = {figure_15.FILE.format(seed=1): figure_15.flows(1)}
    made = spec_of(tmp_path, figure_15, who, files)
    assert len(made.flows(made.graph())) == files.popitem()[1].count("\n") - 1
    assert made.controller.policy == ("acc" if who == TRAINED else None)


def queue_of_ms(backlog_of_ms: Callable[[float], float], duration_ms: int) -> np.ndarray:
    """Returns a queue's samples: its backlog in bytes by the time in ms."""
    times_us = np.arange(0, duration_ms * 1000 + 1, figure_15.SAMPLE_US)
    found = np.zeros(len(times_us), [("t_ns", "<u8"), ("backlog_bytes", "<u4")])
    found["t_ns"] = times_us * 1000
    found["backlog_bytes"] = [backlog_of_ms(time_us / 1e3) for time_us in times_us]
    return found


def test_a_window_begins_before_its_burst_and_the_last_ends_with_the_run() -> None:
    """The backlog is the number of the ms, so each window's first sample tells when it begins."""
    found = figure_15.windows(queue_of_ms(lambda ms: int(ms), 160))
    assert found[:, 0].tolist() == [35, 75, 115] and found[:, -1].tolist() == [74, 114, 154]


def test_a_run_that_is_too_short_for_a_burst_has_no_window() -> None:
    assert figure_15.windows(queue_of_ms(lambda ms: 0, 25)).shape == (0, 800)


def test_a_run_of_figure_15_is_measured(tmp_path: Path) -> None:
    """One burst instead of three. It makes the queue longer than the flows that last do."""
    from dc_gym.run.runner import run

    made = spec_of(tmp_path, figure_15, "SECN1", {figure_15.FILE.format(seed=1): figure_15.flows(1)})
    made = replace(made, time=replace(made.time, duration_ns=80_000_000))
    result = run(made, tmp_path / "run", Quiet(), plot=False)
    found, track = figure_15.measure(result), figure_15.track(result)
    assert 0 < found["before_bytes"] < found["after_bytes"] < found["peak_bytes"] < 12e6
    assert 0 < found["later_bytes"] < found["after_bytes"]
    assert 0 < found["long_s"] < 0.035 and 0.5 < found["rate"] <= 1
    assert found["burst_s"] > figure_15.BURST_BYTES * 8 / figure_15.LINE_BPS
    assert track.x[0] == pytest.approx(-0.005) and track.values["queue_bytes"].max() == found["peak_bytes"]
