# SPDX-License-Identifier: Apache-2.0
"""Learned methods, a folder each: RL-CC and PCC-RL (rlcc/), ACC (acc/), FDCC (fdcc/)."""
