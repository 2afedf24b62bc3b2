# SPDX-License-Identifier: Apache-2.0
"""`dcgym plot DIR --x KEY --y METRIC`: plots a metric of many results over a key of their specs, one line for each controller.

A point is the mean over the seeds of one experiment. Its bar is the 95 % interval of that mean (Student's t); a single result has
none, and of few results the values are shown. Results at one point that differ in more than the seed are refused, since their
spread would not be an interval over seeds. Unfit results are left out. A key is a dotted key of docs/spec.md; a metric is a
number of summary.json. Without axes the command lists the keys and metrics that the results have. sweep_figure.py draws.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dc_gym.base import readable, stats
from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.readable import Scale
from dc_gym.base.terminal import say
from dc_gym.results.figures import kit, spec_keys, sweep_figure, titles
from dc_gym.results.figures.facets import split
from dc_gym.results.figures.spec_keys import POLICIES, find_results
from dc_gym.results.figures.sweep_figure import BY_DEFAULT, Axis, Curve, CurvePoint
from dc_gym.results.metrics.names import NAMES
from dc_gym.results.metrics.summary import told_of_equal_seeds
from dc_gym.results.results import Result

__all__ = [
    "check_axes",
    "curves",
    "example_of",
    "find_results",
    "fit_results",
    "main",
    "name_of",
    "sheets_of",
    "tell_axes",
    "title_of",
]

FLOW_SIZE = "flow_size"
"""Stands for a key on the x axis: slowdown.py draws over the sizes of flows, whatever the spec is."""
MOST_VALUES = 6
"""The most values of a key that are printed."""


def main(
    folder: Path,
    x_key: str,
    metrics: Sequence[str],
    by_key: str,
    out: Path | None,
    force: bool = False,
    where: Sequence[str] = (),
) -> int:
    """Draws the figure, prints the points as a table, and prints where the figure is."""
    figure_path = out or folder / name_of(x_key, metrics, by_key, where)
    kit.check_name(figure_path)
    mark = mark_of("plot", [folder], figure_path)
    require_place(figure_path, is_marked(mark), force=force)
    sheets, left_out = sheets_of(folder, x_key, metrics, by_key, where)
    for title, sheet in sheets.items():
        for metric, lines in sheet.panels.items():
            say("\n".join(_table(metric, lines, sheet.axis, by_key, title)))
    if left_out:
        say(left_out)
    say(kit.save(sweep_figure.draw_panels(sheets), figure_path, mark=mark))
    return 0


def sheets_of(
    folder: Path, x_key: str, metrics: Sequence[str], by_key: str = BY_DEFAULT, where: Sequence[str] = ()
) -> tuple[dict[str, sweep_figure.Sheet], str]:
    """Returns the sheets for a figure of the results below a folder, by the titles of their panels, with notes on the runs that
    they leave out, and on equal runs.

    There is one sheet without a title, or one for each value of a third key that varies. `where`: the conditions of --where.
    """
    results, left_out = fit_results(folder, where)
    facets = split(results, (x_key, by_key))
    axis = Axis(x_key, spec_keys.family(results, x_key), names_lines=x_key == by_key)
    panels = {title: {metric: curves(part, x_key, metric, by_key) for metric in metrics} for title, part in facets.parts.items()}
    for metric in metrics:
        if not any(panel[metric] for panel in panels.values()):
            raise UsageError(f"{metric} is null in every result; choose a metric that these workloads have")
    left_out = "; ".join(filter(None, (left_out, _equal_seeds(results))))
    every = [line for panel in panels.values() for lines in panel.values() for line in lines]
    caption = _caption(every, {"x": x_key, "colour": by_key, "panels": facets.key, "where": ", ".join(where)}, left_out)
    title = title_of(results, axis.title, *([titles.of_key(facets.key)] if facets.key else []))
    return {name: sweep_figure.Sheet(title, panel, axis, by_key, caption) for name, panel in panels.items()}, left_out


def fit_results(folder: Path, where: Sequence[str] = ()) -> tuple[list[Result], str]:
    """Returns the fit results below a folder that fulfil the conditions of --where, and in words how many are left out as
    unfit."""
    chosen = spec_keys.choose(find_results(folder), where)
    results = [result for result in chosen if result.fit]
    if not results:
        raise UsageError(f"{folder}: all of its {len(chosen)} results are unfit; look at their unfit_reasons in manifest.json")
    left_out = f"left out: {len(chosen) - len(results)} unfit of {len(chosen)} results" if len(results) < len(chosen) else ""
    return results, left_out


def check_axes(results: Sequence[Result], x_key: str | None, metrics: Sequence[str]) -> None:
    """Raises UsageError for a key or a metric that none of these results has."""
    first = results[0]
    if x_key is not None:
        spec_keys.written(first, x_key)
    for metric in metrics:
        _metric(first, metric)


def tell_axes(folder: Path, results: Sequence[Result]) -> None:
    """Prints the possible values of --x, --by, --where and --y: the keys that vary, with their values, and the metrics that are
    numbers."""
    varying = spec_keys.varying(results)
    say(f"{folder}: {len(results)} results")
    say("\n--x, --by, --where: the keys that vary" if varying else "\nno key varies: they are runs of one spec")
    width = max((len(key) for key in varying), default=0)
    for key, values in varying.items():
        more = f", ... ({len(values)} values)" if len(values) > MOST_VALUES else ""
        say(f"  {key:{width}}  {', '.join(values[:MOST_VALUES])}{more}")
    measured = _measured(results)
    if "slowdown_p50" in measured:
        say(f"\n--x {FLOW_SIZE} (without --y): FCT slowdown by the sizes of flows")
    say("\n--y: the metrics that they have")
    for metric in measured:
        say(f"  {metric:24}  {titles.of_metric(metric) if '.' not in metric else 'one a flow: .0, .1, ...'}")


def example_of(folder: Path, results: Sequence[Result]) -> str:
    """Returns a command that draws some figure of these results."""
    keys = [key for key in spec_keys.varying(results) if key not in ("seed", BY_DEFAULT)] or [*spec_keys.varying(results), "seed"]
    metrics = [name for name in ("fct_p99_s", "mean_srtt_us", "goodput_bps") if name in _measured(results)]
    return f"dcgym plot {folder} --x {keys[0]} --y {(metrics or _measured(results))[0]}"


def _measured(results: Sequence[Result]) -> list[str]:
    """Returns the metrics that are a number in any of the results; for a list of numbers its first element."""
    metrics = dict[str, None]()
    for result in results:
        for name, value in result.summary.items():
            if isinstance(value, int | float):
                metrics[name] = None
            elif isinstance(value, list) and value and isinstance(value[0], int | float):
                metrics[f"{name}.0"] = None
    return list(metrics)


def name_of(x_key: str, metrics: Sequence[str], by_key: str, where: Sequence[str]) -> str:
    """Returns the name of the figure's file, METRIC-by-KEY.png. Different figures of the same results get different names."""
    lines = "" if by_key == BY_DEFAULT else f"-each-{by_key}"
    chosen = "".join(f"-{re.sub('[^A-Za-z0-9._+-]+', '-', text).strip('-')}" for text in where)
    return f"{'-'.join(metrics)}-by-{x_key}{lines}{chosen}.png"


