# SPDX-License-Identifier: Apache-2.0
"""A registry that finds its kinds in a folder: what it imports, and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.base.errors import TopologyError
from dc_gym.base.registry import Registry

KIND = """
from {package} import REGISTRY
REGISTRY.add("{name}", lambda wiring: "{name}", None)
"""
SPEC = """
import sys
from dc_gym import spec
spec.load("examples/dumbbell.toml").graph()
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("dc_gym.topologies.kinds.")))
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry of a package with the kinds `line` and `ring`, and the file `silent`, which registers none."""
    package = f"kinds_of_{tmp_path.name}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from pathlib import Path\nfrom dc_gym.base.errors import TopologyError\nfrom dc_gym.base.registry import Registry\n"
        'REGISTRY = Registry("topology.kind", TopologyError, ("wiring",))\n'
        "REGISTRY.discover(__name__, Path(__file__).parent)\n"
    )
    for name in ("ring", "line"):
        (folder / f"{name}.py").write_text(KIND.format(package=package, name=name))
    monkeypatch.syspath_prepend(tmp_path)
    kinds: Registry = __import__(package).REGISTRY
    return kinds


def imported(registry: Registry) -> set[str]:
    return {name.rpartition(".")[2] for name in sys.modules if name.startswith(f"{registry._package}.")}


def test_a_kind_is_imported_when_it_is_asked_for(registry: Registry) -> None:
    assert "ring" in registry and list(registry) == ["line", "ring"] and len(registry) == 2 and imported(registry) == set()
    assert registry["ring"].call(None) == "ring" and imported(registry) == {"ring"}
    assert registry.get("rings") is None and imported(registry) == {"ring"}
    kinds = registry.keys_by_kind(("ring",))
    assert next(kinds) == ("ring", {}) and imported(registry) == {"ring"}
    assert next(kinds) == ("line", {}) and imported(registry) == {"ring", "line"}


def test_others_come_behind_and_cannot_take_a_name(registry: Registry) -> None:
    registry.add("mine", lambda wiring: None, None)
    assert list(registry) == ["line", "ring", "mine"]
    for name in ("line", "mine"):  # also one whose file nobody has imported
        with pytest.raises(TopologyError, match=f"'{name}'.*another name"):
            registry.add(name, lambda wiring: None, None)
    assert imported(registry) == set()


def test_a_file_that_registers_something_else_is_one_line(registry: Registry) -> None:
    folder = Path(str(sys.modules[registry._package].__file__)).parent
    (folder / "silent.py").write_text("")
    registry.discover(registry._package, folder)
    with pytest.raises(TopologyError, match=r"\.silent .*topology\.kind 'silent'.*register\('silent', \.\.\.\)"):
        registry["silent"]


def test_a_spec_imports_the_topology_that_it_names_and_no_other() -> None:
    child = subprocess.run([sys.executable, "-c", SPEC], capture_output=True, text=True, check=True)
    assert child.stdout.split() == ["dumbbell"]
