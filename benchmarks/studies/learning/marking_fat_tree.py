# SPDX-License-Identifier: Apache-2.0
"""One PPO agent chooses one of 11 ECN settings for all ports of a fat-tree, beside static settings: see marking.py."""

from __future__ import annotations

from dc_gym.benchmarks.studies.learning.marking import setup, study

STUDY = study(
    "PPO sets ECN thresholds on a fat-tree, one setting for all ports",
    setup("marking-fat-tree", "dcgym/EcnFatTreeK4-v0", steps=6_000, preset="marking", levels=11),
)
