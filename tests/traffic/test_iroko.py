# SPDX-License-Identifier: Apache-2.0
"""Iroko's matrices: all files as they are written, both dialects row by row, addresses, and errors that name their place."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import pytest

from dc_gym.base.errors import WorkloadError
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.flows import NO_GATE
from dc_gym.traffic.kinds.iroko import REPOSITORY, THESIS, names
from dc_gym.traffic.workloads import WorkloadSpec, generate, generate_with_notes

S, MS = 10**9, 10**6
FATTREE = build(TopologySpec.of(preset="fattree-k4"))
DUMBBELL = build(TopologySpec.of(preset="dumbbell-10m", pairs=32))
FATTREE_FILES = [name for name in names() if not name.startswith("incast")]


def iroko(pattern, graph=FATTREE, **values):
    return generate(graph, WorkloadSpec.of("iroko", pattern=pattern, **values), 60 * S, 1)


def classes(flows):
    """Same edge switch, same pod, other pod: hosts 2e-1 and 2e are on edge switch e, pods have four hosts."""
    numbers = [(int(flow.src[1:]) - 1, int(flow.dst[1:]) - 1) for flow in flows]
    edge = sum(src // 2 == dst // 2 for src, dst in numbers)
    pod = sum(src // 4 == dst // 4 for src, dst in numbers) - edge
    return edge, pod, len(flows) - edge - pod


def first(flows):
    return [flow for flow in flows if flow.rep == 0]


def test_all_files_come_along():
    assert len(names()) == 37 and len(FATTREE_FILES) == 32


EXPECTED = {  # flows, largest in-degree, classes: what the survey of Iroko's files found
    "stride1": (16, 1, (8, 4, 4)), "stride2": (16, 1, (0, 8, 8)), "stride4": (16, 1, (0, 0, 16)), "stride8": (16, 1, (0, 0, 16)),
    "hotspot_one_to_one": (16, 3, (1, 0, 15)), "all_to_all": (240, 15, (16, 32, 192)),
    "all_to_all_exact": (240, 15, (16, 32, 192)),
    "random_2_flows": (32, 3, None), "random_3_flows": (48, 5, None), "random_4_flows": (64, 6, None),
    "random_5_flows": (80, 7, None), "stag_prob_0_1_0": (16, 1, (16, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", FATTREE_FILES)
def test_every_file_of_the_fat_tree(name):
    flows = first(iroko(name))
    assert {(flow.start_ns, flow.stop_ns, flow.size_bytes, flow.dst_port) for flow in flows} == {(0, 60 * S, 2147483647, 12345)}
    into = Counter(flow.dst for flow in flows)
    if name in EXPECTED:
        count, most, expected = EXPECTED[name]
        assert len(flows) == count and max(into.values()) == most and expected in (None, classes(flows))
    elif name.startswith("stag_prob") or name.endswith("_bij"):
        assert len(flows) == 16 and set(into.values()) == {1}
    else:
        assert len(flows) == 16 and 2 <= max(into.values()) <= 4
    assert len({flow.src for flow in flows}) == 16


def test_edge_shares_of_the_staggered_draws():
    assert [classes(first(iroko(f"stag_prob_{draw}_2_3")))[0] for draw in range(5)] == [5, 3, 4, 2, 6]
    assert [classes(first(iroko(f"stag_prob_{draw}_5_3")))[0] for draw in range(5)] == [8, 8, 8, 10, 5]


def test_stride8_is_mended_or_kept():
    params = {"pattern": "stride8"}
    mended, notes = generate_with_notes(FATTREE, WorkloadSpec.of("iroko", **params), 60 * S, 1)
    assert [(flow.src, flow.dst) for flow in first(mended)] == [(f"h{n}", f"h{(n + 7) % 16 + 1}") for n in range(1, 17)]
    assert notes["broken_rows"] == [f"stride8.csv:{line}: 10.3.1.3 does not exist: read as 10.8.0.2" for line in (9, 17)]
    unmended, notes = generate_with_notes(FATTREE, WorkloadSpec.of("iroko", broken="keep", **params), 60 * S, 1)
    assert len(first(unmended)) == 14 and "h16" not in {flow.src for flow in unmended} | {flow.dst for flow in unmended}
    assert notes["broken_rows"][0].endswith("left out")


def test_udp_rows_send_at_their_hosts_rate():
    flows = first(iroko("all_to_all_exact"))
    assert {(flow.transport, flow.rate_bps) for flow in flows} == {("udp", 10**9)}
    assert {flow.rate_bps for flow in first(iroko("all_to_all_exact", rate_bps=10**6))} == {10**6}
    assert {flow.transport for flow in first(iroko("all_to_all"))} == {"tcp"}


@pytest.mark.parametrize("count", [2, 4, 8, 16, 32])
def test_incast_n_is_disjoint_pairs(count):
    """And the rule that stands in for Iroko's larger files gives what the stored ones have."""
    from dc_gym.traffic.kinds import iroko as module

    flows = first(iroko(f"incast_{count}", DUMBBELL))
    assert [(flow.src, flow.dst) for flow in flows] == [(f"h{n}", f"h{32 + n}") for n in range(1, count + 1)]
    stored = (module.FOLDER / f"incast_{count}.csv").read_text().split()
    assert [row.split(",")[:2] for row in stored] == [row.split(",")[:2] for row in module._disjoint_pairs(count).split()]


