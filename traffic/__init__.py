# SPDX-License-Identifier: Apache-2.0
"""Workloads, matrices and flow sizes; tgen/ (C: one process for all hosts)."""
