# SPDX-License-Identifier: Apache-2.0
"""`dcgym plot DIR --x KEY --y METRIC`: what many results say of one key of their specs: a line a controller, a point a value.

A point is the mean over the seeds of one experiment; its bar is the 95 % interval of that mean (Student's t), and there is none
for a single result. Results at one point that differ in more than the seed are refused: their spread would be no interval.
Unfit results are left out. A key is a dotted one of docs/spec.md, a metric a number of summary.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym import controllers, spec, stats, units
from dc_gym.errors import SpecError, UsageError
from dc_gym.figures import plots
from dc_gym.results import PARTIAL, Result, load_result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Axis", "Curve", "Point", "curves", "find_results", "main"]

DEPTH = 3
HASH_DIGITS = 8
BY_DEFAULT = "controller.name"
WIDE = 15  # values that differ by more than this factor get a logarithmic axis
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "_bps": ((1e-9, "Gbit/s"), (1e-6, "Mbit/s"), (1e-3, "kbit/s"), (1, "bit/s")),
    "_bytes": ((1e-6, "MB"), (1e-3, "kB"), (1, "B")),
    "_us": ((1e-6, "s"), (1e-3, "ms"), (1, "us")),
    "_ns": ((1e-9, "s"), (1e-6, "ms"), (1e-3, "us"), (1, "ns")),
    "_s": ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")),
}
"""By the last part of a name: factors to the units that a reader likes, from the largest on."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the key."""

    x: float | str
    mean: float
    half_width: float | None
    """Of the 95 % interval; None: one result."""
    results: int


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one line, by x."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """The key that a figure goes by."""

    key: str
    family: str
    """The ending of SCALES that its numbers have; '' where they are plain numbers or texts."""

    def scale(self, values: Sequence[float | str]) -> tuple[float, str]:
        """Factor and unit that suit these values."""
        return _scale(self.family, [value for value in values if isinstance(value, float)])

    def label(self, values: Sequence[float | str]) -> str:
        unit = self.scale(values)[1]
        return f"{self.key} ({unit})" if unit else self.key

    def text(self, x: float | str) -> str:
        factor, unit = self.scale([x])
        return x if isinstance(x, str) else f"{x * factor:.4g} {unit}".rstrip()


def main(folder: Path, x_key: str, metrics: Sequence[str], by_key: str, out: Path | None) -> int:
    """Draws, prints the points as a table, and says where the figure is."""
    found = find_results(folder)
    results = [result for result in found if result.fit]
    if not results:
        raise UsageError(f"{folder}: all of its {len(found)} results are unfit; look at their unfit_reasons in manifest.json")
    panels = {metric: curves(results, x_key, metric, by_key) for metric in metrics}
    axis = Axis(x_key, _family(results, x_key))
    path = draw(panels, axis, by_key, out or folder / f"{'-'.join(metrics)}.png")
    for metric, lines in panels.items():
        width = max(16, *(len(line.name) for line in lines))
        print(f"{metric} by {x_key}, a line for each {by_key}")
        for line in lines:
            for point in line.points:
                spread = f" +- {point.half_width:.3g}" if point.half_width is not None else ""
                print(f"  {line.name:{width}} {axis.text(point.x):>12} {point.mean:12.6g}{spread}  (n = {point.results})")
    if len(results) < len(found):
        print(f"left out: {len(found) - len(results)} unfit of {len(found)} results")
    print(path)
    return 0


def find_results(folder: Path) -> list[Result]:
    """Every whole result below a folder, in the order of their paths."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; give one that holds results, such as that of a sweep")
    paths = {path.parent for depth in range(DEPTH) for path in folder.glob("*/" * depth + "manifest.json")}
    found = [load_result(path) for path in sorted(paths) if not path.name.endswith(PARTIAL)]
    if not found:
        raise UsageError(f"{folder}: it holds no result; give the folder of a sweep, or one with several results")
    return found


