# SPDX-License-Identifier: Apache-2.0
"""Sweeps: many runs of one spec with some keys varied, a lab a CPU (docs/sweeps.md).

grid.py says which runs; pool.py and cluster.py run them; folder.py knows which are there already; summary.py tells how they went.
The demo and the benches use the pool alone.
"""

from dc_gym.sweep.command import local, main, run_grid
from dc_gym.sweep.pool import Cell, Outcome, cpus, failures, require_all, run_cells

__all__ = ["Cell", "Outcome", "cpus", "failures", "local", "main", "require_all", "run_cells", "run_grid"]
