# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning: every link, anchor and page of the navigation is there."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.spec import load

ROOT = Path(__file__).resolve().parent.parent


def test_the_documentation_builds(tmp_path):
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_every_page_of_the_build_stands_without_the_network(tmp_path):
    """Pages load no font, script or picture from other servers: people read them on machines without network."""
    argv = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        loaded = [part.split('"')[0] for tag in ('src="http', 'stylesheet" href="http') for part in text.split(tag)[1:]]
        assert not loaded, f"{page.name} loads {loaded}"


def test_a_stale_table_is_noticed_and_renewed(tmp_path, capsys):
    reference = load_script("reference")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated: mixes -->\nold\n<!-- end -->\nafter\n")
    assert reference.main([], tmp_path) == 1 and "page.md: a generated table is stale" in capsys.readouterr().out
    assert reference.main(["--write"], tmp_path) == 0 and reference.main([], tmp_path) == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n") and "| `oltp` | 5 : 5 |" in text
    page.write_text(text.replace("mixes", "mixtures"))
    assert reference.main(["--write"], tmp_path) == 1 and "nothing generates 'mixtures'" in capsys.readouterr().out


def load_script(name):
    found = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    return script


def test_the_tutorial_s_first_run_has_the_digest_of_the_readme():
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/tutorial.md")]
    assert len({re.search(r"[0-9a-f]{64}", page)[0] for page in pages}) == 1


def test_the_plug_in_that_the_documentation_shows_works(tmp_path):
    text = (ROOT / "docs" / "extending.md").read_text()
    (tmp_path / "everybody.py").write_text(text.split("```python\n# everybody.py:")[1].partition("\n")[2].split("```")[0])
    spec = text.split('```toml\nplugins = ["everybody.py"]')[1].split("```")[0]
    head = 'plugins = ["everybody.py"]\ncontroller.name = "dctcp"\ntopology.preset = "fattree-k4"\ntime.duration = "1s"\n'
    (tmp_path / "mine.toml").write_text(head + spec)
    flows = load(tmp_path / "mine.toml").flows(load(tmp_path / "mine.toml").graph())
    assert [(flow.src, flow.dst) for flow in flows] == [(f"h{i}", f"h{i % 16 + 1}") for i in range(1, 17)]


def test_a_plug_in_that_takes_other_arguments_is_told_where(tmp_path):
    (tmp_path / "old.py").write_text(
        "from dc_gym.traffic import workloads\n\nworkloads.register('old', lambda graph, params: [])\n"
    )
    (tmp_path / "mine.toml").write_text('plugins = ["old.py"]\n')
    with pytest.raises(SpecError, match=r"old.py:3: TypeError"):
        load(tmp_path / "mine.toml")


def test_examples_are_toml():
    examples = sorted(ROOT.glob("examples/**/*.toml"))
    assert examples
    for path in examples:
        tomllib.loads(path.read_text())
