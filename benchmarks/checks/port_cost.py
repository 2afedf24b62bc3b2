# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench port-cost`: the cost of each feature of the queueing discipline `port` for a packet-hop, beside stock queues.

One lab passes the same frames through the same five switches (Linux bridges on cables) in blocks; before each block all
queues are made anew. What is counted is the work of the lab kernel's process (perf/work.py) while frames pass. The same frames through
the same cable without a switch are subtracted. So a packet-hop is all that a switch and its cable add: bridge, queue, cable.

Blocks of each feature alternate with blocks of bfifo. Each is divided by the mean of the bfifo blocks before and after it; the
median of the ratios counts, with an interval of 95 % that assumes nothing of their distribution. A second bfifo is measured like
a feature: its ratio is 1 but for the error of the method.

In the load `queues` each link is a tenth slower than the one before, so nearly all frames wait at each switch, and each of them
meets the marking's threshold: a feature has its full cost. In the load `no queues` links are equally fast, and no frame waits.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dc_gym.base.checks import Check
from dc_gym.base.errors import LabError, TestbedError
from dc_gym.base.files import scratch
from dc_gym.base.units import PPM
from dc_gym.benchmarks.checks.lab_job import guest_config
from dc_gym.benchmarks.checks.oracle import OraclePort
from dc_gym.benchmarks.checks.port_cost_guest import CE, COST_NETS, ECT0
from dc_gym.benchmarks.perf.work import counted
from dc_gym.kernel import build
from dc_gym.kernel.lab import Lab

MOST = 1.02
"""Most that `port` without marking and telemetry may cost, over bfifo."""
ROUNDS, BURSTS, FRAMES = 40, 40, 200
HOST_BPS = 10**10
DELAY_NS = 1_000
LIMIT_BYTES = 1 << 20
SWITCHES = COST_NETS["switches"].bridges
Z_975 = 1.96


@dataclass(frozen=True, slots=True)
class Variant:
    """A setting of the switches' queues: fields of OraclePort."""

    name: str
    marking: Mapping[str, Any] = field(default_factory=dict)
    stock: bool = False
    tells: bool = False

    @property
    def marks(self) -> bool:
        return "mark_bytes" in self.marking


STEP: Mapping[str, Any] = {"mark_bytes": 1}
SLOPE: Mapping[str, Any] = {"mark_bytes": 1, "kmax_bytes": LIMIT_BYTES, "pmax_ppm": PPM}
DEPARTURE: Mapping[str, Any] = {"marks_at": "departure"}
BASE = Variant("bfifo", stock=True)
CONTROL = Variant("bfifo again", stock=True)
OFF = Variant("port, all off")
FEATURES = (
    Variant("port, step at arrival", STEP),
    Variant("port, slope at arrival", SLOPE),
    Variant("port, step at departure", {**STEP, **DEPARTURE}),
    Variant("port, slope at departure", {**SLOPE, **DEPARTURE}),
    Variant("port, INT records", tells=True),
    Variant("port, slope at departure and INT records", {**SLOPE, **DEPARTURE}, tells=True),
    Variant("RED of Linux, step at arrival", STEP, stock=True),
)


@dataclass(frozen=True, slots=True)
class Load:
    """Traffic through the switches."""

    name: str
    share: float
    """The rate of each link, of the one before."""
    variants: Sequence[Variant]


LOADS = (Load("queues", 0.9, (CONTROL, OFF, *FEATURES)), Load("no queues", 1.0, (CONTROL, OFF)))


@dataclass(frozen=True, slots=True)
class Block:
    """Frames that pass between two steps. `variant` None: there is no switch."""

    load: Load
    variant: Variant | None

    def job(self) -> dict[str, Any]:
        rates = [round(HOST_BPS * self.load.share**hop) for hop in range(SWITCHES + 1)]
        host = asdict(OraclePort(rates[0], DELAY_NS, LIMIT_BYTES)) | {"stock": True}
        if self.variant is None:
            return {"net": "no switch", "ports": [host]}
        return {"net": "switches", "ports": [host, *(self._port(place, rate) for place, rate in enumerate(rates[1:]))]}

    def _port(self, place: int, rate_bps: int) -> dict[str, Any]:
        assert self.variant is not None
        told = place if self.variant.tells else None
        port = OraclePort(rate_bps, DELAY_NS, LIMIT_BYTES, int_rate=told, seed=place, forwards=True, **self.variant.marking)
        return asdict(port) | {"stock": self.variant.stock}


