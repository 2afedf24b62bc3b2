# SPDX-License-Identifier: Apache-2.0
"""The studies of ACC: the traffic that they draw, the specs that they run, what they measure, and how claims judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.acc import (
    completion,
    figure_1,
    figure_2,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_13,
    figure_14,
    figure_15,
    figure_16,
)
from dc_gym.benchmarks.studies.acc.common import LEARNING, LINE_BPS, LOSSY, PFC, QUEUE, TRAINED, USE, on
from dc_gym.results.figures import kit
from dc_gym.spec import Spec
from dc_gym.study import collect
from dc_gym.study.claims import Verdict, judge
from dc_gym.study.evidence import Evidence, VariantEvidence
from dc_gym.study.model import Study, StudyOptions
from dc_gym.traffic.kinds.storage import MIXES


def spec_of(folder: Path, study: Study, name: str, *, files: Mapping[str, str] | None = None, full: bool = False) -> Spec:
    """Returns the spec of a variant for seed 1, after writing the files that it reads; None: all of the study's."""
    (variant,) = (candidate for candidate in study.variants if candidate.name == name)
    options = StudyOptions(folder, full=full)
    collect.write(collect.folder(study.runs, options), study.files_of([1]) if files is None else files)
    return collect.spec_of(study, variant, options, 1)


def contender(name: str, **numbers: tuple[float, ...]) -> VariantEvidence:
    return VariantEvidence(name, name, "#000000", {of: dict(enumerate(values, 1)) for of, values in numbers.items()})


def evidence(*variants: VariantEvidence) -> Evidence:
    return Evidence({variant.name: variant for variant in variants})


# --- figure 1


def goodputs(incast: str, shares: tuple[float, ...]) -> list[VariantEvidence]:
    """Returns the rows of an incast with these goodputs, by K, of three seeds that differ a little, in all set-ups.

    A K of the finer list alone has the goodput of the next lower one.
    """
    share_by_kb = dict(zip(figure_1.THRESHOLDS_KB, shares, strict=True))
    return [
        contender(figure_1.name(incast, threshold_kb, setup), goodput=(share, share * 1.001, share * 0.999))
        for setup in figure_1.SETUPS
        for threshold_kb in figure_1.thresholds_kb(setup)
        for share in [share_by_kb[max(lower_kb for lower_kb in share_by_kb if lower_kb <= threshold_kb)]]
    ]


def test_the_best_k_is_the_smallest_that_leaves_enough() -> None:
    rows = evidence(*goodputs("8 x 32", (0.5, 0.7, 0.8, 0.94, 0.95, 0.951)))
    assert figure_1.best(rows, "8 x 32") == {1: 500_000, 2: 500_000, 3: 500_000}
    rows = evidence(*goodputs("8 x 32", (0.5, 0.7, 0.8, 0.945, 0.95, 0.951)))
    assert set(figure_1.best(rows, "8 x 32").values()) == {200_000}


def test_acc_s_claim_is_reproduced_by_what_it_says() -> None:
    rows = [*goodputs("8 x 32", (0.5, 0.7, 0.8, 0.9, 0.95, 0.951)), *goodputs("15 x 8", (0.8, 0.95, 0.951, 0.95, 0.94, 0.9))]
    table = evidence(*rows)
    whole = figure_1.STUDY.derive(table)
    assert [judge(claim, whole).verdict for claim in figure_1.STUDY.claims] == [Verdict.SAME] * 9
    swapped = {on(one, setup): figure_1.best(table, other, setup) for setup in figure_1.SETUPS for one, other in crossing()}
    crossed = evidence(*rows, *(contender(name, best_k_bytes=tuple(by_seed.values())) for name, by_seed in swapped.items()))
    assert [judge(claim, crossed).verdict for claim in figure_1.STUDY.claims] == [Verdict.OPPOSITE] * 9


