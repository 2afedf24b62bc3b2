# SPDX-License-Identifier: Apache-2.0
"""Finds the kernel's source: a tested version of the distribution, or a source that the user names.

1. The default is a version listed in sources.toml, as a package of any suite of the Debian mirror that the machine's apt uses.
2. `--source PATH` names a .deb of a linux-source package, a tarball, or an unpacked tree. Of a git work tree it takes the files
   that git does not ignore, so something may be built in it. No tree is written to.
3. If no suite offers the default any more, another listed version takes its place, or else the newest of a tested series, with a
   warning.
4. `--untested-version V` selects that version, with a warning.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import KernelError, UsageError
from dc_gym.base.progress import Progress
from dc_gym.kernel.apt import Apt, Offer, debian_archive, run, source_lines

CATALOGUE = Path(__file__).parent / "sources.toml"
REMEDY = "name a kernel tree, tarball or linux-source .deb with `dcgym kernel build --source PATH`"
OWN_FINGERPRINT = "its results have a fingerprint of their own"
DEB_MAGIC = b"!<arch>\n"
_VERSION = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?[0-9A-Za-z.~+-]*")


@dataclass(frozen=True, slots=True)
class Package:
    """A package with a kernel source."""

    version: str
    suite: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The contents of sources.toml."""

    default: str
    series: tuple[str, ...]
    suites: tuple[str, ...]
    security_suites: tuple[str, ...]
    tested: dict[str, tuple[Package, ...]]


@dataclass(frozen=True, slots=True)
class Source:
    identity: str
    """Identifies the source; part of the kernel's key."""
    version: str
    """Version of the kernel, such as 7.2.12."""
    tested: bool
    name: str = ""
    """Name of the package that contains it, such as linux-source-7.2."""
    packages: tuple[Package, ...] = ()
    """Packages of which any will do."""
    path: Path | None = None
    """The user's file or folder."""
    warning: str = ""
    """A warning to show whenever a kernel of this source is used."""


class NotOnOffer(KernelError):
    """No suite offers any of a source's packages. The error lists the available versions of the tested series."""

    def __init__(self, message: str, offers: Sequence[Offer]) -> None:
        super().__init__(message)
        self.offers = tuple(offers)


@cache
def catalogue(path: Path = CATALOGUE) -> Catalogue:
    data = tomllib.loads(path.read_text())
    tested = {row["version"]: tuple(Package(**package) for package in row["packages"]) for row in data["tested"]}
    return Catalogue(data["default"], tuple(data["series"]), tuple(data["suites"]), tuple(data["security_suites"]), tested)


def tested(version: str | None = None) -> Source:
    """Returns a version of sources.toml, by default the default version of that file."""
    known = catalogue()
    version = version or known.default
    if version not in known.tested:
        raise UsageError(
            f"kernel version {version} is not among the tested ones ({', '.join(known.tested)}): choose one of these,"
            f" or take the risk with --untested-version {version}"
        )
    return Source(f"debian {version}", version, True, package_name(version), known.tested[version])


def named(path: Path, progress: Progress) -> Source:
    """Returns the user's own source, identified by its content."""
    path = path.expanduser().absolute()
    if path.is_dir():
        return _tree(path, progress)
    if not path.is_file():
        raise UsageError(f"--source {path}: no such file or folder")
    progress.phase(f"lab kernel: read {path.name}")
    digest = sha256_of(path)
    for version, packages in catalogue().tested.items():
        if any(package.sha256 == digest for package in packages):
            return Source(f"debian {version}", version, True, path=path)
    makefile = _deb_makefile(path) if _is_deb(path) else _tar_makefile(path)
    return _untested(f"file {digest}", makefile_version(makefile, path), path)


def stand_in(refused: NotOnOffer, source: Source) -> Source:
    """Returns the source that replaces a version that is no longer on offer.

    It is another tested version, or else the newest of a tested series. If there is neither, raises the error `refused`.
    """
    gone = f"WARNING: kernel {source.version} is on offer nowhere any more;"
    on_offer = {offer.version for offer in refused.offers}
    for version, packages in reversed(catalogue().tested.items()):
        if any(package.version in on_offer for package in packages):
            return replace(tested(version), warning=f"{gone} {version}, tested too, stands in for it: {OWN_FINGERPRINT}")
    newest = _newest(refused.offers)
    if newest is None:
        raise refused
    return _of_offer(newest, f"{gone} {upstream_version(newest.version)} stands in for it, untested: {OWN_FINGERPRINT}")


