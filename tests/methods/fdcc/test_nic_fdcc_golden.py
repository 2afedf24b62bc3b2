# SPDX-License-Identifier: Apache-2.0
"""FDCC's algorithms on golden traces: their policies against floats and integers, and what their reference finds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import nic_golden
import pytest

from dc_gym.base.package import PROGRAMS
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.methods.fdcc.reference import NETWORK_BOUND, OUTPUT_AT, TREES_BOUND


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns a function that returns an algorithm's cases."""
    folder = tmp_path_factory.mktemp("tables")
    return cache(lambda name: tuple(nic_golden.of(algorithms.load(name, PROGRAMS), 1, folder)))


@pytest.mark.parametrize(("name", "bound"), [("fdcc", NETWORK_BOUND), ("fdcc-tree", TREES_BOUND)])
def test_policies_are_held_to_floats_and_to_their_integers_in_python(cases: Any, name: str, bound: float) -> None:
    count, most, wrong = nic_golden.kind_distances(cases(name))
    assert count > 700 and most < bound and wrong == 0
    (case, *_) = cases(name)
    states = [(*row.state[:OUTPUT_AT], row.state[OUTPUT_AT] ^ 1 << 12, *row.state[OUTPUT_AT + 1 :]) for row in case.made]
    wrong_rows = [replace(row, state=state) for row, state in zip(case.made, states, strict=True)]
    count, most, wrong = nic_golden.kind_distances((replace(case, made=wrong_rows),))
    assert most > bound and wrong > 0


def test_an_input_that_the_nic_did_not_see_is_found(cases: Any) -> None:
    """The reference takes outputs from the NIC, but computes what the NIC saw."""
    (case, *_) = cases("fdcc-tree")
    rows = [replace(row, state=(row.state[0] ^ 1 << 12, *row.state[1:])) for row in case.made]
    comparison = golden.compare_with_reference("fdcc-tree", case.steps, rows, case.values)
    assert comparison.broken.startswith("input rtt is off by 0.06")


def test_a_window_that_the_output_does_not_give_is_found(cases: Any) -> None:
    (case, *_) = cases("fdcc-tree")
    rows = [replace(row, rate=min(2**20, row.rate + row.rate // 50)) for row in case.made]
    assert golden.compare_with_reference("fdcc-tree", case.steps, rows, case.values).broken.startswith("line ")
