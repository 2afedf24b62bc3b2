# SPDX-License-Identifier: Apache-2.0
"""Figure 1 of PCC-RL: one or seven short flows join a long one. Shown are its bandwidth, the buffer, and its recovery.

The paper draws curves and gives no numbers. It is our choice that 2 and 8 flows are one long one and the rest short, and that the
short ones have 5 MB each, as much as the whole buffer. Since nobody drops in the paper, rows of their own have short flows of
SIZES: seven of the largest (3.5 MB) fit into the buffer. 64 kB is the size of RL-CC's WRITEs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.fdcc.common import own_share
from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl.common import AS_STATED, IN_TABLES, KEYS, LOOKS, NINE, SWIFT_PCC, WHO
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.benchmarks.studies.rl_cc.cluster import LONG_SHARE, RECOVERY, SLOWDOWN, UNFINISHED, long_short
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.results.metrics import Window, series
from dc_gym.results.results import Result
from dc_gym.spec import without_code
from dc_gym.study import Claim, Evidence, Measure, Track, Variant, below, less_than, more_than
from dc_gym.study.collect import PAYLOAD_BYTES
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, US, RunLength

TITLE = "A long flow that short ones join: bandwidth, buffer, recovery"
SOURCE = "PCC-RL, figure 1 (text only)"
FLOWS = (2, 8)
BEGIN_NS, SHORT_SIZE = 5 * MS, "5MB"
LENGTH, FULL = RunLength(20 * MS, 2 * MS), RunLength(500 * MS, 2 * MS)
BUFFER_BYTES = 5_000_000
SEEN_NS = 10 * US
"""The interval in which a recovery is seen: they take tens of microseconds."""
BINS, DRAWN_BINS = 150, 50
"""Number of intervals in which a run is measured, and drawn."""
BEFORE = Measure("before", "long flow before (of the line)", digits=3)
WHOLE_BEFORE = Measure("whole_before", "long flow's frames before (of the line)", digits=3)
WHOLE_AFTER = Measure("whole_after", "long flow's frames in the last tenth (of the line)", digits=3)
"""With headers and telemetry, since payload alone never fills a line."""
BUFFER = Measure("buffer", "longest queue (% of 5 MB)", 100, 3)
DROPPED = Measure("drops", "frames dropped")
BANDWIDTH = Measure("bandwidth", "long flow (of the line)")
PANELS = (BANDWIDTH, BUFFER)
FULL_BANDWIDTH, NONE = 0.9, 0.5

SIZES = {f"{size} kB each": f"{size}kB" for size in (64, 125, 250, 500)}
"""More sizes of short flows, by the names of their set-ups."""
HALF = "half step"
"""The set-up whose Swift has half the additive step."""
HALF_STEP: dict[str, Any] = {"nic.parameters": {"ai": 1 << 19}}
"""Half a packet a round trip, in Q20; isekai's and htsim's is a packet."""
NOTES = (
    "The size of short flows is ours, since the paper gives none. In rows that name none it is 5 MB, as much as the whole buffer."
    " In rows that name one, seven of them fit into the buffer; 64 kB is the size of RL-CC's WRITEs. The figure has 5 MB alone.",
    "Alone, PCC-RL 2021 rests where the square root of its rate is the target of its reward, 0.8, which is ours: at 0.64 of the"
    " line. With `--set nic.parameters.target=72090` (1.1) it has 0.998 of it, before and after, and drops no less (5 seeds).",
    "In rows named half step Swift adds half a packet a round trip (ai), not a whole one. PCC-RL does not say what its Swift"
    " adds.",
)
BY_RATE = ("PCC-RL", "DC2QCN", "Swift")
"""HPCC's rivals. They begin slowly in rows named slow start; HPCC has a window and no parameter for the start."""
SETUPS = (rlcc.PCC, rlcc.HELD, HALF, rlcc.SLOW, *SIZES)
WHOSE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((rlcc.OWN, *SIZES), tuple(WHO)),
    **dict.fromkeys((rlcc.PCC, rlcc.HELD, HALF), ("Swift",)),
    rlcc.SLOW: BY_RATE,
}
"""The contestants with rows of their own, by set-up."""
DRAWN = (*WHO, AS_STATED, SWIFT_PCC)


def on(contestant: str, setup: str) -> str:
    """Returns the name of a contestant in a comparison of a set-up."""
    return rlcc.of_setup(contestant, setup) if contestant in WHOSE[setup] else contestant


def _variant(contestant: str, flows: int, setup: str) -> Variant:
    size, title = SIZES.get(setup, SHORT_SIZE), name(on(contestant, setup), flows)
    workload = {"kind": "long_short", "long": 1, "short": flows - 1, "size": size, "short_start": BEGIN_NS, "jitter": JITTER_NS}
    keys: dict[str, Any] = {"monitor.tcp_interval": SEEN_NS}
    keys |= HALF_STEP if setup == HALF else {**rlcc.PRESETS.get(setup, {}), **KEYS.get(contestant, {})}
    more = pccrl.told(title, contestant) | {"tracks": None if on(contestant, setup) in DRAWN else 0}
    return rlcc.variant(title, IN_TABLES[contestant], NINE, workload, keys, length=LENGTH, full=FULL, **more)


