# SPDX-License-Identifier: Apache-2.0
"""Keeps everything that runs a NIC's programs on one CPU. Their rows then have one writer at a time, as in a lab (docs/nic.md).

A NIC's programs run in softirqs: where a token's timer expires, where a frame arrives, and where tgen rings. Timers of fq, tbf
and netem stay on the CPU that set them, so processes that this process and its children start stay on theirs. A cable's timer may
move to another CPU. Receive packet steering brings frames that arrive by a cable back before the NIC sees them.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize.fabric import Fabric, netns_path
from dc_gym.topologies.realize.rtnl import entered

SYSFS = Path("/run/sysfs")
FIRST_WORD = 32
"""The number of CPUs in one word of a mask in sysfs. The chosen CPU must be among the first of these."""


def pin() -> int:
    """Binds this process and all that it starts from now on to one of its CPUs, and returns that CPU."""
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    return cpu


def steer(fabric: Fabric, cpu: int) -> None:
    """Moves the processing of frames that arrive at a host to that CPU."""
    if cpu >= FIRST_WORD:
        raise FabricError(f"CPU {cpu}: NICs need one of the first {FIRST_WORD}; run this with `taskset -c 0-{FIRST_WORD - 1}`")
    libc = ctypes.CDLL(None, use_errno=True)
    SYSFS.mkdir(exist_ok=True)
    for host in fabric.graph.hosts:
        with entered(netns_path(host.name)):  # a sysfs shows the network namespace in which it was mounted
            if libc.mount(b"dcgym", bytes(SYSFS), b"sysfs", 0, None):
                raise FabricError(f"{host.name}: mount its sysfs: {os.strerror(ctypes.get_errno())}")
            try:
                _steer_host([port.ifname for port in fabric.graph.ports_of(host.name)], cpu)
            finally:
                libc.umount2(bytes(SYSFS), 0)


def _steer_host(wires: list[str], cpu: int) -> None:
    for wire in wires:
        try:
            for queue in (SYSFS / "class/net" / wire / "queues").glob("rx-*"):
                (queue / "rps_cpus").write_text(f"{1 << cpu:x}\n")
        except OSError as error:
            raise FabricError(
                f"{wire}: steer what arrives to CPU {cpu}: {error.strerror}; the kernel needs CONFIG_RPS"
            ) from error
