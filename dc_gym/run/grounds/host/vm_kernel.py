# SPDX-License-Identifier: Apache-2.0
"""The VM's kernel: Debian's stock kernel, its modules and its headers, unpacked into the cache and installed nowhere.

<cache>/vm/<release>/ has vmlinuz, the modules that a boot and the host ground need (all in one folder, with the order in which
they load), and the headers against which out-of-tree modules are built. `current` in <cache>/vm points to the release in use.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import KernelError
from dc_gym.base.progress import Progress
from dc_gym.kernel.apt import Apt, run
from dc_gym.kernel.cache import cache_dir, check_room, locked, make_folder, partial, publish
from dc_gym.run.grounds.host import needs

BOOT_MODULES = (
    "crc32c_generic",
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_console",
)  # libcrc32c asks the crypto API for crc32c
WANTED = (*BOOT_MODULES, *needs.MODULES)
REMEDY = "dcgym vm takes Debian's kernel packages; use a machine with Debian's archive among its apt sources"
NEED_BYTES = 900_000_000


@dataclass(frozen=True, slots=True)
class VmKernel:
    folder: Path
    release: str
    """Output of uname -r in the VM."""

    @property
    def image(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def headers(self) -> Path:
        """Folder that corresponds to /lib/modules/RELEASE/build."""
        return self.folder / "headers/usr/src" / f"linux-headers-{self.release}"

    def modules(self) -> list[Path]:
        """Paths of the modules in the order in which they load."""
        names: list[str] = json.loads((self.folder / "modules.json").read_text())
        return [self.folder / "modules" / name for name in names]


def ensure(progress: Progress, renew: bool = False) -> VmKernel:
    """Returns the kernel from the cache and fetches it first if it is not there."""
    base = make_folder(cache_dir() / "vm")
    kernel = None if renew else load(base / "current")
    if kernel is not None:
        return kernel
    with (
        locked(base / "vm.lock", lambda: progress.note("another process is fetching the VM's kernel: waiting for it")),
        partial(base / "vm") as work,
    ):
        kernel = None if renew else load(base / "current")
        return kernel or _fetch(work, base, progress)


def load(current: Path) -> VmKernel | None:
    """Returns the kernel that `current` points to, if it is complete."""
    try:
        folder = current.resolve(strict=True)
        manifest = json.loads((folder / "manifest.json").read_text())
        kernel = VmKernel(folder, str(manifest["release"]))
        whole = kernel.image.is_file() and kernel.headers.is_dir() and all(path.is_file() for path in kernel.modules())
        whole = whole and set(WANTED) <= set(manifest["modules"])
    except (OSError, ValueError, KeyError):
        return None
    return kernel if whole else None


def _fetch(work: Path, base: Path, progress: Progress) -> VmKernel:
    check_room(work, NEED_BYTES, "unpacking the VM's kernel")
    progress.phase("VM's kernel: read the package lists")
    apt = Apt(cache_dir() / "apt" / "system", None, REMEDY)
    apt.update()
    meta = apt.candidate("linux-image-amd64")
    image = next((name for name in apt.depends(meta.package, meta.version) if name.startswith("linux-image-")), None)
    if image is None:
        raise KernelError(f"package linux-image-amd64 {meta.version} names no kernel image: {REMEDY}")
    release = image.removeprefix("linux-image-")
    tree, out = work / "tree", make_folder(work / "out")
    versions = _unpack(apt, image, tree, work, progress)
    versions |= _unpack_headers(apt, release, out / "headers", work, progress)
    shutil.copy(tree / "boot" / f"vmlinuz-{release}", out / "vmlinuz")
    _take_modules(tree / "lib/modules" / release, out)
    facts = {"release": release, "packages": versions, "modules": WANTED}
    (out / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")
    for path in (out, *(path for path in out.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    publish(out, base / release, work)
    link = work / "current"
    link.symlink_to(release)
    link.rename(base / "current")
    return VmKernel(base / release, release)


def _unpack(apt: Apt, package: str, into: Path, work: Path, progress: Progress) -> dict[str, str]:
    progress.phase(f"VM's kernel: download {package}")
    offer = apt.candidate(package)
    deb = apt.download(offer, make_folder(work / "debs"))
    run(["dpkg-deb", "-x", str(deb), str(make_folder(into))], KernelError)
    deb.unlink()
    return {package: offer.version}


def _unpack_headers(apt: Apt, release: str, into: Path, work: Path, progress: Progress) -> dict[str, str]:
    """Unpacks the headers of the kernel and their dependencies, and makes them find each other in this folder."""
    package = f"linux-headers-{release}"
    versions = _unpack(apt, package, into, work, progress)
    for name in apt.depends(package, versions[package]):
        if name.startswith(("linux-headers-", "linux-kbuild-")):
            versions |= _unpack(apt, name, into, work, progress)
    makefile = into / "usr/src" / package / "Makefile"
    common = re.sub(r"^include /usr/src/", "include $(dir $(lastword $(MAKEFILE_LIST)))../", makefile.read_text())
    makefile.write_text(common)
    return versions


def _take_modules(tree: Path, out: Path) -> None:
    """Copies the needed modules and all modules that they depend on, uncompressed."""
    paths = {_module_name(path): path for path in tree.rglob("*.ko*")}
    order = load_order(WANTED, {name: path for name, path in paths.items()})
    folder = make_folder(out / "modules")
    for name in order:
        (folder / f"{name}.ko").write_bytes(_read_module(paths[name]))
    (out / "modules.json").write_text(json.dumps([f"{name}.ko" for name in order]))


def load_order(modules: Iterable[str], paths: Mapping[str, Path]) -> list[str]:
    """Returns `modules` and the modules that they depend on, each after its own dependencies.

    A missing module counts as built in.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order or name not in paths:
            return
        for other in dependencies(_read_module(paths[name])):
            visit(other)
        order.append(name)

    for name in modules:
        visit(name)
    return order


def dependencies(module: bytes) -> list[str]:
    """Returns the dependencies listed in a module's own information."""
    match = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name.decode().replace("-", "_") for name in match[1].split(b",") if name] if match else []


def _module_name(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", "_")


def _read_module(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data
