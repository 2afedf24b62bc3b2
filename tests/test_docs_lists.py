# SPDX-License-Identifier: Apache-2.0
"""The documentation's lists are true: folders, commands, benches, papers, pages, and the limitations."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import doc_pages
import pytest
from doc_pages import ROOT

from dc_gym import spec
from dc_gym.base.errors import SpecError
from dc_gym.benchmarks.bench import BENCHES
from dc_gym.cli import parser
from dc_gym.ctrl import controllers
from dc_gym.reproduce import registry
from dc_gym.topologies import presets

DOCS = {page: (ROOT / page).read_text() for page in doc_pages.pages() if page.endswith(".md")}
LAYOUT = "docs/design.md"
WITHHELD = {"docs/labs/answers.md"}
"""Pages that nothing leads to, so that they may be missing."""
FOLDER = re.compile(r"(?<![\w./])((?:\w+/)+)(?=[\s,]|$)")


def tracked_folders(below: str = "") -> set[str]:
    """Returns the folders under version control, one level down, without links and hidden ones."""
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--", below or "."], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a checkout")
    paths = (Path(line).relative_to(below) for line in done.stdout.splitlines())
    return {path.parts[0] for path in paths if len(path.parts) > 1 and not path.parts[0].startswith(".")}


def layout(text: str) -> dict[str, list[str]]:
    """Returns the folders in the layout of design.md: for each folder at the start of a line, those that follow it."""
    block = re.search(r"^## Layout\n```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block is not None, f"{LAYOUT} has no layout"
    found: dict[str, list[str]] = {}
    base = ""
    for line in block[1].splitlines():
        names = [name.rstrip("/") for name in FOLDER.findall(line)]
        if not line.startswith(" "):
            base = names.pop(0)
            found.setdefault(base, [])
        found[base] += names
    return found


def layout_faults(text: str) -> list[str]:
    """Tells which folders the layout names wrongly, and which it lacks."""
    named = layout(text)
    faults = [
        f"{base}: no folder {name}" for base, names in named.items() for name in ["", *names] if not found(base, name).is_dir()
    ]
    everywhere = {str(found(base, name).relative_to(ROOT)) for base, names in named.items() for name in ["", *names]}
    wanted = tracked_folders() | {f"dc_gym/{name}" for name in tracked_folders("dc_gym")}
    return faults + [f"{name}/ is not in it" for name in sorted(wanted - everywhere)]


def found(base: str, name: str) -> Path:
    """Returns the path of a folder: below the one at the line's start, or in the checkout."""
    below = ROOT / base / name
    return below if below.is_dir() else ROOT / name


def test_the_layout_names_every_folder() -> None:
    assert not layout_faults(DOCS[LAYOUT])


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [("nets/ ", "", "dc_gym/nets/ is not in it"), ("watch/ ", "watch/  watches/ ", "no folder watches")],
)
def test_a_wrong_layout_is_noticed(old: str, new: str, fault: str) -> None:
    assert old in DOCS[LAYOUT]
    assert any(fault in each for each in layout_faults(DOCS[LAYOUT].replace(old, new, 1)))


def command_names() -> Iterator[str]:
    """`run`, `nic show` and all others."""
    yield from _names(parser.build(), "")


def _names(parser: argparse.ArgumentParser, before: str) -> Iterator[str]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if before and not actions:
        yield before
    for action in actions:
        for name, each in action.choices.items():
            yield from _names(each, f"{before} {name}".strip())


def unmentioned(names: Iterator[str], before: str, text: str) -> list[str]:
    """Returns the names that no page has after `before`."""
    return [name for name in names if not re.search(rf"{before} {re.escape(name)}(?![\w-])", text)]


def test_every_command_is_in_a_page() -> None:
    """That pages name no other commands is tested in tests/test_docs_commands.py."""
    text = "\n".join(DOCS.values())
    assert not unmentioned(command_names(), "dcgym", text)
    assert unmentioned(iter(["compare", "compar"]), "dcgym", text) == ["compar"]


def test_every_bench_is_in_a_page() -> None:
    text = "\n".join(DOCS.values())
    assert not unmentioned(iter(BENCHES), "bench", text)


def test_every_paper_and_figure_is_in_a_page() -> None:
    text = "\n".join(DOCS.values())
    missing = [
        f"{paper} {figure}"
        for paper, figures in registry.PAPERS.items()
        for figure in figures.figures
        if not re.search(rf"`(?:{re.escape(paper)} )?{re.escape(figure)}`", text)
    ]
    assert not missing


