# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch unpacked into the cache, against a fake apt whose packages are made here; the real one is `long`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dc_gym.base.errors import KernelError
from dc_gym.base.progress import Quiet
from dc_gym.kernel import cache, openvswitch
from dc_gym.kernel.apt import Offer

TRUE = Path("/bin/true")
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
FILES = {
    "openvswitch-switch": [
        "usr/bin/ovs-vsctl",
        "usr/lib/openvswitch-switch/ovs-vswitchd",
        "usr/share/openvswitch/vswitch.ovsschema",
        "etc/init.d/openvswitch-switch",
    ],
    "openvswitch-common": [
        "usr/sbin/ovsdb-server",
        *(f"usr/bin/{name}" for name in ("ovsdb-tool", "ovs-ofctl", "ovs-appctl", "ovs-dpctl")),
    ],
    "mininet": [
        "usr/bin/mnexec",
        *(f"usr/lib/python3/dist-packages/mininet/{name}" for name in ("net.py", "examples/one.py")),
    ],
    "libloader1": ["lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"],
    "libneeded1": ["usr/lib/x86_64-linux-gnu/libc.so.6"],
    "libunused1": ["usr/lib/x86_64-linux-gnu/libunused.so.1"],
}
DEPENDS = {"openvswitch-switch": ["procps", "libneeded1", "libgone1"], "libneeded1": ["libneeded1", "libloader1", "libunused1"]}


def content(name: str) -> Path:
    """Returns the file that stands for one of the fake packages: programs are true(1), which needs a C library and its loader."""
    if name.endswith("ld-linux-x86-64.so.2"):
        return LOADER
    if name.endswith("libc.so.6"):
        process = subprocess.run([LOADER, "--list", TRUE], capture_output=True, text=True, check=True)
        return Path(re.search(r"libc\.so\.6 => (\S+)", process.stdout)[1])
    return TRUE


class FakeApt:
    """Packages of FILES, version 3.1.0-2; `requested` lists the packages that were downloaded."""

    version = "1:3.1.0-2"
    requested: list[str] = []

    def __init__(self, folder: Path, sources: str | None, remedy: str) -> None:
        self._folder = folder
        assert sources is None, "the machine's own suite"

    def update(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def offers(self, package: str) -> list[Offer]:
        digest = hashlib.sha256(f"{package} {self.version}".encode()).hexdigest()
        return [Offer(package, self.version, digest)] if package in FILES else []

    def candidate(self, package: str) -> Offer:
        if package not in FILES:
            raise KernelError(f"package {package} is not on offer here")
        return self.offers(package)[0]

    def depends(self, package: str, version: str) -> list[str]:
        return DEPENDS.get(package, [])

    def download(self, offer: Offer, folder: Path) -> Path:
        self.requested.append(offer.package)
        root = folder / f"{offer.package}.d"
        for name in (*FILES[offer.package], f"usr/share/doc/{offer.package}/copyright"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(content(name), root / name)
        (root / "DEBIAN").mkdir()
        control = f"Package: {offer.package}\nVersion: {offer.version}\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        (root / "DEBIAN/control").write_text(control)
        deb = folder / f"{offer.package}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", root, deb], check=True, capture_output=True)
        return deb


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb, which makes packages")
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(openvswitch, "Apt", FakeApt)
    monkeypatch.setattr(FakeApt, "requested", [])
    monkeypatch.setattr(FakeApt, "version", "1:3.1.0-2")
    return tmp_path / "cache"


def test_it_is_unpacked_once_and_then_found(fake: Path) -> None:
    first = openvswitch.ensure(Quiet())
    packages = ["openvswitch-switch", "openvswitch-common", "mininet", "libloader1", "libneeded1", "libunused1"]
    assert FakeApt.requested == packages
    assert sorted(path.name for path in (first.folder / "lib").iterdir()) == ["ld-linux-x86-64.so.2", "libc.so.6"]
    assert (first.python / "mininet" / "net.py").is_file() and not (first.python / "mininet" / "examples").exists()
    assert (first.folder / openvswitch.SCHEMA).is_file()
    used = {*packages} - {"libunused1"}
    manifest = json.loads((first.folder / "manifest.json").read_text())
    assert {path.name for path in (first.folder / "doc").iterdir()} == used == {*manifest["packages"], *manifest["libraries"]}
    assert first.version == "1:3.1.0-2"
    assert first.fingerprint.startswith("ovs-1:3.1.0-2-")
    assert ":" not in str(first.folder)
    assert openvswitch.ensure(Quiet()) == first
    assert FakeApt.requested == packages
    assert not list((fake / "openvswitch").glob("*.partial-*"))


