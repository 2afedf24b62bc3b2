# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench marking-changes`: a short run of it, and that its checks see what is wrong."""

from __future__ import annotations

import copy

import pytest

from dc_gym.benchmarks.checks import marking_changes
from dc_gym.benchmarks.checks.marking_changes_guest import QUEUED

CHANGES = 2000


@pytest.fixture(scope="module", params=["port", "red"])
def found(lab_kernel, request):
    return marking_changes.play(lab_kernel, CHANGES, request.param)


@pytest.mark.lab
def test_a_port_loses_doubles_and_reorders_no_frame(found):
    checks = list(marking_changes.of_a_port(found, "port"))
    assert [check.name for check in checks if not check.ok] == []
    assert len(found["arrived"]) == CHANGES + QUEUED


@pytest.mark.lab
def test_every_port_of_a_fat_tree_has_what_was_wanted():
    (check,) = marking_changes.of_a_fabric(steps=20)
    assert check.ok and "1,600 changes of 80 ports" in check.name


@pytest.mark.lab
def test_every_class_of_a_fat_tree_has_what_was_wanted():
    (check,) = marking_changes.of_a_fabric(steps=20, actuators="class:marking")
    assert check.ok and "3,200 changes of 160 classes" in check.name


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


@pytest.mark.lab
@pytest.mark.parametrize("spoil", [swapped, lost, doubled, marked_wrongly, refused, dropped, shorter])
def test_what_is_wrong_is_seen(found, spoil):
    spoilt = copy.deepcopy(found)
    spoil(spoilt)
    assert not all(check.ok for check in marking_changes.of_a_port(spoilt, "port"))