def offered(version: str, apt: Apt) -> Source:
    """Returns any version that some suite offers: 7.3.1, 7.3.1-1, or 7.3 for the newest of that series."""
    if not _VERSION.fullmatch(version):
        raise UsageError(f"--untested-version {version}: not a kernel version like 7.3.1")
    name = package_name(version)
    offers = apt.offers(name)
    fitting = [offer for offer in offers if version in (offer.version, upstream_version(offer.version), name.rpartition("-")[2])]
    newest = _newest(fitting)
    if newest is None:
        on_offer = ", ".join(offer.version for offer in offers) or "no version"
        raise KernelError(f"{name} {version} is not on offer: looked in {_where()}, found {on_offer}; {REMEDY}")
    return _of_offer(newest, f"WARNING: kernel {upstream_version(newest.version)} is untested: {OWN_FINGERPRINT}")


def find(source: Source, apt: Apt) -> Offer:
    """Returns the package of `source` that is on offer. Raises NotOnOffer, with the newest stand-in, if there is none."""
    offers = apt.offers(source.name)
    packages = {package.version: package for package in source.packages}
    for offer in offers:
        if offer.version in packages:
            return Offer(offer.package, offer.version, packages[offer.version].sha256)
    apt.check_reached()
    others = [offer for series in catalogue().series for offer in apt.offers(f"linux-source-{series}")]
    listed = ", ".join(sorted({offer.version for offer in (*offers, *others)})) or "nothing"
    raise NotOnOffer(
        f"{source.name} {' or '.join(packages)} is not on offer: looked in {_where()}, found {listed}; {REMEDY}",
        others,
    )


def open_apt(cache: Path) -> Apt:
    """Returns the private apt of the kernel's suites, with its lists fetched."""
    folder = cache / "apt" / "kernel"
    known = catalogue()
    apt = Apt(folder, source_lines(debian_archive(folder, REMEDY), known.suites, known.security_suites), REMEDY)
    apt.update()
    return apt


def unpack(path: Path, tree: Path, only: Sequence[str] = ()) -> None:
    """Creates the folder `tree` from a .deb, a tarball or a tree.

    With `only`, it extracts nothing but these files and folders.
    """
    tree.mkdir()
    extract = ["tar", "-x", "--no-same-owner", "-C", str(tree)]
    members = ["--wildcards", "--no-wildcards-match-slash", *(f"*/{name}" for name in only)] if only else []
    if path.is_dir():
        listing = tree.with_name("sources")
        listing.write_bytes(b"\0".join(map(os.fsencode, only or _files_of_git(path) or ["."])))
        _pipe(path, ["tar", "-c", "--exclude-vcs", "-C", str(path), "--null", f"--files-from={listing}"], extract)
    elif _is_deb(path):
        inner = ["tar", "-xO", "--wildcards", "./usr/src/linux-source-*.tar.xz"]
        last = [*extract, "--strip-components=1", *members]
        _pipe(path, ["dpkg-deb", "--fsys-tarfile", str(path)], inner, ["xz", "-dc", "-T0"], last)
    else:
        _pipe(path, [*extract, "--strip-components=1", "-f", str(path), *members])
    if not only:
        makefile_version(_read(tree / "Makefile"), path)


def package_name(version: str) -> str:
    return f"linux-source-{'.'.join(version.split('~')[0].split('-')[0].split('.')[:2])}"


def upstream_version(version: str) -> str:
    """Returns the kernel's part of a package's version: 7.2.12-1~bpo13+1 -> 7.2.12."""
    return version.rpartition("-")[0] or version


def makefile_version(text: str, path: Path) -> str:
    """Returns the version that a kernel's top Makefile states."""
    variables = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)\s*=[ \t]*(\S*)$", text, re.MULTILINE))
    if "VERSION" not in variables or "PATCHLEVEL" not in variables:
        raise UsageError(f"{path} is not a kernel source: no Makefile in its top folder that states a VERSION")
    sublevel = variables.get("SUBLEVEL") or "0"
    return f"{variables['VERSION']}.{variables['PATCHLEVEL']}.{sublevel}{variables.get('EXTRAVERSION', '')}"


