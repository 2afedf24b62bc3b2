# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md holds: in a copy of the checkout, its commands take what is added as it says, and lint finds nothing.

A topology is one file, an algorithm of the NICs one folder, a reward one place, a method one folder; besides these, only what is
generated changes.
"""

from __future__ import annotations

import json
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
LINT = ("ruff check .", "ruff format --check .", "lint-imports --no-logo --no-cache", "python scripts/reference.py")
"""`make lint` without mypy, which takes minutes where it has no cache."""
PYTEST = 'python -m pytest -q -n 0 -m "not long"'
PAGES = ("environment.md", "nic-algorithms.md", "spec.md", "spec.schema.json", "topologies.md", "workloads.md")
GENERATED = {f"docs/{page}" for page in PAGES}
CARD = """# SPDX-License-Identifier: Apache-2.0
row = 33
label = "New AIMD"
ecn = true
source = "DOCA PCC's RTT template"
reads = "round trips, marks"
"""
REFERENCE = (
    '"""A reference of additive increase and multiplicative decrease in floating point."""'
    + """

from __future__ import annotations

from dc_gym.ctrl.nic.events import CNP, NACK, RTT, Decision, NicEvent, NicFlow, since
from dc_gym.ctrl.nic.reference import LINE, Bound, FloatReference, Parameters, clamped


class Aimd:
    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._rate = LINE
        self._noted: set[int] = set()

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        if event.type == RTT:
            rtt_ns = since(event.sent_ns, event.first_ns) - since(event.received_ns, event.answered_ns)
            self._measured(max(0, rtt_ns) * 256, flow.base_rtt_ns)
            self._noted.clear()
        else:
            self._noted.add(event.type)
        return Decision(self._rate, 0.0, True)

    def _measured(self, rtt: int, base: int) -> None:
        late = rtt >= base * self._p["limit"]
        cuts = 5 if late and NACK in self._noted else 2 if late or CNP in self._noted else rtt > base * self._p["threshold"]
        cut = self._rate * (1 - cuts * self._p["factor"] / 2**16)
        self._rate = clamped(cut if cuts else self._rate + self._p["increase"] / 2**20)


REFERENCE = FloatReference(Aimd, Bound(16, 0))
"""
)
METHOD = '''# SPDX-License-Identifier: Apache-2.0
"""A method with a reward, an algorithm of the NICs and a command."""

from __future__ import annotations

from typing import Any

from dc_gym.base.methods import Method, MethodReward


def _reward(frame: Any, scene: Any, share: Any) -> float:
    from dc_gym.methods.mild.reward import restlessness

    return restlessness(frame, scene)


def _add_commands(commands: Any) -> None:
    commands.add_parser("train").set_defaults(command=lambda args: print("trained"))


METHOD = Method(
    title="Mild",
    summary="train nothing",
    example="dcgym method mild train",
    add_commands=_add_commands,
    rewards={"mild": MethodReward((0, 1), "mean change of the queues over the buffers", _reward, cost=True, flows=False)},
)
'''
SPEC = """
name = "new-aimd"
topology = { preset = "dumbbell-1g", rate = "10Gbit/s", delay = "5us" }
workload.kind = "pairs"
controller.name = "new-aimd"
time.duration = "5ms"
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the files under version control, with the built programs."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    tmp_path.chmod(0o755)  # a lab that root starts runs as another user
    tree = tmp_path / "dc-gym"
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).is_symlink() or source.exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name, follow_symlinks=False)
    shutil.copytree(ROOT / "dc_gym" / "bin", tree / "dc_gym" / "bin")
    return tree


def commands(section: str) -> list[str]:
    """Returns the commands below a heading of the page."""
    text = (ROOT / PAGE).read_text()
    match = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"{PAGE} has no section {section!r}"
    return [item.text for item in doc_pages.items(PAGE, match[1]) if isinstance(item, doc_pages.Command)]


