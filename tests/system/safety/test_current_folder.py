# SPDX-License-Identifier: Apache-2.0
"""No Python that dc-gym starts imports from the current folder, whatever files lie there."""

from __future__ import annotations

import json
import marshal
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dc_gym.base.package import PACKAGE
from dc_gym.kernel import cache
from dc_gym.run.grounds import frozen

ROOT = Path(__file__).resolve().parents[3]
DCGYM = [sys.executable, "-P", "-m", "dc_gym.cli.main"]
"""The command as its script starts it, which imports nothing from the current folder either."""
FOREIGN = "imported from the current folder"
TRAP = f"""
try:
    open({{mark!r}}, "a").write(__name__ + "\\n")
except OSError:
    pass  # in a lab
raise SystemExit("{FOREIGN}: " + __name__)
"""
OTHERS = ("tensorflow", "GPUtil", "sitecustomize", "usercustomize", "mininet", "polars")
SHORT = ("--set", "time.duration=100ms", "--set", "time.warmup=20ms", "--set", "workload.jitter=1ms")


class Trapped:
    """A folder with a file for each module that Python or a library may ask for, which tells when it is run."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder, self.env, self._mark = folder, env, folder.with_name("mark")
        folder.mkdir()
        for name in {*sys.stdlib_module_names, *packages_distributions(), *OTHERS} - {"dc_gym"}:
            (folder / f"{name}.py").write_text(TRAP.format(mark=str(self._mark)))

    def run(self, argv: list[str], **options: Any) -> str:
        """Runs a command in the folder and returns what it printed. It must end well and run none of the files."""
        child = subprocess.run(argv, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120, **options)
        self.check(child.stdout + child.stderr)
        assert child.returncode == 0, child.stderr
        return child.stdout

    def dcgym(self, *words: str, **options: Any) -> str:
        return self.run([*DCGYM, *words], **options)

    def check(self, output: str = "") -> None:
        assert not self._mark.exists(), f"these files were run: {self._mark.read_text().split()}"
        assert FOREIGN not in output


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """A cache with everything but frozen modules."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for part in ("kernel", "openvswitch"):
        if (cache.cache_dir() / part).exists():
            (folder / part).symlink_to(cache.cache_dir() / part)
    return folder


@pytest.fixture
def trapped(tmp_path: Path, cold: Path) -> Trapped:
    return Trapped(tmp_path / "trap", {**os.environ, "DCGYM_CACHE": str(cold)})


def sources(modules: Path) -> Iterator[Path]:
    """Yields the sources of a file of frozen modules."""
    with modules.open("rb") as file:
        head = marshal.loads(file.read(int(file.readline())))
    yield from (Path(origin) for origin, *_ in head["sources"])


@pytest.mark.lab
@pytest.mark.user
def test_runs_import_nothing_from_there(trapped: Trapped, cold: Path) -> None:
    spec = str(ROOT / "examples" / "dumbbell.toml")
    direct = trapped.env
    trapped.env = {**direct, "DCGYM_DAEMONS": "1"}  # with it, Python starts in the lab
    trapped.dcgym("run", spec, *SHORT, "--out", "first")
    (modules,) = (cold / "frozen").glob("*.modules")
    assert not [source for source in sources(modules) if source.is_relative_to(trapped.folder)]
    trapped.env = direct
    trapped.dcgym("run", spec, *SHORT, "--out", "second", "--no-plot")
    digests = {json.loads((trapped.folder / name / "manifest.json").read_text())["digest"] for name in ("first", "second")}
    assert len(digests) == 1
    trapped.dcgym("verify", "first")
    trapped.dcgym("plot", "first", "--out", "first.png")
    trapped.dcgym("report", "first", "--out", "first.html")


@pytest.mark.lab
@pytest.mark.user
def test_sweeps_import_nothing_from_there(trapped: Trapped) -> None:
    trapped.dcgym("sweep", str(ROOT / "examples" / "dumbbell.toml"), *SHORT, "--seeds", "1..2", "--out", "swept")


@pytest.mark.lab
@pytest.mark.user
def test_shells_import_nothing_from_there(trapped: Trapped) -> None:
    """A shell's commands work in the current folder, its lab included."""
    stdout = trapped.dcgym("shell", str(ROOT / "examples" / "dumbbell.toml"), "--quiet", input="h1 echo here\n")
    assert "here" in stdout


@pytest.mark.lab
@pytest.mark.user
def test_a_lab_without_frozen_modules_imports_nothing_from_there(trapped: Trapped, cold: Path) -> None:
    (cold / "frozen").touch()  # is no folder, so nothing can be frozen
    trapped.dcgym("shell", str(ROOT / "examples" / "dumbbell.toml"), "--quiet", input="net\n")


