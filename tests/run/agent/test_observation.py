# SPDX-License-Identifier: Apache-2.0
"""Every feature by hand, what may be asked for, history and unflatten."""

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base import usercode
from dc_gym.base.errors import AgentError
from dc_gym.run.agent import observation
from dc_gym.run.agent.frame import NO_CELLS
from dc_gym.run.agent.metrics import metrics
from dc_gym.run.agent.observation import Observer, register
from dc_gym.run.agent.reward import rewards
from tests.run.agent.made import CLASSES, MS, ROWS, RUNNING, STEP, cells, class_cells, flows, frame, random_frame, scene

LINE_BYTES = 12_500  # 10 ms at 10 Mbit/s
CABLES = {"s1-eth1": "h1-eth0", "s1-eth2": "h2-eth0", "s1-eth3": "s2-eth3", "s2-eth1": "h3-eth0", "s2-eth2": "h4-eth0"}


def seen(feature, of, **changes):
    """Returns one feature's value at one port or host; its values at all others must be `rest` (default 0)."""
    dumbbell, info = scene()
    rest = changes.pop("rest", 0)
    observer = Observer(dumbbell, feature)
    values = dict(zip(observer.names, observer.observe(frame(info, **changes)).tolist(), strict=True))
    value = values.pop(f"{of}/{feature}")
    assert set(values.values()) == {rest}
    return value


def port(**columns):
    """Returns the cells before and after the step; s1-eth3 alone has counters."""
    return {
        "before": cells(**{name: {"s1-eth3": was} for name, (was, _) in columns.items()}),
        "cells": cells(**{name: {"s1-eth3": now} for name, (_, now) in columns.items()}),
    }


@pytest.mark.parametrize(
    ("feature", "columns", "value"),
    [
        ("backlog", {"backlog_bytes": (0, 100_000)}, 0.25),
        ("backlog_change", {"backlog_bytes": (100_000, 300_000)}, 0.5),
        ("backlog_change", {"backlog_bytes": (400_000, 0)}, -1),
        ("marks", {"marks": (7, 9)}, 2 * 1514 / LINE_BYTES),
        ("marks", {"marks": (0, 1000)}, 4),
        ("drops", {"drops": (5, 6)}, 1514 / LINE_BYTES),
        ("utilization", {"tx_bytes": (1000, 1000 + 6250)}, 0.5),
        ("tx_rate", {"tx_bytes": (0, 12_500)}, 1),
        ("active_flows", {"active_flows": (0, 3)}, 0.75),
    ],
)
def test_features_of_ports(feature, columns, value):
    assert seen(feature, "s1-eth3", **port(**columns)) == pytest.approx(value)


def test_what_a_port_receives_is_what_its_peer_sends():
    for one, other in CABLES.items():
        for sends, receives in ((one, other), (other, one)):
            assert seen("rx_rate", receives, cells=cells(tx_bytes={sends: 3125})) == 0.25


def test_rates_are_of_the_fastest_line():
    view, info = scene('topology.bottleneck_rate="5Mbit/s"')
    now = frame(info, cells=cells(tx_bytes={"s1-eth3": 6250, "h1-eth0": 6250}))
    values = {
        name: Observer(view, name).unflatten(Observer(view, name).observe(now))[name] for name in ("tx_rate", "utilization")
    }
    assert [values["tx_rate"][ROWS[port]] for port in ("s1-eth3", "h1-eth0")] == [0.5, 0.5]
    assert [values["utilization"][ROWS[port]] for port in ("s1-eth3", "h1-eth0")] == [1, 0.5]


def test_a_step_shorter_than_a_frame_is_counted_in_frames():
    """1 ms at 10 Mbit/s are 1250 bytes: a frame that left is 1, not 1.21."""
    assert seen("utilization", "s1-eth3", elapsed_ns=MS, **port(tx_bytes=(0, 1514))) == 1


HOST = {"received_bytes": 1000, "retransmits": 5, "status": RUNNING}
ONE = {"srtt_us": 7704, "min_rtt_us": 3852, "cwnd_packets": 10, "status": RUNNING}


@pytest.mark.parametrize(
    ("feature", "was", "now", "value"),
    [
        ("srtt", {}, ONE, 1),  # twice the base round trip of 3852 us
        ("srtt", {}, ONE | {"srtt_us": 3000}, 0),
        ("srtt", {}, ONE | {"srtt_us": 10**6}, 100),
        ("srtt", {}, ONE | {"status": 2}, 0),
        ("rtt_min", {}, ONE | {"min_rtt_us": 5778}, 0.5),
        ("cwnd", {}, ONE, 15_140 / (1e7 * 3_852_000 / 8e9)),
        ("retransmits", HOST, HOST | {"retransmits": 7}, 2 * 1514 / LINE_BYTES),
        ("goodput", HOST, HOST | {"received_bytes": 1000 + 7240}, 5 * 1514 / LINE_BYTES),  # five segments of 1448
    ],
)
def test_features_of_hosts(feature, was, now, value):
    feature_value = seen(feature, "h2", flows_before=flows({}, was), flows=flows({}, now))
    assert feature_value == pytest.approx(value)


