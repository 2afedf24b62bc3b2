# SPDX-License-Identifier: Apache-2.0
"""The comparison on the network `fattree-k4` of cases.py."""

from __future__ import annotations

from dc_gym.benchmarks.studies.compare import cases

STUDY = cases.study("fattree-k4")