def crossing() -> list[tuple[str, str]]:
    one, other = figure_1.INCASTS
    return [(one, other), (other, one)]


def test_a_finer_list_tells_neighbours_apart() -> None:
    shares = {20: 0.8, 50: 0.93, 60: 0.945, 80: 0.945, 100: 0.95, 200: 0.95, 500: 0.95, 1000: 0.95}
    rows = [contender(figure_1.name("15 x 8", k_kb, figure_1.DEPARTING), goodput=(share,)) for k_kb, share in shares.items()]
    assert figure_1.best(evidence(*rows), "15 x 8", figure_1.DEPARTING) == {1: 60_000}


def test_one_set_up_marks_at_departure(tmp_path: Path) -> None:
    moments = {
        setup: spec_of(tmp_path, figure_1.STUDY, figure_1.name("8 x 32", 500, setup)).graph().switch_ports()[0].queue.marking.at
        for setup in figure_1.SETUPS
    }
    assert moments == {LOSSY: "arrival", PFC: "arrival", figure_1.DEPARTING: "departure"}


# --- figure 2


def test_completion_times_are_divided_seed_by_seed() -> None:
    times = {"SECN0": (1.0, 2.0, 4.0), "SECN1": (0.5, 1.0, 2.0), "SECN2": (2.0, 4.0, 8.0)}
    rows = [
        contender(figure_2.name(workload, marking, fabric), **{measure.name: values for measure in completion.TIMES})
        for fabric in figure_2.SETUPS
        for workload in figure_2.WORKLOADS
        for marking, values in times.items()
    ]
    table = figure_2.STUDY.derive(evidence(*rows))
    for marking, ratio in (("SECN0", 1.0), ("SECN1", 0.5), ("SECN2", 2.0)):
        numbers = table.variants[figure_2.name("WebSearch", marking, PFC)].numbers
        assert all(set(numbers[measure.name].values()) == {ratio} for measure in figure_2.RATIOS.values())
    assert figure_2.STUDY.draw and len(figure_2.STUDY.draw(table).axes) == len(completion.TIMES)


def test_a_lone_flow_takes_its_frames_and_a_round_trip() -> None:
    times_ns = completion.alone_ns(np.array([1, 1440, 1441, 14_400], dtype=np.uint64))
    assert times_ns.tolist() == [7270 + wire * 8 / 25 for wire in (75, 1514, 1589, 15_140)]


@pytest.mark.parametrize("study", [figure_1.STUDY, figure_2.STUDY], ids=["1", "2"])
def test_the_fabrics_are_acc_s_and_a_command_shortens_them(tmp_path: Path, study: Study) -> None:
    for variant in study.variants:
        spec = spec_of(tmp_path, study, variant.name)
        assert spec.controller.name == "dcqcn" and len(spec.graph().hosts) == 24
        assert (spec.topology.pfc == "classes") is (PFC in variant.name or figure_2.EARLY in variant.name)
        shorter = collect.spec_of(study, variant, StudyOptions(tmp_path, duration="30ms"), 1)
        assert shorter.time.duration_ns == 30_000_000 and (shorter.metrics.cutoff_ns or 0) <= 30_000_000


def test_queue_pairs_are_drawn_anew_or_stay() -> None:
    kinds = (figure_8.REDRAWN, figure_8.STEADY, figure_8.OFTENER)
    all_rows = [[row.split(",") for row in figure_8.flows(2, pairs, 1).splitlines()[1:]] for pairs in kinds]
    redrawn, steady, oftener = ([row for row in rows if row[5] == "0"] for rows in all_rows)
    pings = [row for row in all_rows[0] if row[5] == "1"]
    assert len(pings) == (29 - 3) * 10 and {row[0] for row in pings} == {"h1"} and len(all_rows[1]) == len(steady)
    assert len(steady) == 2 * figure_8.STEADY_PAIRS and {(row[3], row[4]) for row in steady} == {("0", "0.03")}
    for rows, phase_ms in ((redrawn, 3), (oftener, 2)):
        starts_ms = range(0, 30, phase_ms)
        counts = [sum(row[0] == "h1" and round(float(row[3]) * 1e3) == start for row in rows) for start in starts_ms]
        assert min(counts) >= 1 and max(counts) <= figure_8.MOST_PAIRS and len(set(counts)) > 3
        assert {round(float(row[4]) * 1e3) - round(float(row[3]) * 1e3) for row in rows} == {phase_ms}
        assert sum(row[0] == "h1" for row in rows) == sum(counts), "each starts with a draw"
        assert len({tuple(row[:3]) for row in rows}) == len(rows)