def test_round_trips_are_means_over_flows_that_have_one():
    dumbbell, info = scene('workload.kind="all_to_all"')
    rows = [ONE if (src, status) == (0, 0) else {} for src, status in zip(info.src, range(len(info)), strict=True)]
    of_h1 = [index for index, src in enumerate(info.src) if src == 0]
    for index, srtt_us in zip(of_h1, (0, 2, 4), strict=True):
        base_us = info.base_rtt_ns[index] / 1000
        rows[index] = {"srtt_us": int(base_us * srtt_us), "status": RUNNING}
    observer = Observer(dumbbell, "srtt")
    values = observer.observe(frame(info, flows=flows(*rows)))
    assert values == pytest.approx([2, 0, 0, 0], abs=1e-3), "(2 - 1 + 4 - 1) / 2; a flow without a sample does not count"


def test_the_enforced_rate_is_of_the_line():
    dumbbell, info = scene(hosts="senders")
    values = Observer(dumbbell, "enforced").observe(frame(info, enforced_bps=np.array([1e7, 2.5e6])))
    assert values.tolist() == [1, 0.25]


def test_presets():
    view, _ = scene()
    switch = [name for name in ROWS if name.startswith("s")]
    assert Observer(view, "thesis").names == tuple(f"{port}/{name}" for name in ("backlog", "backlog_change") for port in switch)
    names = Observer(view).names
    assert len(names) == 4 * 10 + 4
    assert names[:2] + names[-1:] == ("s1-eth1/backlog", "s1-eth2/backlog", "h4/enforced")
    assert {name.partition("/")[2] for name in Observer(view, "full").names} == {
        feature.name
        for feature in observation.features()
        if feature.kind != "flow" and feature.name not in ("capacity", "paused")
    }


@pytest.mark.parametrize(
    ("observe", "names"),
    [
        ("switch:marks", [f"{port}/marks" for port in ROWS if port[0] == "s"]),
        ("host:backlog", [f"h{i}-eth0/backlog" for i in (1, 2, 3, 4)]),
        ("s2-*:backlog, h1-eth0:drops", ["s2-eth1/backlog", "s2-eth2/backlog", "s2-eth3/backlog", "h1-eth0/drops"]),
        (
            "s?-eth3:backlog,enforced",
            ["s1-eth3/backlog", "s2-eth3/backlog", "h1/enforced", "h2/enforced", "h3/enforced", "h4/enforced"],
        ),
        (
            "thesis,h1-eth0:backlog",
            [*(f"{p}/{f}" for f in ("backlog", "backlog_change") for p in ROWS if p[0] == "s"), "h1-eth0/backlog"],
        ),
    ],
)
def test_what_may_be_asked_for(observe, names):
    dumbbell, _ = scene()
    assert list(Observer(dumbbell, observe).names) == names


@pytest.mark.parametrize(
    ("observe", "line"),
    [
        ("backlogg", "feature 'backlogg' is unknown; did you mean backlog?"),
        (
            "queue",
            "feature 'queue' is unknown; one of: thesis, default, full, tcp_info, aurora, marking, backlog, backlog_change",
        ),
        ("", "has an empty item"),
        ("backlog,,srtt", "has an empty item"),
        ("switch:srtt", "'switch:srtt': srtt is a feature of hosts, not of ports; write 'srtt' alone"),
        ("switches:backlog", "'switches' is none of all, switch, host, and no port of s1-eth1 .. h4-eth0 is called so"),
        ("all:backlog,switch:backlog", "has s1-eth1/backlog twice; take one out"),
        ("switch:thesis", "feature 'thesis' is unknown"),
    ],
)
def test_a_wrong_wish_is_one_line(observe, line):
    dumbbell, _ = scene()
    with pytest.raises(AgentError) as excinfo:
        Observer(dumbbell, observe)
    assert line in str(excinfo.value) and "\n" not in str(excinfo.value)


# --- classes of ports


