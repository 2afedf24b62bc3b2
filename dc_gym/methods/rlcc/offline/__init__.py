# SPDX-License-Identifier: Apache-2.0
"""RL-CC offline: training, distilling, explaining and exporting. A run depends on none of it."""
