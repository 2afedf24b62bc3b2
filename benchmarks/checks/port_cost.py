# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench port-cost`: the cost of each feature of the queueing discipline `port` for a packet-hop, beside stock queues.

One lab has two equal chains of five switches (Linux bridges on cables). In a trial one chain has bfifo, the other a feature of
`port`, and the same frames pass both in turns, a millisecond each. The next trial swaps the chains, and all queues are made anew
for each. The work of the lab kernel's process (perf/work.py) is counted while frames pass. The work for the same frames through
the host's cable alone is subtracted. So a packet-hop is all that a switch and its cable add: bridge, queue, cable.

A ratio divides the feature's median by bfifo's, and is the geometric mean over two trials with swapped chains. The median of
all ratios counts, with an interval of 95 % that assumes nothing of their distribution. A second bfifo is measured like a
feature: its ratio is 1 but for the error of the method.

In the load `queues` each link is a tenth slower than the one before, so nearly all frames wait at each switch, and each of them
meets the marking's threshold: a feature has its full cost. In the load `no queues` each link is a tenth faster, and no frame
waits.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.files import scratch
from dc_gym.base.units import PPM
from dc_gym.benchmarks.checks import port_cost_guest
from dc_gym.benchmarks.checks.lab_job import guest_lab
from dc_gym.benchmarks.checks.oracle import OraclePort
from dc_gym.benchmarks.checks.port_cost_guest import COST_NETS
from dc_gym.benchmarks.perf.work import WorkCounter, counted
from dc_gym.kernel import build
from dc_gym.kernel.lab import Lab

MOST = 1.02
"""Most that `port` without marking and telemetry may cost, over bfifo."""
ROUNDS = 40
TURNS, BURSTS, FRAMES = 32, 2, 200
"""In a trial: turns of each chain, bursts in a turn, frames in a burst."""
HOST_BPS = 10**10
DELAY_NS = 1_000
LIMIT_BYTES = 1 << 20
SWITCHES = COST_NETS["first"].bridges
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


LOADS = (Load("queues", 0.9, (CONTROL, OFF, *FEATURES)), Load("no queues", 1.1, (CONTROL, OFF)))


def ports(load: Load, variant: Variant | None) -> list[dict[str, Any]]:
    """Returns the ports of a chain, the host's first. `variant` None: there is no switch."""
    rates = [round(HOST_BPS * load.share**hop) for hop in range(SWITCHES + 1)]
    chain = [asdict(OraclePort(rates[0], DELAY_NS, LIMIT_BYTES)) | {"stock": True}]
    if variant is None:
        return chain
    for index, rate_bps in enumerate(rates[1:]):
        rate_index = index if variant.tells else None
        port = OraclePort(rate_bps, DELAY_NS, LIMIT_BYTES, int_rate=rate_index, seed=index, forwards=True, **variant.marking)
        chain.append(asdict(port) | {"stock": variant.stock})
    return chain


@dataclass(frozen=True, slots=True)
class Trial:
    """Turns of a feature and of bfifo, in two chains."""

    load: Load
    variant: Variant
    swapped: bool
    """True if the first chain has bfifo, and the second one the feature."""

    @property
    def sides(self) -> tuple[Variant, Variant, None]:
        return (BASE, self.variant, None) if self.swapped else (self.variant, BASE, None)

    def job(self, turns: int) -> dict[str, Any]:
        sides = [{"net": net, "ports": ports(self.load, side)} for net, side in zip(COST_NETS, self.sides, strict=True)]
        return {"sides": sides, "order": order(turns)}


def order(turns: int) -> list[int]:
    """Returns the order of a trial's sides: 0 1 1 0 and so on, and before each 16 turns one without a switch."""
    sides = []
    for turn in range(turns):
        sides += [2] * (turn % 16 == 0) + ([0, 1] if turn % 2 == 0 else [1, 0])
    return sides


@dataclass(frozen=True, slots=True)
class TrialWork:
    """The work of the feature, of bfifo and of no switch in a trial, each turn's, and the counters of all sides."""

    feature: Sequence[int]
    base: Sequence[int]
    bare: Sequence[int]
    counters: Sequence[Mapping[str, int]]


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
    """Median of the work of a packet-hop; `base` is bfifo's."""
    base: float
    ratio: Ratio
    unit: str
    marks_a_hop: float


def checks(kernel: Path | None = None) -> Iterator[Check]:
    """Yields the cost of each feature. `kernel`: None builds it or takes it from the cache."""
    for cost in measured(kernel or build.ensure().path):
        yield check(cost)


