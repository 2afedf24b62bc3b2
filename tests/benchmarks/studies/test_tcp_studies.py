# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the studies of TCP: DCTCP's sawtooth, incast, and the load that flows offer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.tcp import flow_sizes, incast, queue
from dc_gym.benchmarks.studies.tcp.queue import closed_form, measured_amplitude, round_trip_s
from dc_gym.learn.env import as_spec
from dc_gym.study.claims import Criterion, Outcome, Verdict
from dc_gym.study.collect import SpecRuns
from dc_gym.study.evidence import Evidence, VariantEvidence
from dc_gym.study.model import StudyOptions


def outcome(criterion: Criterion, **values: dict[str, float]) -> Outcome:
    numbers = {label: {name: {1: value} for name, value in row.items()} for label, row in values.items()}
    names = dict(zip(values, criterion.about, strict=True))
    return criterion.judge(
        Evidence({names[label]: VariantEvidence(names[label], label, "#000000", row) for label, row in numbers.items()})
    )


def test_closed_form_of_the_paper() -> None:
    """alpha solves equation 6; for small alpha the amplitude is close to the paper's (1/2) sqrt(2 N (C RTT + K)), equation 8."""
    theory = closed_form(2, 825_000, 100e-6, 40)
    assert theory.window == pytest.approx((82.5 + 40) / 2)
    alpha, window = theory.alpha, theory.window
    assert alpha**2 * (1 - alpha / 4) == pytest.approx((2 * window + 1) / (window + 1) ** 2)
    assert theory.amplitude == pytest.approx(0.5 * np.sqrt(2 * 2 * (82.5 + 40)), rel=0.05)
    assert theory.largest == 42 and theory.mean == 42 - theory.amplitude / 2


def test_round_trip_without_queueing() -> None:
    assert round_trip_s() == pytest.approx(10e-6 + 2 * (1514 + 66) * 0.8e-9)


@pytest.mark.parametrize(("height", "noise"), [(10, 0), (10, 1), (40, 2)])
def test_amplitude_of_a_drawn_sawtooth(height: int, noise: int) -> None:
    draw = np.random.default_rng(1)
    tooth = np.concatenate([np.linspace(50 - height, 50, 100), np.linspace(50, 50 - height, 5)])
    drawn = np.tile(tooth, 40) + draw.integers(0, noise + 1, 40 * len(tooth))
    assert measured_amplitude(drawn) == pytest.approx(height + noise, rel=0.05)


@pytest.mark.parametrize(
    ("amplitude", "swing", "holds"), [(9.0, 9.0, True), (10.5, 5.0, True), (12.5, 5.0, False), (14, 6.0, False)]
)
def test_an_amplitude_beside_equation_8_must_be_whole_packets(amplitude: float, swing: float, holds: bool) -> None:
    """With two flows it is 8.71 packets, a window swings by 4.36."""
    result = outcome(queue.amplitude(2), a={queue.AMPLITUDE.name: amplitude, queue.SWING.name: swing})
    assert (result.verdict is Verdict.SAME) == holds


@pytest.mark.parametrize(("filled", "goodput_bps", "well"), [(0.09, 9.1e6, True), (0.11, 9.1e6, False), (0.09, 8.9e6, False)])
def test_nv_does_well_by_its_queue_and_its_goodput(filled: float, goodput_bps: float, well: bool) -> None:
    rows = {"nv": {"filled": filled, "goodput_bps": goodput_bps}, "dctcp": {"goodput_bps": 1e7}}
    for expected in (True, False):
        assert (outcome(queue.does_well(queue.SLOW, expected), **rows).verdict is Verdict.SAME) == (well is expected)


def test_incast_arithmetic_by_hand() -> None:
    """100 kB hold 66 frames; 125.28 us of round trip hold 10.34; 46 segments and a window of 10 make at most 28 outstanding."""
    assert pytest.approx(125.28e-6 * 1e9 / (8 * 1514)) == incast.PIPE
    assert incast.ONSETS[incast.CUBIC] == 3  # 2 x 28 - 10.3 = 45.7, 3 x 28 - 10.3 = 73.7
    assert incast.ONSETS[incast.DCTCP] == 6  # 5 x 10 + 20 - 10.3 = 59.7, 6 x 10 + 20 - 10.3 = 69.7
    assert incast.first_overflow(incast.LEAST_WINDOW) == 39  # 2 x 38 - 10.3 = 65.7, 2 x 39 - 10.3 = 67.7
    assert incast.one_timeout_bps(32) == pytest.approx(32 * 65536 * 8 / (0.2 + 32 * 65536 * 8 / 956.4e6), rel=1e-4)
    assert incast.FITS == [16, 24, 32] and incast.FLOODS == [48] and incast.LOST == [48, 64, 128, 256]


@pytest.mark.parametrize("load", flow_sizes.LOADS)
def test_the_offered_load_is_that_of_the_flows_that_are_made(load: float) -> None:
    """One size has a standard deviation of 2.3 times the mean, so 8000 flows offer the load within 10 % (4 sigma)."""
    study = LIBRARY.load("tcp/flow-sizes")
    keys = {**study.base, "topology.preset": "fattree-k4", "workload.load": load}
    gigabit_s = 8000 * 171_000 * 8 / load / 16 / 1e9
    long = {"time.duration": f"{gigabit_s:.3f}s", "workload.last_start": f"{gigabit_s:.3f}s", "metrics.cutoff": "100ms"}
    spec = as_spec({"name": "x"}, [f"{key}={value}" for key, value in {**keys, **long}.items()])
    flows = spec.flows(spec.graph())
    offered = sum(flow.size_bytes for flow in flows) * 8 / gigabit_s / (16 * 1e9)
    assert offered == pytest.approx(load, rel=0.1) and len(flows) == pytest.approx(8000, rel=0.05)


@pytest.mark.lab
def test_incast_drops_begin_where_the_arithmetic_says(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    names = tuple(incast.name(incast.CUBIC, incast.SLOW, senders) for senders in (2, 3))
    options = StudyOptions(tmp_path, variants=names, seeds=1)
    evidence = SpecRuns()(LIBRARY.load("tcp/incast"), options, Quiet()).evidence
    (few, more) = (evidence.values(name, incast.DROPS.name)[1] for name in names)
    assert few == 0 < more and evidence.values(names[0], incast.GOODPUT.name)[1] > 0.8 * incast.FULL_BPS
