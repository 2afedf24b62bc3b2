# SPDX-License-Identifier: Apache-2.0
"""The build and the cache, with tiny kernel trees and a fake make; the real build is `long`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from dc_gym.base.errors import KernelError, TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli import kernel, main
from dc_gym.cli.conformance import host as conformance_host
from dc_gym.kernel import build, cache, headers, profile, source
from dc_gym.kernel.apt import Offer
from dc_gym.kernel.build import Options, Parts

TREE = {
    "Makefile": "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 99\nEXTRAVERSION =\n",
    "drivers/Kconfig": "menu\none\ntwo\nendmenu\n",
    "include/uapi/linux/x.h": "",
    "arch/um/include/shared/x.h": "",
    "arch/um/configs/x86_64_defconfig": "CONFIG_BASE=y\nCONFIG_INPUT=y\n",
    "scripts/kconfig/merge_config.sh": '#!/bin/sh\ncat "$2" "$3" > .config\n',
}
PATCH = """SPDX-License-Identifier: GPL-2.0-only
drivers: lab

--- a/drivers/Kconfig
+++ b/drivers/Kconfig
@@ -1,4 +1,5 @@
 menu
 one
 two
+three
 endmenu
"""
# Keeps the last word on an option, as Kconfig does, and "compiles" slowly enough to be interrupted.
FAKE_MAKE = """#!/bin/sh
case "$*" in
*olddefconfig*)
    sed -i '/CONFIG_INPUT=y/d' .config ;;
*linux*)
    echo "$$" >> "$FAKE/makes"
    env > "$FAKE/environment"
    echo "  CC      init/main.o"
    n=0
    while [ -e "$FAKE/slow" ] && [ $n -lt "$(cat "$FAKE/slow")" ]; do sleep 0.1; n=$((n + 1)); done
    [ ! -e "$FAKE/broken" ] || { echo "main.c:1: error: it is broken"; exit 2; }
    mkdir -p include/generated net/ipv4 && touch include/generated/autoconf.h include/y.h
    record="net/ipv4/.tcp_cubic.o.cmd"
    echo "savedcmd_net/ipv4/tcp_cubic.o := gcc -Wall -Werror=implicit-int -O2 -DKBUILD_BASENAME=x -c -o x" > "$record"
    printf 'deps_net/ipv4/tcp_cubic.o := \\\n  include/y.h \\\n  /usr/include/z.h \\\n' >> "$record"
    mkdir -p include/config && echo 7.2.99-lab > include/config/kernel.release
    cat drivers/Kconfig .config > linux ;;
esac
"""
BUILD = """
import sys
from pathlib import Path
from dc_gym.kernel import build
from dc_gym.kernel.build import Parts, ensure
from dc_gym.base.progress import Lines
build.NEED_BYTES = 0
root = Path(sys.argv[1])
built = ensure(Lines(sys.stderr), root / "tree", parts=Parts(root / "lab.config", root / "patches", root / "drivers"))
print(built.path)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel tree, the project's parts, an empty cache and a fake make."""
    for name, text in TREE.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tree/scripts/kconfig/merge_config.sh").chmod(0o755)
    for folder in ("patches", "drivers", "bin"):
        (tmp_path / folder).mkdir()
    (tmp_path / "patches/0001-drivers-lab.patch").write_text(PATCH)
    (tmp_path / "drivers/cable.c").write_text("int cable;\n")
    (tmp_path / "drivers/lab.h").write_text("/* lab */\n")
    (tmp_path / "lab.config").write_text("# why\nCONFIG_NET=y\n# CONFIG_INPUT is not set\n")
    for tool in ("make", *(name for name in build.TOOLS if shutil.which(name) is None)):
        (tmp_path / "bin" / tool).write_text(FAKE_MAKE.replace("$FAKE", str(tmp_path)) if tool == "make" else "#!/bin/sh\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "NEED_BYTES", 0)
    return tmp_path


def parts_of(root: Path) -> Parts:
    return Parts(root / "lab.config", root / "patches", root / "drivers")


def make(root: Path, **options: bool) -> build.KernelBuild:
    return build.ensure(Quiet(), root / "tree", options=Options(**options), parts=parts_of(root))


def makes(root: Path) -> int:
    return len((root / "makes").read_text().split()) if (root / "makes").exists() else 0


def left_over(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "cache/kernel").iterdir() if path.suffix != ".lock")


