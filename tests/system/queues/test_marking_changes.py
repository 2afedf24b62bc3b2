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
def found(lab_kernel, request):
    return play(lab_kernel, CHANGES, request.param)


def verify(found):
    sent = len(found["settings"])
    assert found["arrived"] == [*range(sent)] and (found["drops"], found["unlike"]) == (0, 0)
    setting, marked = np.array(found["settings"])[QUEUED:], np.array(found["marked"][QUEUED:])
    assert not marked[setting == 0].any() and marked[setting == 1].all()
    one_in_two = marked[setting == 2]
    assert one_in_two.mean() == pytest.approx(0.5, abs=5 * 0.5 / len(one_in_two) ** 0.5)  # five sigmas
    room = guest.LIMIT_BYTES // guest.FRAME_BYTES
    assert room <= found["filled"] <= room + 1


def test_a_port_loses_doubles_and_reorders_no_frame(found):
    verify(found)
    assert len(found["arrived"]) == CHANGES + QUEUED


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
            wanted = np.column_stack([np.floor(values), np.floor(drawn.uniform(rows.low[:, 2], rows.high[:, 2]))]).reshape(-1)
            assert np.array_equal(session.step(wanted).enforced, wanted)


def swapped(found):
    found["arrived"][500], found["arrived"][501] = found["arrived"][501], found["arrived"][500]


def lost(found):
    del found["arrived"][500], found["marked"][500]


def doubled(found):
    found["arrived"].insert(500, found["arrived"][500])
    found["marked"].insert(500, found["marked"][500])


def marked_wrongly(found):
    place = next(place for place in range(QUEUED, CHANGES) if found["settings"][place] == 0)
    found["marked"][place] = 1


def refused(found):
    found["unlike"] = 1


def dropped(found):
    found["drops"] = 1


def shorter(found):
    found["filled"] -= 5


@pytest.mark.parametrize("spoil", [swapped, lost, doubled, marked_wrongly, refused, dropped, shorter])
def test_what_is_wrong_is_seen(found, spoil):
    spoilt = copy.deepcopy(found)
    spoil(spoilt)
    with pytest.raises(AssertionError):
        verify(spoilt)