def linked(page: str) -> set[str]:
    """Returns the pages that a page links to."""
    folder = Path(page).parent
    links = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", DOCS[page])
    return {str((ROOT / folder / link).resolve().relative_to(ROOT)) for link in links}


def test_the_index_leads_to_every_page() -> None:
    """For a folder with an index of its own, the index links to the folder's pages."""
    pages = set(DOCS) - {"README.md", "docs/index.md"} - WITHHELD
    indices = {page for page in pages if page.endswith("/index.md")}
    reached = linked("docs/index.md")
    assert indices <= reached
    for index in indices:
        reached |= linked(index)
    assert not pages - reached, "docs/index.md has no row for these"


def test_the_navigation_has_every_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"(?::|-) ([\w/-]+\.md)$", nav, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {f"docs/{page}" for page in listed} == set(DOCS) - {"README.md"} - WITHHELD


SPEC = """
topology.preset = "dumbbell-10m"
controller.name = "dctcp"
workload.kind = "pairs"
time.duration = "1s"
"""


def has_rdma(_folder: Path) -> bool:
    return any((known := controllers.find(name)) and known.nic for name in controllers.names())


def has_agents_on_the_host(folder: Path) -> bool:
    return takes(folder, "ground=host", "controller=fair-share")


def has_control_packets_on_the_host(folder: Path) -> bool:
    return takes(folder, "ground=host", "controller=fair-share", "agent.control=network")


def has_tcp_under_nics_on_the_host(folder: Path) -> bool:
    return takes(folder, "ground=host", "controller.name=dcqcn", "nic.tcp=cubic")


def has_exact_tbf_on_the_host(folder: Path) -> bool:
    return takes(folder, "ground=host", "controller=fair-share", "agent.tbf=exact")


def has_ipv6(folder: Path) -> bool:
    graph = presets.build(presets.PRESETS["dumbbell-10m"])
    return any(ip_address(nic.address).version == 6 for host in graph.hosts for nic in host.nics)


def has_pfc(folder: Path) -> bool:
    return any_key("pfc", "pause", "xoff")


def has_classes(folder: Path) -> bool:
    return any_key("classes", "dwrr", "priority")


def has_offloads(folder: Path) -> bool:
    return any_key("offload", "tso", "gso")


def takes(folder: Path, *overrides: str) -> bool:
    """Is a spec with these settings accepted?"""
    (folder / "spec.toml").write_text(SPEC)
    try:
        spec.load(folder / "spec.toml", list(overrides))
    except SpecError:
        return False
    return True


def any_key(*parts: str) -> bool:
    """Has a key of the spec one of these words?"""
    known = spec.keys()
    return any(part in re.split(r"[._]", key) for key in known for part in parts)


DENIED: dict[str, Callable[[Path], bool]] = {
    "no RDMA": has_rdma,
    "an environment, or `controller.policy`, is refused on ground `host`": has_agents_on_the_host,
    '`agent.control = "network"`': has_control_packets_on_the_host,
    "`nic.tcp`": has_tcp_under_nics_on_the_host,
    '`agent.tbf = "exact"`': has_exact_tbf_on_the_host,
    "no IPv6": has_ipv6,
    "no PFC": has_pfc,
    "no traffic classes": has_classes,
    "Segmentation offloads are off": has_offloads,
}
"""For each limitation in the first column of limitations.md: a function that tells whether dc-gym has the feature after all."""


def denials(text: str) -> set[str]:
    """Returns the entries of DENIED that a page's first column has."""
    seen = "\n".join(line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")).lower()
    return {denial for denial in DENIED if denial.lower() in seen}


@pytest.mark.parametrize("denial", DENIED)
def test_limitations_are_those_that_there_are(denial: str, tmp_path: Path) -> None:
    exists = DENIED[denial](tmp_path)
    denied = denial in denials(DOCS["docs/limitations.md"])
    assert denied != exists, (
        f"docs/limitations.md {'denies' if denied else 'does not say'} {denial!r}, and it {'exists' if exists else 'does not'}"
    )


def test_a_denial_of_what_exists_is_noticed() -> None:
    told = DOCS["docs/limitations.md"].replace("No IPv6 between hosts", "No RDMA")
    assert "no RDMA" in denials(told) and "no IPv6" not in denials(told)


def test_the_readme_says_what_conformance_says_of_tolerances() -> None:
    from dc_gym.conformance import interpreter

    (sentence,) = re.findall(r"[^;]*packetdrill[^;.]*", DOCS["README.md"])
    assert "without" not in sentence
    for text in (sentence, DOCS["docs/conformance.md"]):
        assert f"{interpreter.TOLERANCE_NS // 10**6} ms" in text and "an eighth" in text
