# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's programs and Mininet's mnexec, unpacked into the cache and installed nowhere.

The distribution's package would start daemons on the host. Its files, with the libraries that the machine lacks, go to
<cache>/ovs/<version>-<key>/ instead, also on a machine that has Open vSwitch installed: one way, one fingerprint.
`current-<distribution>` there points to the one in use, which stays until `ensure(renew=True)`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.errors import KernelError
from dc_gym.kernel.apt import Apt, Offer, run
from dc_gym.kernel.cache import cache_dir, check_room, locked, make_folder, partial, publish
from dc_gym.progress import Progress, choose

PACKAGES = ("openvswitch-switch", "openvswitch-common", "mininet")
PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "mnexec")
PROGRAM_FOLDERS = ("usr/sbin", "usr/bin", "usr/lib/openvswitch-switch", "usr/lib/openvswitch-common")
SCHEMA = "usr/share/openvswitch/vswitch.ovsschema"
REMEDY = "use a machine with Debian's or Ubuntu's packages"
NEED_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class OpenVSwitch:
    """Where everything is. Programs need `LD_LIBRARY_PATH` from `environment()`."""

    folder: Path
    version: str
    """Of the package: 3.1.0-2+deb12u1."""
    fingerprint: str
    vswitchd: Path
    ovsdb_server: Path
    ovsdb_tool: Path
    vsctl: Path
    ofctl: Path
    appctl: Path
    mnexec: Path
    schema: Path
    """vswitch.ovsschema, from which ovsdb-tool makes a database."""
    library_dirs: tuple[Path, ...]

    def environment(self) -> dict[str, str]:
        """What the programs need in their environment to find their libraries."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.library_dirs))} if self.library_dirs else {}


def ensure(progress: Progress | None = None, renew: bool = False) -> OpenVSwitch:
    """Open vSwitch from the cache, fetched first if it is not there. `renew` takes what the distribution has today."""
    if progress is None:
        with choose(quiet=False) as shown:
            return ensure(shown, renew)
    base = cache_dir() / "ovs"
    current = base / f"current-{_distribution()}"
    found = None if renew else load(current)
    if found is not None:
        return found
    shown = progress

    def say_waiting() -> None:
        shown.note("another process is fetching Open vSwitch: waiting for it")

    with locked(make_folder(base) / "ovs.lock", say_waiting) as _, partial(base / "ovs") as work:
        found = None if renew else load(current)
        return found or _fetch(work, current, progress)


def load(current: Path) -> OpenVSwitch | None:
    """What `current` points to, if it is whole and its programs find their libraries."""
    try:
        folder = current.resolve(strict=True)
        manifest = json.loads((folder / "manifest.json").read_text())
        found = _describe(folder, manifest)
    except (OSError, ValueError, KeyError, KernelError):
        return None
    return None if missing_libraries(folder) else found


def missing_libraries(folder: Path) -> list[str]:
    """Names of shared libraries that the programs in `folder` do not find."""
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, _library_dirs(folder))), "LC_ALL": "C"}
    programs = [str(_program(folder, name)) for name in PROGRAMS]
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    return sorted(set(re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)))


def _fetch(work: Path, current: Path, progress: Progress) -> OpenVSwitch:
    _check_machine()
    check_room(work, NEED_BYTES, "unpacking Open vSwitch")
    progress.phase("Open vSwitch: read the package lists")
    apt = Apt(cache_dir() / "apt" / "system", None, REMEDY)
    apt.update()
    out, debs = work / "out", work / "debs"
    make_folder(out)
    debs.mkdir()
    offers = [apt.candidate(name) for name in PACKAGES]
    for offer in offers:
        _unpack(apt, offer, debs, out, progress)
    libraries = _add_libraries(apt, offers, debs, out, progress)
    missing = missing_libraries(out)
    if missing:
        raise KernelError(f"Open vSwitch {offers[0].version} lacks {', '.join(missing)}, which no package that it depends on has")
    manifest = {
        "version": offers[0].version,
        "key": _key(offers),
        "packages": {offer.package: {"version": offer.version, "sha256": offer.sha256} for offer in offers},
        "libraries": {offer.package: {"version": offer.version, "sha256": offer.sha256} for offer in libraries},
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    (out / "manifest.json").chmod(0o644)  # whatever the umask: others use this cache, too
    name = offers[0].version.rpartition(":")[2]  # without an epoch: its colon would end a path in LD_LIBRARY_PATH
    target = current.with_name(f"{name}-{_key(offers)}")
    publish(out, target, work)
    link = work / "current"
    link.symlink_to(target.name)
    link.rename(current)
    return _describe(target, manifest)


def _unpack(apt: Apt, offer: Offer, debs: Path, out: Path, progress: Progress) -> None:
    progress.phase(f"Open vSwitch: download {offer.package} {offer.version}")
    deb = apt.download(offer, debs)
    run(["dpkg-deb", "-x", str(deb), str(out)], KernelError)
    out.chmod(0o755)


def _add_libraries(apt: Apt, offers: Sequence[Offer], debs: Path, out: Path, progress: Progress) -> list[Offer]:
    """Unpacks the libraries among the dependencies that this machine has not installed, and their libraries."""
    if not missing_libraries(out):
        return []
    added: list[Offer] = []
    seen = {offer.package for offer in offers}
    waiting = list(offers)
    while waiting:
        offer = waiting.pop()
        for name in apt.depends(offer.package, offer.version):
            if name in seen or not name.startswith("lib") or _installed(name):
                continue
            seen.add(name)
            if not apt.offers(name):  # an alternative that this suite does not have
                continue
            library = apt.candidate(name)
            _unpack(apt, library, debs, out, progress)
            added.append(library)
            waiting.append(library)
    return sorted(added, key=lambda offer: offer.package)


def _installed(package: str) -> bool:
    argv = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode == 0 and done.stdout.startswith("installed")


def _describe(folder: Path, manifest: Mapping[str, object]) -> OpenVSwitch:
    vswitchd, server, tool, vsctl, ofctl, appctl, mnexec = (_program(folder, name) for name in PROGRAMS)
    schema = folder / SCHEMA
    if not schema.is_file():
        raise KernelError(f"{folder} has no {SCHEMA}: the packages of this distribution are laid out in another way")
    version = str(manifest["version"])
    return OpenVSwitch(
        folder, version, f"ovs-{version}-{manifest['key']}",
        vswitchd, server, tool, vsctl, ofctl, appctl, mnexec, schema, _library_dirs(folder),
    )  # fmt: skip


def _program(folder: Path, name: str) -> Path:
    for place in PROGRAM_FOLDERS:
        if (folder / place / name).is_file():
            return folder / place / name
    raise KernelError(f"{folder} has no {name}: the packages of this distribution are laid out in another way")


def _library_dirs(folder: Path) -> tuple[Path, ...]:
    """Folders that hold shared libraries, in a fixed order."""
    return tuple(sorted({path.parent for place in ("lib", "usr/lib") for path in (folder / place).rglob("*.so.*")}))


def _key(offers: Sequence[Offer]) -> str:
    """Of the programs only: which libraries had to be added depends on the machine."""
    rows = "".join(f"{offer.package} {offer.version} {offer.sha256}\n" for offer in offers)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def _check_machine() -> None:
    for tool, package in {"apt-get": "apt", "dpkg-deb": "dpkg", "ldd": "libc-bin"}.items():
        if shutil.which(tool) is None:
            raise KernelError(f"fetching Open vSwitch needs {tool} (package {package}): {REMEDY}")


def _distribution() -> str:
    """debian-12: a name for the machine's distribution. Another one, another set of libraries."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID') or release.get('VERSION_CODENAME', 'rolling')}"
