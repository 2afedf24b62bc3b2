# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md holds: in a copy of the checkout, its commands take a topology and a reward that are added as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import doc_pages
import pytest
from doc_pages import ROOT

PAGE = "CONTRIBUTING.md"
ROW = "| `restless` | 0..1 | mean change of the queues over the buffers |\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the files under version control, with the built programs."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    tree = tmp_path / "dc-gym"
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).is_symlink() or source.exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name, follow_symlinks=False)
    (tree / "dc_gym" / "bin").symlink_to(ROOT / "dc_gym" / "bin")
    return tree


def commands(section: str) -> list[str]:
    """Returns the commands below a heading of the page."""
    text = (ROOT / PAGE).read_text()
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE} has no section {section!r}"
    return [item.text for item in doc_pages.items(PAGE, found[1]) if isinstance(item, doc_pages.Command)]


def work_through(section: str, tree: Path) -> str:
    """Runs the commands of a section and returns what they print."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    said = ""
    for command in commands(section):
        done = subprocess.run(["bash", "-c", command], cwd=tree, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said += done.stdout
    return said


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path}: {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new))


def test_a_topology_enters_the_tree(copy: Path) -> None:
    example = (copy / "examples" / "ring.py").read_text()
    (copy / "topologies" / "circle.py").write_text(re.sub(r"\bring\b", "circle", example).replace("RingKeys", "CircleKeys"))
    presets = copy / "topologies" / "presets.py"
    replace(presets, "from dc_gym.topologies import dumbbell,", "from dc_gym.topologies import circle, dumbbell,")
    replace(presets, "FAMILIES = (single,", "FAMILIES = (single, circle,")
    said = work_through("A topology", copy)
    assert "topology.size" in said and " passed" in said
    assert "`circle`" in (copy / "docs" / "spec.md").read_text()


def test_a_reward_enters_the_tree(copy: Path) -> None:
    example = (copy / "examples" / "calm.py").read_text()
    function = re.search(r"^def unrest.*?(?=^\w)", example, re.MULTILINE | re.DOTALL)
    register = re.search(r"^reward\.(register\(\"unrest\".*\))$", example, re.MULTILINE)
    assert function is not None and register is not None
    with (copy / "dc_gym" / "envs" / "reward.py").open("a") as file:
        file.write("\n\n" + f"{function[0]}{register[1]}\n".replace("unrest", "restless"))
    replace(copy / "docs" / "environment.md", "\n## Rewards\n", f"\n## Rewards\n{ROW}")
    said = work_through("A reward", copy)
    assert "mean change of the queues over the buffers" in said and " passed" in said
