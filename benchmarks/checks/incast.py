# SPDX-License-Identifier: Apache-2.0
"""Checks on incast: N senders answer one receiver at once, through one switch port.

The setting follows V. Vasudevan et al. (SIGCOMM 2009) and M. Alizadeh et al. (DCTCP, SIGCOMM 2010, section 4.2.1): 1 Gbit/s, a
static buffer of 100 kB per port, DCTCP's K of 20 frames, a round trip of 100 us. Each sender opens a connection and sends 64 KiB.
The goodput is that of all senders together, from the first start to the last byte. Seeds differ by a start jitter of 20 us.

The arithmetic is in full frames. B is the buffer (66), P what a round trip holds without queueing (10.3), S the segments of a
flow (46), and W = 10 Linux's initial window. What is outstanding and not in the pipe is queued:

    CUBIC   slow start sends two frames for each acknowledged one until the flow has no more, so it has at most
            (S + W) / 2 outstanding; drops begin when N (S + W) / 2 - P > B
    DCTCP   the first window sees no mark, and the K frames that found room below K are acknowledged without one, one frame
            more for each; drops begin when N W + K - P > B
    later   a window has at least 2 segments: N lasting flows queue 2 N - P frames where that is above K, and keep losing
            where it is above B (DCTCP's paper: 35 senders)

A flow that loses a whole window waits for its retransmission timer: the round then takes 200 ms more, whatever the line rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.figures import kit, styles
from dc_gym.figures.axes import plain_ticks
from dc_gym.records.results import Result
from dc_gym.sweep import Cell, runs

RATE_BPS, DELAY_NS = 10**9, 25_000
FRAME_BYTES, ACK_BYTES, MSS_BYTES = 1514, 66, 1448
SIZE_BYTES, BUFFER_BYTES, K_FRAMES = 64 << 10, 100_000, 20
INITIAL_WINDOW, LEAST_WINDOW = 10, 2
RTO_S = 0.2
SENDERS = (2, 4, 8, 16, 32, 48, 64, 128, 256)
SEEDS = (1, 2, 3)
LASTING = (16, 24, 32, 48)  # numbers of senders without an end
WARMUP_NS = 200_000_000  # warm-up of the runs with lasting senders
FULL_BPS = RATE_BPS * MSS_BYTES / FRAME_BYTES
NAME = "incast"
FIGURE = Path("results") / "incast.png"

SPEC = f"""
spec_version = 1
name = "incast"
[topology]
kind = "single"
hosts = 3
rate = "1Gbit/s"
delay = "25us"
buffer = "100kB"
host_buffer = "4MB"
k_bytes = {K_FRAMES * FRAME_BYTES}
[controller]
name = "cubic"
[workload]
kind = "many_to_one"
jitter = "20us"
[time]
duration = "20s"
[monitor]
interval = "100ms"
[metrics]
slowdown = "off"
"""


@dataclass(frozen=True, slots=True)
class IncastCase:
    """A line of the figure."""

    controller: str
    rto_min: str

    @property
    def name(self) -> str:
        return f"{self.controller}, RTO >= {self.rto_min}"


CASES = tuple(IncastCase(controller, rto_min) for rto_min in ("200ms", "1ms") for controller in ("cubic", "dctcp"))
CUBIC, DCTCP = CASES[:2]


@dataclass(frozen=True, slots=True)
class Round:
    """One answer of all senders."""

    goodput_bps: float
    drops: int


Rounds = Mapping[tuple[IncastCase, int], Sequence[Round]]
"""Rounds by case and number of senders, one per seed."""
Lasting = Mapping[int, tuple[float, int]]
"""By number of senders: mean queue of the receiver's port in frames, and its drops, both after the warm-up."""


def pipe_frames() -> float:
    """Returns what the path holds in a round trip without queueing: four delays, a frame and an ACK on two links."""
    rtt_s = 4 * DELAY_NS * 1e-9 + 2 * (FRAME_BYTES + ACK_BYTES) * 8 / RATE_BPS
    return rtt_s * RATE_BPS / (8 * FRAME_BYTES)


def first_overflow(frames_a_sender: float, more_frames: float = 0) -> int:
    """Returns the smallest number of senders whose outstanding frames exceed what pipe and buffer hold."""
    room = BUFFER_BYTES // FRAME_BYTES + pipe_frames() - more_frames
    return math.floor(room / frames_a_sender) + 1


def onset(case: IncastCase) -> int:
    """Returns the smallest number of senders of 64 KiB that lose a frame."""
    if case.controller == "dctcp":
        return first_overflow(INITIAL_WINDOW, K_FRAMES)
    return first_overflow((math.ceil(SIZE_BYTES / MSS_BYTES) + INITIAL_WINDOW) / 2)


