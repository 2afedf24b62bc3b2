# SPDX-License-Identifier: Apache-2.0
"""A run: turns a spec into what a ground carries, runs it inside the ground, and turns what it leaves into a result."""