def start(root: Path) -> subprocess.Popen[str]:
    here = str(Path(build.__file__).parents[2])
    argv = [sys.executable, "-c", BUILD, str(root)]
    env = {**os.environ, "PYTHONPATH": here}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def wait_for_make(root: Path, count: int = 1) -> None:
    deadline = time.monotonic() + 20
    while makes(root) < count:
        assert time.monotonic() < deadline, "make did not start"
        time.sleep(0.02)


def wait_dead(pid: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and "(zombie)" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)


def test_make_works_beside_a_cache_whose_path_it_cannot_read(root, monkeypatch, tmp_path):
    """And nothing stays there."""
    cache = tmp_path / "My Docs, old"
    monkeypatch.setenv("DCGYM_CACHE", str(cache))
    (beside := tmp_path / "beside").mkdir()
    monkeypatch.setenv("TMPDIR", str(beside))
    built = make(root, keep_source=True)
    where = re.search(r"^PWD=(.*)$", (root / "environment").read_text(), re.MULTILINE)
    assert where is not None and where[1].startswith(str(beside)) and list(beside.iterdir()) == []
    assert built.path.is_relative_to(cache)
    assert (built.folder.with_name(f"{built.key}.source") / "linux").is_file()


def test_a_build_keeps_what_a_compiler_needs_for_objects(root: Path) -> None:
    """The headers that kbuild's records name, the configuration, and the options without warnings and names."""
    built = make(root)
    folder = headers.unpacked(built.folder)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {headers.FLAGS, "include/y.h", "include/generated/autoconf.h"}
    assert json.loads((folder / headers.FLAGS).read_text()) == ["-Werror=implicit-int", "-O2"]
    assert built.manifest["headers_sha256"] == build.sha256_of(built.folder / headers.ARCHIVE)
    (built.folder / headers.ARCHIVE).unlink()
    with pytest.raises(KernelError, match=r"headers\.tar\.xz"):
        headers.unpacked(built.folder)


def test_a_quiet_build_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(root)
    stderr = capsys.readouterr().err
    assert "is built now" in stderr and stderr.count("\n") == 1
    make(root)
    assert capsys.readouterr().err == ""


def test_a_build_is_made_once(root: Path) -> None:
    first = make(root)
    assert makes(root) == 1
    assert (
        first.path.read_text()
        == "menu\none\ntwo\nthree\nendmenu\n" + "CONFIG_BASE=y\n# why\nCONFIG_NET=y\n# CONFIG_INPUT is not set\n"
    )
    assert os.access(first.path, os.X_OK)
    assert first.version == "7.2.99"
    assert first.fingerprint == f"7.2.99-lab-{first.key[:16]}"
    assert json.loads((first.folder / "manifest.json").read_text()) == first.manifest
    assert first.manifest["source"]["identity"] == f"tree {source.tree_digest(root / 'tree')}"
    assert left_over(root) == [first.key]
    assert make(root) == first
    assert makes(root) == 1
    assert make(root, force=True).path.read_bytes() == first.path.read_bytes()
    assert makes(root) == 2
    assert left_over(root) == [first.key]


def test_the_users_tree_stays_as_it_is(root: Path) -> None:
    before = source.tree_digest(root / "tree")
    make(root)
    assert source.tree_digest(root / "tree") == before


def test_keep_source(root: Path) -> None:
    built = make(root, keep_source=True)
    assert "three" in (root / f"cache/kernel/{built.key}.source/drivers/Kconfig").read_text()


