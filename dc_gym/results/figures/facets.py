# SPDX-License-Identifier: Apache-2.0
"""Splits results by one more key than a figure draws: each value of that key gets a panel.

A figure draws some keys itself, such as the key on its x axis and the key of its lines. Only one other key may vary, and keys
that follow from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from dc_gym.base.errors import UsageError
from dc_gym.results.figures import spec_keys, styles, titles
from dc_gym.results.figures.spec_keys import ABSENT
from dc_gym.results.results import Result

__all__ = ["MOST_PANELS", "Facets", "split"]

MOST_PANELS = 12


@dataclass(frozen=True, slots=True)
class Facets:
    """Results by panel."""

    key: str
    """The key that the panels distinguish; '' if there is only one."""
    parts: Mapping[str, Sequence[Result]]
    """The results of each panel, by its title."""


def split(results: Sequence[Result], drawn: Sequence[str]) -> Facets:
    """Returns one panel, or one for each value of a further key. `drawn`: the keys that the figure draws in each panel.

    Raises UsageError if two further keys vary independently.
    """
    settings = {id(result): spec_keys.settings(result) for result in results}
    keys = dict.fromkeys(key for config in settings.values() for key in config)
    not_constant = [key for key in keys if len({config.get(key, ABSENT) for config in settings.values()}) > 1]
    places = {key: dict(zip(map(id, results), spec_keys.names(results, key), strict=True)) for key in drawn}

    def further(part: Sequence[Result]) -> list[str]:
        """Returns the keys, other than the seed, in which results at one place of the figure differ."""
        at: dict[Hashable, list[Mapping[str, str]]] = {}
        for result in part:
            at.setdefault(tuple(places[key][id(result)] for key in drawn), []).append(settings[id(result)])
        return [key for key in not_constant if any(len({config.get(key, ABSENT) for config in same}) > 1 for same in at.values())]

    def values(key: str) -> list[str]:
        return spec_keys.names(results, key) if key in spec_keys.POLICIES else [settings[id(r)].get(key, ABSENT) for r in results]

    def parts(*keys: str) -> dict[tuple[str, ...], list[Result]]:
        groups: dict[tuple[str, ...], list[Result]] = {}
        for result, *value in zip(results, *map(values, keys), strict=True):
            groups.setdefault(tuple(value), []).append(result)
        return dict(sorted(groups.items(), key=lambda item: [_rank(value) for value in item[0]]))

    varying = sorted(further(results), key=lambda key: key not in titles.KEYS)
    if not varying:
        return Facets("", {"": results})
    for count in range(1, len(varying) + 1):
        for chosen in combinations(varying, count):
            groups = parts(*chosen)
            if any(further(part) for part in groups.values()):
                continue
            if count == 1 and len(groups) <= MOST_PANELS:
                return Facets(chosen[0], {titles.of_value(chosen[0], value): part for (value,), part in groups.items()})
            raise UsageError(_why_not(chosen, [{value[row] for value in groups} for row in range(count)]))
    raise AssertionError("all keys together distinguish all results")


def _rank(value: str) -> tuple[float, str]:
    """Returns a sort key: quantities by size, controllers in the order of legends, then other texts."""
    known = styles.names()
    return (float(known.index(value)), "") if value in known else spec_keys.in_order(value)


def _why_not(keys: Sequence[str], values: Sequence[set[str]]) -> str:
    """Returns why these keys cannot be panels, and conditions that leave one."""
    ordered = {key: sorted(key_values, key=spec_keys.in_order) for key, key_values in zip(keys, values, strict=True)}
    varying = " and ".join(f"{key} ({', '.join(key_values)})" for key, key_values in ordered.items())
    fixed = list(ordered.items())[1:] or list(ordered.items())
    remedy = " ".join(f"--where {key}={next(value for value in key_values if value != ABSENT)}" for key, key_values in fixed)
    if len(keys) == 1:
        return f"{varying} varies, too, and a figure has at most {MOST_PANELS} panels: make it --x or --by, or add {remedy}"
    return f"{varying} vary, too, and panels can show one of them: make one --x or --by, or add {remedy}"
