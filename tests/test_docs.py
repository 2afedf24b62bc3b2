# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning: every link, anchor and page of the navigation is there."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.spec import load
from dc_gym.topologies.paths import base_rtt_ns

ROOT = Path(__file__).resolve().parent.parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EXAMPLES = ROOT / "examples"
WITHHELD = {"labs/answers.md"}
"""Pages that need not be there, so that a teacher can keep them."""


def build(folder, **pages):
    """Builds the documentation as `make docs` does, from docs/, examples/ and mkdocs.yml; `pages` are texts to add to pages."""
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name, text in pages.items():
        with (folder / "docs" / f"{name}.md").open("a") as page:
            page.write(f"\n{text}\n")
    child = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True)
    if child.returncode:
        return child
    return check(folder / "build" / "docs")


def check(site):
    return subprocess.run([sys.executable, ROOT / "scripts" / "docs.py", site], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built documentation."""
    folder = tmp_path_factory.mktemp("docs")
    child = build(folder)
    assert child.returncode == 0, child.stdout + child.stderr
    return folder / "build" / "docs"


def test_the_documentation_builds(site):
    assert (site / "index.html").is_file() and (site / "labs" / "rtt.html").is_file()


def test_a_broken_link_or_anchor_fails_the_build(tmp_path):
    run = build(tmp_path, concepts="[x](nowhere.md)", links="[x](design.md#nowhere)")
    assert run.returncode != 0
    assert all(name in run.stdout + run.stderr for name in ("concepts.md", "links.md", "2 issues")), run.stdout + run.stderr


def test_an_example_that_is_not_there_fails_the_build(tmp_path):
    child = build(tmp_path, concepts='--8<-- "examples/nowhere.py"')
    assert child.returncode != 0 and "examples/nowhere.py" in child.stdout + child.stderr


def test_a_page_has_the_examples_that_it_includes(site):
    page = (site / "extending.html").read_text()
    assert "--8&lt;--" not in page
    assert all(name in page for name in ("RingKeys", "MiceKeys", "RampKeys", "LimitKeys", "BanditKeys"))


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="nowhere.html">', "index.html: nowhere.html: no such file"),
        ('<a href="design.html#nowhere">', "index.html: design.html#nowhere: no such anchor"),
        ('<a href="#nowhere">', "index.html: #nowhere: no such anchor"),
        ('<a href="design">', "index.html: design: no such file"),
        ('<img src="nowhere.png">', "index.html: nowhere.png: no such file"),
        ('<script src="https://example.org/x.js">', "index.html: loads https://example.org/x.js from the network"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "index.html: loads //example.org/x.css from the network"),
    ],
)
def test_the_check_of_built_pages_notices(html, fault, tmp_path):
    page = tmp_path / "index.html"
    page.write_text(html)
    (tmp_path / "design.html").write_text('<h2 id="layout">')
    child = check(tmp_path)
    assert (child.returncode, child.stderr) == (1, fault + "\n")
    page.write_text('<a href="design.html#layout"><a href="https://example.org"><a href="design.html">')
    assert check(tmp_path).returncode == 0


def test_the_check_of_a_folder_without_pages_says_so(tmp_path):
    child = check(tmp_path)
    assert child.returncode == 2 and "make docs" in child.stderr


SEARCH = """<script>
const again = setInterval(() => {
  const roots = [...document.querySelectorAll("*")].map((each) => each.shadowRoot);
  const search = roots.find((each) => each?.querySelector("[role=combobox]"));
  const field = search?.querySelector("[role=combobox]");
  if (!field) document.querySelector(".md-search__button").click();
  else if (field.value !== "bufferbloat") {
    field.value = "bufferbloat";
    field.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true }));
  } else if (search.querySelector("[role=listbox]").innerText) {
    clearInterval(again);
    document.body.append("FOUND " + search.querySelector("[role=listbox]").innerText);
  }
}, 200);
</script></body>"""
"""Opens the search, types a word into it, and appends what it finds to the page."""


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_the_search_works_on_pages_from_disk(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    page = tmp_path / "site" / "index.html"
    page.write_text(page.read_text().replace("</body>", SEARCH))
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    argv += ["--virtual-time-budget=60000", "--dump-dom", page.as_uri()]
    child = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert "FOUND Bufferbloat" in child.stdout, child.stdout[-500:] + child.stderr[-2000:]


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
    module_spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    script = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(script)
    return script


def test_the_index_and_the_navigation_have_every_page():
    """For a folder with an index of its own, the index links to the folder's pages."""
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    reached = {"index.md"}
    for index in ("index.md", *sorted(page for page in pages if page.endswith("/index.md"))):
        links = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", (docs / index).read_text())
        reached |= {str((docs / index).parent.joinpath(link).resolve().relative_to(docs)) for link in links}
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"(?::|-) ([\w/-]+\.md)$", nav, re.MULTILINE)
    assert pages - WITHHELD <= reached and set(listed) | WITHHELD == pages | WITHHELD and len(listed) == len(set(listed))


def test_the_tutorial_s_first_run_has_the_digest_of_the_readme():
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/tutorial.md")]
    assert len({re.search(r"[0-9a-f]{64}", page)[0] for page in pages}) == 1


@pytest.mark.usefixtures("registries")
def test_the_example_of_a_workload_has_the_sizes_and_starts_that_its_page_tells():
    spec = load(EXAMPLES / "mice.toml")
    flows = spec.flows(spec.graph())
    assert {flow.size_bytes for flow in flows} == {20_000, 1_000_000}
    assert [sum(flow.src == f"h{i}" for flow in flows) for i in (1, 2, 3, 4)] == [20] * 4
    assert max(flow.start_ns for flow in flows) < 80 * 10**6
    assert flows == spec.flows(spec.graph()) != load(EXAMPLES / "mice.toml", ["seed=2"]).flows(spec.graph())


@pytest.mark.usefixtures("registries")
def test_the_example_of_a_topology_has_the_chords_that_its_key_tells():
    ring = load(EXAMPLES / "ring.toml", ["topology.chord=3"]).graph()
    joined = {(cable.a.node, cable.b.node): cable.rate_bps for cable in ring.cables}
    assert len(joined) == 15 and {joined["s1", "s4"], joined["s2", "s5"], joined["s3", "s6"]} == {500_000_000}


@pytest.mark.usefixtures("registries")
def test_the_example_of_a_marking_has_the_slope_that_its_keys_tell():
    graph = load(EXAMPLES / "ramp.toml", ["topology.foot=1bdp", "topology.steepness=20%"]).graph()
    slope, step = (graph.port(f"s1-eth{number}").queue.marking for number in (2, 1))
    assert (slope.kind, slope.max_bytes, slope.probability_ppm) == ("red-instant", 200_000, 200_000)
    assert slope.min_bytes == 10**10 * base_rtt_ns(graph) // (8 * 10**9) and step.kind == "step"


def test_a_plug_in_that_takes_other_arguments_is_told_where(tmp_path):
    (tmp_path / "old.py").write_text(
        "from dc_gym.traffic import workloads\n\nworkloads.register('old', lambda graph, params: [])\n"
    )
    (tmp_path / "mine.toml").write_text('plugins = ["old.py"]\n')
    with pytest.raises(SpecError, match=r"old.py:3: workload.kind 'old': cannot be called with \(context\): missing"):
        load(tmp_path / "mine.toml")


def test_examples_are_toml():
    examples = sorted(ROOT.glob("examples/**/*.toml"))
    assert examples
    for path in examples:
        tomllib.loads(path.read_text())
