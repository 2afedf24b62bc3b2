# SPDX-License-Identifier: Apache-2.0
"""The files of dc-gym that a process imports while it makes a run's plan and builds its agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace
import dc_gym.run.grounds.guest.main, dc_gym.run.grounds.host.inside, dc_gym.run.result.read_back
from dc_gym.spec import load
from dc_gym.run.plan import writer
from dc_gym.run.plan.experiment import Experiment

made = Experiment.of(load(sys.argv[1], sys.argv[3:]))
writer.write_plan(made, SimpleNamespace(folder=Path()), Path(sys.argv[2]))
if made.spec.controller.policy is not None:
    from dc_gym.run.agent.driver import PolicyDriver

    PolicyDriver(made)
print(*(m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "dc_gym"), sep="\\n")
"""


def of_run(spec: str, folder: Path, *overrides: str) -> set[Path]:
    """Returns the files that are imported for a spec, also by names that are computed. The plan is written to `folder`."""
    argv = [sys.executable, "-c", PROGRAM, spec, str(folder), *overrides]
    output = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return {Path(line) for line in output.splitlines()}
