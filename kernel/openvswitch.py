# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's programs and Mininet, taken from the distribution's packages without installing them.

The distribution's package would start daemons on the host. This module copies the parts that a network needs to
<cache>/openvswitch/<version>-<key>/ instead, with every library that the programs load and with their dynamic loader. The folder
works on any x86_64 Linux, also on one that has Open vSwitch installed: runs use the same programs in either case and have one
fingerprint.
`current-<distribution>` in that folder's parent points to the version in use, which stays until `ensure(renew=True)`. A wheel
carries a folder of this kind.

bin/      scripts for users; each starts a program of libexec/ with the libraries beside it
libexec/  the programs as the packages have them
lib/      their libraries and their dynamic loader
share/    vswitch.ovsschema
python/   the Python package mininet
doc/      the copyright file of every package
manifest.json, and SHA256SUMS of all files
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base import contents
from dc_gym.base.errors import KernelError
from dc_gym.base.progress import Progress, choose
from dc_gym.kernel import cache
from dc_gym.kernel.apt import Apt, Offer, run
from dc_gym.kernel.cache import cache_dir, check_room, locked, make_folder, partial, publish
from dc_gym.kernel.openvswitch_layout import LOADER, SCHEMA, argv

PACKAGES = ("openvswitch-switch", "openvswitch-common", "mininet")
PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovs-dpctl", "mnexec")
PROGRAM_FOLDERS = ("usr/sbin", "usr/bin", "usr/lib/openvswitch-switch", "usr/lib/openvswitch-common")
LAYOUT = 1
"""Version of the folder's layout, increased when the layout changes."""
REMEDY = "use a machine with Debian's or Ubuntu's packages, or install dc-gym's wheel, which has it inside"
NEED_BYTES = 150_000_000
_WRAPPER = """#!/bin/sh
# Starts {name} with the libraries that came with it.
here=$(dirname "$0")
exec "$here/../{loader}" --inhibit-cache --library-path "$here/../lib" "$here/../libexec/{name}" "$@"
"""


@dataclass(frozen=True, slots=True)
class OpenVSwitch:
    """The folder with the programs, and its version."""

    folder: Path
    version: str
    """Version of the package, such as 3.1.0-2+deb12u1."""
    fingerprint: str

    @property
    def python(self) -> Path:
        """Returns the folder that holds the Python package mininet."""
        return self.folder / "python"

    def check_contents(self) -> None:
        """Raises MachineError if a file is not the one that was unpacked."""
        contents.check(self.folder, "remove the folder, and dc-gym fetches it again")

    def argv(self, program: str) -> list[str]:
        """Returns the command that starts `program`, one of PROGRAMS."""
        return argv(self.folder, program)


def ensure(progress: Progress | None = None, renew: bool = False) -> OpenVSwitch:
    """Returns the wheel's copy, or the one in the cache, which is fetched first if it is missing.

    `renew` fetches the version that the distribution offers today.
    """
    if (bundled := load(cache.BUNDLE / "openvswitch")) is not None:
        return bundled
    if progress is None:
        with choose(quiet=False) as display:
            return ensure(display, renew)
    base = cache_dir() / "openvswitch"
    current = base / f"current-{_distribution()}"
    ovs = None if renew else load(current)
    if ovs is not None:
        return ovs
    display = progress

    def say_waiting() -> None:
        display.note("another process is fetching Open vSwitch: waiting for it")

    with locked(make_folder(base) / "openvswitch.lock", say_waiting) as _, partial(base / "openvswitch") as work:
        ovs = None if renew else load(current)
        return ovs or _fetch(work, current, progress)


def load(current: Path) -> OpenVSwitch | None:
    """Returns the folder that `current` is or points to, if it is complete, otherwise None."""
    try:
        folder = current.resolve(strict=True)
        manifest = json.loads((folder / "manifest.json").read_text())
        version = str(manifest["version"])
        whole = manifest["layout"] == LAYOUT and all((folder / name).is_file() for name in (*manifest["files"], contents.SUMS))
        return OpenVSwitch(folder, version, f"ovs-{version}-{manifest['key']}") if whole else None
    except (OSError, ValueError, KeyError):
        return None


def _fetch(work: Path, current: Path, progress: Progress) -> OpenVSwitch:
    _check_machine()
    check_room(work, NEED_BYTES, "unpacking Open vSwitch")
    progress.phase("Open vSwitch: read the package lists")
    apt = Apt(cache_dir() / "apt" / "system", None, REMEDY)
    apt.update()
    root, out = work / "root", work / "out"
    for folder in (root, out, work / "debs"):
        make_folder(folder)
    offers = [apt.candidate(name) for name in PACKAGES]
    libraries = _needed_libraries(apt, offers)
    for offer in (*offers, *libraries):
        progress.phase(f"Open vSwitch: download {offer.package} {offer.version}")
        run(["dpkg-deb", "-x", str(apt.download(offer, work / "debs")), str(root / offer.package)], KernelError)
    packages = _assemble(root, out, offers[0].version)
    manifest = {
        "layout": LAYOUT,
        "version": offers[0].version,
        "key": _key(offers),
        "packages": _listed(offers),
        "libraries": _listed([offer for offer in libraries if offer.package in packages]),
        "files": sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()),
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    contents.write_sums(out)
    _open_to_all(out)
    name = offers[0].version.rpartition(":")[2]  # without the epoch, because a colon would end a path in --library-path
    target = current.with_name(f"{name}-{_key(offers)}")
    publish(out, target, work)
    link = work / "current"
    link.symlink_to(target.name)
    link.rename(current)
    ovs = load(target)
    if ovs is None:
        raise KernelError(f"{target} was made and is not whole: the file system lost data, or somebody removed it; try again")
    return ovs


