# SPDX-License-Identifier: Apache-2.0
"""The result of a run: reads a ground's records, and makes tables, metrics, manifest and plot of them."""
