# SPDX-License-Identifier: Apache-2.0
"""The manifest of a run (docs/results.md): the spec, the environment, and facts about the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym import __version__
from dc_gym.base import usercode
from dc_gym.base.files import machine_errors, whole
from dc_gym.results import calibration, fingerprint, results
from dc_gym.results.figures import styles
from dc_gym.results.metrics.ideal import Ideal
from dc_gym.run.execution import Clock
from dc_gym.run.grounds.ground import Ground
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.nics import NicPlan
from dc_gym.run.plan.plan import CAPTURES
from dc_gym.run.result.read_back import RunCounts
from dc_gym.topologies.paths import base_rtt_ns
from dc_gym.topologies.scale import not_scale_free

if TYPE_CHECKING:
    from dc_gym.run.agent.driver import PolicyDriver

NS = 1e-9


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run before its traffic: its parts."""

    experiment: Experiment
    ground: Ground
    environment: dict[str, str]
    """The parts of the fingerprint."""
    inputs: Mapping[str, str]
    """SHA-256 of the files that the spec reads, by the names of their copies."""
    nic: NicPlan | None
    driver: PolicyDriver | None
    """The policy that acts in the run."""
    disturb: str


def manifest(
    run: PreparedRun, ports: Sequence[Mapping[str, Any]], counts: RunCounts, ideals: Ideal | None, clock: Clock, folder: Path
) -> dict[str, Any]:
    """Returns the manifest without the keys that results.write_result() adds. The user's code is copied into the folder."""
    facts = (
        _what_was_run(run, counts, clock) | _findings(run, ports, counts, ideals) | run.ground.facts() | _scale(run.experiment)
    )
    if run.nic is not None:
        facts["nic"] = run.nic.facts
    if run.driver is not None:
        facts["agent"] = run.driver.totals()
    if rows := _captures(counts.found):
        facts["capture"] = rows
    if counts.events:
        facts["events"] = counts.events
    if run.inputs:
        facts["inputs"] = run.inputs
    spec = run.experiment.spec
    if spec.episodes.draw:
        facts["drawn"] = spec.drawn(spec.seed)
    if policies := results.policies(spec.copies()):
        facts["policies"] = policies
    if style := styles.to_record(spec.controller.name):
        facts["style"] = style
    if code := usercode.keep(spec.code(), folder):
        facts["code"] = code
    return facts


def set_times(path: Path, clock: Clock) -> None:
    """Updates the times in a manifest, which the result's end and its plot prolong. The manifest is complete at any time."""
    manifest = json.loads(path.read_text())
    manifest["wall_s"] = {name: round(seconds, 4) for name, seconds in clock.wall_s.items()}
    manifest["cpu_s"] = {name: round(seconds, 2) for name, seconds in clock.cpu_s.items()}
    with machine_errors("write", path), whole(path, durable=True) as work:
        work.write_text(json.dumps(manifest, indent=1) + "\n")


def _what_was_run(run: PreparedRun, counts: RunCounts, clock: Clock) -> dict[str, Any]:
    spec = run.experiment.spec
    return {
        "spec": spec.to_dict(copied=True),
        "seed": spec.seed,
        "ground": spec.ground,
        "clock": spec.clock,
        "dcgym": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": run.environment,
        "fingerprint": fingerprint.fingerprint(run.environment),
        "sources": fingerprint.sources(spec),
        "t0_ns": counts.t0_ns,
        "virtual_s": spec.time.duration_ns * NS,
        "wall_s": dict(clock.wall_s),
        "cpu_s": dict(clock.cpu_s),
        "fit": not counts.unfit,
        "unfit_reasons": counts.unfit,
    } | ({"disturb": run.disturb} if run.disturb else {})


def _findings(run: PreparedRun, ports: Sequence[Mapping[str, Any]], counts: RunCounts, ideals: Ideal | None) -> dict[str, Any]:
    ground_counts = counts.found
    return {
        "workload": dict(run.experiment.notes),
        "ideal": None if ideals is None else ideals.facts,
        "conservation": counts.conservation,
        **({} if counts.deadlock is None else {"deadlock": list(counts.deadlock)}),
        "calibration": calibration.rows(ports, ground_counts["read_back"]) + ground_counts.get("calibration", []),
    } | {name: ground_counts[name] for name in ("fidelity", "exec", "acks") if ground_counts.get(name)}


def _captures(ground_counts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns for each captured port the counters of its capture, and the port's own counters until the run's end."""
    rows = []
    for port, frames in ground_counts.get("capture", {}).items():
        before, after = ground_counts["before"][port], ground_counts["after"][port]
        counted = {name: after[name] - before.get(name, 0) for name in ("tx_packets", "rx_packets", "pauses_sent")}
        port_counts = {"port_sent": counted["tx_packets"] + counted["pauses_sent"], "port_received": counted["rx_packets"]}
        rows.append({"port": port, "file": f"{CAPTURES}/{port}.pcapng", **frames, **port_counts})
    return rows


def _scale(experiment: Experiment) -> dict[str, Any]:
    """Returns the factor by which a network is slowed down, and the times that do not scale with it."""
    factor = experiment.spec.topology.scale or 1
    if factor == 1:
        return {}
    lines = not_scale_free(factor, base_rtt_ns(experiment.graph), experiment.spec.controller.rto_min_ns)
    return {"scale": {"factor": factor, "not_scale_free": lines}}