def matrix(text, tmp_path, graph=FATTREE, seed=1, duration_ns=60 * S, **values):
    (tmp_path / "m.csv").write_text(text)
    return generate(graph, WorkloadSpec.of("matrix", file=tmp_path / "m.csv", **values), duration_ns, seed)


def test_the_table_of_the_thesis(tmp_path):
    """Table 4.1 as it is printed: 1 MB again and again for ever; and from 15 s on 10 times 15 s, 1 s apart."""
    text = "Source,Dest,Port,Start (s),Length (s),Flow size (B),Reps,Flow gap (s)\nH1,H3,80,0.0,0.0,1000000,inf,0.0\n"
    flows = matrix(text + "H1,H4,80,15.0,15.0,inf,10,1.0\n", tmp_path, duration_ns=S)
    endless = [flow for flow in flows if flow.dst == "h3"]
    assert endless[0].gate == NO_GATE and not endless[0].spare and all(flow.spare for flow in endless[1:])
    assert {(flow.size_bytes, flow.start_ns, flow.length_ns, flow.stop_ns) for flow in endless} == {(1_000_000, 0, 0, 0)}
    assert 100 < len(endless) < 130  # as many as 1 Gbit/s carries in a second, and no more
    assert [flow.gate for flow in endless[1:]] == [flow.opens[0] for flow in endless[:-1]]
    timed = [flow for flow in flows if flow.dst == "h4"]
    assert len(timed) == 10 and [flow.rep for flow in timed] == list(range(10)) and not any(flow.spare for flow in timed)
    assert [flow.start_ns for flow in timed] == [15 * S] + [S] * 9
    assert {(flow.size_bytes, flow.length_ns, flow.stop_ns) for flow in timed} == {(0, 15 * S, 0)}


def row(seed=1, size=10**6, size_pattern="exact", reps=200, gap="0.001", gap_pattern="exact", stop=0):
    return f"10.1.0.1,10.2.0.1,80,{seed},0.5,{stop},{size},{size_pattern},{reps},{gap},{gap_pattern}"


def repository(tmp_path, *rows, **values):
    return matrix("\n".join([",".join(REPOSITORY), *rows]) + "\n", tmp_path, **values)


