# SPDX-License-Identifier: Apache-2.0
"""FDCC offline: training and distilling. A run depends on none of it."""
