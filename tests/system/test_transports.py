# SPDX-License-Identifier: Apache-2.0
"""A flow may name its transport, in a matrix or in a workload. What cannot run side by side is one line before anything boots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base.errors import SpecError
from dc_gym.run.plan.experiment import Experiment
from dc_gym.traffic.flows import NO_GATE

SPEC = """
topology.preset = "dumbbell-10m"
controller.name = "cubic"
workload.kind = "matrix"
workload.file = "flows.csv"
time.duration = "1s"
"""
DIALECTS = {
    "plain": ("source,destination,port,start,stop,size", "{},{},80,0,0,1000"),
    "thesis": ("source,destination,port,start,length,size,reps,gap", "{},{},80,0,0,1000,1,0"),
    "repository": (
        "src,dst,port,seed,start_time,stop_time,flow_size,flow_size_pattern,reps,flow_gap,random_gap",
        "{},{},80,0,0,1,1000,exact,1,0,exact",
    ),
}
ENDS = [("h1", "h3"), ("h2", "h4"), ("h1", "h4")]


def load(folder: Path, transports: list[str], *overrides: str, dialect: str = "plain") -> spec.Spec:
    """Returns a spec whose matrix has a row for each transport."""
    header, row = DIALECTS[dialect]
    rows = [f"{row.format(*ends)},{named}" for ends, named in zip(ENDS, transports, strict=False)]
    (folder / "flows.csv").write_text("\n".join([f"{header},transport", *rows]) + "\n")
    (folder / "spec.toml").write_text(SPEC)
    return spec.load(folder / "spec.toml", overrides)


def made(scenario: spec.Spec) -> list[tuple[str | None, int]]:
    return [(flow.transport, flow.rate_bps) for flow in scenario.flows(scenario.graph())]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_row_names_its_transport(dialect: str, tmp_path: Path) -> None:
    """An empty cell takes workload.transport. Datagrams have a rate: workload.rate, else that of the host's link."""
    rows = ["", "udp", "tcp"]
    assert made(load(tmp_path, rows, dialect=dialect)) == [("tcp", 0), ("udp", 10**7), ("tcp", 0)]
    udp = load(tmp_path, rows, "workload.transport=udp", "workload.rate=1Mbit/s", dialect=dialect)
    assert made(udp) == [("udp", 10**6), ("udp", 10**6), ("tcp", 10**6)]
    assert made(load(tmp_path, rows, "workload.transport=udp", dialect=dialect)) == [("udp", 10**7), ("udp", 10**7), ("tcp", 0)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_transport_is_one_line_with_its_place(dialect: str, tmp_path: Path) -> None:
    message = r"flows\.csv:3: column 'transport': value 'sctp' is not one of tcp, udp, rdma"
    with pytest.raises(SpecError, match=message):
        load(tmp_path, ["", "sctp"], dialect=dialect)


def test_a_row_without_the_cell_that_the_header_has(tmp_path: Path) -> None:
    load(tmp_path, [""])
    (tmp_path / "flows.csv").write_text(f"{DIALECTS['plain'][0]},transport\nh1,h3,80,0,0,1000\n")
    with pytest.raises(SpecError, match=r"flows\.csv:2: .*6 .*7.*source,.*,transport"):
        spec.load(tmp_path / "spec.toml")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_row_names_its_dscp(dialect: str, tmp_path: Path) -> None:
    """The column may stand alone or behind that of the transport. An empty cell takes workload.dscp."""
    load(tmp_path, [""])
    header, row = DIALECTS[dialect]
    for column, cells in (("transport,dscp", (",46", "udp,", "tcp,0")), ("dscp", ("46", "", "0"))):
        rows = [f"{row.format(*ends)},{cell}" for ends, cell in zip(ENDS, cells, strict=True)]
        (tmp_path / "flows.csv").write_text("\n".join([f"{header},{column}", *rows]) + "\n")
        scenario = spec.load(tmp_path / "spec.toml", ["workload.dscp=8"])
        assert [flow.dscp for flow in scenario.flows(scenario.graph())] == [46, 8, 0]
    (tmp_path / "flows.csv").write_text(f"{header},dscp\n{row.format('h1', 'h3')},64\n")
    with pytest.raises(SpecError, match=r"flows\.csv:2: .*'dscp'.*'64'.*0\.\.63"):
        spec.load(tmp_path / "spec.toml")


NIC = ("topology.preset=dumbbell-1g", "controller.name=dcqcn")


def test_under_an_algorithm_of_the_nics_flows_are_rdma_unless_they_name_another(tmp_path: Path) -> None:
    for settings in ([], ["workload.transport=rdma"]):
        assert made(load(tmp_path, ["", "rdma"], *NIC, *settings)) == [("rdma", 0), ("rdma", 0)]
    beside = load(tmp_path, ["", "tcp", "udp"], *NIC, "controller.tcp=dctcp")
    assert made(beside) == [("rdma", 0), ("tcp", 0), ("udp", 10**9)]
    assert (beside.tcp_name, beside.tcp_ecn, beside.rdma) == ("dctcp", True, True)
    assert made(load(tmp_path, ["rdma", ""], *NIC, "controller.tcp=nv", "workload.transport=tcp")) == [("rdma", 0), ("tcp", 0)]
    assert made(load(tmp_path, ["", "udp"], *NIC)) == [("rdma", 0), ("udp", 10**9)], "UDP needs no TCP"
    capped = load(tmp_path, ["", "udp", "tcp"], *NIC, "nic.tcp=cubic")
    assert made(capped) == [("tcp", 0), ("udp", 10**9), ("tcp", 0)]


@pytest.mark.parametrize(
    ("transport", "overrides", "why"),
    [
        ("rdma", (), "needs an algorithm of the NICs, and controller.name is 'cubic'; give one such as dcqcn, or leave it out"),
        ("tcp", NIC, "needs controller.tcp beside 'dcqcn', which the NICs run; give one such as cubic, or leave it out"),
        ("rdma", (*NIC, "nic.tcp=cubic"), "cannot go with nic.tcp = 'cubic', whose flows are TCP; leave out one"),
    ],
)
def test_what_does_not_run_side_by_side(transport: str, overrides: tuple[str, ...], why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as excinfo:
        load(tmp_path, ["", transport], *overrides)
    assert f"flow 1, h2 to h4, over {transport}: {why}" in str(excinfo.value) and "\n" not in str(excinfo.value)


PLUG_IN = """
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds import register

register("mine", lambda context: [FlowRequest("h1", "h3", 80), FlowRequest("h2", "h4", 80, rate_bps=9, transport="{}")])
"""


@pytest.mark.usefixtures("registries")
def test_a_workload_names_the_transport_of_a_flow(tmp_path: Path) -> None:
    load(tmp_path, [""])
    overrides = ["workload.kind=mine", 'plugins=["mine.py"]']
    (tmp_path / "spec.toml").write_text(SPEC.replace('workload.file = "flows.csv"\n', ""))
    (tmp_path / "mine.py").write_text(PLUG_IN.format("udp"))
    assert made(spec.load(tmp_path / "spec.toml", overrides)) == [("tcp", 0), ("udp", 9)]


@pytest.mark.usefixtures("registries")
def test_a_workload_s_flow_over_rdma_without_nics(tmp_path: Path) -> None:
    load(tmp_path, [""])
    (tmp_path / "spec.toml").write_text(SPEC.replace('workload.file = "flows.csv"\n', ""))
    (tmp_path / "mine.py").write_text(PLUG_IN.format("rdma"))
    with pytest.raises(SpecError, match=r"flow 1, h2 to h4.*rdma.*algorithm"):
        spec.load(tmp_path / "spec.toml", ["workload.kind=mine", 'plugins=["mine.py"]'])


# --- workloads side by side

BESIDE = SPEC.replace("cubic", "dcqcn").replace("dumbbell-10m", "dumbbell-1g") + "controller.tcp = 'cubic'\n"


def side_by_side(folder: Path, entries: str, *overrides: str, main: str = "pairs") -> spec.Spec:
    """Returns a spec with `[workload]` of one kind and these entries beside it."""
    text = BESIDE.replace('"matrix"', f'"{main}"').replace('workload.file = "flows.csv"\n', "")
    (folder / "spec.toml").write_text(text + entries)
    return spec.load(folder / "spec.toml", overrides)


TCP_BESIDE = '[[workload.beside]]\nkind = "pairs"\ntransport = "tcp"\ndscp = 10\n'


def test_each_workload_has_its_own_transport_and_dscp(tmp_path: Path) -> None:
    scenario = side_by_side(tmp_path, TCP_BESIDE, "workload.dscp=26")
    flows = scenario.flows(scenario.graph())
    rows = [(flow.src, flow.transport, flow.dscp, flow.workload) for flow in flows]
    assert rows == [("h1", "rdma", 26, 0), ("h2", "rdma", 26, 0), ("h1", "tcp", 10, 1), ("h2", "tcp", 10, 1)]
    ccs = [flow.cc for flow in Experiment.of(scenario).schedule.flows]
    assert ccs == ["dcqcn", "dcqcn", "cubic", "cubic"]


def test_a_workload_is_the_same_with_and_without_another_beside_it(tmp_path: Path) -> None:
    """Two of one kind draw differently, gates stay apart, and the first keeps its flows."""
    keys = 'kind = "closed_loop"\ndistribution = "websearch"\n'
    beside = f"[[workload.beside]]\n{keys}transport = 'tcp'\n"
    overrides = ("workload.distribution=websearch", "time.duration=50ms")
    both = side_by_side(tmp_path, beside, *overrides, main="closed_loop")
    flows = both.flows(both.graph())
    first = [flow for flow in flows if flow.workload == 0]
    alone = replace(both, workload=replace(both.workload, beside=None), controller=replace(both.controller, tcp=None))
    assert first == alone.flows(alone.graph())
    second = [flow for flow in flows if flow.workload == 1]
    assert [flow.size_bytes for flow in second] != [flow.size_bytes for flow in first][: len(second)]
    gates = [{gate for flow in part for gate in (flow.gate, *flow.opens)} - {NO_GATE} for part in (first, second)]
    assert gates[0] and gates[1] and not gates[0] & gates[1]


def test_files_beside_are_copied_under_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0,0,9\n")
    entry = '[[workload.beside]]\nkind = "matrix"\nfile = "one.csv"\ntransport = "tcp"\n'
    scenario = side_by_side(tmp_path, entry)
    assert scenario.copies() == {"beside-0-matrix.csv": tmp_path / "one.csv"}
    assert scenario.to_dict(copied=True)["workload"]["beside"][0]["file"] == "beside-0-matrix.csv"
    assert spec.from_dict(scenario.to_dict(), tmp_path).to_json() == scenario.to_json()


@pytest.mark.parametrize(
    ("entries", "overrides", "words"),
    [
        (
            TCP_BESIDE,
            ("controller.name=dctcp",),
            'controller.tcp = "cubic": needs an algorithm of the NICs, and controller.name is',
        ),
        ("", (), 'controller.tcp = "cubic": has no effect: no flow goes over tcp; leave it out'),
        (TCP_BESIDE, ("workload.transport=tcp",), 'controller.name = "dcqcn": is run by the NICs, and no flow goes over rdma'),
        (TCP_BESIDE, ("controller.tcp=swift",), 'controller.tcp = "swift": unknown; one of: dctcp, nv, cubic'),
        (TCP_BESIDE, ("nic.tcp=cubic",), 'controller.tcp = "cubic": cannot go with nic.tcp'),
        (TCP_BESIDE, ("workload.dscp=64",), "workload.dscp = 64: is above 63; give that or less"),
        (TCP_BESIDE.replace("10", "-1"), (), "workload.beside[0].dscp = -1: is below 0; give that or more"),
        (TCP_BESIDE.replace('"tcp"', '"udp"'), (), "workload.beside[0].rate: is missing; transport"),
        (TCP_BESIDE.replace('"pairs"', '"incast"'), (), "workload.beside[0].size: is missing: kind 'incast' needs it"),
        (TCP_BESIDE + "speed = 3\n", (), "workload.beside[0].speed: unknown key"),
        (TCP_BESIDE + 'start = "2s"\n', (), 'workload.beside[0].start = "2s": is not before time.duration'),
        (TCP_BESIDE, ("controller.policy=max", "agent.interval=10ms"), "cannot go with agents that set hosts' ports"),
    ],
)
def test_what_is_wrong_beside_is_one_line(entries: str, overrides: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as excinfo:
        side_by_side(tmp_path, entries, *overrides)
    assert words in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_agents_may_set_switches_beside_both_transports(tmp_path: Path) -> None:
    agents = ("controller.policy=max", "agent.interval=10ms", "agent.actuators=marking")
    scenario = side_by_side(tmp_path, TCP_BESIDE, *agents)
    assert {rows.actuator.name for rows in scenario.actuated(scenario.graph())} == {"marking"}


@pytest.mark.parametrize(("tcp", "uses_ecn"), [("cubic", False), ("dctcp", True)])
def test_switches_mark_if_either_controller_reads_marks(tcp: str, uses_ecn: bool, tmp_path: Path) -> None:
    scenario = side_by_side(tmp_path, TCP_BESIDE, "controller.name=swift", f"controller.tcp={tcp}")
    marks = {port.queue.marking.kind for port in scenario.graph().switch_ports()} != {"none"}
    assert (marks, scenario.tcp_ecn) == (uses_ecn, uses_ecn)
    beside_dcqcn = side_by_side(tmp_path, TCP_BESIDE, f"controller.tcp={tcp}")
    assert {port.queue.marking.kind for port in beside_dcqcn.graph().switch_ports()} != {"none"}
    assert beside_dcqcn.tcp_ecn == uses_ecn


def test_results_of_earlier_versions_say_tcp_of_flows_over_rdma(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(BESIDE.replace("controller.tcp = 'cubic'\n", "").replace('"matrix"', '"pairs"'))
    plain = spec.read(tmp_path / "spec.toml") | {"name": "old"}
    plain["workload"] = {"kind": "pairs", "transport": "tcp"}
    assert spec.from_dict(plain, tmp_path).workload.transport == "rdma"
