# SPDX-License-Identifier: Apache-2.0
"""`dcgym run`: runs one experiment and shows its main numbers."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym.base.terminal import say
from dc_gym.ctrl.controllers import policy_name

if TYPE_CHECKING:
    from dc_gym.results.results import Result
    from dc_gym.spec import Spec


def main(args: Namespace) -> int:
    """Runs the experiment, and prints its numbers and whether the result is fit."""
    from dc_gym.base.progress import choose
    from dc_gym.run.loading import collection_paused

    with collection_paused():
        from dc_gym.run.plan.plan import DISTURB
        from dc_gym.spec import load

        overrides = _of_flows(args) + _of_qos(args) + args.overrides + ([f"ground={args.ground}"] if args.ground else [])
        overrides += [f"capture.ports={json.dumps(args.pcap)}"] if args.pcap else []
        spec = load(args.spec, overrides, args.seed, trust=args.trust, say=lambda line: say(f"dcgym: {line}", file=sys.stderr))
        spec = replace(spec, kernel=replace(spec.kernel, tree=args.kernel_tree))
        runner = importlib.import_module("dc_gym.run.runner")
    out = args.out or _default_out(spec)
    before = _drawn(out)
    with choose(args.quiet) as progress:
        disturb = os.environ.get(DISTURB, "")
        result: Result = runner.run(spec, out, progress, force=args.force, plot=args.plot, disturb=disturb, gdb=args.gdb)
    _show_result(result)
    if gone := sorted(before - _drawn(out)):
        remedy = "`dcgym report` and `dcgym plot` make them of the new one"
        say(f"dcgym: warning: {', '.join(gone)} went with the result that was replaced; {remedy}", file=sys.stderr)
    for row in result.manifest.get("workload", {}).get("broken_rows", ()):
        say(f"dcgym: warning: {row}", file=sys.stderr)
    for fault in result.faults:
        say(f"dcgym: {fault}", file=sys.stderr)
    return 0 if result.fit else 1


def _of_flows(args: Namespace) -> list[str]:
    """Returns the overrides for --flows. With a network in another tool's file the run ends a second after the last start."""
    if args.flows is None:
        return []
    from dc_gym.base.key import S
    from dc_gym.base.units import format_time
    from dc_gym.topologies.files import is_network
    from dc_gym.traffic.files import read

    last_ns = max((flow.start_ns for flow in read(args.flows).flows), default=0)
    duration = [f"time.duration={format_time(last_ns + S)}"] if is_network(args.spec) else []
    return [*duration, "workload.kind=file", f"workload.file={json.dumps(str(args.flows))}"]


def _of_qos(args: Namespace) -> list[str]:
    """Returns the overrides for --qos, and tells what is not used."""
    if args.qos is None:
        return []
    from dc_gym.topologies import sonic_qos

    settings = sonic_qos.read(args.qos)
    for line in settings.not_used:
        say(f"dcgym: {args.qos.name}: not used: {line}", file=sys.stderr)
    return [f"{key}={_toml(value)}" for key, value in settings.values.items()]


def _toml(value: Any) -> str:
    """Returns a value as TOML. JSON differs from it in tables alone."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + "}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value)


def _drawn(folder: Path) -> set[str]:
    """Returns the pages and figures in a result's folder."""
    return {path.name for path in folder.glob("*") if path.suffix in (".html", ".png", ".pdf", ".svg")}


def _default_out(spec: Spec) -> Path:
    """Returns results/NAME-CONTROLLER-sSEED, in letters that every file system accepts.

    A policy stands in the controller's place.
    """
    name = re.sub(r"[^a-z0-9.]+", "-", spec.name.lower()).strip("-.") or "run"
    policy = spec.controller.policy
    acting = spec.controller.name if policy is None else policy_name(policy)
    acting = re.sub(r"[^a-z0-9.]+", "-", acting.lower())
    return Path("results") / f"{name}-{acting}-s{spec.seed}"


def _show_result(result: Result) -> None:
    """Prints a few numbers, the digest and the folder. null becomes '-'."""
    from dc_gym.base.readable import number
    from dc_gym.results.metrics.summary import has_idle_time

    summary = result.summary
    port = summary.get("bottleneck_port") or "-"
    drops, marks, lost = (number(summary.get(name)) for name in ("drops", "marks", "lost_on_links"))
    idle, completion = has_idle_time(summary), _completion_rows(summary)
    rows = [
        *_job_rows(summary.get("jobs", ())),
        *(completion if idle else []),
        ("goodput", _goodput(summary, idle)),
        ("utilization", _metric(summary, "utilization")),
        ("mean queue", f"{_metric(summary, 'mean_queue_bytes')} at {port}"),
        ("mean srtt", _metric(summary, "mean_srtt_us")),
        ("fairness", _fairness(summary)),
        ("drops", f"{drops}{_by_class(summary)}, marks {marks}"),
        *(
            [("lost", f"{lost} on links ({_metric(summary, 'loss_ratio')} of what hosts sent)")]
            if summary.get("lost_on_links")
            else []
        ),
        *_class_rows(summary.get("classes")),
        *([] if idle else completion),
        *_program_rows(result.manifest.get("exec", ())),
        *_agent_rows(result.manifest.get("agent")),
        *_capture_rows(result.manifest.get("capture", ())),
        *_ack_rows(result.manifest.get("acks")),
        ("digest", result.digest),
        ("result", str(result.path)),
    ]
    for name, text in rows:
        say(f"{name:12} {text}")
    if scale := result.manifest.get("scale"):
        say(f"{'scale':12} {scale['factor']}; not scale-free:")
        say("\n".join(f"{'':12} {line}" for line in scale["not_scale_free"]))


