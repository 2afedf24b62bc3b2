# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning: every link, anchor and page of the navigation is there."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.spec import load

ROOT = Path(__file__).resolve().parent.parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def build(folder, **pages):
    """Builds the documentation as `make docs` does, from nothing but docs/ and mkdocs.yml; `pages` are texts to add to pages."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name, text in pages.items():
        with (folder / "docs" / f"{name}.md").open("a") as page:
            page.write(f"\n{text}\n")
    made = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True)
    if made.returncode:
        return made
    return check(folder / "build" / "docs")


def check(site):
    return subprocess.run([sys.executable, ROOT / "scripts" / "docs.py", site], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built documentation."""
    folder = tmp_path_factory.mktemp("docs")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "docs"


def test_the_documentation_builds(site):
    assert (site / "index.html").is_file() and (site / "labs" / "rtt.html").is_file()


def test_a_broken_link_or_anchor_fails_the_build(tmp_path):
    done = build(tmp_path, concepts="[x](nowhere.md)", links="[x](design.md#nowhere)")
    assert done.returncode != 0
    assert all(name in done.stdout + done.stderr for name in ("concepts.md", "links.md", "2 issues")), done.stdout + done.stderr


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
    done = check(tmp_path)
    assert (done.returncode, done.stderr) == (1, fault + "\n")
    page.write_text('<a href="design.html#layout"><a href="https://example.org"><a href="design.html">')
    assert check(tmp_path).returncode == 0


def test_the_check_of_a_folder_without_pages_says_so(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 2 and "make docs" in done.stderr


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
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert "FOUND Bufferbloat" in done.stdout, done.stdout[-500:] + done.stderr[-2000:]


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
