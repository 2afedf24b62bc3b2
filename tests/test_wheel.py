# SPDX-License-Identifier: Apache-2.0
"""Tests what is published: the content of source distribution and wheel, and the wheel without checkout and compiler.

The wheel is the one in build/wheel/, which `scripts/wheel.py --no-source build/wheel` makes of the source distribution.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = {link.readlink().name for link in (ROOT / "dc_gym").iterdir() if link.is_symlink()}
"""Top-level folders that are parts of the package."""
BESIDE = {
    "Makefile",
    "MANIFEST.in",
    "NOTICE",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CITATION.cff",
    "pyproject.toml",
    "setup.py",
}
TOOLS = ("sh", "flock", "find", "head", "mv", "rm", "rmdir", "sleep", "grep")
"""All programs that the machine with the wheel has; a run needs no others."""
SHORT = ("--set", "time.duration=2s", "--set", "time.warmup=500ms")


def tracked(*folders: str) -> set[str]:
    argv = ["git", "-c", "safe.directory=*", "ls-files", "-z", *folders]
    names = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name}


def of_the_package() -> set[str]:
    """Returns every file of the package by its place in it, following symlinks."""
    names = {name for name in tracked("dc_gym") if (ROOT / name).is_file()}
    return names | {f"dc_gym/{name}" for name in tracked(*PARTS)}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    argv = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out), str(ROOT)]
    child = subprocess.run(argv, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    (archive_path,) = out.iterdir()
    return archive_path


def test_the_source_distribution_has_the_package_and_what_builds_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if not archive.getmember(name).isdir()}
    of_setuptools = {name for name in names if name.startswith("dc_gym.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    beside = BESIDE | tracked("scripts", "examples", "docs", "LICENSES")
    assert names - of_setuptools == of_the_package() | beside


@pytest.fixture(scope="module")
def wheel() -> Path:
    wheels = list((ROOT / "build" / "wheel").glob("dc_gym-*.whl"))
    assert len(wheels) == 1, f"build/wheel/ has {len(wheels)} wheels: python scripts/wheel.py --no-source build/wheel"
    return wheels[0]


@pytest.mark.installed
def test_the_wheel_has_the_package_its_programs_and_the_bundle_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    meta = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert {"METADATA", "entry_points.txt", "licenses/LICENSES/GPL-2.0-only.txt"} <= {name.partition("/")[2] for name in meta}
    programs = {f"dc_gym/bin/{path.name}" for path in (ROOT / "dc_gym" / "bin").iterdir()}
    bundle = {name for name in names if name.startswith("dc_gym/bundle/")}
    assert names - meta - bundle == of_the_package() | programs
    assert {name.split("/")[2] for name in bundle} == {"kernel", "openvswitch", "selftests"}


@pytest.fixture(scope="module")
def machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"), wheel)


class Machine:
    """A home, a virtual environment with the wheel, and a PATH without compilers."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        for above in (folder, *folder.parents[:2]):  # a lab that root starts runs as another user
            above.chmod(0o755)
        self.home, self.venv, tools = folder / "home", folder / "venv", folder / "tools"
        self.home.mkdir()
        tools.mkdir()
        for name in TOOLS:
            (tools / name).symlink_to(shutil.which(name))
        self.env = {"HOME": str(self.home), "PATH": str(tools), "LC_ALL": "C.UTF-8"}
        subprocess.run([Path(sys.base_prefix, "bin", "python3"), "-m", "venv", self.venv], check=True)
        pip = [self.venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
        subprocess.run(pip, check=True, env=self.env | {name: os.environ[name] for name in os.environ if name.startswith("PIP_")})

    def run(self, *argv: str | Path) -> str:
        """Runs a program of the virtual environment; returns what it prints."""
        command = [self.venv / "bin" / argv[0], *argv[1:]]
        child = subprocess.run(command, cwd=self.home, env=self.env, capture_output=True, text=True)
        assert child.returncode == 0, child.stdout + child.stderr
        return child.stdout


@pytest.mark.installed
@pytest.mark.lab
def test_the_doctor_finds_everything_inside_the_package(machine: Machine) -> None:
    rows = {line[6:25].strip(): line for line in machine.run("dcgym", "doctor").splitlines()}
    assert "FAILS" not in {line[:6].strip() for line in rows.values()}
    for name in ("programs", "Open vSwitch"):
        assert f"{machine.venv}/lib" in rows[name]
    assert rows["own NICs"].startswith("note  ") and "cc, clang missing" in rows["own NICs"]
    cached_names = {path.parent.name for path in (machine.home / ".cache").rglob("*") if path.is_file()}
    assert cached_names <= {"behaviour"}, "nothing was fetched or built; a user who is not root keeps the digests of sources"


@pytest.mark.installed
@pytest.mark.lab
@pytest.mark.parametrize("example", ["dumbbell.toml", "nic.toml", "two_racks.toml"])
def test_a_run_has_the_digest_of_the_checkout_and_is_verified(example: str, machine: Machine, tmp_path: Path) -> None:
    """The Python is the same; all else that the fingerprint names is inside the wheel."""
    shutil.copytree(ROOT / "examples", machine.home / "examples", dirs_exist_ok=True)
    out = machine.home / "out" / example
    machine.run("dcgym", "run", f"examples/{example}", "--out", str(out), *SHORT, "--quiet")
    assert "equal" in machine.run("dcgym", "verify", str(out), "--quiet")
    here = [
        sys.executable,
        "-m",
        "dc_gym.cli.main",
        "run",
        ROOT / "examples" / example,
        "--out",
        tmp_path / "out",
        *SHORT,
        "--quiet",
    ]
    tmp_path.chmod(0o755)
    subprocess.run(here, check=True, capture_output=True)
    in_wheel, in_checkout = (json.loads((folder / "manifest.json").read_text()) for folder in (out, tmp_path / "out"))
    assert (in_wheel["digest"], in_wheel["environment"]) == (in_checkout["digest"], in_checkout["environment"])


@pytest.mark.installed
@pytest.mark.lab
def test_an_environment_steps(machine: Machine) -> None:
    program = """
import gymnasium
env = gymnasium.make("dc_gym.learn:dcgym/Dumbbell10m-v0")
observation, info = env.reset(seed=1)
observation, reward, *_ = env.step(env.action_space.sample())
print(observation.shape, float(reward))
env.close()
"""
    assert machine.run("python", "-c", program).startswith("(")
