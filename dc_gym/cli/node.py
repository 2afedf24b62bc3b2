# SPDX-License-Identifier: Apache-2.0
"""The process of a run on a node of a Ray cluster, tied to the worker that started it (run/sweep/cluster.py).

python -m dc_gym.cli.node PID < order > files
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import sys
import tempfile
from pathlib import Path

from dc_gym.base.files import scratch
from dc_gym.cli.signals import tie_to_parent


def main() -> None:
    """Reads the spec and its files from standard input, runs in a folder of its own, and writes the result out."""
    tie_to_parent(int(sys.argv.pop(1)))
    from dc_gym.cli.main import main as dcgym
    from dc_gym.run.sweep.cluster import read_all, write_all
    from dc_gym.run.sweep.pool import Cell

    spec, inputs = pickle.load(sys.stdin.buffer)
    with scratch(Path(tempfile.gettempdir()), "dcgym-cell-") as folder:
        write_all(folder, inputs)
        (folder / "spec.json").write_text(json.dumps(spec))
        out = folder / "out"
        with contextlib.redirect_stdout(io.StringIO()):
            status = dcgym(Cell("run", folder / "spec.json", out).argv())
        files = read_all(out)
    sys.stdout.buffer.write(pickle.dumps(files))
    sys.stdout.flush()
    sys.exit(status)


if __name__ == "__main__":
    main()
