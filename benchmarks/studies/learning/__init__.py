# SPDX-License-Identifier: Apache-2.0
"""What trainings learn: host rates, ECN thresholds, ACC, FDCC, RL-CC and its trees"""
