# SPDX-License-Identifier: Apache-2.0
"""The kernel's tests in the cache: taken from a tree at hand, from a user's tarball, and never half."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dc_gym.base.errors import KernelError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.kernel import selftests
from dc_gym.kernel import source as sources

MAKEFILE = "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 99\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel tree that contains only what is needed here, and a cache of its own."""
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    tree = tmp_path / "linux-7.2.99"
    for part in selftests.PARTS:
        (tree / part).parent.mkdir(parents=True, exist_ok=True)
    (tree / selftests.SCRIPTS).mkdir()
    (tree / selftests.SCRIPTS / "a.pkt").write_text("0 close(1) = 0\n")
    (tree / selftests.SCRIPTS / "defaults.sh").write_text("#!/bin/sh\n")
    (tree / selftests.SCRIPTS / "defaults.sh").chmod(0o700)
    (tree / selftests.TCP_HEADER).write_text("struct tcp_info {\n};\n")
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "net").mkdir()
    (tree / "net/big.c").write_text("int x;\n")
    return tree


def check(suite: selftests.Selftests) -> None:
    assert [path.name for path in sorted(suite.scripts.iterdir())] == ["a.pkt", "defaults.sh"]
    assert (suite.scripts / "defaults.sh").stat().st_mode & 0o777 == 0o755
    assert (suite.scripts / "a.pkt").stat().st_mode & 0o777 == 0o644
    assert "tcp_info" in suite.tcp_header.read_text() and not (suite.folder / "net").exists()


def test_a_build_keeps_the_tests_of_its_source(tree: Path) -> None:
    source = sources.named(tree, Quiet())
    selftests.keep(tree, source)
    selftests.keep(tree, source)
    check(selftests.ensure(source.identity, source.version, Quiet()))


def test_from_a_tarball_and_from_a_tree(tree: Path, tmp_path: Path) -> None:
    tarball = tmp_path / "linux.tar.xz"
    subprocess.run(["tar", "-cJf", str(tarball), "-C", str(tmp_path), tree.name], check=True)
    for path in (tarball, tree):
        check(selftests.ensure("whatever", "7.2.99", Quiet(), path))
    assert not list((tmp_path / "cache/selftests").glob("*.partial-*"))


def test_a_tree_without_tests(tree: Path, tmp_path: Path) -> None:
    (tree / selftests.TCP_HEADER).unlink()
    source = sources.named(tree, Quiet())
    selftests.keep(tree, source)
    with pytest.raises(UsageError, match="--source PATH"):
        selftests.ensure(source.identity, source.version, Quiet())
    with pytest.raises(KernelError, match=r"has no include/uapi/linux/tcp.h|could not be unpacked"):
        selftests.ensure(source.identity, source.version, Quiet(), tree)