def work_through(section: str, tree: Path, *more: str, kind: str = "circle") -> str:
    """Runs the commands of a section, with this kind in place of circle, lint and some more. Returns their output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    output = ""
    for command in (*(line.replace("circle", kind) for line in commands(section)), *LINT, *more):
        child = subprocess.run(["bash", "-c", command], cwd=tree, env=environment, capture_output=True, text=True)
        assert child.returncode == 0, f"{command}\n{child.stdout}{child.stderr}"
        output += child.stdout
    return output


def changed(tree: Path) -> set[str]:
    """Returns the files of a copy that are not those of the checkout, but for what is generated or built."""
    files = (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    names = {str(path.relative_to(tree)) for path in files} - GENERATED
    sources = {name for name in names if not name.startswith(("dc_gym/bin/", ".ruff_cache/", ".pytest_cache/", "results/"))}
    return {name for name in sources if not (ROOT / name).is_file() or (ROOT / name).read_bytes() != (tree / name).read_bytes()}


def test_a_topology_enters_the_tree(copy: Path) -> None:
    example = (copy / "examples" / "ring.py").read_text()
    name = "topologies/kinds/circle.py"
    (copy / name).write_text(re.sub(r"\bring\b", "circle", example).replace("RingKeys", "CircleKeys"))
    output = work_through("A topology", copy)
    assert "topology.size" in output and " passed" in output
    assert "`circle`" in (copy / "docs" / "spec.md").read_text() and changed(copy) == {name}


def test_a_workload_enters_the_tree(copy: Path) -> None:
    name = "traffic/kinds/trickle.py"
    (copy / name).write_text((copy / "examples" / "mice.py").read_text().replace('register("mice"', 'register("trickle"'))
    output = work_through("A topology", copy, kind="trickle")
    assert "workload.elephants" in output and " passed" in output
    assert "| `trickle` | **`flows`**" in (copy / "docs" / "workloads.md").read_text()
    assert changed(copy) == {name}


@pytest.mark.lab
def test_an_algorithm_of_the_nics_enters_the_tree(copy: Path) -> None:
    folder = copy / "ctrl" / "nic" / "algorithms" / "new_aimd"
    folder.mkdir()
    header = folder / "new-aimd.h"
    header.write_text((ROOT / "examples" / "aimd.h").read_text().replace('"aimd"', '"new-aimd"'))
    os.utime(header, (0, 0))  # so that `make programs` builds no other algorithm again
    (folder / "card.toml").write_text(CARD)
    (folder / "reference.py").write_text(f"# SPDX-License-Identifier: Apache-2.0\n{REFERENCE}")
    (copy.parent / "new.toml").write_text(SPEC)
    output = work_through("A congestion control", copy, "dcgym list", "dcgym run ../new.toml --out results/new --no-plot")
    assert len(re.findall(r"\d+ passed", output)) == 2 and re.search(r"^  new-aimd +New AIMD, reads ECN$", output, re.MULTILINE)
    assert "| `new-aimd` | DOCA PCC's RTT template | round trips, marks |" in (copy / "docs" / "nic-algorithms.md").read_text()
    assert changed(copy) == {f"ctrl/nic/algorithms/new_aimd/{name}" for name in ("new-aimd.h", "card.toml", "reference.py")}


def test_a_reward_enters_the_tree(copy: Path) -> None:
    example = (copy / "examples" / "calm.py").read_text()
    function = re.search(r"^def unrest.*?(?=^\w)", example, re.MULTILINE | re.DOTALL)
    register = re.search(r"^reward\.(register\(\"unrest\".*\))$", example, re.MULTILINE)
    assert function is not None and register is not None
    with (copy / "dc_gym" / "run" / "agent" / "reward.py").open("a") as file:
        file.write("\n\n" + f"{function[0]}{register[1]}\n".replace("unrest", "restless"))
    output = work_through("A reward", copy)
    assert "mean change of the queues over the buffers" in output and " passed" in output
    assert "| `restless` | " in (copy / "docs" / "environment.md").read_text() and changed(copy) == {"dc_gym/run/agent/reward.py"}


@pytest.mark.lab
def test_a_method_enters_the_tree(copy: Path) -> None:
    """It is found by its folder, and so is its algorithm. A run that names it depends on it."""
    folder = copy / "dc_gym" / "methods" / "mild"
    nic = folder / "nic" / "mild_aimd"
    nic.mkdir(parents=True)
    licence = "# SPDX-License-Identifier: Apache-2.0\n"
    (folder / "__init__.py").write_text(f'{licence}"""Mild."""\n')
    (folder / "method.py").write_text(METHOD)
    example = (ROOT / "examples" / "calm.py").read_text()
    function = re.search(r"^def unrest.*?(?=^\w)", example, re.MULTILINE | re.DOTALL)
    assert function is not None
    of_reward = function[0].replace("unrest", "restlessness").replace(", share: Floats", "").rstrip()
    imports = "from dc_gym.run.agent.frame import Frame\nfrom dc_gym.run.agent.scene import Scene"
    (folder / "reward.py").write_text(f'{licence}"""The reward."""\n\n{imports}\n\n\n{of_reward}\n')
    (nic / "mild-aimd.h").write_text((ROOT / "examples" / "aimd.h").read_text().replace('"aimd"', '"mild-aimd"'))
    os.utime(nic / "mild-aimd.h", (0, 0))  # so that `make programs` builds no other algorithm again
    (nic / "card.toml").write_text(CARD.replace("New AIMD", "Mild AIMD"))
    (copy.parent / "mild.toml").write_text(SPEC.replace("new-aimd", "mild-aimd"))
    more = ("dcgym list", "dcgym method mild train", "dcgym run ../mild.toml --out results/mild --no-plot")
    output = work_through("A method", copy, *more, "git init -q . && git add -A", f"{PYTEST} tests/test_methods.py -k mild")
    assert len(re.findall(r"\d+ passed", output)) == 2 and re.search(r"^  mild-aimd +Mild AIMD, reads ECN$", output, re.MULTILINE)
    assert "\ntrained\n" in output and "| `mild` | " in (copy / "docs" / "environment.md").read_text()
    manifest = json.loads((copy / "results" / "mild" / "manifest.json").read_text())
    assert "methods/mild" in manifest["sources"] and "methods/rlcc" not in manifest["sources"]
    names = ("__init__.py", "method.py", "reward.py", "nic/mild_aimd/mild-aimd.h", "nic/mild_aimd/card.toml")
    ours = {name for name in changed(copy) if not name.startswith(".git/")}
    assert ours == {f"dc_gym/methods/mild/{name}" for name in names}
