# SPDX-License-Identifier: Apache-2.0
"""The lab beside HPCC's authors' simulator: HPCC, DCQCN with two sets of parameters, TIMELY."""

from __future__ import annotations

from dc_gym.benchmarks.studies.peers import common

STUDY = common.study("hpcc-ns3", within=dict.fromkeys(("hpcc", "dcqcn", "dcqcn_paper", "timely"), 0.15))