@pytest.mark.parametrize("name", openvswitch.PROGRAMS)
def test_programs_run_with_the_libraries_beside_them(name: str, fake: Path, tmp_path: Path) -> None:
    """They run wherever the folder is moved, and when scripts start them."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(openvswitch.ensure(Quiet()).folder, moved)
    for argv in (openvswitch.argv(moved, name), [moved / "bin" / name]):
        assert subprocess.run(argv, cwd="/").returncode == 0
    loader, *rest = openvswitch.argv(moved, name)
    listed = subprocess.run([loader, "--list", *rest], capture_output=True, text=True, check=True).stdout
    assert f"libc.so.6 => {moved}/lib/libc.so.6" in listed


def test_others_can_read_it_whatever_the_umask(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, before = openvswitch._key, os.umask(0o022)
    monkeypatch.setattr(openvswitch, "_key", lambda offers: (os.umask(0o077), key(offers))[1])  # the fake's dpkg-deb takes none
    try:
        ovs = openvswitch.ensure(Quiet())
    finally:
        os.umask(before)
    assert (ovs.folder / "manifest.json").stat().st_mode & 0o004


def test_libraries_do_not_change_the_fingerprint(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = openvswitch.ensure(Quiet()).fingerprint
    shutil.rmtree(fake)
    monkeypatch.setitem(DEPENDS, "libneeded1", ["libloader1"])
    assert openvswitch.ensure(Quiet()).fingerprint == first


@pytest.mark.parametrize(("package", "file"), [("libneeded1", r"libc\.so\.6"), ("libloader1", r"ld-linux-x86-64\.so\.2")])
def test_a_library_that_nobody_has_is_one_error(package: str, file: str, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, package, ["usr/share/doc/README"])
    with pytest.raises(KernelError, match=file):
        openvswitch.ensure(Quiet())
    assert [path.name for path in (fake / "openvswitch").iterdir()] == ["openvswitch.lock"]


def test_the_wheels_own_goes_first(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = tmp_path / "bundle" / "openvswitch"
    shutil.copytree(openvswitch.ensure(Quiet()).folder, bundled)
    shutil.rmtree(fake)
    monkeypatch.setattr(cache, "BUNDLE", bundled.parent)
    assert openvswitch.ensure(Quiet()).folder == bundled.resolve() and not fake.exists()


def test_an_upgrade_waits_until_it_is_asked_for(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = openvswitch.ensure(Quiet())
    monkeypatch.setattr(FakeApt, "version", "1:3.5.0-1")
    assert openvswitch.ensure(Quiet()) == first
    second = openvswitch.ensure(Quiet(), renew=True)
    assert second.version == "1:3.5.0-1" and second.fingerprint != first.fingerprint
    assert openvswitch.ensure(Quiet()) == second
    assert (first.folder / "libexec" / "ovs-vswitchd").exists()


def test_damage_is_repaired(fake: Path) -> None:
    first = openvswitch.ensure(Quiet())
    program = first.folder / "libexec" / "ovs-ofctl"
    program.unlink()
    assert openvswitch.ensure(Quiet()) == first
    assert program.exists()


def test_another_layout_is_one_error(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "mininet", ["usr/bin/other"])
    with pytest.raises(KernelError, match=r"packages.*mnexec"):
        openvswitch.ensure(Quiet())


def test_without_apt_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError, match=r"Open vSwitch.*apt-get \(package apt\)"):
        openvswitch.ensure(Quiet())


@pytest.mark.long
def test_the_distributions_open_vswitch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path))
    ovs = openvswitch.ensure(Quiet())
    for program in openvswitch.PROGRAMS:
        if program != "mnexec":
            process = subprocess.run([*ovs.argv(program), "--version"], capture_output=True, text=True, check=True)
            assert "Open vSwitch" in process.stdout
