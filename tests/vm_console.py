# SPDX-License-Identifier: Apache-2.0
"""A virtual machine under qemu for tests: its serial console as a student sees it, and ports of this machine that lead to it."""

from __future__ import annotations

import re
import select
import shlex
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

QEMU = "qemu-system-x86_64"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "vm-image.md"
SECRET = "/var/lib/dcgym/secret"
"""The file in the machine that has the password of its user, and the token of its notebook server."""
BOOT_LIMIT_S = 1500.0
COMMAND_LIMIT_S = 3000.0
PROMPT = re.compile(r"student@dcgym:[^\n]*\$ $")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def page_command() -> list[str]:
    """Returns the command by which docs/vm-image.md boots the image."""
    match = re.search(rf"^{QEMU} (?:.*\\\n)*.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None, "the page has no command of qemu"
    return shlex.split(match[0].replace("\\\n", " "))


def command(disk: Path, ssh_port: int, notebook_port: int) -> list[str]:
    """Returns the page's command for another disk and other ports. It emulates the CPU and leaves the disk as it is."""
    text = "\0".join(page_command())
    assert text.count("kvm") == 1 and text.count(".qcow2") == 1
    text = text.replace("-accel\0kvm\0", "")
    text = re.sub(r"file=[^,\0]*\.qcow2", f"file={disk}", text)
    text = text.replace(":2222-", f":{ssh_port}-").replace(":8888-", f":{notebook_port}-")
    return [*text.split("\0"), "-snapshot"]


def sata_command(disk: Path, ssh_port: int, notebook_port: int) -> list[str]:
    """Returns the same command with the devices that the appliance's description names: a SATA disk and an E1000."""
    argv = command(disk, ssh_port, notebook_port)
    drive = next(word for word in argv if word.startswith("file="))
    argv[argv.index(drive)] = f"file={disk},if=none,id=disk,format=vmdk"
    nic = next(word for word in argv if word.startswith("user,"))
    argv[argv.index(nic)] = f"{nic},model=e1000"
    return [*argv, "-device", "ahci,id=sata", "-device", "ide-hd,bus=sata.0,drive=disk"]


class Vm:
    """A context in which the machine runs. Its console is logged into `log`."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self._argv, self._log = ["setpriv", "--pdeathsig", "KILL", *argv], log
        self._said = b""

    def __enter__(self) -> Vm:
        self._qemu = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._qemu.kill()
        self._qemu.wait()

    def boot(self) -> str:
        """Returns the console's output up to the first prompt."""
        output = self._wait(PROMPT, BOOT_LIMIT_S)
        self._type("stty cols 999")  # the shell would break what is typed into lines
        self._wait(PROMPT, BOOT_LIMIT_S)
        return output

    def run(self, line: str, limit_s: float = COMMAND_LIMIT_S) -> tuple[int, str]:
        """Types a command; returns its exit status and what it prints."""
        self._type(f"{line}; echo end'='$?")
        text = self._wait(re.compile(r"end=\d+\n"), limit_s)
        self._wait(PROMPT, limit_s)
        output, _, rest = text.rpartition("end=")
        return int(rest.partition("\n")[0]), output.partition("echo end'='$?\n")[2]

    def power_off(self) -> int:
        """Returns qemu's exit status after the machine has gone down."""
        self._type(f"sudo -S poweroff <{SECRET}")
        return self._qemu.wait(timeout=BOOT_LIMIT_S)

    def _type(self, line: str) -> None:
        assert self._qemu.stdin is not None
        self._said = b""
        self._qemu.stdin.write(f"{line}\n".encode())
        self._qemu.stdin.flush()

    def _wait(self, pattern: re.Pattern[str], limit_s: float) -> str:
        assert self._qemu.stdout is not None
        deadline = time.monotonic() + limit_s
        while not pattern.search(output := CONTROL.sub("", self._said.decode(errors="replace"))):
            assert time.monotonic() < deadline, f"{pattern.pattern!r} did not come: {output[-2000:]}"
            if not select.select([self._qemu.stdout], [], [], 1.0)[0]:
                continue
            data = self._qemu.stdout.read1(1 << 16)
            assert data, f"the machine has ended: {output[-2000:]}"
            with self._log.open("ab") as log:
                log.write(data)
            self._said += data
        return output
