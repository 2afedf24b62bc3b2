# SPDX-License-Identifier: Apache-2.0
"""A lab does not use up its descriptors, and one that runs out of them says so: no result hangs on the machine's limit."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import episodes
import pytest

pytestmark = [pytest.mark.lab, pytest.mark.user]
LIMIT = 256
FILES = 1500


def limited(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command that may have LIMIT open files, and cannot raise that."""
    shell = ["/bin/sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh"]
    return subprocess.run([*shell, *argv], capture_output=True, text=True, cwd="/", **options)


@pytest.fixture
def many_files() -> Iterator[Path]:
    """A folder with FILES files below /tmp, which is an overlay in a lab."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for number in range(FILES):
            (folder / str(number)).write_text("x")
        yield folder


def run(tmp_path: Path, readable: Path, program: str) -> tuple[dict[str, Any], str]:
    """Runs a spec whose one program is this Python program, in a folder that labs may read. Returns its manifest and what the
    program printed."""
    (readable / "program.py").write_text(program)
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'topology = { preset = "dumbbell-10m" }\ncontroller = { name = "dctcp" }\n[workload]\nkind = "pairs"\n'
        f'exec = [{{ host = "h1", command = "python3 {readable}/program.py" }}]\n[time]\nduration = "50ms"\n'
    )
    argv = [
        sys.executable,
        "-P",
        "-m",
        "dc_gym.cli.main",
        "run",
        str(spec),
        "--out",
        str(tmp_path / "out"),
        "--no-plot",
        "--quiet",
    ]
    child = limited(argv)
    assert (tmp_path / "out").is_dir(), child.stderr
    return json.loads((tmp_path / "out/manifest.json").read_text()), (tmp_path / "out/exec/h1-0.stdout").read_text()


def test_reading_uses_up_no_descriptors(many_files: Path, tmp_path: Path) -> None:
    program = f"print(sum(len(open(f'{many_files}/{{n}}').read()) for n in range({FILES})))\n"
    manifest, printed = run(tmp_path, many_files, program)
    assert printed.split() == [str(FILES)]
    assert manifest["fit"], manifest["unfit_reasons"]


def test_a_lab_without_descriptors_makes_the_run_unfit(many_files: Path, tmp_path: Path) -> None:
    program = (
        f"files = []\ntry:\n    for n in range({FILES}):\n        files.append(open(f'{many_files}/{{n}}'))\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    manifest, printed = run(tmp_path, many_files, program)
    assert printed.split() == ["24"], "EMFILE"
    assert not manifest["fit"]
    (reason,) = manifest["unfit_reasons"]
    assert "open files" in reason and f"ulimit -n is {LIMIT}" in reason


RESETS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from episodes import footprints
settled, last, boots = footprints(Path(sys.argv[1]), int(sys.argv[2]))
assert boots == 1, f"{boots} labs were booted"
assert not last.growth(settled), last.growth(settled)
"""


def test_a_lab_lives_through_1000_resets() -> None:
    """Its folder lies below /tmp. tests/system/learn/test_resets.py has 10,000."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        child = limited([sys.executable, "-P", "-c", RESETS, folder, "1000", str(Path(episodes.__file__).parent)])
    assert child.returncode == 0, child.stderr
