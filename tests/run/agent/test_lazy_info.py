# SPDX-License-Identifier: Apache-2.0
"""A dict that is computed when it is first read behaves as a plain dict."""

import copy
import json
import pickle

import pytest

from dc_gym.run.agent.lazy_info import LazyInfo

PLAIN = {"a": 1, "b": 2.5}


@pytest.fixture
def later():
    return LazyInfo(dict.fromkeys(PLAIN), lambda: PLAIN)


@pytest.mark.parametrize(
    "look",
    [
        *(dict, list, len, bool, repr, str, json.dumps, copy.copy, copy.deepcopy, sorted, LazyInfo.copy),
        *(lambda it: {**it}, lambda it: it == PLAIN, lambda it: it == PLAIN, lambda it: it != PLAIN, lambda it: "a" in it),
        *(lambda it: it["b"], lambda it: it.get("a"), lambda it: list(it.items()), lambda it: list(it.values()), list),
        *(lambda it: it | {"c": 1}, lambda it: {"c": 1} | it, lambda it: it.pop("a"), lambda it: pickle.loads(pickle.dumps(it))),
        *(lambda it: dict(c=3, **it), lambda it: list(reversed(it)), lambda it: {"c": 3}.update(it)),
    ],
)
def test_it_reads_as_the_plain_one(look, later):
    assert look(later) == look(dict(PLAIN)) if look is not LazyInfo.copy else later.copy() == PLAIN


def test_two_are_equal_if_what_they_say_is(later):
    other = LazyInfo(dict.fromkeys(PLAIN), lambda: dict(PLAIN))
    assert [later] == [other] and later == other and (later != other) is False
    assert later != LazyInfo(dict.fromkeys(PLAIN), lambda: PLAIN | {"b": 3})


def test_copies_are_plain_and_changes_stay(later):
    assert type(copy.copy(later)) is type(pickle.loads(pickle.dumps(later))) is dict
    later["c"] = 3
    del later["a"]
    later |= {"d": 4}
    assert later == {"b": 2.5, "c": 3, "d": 4}


def test_it_is_worked_out_once_and_not_before():
    calls = []
    later = LazyInfo({"a": None}, lambda: calls.append(1) or {"a": 1})
    assert not calls
    assert later["a"] == later["a"] == 1 and calls == [1]
