# SPDX-License-Identifier: Apache-2.0
"""A build takes from elsewhere the files that were chosen: by their hashes, not by names that their owners can move."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("requirements.lock", "scripts/container.lock", "scripts/vm/requirements.lock")
FREE = re.compile(r"-e '?\.\[|install --quiet --disable-pip-version-check uv$")
"""In the Makefile: the extras, whose packages are for tests alone, and the program that makes the locks."""


def lines_of(path: str) -> list[str]:
    """Returns the lines of a script or a recipe, those that continue joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / path).read_text())
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def packages(path: str) -> dict[str, set[str]]:
    """Returns the hashes of each package of a lock, by its name, version and condition."""
    lines = lines_of(path)
    return {line.partition(" --hash")[0].strip(): set(re.findall(r"sha256:[0-9a-f]{64}", line)) for line in lines if line}


def test_each_package_of_a_lock_has_a_version_and_hashes() -> None:
    for path in LOCKS:
        hashes_by_name = packages(path)
        assert len(hashes_by_name) > 20 and all("==" in name and hashes for name, hashes in hashes_by_name.items()), path


def test_the_container_s_packages_are_those_that_are_tested() -> None:
    whole, part = packages("requirements.lock"), packages("scripts/container.lock")
    assert part.items() <= whole.items()
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split("[=<>~ ;]", requirement)[0].lower() for requirement in needed}
    assert names <= {name.partition("==")[0] for name in part}


def test_pip_installs_by_hash() -> None:
    scripts = (
        "Containerfile",
        "Makefile",
        "scripts/venv.sh",
        "scripts/vm/setup.sh",
        ".ci/run",
        ".devcontainer/devcontainer.json",
    )
    installs = re.compile(r"pip install |\$pip ")
    commands = [(path, part.strip()) for path in scripts for line in lines_of(path) for part in line.split("&&")]
    pip_commands = [(path, part) for path, part in commands if installs.search(part) and not part.startswith("pip=")]
    assert len(pip_commands) >= 7
    for path, part in pip_commands:
        assert re.search("--require-hashes|--no-deps|--no-index", part) or FREE.search(part), f"{path}: {part}"


def test_actions_are_named_by_their_commit() -> None:
    used = [line for path in (ROOT / ".github").rglob("*.yml") for line in path.read_text().splitlines() if "uses:" in line]
    assert used and all(re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v[\d.]+$", line) for line in used), used