def title_of(results: Sequence[Result], *axes: str) -> str:
    """Returns the title of a figure of many results: the names of their specs, and the titles of its axes."""
    names = list(dict.fromkeys(str(result.manifest.get("spec", {}).get("name", "experiment")) for result in results))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    axis_titles = [title[0].lower() + title[1:] if title[1:2].islower() else title for title in axes]
    return f"{names[0]}{more}, by {' and '.join(axis_titles)}"


def _caption(lines: Sequence[Curve], keys: Mapping[str, str], left_out: str) -> str:
    points = [point for line in lines for point in line.points]
    counts = sorted({point.results for point in points})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = [f"{name}: {key}" for name, key in keys.items() if key]
    few = {point.few for point in points if point.results > 1}
    dots = f"means of n = {many} seeds (dots) with 95 % intervals" if False in few else f"n = {many} seeds, a dot each"
    dots += ", or a marker each" if few == {True, False} else ""
    notes += [dots] if counts[-1] > 1 else ["one seed a point"]
    return "; ".join([*notes, left_out] if left_out else notes)


def _table(metric: str, lines: Sequence[Curve], axis: Axis, by_key: str, panel: str) -> Iterator[str]:
    """Yields the points as lines of text, with one unit for the whole metric."""
    scale = readable.scale_of(readable.family_of(metric), [point.mean for line in lines for point in line.points])
    unit, of_panel = f" ({scale.unit})" if scale.unit else "", f"; {panel}" if panel else ""
    yield f"{metric}{unit} by {axis.key}, a line for each {by_key}{of_panel}"
    width = max([16, *(len(line.name) for line in lines)])
    for line in lines:
        for point in line.points:
            yield f"  {line.name:{width}} {axis.text(point.x):>12} {_value(point, scale):>16}  (n = {point.results})"


