# SPDX-License-Identifier: Apache-2.0
"""Other people's tools that run the same experiment, for comparison (docs/peers.md)."""
