# SPDX-License-Identifier: Apache-2.0
"""`dcgym topology`: describes and draws a spec's network: links, queues, marks, round trips, bottlenecks, scale."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym import spec as specs
from dc_gym.base.errors import ResultError
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.readable import quantity
from dc_gym.base.terminal import say
from dc_gym.base.units import PPB, PPM, format_rate, format_share, format_size
from dc_gym.cli.spec_or_preset import spec_or_preset
from dc_gym.results.folder import is_result
from dc_gym.spec import Spec
from dc_gym.spec.result_code import require_no_code
from dc_gym.topologies import presets
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.graph import NO_IMPAIRMENT, Graph, Impairment, Marking, Port
from dc_gym.topologies.paths import base_rtt_ns, bottleneck, one_way_ns, round_trip_ns
from dc_gym.topologies.scale import not_scale_free

if TYPE_CHECKING:
    from dc_gym.results.results import Result

MOST_PAIRS = 5000
A_PORT = 5001
BIT_NS = 8 * 10**9
TIME_DIGITS = 7
"""Number of digits of exact times."""
PAIR_HEADER = ("pairs", "such as", "links", "one way", "RTT", "bottleneck")


def main(args: Namespace) -> int:
    if args.png is not None:
        _check_name(args.png)
        mark = mark_of("topology", [args.spec if args.spec.is_file() else str(args.spec)], args.png)
        require_place(args.png, is_marked(mark), force=args.force, remedy="replace it with --force, or give another --png")
    network = _shown(args.spec, args.overrides)
    say("\n".join(describe(network)))
    if args.png is not None:
        say(f"\ndrawn      {_draw(network, args.png, mark)}")
    return 0


@dataclass(frozen=True, slots=True)
class ShownNetwork:
    """The network that is shown: its graph, and facts that the graph does not have."""

    graph: Graph
    preset: str | None
    kind: str
    scale: int
    fixed: Sequence[str]
    """The times and rates that do not scale, a line for each."""
    seed: int

    @classmethod
    def of_spec(cls, spec: Spec) -> ShownNetwork:
        params, graph = presets.resolve(spec.topology, spec.controller.ecn), spec.graph()
        scale = params.scale or 1
        fixed = not_scale_free(scale, base_rtt_ns(graph), spec.controller.rto_min_ns)
        return cls(graph, spec.topology.preset, str(params.kind), scale, fixed, spec.seed)

    @classmethod
    def of_result(cls, result: Result) -> ShownNetwork:
        """Returns the network as the run recorded it. Nothing of the result is run."""
        try:
            spec, scale = result.manifest["spec"], result.manifest.get("scale", {})
            topology, preset = spec["topology"], spec["topology"].get("preset")
            kind = topology.get("kind") or presets.PRESETS[preset].kind
            factor, fixed = int(scale.get("factor", 1)), [str(line) for line in scale.get("not_scale_free", [])]
            return cls(result.graph(), preset, str(kind), factor, fixed, int(spec.get("seed", 1)))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ResultError(f"{result.path / 'manifest.json'}: its spec names no network; the file was changed") from None


def describe(network: ShownNetwork) -> list[str]:
    """Returns the description of a network, line by line."""
    graph, rtt_ns, scale = network.graph, base_rtt_ns(network.graph), network.scale
    named = f"{network.preset}, a {network.kind}" if network.preset else network.kind
    lines = [f"topology   {named}", f"nodes      {_nodes(graph)}", f"base RTT   {_time(rtt_ns)}: a full frame there, an ACK back"]
    if scale > 1:
        lines.append(f"scale      {scale}: rates / {scale}, delays x {scale}, queues as they were; what follows is what runs")
    lines += ["", *_table(("links", "between", "rate", "delay", "impaired"), _link_rows(graph))]
    lines += ["", *_table(("ports", "of", "rate", "buffer", "frames", "BDPs", "marking"), _port_rows(graph, rtt_ns))]
    lines += ["", *_table((*_plane_cell(graph, "plane"), *PAIR_HEADER), _pair_rows(graph, network.seed))]
    if scale > 1:
        lines += ["", "not scale-free:", *(f"  {line}" for line in network.fixed)]
    return lines


def _shown(location: Path, overrides: Sequence[str]) -> ShownNetwork:
    folder = location.parent if location.name == "manifest.json" else location
    if not is_result(folder):
        return ShownNetwork.of_spec(
            spec_or_preset(str(location), overrides, say=lambda line: say(f"dcgym: {line}", file=sys.stderr))
        )
    from dc_gym.results.results import load_result  # imports NumPy, as does all that reads a result

    result = load_result(folder)
    if not overrides:
        return ShownNetwork.of_result(result)
    source, spec = str(folder / "manifest.json"), result.manifest.get("spec")
    if not isinstance(spec, Mapping):
        raise ResultError(f"{source}: has no spec; the file was changed")
    require_no_code(source, spec)
    return ShownNetwork.of_spec(specs.vary(spec, folder.absolute(), source, overrides, {}, source))


def _nodes(graph: Graph) -> str:
    layers = [str(switch.layer) for switch in graph.switches]
    switches = ", ".join(f"{layers.count(layer)} {layer}" for layer in dict.fromkeys(layers))
    planes = _planes(graph)
    return f"{len(graph.hosts)} hosts; switches: {switches}" + (f"; {planes} planes" if planes > 1 else "")


def _planes(graph: Graph) -> int:
    return max(len(host.nics) for host in graph.hosts)


def _plane_cell(graph: Graph, text: str) -> tuple[str, ...]:
    """Returns a first cell with the plane if there are several planes, otherwise no cell."""
    return (text,) if _planes(graph) > 1 else ()


def _layer(graph: Graph, node: str, names: dict[str, str]) -> str:
    return names.get(node, "host")


def _link_rows(graph: Graph) -> Iterator[tuple[str, ...]]:
    """Yields a row for each group of equal links, in the order of the first of each."""
    layers = {switch.name: str(switch.layer) for switch in graph.switches}
    groups: dict[tuple[str, ...], int] = {}
    for cable in graph.cables:
        ends = "-".join(_layer(graph, port.node, layers) for port in (cable.a, cable.b))
        directions = [(format_rate(way.rate_bps), _time(way.delay_ns), _impaired(way.impairment)) for way in cable.directions()]
        key: tuple[str, ...] = (ends, *(" back ".join(dict.fromkeys(values)) for values in zip(*directions, strict=True)))
        groups[key] = groups.get(key, 0) + 1
    for key, count in groups.items():
        yield str(count), *key


def _port_rows(graph: Graph, rtt_ns: int) -> Iterator[tuple[str, ...]]:
    """Yields a row for each group of equal queues."""
    layers = {switch.name: str(switch.layer) for switch in graph.switches}
    groups: dict[tuple[str, ...], int] = {}
    for port in graph.ports():
        bdp = graph.cable_of(port).rate_bps * rtt_ns / BIT_NS
        limit = port.queue.limit_bytes
        sizes = format_size(limit), f"{limit / graph.frame_bytes:.4g}", f"{limit / bdp:.3g}"
        row = (
            _layer(graph, port.node, layers),
            format_rate(graph.cable_of(port).rate_bps),
            *sizes,
            _marking(port, bdp, graph.frame_bytes),
        )
        groups[row] = groups.get(row, 0) + 1
    for key, count in groups.items():
        yield str(count), *key


def _marking(port: Port, bdp: float, frame_bytes: int) -> str:
    """Returns the marking thresholds in bytes, frames and BDPs."""
    marking: Marking = port.queue.marking
    if marking.kind == "none":
        return "none" if port.queue.kind == "bfifo" else f"none ({port.queue.kind})"

    def words(size: int) -> str:
        return f"{size} B = {size / frame_bytes:.3g} frames = {size / bdp:.3g} BDP"

    if marking.kind == "step":
        return f"step at K = {words(marking.k_bytes)}"
    ends = f"{words(marking.min_bytes)} .. {words(marking.max_bytes)}"
    return f"{marking.kind}: 0 .. {format_share(marking.probability_ppm, PPM)} at {ends}"


def _impaired(impairment: Impairment) -> str:
    if impairment == NO_IMPAIRMENT:
        return "-"
    words = [f"loss {format_share(impairment.loss_ppb, PPB)}"] if impairment.loss_ppb else []
    words += [f"jitter {_time(impairment.jitter_ns)}"] if impairment.jitter_ns else []
    if impairment.reorder_ppb:
        words.append(f"reorder {format_share(impairment.reorder_ppb, PPB)} by {_time(impairment.reorder_delay_ns)}")
    return ", ".join(words)


def _pair_rows(graph: Graph, seed: int) -> Iterator[tuple[str, ...]]:
    """Yields a row for each group of pairs with equal paths, plane by plane.

    With many hosts, it takes two hosts at each switch.
    """
    router = route(graph, seed)
    groups: dict[tuple[int, int, int, int, int], list[str]] = {}
    for plane in range(_planes(graph)):
        for a, b in combinations(_some_hosts(graph, plane), 2):
            crossed = path(graph, router, a, b, A_PORT, A_PORT, plane=plane)
            slowest = graph.cable_of(bottleneck(graph, crossed)).rate_bps
            key = plane, len(crossed), one_way_ns(graph, crossed), round_trip_ns(graph, crossed), slowest
            groups.setdefault(key, []).append(f"{a}-{b}")
    for (plane, links, one_way, there_and_back, slowest), pairs in sorted(groups.items()):
        cells = str(len(pairs)), pairs[0], str(links), _time(one_way), _time(there_and_back), format_rate(slowest)
        yield *_plane_cell(graph, str(plane)), *cells


def _some_hosts(graph: Graph, plane: int) -> list[str]:
    names = [host.name for host in graph.hosts if plane < len(host.nics)]
    if len(names) * (len(names) - 1) // 2 <= MOST_PAIRS:
        return names
    at: dict[str, list[str]] = {}
    for name in names:
        at.setdefault(graph.neighbours(name)[plane], []).append(name)
    return [name for below in at.values() for name in below[:2]]


def _time(time_ns: int) -> str:
    return quantity(time_ns, "ns", TIME_DIGITS)


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> list[str]:
    """Returns aligned columns."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _check_name(out: Path) -> None:
    from dc_gym.results.figures.kit import check_name  # imports NumPy, which takes longer than everything else here

    check_name(out)


def _title(network: ShownNetwork) -> str:
    slower = f", slowed down by {network.scale}" if network.scale > 1 else ""
    return f"{network.preset or network.kind}: {_nodes(network.graph)}{slower}"


def _draw(network: ShownNetwork, out: Path, mark: str) -> Path:
    from dc_gym.results.figures import kit
    from dc_gym.results.figures.topology import PLAIN, draw_topology, line_width

    graph = network.graph
    with kit.style():
        figure = kit.new_figure(10, 5)
        axes = figure.add_subplot()
        draw_topology(graph, axes)
        handles, labels = axes.get_legend_handles_labels()
        for rate_bps in sorted({cable.rate_bps for cable in graph.cables}, reverse=True):
            handles.append(kit.sample(PLAIN, linewidth=line_width(graph, rate_bps)))
            labels.append(quantity(rate_bps, "bps"))
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), markerscale=0.6)
        kit.title(figure, _title(network))
        return kit.save(figure, out, mark=mark)


__all__ = ["ShownNetwork", "describe", "main"]
