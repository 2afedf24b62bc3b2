# SPDX-License-Identifier: Apache-2.0
"""The raw disk of the machine image: a master boot record, GRUB for a BIOS, and one ext4 partition.

All of it is written to a file by programs of a plain user: nothing is mounted and no loop device is used. GRUB lies where the
BIOS looks for it, its first sector in the master boot record and the rest right behind, before the first partition.
"""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.kernel.apt import run

SECTOR_BYTES = 512
PARTITION_SECTOR = 2048
"""The partition begins at 1 MiB, as sfdisk and Debian's installer have it."""
LABEL = "dcgym"
ID = uuid.uuid5(uuid.NAMESPACE_URL, "https://dc-gym/machine-image")
"""Identifies the file system. It is the same in all images, so that equal content makes equal images."""
FEATURES = (
    "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,"
    "extra_isize,metadata_csum"
)
"""Features of ext4 that GRUB 2.06 reads, whatever the defaults of this machine's mke2fs are."""
GRUB = Path("/usr/lib/grub/i386-pc")
GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "linux", "normal", "search", "search_label", "configfile", "echo", "minicmd")
BOOT_CODE_BYTES = 440  # of the master boot record; the disk's signature and the table of partitions follow
UNPACK = """
mkdir "$2"
tar -C "$2" --exclude='./dev/*' -xpf "$1"
: >"$2/etc/machine-id"
rm -f "$2/etc/resolv.conf"
ln -s ../run/systemd/resolve/stub-resolv.conf "$2/etc/resolv.conf"
echo dcgym >"$2/etc/hostname"
printf '127.0.0.1\\tlocalhost\\n127.0.1.1\\tdcgym\\n::1\\tlocalhost ip6-localhost\\n' >"$2/etc/hosts"
find "$2" -newermt "@$3" -exec touch --no-dereference --date "@$3" '{}' +
shift 3
exec mke2fs "$@"
"""
"""A shell script that unpacks archive $1 into folder $2 and makes a file system of it: $3 is the latest time of files."""


def write(archive: Path, disk: Path, size_bytes: int, work: Path, epoch: int) -> None:
    """Writes `disk`, a sparse file of `size_bytes`, with the root file system of `archive`. `work` is an empty folder."""
    core = work / "core.img"
    run(
        ["grub-mkimage", "-O", "i386-pc", "-d", str(GRUB), "-p", "(,msdos1)/boot/grub", "-o", str(core), *GRUB_MODULES],
        TestbedError,
    )
    with disk.open("wb") as file:
        file.write(boot_sectors((GRUB / "boot.img").read_bytes(), core.read_bytes(), size_bytes))
        file.truncate(size_bytes)
    # fakeroot: owners and modes are right though this is no root.
    fill = ["fakeroot", "sh", "-eu", "-c", UNPACK, "unpack", str(archive), str(work / "root"), str(epoch)]
    run([*fill, *mke2fs_options(work / "root", disk, size_bytes)], TestbedError, _environment(epoch))


def boot_sectors(boot: bytes, core: bytes, size_bytes: int) -> bytes:
    """Returns the disk's first sectors: GRUB's boot sector `boot` with a table of one partition, then its image `core`.

    `boot` loads the sector after it, and the first of `core` the sectors after that: GRUB's defaults.
    Raises TestbedError if `core` would reach into the partition.
    """
    room = (PARTITION_SECTOR - 1) * SECTOR_BYTES
    if len(core) > room:
        raise TestbedError(f"GRUB has {len(core)} bytes, and before the partition there is room for {room}")
    lba = struct.pack("<II", PARTITION_SECTOR, size_bytes // SECTOR_BYTES - PARTITION_SECTOR)
    beyond = b"\xfe\xff\xff"  # cylinder, head and sector of a place that this form cannot name: readers use the numbers in `lba`
    entry = b"\x80" + beyond + b"\x83" + beyond + lba
    record = boot[:BOOT_CODE_BYTES] + ID.bytes[:4] + b"\0\0" + entry.ljust(64, b"\0") + b"\x55\xaa"
    return record + core


def mke2fs_options(root: Path, disk: Path, size_bytes: int) -> list[str]:
    """Returns the arguments of mke2fs that fill the partition of `disk` with the folder `root`."""
    offset = PARTITION_SECTOR * SECTOR_BYTES
    extended = f"offset={offset},hash_seed={ID},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0"
    argv = ["-q", "-F", "-t", "ext4", "-O", FEATURES, "-b", "4096", "-m", "1", "-L", LABEL, "-U", str(ID), "-E", extended]
    return [*argv, "-d", str(root), str(disk), f"{(size_bytes - offset) // 1024}k"]


def _environment(epoch: int) -> dict[str, str]:
    """Returns the environment in which mke2fs takes `epoch` for the time."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C",
        "E2FSPROGS_FAKE_TIME": str(epoch), "SOURCE_DATE_EPOCH": str(epoch),
    }  # fmt: skip
