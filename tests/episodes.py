# SPDX-License-Identifier: Apache-2.0
"""Episodes whose every counter, flow and rate is compared with those of other labs, and what a lab holds of the machine.

An Episodes first runs an episode to its end, one that is cut off after a third, and one without a step (BEFORE). Then it runs the
compared episode, with actions drawn from its seed. The cases cover everything that could keep earlier state.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.learn.session import Session
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.frame import PLACES, Frame
from dc_gym.spec import Spec, vary

GROWTH_BYTES = 1 << 20
"""How much the memory of a lab and of this process may grow meanwhile: both move a few pages."""
COMPARED, BEFORE = 3, ((1, 1.0), (2, 1 / 3), (9, 0.0))
"""The seeds; for the episodes before also the share of their steps that are run."""
COUNTERS = ("tx_bytes", "tx_packets", "drops", "marks", "requeues", "ce_bytes", "queue_byte_ns", "busy_ns")
"""Columns that count from the boot of a lab on. For an episode, their growth is compared."""
LIMITED = 30
"""The first so many of every 50 steps have random rates. The others are limited by the line alone, so that queues build up."""
PAIRS = {"kind": "pairs", "jitter": "10ms"}
RED = {"marking": "red-instant", "kmin": "20kB", "kmax": "100kB", "pmax": "10%"}


def case(preset: str, controller: str, duration: str, workload: Mapping[str, Any], **more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a spec; `more` has other sections, or more of the topology."""
    topology = {"preset": preset, **more.pop("topology", {})}
    sections = {"topology": topology, "controller": {"name": controller}, "workload": dict(workload)}
    return {**sections, "time": {"duration": duration}, **more}


MIDDLE = {"link": ["s1", "s2"]}
EVENTS: list[dict[str, Any]] = [
    {"at": "100ms", **MIDDLE, "rate": "5Mbit/s", "loss": "1%"},
    {"at": "150ms", "port": "s1-*", "kmin": "5p", "kmax": "6p", "buffer": "50kB"},
    {"at": "250ms", **MIDDLE, "state": "down"},
]
"""The link is still slow, lossy and down when the episode ends."""
CASES: dict[str, dict[str, Any]] = {
    "TCP on full queues": case("dumbbell-10m", "cubic", "1s", PAIRS),
    "UDP": case("dumbbell-10m", "cubic", "300ms", PAIRS | {"transport": "udp", "rate": "10Mbit/s"}),
    "BBR": case("dumbbell-10m", "bbr", "1s", PAIRS),
    "RED with an average": case("dumbbell-10m", "cubic", "2s", PAIRS, topology={"marking": "iroko-thesis"}),
    "RED without": case("dumbbell-10m", "dctcp", "300ms", PAIRS, topology=RED),
    "loss and jitter": case("dumbbell-10m", "cubic", "300ms", PAIRS, topology={"loss": "1%", "jitter": "1ms"}),
    "events": case("dumbbell-10m", "dctcp", "300ms", PAIRS, topology=RED) | {"events": EVENTS},
    "reordering": case("dumbbell-10m", "cubic", "300ms", PAIRS, topology={"reorder": "2%", "reorder_delay": "1ms"}),
    "stock tbf": case("dumbbell-10m", "cubic", "300ms", PAIRS, agent={"tbf": "stock"}),
    "decisions that take time": case("dumbbell-10m", "cubic", "300ms", PAIRS, agent={"latency": "2500us"}),
    "control packets, some lost": case(
        "dumbbell-10m",
        "cubic",
        "300ms",
        PAIRS,
        agent={"control": "network", "control_delay": "300us", "control_loss": "5%"},
    ),
    "control packets later than the next decisions": case(
        "dumbbell-10m",
        "cubic",
        "320ms",  # ends during random rates
        PAIRS | {"transport": "udp", "rate": "10Mbit/s"},
        agent={"control": "network", "control_delay": "20ms"},
    ),
    "incast, and TIME_WAIT": case(
        "dctcp-10g",
        "dctcp",
        "20ms",
        {"kind": "incast", "senders": 4, "size": "100kB", "interval": "1ms"},
        agent={"interval": "100us"},
    ),
    "short flows": case("dumbbell-1g", "dctcp", "100ms", {"kind": "poisson", "load": 0.8, "size": "20kB"}),
    "balanced": case(
        "fattree-k4", "cubic", "20ms", PAIRS, topology={"rate": "100Mbit/s", "balance": "drill"}, agent={"interval": "10ms"}
    ),
    "fat-tree": case("fattree-k4", "cubic", "100ms", {"kind": "hotspot", "jitter": "10ms"}, topology={"rate": "100Mbit/s"}),
}


