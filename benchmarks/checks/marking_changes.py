# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench marking-changes`: a switch port whose ECN marking is changed all the time, as under an agent.

The port's queue never empties. A change must not lose, duplicate or reorder a frame, and it holds for the frames that come after
it alone. The kernel is asked after each change what it has. The parts are a `port` by itself, a RED by itself, and a fat-tree
whose agent sets every port, and then every class of its ports.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.base.files import scratch
from dc_gym.benchmarks.checks import marking_changes_guest as guest
from dc_gym.benchmarks.checks.lab_job import run_guest
from dc_gym.envs.env import as_spec
from dc_gym.envs.session import Session
from dc_gym.kernel import build

CHANGES = 100_000
SIGMAS = 5
STEPS = 500
CLASSES = [{"name": name, "dscp": [dscp], "weight": 50} for name, dscp in (("tcp", 0), ("rdma", 26))]


def play(kernel: Path, changes: int, qdisc: str, seed: int = 1) -> dict[str, Any]:
    """Returns what the guest found."""
    with scratch(Path(tempfile.gettempdir()), "dcgym-bench-") as folder:
        (folder / "job.json").write_text(json.dumps({"changes": changes, "seed": seed, "qdisc": qdisc}))
        run_guest(kernel, "marking-changes", folder)
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
        return answer


def of_a_port(found: dict[str, Any], qdisc: str) -> Iterator[Check]:
    """Yields the checks on what the guest found."""
    sent, arrived = len(found["settings"]), found["arrived"]
    changes = sent - guest.QUEUED
    yield Check(
        f"{qdisc}, {changes:,} changes: frames in order",
        f"{sent:,}, none lost or twice",
        _order(arrived, sent),
        arrived == [*range(sent)],
    )
    yield Check(f"{qdisc}: frames that the queue dropped", "0", str(found["drops"]), found["drops"] == 0)
    yield Check(f"{qdisc}: changes after which the kernel has another setting", "0", str(found["unlike"]), found["unlike"] == 0)
    numbers = np.array(arrived[guest.QUEUED :], int)
    setting, marked = np.array(found["settings"])[numbers], np.array(found["marked"][guest.QUEUED :])
    for which, name, asked in ((0, "none", 0), (1, "each", 1)):
        wrong = int((marked[setting == which] != asked).sum())
        yield Check(f"{qdisc}: frames sent where {name} is marked: marked otherwise", "0", str(wrong), wrong == 0)
    drawn = marked[setting == 2]
    share, bound = float(drawn.mean()), SIGMAS * 0.5 / math.sqrt(len(drawn))
    yield Check(
        f"{qdisc}: share marked where it is one in two", f"0.5 within {bound:.3f}", f"{share:.4f}", abs(share - 0.5) <= bound
    )
    room = guest.LIMIT_BYTES // guest.FRAME_BYTES
    yield Check(
        f"{qdisc}: frames that the queue takes afterwards",
        f"{room} to {room + 1}",
        str(found["filled"]),
        room <= found["filled"] <= room + 1,
    )


def _order(arrived: list[int], sent: int) -> str:
    """Describes the fault of the order of frames."""
    lost, twice = sent - len(set(arrived)), len(arrived) - len(set(arrived))
    late = sum(later < earlier for earlier, later in pairwise(arrived))
    return f"{len(arrived):,}: {lost} lost, {twice} twice, {late} out of order"


def of_a_fabric(steps: int = STEPS, actuators: str = "marking") -> Iterator[Check]:
    """Yields the checks on a fat-tree under DCTCP where an agent draws another setting for each port, or for each class, at each
    step."""
    what, classes = ("classes", {"classes": CLASSES}) if actuators.startswith("class") else ("ports", {})
    spec = {
        "topology": {"preset": "fattree-k4", **classes},
        "controller": {"name": "dctcp"},
        "agent": {"interval": "100us", "actuators": actuators, "publish": f"{100 * steps}us"},
        "workload": {"kind": "random"},
        "time": {"duration": f"{100 * steps}us"},
    }
    drawn = np.random.default_rng(1)
    with Session(as_spec(spec)) as session:
        session.begin(seed=1)
        unlike, (rows,) = 0, session.scene.actuated
        for _ in range(session.steps):
            values = np.sort(drawn.uniform(rows.low, rows.high)[:, :2], axis=1)
            wanted = np.column_stack([np.floor(values), np.floor(drawn.uniform(rows.low[:, 2], rows.high[:, 2]))]).reshape(-1)
            frame = session.step(wanted)
            unlike += int((frame.enforced != wanted).reshape(rows.low.shape).any(axis=1).sum())
        changes = session.steps * len(rows.names)
    yield Check(
        f"fat-tree: {changes:,} changes of {len(rows.names)} {what}: in force is what was wanted",
        "all",
        f"{unlike} not",
        not unlike,
    )


def checks(kernel: Path | None = None) -> Iterator[Check]:
    kernel = kernel or build.ensure().path
    for qdisc in ("port", "red"):
        yield from of_a_port(play(kernel, CHANGES, qdisc), qdisc)
    yield from of_a_fabric()
    yield from of_a_fabric(actuators="class:marking")
