# SPDX-License-Identifier: Apache-2.0
"""Builds what is published, into a folder: python scripts/wheel.py [--no-source] dist

- a wheel for any x86_64 Linux with Python 3.11 or later: the C programs, the lab kernel, Open vSwitch and Mininet are inside;
- the source distribution that it is made of;
- the complete corresponding source of all in the wheel that is under the GPL or the LGPL, as one archive (left out with
  --no-source: such a wheel is for this machine's tests alone);
- SHA256SUMS.

`make wheel` calls it when programs, lab kernel and Open vSwitch are there. Needs the packages of scripts/packages.sh.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dc_gym import __version__
from dc_gym.base import contents
from dc_gym.base.errors import KernelError, TestbedError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Progress, choose
from dc_gym.kernel import build, openvswitch, selftests
from dc_gym.kernel import source as sources
from dc_gym.kernel.apt import Apt, run
from dc_gym.kernel.cache import cache_dir

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "manylinux_2_17_x86_64"  # nothing in the wheel asks for a C library of the machine
PERMISSIVE = {"libbpf", "libevent", "mininet", "openssl", "openvswitch", "unbound", "xdp-tools", "zlib"}
"""Source packages of the distribution whose licence does not require the source, or that offer the choice of such a licence."""
LINKED = ("libc6-dev", "libbpf-dev", "libelf-dev", "zlib1g-dev")
"""Packages whose libraries are linked statically into the C programs and the lab kernel."""
README = """Complete corresponding source of the wheel {wheel}

{sdist}: dc-gym itself, with the lab kernel's configuration, patches and drivers (dc_gym/kernel), under GPL-2.0-only where
their SPDX lines say so, else under Apache-2.0. `make wheel` in it builds the wheel from these sources on Debian.

{kernel}: the Linux kernel that the patches belong to (GPL-2.0-only), as Debian's package linux-source has it.