@pytest.mark.parametrize("pattern", ["exact", "uniform", "exponential"])
def test_random_sizes_and_gaps(tmp_path, pattern):
    flows = repository(tmp_path, row(size_pattern=pattern, gap_pattern=pattern, reps=3000))
    sizes, gaps = [flow.size_bytes for flow in flows], [flow.start_ns for flow in flows[1:]]
    assert len(flows) == 3000 and flows[0].start_ns == S // 2
    assert mean(sizes) == pytest.approx(10**6, rel=0.06) and mean(gaps) == pytest.approx(MS, rel=0.06)
    assert (len(set(sizes)) == 1) == (pattern == "exact") and (pattern != "uniform" or max(sizes) <= 2 * 10**6)


def test_seeds_of_row_and_run(tmp_path):
    def sizes(seed=1, run=1):
        return [flow.size_bytes for flow in repository(tmp_path, row(seed, size_pattern="exponential"), seed=run)]

    assert sizes() == sizes() and sizes(seed=2) != sizes() and sizes(run=2) != sizes()


def test_endless_repetitions_stop_in_time(tmp_path):
    flows = repository(tmp_path, row(reps=-1, stop=1), "", row(reps=1, stop="0.75"))
    assert {flow.stop_ns for flow in flows} == {S, 3 * S // 4}
    assert 54 < len(flows) < 60  # half a second of 1 MB at 1 Gbit/s with gaps of 1 ms


def test_names_of_hosts(tmp_path):
    line = "{},{},80,0,0,1,1,0\n"
    pairs = [("h1", "H16"), ("10.0.0.1", "10.0.0.16"), ("10.1.0.1", "10.8.0.2")]
    text = ",".join(THESIS) + "\n" + "".join(line.format(*pair) for pair in pairs)
    assert [(flow.src, flow.dst) for flow in matrix(text, tmp_path)] == [("h1", "h16")] * 3


BAD = [
    (row().replace("10.2.0.1", "10.9.0.1"), "m.csv:2: column 'dst': value '10.9.0.1' is not a host of the topology"),
    (row().replace("10.2.0.1", "10.2.0.3"), "column 'dst': value '10.2.0.3'"),
    (row().replace("10.2.0.1", "10.1.0.1"), "column 'dst': value '10.1.0.1' is not another host"),
    (row().replace("10.2.0.1", "10.3.1.3"), "column 'dst': value '10.3.1.3' is not a host"),  # mended in Iroko's own file alone
    (row(seed="x"), "column 'seed': value 'x' is not a whole number"),
    (row(size_pattern="poisson"), "column 'flow_size_pattern': value 'poisson' is not one of exact, uniform, exponential"),
    (row(gap_pattern=""), "column 'random_gap': value ''"),
    (row(reps=0), "column 'reps': value '0' is not a whole number in 1.."),
    (row(reps="inf"), "column 'reps': value 'inf'"),
    (row(gap="-1"), "column 'flow_gap': value '-1' is not seconds"),
    (row(stop="0.5"), "column 'stop_time': value '0.5' is not after start_time"),
    (row().replace(",80,", ",0,"), "column 'port': value '0'"),
    (row() + ",x", "m.csv:2: it has 12 columns, not 11"),
    (row().replace(",80,", ",80,SCTP,"), "m.csv:2: it has 12 columns, not 11"),
    ("", "m.csv: it has 0 flows"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=range(len(BAD)))
def test_bad_rows(tmp_path, line, message):
    with pytest.raises(WorkloadError) as excinfo:
        repository(tmp_path, line)
    assert message in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_an_unknown_dialect_names_all_three(tmp_path):
    with pytest.raises(WorkloadError) as excinfo:
        matrix("src,dst\nh1,h2\n", tmp_path)
    assert all(",".join(columns) in str(excinfo.value) for columns in (THESIS, REPOSITORY)) and "m.csv:1" in str(excinfo.value)


def test_an_unknown_pattern():
    with pytest.raises(WorkloadError, match="did you mean stride1"):
        iroko("stride3")
