# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning: every link, anchor and page of the navigation is there."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.spec import load

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
EXTENDING = (ROOT / "docs" / "extending.md").read_text()


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


def test_the_tutorial_s_first_run_has_the_digest_of_the_readme():
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/tutorial.md")]
    assert len({re.search(r"[0-9a-f]{64}", page)[0] for page in pages}) == 1


@pytest.mark.usefixtures("registries")
def test_the_example_of_a_workload_has_the_sizes_and_starts_that_its_page_tells():
    spec = load(EXAMPLES / "mice.toml")
    flows = spec.flows(spec.graph())
    assert {flow.size_bytes for flow in flows} == {10_000, 1_000_000}
    assert [sum(flow.src == f"h{i}" for flow in flows) for i in (1, 2, 3, 4)] == [20] * 4
    assert max(flow.start_ns for flow in flows) < 80 * 10**6
    assert flows == spec.flows(spec.graph()) != load(EXAMPLES / "mice.toml", ["seed=2"]).flows(spec.graph())


@pytest.mark.usefixtures("registries")
def test_the_page_s_diff_gives_the_ring_chords(tmp_path):
    """Lines with - are replaced by the lines with + below them."""
    diff = next(block for block in re.findall(r"```diff\n(.*?)```", EXTENDING, re.DOTALL) if "args" in block)
    code, spec = ((EXAMPLES / f"ring.{ending}").read_text() for ending in ("py", "toml"))
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
        removed, added = (re.sub("^.", "", lines, flags=re.MULTILINE) for lines in (old, new))
        assert code.count(removed) == 1, removed
        code = code.replace(removed, added)
    (tmp_path / "ring.py").write_text(code)
    args = re.search(r"`(args = .*?)` in `\[topology\]`", EXTENDING)[1]
    (tmp_path / "ring.toml").write_text(spec.replace("hosts = 6\n", f"hosts = 6\n{args}\n"))
    joined = {(cable.a.node, cable.b.node) for cable in load(tmp_path / "ring.toml").graph().cables}
    assert {("s1", "s4"), ("s2", "s5"), ("s3", "s6")} <= joined and len(joined) == 15


def test_the_page_s_diff_of_a_spec_gives_the_example():
    diff = next(block for block in re.findall(r"```diff\n(.*?)```", EXTENDING, re.DOTALL) if "ring.py" in block)
    new = [line[1:] for line in diff.splitlines() if line[:1] in "+ "]
    assert "\n".join(new) + "\n" in (EXAMPLES / "ring.toml").read_text()


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
