# SPDX-License-Identifier: Apache-2.0
"""Programs that commands of a shell run. A lab has the machine's programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from dc_gym.traffic.execs import PATH

PLAIN = re.compile(r"[A-Za-z0-9_.+-]+")
PACKAGES = {
    "arping": "arping",
    "curl": "curl",
    "dig": "bind9-dnsutils",
    "ethtool": "ethtool",
    "ifconfig": "net-tools",
    "ip": "iproute2",
    "iperf": "iperf",
    "iperf3": "iperf3",
    "mtr": "mtr-tiny",
    "nc": "netcat-openbsd",
    "netstat": "net-tools",
    "nping": "nmap",
    "ping": "iputils-ping",
    "route": "net-tools",
    "ss": "iproute2",
    "strace": "strace",
    "tc": "iproute2",
    "tcpdump": "tcpdump",
    "tracepath": "iputils-tracepath",
    "traceroute": "traceroute",
    "wget": "wget",
}
"""Debian's packages of programs that are often used in networks."""


def why_missing(line: str, tools: Path) -> str | None:
    """Returns advice if a command's first word is no program, no built-in of the shell, and no path; otherwise None.

    `tools` is a further folder of programs. Words that the shell would expand are left to the shell.
    """
    word = line.split(maxsplit=1)[0]
    if not PLAIN.fullmatch(word) or _knows(word, tools):
        return None
    package = PACKAGES.get(word)
    remedy = f"apt-get install {package}" if package else "install it, or check the name; a network has the machine's programs"
    return f"{word} is not installed: {remedy}"


def _knows(word: str, tools: Path) -> bool:
    """Returns whether sh finds the word as a program, a built-in or a keyword."""
    argv = ["/bin/sh", "-c", 'command -v -- "$1"', "sh", word]
    process = subprocess.run(argv, env={"PATH": f"{PATH}:{tools}"}, capture_output=True, stdin=subprocess.DEVNULL)
    return process.returncode == 0


def installed(tools: Path) -> list[str]:
    """Returns the names of all programs, for completion."""
    names: set[str] = set()
    for folder in (*PATH.split(":"), str(tools)):
        try:
            names.update(entry.name for entry in os.scandir(folder))
        except OSError:
            continue
    return sorted(names)