ENVIRONMENT = """
import gymnasium
env = gymnasium.make("dc_gym.learn:dcgym/Dumbbell10m-v0", overrides=["agent.interval=10ms"])
env.reset(seed=1)
env.step(env.action_space.sample())
env.close()
"""


@pytest.mark.lab
@pytest.mark.user
def test_environments_import_nothing_from_there(trapped: Trapped) -> None:
    trapped.run([sys.executable, "-P", "-c", ENVIRONMENT])


REAPER = """
import sys
from pathlib import Path
from dc_gym.learn.rllib import reaper
with reaper.watching(Path(sys.argv[1])):
    pass
"""


def test_the_reaper_of_a_training_imports_nothing_from_there(trapped: Trapped, tmp_path: Path) -> None:
    trapped.run([sys.executable, "-P", "-c", REAPER, str(tmp_path)])


def test_commands_of_a_notebook_import_nothing_from_there(trapped: Trapped) -> None:
    trapped.run([sys.executable, "-P", "-c", "from dc_gym import notebook; notebook.dcgym('list controllers')"])


FREEZER = """
import sys
sys.path[:0] = {elsewhere}
import reprlib
from pathlib import Path
from dc_gym.run.grounds import frozen
frozen.ROOTS = ("dc_gym.base.units",)
frozen.freeze(Path(sys.argv[1]))
"""


@pytest.fixture
def freezing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path | None]:
    """Freezes a module and `reprlib`, which it looks for in the given folders first; returns the file."""
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))

    def freeze(*elsewhere: Path, options: Sequence[str] = ("-P", "-S")) -> Path | None:
        program = FREEZER.format(elsewhere=[*map(str, elsewhere)])
        monkeypatch.setattr(frozen, "_argv", lambda path: [sys.executable, *options, "-c", program, str(path)])
        return frozen.modules({"PYTHONPATH": str(PACKAGE.parent)})

    return freeze


def test_modules_from_elsewhere_are_not_frozen(freezing: Callable[..., Path | None], tmp_path: Path) -> None:
    (tmp_path / "reprlib.py").write_text("")
    assert freezing(tmp_path) is None
    assert freezing() is not None


def test_frozen_modules_from_elsewhere_are_not_used(freezing: Callable[..., Path | None], tmp_path: Path) -> None:
    path = freezing()
    assert path is not None
    content = path.read_bytes()
    size, _, rest = content.partition(b"\n")
    head = marshal.loads(rest)
    (tmp_path / "reprlib.py").write_text("")
    head["sources"].append((str(tmp_path / "reprlib.py"), (tmp_path / "reprlib.py").stat().st_mtime_ns, 0))
    bad = marshal.dumps(head)
    path.write_bytes(b"%d\n" % len(bad) + bad + rest[int(size) :])
    assert freezing() == path and path.read_bytes() == content, "it was made again"


def test_what_another_command_froze_is_not_used(freezing: Callable[..., Path | None]) -> None:
    """Such as one without -P, which imported from the current folder."""
    assert freezing() == freezing()
    assert freezing() != freezing(options=["-S"])


def test_qemu_works_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the VM's firmware from the folder where it starts, if files of these names are there."""
    from dc_gym.base.errors import TestbedError
    from dc_gym.run.grounds.host import vm

    programs, share = tmp_path / "programs", tmp_path / "share"
    programs.mkdir()
    share.mkdir()
    qemu = programs / vm.QEMU
    qemu.write_text(f"#!/bin/sh\npwd > {tmp_path}/where\n")
    qemu.chmod(0o755)
    monkeypatch.chdir(share)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    kernel: Any = SimpleNamespace(image=tmp_path / "image", modules=list)
    with pytest.raises(TestbedError, match="VM ended"):
        vm.run(kernel, ["true"], {}, share)
    where = Path((tmp_path / "where").read_text().strip())
    assert where.name.startswith("dcgym-vm-") and not where.is_relative_to(share)


STARTS = ("dc_gym/base/interpreter.py",)
"""The sources that may name this Python's program."""


def test_one_place_starts_pythons() -> None:
    """It gives each of them -P. Nothing adds to the folders from which they import."""
    folders = ("dc_gym", "benchmarks", "ctrl", "examples", "kernel", "monitors", "scripts", "topologies", "traffic")
    texts = {path: path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))}
    texts = {path: text for path, text in texts.items() if not any(parent.is_symlink() for parent in path.parents)}
    assert len(texts) > 300
    names = {str(path.relative_to(ROOT)) for path, text in texts.items() if re.search(r"\bsys\.executable\b", text)}
    assert names == {*STARTS}
    offenders = {str(path.relative_to(ROOT)) for path, text in texts.items() if re.search(r"\bsys\.path\b", text)}
    assert not offenders, "a module is imported from a folder by interpreter.import_from()"
