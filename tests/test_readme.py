# SPDX-License-Identifier: Apache-2.0
"""The digest that the README promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from specs import demo_cells

from dc_gym import __version__
from dc_gym.results.results import load_result

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def promised():
    """Returns the digest, and the environment that it is promised for."""
    digest = re.search(r"has the digest\n\n    ([0-9a-f]{64})\n", README)[1]
    block = re.search(r"lists the same environment:\n\n((?:    .*\n)+)", README)[1]
    return digest, dict(line.strip().split(": ", 1) for line in block.splitlines())


def test_the_promise_is_for_this_release():
    """Before a release, run `make demo` and scripts/readme.py."""
    assert re.search(r"In dc-gym (\S+) the demo's first run", README)[1] == __version__


@pytest.mark.lab
def test_the_promise_holds_where_all_but_our_own_parts_are_the_same(tmp_path, lab_kernel):
    """If a change of ours alters the digest, run `make demo` and scripts/readme.py again."""
    tmp_path.chmod(0o755)
    (cell,) = demo_cells(tmp_path, "dumbbell-10m-dctcp")
    child = subprocess.run([sys.executable, "-m", "dc_gym.cli.main", *cell.argv()], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    result = load_result(cell.out, check_digest=True)
    digest, environment = promised()
    run_environment = result.manifest["environment"]
    if outside(run_environment) != outside(environment):
        pytest.skip(f"another environment than the README's: {run_environment}")
    assert result.digest == digest


def outside(environment):
    """Returns the parts that are not ours: the versions of Linux, Open vSwitch, libc and Python."""
    linux = environment["kernel"].partition("-lab-")[0]
    return [linux, *(environment[name] for name in ("openvswitch", "libc", "python"))]
