# SPDX-License-Identifier: Apache-2.0
"""Draws the networks of an episode of FDCC's training, and the networks that its policies are tested on."""

from __future__ import annotations

import numpy as np

from dc_gym.methods.fdcc.offline.presets import FdccPreset
from dc_gym.methods.fdcc.offline.telemetry_fluid import Incasts
from dc_gym.nets.fixed_point import Floats

PACKETS = (8.0, 128.0)
"""Packets in a BDP, drawn evenly by their logarithm."""
MOST_WINDOW = 16.0
"""First windows in BDP: 32 of these flood a queue as 512 windows of one BDP do."""
LEAST_LEFT = 1.0 / 16
"""The part of the line that other traffic leaves at least: 32 flows then have 1/512 of it each."""
MOST_QUEUE = 512.0
"""BDP of other traffic that wait at first."""
START_RTTS = 735.0 / 6
"""Standard deviation of Gaussian starts within the thesis' 1 ms, in base round trips of 1.36 us: three of it on either side."""


def drawn(random: np.random.Generator, networks: int, flows: int, preset: FdccPreset) -> Incasts:
    """Returns networks as one seed draws them."""
    packets = _octaves(random, networks, *PACKETS)
    if not preset.wide:
        starts = _gaussian(random, (networks, flows), np.full(networks, START_RTTS))
        return Incasts(np.ones((networks, flows)), starts, packets, np.zeros(networks), np.zeros(networks))
    left = np.where(random.random(networks) < 0.5, 1.0, _octaves(random, networks, LEAST_LEFT, 1.0))
    queue = np.where(random.random(networks) < 0.7, 0.0, _octaves(random, networks, 1.0, MOST_QUEUE))
    begins = random.random(networks) < 0.5  # as flows of a NIC begin; else with any windows, all at once
    first = np.where(random.random(networks) < 0.5, 1.0, _octaves(random, networks, 1.0, MOST_WINDOW))
    count = flows / left
    share = (1.0 + preset.queue_per_root * np.sqrt(count)) / count * _octaves(random, networks, 1.0 / 8, 8.0)
    apart = _octaves(random, (networks, flows), 1.0 / 8, 8.0)
    spread = np.where(begins, _octaves(random, networks, 1.0 / 8, 64.0), 0.0)
    windows = np.where(begins[:, None], first[:, None], np.clip(share[:, None] * apart, 2.0**-12, MOST_WINDOW))
    return Incasts(windows, _gaussian(random, (networks, flows), spread), packets, 1.0 - left, queue)


def _octaves(random: np.random.Generator, shape: int | tuple[int, ...], least: float, most: float) -> Floats:
    return np.asarray(least * (most / least) ** random.random(shape))


def _gaussian(random: np.random.Generator, shape: tuple[int, int], spread: Floats) -> Floats:
    """Returns Gaussian starts; the first flow of each network starts at 0."""
    drawn = random.standard_normal(shape) * spread[:, None]
    return np.asarray(drawn - drawn.min(axis=1, keepdims=True))
