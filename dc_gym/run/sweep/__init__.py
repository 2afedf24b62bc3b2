# SPDX-License-Identifier: Apache-2.0
"""Sweeps: many runs of one spec with some keys varied, one lab for each CPU (docs/sweeps.md).

grid.py determines the runs. pool.py and cluster.py run them. state.py finds the runs that exist already. summary.py reports how
they ended. The benches use only the pool.
"""

from dc_gym.run.sweep.command import local, main, run_grid
from dc_gym.run.sweep.pool import Cell, CellOutcome, cpus, failures, require_all, run_cells

__all__ = ["Cell", "CellOutcome", "cpus", "failures", "local", "main", "require_all", "run_cells", "run_grid"]