def curves(results: Iterable[Result], x_key: str, metric: str, by_key: str) -> list[Curve]:
    """Lines in the order in which their names first occur; points by x. A result without the metric (null) is left out.

    UsageError if results of one point are of different experiments.
    """
    groups: dict[str, dict[float | str, list[tuple[Result, float]]]] = {}
    for result in results:
        x, line, value = _key(result, x_key), _line(result, by_key), _metric(result, metric)
        group = groups.setdefault(line, {})
        if value is not None:
            group.setdefault(x, []).append((result, value))
    lines = [Curve(name, tuple(_point(x, group[x]) for x in _ordered(group))) for name, group in groups.items()]
    if not any(line.points for line in lines):
        raise UsageError(f"{metric} is null in every result; choose a metric that these workloads have")
    return [line for line in lines if line.points]


def draw(panels: Mapping[str, Sequence[Curve]], axis: Axis, by_key: str, path: Path) -> Path:
    """One panel a metric, one below the other."""
    with plots.style():
        figure = plots.new_figure(5.6, 0.6 + 2.5 * len(panels))
        axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for ax, (metric, lines) in zip(axes, panels.items(), strict=True):
            _panel(ax, metric, lines, axis)
        axes[-1].set_xlabel(axis.label([point.x for lines in panels.values() for line in lines for point in line.points]))
        if len(next(iter(panels.values()))) > 1:
            title = None if by_key == BY_DEFAULT else by_key
            axes[0].legend(loc="best", fontsize=8, title=title, title_fontsize=8)
        plots.save(figure, path)
    return path


def _panel(ax: Axes, metric: str, lines: Sequence[Curve], axis: Axis) -> None:
    xs = [point.x for line in lines for point in line.points]
    numbers = [x for x in xs if isinstance(x, float)]
    numeric = len(numbers) == len(xs)
    places = {} if numeric else {x: float(place) for place, x in enumerate(dict.fromkeys(xs))}
    x_scale = axis.scale(xs)[0]
    means = [point.mean for line in lines for point in line.points]
    y_scale, y_unit = _scale(_suffix(metric), [max(map(abs, means))])
    for number, line in enumerate(lines):
        at = [places[point.x] if places else float(point.x) * x_scale for point in line.points]
        heights = np.array([point.mean for point in line.points]) * y_scale
        halves = np.array([point.half_width or 0.0 for point in line.points]) * y_scale
        known = controllers.find(line.name)
        color = known.color if known else plots.FLOW_COLORS[number % len(plots.FLOW_COLORS)]
        label, marker = (known.label, known.marker) if known else (line.name, "o")
        ax.errorbar(at, heights, yerr=halves if halves.any() else None, color=color, marker=marker, ms=4, capsize=2, label=label)
    if not numeric:
        ax.set_xticks(list(places.values()), [str(x) for x in places])
    elif _wide(numbers):
        ticks = _apart(sorted({x * x_scale for x in numbers}))
        ax.set_xscale("log")
        ax.set_xticks(ticks, [f"{tick:.6g}" for tick in ticks])
        ax.minorticks_off()
    if _wide(means):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif min(means) >= 0:
        ax.set_ylim(0, 1.04 * max(means) * y_scale or None)
    ax.set_ylabel(_title(metric) + (f" ({y_unit})" if y_unit else ""))


def _wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > WIDE


def _apart(values: Sequence[float]) -> list[float]:
    """Of rising values those that a logarithmic axis can name without overlap: a twelfth of its length from the last one."""
    kept, gap = [values[0]], (values[-1] / values[0]) ** (1 / 12)
    for value in values[1:]:
        if value >= kept[-1] * gap:
            kept.append(value)
    return kept


def _at(tree: Any, path: str) -> Any:
    """What a dotted path leads to in dicts and lists, as in topology.links.0.delay; None where it leads nowhere."""
    for part in path.split("."):
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, Sequence) and not isinstance(tree, str) and part.isdecimal() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def _written(result: Result, key: str) -> Any:
    """What the result's spec says of a key; '-' where it says nothing."""
    value = _at(result.manifest.get("spec", {}), key)
    if value is not None:
        return value
    names = spec.keys()
    if not any(key == name or key.startswith(f"{name}.") for name in names):
        raise UsageError(f"{key!r} is no key of a spec; take one of docs/spec.md, such as topology.buffer or seed")
    return "-"


