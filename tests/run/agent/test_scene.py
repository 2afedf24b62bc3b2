# SPDX-License-Identifier: Apache-2.0
"""Scenes, schedules and frames of the dumbbell, against what its spec says by hand."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.errors import AgentError
from dc_gym.base.key import KeyFault
from dc_gym.learn import session
from dc_gym.monitors.state_matrix import COLUMNS, FLOW
from dc_gym.run.agent import frame as frames
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.writer import _agent_plan
from tests.run.agent.made import CLASSES, DONE, MS, ROWS, RUNNING, STEP, cells, experiment, flows, frame, scene

ROOT = Path(__file__).resolve().parents[3]


def test_a_scene_is_what_the_spec_says():
    dumbbell, _ = scene()
    assert dumbbell.ports == tuple(ROWS)
    assert dumbbell.is_switch.tolist() == [True] * 6 + [False] * 4
    assert (dumbbell.rate_bps == 1e7).all() and (dumbbell.buffer_bytes == 400_000).all()
    assert dumbbell.hosts == dumbbell.all_hosts == ("h1", "h2", "h3", "h4")
    assert dumbbell.host_row.tolist() == [6, 7, 8, 9]
    assert dumbbell.senders.tolist() == [True, True, False, False]
    assert (dumbbell.floor_bps == 10_000).all() and (dumbbell.line_bps == 1e7).all()
    # three links of 10 us each way: a frame of 1514 bytes takes 1,211,200 ns, an ACK of 66 bytes 52,800 ns
    assert dumbbell.base_rtt_ns == 3 * (1_211_200 + 52_800 + 20_000)
    assert [dumbbell.ports[row] for row in dumbbell.peer_row[[2, 0, 6]]] == ["s2-eth3", "h1-eth0", "s1-eth1"]


def test_senders_alone_may_act():
    dumbbell, info = scene(hosts="senders")
    assert dumbbell.hosts == ("h1", "h2") and dumbbell.host_row.tolist() == [6, 7]
    assert info.host.tolist() == [0, 1]
    with pytest.raises(KeyFault, match=r"agent.hosts = \"sender\": unknown; did you mean senders?"):
        scene(hosts="sender")
    with pytest.raises(AgentError, match="no host sends a flow"):
        scene('workload.kind="none"', hosts="senders")


def test_a_host_with_several_ports_acts_at_each():
    network = Experiment.of(spec.of_preset("acc24"))
    agent_scene = Scene.of(network)
    assert len(agent_scene.hosts) == 2 * len(agent_scene.all_hosts)
    assert agent_scene.hosts[:2] == ("h1-eth0", "h1-eth1")
    assert (flow_info(network, agent_scene).host >= 0).all()


def test_the_floor_is_never_above_the_line():
    dumbbell = Scene.of(experiment('agent.floor="1Gbit/s"'))
    assert (dumbbell.floor_bps == 1e7).all()


# --- what agents set


def test_what_agents_set_by_actuator():
    """Items of one actuator stand together, whatever the order in agent.actuators; then each is in the order of that."""
    view, _ = scene(STEP, 'agent.actuators="s1-eth3:marking,rate,s1-eth1:marking"', 'agent.floor="2Mbit/s"')
    marks, rates = view.actuated
    assert [rows.actuator.name for rows in view.actuated] == ["marking", "rate"]
    assert marks.names == ("s1-eth3", "s1-eth1") and marks.rows.tolist() == [2, 0]
    assert rates.names == ("h1", "h2", "h3", "h4") and rates.rows.tolist() == [6, 7, 8, 9]
    assert (marks.place, rates.place, view.rates) == (slice(0, 6), slice(6, 10), slice(6, 10))
    assert marks.low.tolist() == [[1514, 1514, 10_000]] * 2 and marks.high.tolist() == [[400_000, 400_000, 1_000_000]] * 2
    assert (rates.low == 2e6).all() and (rates.high == 1e7).all()
    assert view.start.tolist() == [3028, 3028, 1_000_000] * 2 + [1e7] * 4
    assert marks.ordered == ((1, 0),) and rates.ordered == ()
    names = [f"{port}/{value}" for port in ("s1-eth3", "s1-eth1") for value in ("kmin", "kmax", "pmax")]
    assert view.value_names == (*names, "h1", "h2", "h3", "h4")
    assert view.columns_of_values[:4] == ("kmin_bytes_s1-eth3", "kmax_bytes_s1-eth3", "pmax_ppm_s1-eth3", "kmin_bytes_s1-eth1")
    assert view.columns_of_values[6:] == ("bps_h1", "bps_h2", "bps_h3", "bps_h4")


def test_classes_stand_behind_the_ports():
    dumbbell, _ = scene(STEP, CLASSES, 'agent.actuators="s1-eth3:rdma:marking,s1-eth1:marking,s2-eth1:*:marking"')
    assert dumbbell.ports == tuple(ROWS) and len(dumbbell.rows) == 3 * len(ROWS)
    assert dumbbell.rows[len(ROWS) :] == tuple(f"{port}:{kind}" for port in ROWS for kind in ("tcp", "rdma"))
    assert dumbbell.classes.kinds[:3] == ("tcp", "rdma", "tcp")
    assert [dumbbell.port_of(row) for row in (3, 10, 11, 12, 29)] == [3, 0, 0, 1, 9]
    assert dumbbell.classes.buffer_bytes[:2].tolist() == [400_000, 100_000]
    (marks,) = dumbbell.actuated
    assert marks.names == ("s1-eth3:rdma", "s1-eth1", "s2-eth1:tcp", "s2-eth1:rdma")
    assert [dumbbell.rows[row] for row in marks.rows] == list(marks.names)
    assert marks.start.tolist() == [[k, k, 10**6] for k in (20_000, 3028, 3028, 20_000)]
    assert marks.high[:, 1].tolist() == [100_000, 400_000, 400_000, 100_000]
    assert dumbbell.value_names[0] == "s1-eth3:rdma/kmin" and dumbbell.columns_of_values[0] == "kmin_bytes_s1-eth3:rdma"
    class_scene = dumbbell.of_classes
    assert class_scene is not None and class_scene.ports == dumbbell.classes.names and class_scene.of_classes is None
    assert class_scene.is_switch.tolist() == [True] * 12 + [False] * 8 and (class_scene.rate_bps == 1e7).all()


def test_hosts_that_send_nothing_set_nothing():
    dumbbell, _ = scene(STEP, 'agent.actuators="marking,rate"', hosts="senders")
    marks, rates = dumbbell.actuated
    assert rates.names == ("h1", "h2") and rates.place == dumbbell.rates == slice(18, 20)
    assert len(marks.names) == 6, "the switches' ports stay"
    with pytest.raises(AgentError) as excinfo:
        scene('agent.actuators="h3-*:rate"', hosts="senders")
    words = "agent.actuators: 'rate' is of no host that sends; give agent.hosts = \"all\", or other ports"
    assert str(excinfo.value) == words


def test_where_no_agent_sets_rates_the_floor_is_the_line():
    dumbbell, _ = scene(STEP, 'agent.actuators="marking"', 'agent.floor="2Mbit/s"')
    assert dumbbell.rates is None and (dumbbell.floor_bps == 1e7).all() and dumbbell.hosts == ("h1", "h2", "h3", "h4")


def test_a_scene_of_another_agent_than_the_experiment_s():
    network = experiment(STEP)
    assert Scene.of(network).value_names == ("h1", "h2", "h3", "h4")
    other = Scene.of(network, replace(network.spec.agent, actuators="s2-*:marking", hosts="senders", interval_ns=3 * MS))
    assert other.value_names[::3] == ("s2-eth1/kmin", "s2-eth2/kmin", "s2-eth3/kmin")
    assert other.hosts == ("h1", "h2") and other.step_ns == 3 * MS


def test_values_in_the_wrong_order_are_one_line():
    dumbbell, _ = scene(STEP, 'agent.actuators="rate,s1-eth1:marking,s1-eth3:marking"')
    values = dumbbell.start
    dumbbell.check(values)
    values[7:9] = 5000, 4999
    with pytest.raises(AgentError) as excinfo:
        dumbbell.check(values)
    assert str(excinfo.value) == "step: s1-eth3: kmax 4999 is below kmin 5000; give at least that"


# --- flows


def test_flow_info_is_what_the_schedule_says():
    dumbbell, info = scene('workload.size="1MB"', 'workload.rate="4Mbit/s"')
    names = [(dumbbell.all_hosts[src], dumbbell.all_hosts[dst]) for src, dst in zip(info.src, info.dst, strict=True)]
    assert names == [("h1", "h3"), ("h2", "h4")]
    assert info.size_bytes.tolist() == [1_000_000] * 2 and not info.is_udp.any()
    assert np.isnan(info.ideal_ns).all(), "a flow with a rate of its own has no ideal"
    assert [[dumbbell.ports[row] for row in rows] for rows in info.rows] == [
        ["h1-eth0", "s1-eth3", "s2-eth1"],
        ["h2-eth0", "s1-eth3", "s2-eth2"],
    ]
    assert info.base_rtt_ns.tolist() == [3_852_000] * 2
    assert info.demand_bps.tolist() == [4e6] * 2
    assert info.first_row.tolist() == [6, 7]
    assert info.switch_flows.tolist() == [0, 0, 1, 1] and info.switch_rows.tolist() == [2, 3, 2, 4]


def test_an_ideal_is_the_closed_form():
    _, info = scene('workload.size="1448B"')
    # handshake: 3 x 2 x (74 B = 59,200 ns + 10,000 ns); the ACK's 66 bytes; a full frame over three links and 30 us
    assert info.ideal_ns.tolist() == pytest.approx([6 * 69_200 + 52_800 + 3 * 1_211_200 + 30_000] * 2)
    _, unlimited = scene()
    assert np.isnan(unlimited.ideal_ns).all() and np.isinf(unlimited.demand_bps).all()


def test_a_gate_names_those_that_open_it():
    network = experiment(
        'workload.kind="partition_aggregate"', "workload.senders=2", 'workload.size="10kB"', 'workload.interval="100ms"'
    )
    info = flow_info(network, Scene.of(network))
    gated = [(flow.flow, flow.request.gate) for flow in network.schedule.flows if flow.request.gate >= 0]
    assert gated
    for flow, gate in gated:
        assert info.awaits[flow] and all(gate in network.schedule.flows[other].request.opens for other in info.awaits[flow])


def test_a_schedule_without_flows():
    dumbbell, info = scene('workload.kind="none"')
    assert len(info) == 0 and not dumbbell.senders.any() and frame(info).goodput_bps().shape == (0,)


def test_a_frame_tells_levels_and_changes():
    _, info = scene()
    now = frame(
        info,
        before=cells(tx_bytes={"s1-eth3": 5000}, backlog_bytes={"s1-eth3": 3000}),
        cells=cells(tx_bytes={"s1-eth3": 11_250}, backlog_bytes={"s1-eth3": 1000}),
        flows_before=flows({"received_bytes": 1000, "status": RUNNING}, {}),
        flows=flows({"received_bytes": 5000, "status": DONE}, {"status": RUNNING}),
    )
    assert now.column("backlog_bytes")[2] == 1000 and now.change("backlog_bytes")[2] == -2000
    assert now.utilization(np.full(10, 1e7))[2] == 0.5, "6250 of 12,500 bytes in 10 ms"
    assert now.goodput_bps().tolist() == [4000 * 8 / 0.01, 0]
    assert now.under_way.tolist() == [False, True]
    assert now.ended.tolist() == [True, False]
    assert now.at_work.tolist() == [True, True]


def test_the_first_frame_has_no_rates():
    _, info = scene()
    first = frame(info, step=0, t_ns=0, elapsed_ns=0)
    assert not first.utilization(np.full(10, 1e7)).any() and not first.goodput_bps().any()
    assert frame(info, elapsed_ns=3 * MS).elapsed_s == 0.003


def test_the_layouts_are_those_of_the_c_header(tmp_path):
    """Names, offsets and sizes of struct sm_flow, the order of columns and states."""
    header = (ROOT / "monitors" / "state_matrix.h").read_text()
    assert tuple(re.findall(r"\tX\(\w+, \"(\w+)\"\)", header)) == COLUMNS
    states = re.search(r"enum sm_flow_status \{([^}]*)\}", header)[1].replace("SM_FLOW_", "").split(",")
    assert [getattr(frames, name.strip()) for name in states] == list(range(5))
    prints = "".join(f'printf("{name} %zu\\n", offsetof(struct sm_flow, {name}));' for name in FLOW.names)
    source = f'#include "state_matrix.h"\n#include <stdio.h>\nint main(void) {{ {prints} return sizeof(struct sm_flow); }}'
    (tmp_path / "layout.c").write_text(source)
    subprocess.run(["cc", f"-I{ROOT / 'monitors'}", "-o", tmp_path / "layout", tmp_path / "layout.c"], check=True)
    child = subprocess.run([tmp_path / "layout"], capture_output=True, text=True)
    assert child.returncode == FLOW.itemsize == 64
    offsets = {name: FLOW.fields[name][1] for name in FLOW.names}
    assert dict(line.split() for line in child.stdout.splitlines()) == {name: str(at) for name, at in offsets.items()}


@pytest.mark.parametrize(
    ("overrides", "publish_ns"),
    [
        ((), 10 * MS),
        (("time.duration=1997ms",), MS),  # a prime: no less would have a look at the end
        (("time.duration=1995ms",), 7 * MS),
        (("agent.interval=20ms",), 20 * MS),
        (("agent.observe=thesis", "agent.reward=queue - drops"), 10 * MS),
        (("agent.observe=switch:backlog,srtt",), MS),
        (("agent.observe=full",), MS),
        (("agent.reward=thesis - 0.1*queueing_delay",), MS),
        (("agent.publish=3ms",), 3 * MS),
    ],
)
def test_flows_are_looked_at_as_often_as_somebody_needs(overrides, publish_ns, tmp_path):
    """In any case flows are read at the last step."""
    case = experiment("agent.interval=1ms", "agent.reward=thesis", "time.duration=2s", 'controller.policy="external"', *overrides)
    assert _agent_plan(case, 64, session.publish_ns(case.spec)).publish_ns == publish_ns
    assert _agent_plan(case, None, 0).publish_ns == (3 * MS if "agent.publish=3ms" in overrides else case.spec.agent.interval_ns)
