# SPDX-License-Identifier: Apache-2.0
"""A flow may name its transport, in a matrix or in a workload. What cannot run side by side is one line before anything boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base.errors import SpecError

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


def made(each: spec.Spec) -> list[tuple[str | None, int]]:
    return [(flow.transport, flow.rate_bps) for flow in each.flows(each.graph())]


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
    told = r"flows\.csv:3: column 'transport': value 'sctp' is not one of tcp, udp, rdma"
    with pytest.raises(SpecError, match=told):
        load(tmp_path, ["", "sctp"], dialect=dialect)


def test_a_row_without_the_cell_that_the_header_has(tmp_path: Path) -> None:
    load(tmp_path, [""])
    (tmp_path / "flows.csv").write_text(f"{DIALECTS['plain'][0]},transport\nh1,h3,80,0,0,1000\n")
    with pytest.raises(SpecError, match=r"flows\.csv:2: it has 6 columns, not 7; write source,.*,transport"):
        spec.load(tmp_path / "spec.toml")


NIC = ("topology.preset=dumbbell-1g", "controller.name=dcqcn")


def test_under_an_algorithm_of_the_nics_all_flows_are_rdma(tmp_path: Path) -> None:
    for said in ([], ["workload.transport=tcp"], ["workload.transport=rdma"]):
        assert made(load(tmp_path, ["", "rdma"], *NIC, *said)) == [("rdma", 0), ("rdma", 0)]
    capped = load(tmp_path, ["", "udp", "tcp"], *NIC, "nic.tcp=cubic")
    assert made(capped) == [("tcp", 0), ("udp", 10**9), ("tcp", 0)]


@pytest.mark.parametrize(
    ("transport", "overrides", "why"),
    [
        ("rdma", (), "needs an algorithm of the NICs, and controller.name is 'cubic'; give one such as dcqcn, or leave its"),
        ("tcp", NIC, "the NICs run 'dcqcn' and send rdma alone; leave its transport out, or give controller.name a TCP"),
        ("udp", NIC, "the NICs run 'dcqcn' and send rdma alone; leave its transport out, or give controller.name a TCP"),
        ("rdma", (*NIC, "nic.tcp=cubic"), "the NICs cap TCP (nic.tcp = 'cubic'); leave its transport out, or leave out nic.tcp"),
    ],
)
def test_what_does_not_run_side_by_side(transport: str, overrides: tuple[str, ...], why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, ["", transport], *overrides)
    assert f"flow 1, h2 to h4, over {transport}: {why}" in str(caught.value) and "\n" not in str(caught.value)


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
    with pytest.raises(SpecError, match="flow 1, h2 to h4, over rdma: needs an algorithm of the NICs"):
        spec.load(tmp_path / "spec.toml", ["workload.kind=mine", 'plugins=["mine.py"]'])