def test_the_build_sees_no_clock_user_or_flags(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O0")
    monkeypatch.setenv("MAKEFLAGS", "-k")
    monkeypatch.setenv("ARCH", "arm64")
    make(root)
    env = dict(line.split("=", 1) for line in (root / "environment").read_text().splitlines())
    assert not {"CFLAGS", "MAKEFLAGS", "ARCH", "USER"} & set(env)
    assert env["KBUILD_BUILD_TIMESTAMP"].endswith("2020")
    assert (env["KBUILD_BUILD_USER"], env["KBUILD_BUILD_HOST"], env["KBUILD_BUILD_VERSION"]) == ("dcgym", "lab", "1")


def test_the_key_is_of_source_config_patches_and_drivers(root: Path) -> None:
    chosen = source.tested()
    parts = parts_of(root)
    keys = [parts.key(chosen)]
    assert parts.key(chosen) == keys[0]
    assert parts.copy_to(root / "copy").key(chosen) == keys[0]
    (root / "patches/README").write_text("no patch")
    assert parts.key(chosen) == keys[0]
    for name, more in (
        ("lab.config", "# CONFIG_TTY is not set\n"),
        ("patches/0001-drivers-lab.patch", PATCH.replace("Kconfig", "Makefile")),
        ("drivers/cable.c", "int more;\n"),
        ("drivers/lab.h", "int more;\n"),
    ):
        (root / name).write_text((root / name).read_text() + more)
        keys.append(parts.key(chosen))
    (root / "drivers/cable.c").rename(root / "drivers/wire.c")
    keys.append(parts.key(chosen))
    keys.append(parts.key(source.Source("other", chosen.version, True)))
    assert len(set(keys)) == len(keys)


def test_damage_is_noticed_and_repaired(root: Path) -> None:
    first = make(root)
    whole = first.path.read_bytes()
    first.path.write_bytes(whole[:-1])
    assert build.lookup(source.named(root / "tree", Quiet()), parts_of(root)) is None
    assert make(root).path.read_bytes() == whole
    (first.folder / "manifest.json").write_text("{")
    assert make(root).path.read_bytes() == whole
    assert makes(root) == 3


def test_a_patch_that_does_not_fit_is_named(root: Path) -> None:
    (root / "tree/drivers/Kconfig").write_text("menu\none\n2\nendmenu\n")
    with pytest.raises(KernelError) as refused:
        make(root)
    assert str(refused.value) == "patch 0001-drivers-lab.patch does not fit Linux 7.2.99: Hunk #1 FAILED at 1 in drivers/Kconfig"
    assert left_over(root) == []


def test_patches_get_no_fuzz(root: Path) -> None:
    (root / "tree/drivers/Kconfig").write_text("menu\nONE\ntwo\nendmenu\n")
    with pytest.raises(KernelError, match="Hunk #1 FAILED"):
        make(root)


def test_a_patch_for_a_missing_file_is_named(root: Path) -> None:
    (root / "tree/drivers/Kconfig").unlink()
    with pytest.raises(KernelError, match=r"Linux 7\.2\.99: drivers/Kconfig"):
        make(root)


def test_a_patch_that_is_in_the_kernel_already_is_named(root: Path) -> None:
    (root / "tree/drivers/Kconfig").write_text("menu\none\ntwo\nthree\nendmenu\n")
    with pytest.raises(KernelError, match=r"previously applied.* in drivers/Kconfig"):
        make(root)


OWN = """--- a/init/main.c
+++ b/init/main.c
@@ -1,3 +1,3 @@
 int first;
-int second;
+int own;
 int third;
"""


def with_own(root: Path, *texts: str) -> Parts:
    """Returns the parts with patches of the user's, and gives the tree the file that they change."""
    own = tuple(root / f"{zlib.crc32(text.encode())}.patch" for text in texts)
    for path, text in zip(own, texts, strict=True):
        path.write_text(text)
    (root / "tree/init").mkdir(exist_ok=True)
    (root / "tree/init/main.c").write_text("int first;\nint second;\nint third;\n")
    return replace(parts_of(root), own=own)


def test_a_patch_of_the_users_makes_a_kernel_beside_the_default_one(root: Path) -> None:
    twice = OWN.replace("second", "other").replace("own", "second")
    moved = OWN.replace("-1,3 +1,3", "-2,3 +2,3")  # where equal lines stand counts, too
    all_parts = [with_own(root, *texts) for texts in ((), (OWN,), (moved,), (twice, OWN), (OWN, twice))]
    chosen = source.named(root / "tree", Quiet())
    assert len({parts.key(chosen) for parts in all_parts}) == 5 and all_parts[0].key(chosen) == parts_of(root).key(chosen)
    plain = make(root)
    built = build.ensure(Quiet(), root / "tree", options=Options(incremental=True), parts=with_own(root, OWN))
    assert built.fingerprint != plain.fingerprint and len(built.manifest["own_patches_sha256"]) == 64
    assert "int own;" in (root / "cache/kernel/workshop/tree/init/main.c").read_text()
    assert build.lookup(chosen, parts_of(root)) == plain


def test_a_patch_of_the_users_that_does_not_fit_is_told_with_file_hunk_and_line(root: Path) -> None:
    parts = with_own(root, OWN.replace("-int second", "-int else"))
    with pytest.raises(KernelError) as refused:
        build.ensure(Quiet(), root / "tree", options=Options(incremental=True), parts=parts)
    assert str(refused.value) == f"patch {parts.own[0].name} does not fit Linux 7.2.99: Hunk #1 FAILED at 1 in init/main.c"
    assert left_over(root) == []


def test_the_workshop_keeps_what_stays_the_same(root: Path) -> None:
    parts, tree = with_own(root, OWN), root / "cache/kernel/workshop/tree"
    (root / "tree/init/old.c").write_text("int old;\n")
    (root / "tree/init/link.c").symlink_to("old.c")
    build.ensure(Quiet(), root / "tree", options=Options(incremental=True), parts=parts)
    (tree / "init/main.o").write_text("an object")
    for path in (tree / "Makefile", tree / "init/main.c"):
        os.utime(path, (1, 1))
    (root / "tree/init/old.c").unlink()
    (root / "tree/init/link.c").unlink()
    (root / "tree/init/link.c").symlink_to("main.c")
    again = with_own(root, OWN.replace("int own", "int owned"))
    build.ensure(Quiet(), root / "tree", options=Options(incremental=True), parts=again)
    assert (tree / "init/main.c").read_text() == "int first;\nint owned;\nint third;\n"
    assert (tree / "Makefile").stat().st_mtime == 1 and (tree / "init/main.c").stat().st_mtime > 1
    assert (tree / "init/main.o").is_file() and not (tree / "init/old.c").exists()
    assert (tree / "init/link.c").readlink() == Path("main.c")


def test_a_work_tree_of_git_may_have_been_built_in_and_is_only_read(root: Path) -> None:
    tree = root / "tree"
    if shutil.which("git") is None:
        pytest.skip("there is no git: apt install git")
    (tree / ".gitignore").write_text("*.o\n.config\ndrivers/ignored.c\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=n", "-c", "user.email=e@f", "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(tree), *words], check=True)
    before = source.named(tree, Quiet()).identity
    for name in (".config", "drivers/a.o", "drivers/ignored.c"):
        (tree / name).write_text("built")
    assert source.named(tree, Quiet()).identity == before
    files = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    build.ensure(Quiet(), tree, options=Options(incremental=True), parts=parts_of(root))
    workshop = root / "cache/kernel/workshop/tree"
    assert not (workshop / "drivers/a.o").exists() and not (workshop / "drivers/ignored.c").exists()
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == files
    (tree / "drivers/new.c").write_text("int fresh;\n")
    assert source.named(tree, Quiet()).identity != before


@pytest.mark.parametrize("words", [("conformance",), ("run", "examples/dumbbell.toml", "--out", "out")])
def test_a_tree_that_does_not_build_lets_git_bisect_go_on(
    words: tuple[str, ...], root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        Parts.__init__, "__defaults__", (root / "lab.config", root / "patches", root / "drivers", profile.ARCHIVE, ())
    )
    monkeypatch.setattr(conformance_host, "check_programs", lambda kernels_own: None)
    (root / "broken").touch()
    monkeypatch.chdir(Path(build.__file__).parents[2])
    words = tuple(str(root / "out") if word == "out" else word for word in words)
    assert main.main([*words, "--kernel-tree", str(root / "tree")]) == 125
    assert "main.c:1: error: it is broken" in capsys.readouterr().err
    assert not (root / "out").exists()
    with pytest.raises(SystemExit, match="2"):
        main.main([*words, "--kernel-tree", str(root / "none")])


def test_an_option_that_is_not_honoured_is_named(root: Path) -> None:
    (root / "lab.config").write_text("CONFIG_INPUT=y\n# CONFIG_BASE is not set\nCONFIG_NET=y\n")
    with pytest.raises(KernelError, match=r"lab\.config: CONFIG_INPUT.* y.* n$"):
        make(root)
    assert not [name for name in left_over(root) if not name.endswith(".log")]


@pytest.mark.parametrize(
    ("fragment", "config", "wrong"),
    [
        ("CONFIG_A=y\n", "CONFIG_A=y\n", []),
        ("CONFIG_A=y\n", "", ["CONFIG_A should be y, is n"]),
        ("CONFIG_A=17\n", "CONFIG_A=18\n", ["CONFIG_A should be 17, is 18"]),
        ("# CONFIG_A is not set\n", "", []),
        ("# CONFIG_A is not set\n", "# CONFIG_A is not set\n", []),
        ("# CONFIG_A is not set\n", "CONFIG_A=y\n", ["CONFIG_A should be n, is y"]),
        ('CONFIG_A="-lab"\n', 'CONFIG_A="-lab"\n', []),
        ("# a word on CONFIG_A\n", "", []),
    ],
)
def test_config_differences(fragment: str, config: str, wrong: list[str]) -> None:
    assert build.config_differences(fragment, config) == wrong


def test_a_failed_compile_keeps_its_log(root: Path) -> None:
    (root / "broken").touch()
    with pytest.raises(KernelError, match=r"`make linux` of the lab kernel failed \(2\)") as failed:
        make(root)
    assert "main.c:1: error: it is broken" in str(failed.value)
    (log,) = left_over(root)
    assert log.endswith(".log") and log in str(failed.value)
    (root / "broken").unlink()
    assert left_over(root) == [log] and make(root).key == log.removesuffix(".log")
    assert left_over(root) == [log.removesuffix(".log")]


def test_missing_tools_are_named_with_their_packages(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("flex", "xz") else here(name))
    with pytest.raises(KernelError, match=r"needs flex, xz: apt install flex xz-utils"):
        make(root)


def test_room_is_checked_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "NEED_BYTES", 10**18)
    with pytest.raises(TestbedError, match=r"needs .* GB in .*, which has .* GB: set DCGYM_CACHE"):
        make(root)
    assert left_over(root) == []


def test_two_shells_build_once(root: Path) -> None:
    (root / "slow").write_text("10")
    one = start(root)
    wait_for_make(root)
    two = start(root)
    (out_one, _), (out_two, err_two) = one.communicate(timeout=30), two.communicate(timeout=30)
    assert out_one == out_two and Path(out_one.strip()).exists()
    assert "another process is building this kernel: waiting for it" in err_two
    assert makes(root) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing_whole(root: Path, how: signal.Signals) -> None:
    (root / "slow").write_text("600")
    builder = start(root)
    wait_for_make(root)
    compiler = int((root / "makes").read_text())
    builder.send_signal(how)
    builder.communicate(timeout=30)
    wait_dead(compiler)
    names = left_over(root)
    assert not [name for name in names if re.fullmatch("[0-9a-f]+", name)]
    if how is signal.SIGINT:
        assert not [name for name in names if cache.PARTIAL in name]
    (root / "slow").unlink()
    built = make(root)
    assert left_over(root) == [built.key]


def test_partials_of_the_living_stay(tmp_path: Path) -> None:
    for name in ("mine", "living", "dead"):
        (tmp_path / f"{name}{cache.PARTIAL}1").mkdir()
    with cache.locked(tmp_path / "mine.lock"), cache.locked(tmp_path / "living.lock"):
        cache.remove_partials(tmp_path, key="mine")
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [f"living{cache.PARTIAL}1"]


def test_parts_that_change_are_not_built_under_the_old_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_to = Parts.copy_to

    def edit_first(parts: Parts, folder: Path) -> Parts:
        (root / "lab.config").write_text("CONFIG_OTHER=y\n")
        return copy_to(parts, folder)

    monkeypatch.setattr(Parts, "copy_to", edit_first)
    with pytest.raises(KernelError, match="changed just now: build again"):
        make(root)


def test_a_stand_in_is_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no suite has a tested version any more, the stand-in is built once, and later found without asking apt."""
    versions = []

    def find(kernel_source: source.Source, apt: object) -> object:
        versions.append(kernel_source.version)
        if kernel_source.tested:
            raise source.NotOnOffer("gone", [Offer("linux-source-7.2", "7.2.99-1", "1" * 64)])
        return "offer"

    class FakeApt:
        def download(self, offer: object, folder: Path) -> Path:
            shutil.make_archive(str(folder / "linux"), "tar", root, "tree")
            return folder / "linux.tar"

    monkeypatch.setattr(source, "open_apt", lambda cache: FakeApt())
    monkeypatch.setattr(source, "find", find)
    notes: list[str] = []

    class Notes(Quiet):
        def note(self, line: str) -> None:
            if "stands in" in line:
                notes.append(line)

    first = build.ensure(Notes(), parts=parts_of(root))
    assert first.version == "7.2.99" and versions == ["7.2.12", "7.2.99"]
    assert build.ensure(Notes(), parts=parts_of(root)) == first
    assert versions == ["7.2.12", "7.2.99"]
    assert len(notes) == 2 and notes[0] == notes[1]
    assert "7.2.99 stands in for it, untested" in notes[0]
    with pytest.raises(source.NotOnOffer):
        build.ensure(Notes(), version="7.2.12", parts=parts_of(root))


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCGYM_CACHE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cache.cache_dir() == Path("/var/cache/dcgym")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.cache_dir() == Path("/home/x/.cache/dcgym")
    monkeypatch.setenv("XDG_CACHE_HOME", "/big/cache")
    assert cache.cache_dir() == Path("/big/cache/dcgym")
    monkeypatch.setenv("DCGYM_CACHE", "/mine")
    assert cache.cache_dir() == Path("/mine")
    for bad in ("relative/path", "/with:colon"):
        monkeypatch.setenv("DCGYM_CACHE", bad)
        with pytest.raises(UsageError, match="DCGYM_CACHE"):
            cache.cache_dir()


def test_a_closed_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "closed/inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    folder = cache.blocked_folder(tmp_path / "closed/inner")
    assert folder is not None and (folder == tmp_path / "closed" or tmp_path.is_relative_to(folder))


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    kernel.add_arguments(parser)
    return kernel.main(parser.parse_args(words))


def test_info_without_a_build(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("info", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["built"] is False and facts["tested"] is True
    assert facts["key"] == Parts().key(source.tested())
    assert facts["path"] == str(root / "cache/kernel" / facts["key"] / "linux")
    assert command("info") == 0
    assert facts["fingerprint"] in capsys.readouterr().out


def test_time_a_build_of_another_config(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="goes with --no-cache"):
        command("build", "--config", str(root / "lab.config"))
    with pytest.raises(UsageError, match="no such file"):
        command("build", "--config", str(root / "none"), "--no-cache")
    default = (root / "lab.config", root / "patches", root / "drivers", profile.ARCHIVE, ())
    monkeypatch.setattr(Parts.__init__, "__defaults__", default)
    assert command("build", "--config", str(root / "lab.config"), "--no-cache", "--source", str(root / "tree")) == 0
    assert "compile 0 s of CPU" in capsys.readouterr().out
    assert left_over(root) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_lab_kernel_builds_and_is_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the distribution, in two folders: the same bytes. They lie in the checkout: /tmp may be too small."""
    room = Path(__file__).parents[2] / "build"
    room.mkdir(exist_ok=True)
    builds = []
    for _ in range(2):
        with tempfile.TemporaryDirectory(dir=room) as cache_dir:
            monkeypatch.setenv("DCGYM_CACHE", cache_dir)
            builds.append(build.ensure(Quiet()))
    assert builds[0].manifest["linux_sha256"] == builds[1].manifest["linux_sha256"]
