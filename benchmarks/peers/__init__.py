# SPDX-License-Identifier: Apache-2.0
"""Peers: other simulators that run the same experiment, for comparison (docs/peers.md)."""
