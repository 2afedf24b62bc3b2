# SPDX-License-Identifier: Apache-2.0
"""The result of a run: reads what a ground has left, and makes tables, metrics, manifest and plot of it."""
