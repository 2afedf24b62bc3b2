# SPDX-License-Identifier: Apache-2.0
"""An episode after resets equals that of a fresh lab, whatever ran before; a reset reports what it finds left."""

import re
import sys
from dataclasses import replace
from functools import partial

import episodes
import numpy as np
import pytest

from dc_gym.base.errors import AgentError, LabError
from dc_gym.learn import session
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.registration import SPECS
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.spec import vary
from dc_gym.topologies.graph import NETNS_FOLDER
from tests.run.agent.made import RUNNING, cells, flows, frame, scene

T0_S = 20
QUICK = ("UDP", "RED without", "events", "incast, and TIME_WAIT", "loss and jitter", "balanced")


def test_a_difference_is_found_wherever_it_is():
    _, info = scene()
    first = frame(info, step=0, cells=cells(tx_bytes={"h1-eth0": 1000}))
    last = frame(info, cells=cells(tx_bytes={"h1-eth0": 2514}), flows=flows({"status": RUNNING, "received_bytes": 100}, {}))
    assert episodes.difference([first, last], [first, last]) is None
    earlier = frame(info, step=0, cells=cells(tx_bytes={"h1-eth0": 500}))
    grown = replace(last, cells=cells(tx_bytes={"h1-eth0": 2014}))
    assert episodes.difference([first, last], [earlier, grown]) is None, "counters go on over resets"
    for changed in (
        {"cells": cells(tx_bytes={"h1-eth0": 2515})},
        {"cells": cells(tx_bytes={"h1-eth0": 2514}, backlog_bytes={"s1-eth3": 3028})},
        {"flows": flows({"status": RUNNING, "received_bytes": 150}, {})},
        {"enforced_bps": last.enforced_bps / 2},
    ):
        difference = episodes.difference([first, last], [first, replace(last, **changed)])
        assert difference is not None and difference.step == 1
        assert difference.backlog_bytes == (3028 if changed.get("cells", last.cells)[2, 0] else 0)
        assert difference.payload == (0.5 if "flows" in changed else 0)


def test_cases_are_of_every_thing_that_could_stay():
    markings = {case["topology"].get("marking") for case in episodes.CASES.values()}
    assert set(QUICK) <= set(episodes.CASES) and {"iroko-thesis", "red-instant"} <= markings


@pytest.mark.lab
@pytest.mark.parametrize("name", QUICK)
def test_an_episode_after_resets_is_that_of_a_fresh_lab(name, tmp_path, lab_kernel):
    difference, session, steps = episodes.compare(episodes.CASES[name], tmp_path)
    assert difference is None
    assert session.boots == 2 and steps == session.steps


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(episodes.CASES) - set(QUICK)))
def test_and_in_all_other_cases(name, tmp_path, lab_kernel):
    test_an_episode_after_resets_is_that_of_a_fresh_lab(name, tmp_path, lab_kernel)


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_lab_lives_through_10000_resets_and_nothing_grows(tmp_path, lab_kernel):
    """For some thousand resets the lab's kernel now and then takes a page that it has not touched before, 1.5 MB in all."""
    settled, last, boots = episodes.footprints(tmp_path, 10_000)
    assert boots == 1 and not last.growth(settled)


@pytest.mark.lab
@pytest.mark.long
def test_the_age_of_a_lab_changes_nothing(tmp_path, lab_kernel):
    """The kernel's own work on neighbours draws numbers every 300 s, which would shift those of RED's marks."""
    keys = episodes.case("dumbbell-10m", "dctcp", "20s", episodes.PAIRS, topology=episodes.RED, agent={"interval": "20ms"})
    times = [{"name": "age"} | keys | {"lab": {"t0": t0}} for t0 in ("20s", "655s", "750s", "860s")]
    labs = [episodes.Episodes(vary(table, tmp_path, "", [], {}, ""), tmp_path) for table in times]
    trajectories = []
    for lab in labs:
        with lab.session:
            trajectories.append(lab.run(episodes.COMPARED))
    assert all(episodes.difference(trajectories[0], trajectory) is None for trajectory in trajectories[1:])


