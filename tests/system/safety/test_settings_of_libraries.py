# SPDX-License-Identifier: Apache-2.0
"""Libraries take no settings from the current folder or a result's: matplotlib would run LaTeX on a stranger's preamble."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

DCGYM = [sys.executable, "-P", "-m", "dc_gym.cli.main"]
STRANGERS = "text.usetex: True\ntext.latex.preamble: \\input{/etc/passwd}\naxes.facecolor: red\n"


def drawn(folder: Path, config: Path, *words: str) -> bytes:
    """Returns the picture that a command draws in a folder. Its last word names it; `config` has the user's own settings."""
    env = {**os.environ, "MPLCONFIGDIR": str(config)}
    child = subprocess.run([*DCGYM, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stderr
    return Path(folder, words[-1]).read_bytes()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An empty folder, one with settings of a stranger, and the user's own for settings, which has none."""
    clean, foreign, config = (tmp_path / name for name in ("clean", "foreign", "config"))
    for folder in (clean, foreign, config):
        folder.mkdir()
    (foreign / "matplotlibrc").write_text(STRANGERS)
    return clean, foreign, config


def test_a_topology_is_drawn_without_a_matplotlibrc_of_the_current_folder(folders: tuple[Path, Path, Path]) -> None:
    clean, foreign, config = folders
    words = ("topology", "dumbbell-10m", "--png", "net.png")
    plain = drawn(clean, config, *words)
    assert drawn(foreign, config, *words) == plain
    (foreign / "matplotlibrc").unlink()
    os.mkfifo(foreign / "matplotlibrc")
    assert drawn(foreign, config, *words) == plain, "the file is not even opened"
    (config / "matplotlibrc").write_text("savefig.pad_inches: 1\nsavefig.bbox: tight\n")
    assert drawn(foreign, config, *words) != plain, "the user's own settings hold"


def test_a_stranger_s_result_is_plotted_from_within_without_its_matplotlibrc(folders: tuple[Path, Path, Path]) -> None:
    clean, foreign, config = folders
    pictures = []
    for folder in (clean, foreign):
        synthetic.result(folder / "result")
        if folder == foreign:
            (folder / "result" / "matplotlibrc").write_text(STRANGERS)
        pictures.append(drawn(folder / "result", config, "plot", ".", "--out", "drawn.png"))
    assert pictures[0] == pictures[1]