def tree_digest(path: Path, only: Collection[str] | None = None) -> str:
    """Returns the SHA-256 of names, links, modes and contents of a tree without version control files.

    It does not depend on the tree's location. With `only`, it is that of these files.
    """
    total = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted([*files, *(link for link in folders if Path(folder, link).is_symlink())]):
            file = Path(folder, name)
            if only is not None and str(file.relative_to(path)) not in only:
                continue
            if file.is_symlink():
                kind, content = "link", hashlib.sha256(str(file.readlink()).encode()).hexdigest()
            else:
                kind, content = "program" if file.stat().st_mode & 0o100 else "file", sha256_of(file)
            total.update(f"{file.relative_to(path)}\0{kind}\0{content}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def _tree(path: Path, progress: Progress) -> Source:
    version = makefile_version(_read(path / "Makefile"), path)
    names = _files_of_git(path)
    if not names and ((path / ".config").exists() or (path / "include/config").exists()):
        raise UsageError(f"--source {path}: something was built in this tree: clean it with `make -C {path} ARCH=um mrproper`")
    progress.phase(f"lab kernel: read {path}")
    return _untested(f"tree {tree_digest(path, frozenset(names) if names else None)}", version, path)


def _files_of_git(path: Path) -> list[str]:
    """Returns the names of the files of a git work tree that git does not ignore; none where git cannot say."""
    if not (path / ".git").exists() or shutil.which("git") is None:
        return []
    argv = ["git", "-C", str(path), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    process = subprocess.run(argv, capture_output=True, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"}, stdin=subprocess.DEVNULL)
    names = map(os.fsdecode, process.stdout.split(b"\0")) if process.returncode == 0 else ()
    return sorted({name for name in names if name and os.path.lexists(path / name)})


def _untested(identity: str, version: str, path: Path) -> Source:
    known = version in catalogue().tested
    warning = "" if known else f"WARNING: kernel {version} from {path} is untested: {OWN_FINGERPRINT}"
    return Source(identity, version, known, path=path, warning=warning)


def _of_offer(offer: Offer, warning: str) -> Source:
    package = Package(offer.version, "", offer.sha256)
    return Source(f"package {offer.sha256}", upstream_version(offer.version), False, offer.package, (package,), warning=warning)


def _newest(offers: Iterable[Offer]) -> Offer | None:
    """Returns the highest version in dpkg's order.

    In this order 7.3~rc4 comes before 7.3, and a backport before the version that it was made from.
    """
    newest: Offer | None = None
    for offer in offers:
        argv = ["dpkg", "--compare-versions", offer.version, "gt", newest.version if newest is not None else "0"]
        if subprocess.run(argv, check=False).returncode == 0:
            newest = offer
    return newest


def _where() -> str:
    known = catalogue()
    return ", ".join((*known.suites, *known.security_suites))


def _is_deb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(DEB_MAGIC)) == DEB_MAGIC


def _deb_makefile(path: Path) -> str:
    listing = run(["dpkg-deb", "--contents", str(path)], UsageError)
    match = re.search(r"\./usr/src/(linux-source-[0-9.]+)\.tar\.xz$", listing, re.MULTILINE)
    if match is None:
        raise UsageError(f"{path} is not a package of a kernel source: it has no usr/src/linux-source-*.tar.xz")
    inner = ["tar", "-xO", f"./usr/src/{match[1]}.tar.xz"]
    return _pipe(path, ["dpkg-deb", "--fsys-tarfile", str(path)], inner, ["tar", "-xJO", f"{match[1]}/Makefile"]).decode()


def _tar_makefile(path: Path) -> str:
    pattern = ["--wildcards", "--no-wildcards-match-slash", "*/Makefile"]
    try:
        return run(["tar", "-xOf", str(path), *pattern], UsageError)
    except UsageError as error:
        raise UsageError(f"{path} is not a tarball of a kernel source: no tar reads a Makefile in its top folder") from error


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _pipe(path: Path, *commands: Sequence[str]) -> bytes:
    """Runs commands as a pipeline on `path` and returns the output of the last one."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for argv in commands:
            upstream = running[-1].stdout if running else subprocess.DEVNULL
            running.append(subprocess.Popen(argv, stdin=upstream, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            if running[:-1]:
                assert running[-2].stdout is not None
                running[-2].stdout.close()
                running[-2].stdout = None
        output, errors = running[-1].communicate()
        messages = [_errors(process) for process in running[:-1]] + [errors]
        codes = [process.wait() for process in running]
    except OSError as error:
        raise KernelError(f"{path} could not be unpacked: {error.filename}: {error.strerror}") from error
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    if any(codes):
        last = b" ".join(messages).decode(errors="replace").strip().splitlines()[-1:] or [f"status {codes}"]
        raise KernelError(f"{path} could not be unpacked: {last[0]}")
    return output


def _errors(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    return process.stderr.read()