@pytest.mark.parametrize(
    ("observe", "names"),
    [
        ("class:backlog", [f"{port}:{kind}/backlog" for port in ROWS for kind in ("tcp", "rdma")]),
        ("s1-*:rdma:marks", [f"s1-eth{port}:rdma/marks" for port in (1, 2, 3)]),
        ("h1-eth0:*:paused,s1-eth3:paused", ["h1-eth0:tcp/paused", "h1-eth0:rdma/paused", "s1-eth3/paused"]),
        ("s2-eth3:backlog,*-eth3:tcp:backlog", ["s2-eth3/backlog", "s1-eth3:tcp/backlog", "s2-eth3:tcp/backlog"]),
        ("kmin,s2-*:kmax,class:pmax", ["s1-eth3:rdma/kmin", "s2-eth1/kmin", "s2-eth1/kmax", "s1-eth3:rdma/pmax"]),
    ],
)
def test_what_may_be_asked_for_of_classes(observe, names):
    dumbbell, _ = scene(STEP, CLASSES, 'agent.actuators="s1-eth3:rdma:marking,s2-eth1:marking"')
    assert list(Observer(dumbbell, observe).names) == names


@pytest.mark.parametrize(
    ("observe", "line"),
    [
        ("s1-*:storage:backlog", "'s1-*:storage:backlog': no class of s1-eth1:tcp .. h4-eth0:rdma is called so"),
        ("class:rx_rate", "'class:rx_rate': classes of ports have no rx_rate; give one of backlog, backlog_change, mean_backlog"),
        ("s1-*:rdma:active_flows", "classes of ports have no active_flows; give one of backlog"),
        ("class:srtt", "srtt is a feature of hosts, not of ports; write 'srtt' alone"),
        ("class:kmin", "'class:kmin': kmin is set by marking, which agent.actuators does not name"),
        ("class:marks,s1-eth1:tcp:marks", "has s1-eth1:tcp/marks twice; take one out"),
    ],
)
def test_a_wrong_wish_of_classes_is_one_line(observe, line):
    dumbbell, _ = scene(STEP, CLASSES)
    with pytest.raises(AgentError) as excinfo:
        Observer(dumbbell, observe)
    assert line in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_a_network_without_classes_has_none_to_observe():
    dumbbell, _ = scene()
    for observe in ("class:backlog", "s1-*:rdma:backlog"):
        with pytest.raises(AgentError, match=r"no classes.*topology\.classes"):
            Observer(dumbbell, observe)


def test_classes_are_seen_by_their_own_limits():
    dumbbell, info = scene(STEP, CLASSES, 'agent.actuators="class:marking"')
    before = class_cells(dumbbell, tx_bytes={"s1-eth3:rdma": 500}, paused_ns={"h1-eth0:rdma": MS})
    now = class_cells(
        dumbbell,
        backlog_bytes={"s1-eth3:rdma": 50_000, "s1-eth3:tcp": 100_000},
        longest_bytes={"s1-eth3:rdma": 75_000},
        tx_bytes={"s1-eth3:rdma": 500 + 6250},
        marks={"s1-eth3:rdma": 2},
        paused_ns={"h1-eth0:rdma": 6 * MS},
    )
    start = dumbbell.start
    moment = frame(
        info,
        cells=cells(backlog_bytes={"s1-eth3": 150_000}),
        class_cells=now,
        class_before=before,
        wanted=start,
        enforced=start,
    )

    def look(observe):
        return Observer(dumbbell, observe).observe(moment).tolist()

    assert look("s1-eth3:*:backlog") == pytest.approx([100_000 / 400_000, 0.5]) and look("s1-eth3:backlog") == [0.375]
    assert look("s1-eth3:rdma:longest_backlog") == [0.75]
    carried = 10**7 * 0.01 / 8
    assert look("s1-eth3:rdma:utilization") == look("s1-eth3:rdma:tx_rate") == pytest.approx([6250 / carried])
    assert look("s1-eth3:*:marks") == pytest.approx([0, 2 * 1514 / carried]) and look("s1-eth3:marks") == [0]
    assert look("h1-eth0:*:paused") == [0, 0.5]
    assert look("s1-eth3:*:kmin") == pytest.approx([3028 / 400_000, 0.2])
    assert look("all:backlog") == Observer(scene(STEP)[0], "all:backlog").observe(moment).tolist(), "ports as without classes"


def test_rewards_and_metrics_leave_classes_out():
    with_classes, info = scene(STEP, CLASSES)
    without, _ = scene(STEP)
    moment = random_frame(with_classes, info, np.random.default_rng(3))
    ports = replace(moment, class_cells=NO_CELLS, class_before=NO_CELLS)
    assert metrics(moment, with_classes) == metrics(ports, without)
    for term in rewards():
        share = without.share(moment.in_force_bps)
        assert term.value(moment, with_classes, share) == term.value(ports, without, share), term.name


