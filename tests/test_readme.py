# SPDX-License-Identifier: Apache-2.0
"""The digest that the README promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.benchmarks.studies import demo
from dc_gym.records import fingerprint
from dc_gym.records.results import load_result

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def promised():
    """Returns the digest, and the environment that it is promised for."""
    digest = re.search(r"has the digest\n\n    ([0-9a-f]{64})\n", README)[1]
    block = re.search(r"lists the same environment:\n\n((?:    .*\n)+)", README)[1]
    return digest, dict(line.strip().split(": ", 1) for line in block.splitlines())


def test_the_promise_is_for_these_sources():
    """After a change of what runs in the lab, run `make demo` and scripts/readme.py again."""
    assert promised()[1]["programs"] == fingerprint.programs()


@pytest.mark.lab
def test_the_promise_holds_where_the_environment_is_the_same(tmp_path, lab_kernel):
    tmp_path.chmod(0o755)
    (cell,) = [each for each in demo.case_cells(demo.CASES[0], tmp_path, seeds=(1,)) if "dctcp" in each.name]
    done = subprocess.run([sys.executable, "-m", "dc_gym.cli.main", *cell.argv()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = load_result(cell.out, check_digest=True)
    digest, environment = promised()
    mine = result.manifest["environment"]
    if mine != {name: value for name, value in environment.items() if name != "fingerprint"}:
        pytest.skip(f"another environment than the README's: {mine}")
    assert result.digest == digest
