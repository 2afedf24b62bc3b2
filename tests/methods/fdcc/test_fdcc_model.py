# SPDX-License-Identifier: Apache-2.0
"""The fluid model with telemetry, against closed forms; and what is drawn for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.methods.fdcc.offline import incasts
from dc_gym.methods.fdcc.offline.presets import PRESETS
from dc_gym.methods.fdcc.offline.telemetry_fluid import Incasts, Signals, TelemetryFluid, _History


def same(networks: int, flows: int, window: float, *, packets: float = 64, background: float = 0, queue: float = 0) -> Incasts:
    """Returns networks whose flows all begin at 0 with one window."""
    shape = (networks, flows)
    full = [np.full(networks, value) for value in (packets, background, queue)]
    return Incasts(np.full(shape, window), np.zeros(shape), *full)


def settled(model: TelemetryFluid, steps: int = 600, factor: float = 1.0) -> Signals:
    """Runs a model whose flows decide by one factor. Returns what they measured at their last decisions, flow by flow."""
    last = np.full((7, model.windows.size), np.nan)
    for _ in range(steps):
        if len(flows := model.step()):
            signals = model.measure(flows)
            last[:, flows] = [getattr(signals, name) for name in Signals.__slots__]
            model.decide(flows, np.full(len(flows), factor))
    return Signals(*last)


@pytest.mark.parametrize(("flows", "window"), [(4, 1.0), (32, 1.0), (32, 0.125), (3, 16.0)])
def test_windows_in_force_leave_their_sum_less_the_bdp(flows: int, window: float) -> None:
    model = TelemetryFluid(same(2, flows, window))
    signals, queue = settled(model), flows * window - 1
    assert model.queue == pytest.approx([queue, queue], rel=1e-6)
    assert signals.rtt == pytest.approx(1 + queue, rel=1e-6) and signals.queue == pytest.approx(queue, rel=1e-6)
    assert signals.goodput == pytest.approx(1 / flows, rel=1e-6) and signals.switch_rate == pytest.approx(1)
    assert signals.rtt_change == pytest.approx(0, abs=1e-6) and signals.queue_change == pytest.approx(0, abs=1e-6)
    assert signals.ins_rate == pytest.approx(window)


def test_shares_are_those_of_windows_and_small_sums_leave_no_queue() -> None:
    networks = replace(same(2, 2, 1.0), windows=np.array([[1.0, 0.25], [0.25, 0.5]]))
    model = TelemetryFluid(networks)
    signals = settled(model)
    assert model.queue == pytest.approx([0.25, 0.0], abs=1e-6)
    assert signals.goodput == pytest.approx([0.8, 0.2, 0.25, 0.5], rel=1e-3)
    assert signals.switch_rate == pytest.approx([1, 1, 0.75, 0.75], rel=1e-3)


def test_whole_packets_are_in_force_at_least_one() -> None:
    """Windows of 1.9 packets are in force as one; those of half a packet as well, and their rate alone holds them back."""
    networks = replace(same(2, 16, 1.0, packets=8), windows=np.array([[1.9 / 8] * 16, [0.5 / 8] * 16]))
    model = TelemetryFluid(networks)
    settled(model)
    assert model.queue == pytest.approx([16 / 8 - 1, 0], abs=1e-6), "16 x 0.5 packets are the line's 8 in a round trip"
    assert model.enforced() == pytest.approx(1 / 8)


def test_other_traffic_takes_its_part_and_waits_in_the_queue() -> None:
    model = TelemetryFluid(same(1, 4, 0.25, background=0.5))
    settled(model, 1000)
    before, since = model.acked.copy(), model.now[0]
    settled(model, 1000)
    shares = (model.acked - before)[0] / (model.now[0] - since)
    assert shares == pytest.approx(1 / 8, rel=0.02), "the flows' windows of one BDP fill half of two round trips"
    assert model.incasts.count == pytest.approx([8])
    model = TelemetryFluid(same(1, 1, 2.0**-6, queue=4))
    queues = []
    while model.now[0] < 3:
        model.step()
        queues.append((model.now[0], model.queue[0]))
    assert all(queue == pytest.approx(4 + min(now, 1) / 64 - now, abs=0.01) for now, queue in queues)


def test_telemetry_is_one_round_trip_old_and_bytes_wait_their_turn() -> None:
    """An ACK shows the queue of one base round trip ago. Its round trip began before the queue that its packet met."""
    model = TelemetryFluid(same(1, 4, 1.0))
    past: list[tuple[float, float]] = [(-1.0, 0.0), (0.0, 0.0)]
    for _ in range(200):
        model.step()
        past.append((model.now[0], model.queue[0]))
        at, queues = zip(*past, strict=True)
        assert model.seen_queue[0] == pytest.approx(np.interp(model.now[0] - 1, at, queues), abs=1e-9)
    assert model.rtt[0] == pytest.approx(4)


def test_a_decision_takes_half_a_round_trip_and_a_size_ends_a_flow() -> None:
    model = TelemetryFluid(replace(same(1, 4, 1.0), size=40.0))
    times: list[float] = []
    while model.now[0] < 100:
        if 0 in (flows := model.step()):
            times.append(model.now[0])
        model.decide(flows, np.ones(len(flows)))
    assert np.diff(times)[-10:] == pytest.approx(2, rel=0.02), "half of four"
    while model.now[0] < 200:
        model.step()
    assert model.acked == pytest.approx(40) and model.queue == pytest.approx(0)


def test_the_past_is_dropped_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    drop = _History.drop
    short, long = (TelemetryFluid(same(2, 4, 1.0, queue=3)) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(_History, "drop", lambda history, oldest: drop(history, 0))
        settled(long, 2000, 0.99)
    settled(short, 2000, 0.99)
    assert len(short._lines) < len(long._lines)
    assert (short.queue == long.queue).all() and (short.acked == long.acked).all()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"windows": np.zeros((2, 4))}, "windows and size must be above 0"),
        ({"size": 0.0}, "windows and size must be above 0"),
        ({"background": np.array([0.0, 1.0])}, "background must be from 0 to below 1"),
        ({"packets": np.ones(3)}, "do not fit together"),
    ],
)
def test_impossible_incasts_are_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        replace(same(2, 4, 1.0), **wrong)


def test_episodes_are_drawn_by_seed_and_stand_for_more_flows_than_they_have() -> None:
    ours, thesis = PRESETS["ours"], PRESETS["thesis"]
    one, again, other = (incasts.drawn(np.random.default_rng(seed), 200, 32, ours) for seed in (1, 1, 2))
    assert all((getattr(one, name) == getattr(again, name)).all() for name in ("windows", "starts", "packets", "queue"))
    assert (one.windows != other.windows).any()
    assert 400 < one.count.max() <= 512 and one.windows.max() > 8 and one.queue.max() > 100
    literal = incasts.drawn(np.random.default_rng(1), 50, 4, thesis)
    assert (literal.windows == 1).all() and not literal.queue.any() and (literal.count == 4).all()
    assert (literal.starts.min(axis=1) == 0).all() and 100 < literal.starts.max() < 735
