# SPDX-License-Identifier: Apache-2.0
"""Benches of ACC. A run depends on none of it."""
