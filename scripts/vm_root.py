# SPDX-License-Identifier: Apache-2.0
"""The root file system of the machine image, as a tar archive: Debian 12, dc-gym from its wheel, a notebook server, the labs.

mmdebstrap makes it: as root in a chroot, otherwise in a user namespace. Python packages are downloaded before, with the pip and
the settings of this machine, so nothing of these settings comes into the image. scripts/vm/files are the image's own files, and
scripts/vm/setup.sh runs in it at the end.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Progress
from dc_gym.kernel import apt

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "scripts" / "vm"
SUITE = "bookworm"
BACKPORTS = f"{SUITE}-backports"
"""The suite whose kernel the image has: from Linux 6.12 on Landlock confines a lab's signals, too."""
PYTHON = "3.11"
"""The version of SUITE's Python, for which wheels are downloaded."""
GLIBC_MINOR = 36
"""SUITE has glibc 2.36: wheels for older ones run there."""
PACKAGES = (
    f"linux-image-amd64/{BACKPORTS}", "systemd-sysv", "systemd-resolved", "udev", "dbus", "libpam-systemd", "kmod",
    "python3", "python3-venv", "iproute2", "iputils-ping", "tcpdump", "ethtool", "iperf3",
    "openssh-server", "sudo", "ca-certificates", "less", "nano", "procps", "bash-completion",
)  # fmt: skip
SETUP = "opt/dcgym-setup"
"""The folder in the image from which setup.sh runs, and which it removes."""
HOME, STUDENT_ID = "home/student", 1000
DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM")
ROOTS_WORLD = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
)  # fmt: skip
"""Mounts and processes of root's build end with it. For a plain user mmdebstrap makes such namespaces itself."""
HOOK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REMEDY = f"set {apt.ARCHIVE} to the URL of a Debian archive"


def write(wheel: Path, target: Path, work: Path, epoch: int, progress: Progress) -> None:
    """Writes the archive `target`. `epoch`: seconds; no file of the image is newer. `work` is an empty folder."""
    progress.phase("image: download the Python packages")
    wheels = work / "wheels"
    _download(wheels)
    shutil.copy(wheel, wheels)
    payload = work / "payload.tar"
    with tarfile.open(payload, "w", format=tarfile.GNU_FORMAT) as packed:
        for name, content, mode, owner in (*_own_files(), *_home(), *_setup(wheels)):
            packed.addfile(_member(name, len(content), mode, owner, epoch), io.BytesIO(content))
    progress.phase("image: install Debian and dc-gym")
    temporary = work / "tmp"  # in a user namespace mmdebstrap is another user
    temporary.mkdir()
    temporary.chmod(0o1777)
    env = {name: value for name, value in os.environ.items() if name == "PATH" or name.lower().endswith("_proxy")}
    env |= {"TMPDIR": str(temporary), "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    apt.run(command(payload, target, sources(work)), TestbedError, env, cwd=temporary)


def command(payload: Path, target: Path, sources: str) -> list[str]:
    """Returns the call of mmdebstrap, which dies with its caller and leaves no mount behind."""
    setup = f'chroot "$1" env -i PATH={HOOK_PATH} LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" sh /{SETUP}/setup.sh'
    return [
        *(ROOTS_WORLD if os.geteuid() == 0 else DIES_WITH_US),
        "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", "--architectures=amd64",
        f"--include={','.join(PACKAGES)}", '--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"',
        f"--customize-hook=tar-in {payload} /", f"--customize-hook={setup}", SUITE, str(target), sources,
    ]  # fmt: skip


def sources(work: Path) -> str:
    """Returns the source lines of the archive from which this machine gets Debian, or of $DCGYM_DEBIAN_ARCHIVE."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        archive = apt.debian_archive(Path(folder), REMEDY)
    lines = apt.source_lines(archive, (SUITE, f"{SUITE}-updates", BACKPORTS), (f"{SUITE}-security",))
    return lines.replace("target=Packages ", "")


def _download(folder: Path) -> None:
    """Downloads the wheels of scripts/vm/requirements.lock, each checked against its hash, for the image's Python."""
    platforms = ["manylinux1_x86_64", "manylinux2014_x86_64", *(f"manylinux_2_{n}_x86_64" for n in range(5, GLIBC_MINOR + 1))]
    argv = python("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder))
    argv += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    argv += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    argv += [f"--platform={platform}" for platform in platforms]
    apt.run([*argv, "--requirement", str(PARTS / "requirements.lock")], TestbedError)


File = tuple[str, bytes, int, int]
"""Name in the image without a leading slash, content, mode, number of the owner."""


def _own_files() -> Iterator[File]:
    for path in _files_of(files := PARTS / "files"):
        name = path.relative_to(files).as_posix()
        mode = 0o440 if name.startswith("etc/sudoers.d/") else 0o755 if os.access(path, os.X_OK) else 0o644
        yield name, path.read_bytes(), mode, 0


def _home() -> Iterator[File]:
    for folder in ("docs", "examples"):
        for path in _files_of(ROOT / folder):
            yield f"{HOME}/{path.relative_to(ROOT).as_posix()}", path.read_bytes(), 0o644, STUDENT_ID


def _setup(wheels: Path) -> Iterator[File]:
    for path in (PARTS / "setup.sh", PARTS / "requirements.in"):
        yield f"{SETUP}/{path.name}", path.read_bytes(), 0o755, 0
    for path in sorted(wheels.iterdir()):
        yield f"{SETUP}/wheels/{path.name}", path.read_bytes(), 0o644, 0


def _files_of(folder: Path) -> list[Path]:
    """Returns all files below a folder, without what Python and notebooks leave there."""
    unwanted = ("__pycache__", ".ipynb_checkpoints")
    return sorted(path for path in folder.rglob("*") if path.is_file() and not any(part in unwanted for part in path.parts))


def _member(name: str, size: int, mode: int, owner: int, epoch: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, mode, epoch
    member.uid = member.gid = owner
    return member
