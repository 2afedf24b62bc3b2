# SPDX-License-Identifier: Apache-2.0
"""`dcgym vm COMMAND...` runs the same command as root in a VM with Debian's stock kernel, where the host ground has all it needs.

qemu emulates the VM's CPU (TCG). It needs neither KVM nor root, and is 10 to 20 times slower than the machine. The VM's root
directory is this machine's, as the caller may read it. Writes to it stay in the VM's memory. One folder, the current one, is
shared in both directions. Nothing remains of the VM except the files that the command wrote there.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from dc_gym.base.errors import KernelError, TestbedError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.interpreter import dcgym
from dc_gym.base.package import PROGRAMS
from dc_gym.base.progress import Progress
from dc_gym.kernel import cable_module, cache, openvswitch
from dc_gym.kernel.cache import cache_dir
from dc_gym.run.grounds.host import vm_kernel
from dc_gym.run.grounds.host.cpio import archive
from dc_gym.run.grounds.host.vm_kernel import VmKernel

QEMU = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
INIT = "vm-init"
LAUNCH = ("setpriv", "--pdeathsig", "KILL", str(PROGRAMS / "vm-launch"))  # setpriv is from util-linux
"""Runs qemu so that it ends with its caller, and passes on no set-user-ID bit, device or capability to the machine's files."""
PORTS = ("control", "output", "errors")  # numbered from 1, as vm-init expects
BOOT_LIMIT_S = 300.0
INTERRUPT_LIMIT_S = 60.0  # an emulated CPU cleans up slowly
SHOWN_LINES = 15
HIDDEN = ("/dev", "/proc", "/run", "/sys")  # the VM has its own


def main(args: Namespace, progress: Progress) -> int:
    """Runs `args.words` as `dcgym` in the VM and returns its exit code."""
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise UsageError("dcgym vm: no command; write it like: dcgym vm -- run examples/dumbbell.toml --ground host")
    check()
    share = Path.cwd()
    kernel = prepare(progress)
    argv = dcgym(*words)
    with cache.in_use():
        return run(kernel, argv, environment(), share, args.memory_bytes, args.cpus)


def prepare(progress: Progress) -> VmKernel:
    """Puts all that a run in the VM needs into the cache, because the VM cannot reach the package archive."""
    kernel = vm_kernel.ensure(progress)
    openvswitch.ensure(progress)
    try:
        cable_module.ensure(kernel.release, kernel.headers)
    except KernelError as error:
        progress.note(f"the VM has no cable, links will be made of stock qdiscs: {error}")
    progress.phase("VM: boot")
    return kernel


def check() -> None:
    """Raises UsageError unless qemu is installed and the current folder can be shared."""
    if shutil.which(QEMU) is None:
        raise UsageError(f"{QEMU} is not installed: apt-get install --no-install-recommends {PACKAGE}")
    if Path.cwd() == Path("/") or any(Path.cwd().is_relative_to(hidden) for hidden in HIDDEN):
        raise UsageError(f"{Path.cwd()}: the VM has this folder for itself: change to the one that shall have the results")
    for name in (INIT, Path(LAUNCH[-1]).name):
        if not (PROGRAMS / name).is_file():
            raise TestbedError(f"{PROGRAMS}: {name} not built; run `make programs`")


def environment() -> dict[str, str]:
    """Returns the environment of the command in the VM.

    It has this command's cache and checkout, and nothing of the caller's own.
    """
    inherited = {name: os.environ[name] for name in ("DCGYM_TRACEBACK", "COLUMNS") if name in os.environ}
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(PROGRAMS.parent.parent),
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DCGYM_CACHE": str(cache_dir()),
        cache.TRUST: "1",
        **inherited,
    }


def run(
    kernel: VmKernel, argv: Sequence[str], env: Mapping[str, str], share: Path, memory_bytes: int = 2 << 30, cpus: int = 2
) -> int:
    """Runs `argv` in a VM in folder `share`, with its output on standard output and error. Returns its exit status."""
    with ExitStack() as stack:
        work = stack.enter_context(scratch(Path(tempfile.gettempdir()), "dcgym-vm-"))
        (work / "initrd").write_bytes(_initramfs(kernel, _command(argv, env, share)))
        pairs = [socket.socketpair() for _ in PORTS]
        for pair in pairs:
            for end in pair:
                stack.enter_context(end)
        qemu = subprocess.Popen(
            _qemu(kernel, work, [vm_end.fileno() for _, vm_end in pairs], share, memory_bytes, cpus),
            stdin=subprocess.DEVNULL, pass_fds=[vm_end.fileno() for _, vm_end in pairs], start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=stack.enter_context((work / "qemu.log").open("wb")),
            cwd=work,  # qemu takes the VM's firmware from the folder where it starts, if a file there is called like it
        )  # fmt: skip
        stack.callback(_end, qemu)
        for _, vm_end in pairs:
            vm_end.close()
        return _Conversation(work, *(host_end for host_end, _ in pairs)).hold()


