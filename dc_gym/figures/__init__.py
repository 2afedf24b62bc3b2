# SPDX-License-Identifier: Apache-2.0
"""Figures, drawn from results alone."""
