# SPDX-License-Identifier: Apache-2.0
"""The lab kernel: configuration, patches/, drivers/, build and cache, boot (lab.py), process 1 (init.c), the hand (hand.c)."""