class _Conversation:
    """Passes the VM's output on until the VM is off."""

    def __init__(self, work: Path, control: socket.socket, output: socket.socket, errors: socket.socket) -> None:
        self._work, self._control = work, control
        self._sinks = {output.fileno(): sys.stdout.buffer, errors.fileno(): sys.stderr.buffer}
        self._said = b""
        self._selector = selectors.DefaultSelector()
        for end in (control, output, errors):
            self._selector.register(end.fileno(), selectors.EVENT_READ)

    def hold(self) -> int:
        """Returns the command's exit status."""
        booted_by = time.monotonic() + BOOT_LIMIT_S
        try:
            while self._selector.get_map():
                self._pass_on()
                if b"ready" not in self._said and time.monotonic() > booted_by:
                    raise TestbedError(self._story(f"the VM has not booted within {BOOT_LIMIT_S:g} s"))
        except KeyboardInterrupt:
            self._interrupt()
            raise
        words = self._said.split()
        if b"exit" not in words:
            raise TestbedError(self._story("the VM ended before its command did"))
        return int(words[words.index(b"exit") + 1])

    def _pass_on(self) -> None:
        for key, _ in self._selector.select(timeout=1.0):
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fd)
            elif key.fd == self._control.fileno():
                self._said += data
            else:
                self._sinks[key.fd].write(data)
                self._sinks[key.fd].flush()

    def _interrupt(self) -> None:
        """Sends Ctrl-C to the command, which then has some time to clean up."""
        patience = time.monotonic() + INTERRUPT_LIMIT_S
        if b"ready" not in self._said:
            return
        self._control.send(b"I")
        while self._selector.get_map() and time.monotonic() < patience:
            self._pass_on()

    def _story(self, problem: str) -> str:
        lines = [line for name in ("qemu.log", "console.log") if (self._work / name).exists()
                 for line in (self._work / name).read_text(errors="replace").splitlines()]  # fmt: skip
        return "\n".join([problem, *(f"  vm: {line}" for line in lines[-SHOWN_LINES:])])


def _qemu(kernel: VmKernel, work: Path, fds: Sequence[int], share: Path, memory_bytes: int, cpus: int) -> list[str]:
    argv = [
        *LAUNCH, QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(cpus), "-m", f"{memory_bytes >> 20}M",
        "-kernel", str(kernel.image), "-initrd", str(work / "initrd"),
        "-append", "console=ttyS0 panic=-1 loglevel=4 mitigations=off random.trust_cpu=on no_timer_check",
        "-serial", f"file:{work / 'console.log'}",
        "-device", "virtio-serial",  # must be the first: its ports are then /dev/vport0p1 and so on
        "-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
        "-virtfs", f"local,path={_quoted(share)},mount_tag=share,security_model=none,multidevs=remap",
    ]  # fmt: skip
    for number, (name, fd) in enumerate(zip(PORTS, fds, strict=True), 1):
        argv += ["-chardev", f"socket,id={name},fd={fd}", "-device", f"virtserialport,chardev={name},nr={number}"]
    return argv


def _quoted(path: Path) -> str:
    """Returns a path as it stands in an option of qemu's, where a comma alone ends a value."""
    return str(path).replace(",", ",,")


def _initramfs(kernel: VmKernel, command: bytes) -> bytes:
    modules = {f"lib/{path.name}": path.read_bytes() for path in kernel.modules()}
    order = "".join(f"/{name}\n" for name in modules).encode()
    return archive({"init": (PROGRAMS / INIT).read_bytes(), "command": command, "modules": order, **modules})


def _command(argv: Sequence[str], env: Mapping[str, str], share: Path) -> bytes:
    """Returns the settings that vm-init reads."""
    entries = [f"share {share}", f"cwd {share}", *(f"env {name}={value}" for name, value in env.items())]
    return b"".join(os.fsencode(entry) + b"\0" for entry in (*entries, *(f"arg {word}" for word in argv)))


def _end(qemu: subprocess.Popen[bytes]) -> None:
    if qemu.poll() is None:
        qemu.kill()
    qemu.wait()