def least_queue_frames(senders: int) -> float:
    """Returns the frames that flows with the smallest window keep queued."""
    return LEAST_WINDOW * senders - pipe_frames()


def one_timeout_bps(senders: int) -> float:
    """Returns the goodput of a round that waits once for a timer of 200 ms and otherwise fills the line."""
    return senders * SIZE_BYTES * 8 / (RTO_S + senders * SIZE_BYTES * 8 / FULL_BPS)


def checks() -> Iterable[Check]:
    with runs.scratch("incast") as folder:
        rounds, lasting = _measure(folder)
    for case in CASES:
        yield Check(case.name, "recorded", _words(rounds, case), ok=True)
    yield from _onset_checks(rounds)
    yield from _collapse_checks(rounds)
    yield from _lasting_checks(lasting)
    figure = runs.figure_place(FIGURE, NAME)
    draw(rounds, figure)
    yield Check("figure", "drawn", str(figure), ok=True)


def _measure(folder: Path) -> tuple[Rounds, Lasting]:
    spec = runs.write_spec(folder, "incast", SPEC)
    wanted = [(case, senders) for case in CASES for senders in SENDERS]
    wanted += [(case, senders) for case in (CUBIC, DCTCP) for senders in (onset(case) - 1, onset(case)) if senders not in SENDERS]
    cells = {(*each, seed): _cell(folder, spec, *each, seed) for each in wanted for seed in SEEDS}
    lasting = {senders: _lasting_cell(folder, spec, senders) for senders in LASTING}
    results = runs.run_all([*cells.values(), *lasting.values()])
    rounds = {each: [_round(results[cells[*each, seed].name], each[1]) for seed in SEEDS] for each in wanted}
    return rounds, {senders: _settled(results[cell.name], senders) for senders, cell in lasting.items()}


def _cell(folder: Path, spec: Path, case: IncastCase, senders: int, seed: int) -> Cell:
    name = f"{case.controller}-{case.rto_min}-{senders}-s{seed}"
    settings = [f"controller.name={case.controller}", f"controller.rto_min={case.rto_min}", f"topology.hosts={senders + 1}"]
    return Cell(name, spec, folder / name, (*settings, f"workload.size={SIZE_BYTES >> 10}KiB", f"seed={seed}"))


def _lasting_cell(folder: Path, spec: Path, senders: int) -> Cell:
    settings = (f"topology.hosts={senders + 1}", "time.duration=400ms", "time.warmup=200ms", "monitor.interval=1ms")
    return Cell(f"lasting-{senders}", spec, folder / f"lasting-{senders}", ("controller.name=dctcp", *settings))


def _round(result: Result, senders: int) -> Round:
    flows = result.records("flows")
    taken_s = float(flows["end_ns"].max() - flows["start_ns"].min()) * 1e-9
    whole = bool((flows["end_ns"] > 0).all())
    return Round(senders * SIZE_BYTES * 8 / taken_s if whole else 0.0, result.summary["drops"])


def _mean(rounds: Rounds, case: IncastCase, senders: int) -> float:
    return float(np.mean([each.goodput_bps for each in rounds[case, senders]]))


def _words(rounds: Rounds, case: IncastCase) -> str:
    return "Mbit/s by senders: " + ", ".join(f"{n}: {_mean(rounds, case, n) / 1e6:.0f}" for n in SENDERS)


def _onset_checks(rounds: Rounds) -> Iterator[Check]:
    for case in (CUBIC, DCTCP):
        first = onset(case)
        below, at = ([each.drops for each in rounds[case, n]] for n in (first - 1, first))
        words = f"{first - 1} senders: {_joined(below)} frames dropped (by seed), {first} senders: {_joined(at)}"
        yield Check(f"{case.controller}: drops begin", f"at {first} senders", words, not any(below) and all(at))