@pytest.mark.lab
@pytest.mark.parametrize("when", ["before the first episode", "in it"])
def test_what_a_reset_finds_left_is_said(when, tmp_path, monkeypatch):
    """A socket stays open: no other episode can equal the first, whenever the socket's program was started."""
    listens = "import pathlib, socket, time; s = socket.create_server(('0.0.0.0', 9)); "
    listens += "pathlib.Path('/run/is-up').touch(); time.sleep(10000)"
    left = f'nsenter --net={NETNS_FOLDER}/h1 {sys.executable} -c "{listens}" </dev/null >/dev/null 2>&1'
    if when == "in it":
        left = f'({sys.executable} -c "import time; time.sleep({T0_S} - time.monotonic())"; {left}) &'
    else:
        left = f"{left} & until [ -e /run/is-up ]; do sleep 0.01; done"
    monkeypatch.setattr(session, "write_plan", partial(session.write_plan, disturb=left))
    env = DataCenterEnv(SPECS["dcgym/Dumbbell10m-v0"], ["time.duration=50ms", f"lab.t0={T0_S}s"], folder=tmp_path)
    env.reset(seed=1)
    with pytest.raises(LabError, match="still TCP sockets inuse: 1"):
        env.reset(seed=2)
    env.close()
    assert not list(tmp_path.iterdir())


LOSES = "import socket; taker = socket.socket(type=socket.SOCK_DGRAM); taker.bind(('127.0.0.1', 9)); "
LOSES += "[socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(60000), ('127.0.0.1', 9)) for _ in range(500)]"
UNFIT = r"^the episode before this reset is unfit: [0-9]+ packets lost: Udp\.RcvbufErrors"


@pytest.fixture
def loses(monkeypatch):
    """A program loses packets in h1, which makes a run unfit."""
    command = f'nsenter --net={NETNS_FOLDER}/h1 {sys.executable} -c "{LOSES}"'
    monkeypatch.setattr(session, "write_plan", partial(session.write_plan, disturb=command))


@pytest.mark.lab
def test_a_reset_after_an_unfit_episode_raises(tmp_path, loses):
    env = DataCenterEnv(SPECS["dcgym/Dumbbell10m-v0"], ["time.duration=50ms"], folder=tmp_path)
    env.reset(seed=1)
    with pytest.raises(LabError, match=UNFIT):
        env.reset(seed=2)
    env.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.lab
def test_in_a_vector_the_lab_of_an_unfit_episode_is_truncated_with_the_reason(tmp_path, loses):
    labs = LabVectorEnv(1, SPECS["dcgym/Dumbbell10m-v0"], ["time.duration=10ms"], folder=tmp_path)
    labs.reset(seed=1)
    go = np.ones((1, 4), np.float32)
    assert labs.step(go)[3].all(), "the episode has one step"
    *_, truncated, infos = labs.step(go)
    assert truncated.all() and re.match(UNFIT, infos["lab_died"][0])
    *_, truncated, infos = labs.step(go)
    assert not truncated.any() and labs.sessions[0].boots == 2
    labs.close()


@pytest.mark.lab
@pytest.mark.parametrize("delay", ["1ms", "60ms", "1s"])
def test_traffic_flows_whatever_the_delay(delay, tmp_path):
    """A round trip is six links long. Two episodes of one lab and one of a fresh lab are equal."""
    steps = ["agent.interval=1s", "time.duration=40s"]
    env = DataCenterEnv(SPECS["dcgym/Dumbbell10m-v0"], [f"topology.delay={delay}", *steps], folder=tmp_path)
    episodes = []
    for fresh in (False, False, True):
        env.reset(seed=1, options={"fresh": fresh})
        episodes.append([env.step(env.action_space.high)[4]["goodput_bps"] for _ in range(40)])
    env.close()
    assert max(episodes[0]) > 1e6 and episodes[1] == episodes[0] == episodes[2]


def test_programs_of_the_users_are_refused(tmp_path):
    spec = SPECS["dcgym/Dumbbell10m-v0"]
    programs = {"workload": spec["workload"] | {"exec": [{"host": "h1", "command": "true"}]}}
    with pytest.raises(AgentError, match=r"workload\.exec: .*leave them out"):
        DataCenterEnv(spec | programs, folder=tmp_path)
