# SPDX-License-Identifier: Apache-2.0
"""Repeatable runs: digests, what they may depend on, and where two runs diverge."""