def _needed_libraries(apt: Apt, offers: Sequence[Offer]) -> list[Offer]:
    """Returns the library packages that the programs depend on, and those on which these depend."""
    libraries: dict[str, Offer] = {}
    seen, waiting = {offer.package for offer in offers}, list(offers)
    while waiting:
        offer = waiting.pop()
        for name in apt.depends(offer.package, offer.version):
            if name in seen or not name.startswith(("lib", "zlib")):
                continue
            seen.add(name)
            if apt.offers(name):  # an alternative dependency may not exist in this suite
                libraries[name] = apt.candidate(name)
                waiting.append(libraries[name])
    return [libraries[name] for name in sorted(libraries)]


def _assemble(root: Path, out: Path, version: str) -> set[str]:
    """Creates the folder `out` from the packages unpacked in `root` (one folder each).

    Returns the names of the packages that it used.
    """
    for name in ("bin", "libexec", "lib", "share", "python", "doc"):
        (out / name).mkdir()
    for program in PROGRAMS:
        shutil.copy(_program(root, program), out / "libexec" / program)
        (out / "bin" / program).write_text(_WRAPPER.format(name=program, loader=LOADER))
        (out / "bin" / program).chmod(0o755)
    libraries = _libraries(root, version)
    for soname, path in libraries.items():
        shutil.copy(path, out / "lib" / soname)
    shutil.copy(_one(root, "usr/share/openvswitch/vswitch.ovsschema"), out / SCHEMA)
    mininet = _one(root, "usr/lib/python3/dist-packages/mininet/net.py").parent
    shutil.copytree(mininet, out / "python" / "mininet", ignore=shutil.ignore_patterns("examples", "test", "__pycache__"))
    packages = {*PACKAGES, *(path.relative_to(root).parts[0] for path in libraries.values())}
    for package in sorted(packages):
        shutil.copy(_one(root, f"usr/share/doc/{package}/copyright"), out / "doc" / package)
    return packages


def _libraries(root: Path, version: str) -> dict[str, Path]:
    """Returns every library that the programs load, and the loader, by the name under which programs ask for it."""
    folders = sorted(
        {path.parent for pattern in ("*/lib", "*/usr/lib") for base in root.glob(pattern) for path in base.rglob("*.so.*")}
    )
    by_name = {path.name: path for folder in reversed(folders) for path in folder.iterdir() if ".so" in path.name}
    loader = by_name.get(Path(LOADER).name)
    if loader is None:
        raise KernelError(f"Open vSwitch {version}: no package that it depends on has {LOADER}")
    libraries = {Path(LOADER).name: loader}
    for program in PROGRAMS:
        listing = [str(loader), "--inhibit-cache", "--library-path", ":".join(map(str, folders)), "--list"]
        process = subprocess.run([*listing, _program(root, program)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        needed = re.findall(r"^\s*([^/\s]+\.so\S*) =>", process.stdout, re.MULTILINE)
        if missing := [name for name in needed if name not in by_name]:  # may be the machine's own library, not in a lab
            raise KernelError(f"Open vSwitch {version} lacks {missing[0]}, which no package that it depends on has")
        libraries |= {name: by_name[name] for name in needed}
    return libraries


def _program(root: Path, name: str) -> Path:
    return _one(root, *(f"{folder}/{name}" for folder in PROGRAM_FOLDERS))


def _one(root: Path, *places: str) -> Path:
    for pattern in places:
        for path in sorted(root.glob(f"*/{pattern}")):
            if path.is_file():
                return path
    raise KernelError(f"the packages of this distribution are laid out in another way: they have no {Path(places[0]).name}")


def _open_to_all(folder: Path) -> None:
    """Makes a folder readable by all users whatever the umask, because other users also use this cache."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _listed(offers: Sequence[Offer]) -> dict[str, Mapping[str, Any]]:
    return {offer.package: {"version": offer.version, "sha256": offer.sha256} for offer in offers}


def _key(offers: Sequence[Offer]) -> str:
    """Returns the hash of the versions of the programs and Mininet only.

    Security updates of libraries do not change a network.
    """
    rows = "".join(f"{offer.package} {offer.version} {offer.sha256}\n" for offer in offers)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def _check_machine() -> None:
    for tool, package in {"apt-get": "apt", "dpkg-deb": "dpkg"}.items():
        if shutil.which(tool) is None:
            raise KernelError(f"fetching Open vSwitch needs {tool} (package {package}): {REMEDY}")


def _distribution() -> str:
    """Returns a name such as debian-12 for the machine's distribution, whose packages are used."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID') or release.get('VERSION_CODENAME', 'rolling')}"