@dataclass(frozen=True, slots=True)
class Spent:
    """The work of one block, and its counters."""

    work: int
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A median of ratios and its interval of 95 %."""

    median: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class HopCost:
    """The cost of a packet-hop with one variant under one load."""

    load: Load
    variant: Variant
    work: float
    """Median of the work of a packet-hop."""
    ratio: Ratio
    unit: str
    marks_a_hop: float


def checks(kernel: Path | None = None) -> Iterator[Check]:
    """Yields the cost of each feature. `kernel`: None builds it or takes it from the cache."""
    for cost in measured(kernel or build.ensure().path):
        yield check(cost)


def check(cost: HopCost) -> Check:
    bounded = cost.variant is OFF
    words = f"{cost.ratio} of {cost.ratio.count} pairs; {cost.work:.0f} {cost.unit}"
    if cost.variant.marks:
        words += f"; {cost.marks_a_hop:.2f} marks a hop"
    asked = f"<= {MOST:g} of bfifo" if bounded else "reported, of bfifo"
    return Check(f"{cost.variant.name} ({cost.load.name})", asked, words, not bounded or cost.ratio.median <= MOST)


def measured(
    kernel: Path, rounds: int = ROUNDS, bursts: int = BURSTS, frames: int = FRAMES, loads: Sequence[Load] = LOADS
) -> list[HopCost]:
    """Returns the cost of a packet-hop for each variant of each load."""
    blocks = [block for _ in range(rounds) for load in loads for block in turn(load)]
    unit, spent = play(kernel, blocks, bursts, frames)
    hops = bursts * frames * SWITCHES
    for block, its in zip(blocks, spent, strict=True):
        require_passage(block, its.counters)
    return [cost for load in loads for cost in costs(load, blocks, spent, hops, unit)]


def turn(load: Load) -> list[Block]:
    """Returns the blocks of one round: without a switch, then the variants with bfifo before and after each."""
    base = Block(load, BASE)
    return [Block(load, None), base, *(each for variant in load.variants for each in (Block(load, variant), base))]


def play(kernel: Path, blocks: Sequence[Block], bursts: int, frames: int) -> tuple[str, list[Spent]]:
    """Returns the unit of work, and what each block spent. Raises LabError if the lab's program fails."""
    job = {"blocks": [block.job() for block in blocks], "bursts": bursts, "frames": frames}
    log: list[str] = []
    works = []
    with scratch(Path(tempfile.gettempdir()), "dcgym-cost-") as folder:
        (folder / "job.json").write_text(json.dumps(job))
        config = guest_config(kernel, f"{__package__}.port_cost_guest", folder)
        with Lab(config, on_log=log.append) as lab, counted(lab.pid) as counter:
            for _ in blocks:
                before = _reach(lab, counter.read, log)
                works.append(_reach(lab, counter.read, log) - before)
            status = lab.wait().status
        if status:
            raise _failure(f"ended with status {status}", log)
        answers = json.loads((folder / "answer.json").read_text())
    return counter.unit, [Spent(work, answer) for work, answer in zip(works, answers, strict=True)]


def require_passage(block: Block, counters: Mapping[str, int]) -> None:
    """Raises TestbedError if frames were dropped, or if the queues did not do what the variant says."""
    variant = block.variant
    marks, tells = (variant.marks, variant.tells) if variant else (False, False)
    steep = variant is not None and "kmax_bytes" in variant.marking
    asked = {"drops": 0, "records": SWITCHES if tells else 0}
    asked |= {} if steep else {"ecn": CE if marks else ECT0}
    wrong = {name: counters[name] for name, value in asked.items() if counters[name] != value}
    if wrong or marks != bool(counters["marks"]):
        name = variant.name if variant else "no switch"
        raise TestbedError(f"port-cost: {name}: asked {asked}, and marks: {marks}; counted {dict(counters)}")


def costs(load: Load, blocks: Sequence[Block], spent: Sequence[Spent], hops: int, unit: str) -> Iterator[HopCost]:
    """Yields the cost of each variant of a load, from all blocks in their order."""
    bare = statistics.median(its.work for block, its in zip(blocks, spent, strict=True) if block == Block(load, None))
    for variant in load.variants:
        places = [place for place, block in enumerate(blocks) if block == Block(load, variant)]
        mine = [(spent[place].work - bare) / hops for place in places]
        base = [((spent[place - 1].work + spent[place + 1].work) / 2 - bare) / hops for place in places]
        ratio = median_of([one / other for one, other in zip(mine, base, strict=True)])
        marks = statistics.median(spent[place].counters["marks"] for place in places) / hops
        yield HopCost(load, variant, statistics.median(mine), ratio, unit, marks)


def median_of(ratios: Sequence[float]) -> Ratio:
    """Returns the median, and the two values between which it lies with 95 %: order statistics of the binomial (normal, rounded
    outwards). With five values or fewer they are the extremes, which is less than 95 %."""
    ordered = sorted(ratios)
    count = len(ordered)
    half = Z_975 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - half) - 1)
    high = min(count - 1, math.ceil(count / 2 + half))
    return Ratio(statistics.median(ordered), ordered[low], ordered[high], count)


def _reach(lab: Lab, read: Any, log: Sequence[str]) -> int:
    """Lets the lab reach its next step. Returns the work until then, and resumes the lab."""
    try:
        lab.until_step()
    except LabError as error:
        raise _failure(str(error), log) from error
    total: int = read()
    lab.answer(0)
    return total


def _failure(what: str, log: Sequence[str]) -> LabError:
    return LabError("\n  lab: ".join([f"the port-cost bench: {what}", *log[-20:]]))