def _collapse_checks(rounds: Rounds) -> Iterator[Check]:
    """Yields checks on shares of the line's payload rate; below a third is a collapse."""
    low = [each.goodput_bps / FULL_BPS for n in SENDERS if n >= 16 for each in rounds[CUBIC, n]]
    yield Check("cubic: collapse from 16 senders on", "< 1/3 of the line", f"at most {max(low):.1%}", max(low) < 1 / 3)
    once = [(n, _mean(rounds, CUBIC, n), one_timeout_bps(n)) for n in (16, 32)]
    words = ", ".join(f"{n}: {measured / 1e6:.1f} of {bound / 1e6:.1f} Mbit/s" for n, measured, bound in once)
    near = all(0.85 * bound <= measured <= 1.01 * bound for _, measured, bound in once)
    yield Check("cubic: 16 and 32 senders wait for one timer", "-15 % .. +1 %", words, near)
    held = [each.goodput_bps / FULL_BPS for n in (8, 16) for each in rounds[DCTCP, n]]
    yield Check("dctcp: ECN ends it at 8 and 16 senders", ">= 80 %", f"at least {min(held):.1%}", min(held) >= 0.8)
    past = [each.goodput_bps / FULL_BPS for n in SENDERS if least_queue_frames(n) > _buffer() for each in rounds[DCTCP, n]]
    asked = f"< 1/3 from {first_overflow(LEAST_WINDOW)} senders on"
    yield Check("dctcp: collapse where 2 segments each are too many", asked, f"at most {max(past):.1%}", max(past) < 1 / 3)
    for case in CASES[2:]:
        quick = [each.goodput_bps / FULL_BPS for n in SENDERS for each in rounds[case, n]]
        yield Check(f"{case.name}: no collapse at all", ">= 1/3", f"at least {min(quick):.1%}", min(quick) >= 1 / 3)


def _lasting_checks(lasting: Lasting) -> Iterator[Check]:
    """Yields checks on flows without an end: DCTCP at its smallest window."""
    for senders, (queue, drops) in lasting.items():
        expected = least_queue_frames(senders)
        name, measured = f"dctcp: {senders} lasting senders", f"{queue:.1f} frames queued, {drops} dropped"
        if expected <= _buffer():
            yield Check(
                name, f"2 N - P = {expected:.1f} +- 1 frames, no drops", measured, abs(queue - expected) <= 1 and not drops
            )
        else:
            yield Check(name, f"2 N - P = {expected:.1f} > {_buffer()}: a full buffer, drops", measured, queue > 64 and drops > 0)


def _settled(result: Result, senders: int) -> tuple[float, int]:
    records = result.records("queues")
    row = result.names.port.index(f"s1-eth{senders + 1}")
    mine = records[(records["port"] == row) & (records["t_ns"] >= WARMUP_NS)]
    return float(mine["backlog_bytes"].mean()) / FRAME_BYTES, int(mine["drops"][-1]) - int(mine["drops"][0])


def _buffer() -> int:
    return BUFFER_BYTES // FRAME_BYTES


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def draw(rounds: Rounds, path: Path) -> None:
    """Draws goodput over the number of senders: mean of the seeds, with the smallest and the largest."""
    with kit.style():
        figure = kit.new_figure(7.2, 4.2)
        axes = figure.subplots()
        for case in CASES:
            values = np.array([[each.goodput_bps / 1e6 for each in rounds[case, n]] for n in SENDERS])
            mean = values.mean(axis=1)
            spread = np.abs(np.array([values.min(axis=1), values.max(axis=1)]) - mean)
            shown = styles.find(case.controller)
            assert shown is not None
            line = "-" if case.rto_min == CUBIC.rto_min else "--"
            label = f"{shown.label}, RTO at least {case.rto_min.replace('ms', ' ms')}"
            axes.errorbar(SENDERS, mean, spread, color=shown.color, marker=shown.marker, linestyle=line, capsize=2, label=label)
        marks = {f"CUBIC drops: {onset(CUBIC)}": onset(CUBIC), f"DCTCP drops: {onset(DCTCP)}": onset(DCTCP)}
        marks |= {f"2 segments each: {first_overflow(LEAST_WINDOW)}": first_overflow(LEAST_WINDOW)}
        for words, senders in marks.items():
            axes.axvline(senders, color=kit.FAINT, linestyle=":", linewidth=1)
            axes.text(senders * 1.03, 330, words, rotation=90, va="center", fontsize=7.5, color=kit.FAINT)
        axes.set_xscale("log", base=2)
        axes.set_xticks(SENDERS, [str(n) for n in SENDERS])
        axes.set_ylim(0, 1000)
        axes.set_xlabel("Senders of 64 KiB")
        plain_ticks(axes, "y")
        axes.set_ylabel("Goodput (Mbit/s)")
        axes.set_title(f"Incast: 1 Gbit/s, 100 kB of buffer, K = {K_FRAMES} frames", loc="left")
        words = f"bars: least and largest of {len(SEEDS)} seeds; dotted: where the arithmetic says"
        kit.caption(figure, words)
        figure.legend(loc="outside upper center", ncols=2)
        kit.save(figure, path, mark=runs.mark_of(NAME))
