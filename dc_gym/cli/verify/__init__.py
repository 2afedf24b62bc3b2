# SPDX-License-Identifier: Apache-2.0
"""Repeatable runs: digests, their inputs, and the place where two runs diverge."""
