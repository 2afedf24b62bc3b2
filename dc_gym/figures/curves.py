# SPDX-License-Identifier: Apache-2.0
"""`dcgym plot DIR --x KEY --y METRIC`: plots a metric of many results over a key of their specs, one line for each controller.

A point is the mean over the seeds of one experiment. Its bar is the 95 % interval of that mean (Student's t); a single result has
none, and of few results the values are shown. Results at one point that differ in more than the seed are refused, since their
spread would not be such an interval. Unfit results are left out. A key is a dotted key of docs/spec.md; a metric
is a number of summary.json. Without axes the command lists the keys and metrics that the results have. sweep_figure.py draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dc_gym import spec
from dc_gym.base import readable, spelling, stats, units
from dc_gym.base.errors import SpecError, UsageError
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.readable import Scale
from dc_gym.base.terminal import say
from dc_gym.figures import kit, styles, sweep_figure, titles
from dc_gym.figures.sweep_figure import BY_DEFAULT, Axis, Curve, CurvePoint
from dc_gym.metrics.names import NAMES
from dc_gym.metrics.summary import told_of_equal_seeds
from dc_gym.records.results import Result, load_result, result_folders

__all__ = ["curves", "find_results", "main", "tell_axes"]

HASH_DIGITS = 8
POLICIES = (BY_DEFAULT, "controller.policy")
"""The keys by which policies are distinguished."""
MOST_VALUES = 6
"""The most values of a key that are printed."""
FINEST = 10**12
"""The resolution in which shares are read, in parts of 1."""


def main(folder: Path, x_key: str, metrics: Sequence[str], by_key: str, out: Path | None, force: bool = False) -> int:
    """Draws the figure, prints the points as a table, and prints where the figure is."""
    place = out or folder / _name(x_key, metrics, by_key)
    kit.check_name(place)
    mark = mark_of("plot", [folder], place)
    require_place(place, is_marked(mark), force=force)
    sheet, left_out = sheet_of(folder, x_key, metrics, by_key)
    for metric, lines in sheet.panels.items():
        say("\n".join(_table(metric, lines, sheet.axis, by_key)))
    if left_out:
        say(left_out)
    say(kit.save(sweep_figure.draw(sheet), place, mark=mark))
    return 0


def sheet_of(folder: Path, x_key: str, metrics: Sequence[str], by_key: str = BY_DEFAULT) -> tuple[sweep_figure.Sheet, str]:
    """Returns the sheet for a figure of the results below a folder, and in words what it leaves out, and which runs are equal."""
    found = find_results(folder)
    results = [result for result in found if result.fit]
    if not results:
        raise UsageError(f"{folder}: all of its {len(found)} results are unfit; look at their unfit_reasons in manifest.json")
    panels = {metric: curves(results, x_key, metric, by_key) for metric in metrics}
    axis = Axis(x_key, _family(results, x_key), names_lines=x_key == by_key)
    left_out = f"left out: {len(found) - len(results)} unfit of {len(found)} results" if len(results) < len(found) else ""
    left_out = "; ".join(filter(None, (left_out, _equal_seeds(results))))
    caption = _caption(panels, axis, by_key, left_out)
    return sweep_figure.Sheet(_title(results, axis), panels, axis, by_key, caption), left_out


def check_axes(folder: Path, x_key: str | None, metrics: Sequence[str]) -> None:
    """Raises UsageError for a key or a metric that none of these results has."""
    first = find_results(folder)[0]
    if x_key is not None:
        _written(first, x_key)
    for metric in metrics:
        _metric(first, metric)


def tell_axes(folder: Path) -> None:
    """Prints the possible values of --x, --by and --y: the keys that vary, with their values, and the metrics that are
    numbers."""
    results = find_results(folder)
    varying = _varying(results)
    say(f"{folder}: {len(results)} results")
    say("\n--x, --by: the keys that vary" if varying else "\nno key varies: they are runs of one spec")
    width = max((len(key) for key in varying), default=0)
    for key, values in varying.items():
        more = f", ... ({len(values)} values)" if len(values) > MOST_VALUES else ""
        say(f"  {key:{width}}  {', '.join(values[:MOST_VALUES])}{more}")
    say("\n--y: the metrics that they have")
    for metric in _measured(results):
        say(f"  {metric:24}  {titles.of_metric(metric) if '.' not in metric else 'one a flow: .0, .1, ...'}")


def example_of(folder: Path) -> str:
    """Returns a command that draws some figure of these results."""
    results = find_results(folder)
    keys = [key for key in _varying(results) if key not in ("seed", BY_DEFAULT)] or [*_varying(results), "seed"]
    metrics = [name for name in ("fct_p99_s", "mean_srtt_us", "goodput_bps") if name in _measured(results)]
    return f"dcgym plot {folder} --x {keys[0]} --y {(metrics or _measured(results))[0]}"


def _varying(results: Sequence[Result]) -> dict[str, list[str]]:
    """Returns the keys that differ between the specs, each with its values in order."""
    specs = [dict(_leaves(result.manifest.get("spec", {}))) for result in results]
    keys = dict.fromkeys(key for each in specs for key in each)
    found = {key: list(dict.fromkeys(each.get(key, "-") for each in specs)) for key in keys if key not in ("name", "lab.memory")}
    return {key: sorted(values, key=_in_order) for key, values in found.items() if len(values) > 1}


def _in_order(text: str) -> tuple[float, str]:
    """Returns a sort key: quantities and numbers by size, then texts."""
    parsed = _quantity(text)
    if parsed is not None:
        return parsed[0], ""
    return (float(text), "") if text.replace(".", "", 1).isdecimal() else (math.inf, text)


def _measured(results: Sequence[Result]) -> list[str]:
    """Returns the metrics that are a number in any of the results; for a list of numbers its first element."""
    found = dict[str, None]()
    for result in results:
        for name, value in result.summary.items():
            if isinstance(value, int | float):
                found[name] = None
            elif isinstance(value, list) and value and isinstance(value[0], int | float):
                found[f"{name}.0"] = None
    return list(found)


def _name(x_key: str, metrics: Sequence[str], by_key: str) -> str:
    """Returns the name of the figure's file, METRIC-by-KEY.png. Different figures of the same results get different names."""
    lines = "" if by_key == BY_DEFAULT else f"-each-{by_key}"
    return f"{'-'.join(metrics)}-by-{x_key}{lines}.png"