@dataclass(frozen=True, slots=True)
class TrajectoryDifference:
    """The difference of two trajectories."""

    step: int
    """The first step at which they differ."""
    backlog_bytes: int
    """The largest difference of a queue at a step."""
    payload: float
    """The difference in total delivered payload, relative to the first trajectory."""


def difference(one: Sequence[Frame], other: Sequence[Frame]) -> TrajectoryDifference | None:
    """Returns None if everything that was measured is equal."""
    pairs = list(zip(one, other, strict=True))
    first = next((a.step for a, b in pairs if not _equal(a, b, one[0], other[0])), None)
    if first is None:
        return None
    backlog = PLACES["backlog_bytes"]
    apart = max(int(np.abs(a.cells[:, backlog].astype(np.int64) - b.cells[:, backlog].astype(np.int64)).max()) for a, b in pairs)
    delivered = [float(frames[-1].flows["received_bytes"].sum()) for frames in (one, other)]
    return TrajectoryDifference(first, apart, abs(delivered[1] - delivered[0]) / max(delivered[0], 1))


def _equal(a: Frame, b: Frame, first_a: Frame, first_b: Frame) -> bool:
    for one, other in ((a.flows, b.flows), (a.enforced_bps, b.enforced_bps), (a.enforced, b.enforced)):
        if one.tobytes() != other.tobytes():
            return False
    return bool(np.array_equal(_since(a, first_a), _since(b, first_b)))


def _since(frame: Frame, first: Frame) -> Any:
    """Returns the cells with counters relative to the episode's first frame."""
    cells = frame.cells.copy()
    columns = [PLACES[name] for name in COUNTERS]
    cells[:, columns] -= first.cells[:, columns]
    return cells


class Episodes:
    """A session, and its episodes."""

    def __init__(self, spec: Spec, folder: Path) -> None:
        self.session = Session(spec, folder)
        self._action = Action(self.session.scene, "linear")

    def run(self, seed: int, share: float = 1.0, *, fresh: bool = False) -> list[Frame]:
        """Runs the first steps of an episode with actions drawn from its seed, and returns the frames."""
        session, rng = self.session, np.random.default_rng(seed)
        frames = [session.begin(seed, fresh=fresh)]
        for step in range(round(session.steps * share)):
            drawn = rng.uniform(-1, 1, self._action.space.shape)
            action = drawn if step % 50 < LIMITED else np.ones_like(drawn)
            frames.append(session.step(self._action.to_values(action)))
        return frames


def compare(keys: Mapping[str, Any], folder: Path) -> tuple[TrajectoryDifference | None, Session, int]:
    """Runs an episode after others and in a fresh lab. Returns the difference, the session, and how many steps were compared."""
    lab = Episodes(vary({"name": "resets", **keys}, folder, "case", [], {}, "case"), folder)
    with lab.session:
        for seed, share in BEFORE:
            lab.run(seed, share)
        after = lab.run(COMPARED)
        return difference(lab.run(COMPARED, fresh=True), after), lab.session, len(after) - 1


@dataclass(frozen=True, slots=True)
class Footprint:
    """The things of the machine that a lab, and this process with it, hold."""

    lab_descriptors: int
    own_descriptors: int
    files: int
    file_bytes: int
    lab_bytes: int
    """Resident memory."""
    own_bytes: int

    @classmethod
    def of(cls, lab: int, folder: Path) -> Footprint:
        """Counts for the lab with this process id, whose files lie in `folder`."""
        files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        pid = os.getpid()
        return cls(_descriptors(lab), _descriptors(pid), len(files), sum(files), _resident_bytes(lab), _resident_bytes(pid))

    def growth(self, before: Footprint) -> list[str]:
        """Describes the growth since then."""
        counts = [name for name in ("lab_descriptors", "own_descriptors", "files") if getattr(self, name) > getattr(before, name)]
        sizes = ("file_bytes", "lab_bytes", "own_bytes")
        counts += [name for name in sizes if getattr(self, name) > getattr(before, name) + GROWTH_BYTES]
        return [f"{name} {getattr(before, name)} -> {getattr(self, name)}" for name in counts]


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def footprints(folder: Path, count: int) -> tuple[Footprint, Footprint, int]:
    """Resets one lab `count` times, with a step each. Returns its footprint after half of them, when allocators have settled, at
    the end, and how many labs were booted."""
    spec = vary({"name": "resets", **case("dumbbell-10m", "dctcp", "20ms", PAIRS)}, folder, "case", [], {}, "case")
    with Session(spec, folder) as session:
        values = session.scene.line_bps
        settled = None
        for seed in range(count):
            session.begin(seed)
            session.step(values)
            if seed == count // 2:
                settled = Footprint.of(_lab_of(session), folder)
        assert settled is not None, "count is more than 0"
        return settled, Footprint.of(_lab_of(session), folder), session.boots


def _lab_of(session: Session) -> int:
    assert session.pid is not None, "an episode is under way"
    return session.pid
