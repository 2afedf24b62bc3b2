# SPDX-License-Identifier: Apache-2.0
"""Where the kernel's source comes from, against a fake apt: no network, no build."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dc_gym.base.errors import KernelError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.kernel import apt, source
from dc_gym.kernel.apt import Apt, Offer
from dc_gym.kernel.source import Catalogue, NotOnOffer, Package

DEB = b"!<arch>\nnot much of a package"
SHA = hashlib.sha256(DEB).hexdigest()
FAKE_GET = """#!/bin/sh
echo "$@" >> "$FAKE/calls"
case "$*" in
*indextargets*) cat "$FAKE/origins" 2>/dev/null ;;
*--print-uris*) cat "$FAKE/uris" 2>/dev/null ;;
*update*) cat "$FAKE/trouble" >&2 2>/dev/null; [ ! -s "$FAKE/trouble" ] || exit 100 ;;
*download*) for last; do :; done; cp "$FAKE/deb" "$(echo "$last" | tr = _)_all.deb" ;;
esac
"""
FAKE_CACHE = """#!/bin/sh
for last; do :; done
cat "$FAKE/show-$last" 2>/dev/null
"""
FAKE_CONFIG = """#!/bin/sh
[ "$1" = shell ] && echo "STATUS='/nowhere/status'"
[ "$1" = dump ] && echo 'Acquire::IndexTargets::deb::DEP-11::MetaKey "x";'
exit 0
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files decide what the fake apt answers."""
    folder = tmp_path / "fake"
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, text in {"apt-get": FAKE_GET, "apt-cache": FAKE_CACHE, "apt-config": FAKE_CONFIG}.items():
        (programs / name).write_text(text.replace("$FAKE", str(folder)))
        (programs / name).chmod(0o755)
    (folder / "deb").write_bytes(DEB)
    (folder / "origins").write_text("Debian|Debian|http://mirror.test/debian/\nDebian|Debian-Security|http://mirror.test/sec/\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    return folder


def offer(fake: Path, *versions: str, package: str = "linux-source-7.2", sha256: str = SHA) -> None:
    records = (f"Package: {package}\nVersion: {version}\nFilename: pool/x.deb\nSHA256: {sha256}\n" for version in versions)
    (fake / f"show-{package}").write_text("\n".join(records))


def tarball(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def tree(path: Path, version: str = "7 2 99") -> Path:
    path.mkdir()
    names = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split(), strict=True)
    (path / "Makefile").write_text(
        "# SPDX\n" + "".join(f"{name} = {value}\n" for name, value in names) + "EXTRAVERSION =\nNAME = x\n"
    )
    return path


def test_the_catalogue_is_sound() -> None:
    known = source.catalogue()
    assert known.default in known.tested
    for version, packages in known.tested.items():
        assert packages
        for package in packages:
            assert source.upstream_version(package.version) == version
            assert len(bytes.fromhex(package.sha256)) == 32
            assert package.suite in (*known.suites, *known.security_suites)


def test_all_packages_of_a_version_are_one_source() -> None:
    chosen = source.tested()
    assert chosen.version == source.catalogue().default
    assert chosen.tested and not chosen.warning
    assert chosen.packages == source.catalogue().tested[chosen.version]


def test_an_unknown_version_names_the_tested_ones() -> None:
    with pytest.raises(UsageError, match=r"7\.9\.9.*\(.*7\.2\.12.*--untested-version 7\.9\.9"):
        source.tested("7.9.9")


@pytest.mark.parametrize(
    ("version", "package", "upstream"),
    [
        ("7.2.12-1~bpo13+1", "linux-source-7.2", "7.2.12"),
        ("7.2.12-1", "linux-source-7.2", "7.2.12"),
        ("7.3~rc4-1~exp1", "linux-source-7.3", "7.3~rc4"),
        ("7.3", "linux-source-7.3", "7.3"),
    ],
)
def test_names_and_versions(version: str, package: str, upstream: str) -> None:
    assert source.package_name(version) == package
    assert source.upstream_version(version) == upstream


def test_any_listed_package_will_do(fake: Path) -> None:
    listed = source.tested().packages[0]
    offer(fake, "7.2.99-1", listed.version)
    chosen = source.find(source.tested(), source.open_apt(fake.parent / "cache"))
    assert chosen == Offer("linux-source-7.2", listed.version, listed.sha256)


def test_the_newest_point_release_stands_in(fake: Path) -> None:
    offer(fake, "7.2.9-1", "7.2.103-1~bpo13+1", "7.2.103-1", "7.2.11-1")
    original = source.Source("debian 7.2.0", "7.2.0", True, "linux-source-7.2", (Package("7.2.0-1", "sid", "0" * 64),))
    private = source.open_apt(fake.parent / "cache")
    with pytest.raises(NotOnOffer, match=r"7\.2\.0-1.*sid.*found 7\.2\.103-1") as refused:
        source.find(original, private)
    stand_in = source.stand_in(refused.value, original)
    assert stand_in.version == "7.2.103" and not stand_in.tested
    assert stand_in.warning.startswith("WARNING: kernel 7.2.0 is on offer nowhere any more; 7.2.103 stands in")
    assert stand_in.identity == f"package {SHA}"
    assert source.find(stand_in, private).version == "7.2.103-1"


def test_another_tested_version_stands_in_first(fake: Path) -> None:
    version, packages = next(reversed(source.catalogue().tested.items()))
    offer(fake, "7.2.103-1", packages[0].version)
    original = source.Source("debian 7.2.0", "7.2.0", True, "linux-source-7.2", (Package("7.2.0-1", "sid", "0" * 64),))
    with pytest.raises(NotOnOffer) as refused:
        source.find(original, source.open_apt(fake.parent / "cache"))
    stand_in = source.stand_in(refused.value, original)
    assert (stand_in.version, stand_in.tested, stand_in.identity) == (version, True, source.tested(version).identity)
    assert f"{version}, tested too, stands in for it" in stand_in.warning


def test_nothing_on_offer_says_what_was_looked_for(fake: Path) -> None:
    private = source.open_apt(fake.parent / "cache")
    with pytest.raises(NotOnOffer, match=r"sid, forky.*nothing.*--source PATH") as refused:
        source.find(source.tested(), private)
    with pytest.raises(NotOnOffer):
        source.stand_in(refused.value, source.tested())


def test_an_unreachable_archive_is_said(fake: Path) -> None:
    (fake / "trouble").write_text("W: Failed to fetch http://mirror.test/x  Temporary failure resolving 'mirror.test'\n")
    with pytest.raises(KernelError, match=r"\(W: Failed.*--source PATH"):
        source.find(source.tested(), source.open_apt(fake.parent / "cache"))
    offer(fake, "7.2.103-1")  # from another suite, or an older list: no reason for a stand-in
    with pytest.raises(KernelError, match="cannot be reached"):
        source.find(source.tested(), source.open_apt(fake.parent / "cache"))


def test_a_missing_suite_is_no_error(fake: Path) -> None:
    (fake / "trouble").write_text("E: The repository 'x forky Release' does not have a Release file.\n")
    listed = source.tested().packages[0].version
    offer(fake, listed)
    assert source.find(source.tested(), source.open_apt(fake.parent / "cache")).version == listed


def test_download_verifies_the_checksum(fake: Path, tmp_path: Path) -> None:
    private = source.open_apt(tmp_path / "cache")
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    assert private.download(Offer("linux-source-7.2", "7.2.12-1", SHA), good).read_bytes() == DEB
    with pytest.raises(KernelError, match=rf"7\.2\.12-1 has SHA-256 {SHA}, expected 0{{64}}"):
        private.download(Offer("linux-source-7.2", "7.2.12-1", "0" * 64), bad)


def test_untested_versions_are_found_by_any_name(fake: Path) -> None:
    offer(fake, "7.3.1-1", "7.3~rc4-1~exp1", package="linux-source-7.3")
    private = source.open_apt(fake.parent / "cache")
    for name in ("7.3.1-1", "7.3.1", "7.3"):
        kernel_source = source.offered(name, private)
        assert (kernel_source.version, kernel_source.tested) == ("7.3.1", False)
        assert kernel_source.warning.startswith("WARNING: kernel 7.3.1 is untested")
    with pytest.raises(KernelError, match=r"linux-source-7\.3 7\.3\.2.*found 7\.3\.1-1, 7\.3~rc4"):
        source.offered("7.3.2", private)
    with pytest.raises(UsageError, match="not a kernel version"):
        source.offered("newest", private)


def test_sources_come_from_the_configured_mirror(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(apt.ARCHIVE, raising=False)
    source.open_apt(fake.parent / "cache")
    lines = (fake.parent / "cache/apt/kernel/sources.list").read_text().splitlines()
    assert [line.split("] ")[1] for line in lines] == [
        *(f"http://mirror.test/debian/ {suite} main" for suite in source.catalogue().suites),
        *(f"http://mirror.test/sec/ {suite} main" for suite in source.catalogue().security_suites),
    ]
    config = (fake.parent / "cache/apt/kernel/apt.conf").read_text()
    assert 'Dir::State::status "/nowhere/status";' in config
    assert 'DEP-11::DefaultEnabled "false"' in config


def test_a_machine_without_lists_is_known_by_its_sources(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(apt.ARCHIVE, raising=False)
    (fake / "origins").write_text("")
    (fake / "uris").write_text(
        "'http://other.test/ubuntu/dists/noble/InRelease' x 0\n'http://other.test/debian/dists/bookworm/InRelease' x 0\n"
        "'http://other.test/debian/dists/bookworm/main/binary-amd64/Packages.xz' x 0\n"
    )
    assert apt.debian_archive(fake.parent / "apt", "x") == apt.Archive("http://other.test/debian/", None)
    (fake / "uris").write_text("'http://other.test/ubuntu/dists/noble/InRelease' x 0\n")
    with pytest.raises(KernelError, match=r"DCGYM_DEBIAN_ARCHIVE.* URL .*the remedy"):
        apt.debian_archive(fake.parent / "apt", "the remedy")


def test_an_archive_that_the_user_names_is_taken_with_debians_keys(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the case on a machine of another distribution."""
    (tmp_path / "keys.gpg").touch()
    monkeypatch.setattr(apt, "KEYRINGS", (str(tmp_path / "keys.gpg"),))
    monkeypatch.setenv("DCGYM_DEBIAN_ARCHIVE", "http://mine.test/debian")
    assert apt.debian_archive(tmp_path, "x") == apt.Archive("http://mine.test/debian", None)
    monkeypatch.setenv("DCGYM_DEBIAN_ARCHIVE", "mine.test/debian")
    with pytest.raises(UsageError, match=r"DCGYM_DEBIAN_ARCHIVE=mine\.test/debian: .*URL"):
        apt.debian_archive(tmp_path, "x")
    monkeypatch.setattr(apt, "KEYRINGS", ())
    monkeypatch.setenv("DCGYM_DEBIAN_ARCHIVE", "http://mine.test/debian")
    with pytest.raises(KernelError, match=r"debian-archive-keyring.*the remedy"):
        apt.debian_archive(tmp_path, "the remedy")