def _title(results: Sequence[Result], axis: Axis) -> str:
    names = list(dict.fromkeys(str(result.manifest.get("spec", {}).get("name", "experiment")) for result in results))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}, by {axis.title[0].lower() + axis.title[1:] if axis.title[1:2].islower() else axis.title}"


def _caption(panels: Mapping[str, Sequence[Curve]], axis: Axis, by_key: str, left_out: str) -> str:
    counts = sorted({point.results for lines in panels.values() for line in lines for point in line.points})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    told = [f"x: {axis.key}", f"colour: {by_key}"]
    few = {point.few for lines in panels.values() for line in lines for point in line.points if point.results > 1}
    dots = f"means of n = {many} seeds (dots) with 95 % intervals" if False in few else f"n = {many} seeds, a dot each"
    dots += ", or a marker each" if few == {True, False} else ""
    told += [dots] if counts[-1] > 1 else ["one seed a point"]
    return "; ".join([*told, left_out] if left_out else told)


def _table(metric: str, lines: Sequence[Curve], axis: Axis, by_key: str) -> Iterator[str]:
    """Yields the points as lines of text, with one unit for the whole metric."""
    scale = readable.scale_of(readable.family_of(metric), [point.mean for line in lines for point in line.points])
    yield f"{metric}{f' ({scale.unit})' if scale.unit else ''} by {axis.key}, a line for each {by_key}"
    width = max(16, *(len(line.name) for line in lines))
    for line in lines:
        for point in line.points:
            yield f"  {line.name:{width}} {axis.text(point.x):>12} {_value(point, scale):>16}  (n = {point.results})"


def _value(point: CurvePoint, scale: Scale) -> str:
    """Returns the mean with its interval, or the values where they are too few for one."""
    if point.few:
        return ", ".join(readable.number(scale.of(value)) for value in point.values)
    half = None if point.half_width is None else point.half_width / scale.factor
    return readable.with_interval(scale.of(point.mean), half)


def find_results(folder: Path) -> list[Result]:
    """Returns every complete result below a folder, in the order of their paths."""
    found = [load_result(path) for path in result_folders(folder)]
    for each in found:
        styles.remember(each.manifest)
    return found


def curves(results: Iterable[Result], x_key: str, metric: str, by_key: str) -> list[Curve]:
    """Returns the lines of a figure, with their points sorted by x.

    Lines are sorted by size if their names are numbers or quantities, else they are in the order of their first occurrence. A
    result without the metric (null) is left out.

    Raises UsageError if results of one point are of different experiments.
    """
    groups: dict[str, dict[float | str, list[tuple[Result, float]]]] = {}
    results = list(results)
    places = _names(results, x_key) if x_key == POLICIES[1] else [_key(result, x_key) for result in results]
    for result, x, line in zip(results, places, _names(results, by_key), strict=True):
        value = _metric(result, metric)
        group = groups.setdefault(line, {})
        if value is not None:
            group.setdefault(x, []).append((result, value))
    lines = [
        Curve(name, tuple(_point(x, groups[name][x]) for x in _ordered(groups[name])))
        for name in sorted(groups, key=lambda name: _in_order(name)[0])
    ]
    if not any(line.points for line in lines):
        raise UsageError(f"{metric} is null in every result; choose a metric that these workloads have")
    return [line for line in lines if line.points]


def _equal_seeds(results: Sequence[Result]) -> str:
    """Returns a line if runs of several seeds are equal."""
    points: dict[str, list[str]] = {}
    for result in results:
        points.setdefault(str(sorted((_settings(result) | result.inputs).items())), []).append(
            json.dumps(result.summary, sort_keys=True)
        )
    return told_of_equal_seeds(points.values())


