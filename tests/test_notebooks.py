# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/notebooks: their form, and that all cells run, in Jupyter where it is installed, and without.

Without Jupyter a cell is executed as Python, and its last expression is asked for what Jupyter would show.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
NAMES = ("student", "researcher")
MOST_LINES = 36
"""Lines of a cell. A longer helper belongs into dc_gym/notebook.py."""
NEEDS = "needs-"
"""A cell with the tag needs-PACKAGE is left out where the package is not installed."""
PNG = b"\x89PNG\r\n\x1a\n"


def notebook(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return content


def missing(cell: dict[str, Any]) -> list[str]:
    """Returns the packages that a cell needs and that are not installed."""
    packages = [tag.removeprefix(NEEDS) for tag in cell["metadata"].get("tags", ()) if tag.startswith(NEEDS)]
    return [package for package in packages if find_spec(package) is None]


def code(name: str) -> Iterator[tuple[str, str]]:
    """Yields name and text of each code cell that can run here."""
    for cell in notebook(name)["cells"]:
        if cell["cell_type"] == "code" and not missing(cell):
            yield f"{name}.ipynb, {cell['id']}", "".join(cell["source"])


def shown(where: str, text: str, names: dict[str, Any]) -> object:
    """Executes a cell and returns the value of its last expression; None without one."""
    tree = ast.parse(text, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), where, "eval"), names)


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], int]:
    """Runs a notebook's cells in a folder; returns their names, and how many pictures they showed."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    pictures = 0
    for where, text in code(name):
        value = shown(where, text, names)
        if hasattr(value, "_repr_mimebundle_"):
            data, _ = value._repr_mimebundle_()
            assert data["image/png"].startswith(PNG) and len(data["image/png"]) > 10_000, where
            pictures += 1
    return names, pictures


def test_these_are_all() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_its_form(name: str) -> None:
    """Outputs are not kept in git, cells are short, and the file is as Jupyter would sort it."""
    content = notebook(name)
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert (FOLDER / f"{name}.ipynb").read_text() == json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert "".join(content["cells"][0]["source"]).startswith("<!-- SPDX-License-Identifier: Apache-2.0 -->\n# ")
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    for cell in content["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, "clear its outputs before you commit it"
            assert len(cell["source"]) <= MOST_LINES, cell["id"]


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_that_it_names_exist(name: str) -> None:
    text = "".join("".join(cell["source"]) for cell in notebook(name)["cells"] if cell["cell_type"] == "markdown")
    links = [part.partition(")")[0].partition("#")[0] for part in text.split("](")[1:]]
    assert links and all((FOLDER / link).is_file() for link in links), links


@pytest.mark.lab
@pytest.mark.timeout(1800)
def test_student_without_jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run shows what the text says: buffers fill, DCTCP's does not, and pauses take two thirds of a flow's rate."""
    names, pictures = run("student", tmp_path, monkeypatch)
    assert pictures == 4
    assert names["queue"].summary["mean_srtt_us"] > 5 * names["base_rtt_us"]
    queues = [result.summary["mean_queue_bytes"] for result in names["by_k"]]
    assert queues == sorted(queues) and names["by_k"][0].summary["utilization"] < 0.95 < names["by_k"][2].summary["utilization"]
    victim = names["victim_gbps"]
    assert victim["pfc-off-cubic"] > 9 > 4 > victim["pfc-classes-cubic"] and victim["pfc-classes-dctcp"] > 9
    pauses = {result.path.name: result.summary["pauses"] for result in names["storm"]}
    assert pauses["pfc-off-cubic"] == 0 < pauses["pfc-classes-dctcp"] < pauses["pfc-classes-cubic"]


@pytest.mark.lab
@pytest.mark.timeout(1800)
def test_researcher_without_jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    names, pictures = run("researcher", tmp_path, monkeypatch)
    stdout = capsys.readouterr().out
    assert pictures == 3 and names["verdicts"] == {2: True, 8: True}
    assert stdout.count("the claim holds") == 2 and "RTT inflation: " in stdout
    assert len(names["table"]) == 12 and names["deployed"].fit


@pytest.mark.lab
@pytest.mark.timeout(1800)
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_in_jupyter(name: str, tmp_path: Path) -> None:
    """The notebook runs in a kernel of Jupyter, and its outputs have the pictures."""
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package, reason="needs the extra notebook")
    import nbclient
    import nbformat

    read = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(read)
    read.cells = [cell for cell in read.cells if not missing(cell)]
    nbclient.NotebookClient(read, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in read.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == {"student": 4, "researcher": 3}[name]
