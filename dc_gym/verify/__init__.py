# SPDX-License-Identifier: Apache-2.0
"""Runs that repeat: digests, what they may depend on, and where two runs part."""