def _at(tree: Any, path: str) -> Any:
    """Returns the value at a dotted path in dicts and lists, such as topology.links.0.delay; None if the path does not exist."""
    for part in path.split("."):
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, Sequence) and not isinstance(tree, str) and part.isdecimal() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def _written(result: Result, key: str) -> Any:
    """Returns the value of a key in the result's spec; '-' if it has none."""
    value = _at(result.manifest.get("spec", {}), key)
    if value is not None:
        return value
    names = spec.keys()
    if not any(key == name or key.startswith(f"{name}.") for name in names):
        raise UsageError(f"{key!r} is not a key of a spec; {_near(key, names, 'docs/spec.md lists the keys')}")
    return "-"


def _names(results: Sequence[Result], key: str) -> list[str]:
    """Returns the name of each result by a key. By controller, a policy has a name of its own. If files of different contents
    have the same name, part of the content's hash is added."""
    names = [_name_of(result, key) for result in results]
    contents = [result.inputs.get(spec.POLICY_COPY, "") if key in POLICIES else "" for result in results]
    several = {
        name for name in names if len({content for each, content in zip(names, contents, strict=True) if each == name}) > 1
    }
    return [f"{name} {content[:HASH_DIGITS]}" if name in several else name for name, content in zip(names, contents, strict=True)]


def _name_of(result: Result, key: str) -> str:
    section = result.controller
    if key in POLICIES and section.get("policy"):
        return styles.label_of_section(section) if key == BY_DEFAULT else str(section["policy"])
    return str(_written(result, key))


def _key(result: Result, key: str) -> float | str:
    """Returns a number in base units if the value is a number or a quantity; else its text."""
    value = _written(result, key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    parsed = _quantity(value)
    return str(value) if parsed is None else parsed[0]


def _quantity(value: Any) -> tuple[float, str] | None:
    """Returns a text such as "10ms" in base units, and its family; None if it is not a quantity."""
    for parse, family in ((units.parse_rate_bps, "bps"), (units.parse_time_ns, "ns"), (units.parse_size_bytes, "bytes")):
        try:
            return float(parse(value)), family
        except SpecError:
            continue
    if isinstance(value, str) and value.endswith("%"):
        try:
            return units.parse_share(value, FINEST) / FINEST, "share"
        except SpecError:
            return None
    return None


def _near(name: str, known: Iterable[str], place: str) -> str:
    """Returns a hint at a similar name, or `place`, where all are listed."""
    return spelling.hint(name, known) if spelling.near(name, known) else place


def _metric(result: Result, metric: str) -> float | None:
    """Returns a number of the summary, or an element of a list of numbers, such as flow_goodput_bps.0.

    A run may lack a metric that others have: a run without an agent has no return. It counts as null.
    """
    name = metric.partition(".")[0]
    if name not in result.summary and name in NAMES:
        return None
    if name not in result.summary:
        numbers = [name for name, value in result.summary.items() if isinstance(value, int | float)]
        raise UsageError(f"{metric!r} is not a metric of {result.path}; {_near(metric, numbers, 'its summary.json has them')}")
    value = _at(result.summary, metric)
    if value is not None and not isinstance(value, int | float):
        raise UsageError(f"{metric!r} of {result.path} is not one number; name an element, such as {metric}.0, or another metric")
    return None if value is None else float(value)


def _ordered(group: Mapping[float | str, Any]) -> list[float | str]:
    """Returns numbers by size, then texts in their order."""
    return [*sorted(x for x in group if isinstance(x, float)), *(x for x in group if isinstance(x, str))]


def _point(x: float | str, measured: Sequence[tuple[Result, float]]) -> CurvePoint:
    """Returns the mean over results that differ only in their seed."""
    first, *others = (_settings(result) for result, _ in measured)
    for other in others:
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                values = f"{first.get(key, 'not given')}, {other.get(key, 'not given')}"
                raise UsageError(f"{key} varies, too ({values}): make it --x or --by, or keep it fixed")
    found = stats.estimate([value for _, value in measured])
    assert found is not None, "summary.json holds finite numbers"
    return CurvePoint(x, found.mean, None if found.few else found.half, found.values)


def _settings(result: Result) -> dict[str, str]:
    """Returns the spec by dotted key, without the keys that do not define the experiment: seed, name, and the lab's memory."""
    found = dict(_leaves(result.manifest.get("spec", {})))
    return {key: value for key, value in found.items() if key not in ("seed", "name", "lab.memory")}


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from _leaves(value, f"{path}.{number}")
    else:
        yield path, str(tree)


def _family(results: Iterable[Result], key: str) -> str:
    """Returns the unit family of a key: that of its values' texts, or of the spec's field if the values are plain numbers."""
    own = spec.unit_of(key).removeprefix("_")
    found = {(_quantity(value) or (0.0, own))[1] for value in (_written(result, key) for result in results)}
    return found.pop() if len(found) == 1 else ""
