# SPDX-License-Identifier: Apache-2.0
"""Figures that are drawn from results alone."""