def _line(result: Result, by_key: str) -> str:
    """The line that a result is in; by controller a policy is one of its own, and of policies from files each content."""
    section = _at(result.manifest.get("spec", {}), "controller")
    if by_key == BY_DEFAULT and isinstance(section, Mapping) and section.get("policy"):
        return " ".join([controllers.label_of(section), result.inputs.get(spec.POLICY_COPY, "")[:HASH_DIGITS]]).rstrip()
    return str(_written(result, by_key))


def _key(result: Result, key: str) -> float | str:
    """A number in base units where the value is a number or a quantity; else its text."""
    value = _written(result, key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    parsed = _quantity(value)
    return str(value) if parsed is None else parsed[0]


def _quantity(value: Any) -> tuple[float, str] | None:
    """Base units of a text such as "10ms", and the ending that names them in SCALES."""
    for parse, ending in ((units.parse_rate_bps, "_bps"), (units.parse_time_ns, "_ns"), (units.parse_size_bytes, "_bytes")):
        try:
            return float(parse(value)), ending
        except SpecError:
            continue
    return None


def _metric(result: Result, metric: str) -> float | None:
    """A number of the summary; of a list of them an element, as in flow_goodput_bps.0."""
    if metric.partition(".")[0] not in result.summary:
        numbers = [name for name, value in result.summary.items() if isinstance(value, int | float)]
        raise UsageError(f"{metric!r} is no metric of {result.path}; one of: {', '.join(numbers)}")
    value = _at(result.summary, metric)
    if value is not None and not isinstance(value, int | float):
        raise UsageError(f"{metric!r} of {result.path} is not one number; name an element, such as {metric}.0, or another metric")
    return None if value is None else float(value)


def _ordered(group: Mapping[float | str, Any]) -> list[float | str]:
    """Numbers by size; texts as they came, behind them."""
    return [*sorted(x for x in group if isinstance(x, float)), *(x for x in group if isinstance(x, str))]


def _point(x: float | str, measured: Sequence[tuple[Result, float]]) -> Point:
    """The mean over results that differ in nothing but their seed."""
    first, *others = (_settings(result) for result, _ in measured)
    for other in others:
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                values = f"{first.get(key, 'not given')}, {other.get(key, 'not given')}"
                raise UsageError(f"{key} varies, too ({values}): make it --x or --by, or keep it fixed")
    found = stats.estimate([value for _, value in measured])
    assert found is not None, "summary.json holds finite numbers"
    return Point(x, found.mean, found.half, found.n)


def _settings(result: Result) -> dict[str, str]:
    """The spec by dotted key, but for what makes no other experiment of it: its seed, its name, the lab's memory."""
    found = dict(_leaves(result.manifest.get("spec", {})))
    return {key: value for key, value in found.items() if key not in ("seed", "name", "lab.memory")}


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    else:
        yield path, str(tree)


def _title(metric: str) -> str:
    """flow_goodput_bps.0 -> flow goodput 0."""
    name, _, element = metric.partition(".")
    return f"{name.removesuffix(_suffix(metric)).replace('_', ' ')} {element}".rstrip()


def _suffix(metric: str) -> str:
    """The part of a metric's name that says its unit; '' without."""
    return next((suffix for suffix in SCALES if metric.partition(".")[0].endswith(suffix)), "")


def _family(results: Iterable[Result], key: str) -> str:
    """The unit of a key: that of its texts, or of the spec's field where it is written as a plain number."""
    found = {(_quantity(value) or (0.0, spec.unit_of(key)))[1] for value in (_written(result, key) for result in results)}
    return found.pop() if len(found) == 1 else ""


def _scale(family: str, values: Sequence[float]) -> tuple[float, str]:
    """Factor and unit for values in base units: the largest unit in which none but 0 is below 1."""
    least = min((abs(value) for value in values if value), default=0.0)
    scales = SCALES.get(family, ((1.0, ""),))
    return next(((factor, unit) for factor, unit in scales if least * factor >= 1), scales[-1])
