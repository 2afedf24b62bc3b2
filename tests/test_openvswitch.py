# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch unpacked into the cache, against a fake apt whose packages are made here; the real one is `long`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dc_gym.errors import KernelError
from dc_gym.kernel import openvswitch
from dc_gym.kernel.apt import Offer
from dc_gym.progress import Quiet

FILES = {
    "openvswitch-switch": [
        "usr/bin/ovs-vsctl",
        "usr/lib/openvswitch-switch/ovs-vswitchd",
        "usr/share/openvswitch/vswitch.ovsschema",
        "etc/init.d/openvswitch-switch",
    ],
    "openvswitch-common": ["usr/sbin/ovsdb-server", "usr/bin/ovsdb-tool", "usr/bin/ovs-ofctl", "usr/bin/ovs-appctl"],
    "mininet": ["usr/bin/mnexec"],
    "libneeded1": ["usr/lib/x86_64-linux-gnu/libneeded.so.1"],
}
DEPENDS = {"openvswitch-switch": ["procps", "libneeded1", "libinstalled1", "libgone1"], "libneeded1": ["libneeded1"]}


class FakeApt:
    """Packages of FILES, version 3.1.0-2; `asked` lists what was downloaded."""

    version = "1:3.1.0-2"
    asked: list[str] = []

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
        self.asked.append(offer.package)
        root = folder / f"{offer.package}.d"
        for name in FILES[offer.package]:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/true", root / name)
        (root / "DEBIAN").mkdir()
        control = f"Package: {offer.package}\nVersion: {offer.version}\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        (root / "DEBIAN/control").write_text(control)
        deb = folder / f"{offer.package}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", root, deb], check=True, capture_output=True)
        return deb


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb")
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(openvswitch, "Apt", FakeApt)
    monkeypatch.setattr(FakeApt, "asked", [])
    monkeypatch.setattr(FakeApt, "version", "1:3.1.0-2")
    monkeypatch.setattr(openvswitch, "_installed", lambda name: name == "libinstalled1")
    return tmp_path / "cache"


def lack_library(monkeypatch: pytest.MonkeyPatch, file: str = "libneeded.so.1") -> None:
    """Programs need `file` besides what they find."""

    def missing(folder: Path) -> list[str]:
        return [] if any(folder.resolve().rglob(file)) else [file]

    monkeypatch.setattr(openvswitch, "missing_libraries", missing)


def test_it_is_unpacked_once_and_then_found(fake: Path) -> None:
    first = openvswitch.ensure(Quiet())
    assert FakeApt.asked == ["openvswitch-switch", "openvswitch-common", "mininet"]
    for program in (first.vswitchd, first.ovsdb_server, first.ovsdb_tool, first.vsctl, first.ofctl, first.appctl, first.mnexec):
        assert subprocess.run([program], env=first.environment(), check=False).returncode == 0
    assert first.schema.is_file()
    assert first.version == "1:3.1.0-2"
    assert first.fingerprint.startswith("ovs-1:3.1.0-2-")
    assert ":" not in str(first.folder)
    assert openvswitch.ensure(Quiet()) == first
    assert len(FakeApt.asked) == 3
    assert not list((fake / "ovs").glob("*.partial-*"))


def test_others_can_read_it_whatever_the_umask(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, before = openvswitch._key, os.umask(0o022)
    monkeypatch.setattr(openvswitch, "_key", lambda offers: (os.umask(0o077), key(offers))[1])  # the fake's dpkg-deb takes none
    try:
        found = openvswitch.ensure(Quiet())
    finally:
        os.umask(before)
    assert (found.folder / "manifest.json").stat().st_mode & 0o004


def test_missing_libraries_are_added(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack_library(monkeypatch)
    found = openvswitch.ensure(Quiet())
    assert FakeApt.asked[3:] == ["libneeded1"]
    assert found.library_dirs == (found.folder / "usr/lib/x86_64-linux-gnu",)
    assert found.environment() == {"LD_LIBRARY_PATH": str(found.library_dirs[0])}


def test_added_libraries_do_not_change_the_fingerprint(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = openvswitch.ensure(Quiet()).fingerprint
    shutil.rmtree(fake)
    lack_library(monkeypatch)
    assert openvswitch.ensure(Quiet()).fingerprint == without


def test_a_library_that_nobody_has_is_one_error(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack_library(monkeypatch, "libnobody.so.7")
    with pytest.raises(KernelError, match=r"lacks libnobody\.so\.7"):
        openvswitch.ensure(Quiet())
    assert [path.name for path in (fake / "ovs").iterdir()] == ["ovs.lock"]


def test_an_upgrade_waits_until_it_is_asked_for(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = openvswitch.ensure(Quiet())
    monkeypatch.setattr(FakeApt, "version", "1:3.5.0-1")
    assert openvswitch.ensure(Quiet()) == first
    second = openvswitch.ensure(Quiet(), renew=True)
    assert second.version == "1:3.5.0-1" and second.fingerprint != first.fingerprint
    assert openvswitch.ensure(Quiet()) == second
    assert first.vswitchd.exists()


def test_damage_is_repaired(fake: Path) -> None:
    first = openvswitch.ensure(Quiet())
    first.ofctl.unlink()
    assert openvswitch.ensure(Quiet()) == first
    assert first.ofctl.exists()


def test_another_layout_is_one_error(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "mininet", ["usr/bin/other"])
    with pytest.raises(KernelError, match="has no mnexec: the packages of this distribution are laid out in another way"):
        openvswitch.ensure(Quiet())


def test_without_apt_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError, match=r"fetching Open vSwitch needs apt-get \(package apt\): "):
        openvswitch.ensure(Quiet())


@pytest.mark.long
def test_the_distributions_open_vswitch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path))
    ovs = openvswitch.ensure(Quiet())
    for program in (ovs.vswitchd, ovs.ovsdb_server, ovs.ovsdb_tool, ovs.vsctl, ovs.ofctl, ovs.appctl):
        done = subprocess.run([program, "--version"], env=ovs.environment(), capture_output=True, text=True, check=True)
        assert "Open vSwitch" in done.stdout