def test_history_stacks_the_oldest_first():
    dumbbell, info = scene()
    observer = Observer(dumbbell, "s1-eth3:backlog", 3)
    assert observer.names == ("s1-eth3/backlog@-2", "s1-eth3/backlog@-1", "s1-eth3/backlog")

    def look(step, backlog):
        return observer.observe(frame(info, step=step, cells=cells(backlog_bytes={"s1-eth3": backlog}))).tolist()

    assert look(0, 100_000) == [0.25, 0.25, 0.25], "before the first frame there was the same"
    assert look(1, 200_000) == [0.25, 0.25, 0.5]
    assert look(2, 400_000) == [0.25, 0.5, 1]
    assert look(3, 0) == [0.5, 1, 0]
    assert look(0, 200_000) == [0.5, 0.5, 0.5], "a new episode"
    with pytest.raises(AgentError, match="0 frames are none"):
        Observer(dumbbell, history=0)


def test_an_observation_is_a_copy():
    dumbbell, info = scene()
    for history in (1, 2):
        observer = Observer(dumbbell, "backlog", history)
        first = observer.observe(frame(info))
        first_copy = first.copy()
        observer.observe(frame(info, cells=cells(backlog_bytes={"s1-eth3": 400_000})))
        assert (first == first_copy).all()


def test_unflatten_gives_back_items_by_name():
    dumbbell, info = scene()
    now = frame(info, cells=cells(backlog_bytes={"s1-eth3": 100_000, "h2-eth0": 200_000}))
    one = Observer(dumbbell, "switch:backlog,host:backlog,enforced")
    parts = one.unflatten(one.observe(now))
    assert {key: value.tolist() for key, value in parts.items()} == {
        "switch:backlog": [0, 0, 0.25, 0, 0, 0],
        "host:backlog": [0, 0.5, 0, 0],
        "enforced": [1, 1, 1, 1],
    }
    two = Observer(dumbbell, "thesis", 2)
    assert {key: value.shape for key, value in two.unflatten(two.observe(now)).items()} == {
        "switch:backlog": (2, 6),
        "switch:backlog_change": (2, 6),
    }


def test_a_feature_of_the_user_s_is_one_function_and_one_line(tmp_path, registries):
    (tmp_path / "mine.py").write_text(
        "from dc_gym.run.agent.observation import register\n\n\n"
        "def sojourn(frame, scene):\n"
        '    return frame.column("backlog_bytes") * 8 / scene.rate_bps\n\n\n'
        'register("sojourn", "port", 0, 1, "seconds that the queue takes to drain", sojourn)\n'
    )
    usercode.load(tmp_path / "mine.py")
    dumbbell, info = scene()
    now = frame(info, cells=cells(backlog_bytes={"s1-eth3": 125_000}))
    assert Observer(dumbbell, "s1-*:sojourn").observe(now) == pytest.approx([0, 0, 0.1])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("backlog", "port", 0, 1), "feature 'backlog' is registered already"),
        (("default", "port", 0, 1), "feature 'default' is registered already"),
        (("new", "switch", 0, 1), "kind of feature 'new' 'switch' is unknown; one of: port, host"),
        (("new", "port", 0, np.inf), "bounds 0..inf are not finite and ascending"),
        (("new", "port", 1, 1), "bounds 1..1 are not finite and ascending"),
    ],
)
def test_a_wrong_registration_is_one_line(arguments, line):
    with pytest.raises(AgentError) as excinfo:
        register(*arguments, "nothing", lambda frame, scene: np.zeros(1))
    assert line in str(excinfo.value)


def test_a_feature_that_is_broken_is_named(registries):
    register("short", "port", 0, 1, "too few", lambda frame, scene: np.zeros(3))
    register("void", "host", 0, 1, "nothing", lambda frame, scene: np.array([0, np.nan, 0, 0]))
    dumbbell, info = scene()
    with pytest.raises(AgentError, match=r"'short'.*\(3,\).*\(10,\).*port"):
        Observer(dumbbell, "short").observe(frame(info))
    with pytest.raises(AgentError, match="h2/void is not a number"):
        Observer(dumbbell, "void").observe(frame(info))


def test_capacity_follows_events():
    at = ['at = "20ms", link = ["s1", "s2"], rate = "5Mbit/s"', 'at = "30ms", link = ["s1", "s2"], state = "down"']
    dumbbell, info = scene("time.duration=1s", f"events=[{', '.join(f'{{ {event} }}' for event in at)}]")
    observer = Observer(dumbbell, "s1-*:capacity")
    capacities = [observer.observe(frame(info, t_ns=t_ms * MS)).tolist() for t_ms in (10, 20, 30)]
    assert capacities == [[1, 1, 1], [1, 1, 0.5], [1, 1, 0]]
    plain, info = scene()
    assert Observer(plain, "capacity").observe(frame(info)).tolist() == [1] * len(ROWS)
