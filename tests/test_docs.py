# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning: every link, anchor and page of the navigation is there."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_documentation_builds(tmp_path):
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_every_page_of_the_build_stands_without_the_network(tmp_path):
    """No font, script or picture from elsewhere: people read it on machines without network."""
    argv = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        loaded = [part.split('"')[0] for tag in ('src="http', 'stylesheet" href="http') for part in text.split(tag)[1:]]
        assert not loaded, f"{page.name} loads {loaded}"


def test_examples_are_toml():
    examples = sorted(ROOT.glob("examples/**/*.toml"))
    assert examples
    for path in examples:
        tomllib.loads(path.read_text())