def test_without_apt_there_is_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError, match=r"no apt-get, .*--source PATH"):
        source.open_apt(tmp_path)
    with pytest.raises(KernelError, match=r"no apt-get"):
        Apt(tmp_path, None, "x")


def test_a_tree_is_its_content(tmp_path: Path) -> None:
    one, two = tree(tmp_path / "one"), tree(tmp_path / "two")
    for path in (one, two):
        (path / "arch").mkdir()
        (path / "arch/x.c").write_text("int x;\n")
        (path / "link").symlink_to("arch")
    (two / ".git").mkdir()
    (two / ".git/HEAD").write_text("x")
    first = source.named(one, Quiet())
    assert first.version == "7.2.99" and not first.tested
    assert first.warning.startswith(f"WARNING: kernel 7.2.99 from {one} is untested")
    assert source.named(two, Quiet()).identity == first.identity
    (two / "other").symlink_to("elsewhere")
    changes: list[Callable[[], object]] = [
        lambda: (two / "arch/x.c").write_text("int y;\n"),
        lambda: (two / "arch/x.c").chmod(0o755),
        lambda: (two / "arch/x.c").rename(two / "arch/y.c"),
        lambda: (two / "other").replace(two / "link"),
    ]
    for change in changes:
        before = source.tree_digest(two)
        change()
        assert source.tree_digest(two) != before


