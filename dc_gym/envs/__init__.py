# SPDX-License-Identifier: Apache-2.0
"""The gym: a network under emulation as a Gymnasium environment (docs/environment.md)."""
