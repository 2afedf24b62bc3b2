# SPDX-License-Identifier: Apache-2.0
"""A run: spec -> plan/ -> grounds/ (with agent/) -> result/. runner.py does one run, sweep/ does many."""