@pytest.mark.parametrize("senders", figure_8.SENDERS)
def test_kept_queue_pairs_only_change_by_the_difference_of_two_draws(senders: int) -> None:
    rows = [row.split(",") for row in figure_8.flows(senders, figure_8.KEPT, 1).splitlines()[1:]]
    counts = figure_8.draws(senders, figure_8.KEPT, 1)
    assert len(counts) == 30 and len({tuple(row[:3]) for row in rows}) == len(rows)
    for sender in range(1, senders + 1):
        spans = [tuple(round(float(cell) * 1e3) for cell in row[3:5]) for row in rows if row[0] == f"h{sender}"]
        expected = [of_phase[sender - 1] for of_phase in counts]
        assert [sum(start <= 2 * at < stop for start, stop in spans) for at in range(30)] == expected
        begun = sum(max(now - before, 0) for before, now in zip([0, *expected], expected, strict=False))
        assert len(spans) == begun, "none begins anew that could stay"


def test_queue_pairs_follow_the_seed() -> None:
    drawn = [figure_8.flows(2, figure_8.REDRAWN, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert figure_8.flows(2, figure_8.STEADY, 1) == figure_8.flows(2, figure_8.STEADY, 2)
    files = {row.by_seed["workload.file"].format(seed=seed) for row in figure_8.STUDY.variants for seed in (1, 2)}
    assert len(files) == 2 * len({(senders, pairs) for senders, pairs, _, _ in figure_8.CASES})


@pytest.mark.parametrize("case", figure_8.CASES, ids=lambda case: figure_8.name(*case))
def test_rdma_and_tcp_have_classes_of_their_own(tmp_path: Path, case: tuple[int, str, str, str]) -> None:
    senders, pairs, marking, changed = case
    files = {figure_8.file_of(senders, pairs).format(seed=1): figure_8.flows(senders, pairs, 1)}
    spec = spec_of(tmp_path, figure_8.STUDY, figure_8.name(*case), files=files)
    queue = spec.graph().switch_ports()[0].queue
    of = {flow.transport: queue.classes[queue.class_of(flow.dscp or 0)] for flow in spec.flows(spec.graph())}
    assert (of["rdma"].name, of["rdma"].lossless, of["tcp"].name, of["tcp"].lossless) == ("rdma", True, "tcp", False)
    assert (marking == figure_8.TRAINED) is (spec.controller.policy == "acc")
    if marking != "SECN0":
        own_ppm = {"SECN1": 10_000, "SECN2": 200_000}.get(marking, 10_000)
        rdma_marking = of["rdma"].marking
        assert rdma_marking.probability_ppm == (1_000_000 if changed == figure_8.FULL_PMAX else own_ppm)
        assert rdma_marking.at == "departure", "as HPCC's simulator does"
        if marking == "SECN2":
            factor = 1 if changed == figure_8.OF_25G else 4
            assert (rdma_marking.min_bytes, rdma_marking.max_bytes) == (100_000 * factor, 400_000 * factor)
    assert of["rdma"].quantum_bytes * 30 == pytest.approx(of["tcp"].quantum_bytes * 70, rel=0.001)


def test_shorter_runs_are_told(tmp_path: Path) -> None:
    def short(**options: object) -> str:
        return str(collect.shortfall(figure_1.STUDY, figure_1.STUDY.variants, StudyOptions(tmp_path, **options)))

    assert short(duration="30ms") == "runs of 30ms instead of 60ms" and short(seeds=1) == "1 seed instead of 5" and not short()


# --- figures 6, 7, 9, 10, 13


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
            sent[load] += collect.wire_bytes(int(row[5]))
    for load, share in figure_7.LOADS.items():
        assert sent[load] * 8 / (8 * figure_7.LAST_START_MS[load] / 1e3) == pytest.approx(share * LINE_BPS, rel=0.1)
    assert np.array(list(counts.values())) == pytest.approx(sum(counts.values()) / len(counts), rel=0.1)


def test_messages_follow_the_seed() -> None:
    first, again, other = (figure_7.messages("60 %", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_figure_6_counts_all_but_the_beginning_of_each_draw() -> None:
    """The port sends at half its rate. Its queue is 30 kB where it counts, so D = 0.9 (E(1) = 40 kB), and 1 MB elsewhere."""
    times_ns = np.arange(0, 3_000_000_001, 50_000)
    queue = np.zeros(len(times_ns), [("t_ns", "<i8"), ("backlog_bytes", "<i8"), ("tx_bytes", "<i8")])
    queue["t_ns"], queue["tx_bytes"] = times_ns, times_ns * 25 // 16
    queue["backlog_bytes"] = np.where((times_ns - 1) % 10**9 >= 20_000_000, 30_000, 10**6)
    result = SimpleNamespace(ports=[{"name": "s1-eth16"}], records=lambda name: queue, summary={"pauses": 3})
    numbers = figure_6.measure(result)
    assert [numbers[of.name] for of in (QUEUE, *figure_6.QUEUES)] == [30_000] * 4 and numbers["pauses"] == 3
    assert [numbers[of.name] for of in (USE, *figure_6.USES)] == pytest.approx([0.5] * 4)
    assert numbers["reward"] == pytest.approx(0.7 * 0.5 + 0.3 * 0.9)


@pytest.mark.parametrize("contestant", figure_7.WHO)
def test_all_contestants_of_figure_7_get_the_same_messages(tmp_path: Path, contestant: str) -> None:
    files = {figure_7.file_of("60 %").format(seed=1): figure_7.messages("60 %", 1)}
    spec = spec_of(tmp_path, figure_7.STUDY, figure_7.name("60 %", contestant), files=files)
    assert len(spec.flows(spec.graph())) == files.popitem()[1].count("\n") - 1
    assert spec.controller.policy == ("acc" if contestant in (TRAINED, LEARNING) else None)


def test_a_run_of_figure_7_is_measured(tmp_path: Path) -> None:
    """100 ms instead of 2.2 s: the percentiles are of few messages, and their order holds all the same."""
    from dc_gym.run.runner import run

    files = {figure_7.file_of("60 %").format(seed=1): figure_7.messages("60 %", 1)}
    spec = spec_of(tmp_path, figure_7.STUDY, figure_7.name("60 %", TRAINED), files=files)
    spec = replace(spec, time=replace(spec.time, duration_ns=100_000_000))
    numbers = figure_7.measure(run(spec, tmp_path / "run", Quiet(), plot=False))
    assert 0 < numbers["small_s"] < numbers["small_p99_s"] <= numbers["small_p999_s"] < numbers["large_s"]
    assert 0 < numbers["queue_bytes"] < numbers["queue_sd_bytes"] < 1e6 and 0 < numbers["unfinished"] < numbers["messages"]


@pytest.mark.parametrize("model", figure_10.PARAMETER_BYTES)
def test_workers_compute_as_long_as_a_p100_does(tmp_path: Path, model: str) -> None:
    assert figure_10.compute_ns(model) == pytest.approx(64e9 / figure_10.IMAGES_PER_S[model], rel=1e-6)
    spec = spec_of(tmp_path, figure_10.STUDY, figure_10.name(model, TRAINED))
    pushes = [flow for flow in spec.flows(spec.graph()) if flow.group == "push"]
    assert {flow.size_bytes for flow in pushes} == {figure_10.PARAMETER_BYTES[model]} and len(pushes) == 7


@pytest.mark.parametrize("mix", figure_9.DEPTHS)
def test_storage_has_the_same_operations_for_all_and_room_beyond_the_line(tmp_path: Path, mix: str) -> None:
    specs = [spec_of(tmp_path, figure_9.STUDY, figure_9.name(mix, 128, contestant)) for contestant in figure_9.WHO]
    flows = [[*spec.flows(spec.graph())] for spec in specs]
    assert all(run_flows == flows[0] for run_flows in flows)
    carried = figure_9.STORING * 25e9 / 8 * figure_9.DURATION_MS / 1e3 * 2  # both directions of the storage servers' lines
    assert sum(flow.size_bytes for flow in flows[0]) > carried
    reads = np.mean([flow.group == "read" for flow in flows[0]])
    assert reads == pytest.approx(MIXES[mix].reads / 10, abs=0.02)


def test_storage_has_three_computing_servers_for_each_that_stores(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, figure_9.STUDY, figure_9.name("vdi", 16, TRAINED))
    flows = [*spec.flows(spec.graph())]
    writes = [flow for flow in flows if flow.group == "write"]
    assert len({flow.src for flow in writes}) == 18 and len({flow.dst for flow in writes}) == 6
    first = [flow for flow in flows if flow.rep == 0]
    assert len(first) == 18 * 16


def test_a_run_of_figure_9_is_measured(tmp_path: Path) -> None:
    """1 ms instead of 8, at the least depth."""
    from dc_gym.run.runner import run

    spec = spec_of(tmp_path, figure_9.STUDY, figure_9.name("vdi", 1, TRAINED))
    spec = replace(spec, time=replace(spec.time, duration_ns=1_000_000, warmup_ns=500_000))
    numbers = figure_9.measure(run(spec, tmp_path / "run", Quiet(), plot=False))
    mean_bytes = sum(MIXES["vdi"].sizes()) / len(MIXES["vdi"].sizes())
    most = figure_9.STORING * 2 * 25e9 / 8 / mean_bytes
    assert 0.1 * most < numbers["iops"] < most and numbers["places_at_end"] == 0
    assert 1e-6 < numbers["operation_s"] < numbers["operation_p99_s"] < 5e-4


@pytest.mark.parametrize("load", figure_13.LOADS)
def test_websearch_has_the_same_flows_for_all(tmp_path: Path, load: int) -> None:
    flows = [
        [*spec.flows(spec.graph())]
        for contestant in figure_13.WHO
        for spec in [spec_of(tmp_path, figure_13.STUDY, figure_13.name(load, contestant))]
    ]
    assert all(run_flows == flows[0] for run_flows in flows) and len(flows) == len(figure_13.WHO)


# --- figure 14


def test_the_central_agent_has_one_setting_for_each_direction_and_is_slow(tmp_path: Path) -> None:
    specs = {name: spec_of(tmp_path, figure_14.STUDY, name) for name in figure_14.WHO}
    agents = {name: (spec.agent.agents, spec.agent.latency_ns) for name, spec in specs.items() if spec.controller.policy}
    assert agents == {
        "D-ACC": ("switches", 10_000),
        "C-ACC": ("central", 2_000_000),
        "C-ACC in 10 us": ("central", 10_000),
        "a switch's directions": ("switches", 10_000),
        "the first action": ("switches", 10_000),
    }
    groups = {name: dict(specs[name].controller.own).get("groups", "queue") for name in agents}
    assert groups == {name: "queue" if name in ("D-ACC", "the first action") else "direction" for name in agents}
    assert dict(specs["the first action"].controller.own)["constant"] == 0
    flows = [list(spec.flows(spec.graph())) for spec in specs.values()]
    assert all(run_flows == flows[0] for run_flows in flows)


def test_figure_14_has_the_paper_s_servers_with_full(tmp_path: Path) -> None:
    short, full = (spec_of(tmp_path, figure_14.STUDY, "C-ACC", full=full).graph() for full in (False, True))
    assert (len(short.hosts), len(full.hosts)) == (32, 96)
    for graph in (short, full):
        down = sum(cable.rate_bps for cable in graph.cables if cable.rate_bps == 25 * 10**9)
        up = sum(cable.rate_bps for cable in graph.cables if cable.rate_bps == 100 * 10**9)
        assert down == up > 0, "as wide above the leaves as below"


# --- figure 16


FASTER, SLOW_FASTER, FULL_FASTER = figure_16.FASTER.values()


def rows_of(seed: int, faster: int = FASTER) -> list[list[str]]:
    return [row.split(",") for row in figure_16.flows(faster, seed).splitlines()[1:]]


def test_the_flows_of_a_full_run_have_room_beside_its_agents() -> None:
    """64 bytes each of 4 MiB. On the paper's own clock they have not."""
    full, unscaled = (len(rows_of(1, faster)) for faster in (FULL_FASTER, 1))
    assert full < 60_000 < 65_536 < unscaled


def test_the_workload_changes_at_the_paper_s_times() -> None:
    rows = rows_of(1)
    assert rows == rows_of(1) != rows_of(2)
    assert {row[0] for row in rows} == {row[1] for row in rows} == {f"h{number}" for number in range(1, 7)}
    assert all(row[0] != row[1] for row in rows)
    small = {}
    for part, (first_ms, last_ms, _) in figure_16.PARTS.items():
        sizes = [int(row[5]) for row in rows if first_ms <= float(row[3]) * 1e3 * FASTER < last_ms]
        small[part] = np.mean(np.array(sizes) < 10_000)
    mining, search = [small["spike"], small["after"], small["again"]], [small["before"], small["back"]]
    assert min(mining) > 0.7 and max(search) < 0.3, "80 % of DataMining's flows, and few of WebSearch's, have less than 10 kB"


def test_the_workload_has_its_load() -> None:
    rows = [row for seed in range(1, 9) for row in rows_of(seed) if float(row[3]) * 1e3 * FASTER < 4500]
    sent = sum(collect.wire_bytes(int(row[5])) for row in rows) * 8
    seconds = 8 * figure_16.HOSTS * 4.5 / FASTER
    assert sent / seconds == pytest.approx(figure_16.LOAD * LINE_BPS, rel=0.05)


def test_a_slow_row_is_compared_with_those_of_its_clock(tmp_path: Path) -> None:
    files = {variant.name: variant.by_seed["workload.file"] for variant in figure_16.VARIANTS}
    for claim in figure_16.STUDY.claims:
        (criterion,) = claim.criteria
        assert len({files[contestant] for contestant in criterion.about}) == 1
    ran = figure_16.STUDY.chosen(StudyOptions(tmp_path, full=True))
    assert [variant.name for variant in ran] == list(figure_16.WHO)
    assert {variant.keys(full=True)["workload.file"] for variant in ran} == {figure_16.FULL}


@pytest.mark.parametrize(("name", "full", "faster"), [("SECN1", False, 20), ("SECN1, slow clock", False, 5), ("SECN1", True, 3)])
def test_completion_times_are_told_on_the_paper_s_clock(tmp_path: Path, name: str, full: bool, faster: int) -> None:
    (variant,) = (candidate for candidate in figure_16.VARIANTS if candidate.name == name)
    files = {figure_16.FULL.format(seed=1): ""} if full else {variant.by_seed["workload.file"].format(seed=1): ""}
    header = "source,destination,port,start,stop,size\nh1,h2,5001,0,0,9\n"
    run_spec = spec_of(tmp_path, figure_16.STUDY, name, files=dict.fromkeys(files, header), full=full).to_dict()
    flows = np.zeros(1, [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    flows["start_ns"], flows["end_ns"] = 5_000_000_000 // faster, 5_000_000_000 // faster + 1000
    (start_ms,), (took_s,), _ = figure_16._ended(SimpleNamespace(manifest={"spec": run_spec}, records=lambda _: flows))
    assert start_ms == pytest.approx(5000, rel=1e-6) and took_s == 1e-6


def test_the_rise_is_over_secn1_s_and_each_seed_s_own() -> None:
    def one(name: str, spike: tuple[float, float], after: tuple[float, float]) -> VariantEvidence:
        numbers = {"spike_s": dict(enumerate(spike, 1)), "after_s": dict(enumerate(after, 1))}
        return VariantEvidence(name, name, "#000000", numbers)

    evidence = figure_16.STUDY.derive(
        Evidence(
            {
                "SECN1": one("SECN1", (2, 4), (1, 2)),
                "ACC": one("ACC", (3, 2), (0.5, 2)),
                "SECN1, slow clock": one("SECN1, slow clock", (1, 1), (2, 4)),
                "ACC, slow clock": one("ACC, slow clock", (4, 3), (4, 4)),
            }
        ),
    )
    assert evidence.values("ACC", figure_16.RISE.name) == {1: 1.5 - 0.5, 2: 0.5 - 1}
    assert evidence.values("SECN1", figure_16.RISE.name) == {1: 0, 2: 0}
    assert evidence.values("ACC, slow clock", figure_16.RISE.name) == {1: 4 - 2, 2: 3 - 1}


def test_bandits_differ_in_how_they_learn_alone_and_explore_before_the_change_on_any_clock() -> None:
    rows = {variant.name: variant for variant in figure_16.VARIANTS}
    bandit, slow, other = (rows[name] for name in (figure_16.BANDIT, figure_16.slow(figure_16.BANDIT), figure_16.UNTRAINED))
    rival = rows[figure_16.slow("SECN1")]
    assert slow.by_seed == rival.by_seed != bandit.by_seed == other.by_seed
    for full, faster in ((False, FASTER), (True, FULL_FASTER), (False, SLOW_FASTER)):
        keys = {**figure_16.BANDITS, figure_16.HALF_LIFE: 1600 // faster}
        if faster == SLOW_FASTER:
            assert slow.keys(full) == rival.keys(full) | {key: other.values[key] for key in figure_16.FROM_NOTHING} | keys
        else:
            assert bandit.keys(full) == other.keys(full) | keys
        decisions = figure_16.PHASES[1][0] / faster / 0.5
        share = keys["controller.explore"] * 0.5 ** (decisions / keys[figure_16.HALF_LIFE])
        assert share == pytest.approx(0.01, rel=0.05)


@pytest.mark.lab
def test_a_run_of_figure_16_is_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as fast as the figure's own clock, and drawn: every part has flows, and agents learn from nothing."""
    from dc_gym.run.runner import run

    faster = 10 * FASTER
    monkeypatch.setitem(figure_16.FASTER, figure_16.USUAL, faster)
    files = {figure_16.USUAL.format(seed=1): figure_16.flows(faster, 1)}
    spec = spec_of(tmp_path, figure_16.STUDY, figure_16.UNTRAINED, files=files)
    spec = replace(spec, time=replace(spec.time, duration_ns=figure_16.END_MS * 10**6 // faster + 20_000_000))
    result = run(spec, tmp_path / "run", Quiet(), plot=False)
    row = figure_16.measure(result)
    assert all(row[mean.name] > 0 for mean in figure_16.MEAN.values()) and row["flows"] == files.popitem()[1].count("\n") - 1
    assert row["unfinished"] < 0.2 * row["flows"] and (tmp_path / "run/learned.npz").exists()
    over_time = figure_16.track(result)
    assert over_time.x[0] == 0.25 and over_time.x[-1] == 10.25 and np.isfinite(over_time.values[figure_16.OVER_TIME]).mean() > 0.8
    both = over_time.values
    assert np.nanmax(both[figure_16.MICE_OVER_TIME]) < np.nanmax(both[figure_16.OVER_TIME])
    by_name = {name: VariantEvidence(name, name, "#000000", {}, over_time={1: over_time}) for name in figure_16.WHO}
    both_clocks = by_name | {variant.name: next(iter(by_name.values())) for variant in figure_16.VARIANTS if variant.short}
    for file, variants in (("figure.png", both_clocks), ("full.png", by_name)):
        kit.save(figure_16._figure(Evidence(variants)), tmp_path / file)
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


@pytest.mark.parametrize("contestant", [variant.name for variant in figure_15.STUDY.variants])
def test_all_contestants_of_figure_15_get_the_same_bursts(tmp_path: Path, contestant: str) -> None:
    files = {figure_15.FILE.format(seed=1): figure_15.flows(1)}
    spec = spec_of(tmp_path, figure_15.STUDY, contestant, files=files)
    assert len(spec.flows(spec.graph())) == files.popitem()[1].count("\n") - 1
    assert spec.controller.policy == ("acc" if contestant == TRAINED else None)


def queue_of_ms(backlog_of_ms: Callable[[float], float], duration_ms: int) -> np.ndarray:
    """Returns a queue's samples: its backlog in bytes by the time in ms."""
    times_us = np.arange(0, duration_ms * 1000 + 1, figure_15.SAMPLE_US)
    samples = np.zeros(len(times_us), [("t_ns", "<u8"), ("backlog_bytes", "<u4")])
    samples["t_ns"] = times_us * 1000
    samples["backlog_bytes"] = [backlog_of_ms(time_us / 1e3) for time_us in times_us]
    return samples


def test_a_window_begins_before_its_burst_and_the_last_ends_with_the_run() -> None:
    """The backlog is the number of the ms, so each window's first sample tells when it begins."""
    windows = figure_15.windows(queue_of_ms(lambda ms: int(ms), 160))
    assert windows[:, 0].tolist() == [35, 75, 115] and windows[:, -1].tolist() == [74, 114, 154]


def test_a_run_that_is_too_short_for_a_burst_has_no_window() -> None:
    assert figure_15.windows(queue_of_ms(lambda ms: 0, 25)).shape == (0, 800)


def test_a_run_of_figure_15_is_measured(tmp_path: Path) -> None:
    """One burst instead of three. It makes the queue longer than the flows that last do."""
    from dc_gym.run.runner import run

    spec = spec_of(tmp_path, figure_15.STUDY, "SECN1")
    spec = replace(spec, time=replace(spec.time, duration_ns=80_000_000))
    result = run(spec, tmp_path / "run", Quiet(), plot=False)
    numbers, track = figure_15.measure(result), figure_15.track(result)
    assert 0 < numbers["before_bytes"] < numbers["after_bytes"] < numbers["peak_bytes"] < 12e6
    assert 0 < numbers["later_bytes"] < numbers["after_bytes"]
    assert 0 < numbers["long_s"] < 0.035 and 0.5 < numbers["rate"] <= 1
    assert numbers["burst_s"] > figure_15.BURST_BYTES * 8 / LINE_BPS
    assert track.x[[0, -1]] == pytest.approx([-0.00475, 0.03475]) and len(track.x) == 80
    drawn = track.values["queue_bytes"]
    assert 0.9 * numbers["peak_bytes"] < drawn.max() <= numbers["peak_bytes"] and drawn[10:30].mean() == pytest.approx(
        numbers["after_bytes"], abs=1
    )