def _goodput(summary: Mapping[str, Any], idle: bool) -> str:
    """Returns the goodput of the window or, if it was idle for a part, of the time in which flows were active."""
    if not summary.get("flows"):
        return "- (the workload has no flows)"
    if not idle:
        return _metric(summary, "goodput_bps")
    return f"{_metric(summary, 'active_goodput_bps')} in the {_metric(summary, 'active_s')} with active flows"


def _fairness(summary: Mapping[str, Any]) -> str:
    """Returns Jain's index and the number of flows that it counts. Older results lack the number."""
    from dc_gym.base.readable import number

    jain, flows = summary.get("jain"), summary.get("jain_flows")
    if flows is None:
        return "-" if jain is None else f"{number(jain)} (Jain)"
    of = f"{flows:,} of {summary.get('flows') or 0:,} flows"
    return f"{number(jain)} (Jain, {of})" if jain is not None else f"- (Jain; {of} active throughout)"


def _by_class(summary: Mapping[str, Any]) -> str:
    """Returns the drops of each class of ports, where there are several."""
    class_drops = summary.get("class_drops") or ()
    return f" ({', '.join('{class} {drops:,}'.format(**row) for row in class_drops)})" if len(class_drops) > 1 else ""


def _agent_rows(totals: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """Returns the numbers that an environment would report of a run with a policy."""
    if not totals:
        return []
    from dc_gym.base.readable import number

    delays = [_metric(totals, name) for name in ("queueing_delay_s", "switch_delay_s", "host_delay_s")]
    where = f"{delays[0]} end to end; switches {delays[1]}, hosts {delays[2]}"
    return [("agent", f"return {number(totals['return'], 6)} in {totals['steps']:,.0f} steps"), ("delay", where)]


def _class_rows(classes: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, str]]:
    """Returns a row for each class of flows where there are several."""
    from dc_gym.base.readable import number
    from dc_gym.results.metrics.classes import label

    rows = []
    for entry in classes or ():
        fct = f", {entry['flows_done']:,} done in {_metric(entry, 'fct_mean_s')}" if entry["fct_mean_s"] is not None else ""
        jain = f", Jain {number(entry['jain'])}" if entry["jain"] is not None else ""
        share = f" ({_metric(entry, 'goodput_share')})" if entry["goodput_share"] is not None else ""
        rows.append(("class", f"{label(entry)}: {entry['flows']:,} flows, {_metric(entry, 'goodput_bps')}{share}{jain}{fct}"))
    return rows


def _completion_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the completion times if flows have a size."""
    flows, unfinished = summary.get("fct_flows") or 0, summary.get("fct_unfinished") or 0
    if not flows:
        flows_done = summary.get("flows_done") or 0
        why = f"{flows_done:,} flows done; TCP flows count that start between time.warmup and metrics.cutoff"
        return [("completion", f"- ({why})")] if flows_done else []
    mean, slowdown, tail = (_metric(summary, name) for name in ("fct_mean_s", "slowdown_p50", "slowdown_p99"))
    rows = [("completion", f"{mean} on average, {flows - unfinished:,} of {flows:,} flows finished")]
    return rows + ([("slowdown", f"{slowdown} median, {tail} at p99")] if slowdown != "-" else [])


def _job_rows(jobs: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns a row for each job."""
    rows = []
    for entry in jobs:
        length, iteration = _metric(entry, "job_s"), _metric(entry, "iteration_mean_s")
        bus = f", bus {_metric(entry, 'bus_bandwidth_bps')}" if entry["bus_bandwidth_bps"] else ""
        how_long = "not over at the end" if entry["job_s"] is None else length
        exposed = _metric(entry, "exposed_share")
        rows.append(("job", f"{how_long}, {entry['job_iterations']:,} iterations of {iteration}{bus}, exposed {exposed}"))
    return rows


def _capture_rows(captures: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns how many frames are in each file."""
    rows = []
    for capture in captures:
        lost = f"; {capture['lost']:,} found no room" if capture["lost"] else ""
        rows.append(("capture", f"{capture['file']}: {capture['sent']:,} frames sent, {capture['received']:,} received{lost}"))
    return rows


def _ack_rows(counts: Mapping[str, int] | None) -> list[tuple[str, str]]:
    """Returns how many ACKs the run recorded."""
    return [("acks", f"{counts['kept']:,} recorded, {counts['lost']:,} found no room")] if counts else []


def _program_rows(ends: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns how the programs of workload.exec ended."""
    return [("program", f"{end['command'][0]} in {end['host']}: {_how_it_ended(end)}") for end in ends]


def _how_it_ended(end: Mapping[str, Any]) -> str:
    return "stopped" if end.get("stopped") else f"exit {end.get('exit')}"


def _metric(values: Mapping[str, Any], name: str) -> str:
    """Returns a metric for readers, in the unit of its name."""
    from dc_gym.base.readable import family_of, quantity

    return quantity(values.get(name), family_of(name))
