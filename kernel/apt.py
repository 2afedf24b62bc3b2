# SPDX-License-Identifier: Apache-2.0
"""A private apt. It fetches and verifies packages of any suite of the configured mirror, without root, and installs nothing.

The module first reads the machine's own apt configuration (proxies, certificates, mirrors). It then overrides where apt keeps its
state: the package lists, the cache and, if asked, the sources. It writes nothing to the system.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import KernelError, TestbedError, UsageError
from dc_gym.kernel.cache import locked, make_folder

ARCHIVE = "DCGYM_DEBIAN_ARCHIVE"
"""The environment variable that names a Debian archive, for machines whose own packages come from another distribution."""
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")
NETWORK_TROUBLE = re.compile(
    r"could not resolve|temporary failure resolving|could not connect|unable to connect|network is unreachable"
    r"|connection (timed out|failed|refused)|cannot initiate the connection|no route to host",
    re.IGNORECASE,
)
HOOKS = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success", "DPkg::Post-Invoke")


@dataclass(frozen=True, slots=True)
class Offer:
    """A version of a package that some suite offers."""

    package: str
    version: str
    sha256: str
    """SHA-256 of the .deb file, from the signed index."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive from which the machine gets its packages."""

    main: str
    security: str | None


def run(
    argv: Sequence[str], error: type[TestbedError] = TestbedError, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Runs a command and returns its output. If the command fails, raises `error` with the last lines of its output."""
    try:
        child = subprocess.run(argv, capture_output=True, text=True, errors="replace", env=env, cwd=cwd, stdin=subprocess.DEVNULL)
    except OSError as failed:
        raise error(f"{argv[0]}: {failed.strerror}") from failed
    if child.returncode != 0:
        last = (child.stderr or child.stdout).strip().splitlines()[-1:] or ["no message"]
        raise error(f"{' '.join(map(str, argv[:4]))} failed ({child.returncode}): {last[0]}")
    return child.stdout


class Apt:
    """Runs apt with its own state in `folder`. `sources` holds the source lines; None means the machine's."""

    def __init__(self, folder: Path, sources: str | None, remedy: str) -> None:
        self._folder = folder
        self._sources = sources
        self._remedy = remedy
        self._trouble = ""
        if shutil.which("apt-get") is None:
            raise KernelError(f"this machine has no apt-get, which fetches packages of the distribution: {remedy}")

    def update(self) -> None:
        """Fetches the package lists.

        A suite that does not exist (any more) is no error: only the packages then on offer count.
        """
        with locked(self._folder / "lock"):
            self._write_config()
            process = self._apt("apt-get", "update")
        lines = (process.stdout + process.stderr).splitlines()
        messages = [line for line in lines if line.startswith(("E:", "W:", "Err:"))]
        if process.returncode != 0 or messages:
            self._trouble = next(
                (line for line in lines if NETWORK_TROUBLE.search(line)), messages[0] if messages else "apt-get update failed"
            )

    def offers(self, package: str) -> list[Offer]:
        """Returns all versions of a package on offer.

        Raises KernelError if there are none because the archive cannot be reached.
        """
        text = self._apt("apt-cache", "show", "--all-versions", package).stdout
        offers = []
        for record in text.split("\n\n"):
            fields = {match[1]: match[2] for match in re.finditer(r"^(Version|SHA256|Filename): (.+)$", record, re.MULTILINE)}
            if "Filename" in fields and "SHA256" in fields:
                offers.append(Offer(package, fields["Version"], fields["SHA256"]))
        if not offers:
            self.check_reached()
        return offers

    def check_reached(self) -> None:
        """Raises KernelError if a list could not be fetched because there was no connection.

        A package that seems to be missing may be on offer nevertheless.
        """
        if NETWORK_TROUBLE.search(self._trouble):
            raise KernelError(
                f"the package archive cannot be reached ({self._trouble.strip()}): check the network, or {self._remedy}"
            )

    def candidate(self, package: str) -> Offer:
        """Returns the version that apt would install."""
        policy = self._apt("apt-cache", "policy", package).stdout
        match = re.search(r"^\s*Candidate: (\S+)$", policy, re.MULTILINE)
        offers = self.offers(package)
        for offer in offers:
            if match is not None and offer.version == match[1]:
                return offer
        if match is None or match[1] == "(none)" or not offers:
            raise KernelError(f"package {package} is not on offer here ({self._trouble or 'no suite has it'}): {self._remedy}")
        return offers[0]  # an installed version that no suite offers any more

    def depends(self, package: str, version: str) -> list[str]:
        """Returns the names of the packages that a package depends on, alternatives included."""
        text = self._apt("apt-cache", "show", "--no-all-versions", f"{package}={version}").stdout
        match = re.search(r"^Depends: (.+)$", text, re.MULTILINE)
        return re.findall(r"(?:^|[,|]\s*)([a-z0-9][a-z0-9+.-]*)", match[1]) if match else []

    def source_of(self, package: str, version: str) -> tuple[str, str]:
        """Returns the name and version of the source package from which a package was built."""
        text = self._apt("apt-cache", "show", f"{package}={version}").stdout
        match = re.search(r"^Source: (\S+)(?: \((\S+)\))?$", text, re.MULTILINE)
        if not text:
            raise KernelError(f"{package} {version} is not on offer any more: {self._remedy}")
        return (match[1] if match else package), (match[2] if match and match[2] else version)

    def deb_src_lines(self) -> str:
        """Returns source lines (deb-src) for the Debian suites whose binary packages this state lists."""
        form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
        rows = {
            line for line in self._apt("apt-get", "indextargets", "--format", form, "Created-By: Packages").stdout.splitlines()
        }
        cells = [row.split("|") for row in sorted(rows)]
        return "".join(f"deb-src {_options()} {uri} {suite} {part}\n" for origin, uri, suite, part in cells if origin == "Debian")

    def download_source(self, package: str, version: str, folder: Path) -> list[Path]:
        """Fetches the files of a source package into `folder`. apt verifies them."""
        before = set(folder.iterdir())
        process = self._apt("apt-get", "source", "--download-only", f"{package}={version}", cwd=folder)
        new = sorted(set(folder.iterdir()) - before)
        if process.returncode != 0 or not any(path.suffix == ".dsc" for path in new):
            errors = [line for line in (process.stdout + process.stderr).splitlines() if line.startswith(("E:", "Err:"))]
            raise KernelError(f"the source of {package} {version} could not be downloaded ({errors[:1]}): {self._remedy}")
        return new

    def download(self, offer: Offer, folder: Path) -> Path:
        """Fetches one .deb into `folder`. apt verifies it, and so does this method."""
        before = set(folder.glob("*.deb"))
        process = self._apt("apt-get", "download", f"{offer.package}={offer.version}", cwd=folder)
        new = sorted(set(folder.glob("*.deb")) - before)
        if process.returncode != 0 or len(new) != 1:
            lines = [line for line in (process.stdout + process.stderr).splitlines() if line.startswith(("E:", "Err:"))]
            why = next((line for line in lines if NETWORK_TROUBLE.search(line)), lines[0] if lines else "apt-get download failed")
            raise KernelError(f"{offer.package} {offer.version} could not be downloaded ({why}): try again, or {self._remedy}")
        digest = sha256_of(new[0])
        if digest != offer.sha256:
            raise KernelError(
                f"{offer.package} {offer.version} has SHA-256 {digest}, expected {offer.sha256}: the archive changed or the"
                f" download is damaged; try again, or {self._remedy}"
            )
        return new[0]

    def _apt(self, program: str, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        argv = [program, "-q", "-c", str(self._folder / "apt.conf"), *args]
        return subprocess.run(
            argv, capture_output=True, text=True, errors="replace", env=_plain_env(), cwd=cwd, stdin=subprocess.DEVNULL
        )

    def _write_config(self) -> None:
        for name in ("lists/partial", "cache/archives/partial"):
            make_folder(self._folder / name)
        status = run(["apt-config", "shell", "STATUS", "Dir::State::status/f"], KernelError, _plain_env())
        match = re.search(r"STATUS='([^']*)'", status)
        lines = [f"#clear {hook};" for hook in HOOKS]
        lines += [
            f'Dir::State::lists "{self._folder / "lists"}/";',
            f'Dir::State::status "{match[1] if match else "/var/lib/dpkg/status"}";',
            f'Dir::Cache "{self._folder / "cache"}/";',
            'Dir::Cache::archives "archives/";',
            # Container images switch these caches off. Without the caches, each query would read all package lists anew.
            'Dir::Cache::pkgcache "pkgcache.bin";',
            'Dir::Cache::srcpkgcache "srcpkgcache.bin";',
            'Acquire::Languages "none";',
            'Acquire::PDiffs "false";',
            # Otherwise apt downloads as the user _apt, who may not be able to enter this cache. Signatures are verified all the
            # same.
            'APT::Sandbox::User "root";',
            *(f'Acquire::IndexTargets::deb::{name}::DefaultEnabled "false";' for name in _other_indexes()),
        ]
        if self._sources is not None:
            (self._folder / "sources.list").write_text(self._sources)
            lines += [f'Dir::Etc::sourcelist "{self._folder / "sources.list"}";', 'Dir::Etc::sourceparts "-";']
            lines += ['Dir::Etc::preferences "/dev/null";', 'Dir::Etc::preferencesparts "-";']
        (self._folder / "apt.conf").write_text("".join(f"{line}\n" for line in lines))


def debian_archive(folder: Path, remedy: str) -> Archive:
    """Returns $DCGYM_DEBIAN_ARCHIVE, or the Debian archive that the machine's own apt uses.

    Source lines for its other suites start from it.
    """
    if shutil.which("apt-get") is None:
        raise KernelError(f"this machine has no apt-get, which fetches packages of the distribution: {remedy}")
    if named := os.environ.get(ARCHIVE):
        return _named_archive(named, remedy)
    known = _by_origin() or _by_path(folder)
    main = next((uri for uri, security in known if not security), None)
    if main is None:
        raise KernelError(f"apt has no Debian archive among its sources: set {ARCHIVE} to the URL of one, or {remedy}")
    return Archive(main, next((uri for uri, security in known if security), None))


def _named_archive(uri: str, remedy: str) -> Archive:
    """Returns an archive that the user names, on a machine of another distribution. apt still verifies its signatures."""
    if not re.match(r"(https?|file)://\S+$", uri):
        raise UsageError(
            f"{ARCHIVE}={uri}: not the URL of an archive; it begins with http:// or https:// and its folder has dists/"
        )
    if not any(Path(path).exists() for path in KEYRINGS):
        raise KernelError(f"{ARCHIVE} is set, and Debian's keys are not here: install debian-archive-keyring, or {remedy}")
    return Archive(uri, None)


def source_lines(archive: Archive, suites: Sequence[str], security_suites: Sequence[str]) -> str:
    options = _options("target=Packages")
    lines = [f"deb {options} {archive.main} {suite} main\n" for suite in suites]
    if archive.security is not None:
        lines += [f"deb {options} {archive.security} {suite} main\n" for suite in security_suites]
    return "".join(lines)


def _options(*more: str) -> str:
    """Returns the options of a source line: `more`, and the keyring that checks signatures if it is where Debian keeps it."""
    keyring = [f"signed-by={path}" for path in KEYRINGS if Path(path).exists()][:1]
    return f"[{' '.join([*more, *keyring])}]" if more or keyring else ""


def _by_origin() -> list[tuple[str, bool]]:
    """Returns the archives whose lists the machine has. The origin in their signed Release files identifies them."""
    form = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
    text = run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"], KernelError, _plain_env())
    rows = [line.split("|") for line in text.splitlines()]
    return [(row[2], "security" in row[1].lower()) for row in rows if len(row) == 3 and row[0] == "Debian"]


def _by_path(folder: Path) -> list[tuple[str, bool]]:
    """Returns archives on a machine without lists, recognized by the usual names of their folders.

    The signatures later decide whether the guess was right.
    """
    make_folder(folder / "none" / "partial")
    argv = ["apt-get", "-o", f"Dir::State::lists={folder / 'none'}/", "update", "--print-uris"]
    text = run(argv, KernelError, _plain_env())
    archives = []
    for match in re.finditer(r"^'([^' ]+/)dists/[^' ]+/InRelease'", text, re.MULTILINE):
        name = urlsplit(match[1]).path.rstrip("/").rpartition("/")[2]
        if name in ("debian", "debian-security"):
            archives.append((match[1], name == "debian-security"))
    return archives


def _other_indexes() -> list[str]:
    """Returns the kinds of index, apart from package indexes, that the machine's apt would fetch as well."""
    text = run(["apt-config", "dump", "Acquire::IndexTargets"], KernelError, _plain_env())
    names = set(re.findall(r"^Acquire::IndexTargets::deb::([^:\s]+)::", text, re.MULTILINE))
    return sorted(names - {"Packages", "Translations"})


def _plain_env() -> dict[str, str]:
    names = [name for name in os.environ if name.lower().endswith("_proxy") or name in ("PATH", "HOME", "TMPDIR")]
    return {**{name: os.environ[name] for name in names}, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
