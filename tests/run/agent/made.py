# SPDX-License-Identifier: Apache-2.0
"""Made-up scenes and frames for the tests of observations, actions, rewards and policies. Nothing here was measured.

The dumbbell of preset dumbbell-10m: rows s1-eth1..3, s2-eth1..3, h1..h4; 10 Mbit/s, 400 kB, base RTT 3,852,000 ns; its pairs
h1 -> h3 and h2 -> h4 share the middle link s1-eth3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dc_gym import spec
from dc_gym.monitors.state_matrix import COLUMNS, FLOW
from dc_gym.run.agent.frame import Floats, FlowInfo, Frame
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.plan.experiment import Experiment

MS = 10**6
ROWS = {name: row for row, name in enumerate(["s1-eth1", "s1-eth2", "s1-eth3", "s2-eth1", "s2-eth2", "s2-eth3"])}
ROWS |= {f"h{i}-eth0": 5 + i for i in (1, 2, 3, 4)}
WAITING, RUNNING, DONE, STOPPED = range(4)
STEP = 'topology.marking="step"'
"""Every switch port marks from K = 3028 bytes on, which agents can change."""
CLASSES = (
    'topology.classes=[{name = "tcp", dscp = [0], weight = 50},'
    ' {name = "rdma", dscp = [26], weight = 50, buffer = "100kB", marking = "step", k_bytes = "20kB"}]'
)
"""Each port has two classes."""


def experiment(*overrides: str) -> Experiment:
    """Returns an experiment on the dumbbell with its pairs, or with other settings."""
    return Experiment.of(spec.of_preset("dumbbell-10m", ['workload.kind="pairs"', *overrides]))


def scene(*overrides: str, hosts: str = "all", step_ns: int = 10 * MS) -> tuple[Scene, FlowInfo]:
    network = experiment(*overrides)
    agent_scene = Scene.of(network, replace(network.spec.agent, hosts=hosts, interval_ns=step_ns))
    return agent_scene, flow_info(network, agent_scene)


def cells(**columns: dict[str, int]) -> np.ndarray[Any, Any]:
    """Returns the dumbbell's cells: 0, but for those given, as in cells(backlog_bytes={"s1-eth3": 1000})."""
    matrix = np.zeros((len(ROWS), len(COLUMNS)), np.uint64)
    for column, values in columns.items():
        for port, value in values.items():
            matrix[ROWS[port], COLUMNS.index(column)] = value
    return matrix


def class_cells(scene: Scene, **columns: dict[str, int]) -> np.ndarray[Any, Any]:
    """Returns the cells of a scene's classes: 0, but for those given, as in class_cells(scene, marks={"s1-eth3:rdma": 3})."""
    matrix = np.zeros((len(scene.classes.names), len(COLUMNS)), np.uint64)
    for column, values in columns.items():
        for name, value in values.items():
            matrix[scene.classes.names.index(name), COLUMNS.index(column)] = value
    return matrix


def flows(*rows: dict[str, int]) -> np.ndarray[Any, Any]:
    """Returns one record per dict; fields that a dict does not set are those of a waiting flow."""
    records = np.zeros(len(rows), FLOW)
    records["start_ns"] = records["end_ns"] = -1
    for index, row in enumerate(rows):
        for name, value in row.items():
            records[name][index] = value
    return records


def frame(info: FlowInfo, **changes: Any) -> Frame:
    """Returns the frame of step 1 (10 ms long) of a network where nothing happens, unless told otherwise."""
    nothing, waiting, hosts = cells(), flows(*[{}] * len(info)), len(info.host_row)
    values: dict[str, Any] = {"step": 1, "t_ns": 10 * MS, "elapsed_ns": 10 * MS, "cells": nothing, "before": nothing}
    values |= {"flows": waiting, "flows_before": waiting, "wanted_bps": np.full(hosts, 1e7), "enforced_bps": np.full(hosts, 1e7)}
    values |= changes
    return Frame(**({"info": info, "in_force_bps": values["wanted_bps"]} | values))


def random_frame(scene: Scene, info: FlowInfo, rng: np.random.Generator, step: int = 1) -> Frame:
    """Returns a frame with random counters, queues and flows, extreme values among them."""
    rows, count, hosts = len(scene.ports), len(info), len(scene.hosts)
    elapsed_ns = 0 if step == 0 else int(rng.choice([1, 1000, MS, 10 * MS, 10**9]))

    def level(rows: int, buffer_bytes: Floats) -> Any:
        counters = rng.integers(0, 2 ** int(rng.integers(1, 40)), (rows, len(COLUMNS)), dtype=np.uint64)
        counters[:, 0] = rng.choice([0.0, 1.0, rng.random()], rows) * buffer_bytes
        return counters

    def some_flows() -> Any:
        records = np.zeros(count, FLOW)
        for name in FLOW.names:
            records[name] = rng.integers(0, 2 ** int(rng.integers(1, 31)), count)
        records["status"] = rng.integers(0, 5, count)
        records["end_ns"] = records["start_ns"] + rng.integers(1, 10**9, count)
        return records

    before, was = level(rows, scene.buffer_bytes), some_flows()
    now, then = level(rows, scene.buffer_bytes), some_flows()
    now[:, 2:7] += before[:, 2:7]
    for name in ("received_bytes", "acked_bytes", "retransmits"):
        then[name] += was[name]
    if step == 0:
        before, was = now, then
    rates = scene.floor_bps + rng.random((3, hosts)) * (scene.line_bps - scene.floor_bps)
    commanded, enforced = random_values(scene, rng), random_values(scene, rng)
    if scene.rates is not None:
        commanded[scene.rates], enforced[scene.rates] = rates[0], rates[2]
    classes = [level(len(scene.classes.names), scene.classes.buffer_bytes) for _ in range(2)] if scene.classes.names else []
    if classes:
        classes[0][:, 2:7] += classes[1][:, 2:7]
        classes[1] = classes[0] if step == 0 else classes[1]
    return Frame(step, step * scene.step_ns, elapsed_ns, now, before, then, was, *rates, info, commanded, enforced, *classes)


def random_values(scene: Scene, rng: np.random.Generator) -> Floats:
    """Returns values that agents can set, [values]: within their bounds, and none below another that it must not be below."""
    values_by_actuator = []
    for rows in scene.actuated:
        values = rng.integers(rows.low, rows.high, endpoint=True).astype(float)
        for number, earlier in rows.ordered:
            values[:, number] = np.maximum(values[:, number], values[:, earlier])
        values_by_actuator.append(values.ravel())
    return np.concatenate(values_by_actuator)
