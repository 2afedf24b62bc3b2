# SPDX-License-Identifier: Apache-2.0
"""Builds a machine image with dc-gym, its labs and a notebook server: python -m scripts.vm_image [--wheel WHEEL] [--size 8GB] DIR

It writes into DIR a disk for qemu (qcow2), an appliance for VirtualBox (OVA), and SHA256SUMS. Each file takes its place when all
are whole: an interrupted build leaves DIR as it was. It may be repeated at any time. docs/vm-image.md says how to use the files.

`make vm-image` calls it when the wheel and the packages are there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dc_gym import __version__
from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import TestbedError, UsageError, in_one_line
from dc_gym.base.files import machine_errors, scratch
from dc_gym.base.progress import Progress, choose
from dc_gym.base.units import parse_size_bytes
from dc_gym.kernel.apt import run
from scripts import vm_disk, vm_ovf, vm_root

ROOT = Path(__file__).resolve().parent.parent
NAME = f"dc-gym-{__version__}"
SUMS = "SHA256SUMS"
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "fakeroot": "fakeroot",
    "mke2fs": "e2fsprogs",
    "grub-mkimage": "grub-common",
    "qemu-img": "qemu-utils",
    "setpriv": "util-linux",
}
"""Programs that the build calls, and the Debian packages that have them."""
SMALLEST_BYTES = 4 << 30
LARGEST_BYTES = 1 << 40
WORK_BYTES = 8 << 30
"""Room that a build needs besides what it writes in the end."""
CPUS, MEMORY_BYTES = 2, 2 << 30
"""The machine that an import of the appliance makes."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vm_image", description="Builds a machine image with dc-gym.")
    parser.add_argument("out", type=Path, metavar="DIR", help="where the files of an earlier build are replaced")
    parser.add_argument("--wheel", type=Path, help="the wheel of dc-gym (default: the one in dist/)")
    parser.add_argument("--size", default="8GiB", help="size of the disk that the machine sees (default: 8GiB)")
    args = parser.parse_args(argv)
    try:
        size_bytes = disk_size(args.size)
        wheel = find_wheel(args.wheel)
        check_machine(args.out)
        build(wheel, args.out.absolute(), size_bytes)
    except (TestbedError, OSError) as error:
        print(f"vm_image: {in_one_line(error)}", file=sys.stderr)
        return error.exit_code if isinstance(error, TestbedError) else 1
    except KeyboardInterrupt:
        print("vm_image: interrupted; nothing was changed", file=sys.stderr)
        return 130
    return 0


def disk_size(text: str) -> int:
    """Returns the size of the machine's disk in bytes, whole MiB."""
    size_bytes = parse_size_bytes(text, "--size")
    if not SMALLEST_BYTES <= size_bytes <= LARGEST_BYTES:
        raise UsageError(f"--size {text}: a disk has 4GiB to 1024GiB; give for example 8GiB")
    return size_bytes >> 20 << 20


def find_wheel(path: Path | None) -> Path:
    """Returns the wheel to install: the one that is given, or the only one in dist/."""
    wheels = [path] if path is not None else sorted((ROOT / "dist").glob("dc_gym-*-manylinux_*.whl"))
    if len(wheels) != 1:
        raise UsageError(f"dist/ has {len(wheels)} wheels of dc-gym: run `make wheel`, or give --wheel FILE")
    wheel = wheels[0]
    if not wheel.is_file() or not wheel.name.startswith("dc_gym-") or wheel.suffix != ".whl":
        raise UsageError(f"--wheel {wheel}: not a wheel of dc-gym; `make wheel` writes one into dist/")
    return wheel.absolute()


def check_machine(out: Path) -> None:
    """Raises UsageError unless the build's programs are here, and room for what it writes to `out`."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program, path=_search_path()) is None]
    missing += [] if vm_disk.GRUB.is_dir() else ["grub-pc-bin"]
    if missing:
        raise UsageError(f"programs are missing: apt-get install --no-install-recommends {' '.join(missing)}")
    folder = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give another DIR")
    if (free_bytes := shutil.disk_usage(folder).free) < WORK_BYTES:
        raise UsageError(
            f"{folder} has {free_bytes / 1e9:.1f} GB free, and a build needs {WORK_BYTES / 1e9:.1f}: give another DIR"
        )


def build(wheel: Path, out: Path, size_bytes: int) -> None:
    """Builds all files in a folder of their own in `out`, and then gives each its place."""
    epoch = build_time()
    with machine_errors("make", out, "another DIR"):
        out.mkdir(parents=True, exist_ok=True)
    with choose(quiet=False) as progress, scratch(out, "dcgym-vm-") as work:
        root, raw = work / "root.tar", work / "disk.raw"
        vm_root.write(wheel, root, _empty(work / "root"), epoch, progress)
        progress.phase("image: make the disk")
        vm_disk.write(root, raw, size_bytes, _empty(work / "disk"), epoch)
        files = _pack(raw, size_bytes, work, epoch, progress)
        sums = work / SUMS
        sums.write_text(checksums(files))
        progress.phase("done")
        for path in (*files, sums):
            path.replace(out / path.name)
    for name in (*(path.name for path in files), SUMS):
        print(f"{(out / name).stat().st_size / 1e6:8.1f} MB  {out / name}")


def build_time() -> int:
    """Returns SOURCE_DATE_EPOCH, in seconds, or the time of the checkout's last commit, or else the time now."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is not None:
        if not epoch.isdecimal():
            raise UsageError(f"SOURCE_DATE_EPOCH={epoch}: it must be a number of seconds since 1970")
        return int(epoch)
    argv = ["git", "-c", "safe.directory=*", "-c", "log.showSignature=false", "log", "-1", "--format=%ct"]  # runs no program
    process = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    return int(process.stdout) if process.returncode == 0 else int(time.time())


def checksums(files: Sequence[Path]) -> str:
    """Returns the content of SHA256SUMS, as sha256sum --check reads it."""
    return "".join(f"{sha256_of(path)}  {path.name}\n" for path in files)


def _pack(raw: Path, size_bytes: int, work: Path, epoch: int, progress: Progress) -> list[Path]:
    """Writes the disk in the forms that are given away, into `work`."""
    qcow2, vmdk, ova = work / f"{NAME}.qcow2", work / "disk" / f"{NAME}-disk1.vmdk", work / f"{NAME}.ova"
    progress.phase("image: compress the disk (qcow2)")
    convert = ["qemu-img", "convert", "-f", "raw"]
    run([*convert, "-O", "qcow2", "-c", str(raw), str(qcow2)], TestbedError)
    progress.phase("image: compress the disk (VMDK)")
    run([*convert, "-O", "vmdk", "-o", "subformat=streamOptimized", str(raw), str(vmdk)], TestbedError)
    raw.unlink()
    machine = vm_ovf.Machine(NAME, __version__, CPUS, MEMORY_BYTES, size_bytes)
    vm_ovf.write(ova, machine, vmdk, epoch)
    return [qcow2, ova]


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _search_path() -> str:
    """Returns PATH with the folders of programs like mke2fs, which a plain user's may lack."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


if __name__ == "__main__":
    sys.exit(main())