All else are Debian's source packages of libraries under the LGPL or the GPL that are linked into the programs and the kernel, or
lie beside Open vSwitch in dc_gym/bundle/openvswitch/lib; dc_gym/bundle/openvswitch/doc has their licences.
"""
MISSING = """
Missing, for the archive that this was made from did not have it: {packages}. Add it before you give the wheel to others.
"""


def main(out: Path, with_source: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with choose(quiet=False) as progress, tempfile.TemporaryDirectory(dir=out, prefix=".work-") as work:
        sdist = _build_package(ROOT, Path(work), "--sdist")
        wheel = _build_wheel(sdist, Path(work), progress)
        archives = [_collect_source(sdist, wheel, Path(work), progress)] if with_source else []
        for old in out.glob("dc_gym-*"):
            old.unlink()
        files = [path.rename(out / path.name) for path in (sdist, wheel, *archives)]
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files))
    for path in (*files, sums):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


def _build_package(tree: Path, out: Path, *options: str) -> Path:
    """Runs the build backend on a tree, with the packages of this Python; returns the file that it makes in `out`."""
    before = set(out.iterdir())
    run(python("-m", "build", "--no-isolation", "--outdir", str(out), *options, str(tree)), TestbedError)
    (package,) = set(out.iterdir()) - before
    return package


def _build_wheel(sdist: Path, work: Path, progress: Progress) -> Path:
    """Builds the wheel of a source distribution, with the bundle added."""
    progress.phase("wheel: unpack the source distribution")
    shutil.unpack_archive(sdist, work / "tree")
    (tree,) = (work / "tree").iterdir()
    progress.phase("wheel: bundle")
    bundle = tree / "dc_gym" / "bundle"
    _copy_bundle(bundle, progress)
    progress.phase("wheel: build the programs and pack")
    wheel = _build_package(tree, work, "--wheel", f"-C--build-option=--plat-name={PLATFORM}")
    for path in (*(tree / "dc_gym" / "bin").iterdir(), *(bundle / "kernel").glob("*/linux")):
        _check_static(path)
    return wheel


def _copy_bundle(bundle: Path, progress: Progress) -> None:
    """Copies lab kernel, the tests of its source, Open vSwitch and Mininet to the folders where the package looks for them."""
    kernel = build.ensure(progress)
    if not kernel.manifest["tested"]:
        raise KernelError(f"the lab kernel is {kernel.version}, untested: a wheel carries a tested one; `dcgym kernel build`")
    identity = kernel.manifest["source"]["identity"]
    tests = selftests.ensure(identity, kernel.version, progress).folder
    switch = openvswitch.ensure(progress).folder
    for folder, part in ((kernel.folder, "kernel"), (tests, "selftests")):
        shutil.copytree(folder, bundle / part / folder.name)
    shutil.copytree(switch, bundle / "openvswitch")


def _check_static(path: Path) -> None:
    """Raises TestbedError if a program needs a loader or a shared library of the machine."""
    if path.suffix in (".o", ".native", ".sha256") or path.name == contents.SUMS:
        return
    listing = run(["readelf", "--program-headers", "--dynamic", str(path)], TestbedError)
    if "INTERP" in listing or "(NEEDED)" in listing:
        raise TestbedError(f"{path.name} is not linked statically: it would not run on another distribution")


def _collect_source(sdist: Path, wheel: Path, work: Path, progress: Progress) -> Path:
    """Makes the archive with the source of all copyleft parts of the wheel."""
    name = f"dc_gym-{__version__}-corresponding-source"
    folder = work / name
    folder.mkdir()
    shutil.copy(sdist, folder)
    progress.phase("source: the lab kernel's")
    tested = sources.tested()
    offer = sources.find(tested, apt := sources.open_apt(cache_dir()))
    kernel = apt.download(offer, folder)
    progress.phase("source: the libraries'")
    text = README.format(wheel=wheel.name, sdist=sdist.name, kernel=kernel.name)
    if missing := ", ".join(_fetch_libraries(folder)):
        progress.note(
            f"WARNING: the source of {missing} is not on offer here: add it to the archive before you publish the wheel"
        )
        text += MISSING.format(packages=missing)
    (folder / "README").write_text(text)
    progress.phase("source: pack")
    archive = work / f"{name}.tar"  # what is in it is compressed
    with tarfile.open(archive, "w") as packed:
        packed.add(folder, name)
    return archive


def _fetch_libraries(folder: Path) -> list[str]:
    """Downloads the sources of the libraries in the wheel whose licences require it; returns the packages that are not on offer.

    A source is not on offer if the distribution has upgraded the library since it was installed here.
    """
    remedy = "upgrade the packages of scripts/packages.sh and run `dcgym clean --cache`"
    binaries = Apt(cache_dir() / "apt" / "system", None, remedy)
    binaries.update()
    packages = {*_linked(), *_bundled(binaries)}
    apt = Apt(cache_dir() / "apt" / "source", binaries.deb_src_lines(), remedy)
    apt.update()
    missing = []
    for package, version in sorted(packages):
        if package not in PERMISSIVE:
            try:
                apt.download_source(package, version, folder)
            except KernelError:
                missing.append(f"{package} {version}")
    return missing


def _linked() -> Iterator[tuple[str, str]]:
    """Yields source package and version of each package in LINKED, as installed here."""
    for package in LINKED:
        name, version = run(["dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package]).split()
        yield name, version


def _bundled(apt: Apt) -> Iterator[tuple[str, str]]:
    """Yields source package and version of each library beside Open vSwitch."""
    manifest = json.loads((openvswitch.ensure().folder / "manifest.json").read_text())
    for package, row in manifest["libraries"].items():
        yield apt.source_of(package, row["version"])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Builds what is published, into a folder.")
    parser.add_argument("out", type=Path, metavar="DIR", help="where an earlier wheel and what belongs to it are replaced")
    parser.add_argument("--no-source", action="store_true", help="without the source of what is under the GPL: for tests alone")
    given = parser.parse_args()
    try:
        main(given.out.absolute(), with_source=not given.no_source)
    except TestbedError as error:
        sys.exit(f"wheel: {error}")