VARIANTS = [_variant(who, flows, setup) for setup in (rlcc.OWN, *SETUPS) for who in WHOSE[setup] for flows in FLOWS]
VARIANTS += [_variant(AS_STATED, flows, rlcc.OWN) for flows in FLOWS]


def _claims(setup: str) -> Iterator[Claim]:
    for flows in FLOWS:
        tree, dcqcn, swift, hpcc = rows = [name(on(contestant, setup), flows) for contestant in WHO]
        before = f"{flows} flows (ours: {FULL_BANDWIDTH:.0%})"
        yield Claim(f"Nobody drops, {flows} flows", SOURCE, tuple(less_than(row, DROPPED, NONE) for row in rows))
        full = (more_than(tree, BEFORE, FULL_BANDWIDTH),)
        yield Claim(f"PCC-RL's long flow has all of the line before the others come, {before}", SOURCE, full)
        first = [below(hpcc, rival, RECOVERY) for rival in (tree, dcqcn, swift)]
        never = less_than(hpcc, BEFORE, FULL_BANDWIDTH)
        yield Claim(f"HPCC's long flow recovers first and never has all of the line, {before}", SOURCE, (*first, never))
        sooner = tuple(below(tree, rival, RECOVERY) for rival in (swift, dcqcn))
        yield Claim(f"PCC-RL's long flow recovers before Swift's and DC2QCN's, {flows} flows", SOURCE, sooner)


def more(result: Result) -> dict[str, float]:
    """Returns the figure's additional measures, at 100 Gbit/s."""
    spec = without_code(result.manifest["spec"], result.path)
    scale, duration_ns = spec.topology.scale or 1, spec.time.duration_ns
    curves, numbers = track(result, BINS), long_short(result, duration_ns // (SEEN_NS * scale))
    before = (curves.x > LENGTH.warmup_ns / MS) & (curves.x < BEGIN_NS / MS)
    queues = result.records("queues")
    long = curves.values[BANDWIDTH.name] / (own_share(result) * PAYLOAD_BYTES / FRAME_BYTES)
    rest_ns = duration_ns - int(result.records("flows")["end_ns"].max())
    return numbers | {
        RECOVERY.name: recovery_s(numbers, rest_ns / 1e9 / scale),
        BEFORE.name: float(curves.values[BANDWIDTH.name][before].mean()) if before.any() else float("nan"),
        WHOLE_BEFORE.name: float(long[before].mean()) if before.any() else float("nan"),
        WHOLE_AFTER.name: float(long[-BINS // 10 :].mean()),
        BUFFER.name: float(queues["backlog_bytes"].max()) / BUFFER_BYTES,
        DROPPED.name: float(queues["drops"][-len(result.ports) :].sum()),
    }


def recovery_s(numbers: Mapping[str, float], rest_s: float) -> float:
    """Returns the time until the long flow is back, NaN if short ones have not ended.

    One that is not back within the run counts as back at its end, `rest_s` after the last short one: it takes at least so long.
    """
    never = np.isnan(numbers[RECOVERY.name]) and not numbers[UNFINISHED.name]
    return rest_s if never else numbers[RECOVERY.name]


def track(result: Result, bins: int = DRAWN_BINS) -> Track:
    """Returns the curves over time in ms, at 100 Gbit/s."""
    spec = without_code(result.manifest["spec"], result.path)
    scale, duration_ns = spec.topology.scale or 1, spec.time.duration_ns
    flows = series(result.stored, duration_ns, Window(0, duration_ns), bins)
    long = result.records("flows")["size_bytes"] == 0
    queues, ports = result.records("queues"), len(result.ports)
    longest = queues["backlog_bytes"].reshape(-1, ports).max(axis=1) / BUFFER_BYTES
    at_s = queues["t_ns"].reshape(-1, ports)[:, 0] / 1e9
    bandwidth = np.nansum(flows.goodput_bps[long[: len(flows.goodput_bps)]], axis=0) * scale / LINE_BPS
    values = {BANDWIDTH.name: bandwidth, BUFFER.name: np.interp(flows.t_s, at_s, longest)}
    return Track(flows.t_s * 1e3 / scale, values)


def _panels(evidence: Evidence, rows: rlcc.Rows) -> None:
    """Draws as in the paper: 2 flows above, 8 below; bandwidth on the left, the buffer on the right."""
    for row, flows in zip(rows, FLOWS, strict=True):
        lines = {pccrl.label(contestant): (name(contestant, flows), LOOKS.get(contestant, ("", "-"))[1]) for contestant in DRAWN}
        for ax, panel in zip(row, PANELS, strict=True):
            rlcc.over_time(ax, evidence, panel, lines, f"{flows} flows: ")
    for ax in rows[-1]:
        ax.set_xlabel("Time (ms, at 100 Gbit/s)")


STUDY = rlcc.study(
    TITLE,
    SOURCE,
    VARIANTS,
    (BEFORE, WHOLE_BEFORE, WHOLE_AFTER, LONG_SHARE, RECOVERY, BUFFER, SLOWDOWN, UNFINISHED, DROPPED),
    _claims,
    rlcc.drawing(TITLE, (9.6, 5.4), _panels, 3, nrows=len(FLOWS), ncols=len(PANELS), sharex=True),
    networks=(NINE,),
    setups=SETUPS,
    more=more,
    track=track,
    notes=(*pccrl.NOTES, *NOTES),
)