def test_a_tested_version_of_the_users_needs_no_warning(tmp_path: Path) -> None:
    kernel_source = source.named(tree(tmp_path / "tree", "7 2 12"), Quiet())
    assert kernel_source.tested and not kernel_source.warning
    assert kernel_source.identity != source.tested().identity


def test_a_dirty_tree_is_refused(tmp_path: Path) -> None:
    (tree(tmp_path / "tree") / ".config").write_text("")
    with pytest.raises(UsageError, match="ARCH=um mrproper"):
        source.named(tmp_path / "tree", Quiet())


def test_tarballs(tmp_path: Path) -> None:
    makefile = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 0\nEXTRAVERSION = -rc1\n"
    path = tarball(
        tmp_path / "x.tar.xz", {"linux-7.3/arch/Makefile": "no", "linux-7.3/Makefile": makefile, "linux-7.3/a/b.c": "b"}
    )
    kernel_source = source.named(path, Quiet())
    assert kernel_source.version == "7.3.0-rc1"
    assert kernel_source.identity == f"file {hashlib.sha256(path.read_bytes()).hexdigest()}"
    source.unpack(path, tmp_path / "tree")
    assert (tmp_path / "tree/a/b.c").read_text() == "b"


def test_a_listed_package_of_the_users_is_the_tested_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Catalogue("7.2.12", ("7.2",), ("sid",), (), {"7.2.12": (Package("7.2.12-1", "sid", SHA),)})
    monkeypatch.setattr(source, "catalogue", lambda: known)
    (tmp_path / "x.deb").write_bytes(DEB)
    kernel_source = source.named(tmp_path / "x.deb", Quiet())
    assert kernel_source.tested and kernel_source.identity == source.tested().identity


@pytest.mark.parametrize("content", [b"no archive at all", DEB, b""])
def test_what_is_no_source_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UsageError) as refused:
        source.named(tmp_path / "x", Quiet())
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="no such file or folder"):
        source.named(tmp_path / "y", Quiet())


def test_a_truncated_tarball_is_one_error(tmp_path: Path) -> None:
    whole = tarball(tmp_path / "x.tar.xz", {"linux/Makefile": "VERSION = 7\nPATCHLEVEL = 3\n" + "x" * 100_000})
    whole.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(KernelError, match=r"x\.tar\.xz could not be unpacked: "):
        source.unpack(whole, tmp_path / "tree")
