# SPDX-License-Identifier: Apache-2.0
"""A switch port whose ECN marking is changed all the time, as under an agent: no frame lost, twice, late or marked wrongly.

The port's queue never empties. A change holds for the frames that come after it alone. The kernel is asked after each change what
it has. The parts are a `port` by itself, a RED by itself, and a fat-tree whose agent sets every port, and then every class.
"""

from __future__ import annotations

import copy
from pathlib import Path

import marking_changes_guest as guest
import numpy as np
import pytest
from marking_changes_guest import QUEUED

from dc_gym.benchmarks.checks.lab_job import play_jobs
from dc_gym.learn.env import as_spec
from dc_gym.learn.session import Session

pytestmark = pytest.mark.lab
CHANGES = 2000
CLASSES = [{"name": name, "dscp": [dscp], "weight": 50} for name, dscp in (("tcp", 0), ("rdma", 26))]


def play(kernel, changes, qdisc):
    job = {"changes": changes, "seed": 1, "qdisc": qdisc}
    return play_jobs(kernel, "marking_changes_guest", [job], [Path(__file__).resolve().parent])[0]


@pytest.fixture(scope="module", params=["port", "red"])
def answer(lab_kernel, request):
    return play(lab_kernel, CHANGES, request.param)


def verify(answer):
    sent = len(answer["settings"])
    assert answer["arrived"] == [*range(sent)] and (answer["drops"], answer["unlike"]) == (0, 0)
    setting, marked = np.array(answer["settings"])[QUEUED:], np.array(answer["marked"][QUEUED:])
    assert not marked[setting == 0].any() and marked[setting == 1].all()
    one_in_two = marked[setting == 2]
    assert one_in_two.mean() == pytest.approx(0.5, abs=5 * 0.5 / len(one_in_two) ** 0.5)  # five sigmas
    room = guest.LIMIT_BYTES // guest.FRAME_BYTES
    assert room <= answer["filled"] <= room + 1


def test_a_port_loses_doubles_and_reorders_no_frame(answer):
    verify(answer)
    assert len(answer["arrived"]) == CHANGES + QUEUED


@pytest.mark.long
@pytest.mark.parametrize("qdisc", ["port", "red"])
def test_a_hundred_thousand_changes(lab_kernel, qdisc):
    verify(play(lab_kernel, 100_000, qdisc))


@pytest.mark.parametrize("steps", [20, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.parametrize(("actuators", "topology", "count"), [("marking", {}, 80), ("class:marking", {"classes": CLASSES}, 160)])
def test_every_port_and_class_of_a_fat_tree_has_what_was_wanted(steps, actuators, topology, count):
    """An agent draws another setting for each port, or for each class, at each step."""
    spec = {
        "topology": {"preset": "fattree-k4", **topology},
        "controller": {"name": "dctcp"},
        "agent": {"interval": "100us", "actuators": actuators, "publish": f"{100 * steps}us"},
        "workload": {"kind": "random"},
        "time": {"duration": f"{100 * steps}us"},
    }
    drawn = np.random.default_rng(1)
    with Session(as_spec(spec)) as session:
        session.begin(seed=1)
        (rows,) = session.scene.actuated
        assert (session.steps, len(rows.names)) == (steps, count)
        for _ in range(steps):
            values = np.sort(drawn.uniform(rows.low, rows.high)[:, :2], axis=1)
            commanded = np.column_stack([np.floor(values), np.floor(drawn.uniform(rows.low[:, 2], rows.high[:, 2]))]).reshape(-1)
            assert np.array_equal(session.step(commanded).enforced, commanded)


def swapped(answer):
    answer["arrived"][500], answer["arrived"][501] = answer["arrived"][501], answer["arrived"][500]


def lost(answer):
    del answer["arrived"][500], answer["marked"][500]


def doubled(answer):
    answer["arrived"].insert(500, answer["arrived"][500])
    answer["marked"].insert(500, answer["marked"][500])


def marked_wrongly(answer):
    index = next(index for index in range(QUEUED, CHANGES) if answer["settings"][index] == 0)
    answer["marked"][index] = 1


def refused(answer):
    answer["unlike"] = 1


def dropped(answer):
    answer["drops"] = 1


def shorter(answer):
    answer["filled"] -= 5


@pytest.mark.parametrize("spoil", [swapped, lost, doubled, marked_wrongly, refused, dropped, shorter])
def test_what_is_wrong_is_seen(answer, spoil):
    spoilt = copy.deepcopy(answer)
    spoil(spoilt)
    with pytest.raises(AssertionError):
        verify(spoilt)