def check(cost: HopCost) -> Check:
    bounded = cost.variant is OFF
    words = f"{cost.ratio}, {cost.ratio.count} pairs of trials; {cost.work:.0f} {cost.unit} a hop, bfifo {cost.base:.0f}"
    if cost.variant.marks:
        words += f"; {cost.marks_a_hop:.2f} marks a hop"
    required = f"<= {MOST:g} of bfifo" if bounded else "reported, of bfifo"
    return Check(f"{cost.variant.name} ({cost.load.name})", required, words, not bounded or cost.ratio.median <= MOST)


def measured(
    kernel: Path,
    rounds: int = ROUNDS,
    turns: int = TURNS,
    bursts: int = BURSTS,
    frames: int = FRAMES,
    loads: Sequence[Load] = LOADS,
) -> list[HopCost]:
    """Returns the cost of a packet-hop for each variant of each load."""
    pairs = [(load, variant) for load in loads for variant in load.variants]
    trials = [Trial(*pair, swapped) for _ in range(rounds) for pair in pairs for swapped in (False, True)]
    unit, works = play(kernel, trials, turns, bursts, frames)
    measurements = list(zip(trials, works, strict=True))
    for trial, its in measurements:
        require_passage(trial, its.counters)
    return [hop_cost(*pair, measurements, bursts * frames, unit) for pair in pairs]


def play(kernel: Path, trials: Sequence[Trial], turns: int, bursts: int, frames: int) -> tuple[str, list[TrialWork]]:
    """Returns the unit of work, and the work of each trial. Raises LabError if the lab's program fails."""
    job = {"trials": [trial.job(turns) for trial in trials], "bursts": bursts, "frames": frames}
    with scratch(Path(tempfile.gettempdir()), "dcgym-bench-") as folder:
        (folder / "job.json").write_text(json.dumps(job))
        with guest_lab(kernel, port_cost_guest.__name__, folder) as lab, counted(lab.pid) as counter:
            works = [_turns(lab, counter, order(turns)) for _ in trials]
        answers = json.loads((folder / "answer.json").read_text())
    # the feature's side is the second one in a swapped trial
    return counter.unit, [
        TrialWork(of[trial.swapped], of[not trial.swapped], of[2], counters)
        for trial, of, counters in zip(trials, works, answers, strict=True)
    ]


def _turns(lab: Lab, counter: WorkCounter, sides: Sequence[int]) -> list[list[int]]:
    """Lets the lab make the turns of these sides. Returns the work of each turn, by side."""
    totals = []
    for _ in range(len(sides) + 1):
        lab.until_step()
        totals.append(counter.read())
        lab.answer(0)
    work = [after - before for before, after in pairwise(totals)]
    return [[turn_work for turn_work, side in zip(work, sides, strict=True) if side == number] for number in range(3)]


def require_passage(trial: Trial, counters: Sequence[Mapping[str, int]]) -> None:
    """Raises TestbedError if frames were dropped, or if queues did not behave as their variants require."""
    for variant, its in zip(trial.sides, counters, strict=True):
        marks, tells = (variant.marks, variant.tells) if variant else (False, False)
        expected = {"drops": 0, "records": SWITCHES if tells else 0} | ({} if marks else {"marks": 0})
        if any(its[name] != value for name, value in expected.items()) or (marks and not its["marks"]):
            name = variant.name if variant else "no switch"
            raise TestbedError(f"port-cost: {name}: asked {expected}{' and marks' * marks}; counted {dict(its)}")


def hop_cost(load: Load, variant: Variant, measurements: Sequence[tuple[Trial, TrialWork]], frames: int, unit: str) -> HopCost:
    """Returns the cost of a variant by all trials. `frames`: in a turn."""
    selected = [(trial, works) for trial, works in measurements if (trial.load, trial.variant) == (load, variant)]
    bare = statistics.median(work for trial, works in measurements if trial.load == load for work in works.bare)
    feature = [(statistics.median(works.feature) - bare) / (frames * SWITCHES) for _, works in selected]
    base = [(statistics.median(works.base) - bare) / (frames * SWITCHES) for _, works in selected]
    single = [one / other for one, other in zip(feature, base, strict=True)]
    # a ratio below 0: noise exceeds the work
    products = [one * swapped for one, swapped in zip(single[::2], single[1::2], strict=True)]
    ratio = median_of([math.copysign(math.sqrt(abs(product)), product) for product in products])
    counters = selected[0][1].counters[selected[0][0].sides.index(variant)]
    marks = counters["marks"] / counters["hops"]
    return HopCost(load, variant, statistics.median(feature), statistics.median(base), ratio, unit, marks)


def median_of(ratios: Sequence[float]) -> Ratio:
    """Returns the median, and the two values between which it lies with 95 %: order statistics of the binomial (normal, rounded
    outwards). With five values or fewer they are the extremes, which is less than 95 %."""
    ordered = sorted(ratios)
    count = len(ordered)
    half = Z_975 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - half) - 1)
    high = min(count - 1, math.ceil(count / 2 + half))
    return Ratio(statistics.median(ordered), ordered[low], ordered[high], count)