def _value(point: CurvePoint, scale: Scale) -> str:
    """Returns the mean with its interval, or the values where they are too few for one."""
    if point.few:
        return ", ".join(readable.number(scale.of(value)) for value in point.values)
    half = None if point.half_width is None else point.half_width / scale.factor
    return readable.with_interval(scale.of(point.mean), half)


def curves(results: Iterable[Result], x_key: str, metric: str, by_key: str) -> list[Curve]:
    """Returns the lines of a figure, with their points sorted by x; none if the metric is null in every result.

    Lines are sorted by size if their names are numbers or quantities, else they are in the order of their first occurrence. A
    result without the metric (null) is left out.

    Raises UsageError if results of one point are of different experiments.
    """
    groups: dict[str, dict[float | str, list[tuple[Result, float]]]] = {}
    results = list(results)
    places = spec_keys.names(results, x_key) if x_key == POLICIES[1] else [spec_keys.place(result, x_key) for result in results]
    for result, x, line in zip(results, places, spec_keys.names(results, by_key), strict=True):
        value = _metric(result, metric)
        group = groups.setdefault(line, {})
        if value is not None:
            group.setdefault(x, []).append((result, value))
    lines = [
        Curve(name, tuple(_point(x, groups[name][x]) for x in _ordered(groups[name])))
        for name in sorted(groups, key=lambda name: spec_keys.in_order(name)[0])
    ]
    return [line for line in lines if line.points]


def _equal_seeds(results: Sequence[Result]) -> str:
    """Returns a line if runs of several seeds are equal."""
    points: dict[str, list[str]] = {}
    for result in results:
        points.setdefault(str(sorted((spec_keys.settings(result) | result.inputs).items())), []).append(
            json.dumps(result.summary, sort_keys=True)
        )
    return told_of_equal_seeds(points.values())


def _metric(result: Result, metric: str) -> float | None:
    """Returns a number of the summary, or an element of a list of numbers, such as flow_goodput_bps.0.

    A run may lack a metric that others have: a run without an agent has no return. It counts as null.
    """
    name = metric.partition(".")[0]
    if name not in result.summary and name in NAMES:
        return None
    if name not in result.summary:
        numbers = [name for name, value in result.summary.items() if isinstance(value, int | float)]
        raise UsageError(
            f"{metric!r} is not a metric of {result.path}; {spec_keys.near(metric, numbers, 'its summary.json has them')}"
        )
    value = spec_keys.at(result.summary, metric)
    if value is not None and not isinstance(value, int | float):
        raise UsageError(f"{metric!r} of {result.path} is not one number; name an element, such as {metric}.0, or another metric")
    return None if value is None else float(value)


def _ordered(group: Mapping[float | str, Any]) -> list[float | str]:
    """Returns numbers by size, then texts in their order."""
    return [*sorted(x for x in group if isinstance(x, float)), *(x for x in group if isinstance(x, str))]


def _point(x: float | str, measured: Sequence[tuple[Result, float]]) -> CurvePoint:
    """Returns the mean over results that differ only in their seed."""
    first, *others = (spec_keys.settings(result) for result, _ in measured)
    for other in others:
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                values = f"{first.get(key, 'not given')}, {other.get(key, 'not given')}"
                raise UsageError(f"{key} varies, too ({values}): make it --x or --by, or choose one value")
    estimate = stats.estimate([value for _, value in measured])
    assert estimate is not None, "summary.json holds finite numbers"
    return CurvePoint(x, estimate.mean, None if estimate.few else estimate.half, estimate.values)
