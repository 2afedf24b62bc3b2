# SPDX-License-Identifier: Apache-2.0
"""Events: what a spec may say, the plain data that follow, phases, figures; and, in a lab, exact times and counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dc_gym import spec
from dc_gym.base import record_file
from dc_gym.base.errors import SpecError
from dc_gym.base.progress import Quiet
from dc_gym.results.figures import events as event_marks
from dc_gym.results.figures import timeline
from dc_gym.results.results import Result
from dc_gym.run import runner
from dc_gym.run.plan import changes, inputs
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.result import event_log
from dc_gym.topologies.changes import Capacities, Change
from dc_gym.topologies.realize.rtnl import NLMSG_HDR

MS = 10**6
SPEC = """
controller.name = "{controller}"
topology.preset = "{preset}"
workload.kind = "pairs"
time.duration = "{duration}"
monitor.interval = "1ms"
metrics.slowdown = "off"
"""


def load(folder: Path, *tables: str, settings: tuple[str, ...] = (), **fields: str) -> spec.Spec:
    """Returns a spec with these entries of [[events]], written as the inside of inline tables."""
    values = {"controller": "dctcp", "preset": "dumbbell-1g", "duration": "100ms"} | fields
    events = ", ".join(f"{{ {table} }}" for table in tables)
    (folder / "spec.toml").write_text(SPEC.format(**values) + f"events = [{events}]\n")
    return spec.load(folder / "spec.toml", settings)


def run(folder: Path, name: str, *tables: str, settings: tuple[str, ...] = (), **fields: str) -> Result:
    folder.chmod(0o755)
    return runner.run(load(folder, *tables, settings=settings, **fields), folder / name, Quiet(), plot=False)


MIDDLE = 'link = ["s1", "s2"]'
DOWN = f'at = "30ms", {MIDDLE}, state = "down"'
UP = f'at = "50ms", {MIDDLE}, state = "up"'


# --- loading


def test_a_spec_without_events_is_written_as_before(tmp_path: Path) -> None:
    assert "events" not in load(tmp_path).to_dict()


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    tables = (
        DOWN,
        f'{UP}, rate = "500Mbit/s", loss = "1%"',
        'at = "60ms", port = "s1-*", kmin = "10p", kmax = 60000, pmax = "20%"',
    )
    scenario = load(tmp_path, *tables, 'at = "70ms", workload = { rate = "1Mbit/s" }')
    plain = scenario.to_dict()
    assert plain["events"][1] == {"at": "50ms", "link": ["s1", "s2"], "state": "up", "rate": "500Mbit/s", "loss": "1%"}
    assert plain["events"][3] == {"at": "70ms", "workload": {"rate": "1Mbit/s"}}
    assert spec.from_dict(plain, tmp_path) == scenario


BAD = {
    'at = "-1ms", link = ["s1", "s2"], state = "down"': "events[0].at",
    'at = "100ms", link = ["s1", "s2"], state = "down"': 'events[0].at = "100ms": is not before time.duration',
    'link = ["s1", "s2"], state = "down"': "events[0].at: is missing",
    'at = "1ms"': "events[0]: names nothing that changes; give one of: link, port, workload",
    'at = "1ms", link = ["s1", "s2"]': "events[0]: changes nothing; give one of: state, rate, delay, loss",
    'at = "1ms", link = ["s1", "s2"], port = "s1-eth3", state = "down"': "events[0]: names link and port",
    'at = "1ms", link = ["s1", "s3"], state = "down"': "the network has no node 's3'",
    'at = "1ms", link = ["h1", "h2"], state = "down"': "the network has no link between them",
    'at = "1ms", link = ["s1-eth9"], state = "down"': "the network has no port 's1-eth9'",
    'at = "1ms", link = ["s1-eth3", "s2-eth1"], state = "down"': "the network has no link between them",
    'at = "1ms", link = [], state = "down"': "is not two nodes, or one or two ports",
    'at = "1ms", link = ["s1", "s2"], state = "broken"': 'events[0].state = "broken": unknown',
    'at = "1ms", link = ["s1", "s2"], state = "up"': "the link s1-eth3--s2-eth3 is up already",
    'at = "1ms", link = ["s1", "s2"], rate = "0Mbit/s"': "events[0].rate",
    'at = "1ms", link = ["s1", "s2"], kmin = 3000': "events[0].kmin = 3000: is nothing that a link has",
    'at = "1ms", link = ["s1", "s2"], speed = "1Mbit/s"': "events[0].speed: unknown key",
    'at = "1ms", port = "s1-eth3", state = "up"': "the link of s1-eth3 is up already",
    'at = "1ms", port = "s1-eth3"': "events[0]: changes nothing; give one of: state, rate, delay, loss, kmin, kmax, pmax, buffer",
    'at = "1ms", port = "h1-eth0", rate = "1Mbit/s", buffer = "40kB"': "only switch ports change their queues",
    'at = "1ms", port = "s9-*", buffer = "40kB"': "the network has no port 's9-*'",
    'at = "1ms", port = "h1-eth0", buffer = "40kB"': "only switch ports change their queues",
    'at = "1ms", port = "s1-eth3", kmin = 9000, kmax = 6000': "events[0].kmin = 9000: is above the kmax of s1-eth3, 6000 bytes",
    'at = "1ms", port = "s1-eth3", kmax = "5MB"': "the buffer of s1-eth3 is then 4000000 bytes, below its kmax of 5000000",
    'at = "1ms", port = "s1-eth3", buffer = "1kB"': "give room for a frame",
    'at = "1ms", workload = { load = 0.5 }': "events[0].workload.load = 0.5: has no effect",
    'at = "1ms", workload = { kind = "pears" }': "events[0].workload.kind",
    'at = "0ns", workload = { rate = "1Mbit/s" }': "events[0].at",
    'at = "1ms", workload = { exec = [] }': "events[0].workload.exec: cannot change while the run goes on",
    'at = "1ms", workload = { kind = "repeat", size = "10kB" }, link = ["s1", "s2"]': "events[0]: names link and workload",
}


@pytest.mark.parametrize("table", BAD)
def test_a_bad_event_is_one_line(tmp_path: Path, table: str) -> None:
    with pytest.raises(SpecError) as error:
        load(tmp_path, table)
    message = str(error.value)
    assert BAD[table] in message and "\n" not in message and message.startswith(str(tmp_path))


def test_what_a_ground_or_a_nic_cannot_do_is_refused(tmp_path: Path) -> None:
    slower = f'at = "1ms", {MIDDLE}, rate = "1Mbit/s"'
    with pytest.raises(SpecError, match=r'ground "host".*ground = "lab"'):
        load(tmp_path, DOWN, settings=("ground=host",))
    with pytest.raises(SpecError, match="can change while it works"):
        load(tmp_path, 'at = "1ms", port = "s1-eth3", buffer = "40kB"', settings=("topology.qdisc=stock",))
    with pytest.raises(SpecError, match=r"events\[0\].rate: the NIC at .* sends at its line rate"):
        load(tmp_path, 'at = "1ms", link = ["h1", "s1"], rate = "1Mbit/s"', controller="dcqcn")
    with pytest.raises(SpecError, match="have 9 rates"):
        load(tmp_path, *(f'at = "{n}ms", {MIDDLE}, rate = "{n}Mbit/s"' for n in range(1, 9)), controller="hpcc")
    assert load(tmp_path, slower, 'at = "1ms", port = "s1-eth1", rate = "1Mbit/s"', controller="hpcc").events
    assert load(tmp_path, slower, controller="dcqcn").events


def test_later_kinds_whose_flows_wait_cannot_be_followed(tmp_path: Path) -> None:
    settings = ("workload.kind=repeat", "workload.size=10kB")
    with pytest.raises(SpecError, match=r"wait for one another.*workload cannot change"):
        load(tmp_path, 'at = "50ms", workload = { size = "20kB" }', settings=settings)


# --- plain data


def test_a_link_s_change_is_one_at_each_end_in_the_order_of_time(tmp_path: Path) -> None:
    scenario = load(tmp_path, UP, DOWN)
    port_changes = scenario.changes(scenario.graph())
    assert [(change.at_ns, change.event, change.port, change.values) for change in port_changes] == [
        (at_ms * MS, event, port, (("cut", cut),))
        for at_ms, event, cut in ((30, 1, 1), (50, 0, 0))
        for port in ("s1-eth3", "s2-eth3")
    ]


def test_two_nodes_name_all_parallel_links_and_a_port_one(tmp_path: Path) -> None:
    scenario = load(tmp_path, 'at = "1ms", link = ["s1", "s5"], state = "down"', preset="rlcc64")
    graph = scenario.graph()
    assert len(scenario.changes(graph)) == 8
    one = scenario.changes(graph)[0].port
    only = replace(scenario, events=(replace(scenario.events[0], link=(one,)),)).changes(graph)
    assert {change.port for change in only} == {one, graph.peer(one).ifname}


def test_a_port_s_change_is_one_direction_of_its_link(tmp_path: Path) -> None:
    port = 'port = "s1-eth3"'
    setup = load(tmp_path, f'at = "2ms", {port}, rate = "100Mbit/s", buffer = "40kB"', f'at = "1ms", {port}, state = "down"', UP)
    port_changes = setup.changes(setup.graph())
    assert [(change.port, change.values) for change in port_changes] == [
        *(("s1-eth3", ((name, value),)) for name, value in (("cut", 1), ("rate_bps", 10**8), ("limit_bytes", 40_000))),
        *((port, (("cut", 0),)) for port in ("s1-eth3", "s2-eth3")),
    ]
    assert Capacities(setup.graph(), port_changes).at(3 * MS)[2:6] == [0, 10**9, 10**9, 10**9]


def test_a_host_s_port_changes_what_the_host_sends(tmp_path: Path) -> None:
    scenario = load(tmp_path, 'at = "1ms", port = "h1-*", rate = "5Mbit/s", loss = "1%"')
    assert [(change.port, change.values) for change in scenario.changes(scenario.graph())] == [
        ("h1-eth0", (("rate_bps", 5 * 10**6), ("loss_ppb", 10**7)))
    ]


def test_telemetry_names_the_rate_in_force(tmp_path: Path) -> None:
    scenario = load(
        tmp_path, f'at = "1ms", {MIDDLE}, rate = "400Mbit/s"', 'at = "2ms", port = "s1-eth3", delay = "1us"', controller="hpcc"
    )
    port_changes = scenario.changes(scenario.graph())
    assert [(change.port, change.values[0]) for change in port_changes] == [
        (port, (name, 4 * 10**8)) for port in ("s1-eth3", "s2-eth3") for name in ("rate_bps", "telemetry_bps")
    ] + [("s1-eth3", ("delay_ns", 1000))]


def test_a_slowed_down_network_scales_the_changes(tmp_path: Path) -> None:
    scenario = load(tmp_path, f'at = "1ms", {MIDDLE}, rate = "100Mbit/s", delay = "5us"', settings=("topology.scale=10",))
    assert scenario.changes(scenario.graph())[0].values == (("rate_bps", 10**7), ("delay_ns", 50_000))


def test_a_marking_keeps_what_an_event_does_not_give(tmp_path: Path) -> None:
    plan = load(tmp_path, 'at = "2ms", port = "s1-eth3", pmax = "10%"', 'at = "1ms", port = "s1-eth3", kmin = "5p", kmax = "50p"')
    markings = [dict(change.values) for change in plan.changes(plan.graph())]
    slope = {"kmin_bytes": 5 * 1514, "kmax_bytes": 50 * 1514}
    assert markings == [slope | {"pmax_ppm": 10**6}, slope | {"pmax_ppm": 10**5}]


def test_capacities_follow_rates_and_cuts(tmp_path: Path) -> None:
    scenario = load(tmp_path, f'at = "10ms", {MIDDLE}, rate = "100Mbit/s"', DOWN, UP)
    graph = scenario.graph()
    capacities, row = Capacities(graph, scenario.changes(graph)), [port.ifname for port in graph.ports()].index("s1-eth3")
    at = [capacities.at(t_ns)[row] for t_ns in (0, 10 * MS - 1, 10 * MS, 30 * MS - 1, 30 * MS, 50 * MS - 1, 50 * MS)]
    assert at == [10**9, 10**9, 10**8, 10**8, 0, 0, 10**8]


def test_the_events_file_has_whole_requests(tmp_path: Path) -> None:
    experiment = Experiment.of(load(tmp_path, DOWN, 'at = "60ms", port = "s1-*", buffer = "40kB"'))
    rows, data = (table.records for table in changes.tables(experiment.changes, experiment.graph))
    message = data.tobytes()
    assert rows["at_ns"].tolist() == [change.at_ns for change in experiment.changes] and len(rows) == 2 + 3
    for row in rows:
        for name in ("set", "get"):
            length, _, flags, _, _ = NLMSG_HDR.unpack_from(message, row[f"{name}_start"])
            assert length == row[f"{name}_len"] and flags & 1
    assert sum(rows["set_len"]) + sum(rows["get_len"]) == len(message)


# --- routing that reacts


def leafspine(folder: Path, *tables: str, settings: tuple[str, ...] = ()) -> spec.Spec:
    """Returns a spec of a network in which each leaf (s1, s2) has one link to each spine (s3, s4)."""
    network = 'kind = "leafspine", leaves = 2, hosts_per_leaf = 2, spines = 2, rate = "1Gbit/s", delay = "1us"'
    (folder / "leafspine.toml").write_text(
        f'topology = {{ {network}, buffer = "400kB", k_bytes = 30000 }}\n'
        'controller = { name = "dctcp", rto_min = "2ms" }\nworkload = { kind = "pairs" }\n'
        'time = { duration = "40ms" }\nmonitor = { interval = "1ms" }\nmetrics = { slowdown = "off" }\n'
        f"events = [{', '.join(f'{{ {table} }}' for table in tables)}]\n"
    )
    return spec.load(folder / "leafspine.toml", settings)


SPINE = 'link = ["s1", "s4"]'
SPINE_DOWN, SPINE_UP = f'at = "10ms", {SPINE}, state = "down"', f'at = "20ms", {SPINE}, state = "up"'


@pytest.mark.parametrize(
    ("table", "settings", "why"),
    [
        (f'at = "1ms", {SPINE}, rate = "1Mbit/s", reroute = "1ms"', (), "reacts to a state"),
        (f'{SPINE_DOWN}, reroute = "30ms"', (), "ends after time.duration"),
        (f'{SPINE_DOWN}, reroute = "1ms"', ("controller.policy=max",), "cannot go with a controller.policy"),
        (f'{SPINE_DOWN}, reroute = "1ms"', ('workload.exec=[{host="h1", command="true"}]',), "cannot go with programs"),
    ],
)
def test_what_routing_cannot_react_to_is_refused(tmp_path: Path, table: str, settings: tuple[str, ...], why: str) -> None:
    with pytest.raises(SpecError, match=rf"events\[0\]\.reroute = \"[0-9]+ms\": {why}"):
        leafspine(tmp_path, table, settings=settings)


def test_a_reaction_leads_every_packet_to_its_host_and_none_into_the_cut(tmp_path: Path) -> None:
    experiment = Experiment.of(leafspine(tmp_path, f'{SPINE_DOWN}, reroute = "1ms"', f'{SPINE_UP}, reroute = "2ms"'))
    down, up = experiment.reactions
    assert (down.at_ns, down.event, up.at_ns, up.event) == (11 * MS, 0, 22 * MS, 1)
    graph = experiment.graph
    address = {nic.address: host.name for host in graph.hosts for nic in host.nics}
    cut = {graph.cable_of("s4-eth1").a.ifname, graph.cable_of("s4-eth1").b.ifname}
    for reaction, forbidden in ((down, cut), (up, set())):
        table = {(entry.switch, entry.destination): entry.hops for entry in reaction.entries}
        for entry in reaction.entries:
            todo = [(entry.switch, hop, 0) for hop in entry.hops]
            while todo:  # every way that a group may choose
                switch, hop, hops = todo.pop()
                out = f"{switch}-eth{hop}"
                assert out not in forbidden and hops < 6
                if (there := graph.peer(out).node) in address.values():
                    assert there == address[entry.destination]
                else:
                    todo += [(there, port_number, hops + 1) for port_number in table[there, entry.destination]]


def test_a_host_that_is_cut_off_keeps_its_routes(tmp_path: Path) -> None:
    down = f'at = "10ms", {MIDDLE}, state = "down", reroute = "1ms"'
    experiment = Experiment.of(load(tmp_path, down))
    assert {(entry.switch, entry.hops) for entry in experiment.reactions[0].entries} >= {("s1", (3,)), ("s2", (3,))}


# --- what is told afterwards


def done(folder: Path, *records: tuple[int, ...]) -> Path:
    """Writes what eventd would, without answers."""
    names = inputs.EVENT_DONE.dtype.names or ()
    table = inputs.EVENT_DONE.table(dict(zip(names, record, strict=True)) for record in records)
    record_file.write(folder / "done", table, inputs.REQUEST_BYTE.table([]))
    return folder / "done"


def test_late_refused_and_lost_changes_make_a_run_unfit(tmp_path: Path) -> None:
    experiment = Experiment.of(load(tmp_path, DOWN))
    rows = event_log.rows(experiment, done(tmp_path, (30 * MS + 7, 0, 0, 0, 0), (30 * MS + 7, 1, -22, 0, 0)))
    assert rows[0]["error"] == "Invalid argument" and rows[0]["t_ns"] == 30 * MS + 7
    faults = event_log.faults(rows)
    assert faults[0] == "event 0 (s1--s2 down): Invalid argument"
    assert "event 0 (s1--s2 down): s2-eth3: asked for cut 1, read back None" in faults
    late = [{"event": 0, "label": "x", "at_ns": 5, "t_ns": 8, "ports": {"p": {"cut": [1, 1]}}}]
    assert event_log.faults(late) == ["event 0 (x): happened at 8ns instead of 5ns"]
    assert event_log.faults([late[0] | {"t_ns": 5}]) == []


# --- phases of the workload


def flows_of(folder: Path, *tables: str, settings: tuple[str, ...] = ()) -> list[Any]:
    scenario = load(folder, *tables, settings=settings)
    return scenario.flows(scenario.graph())


POISSON = ("workload.kind=poisson", "workload.distribution=websearch", "workload.load=0.3", "time.duration=1s")


def test_a_phase_leaves_the_flows_before_it_and_makes_those_after_it(tmp_path: Path) -> None:
    before = flows_of(tmp_path, settings=POISSON)
    changed = flows_of(tmp_path, 'at = "500ms", workload = { size = "10kB", load = 0.1 }', settings=POISSON)
    early = [flow for flow in changed if flow.start_ns < 500 * MS]
    late = [flow for flow in changed if flow.start_ns >= 500 * MS]
    assert early == [flow for flow in before if flow.start_ns < 500 * MS]
    assert {flow.size_bytes for flow in late} == {10_000}
    offered_bps = sum(flow.size_bytes for flow in late) * 8 / 0.5
    assert offered_bps == pytest.approx(0.1 * 4 * 10**9, rel=0.1)


def test_flows_without_a_size_end_with_their_phase(tmp_path: Path) -> None:
    flows = flows_of(tmp_path, 'at = "40ms", workload = { rate = "1Mbit/s" }')
    assert [(flow.start_ns, flow.stop_ns, flow.rate_bps) for flow in flows] == [
        *[(0, 40 * MS, 0)] * 2,
        *[(40 * MS, 100 * MS, 10**6)] * 2,
    ]


def test_a_phase_with_a_kind_is_a_section_of_its_own(tmp_path: Path) -> None:
    flows = flows_of(tmp_path, 'at = "40ms", workload = { kind = "many_to_one" }', settings=("workload.rate=1Mbit/s",))
    assert {flow.dst for flow in flows if flow.start_ns >= 40 * MS} == {"h4"}
    assert {flow.rate_bps for flow in flows if flow.start_ns >= 40 * MS} == {0}


def test_the_notes_tell_of_each_phase(tmp_path: Path) -> None:
    scenario = load(tmp_path, 'at = "500ms", workload = { distribution = "datamining" }', settings=POISSON)
    notes = Experiment.of(scenario).notes
    assert [phase["at_ns"] for phase in notes["phases"]] == [0, 500 * MS]
    assert notes["phases"][0]["mean_size_bytes"] == notes["mean_size_bytes"] != notes["phases"][1]["mean_size_bytes"]


# --- figures


def test_events_of_one_time_share_a_mark() -> None:
    rows = [{"t_ns": at * MS, "label": label} for at, label in ((5, "b"), (1, "a"), (5, "c"))]
    marks = event_marks.marks_of({"events": rows})
    assert [(mark.at_s, mark.label) for mark in marks] == [(0.001, "a"), (0.005, "b; c")]
    assert event_marks.marks_of({}) == ()


# --- in a lab


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def cut(shared: Path, lab_kernel: Path) -> Result:
    return run(shared, "cut", DOWN, UP, settings=("controller.rto_min=5ms",))


def received(result: Result, begin_ms: int, end_ms: int) -> int:
    """Returns the payload that receivers read in that time."""
    tcp = result.records("tcp")
    at = [tcp[tcp["t_ns"] == t_ms * MS]["bytes_received"].astype(np.int64).sum() for t_ms in (begin_ms, end_ms)]
    return int(at[1] - at[0])


@pytest.mark.lab
def test_a_cut_is_made_at_its_time_and_read_back(cut: Result) -> None:
    assert cut.fit, cut.faults
    rows = cut.manifest["events"]
    assert [(row["t_ns"], row["at_ns"]) for row in rows] == [(30 * MS, 30 * MS), (50 * MS, 50 * MS)]
    assert rows[0]["ports"] == {"s1-eth3": {"cut": [1, 1]}, "s2-eth3": {"cut": [1, 1]}}
    assert spec.from_dict(cut.manifest["spec"], cut.path).events[0].label == "s1--s2 down"


@pytest.mark.lab
def test_what_a_cut_loses_is_counted_and_tcp_recovers(cut: Result) -> None:
    account = cut.manifest["conservation"]
    parts = ("received_by_hosts", "dropped_by_switches", "under_way", "lost_on_links", "lost_in_cuts", "lost_elsewhere")
    assert account["sent_by_hosts"] == sum(account[name] for name in parts)
    assert account["lost_in_cuts"] > 0 and account["lost_on_links"] == account["lost_elsewhere"] == 0
    assert received(cut, 10, 30) > 0 and received(cut, 32, 50) == 0 and received(cut, 80, 99) > 0


@pytest.mark.lab
def test_a_run_with_events_repeats_to_the_bit(cut: Result, shared: Path) -> None:
    again = run(shared, "again", DOWN, UP, settings=("controller.rto_min=5ms",))
    assert again.digest == cut.digest
    assert run(shared, "without", settings=("controller.rto_min=5ms",)).digest != cut.digest


@pytest.mark.lab
def test_a_rate_holds_from_the_next_frame_on(shared: Path, lab_kernel: Path) -> None:
    """The bottleneck is busy all the time: what it sends in a time is rate x time, to within one frame at either end."""
    result = run(shared, "rate", f'at = "40ms", {MIDDLE}, rate = "250Mbit/s"')
    assert result.fit, result.faults
    queues, port = result.records("queues"), result.names.port.index("s1-eth3")
    samples = queues[queues["port"] == port]
    sent = dict(zip((samples["t_ns"] // MS).tolist(), samples["tx_bytes"].astype(np.int64).tolist(), strict=True))
    assert abs((sent[40] - sent[20]) - 10**9 // 8 * 20 // 1000) <= 1514
    assert abs((sent[90] - sent[40]) - 25 * 10**7 // 8 * 50 // 1000) <= 2 * 1514


@pytest.mark.lab
def test_delay_loss_marking_and_buffer_change_and_come_back(shared: Path, lab_kernel: Path) -> None:
    tables = (
        f'at = "20ms", {MIDDLE}, delay = "1ms", loss = "1%"',
        f'at = "50ms", {MIDDLE}, delay = "10us", loss = 0',
        'at = "60ms", port = "s1-eth3", kmin = "5p", kmax = "60p", pmax = "10%", buffer = "200kB"',
    )
    result = run(shared, "all", *tables)
    assert result.fit, result.faults
    readings = [row["ports"]["s1-eth3"] for row in result.manifest["events"]]
    assert readings[0] == {"delay_ns": [MS, MS], "loss_ppb": [10**7, 10**7]}
    assert readings[1] == {"delay_ns": [10_000, 10_000], "loss_ppb": [0, 0]}
    slope = {"kmin_bytes": [5 * 1514] * 2, "kmax_bytes": [60 * 1514] * 2, "pmax_ppm": [10**5] * 2}
    assert readings[2] == {"limit_bytes": [200_000, 200_000], **slope}
    assert result.manifest["conservation"]["lost_on_links"] > 0
    tcp = result.records("tcp")
    assert tcp[tcp["t_ns"] == 45 * MS]["srtt_us"].min() > 2000 > tcp[tcp["t_ns"] == 95 * MS]["srtt_us"].max()


@pytest.mark.lab
def test_a_port_changes_one_direction(shared: Path, lab_kernel: Path) -> None:
    """Data crosses s1-eth3, and ACKs s2-eth3, whose frames are lost later. The other direction loses nothing."""
    tables = ('at = "40ms", port = "s1-eth3", rate = "250Mbit/s"', 'at = "60ms", port = "s2-eth3", loss = "10%"')
    result = run(shared, "one-way", *tables)
    assert result.fit, result.faults
    assert [row["ports"] for row in result.manifest["events"]] == [
        {"s1-eth3": {"rate_bps": [25 * 10**7] * 2}},
        {"s2-eth3": {"loss_ppb": [10**8] * 2}},
    ]
    table = pq.read_table(result.path / "port_metrics.parquet").to_pylist()
    lost = {row["port"]: row["lost"] for row in table}
    assert lost["s2-eth3"] > 0 == lost["s1-eth3"]
    assert result.manifest["conservation"]["lost_on_links"] == lost["s2-eth3"]


@pytest.mark.lab
def test_telemetry_follows_a_rate(shared: Path, lab_kernel: Path) -> None:
    """HPCC fills 95 % of the line that it is told of: were records still of 1 Gbit/s, it would overrun the slower one."""
    result = run(shared, "hpcc", f'at = "40ms", {MIDDLE}, rate = "250Mbit/s"', controller="hpcc")
    assert result.fit, result.faults
    assert result.manifest["events"][0]["ports"]["s1-eth3"] == {"rate_bps": [25 * 10**7] * 2, "telemetry_bps": [25 * 10**7] * 2}
    queues, port = result.records("queues"), result.names.port.index("s1-eth3")
    samples = queues[(queues["port"] == port) & (queues["t_ns"] >= 60 * MS)]
    sent = int(samples["tx_bytes"][-1]) - int(samples["tx_bytes"][0])
    line = 25 * 10**7 // 8 * int(samples["t_ns"][-1] - samples["t_ns"][0]) // 10**9
    assert 0.8 * line < sent < 0.97 * line and samples["backlog_bytes"].max() < 20 * 1514


@pytest.mark.lab
def test_routing_reacts_at_its_time_and_every_frame_is_accounted_for(shared: Path, lab_kernel: Path) -> None:
    shared.chmod(0o755)
    scenario = leafspine(shared, f'{SPINE_DOWN}, reroute = "2ms"', f'{SPINE_UP}, reroute = "2ms"')
    one, other = (runner.run(scenario, shared / name, Quiet(), plot=False) for name in ("reroute", "reroute-again"))
    assert one.fit, one.faults
    assert one.digest == other.digest
    rows = one.manifest["events"]
    assert [row["rerouted_ns"] for row in rows] == [12 * MS, 22 * MS]
    queues, ports = one.records("queues"), one.names.port

    def sent(port: str, begin_ms: int, end_ms: int) -> int:
        samples = queues[queues["port"] == ports.index(port)]
        at = [int(samples[samples["t_ns"] == t_ms * MS]["tx_bytes"][0]) for t_ms in (begin_ms, end_ms)]
        return at[1] - at[0]

    assert sent("s1-eth4", 0, 10) > 0 == sent("s1-eth4", 13, 20)
    assert sent("s1-eth3", 14, 20) > 500_000
    assert sent("s1-eth4", 24, 40) > 0


@pytest.mark.lab
def test_the_plot_marks_events(cut: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(timeline.kit, "save", lambda figure, path, **_: drawn.append(figure) or path)
    timeline.plot_result(cut)
    for ax in drawn[0].axes[:2]:
        lines = [line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2]
        assert {30.0, 50.0} <= set(lines)
    texts = [text.get_text() for text in drawn[0].axes[0].texts]
    assert "s1--s2 down" in texts and "s1--s2 up" in texts


def test_changes_are_plain() -> None:
    change = Change(5, 0, "s1-eth1", (("cut", 1),))
    assert not change.of_queue and json.dumps(change.values) == '[["cut", 1]]'
