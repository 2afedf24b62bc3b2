# SPDX-License-Identifier: Apache-2.0
"""The process of a run of a sweep: `dcgym`, tied to the process that started it (run/sweep/pool.py).

python -m dc_gym.cli.cell PID WORD ...
"""

from __future__ import annotations

import sys

from dc_gym.cli.signals import tie_to_parent

if __name__ == "__main__":
    tie_to_parent(int(sys.argv.pop(1)))
    from dc_gym.cli.main import main

    sys.exit(main(sys.argv[1:]))
