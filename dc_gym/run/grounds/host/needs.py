# SPDX-License-Identifier: Apache-2.0
"""The needs of the host ground from this machine's kernel, tested in a network namespace that is thrown away.

Lists of files would not help: a kernel can have a feature built in, as a module that it loads itself, or not at all. Only a test
shows it. A missing feature is named as its module, with the package that contains it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import FabricError, UsageError
from dc_gym.ctrl import controllers
from dc_gym.topologies.graph import Marking, Queue
from dc_gym.topologies.realize import qdisc_fabric, shapers, tc
from dc_gym.topologies.realize.cables import CableEnd, set_up
from dc_gym.topologies.realize.rtnl import NetlinkSocket, attr_text, new_namespace

MODULES = (
    "veth", "openvswitch", "sch_tbf", "sch_netem", "sch_red", "sch_fq", "sch_ingress", "cls_matchall", "act_mirred",
    "bpf", "cls_bpf", "tcp_dctcp", "tcp_nv", "tcp_bbr", "tcp_vegas", "tcp_bic", "tcp_westwood", "tcp_htcp", "tcp_highspeed",
    "tcp_hybla", "tcp_scalable", "tcp_lp", "tcp_veno", "tcp_yeah", "tcp_illinois", "tcp_cdg",
)  # fmt: skip
"""All modules that any experiment can need. TCP's CUBIC and Reno, and bfifo, are in every kernel."""
LINK_MODULES = {
    "cable": frozenset({"openvswitch"}),
    "netem": frozenset({"openvswitch", "veth", "sch_tbf", "sch_netem", "sch_ingress", "cls_matchall", "act_mirred"}),
    "tbf": frozenset({"openvswitch", "veth", "sch_tbf"}),
}
NIC_MODULES = frozenset({"veth", "sch_fq", "sch_ingress", "bpf", "cls_bpf"})
"""Modules for a run over RDMA (docs/host.md). `bpf` is bpf(2), which is either built in or missing."""
QUEUE_MODULES = {"red": "sch_red", "fq": "sch_fq", "tbf": "sch_tbf"}
NETLINK_GENERIC, GENL_ID_CTRL = 16, 16
GET_FAMILY = struct.Struct("=BBxx")  # genlmsghdr: command 3, version 1
CTRL_ATTR_FAMILY_NAME = 2
SOME_RATE_BPS = 10**7
SYSCALL_BPF, BPF_PROG_LOAD, BPF_PROG_TYPE_SCHED_CLS = 321, 5, 3  # x86-64
PASS_ALL = bytes.fromhex("b7000000000000009500000000000000")
"""A BPF program: r0 = 0; exit."""
PACKAGES = {
    "debian": "linux-image-amd64 (a cloud kernel lacks it: boot this one)",
    "ubuntu": "linux-modules-extra-{release}",
    "fedora": "kernel-modules-extra-{release}",
    "rhel": "kernel-modules-extra-{release}",
}


@dataclass(frozen=True, slots=True)
class Need:
    """One module, and the test of whether the kernel has it."""

    module: str
    probe: Callable[[NetlinkSocket, int], object]
    """Is called in a namespace of its own, with the ifindex of a device for tests.

    OSError or FabricError: the kernel lacks the module.
    """
    device: str = "probe"
    """Name of that device. A root qdisc cannot be replaced by one of another kind, so each test has its own device."""


def modules_for(links: str, queue_kinds: Iterable[str], tcp: Iterable[str], nic: bool = False) -> frozenset[str]:
    """Returns the modules that an experiment needs. `nic` is True for one over RDMA."""
    modules = {QUEUE_MODULES[kind] for kind in queue_kinds if kind in QUEUE_MODULES}
    modules |= NIC_MODULES if nic else frozenset()
    modules |= {f"tcp_{name}" for name in tcp if f"tcp_{name}" in MODULES}
    return LINK_MODULES[links] | modules


def missing(modules: Collection[str]) -> list[str]:
    """Returns the `modules` that this kernel does not have. Needs root, and leaves nothing but loaded modules."""
    missing_modules: list[str] = []
    trouble: list[BaseException] = []

    def probe() -> None:
        try:
            new_namespace()  # for this thread; it ends with it
            with NetlinkSocket() as sock:
                missing_modules.extend(_missing_here(sock, modules))
        except BaseException as error:  # passed on to the caller's thread
            trouble.append(error)

    thread = threading.Thread(target=probe)
    thread.start()
    thread.join()
    if trouble:
        raise trouble[0]
    return missing_modules


def require(modules: Collection[str]) -> None:
    """Raises a UsageError that names each missing module and its package. At that point nothing has been changed."""
    missing_modules = missing(modules)
    if missing_modules:
        raise UsageError(f"this kernel ({platform.release()}) has no {', '.join(missing_modules)}: {remedy()}")


def remedy() -> str:
    """Returns where the kernel's modules come from on this machine."""
    release = platform.release()
    if not Path("/lib/modules", release).is_dir():
        return "it is not a distribution's kernel, or its modules are not installed: boot one that has them, or use `dcgym vm`"
    try:
        known = platform.freedesktop_os_release()
    except OSError:
        known = {}
    names = [known.get("ID", ""), *known.get("ID_LIKE", "").split()]
    package = next((PACKAGES[name] for name in names if name in PACKAGES), "the one with your kernel's extra modules")
    return f"install package {package.format(release=release)}, or use `dcgym vm`"


def _missing_here(sock: NetlinkSocket, modules: Collection[str]) -> list[str]:
    absent = {need.module for need in NEEDS if need.module in modules and not _holds(need, sock, _device(sock, need.device))}
    return [name for name in MODULES if name in absent]


def _device(sock: NetlinkSocket, name: str) -> int:
    """Returns the ifindex of a device of that name and creates it if necessary. Returns 0 where there are no veth pairs."""
    try:
        if name not in qdisc_fabric.veths(sock):
            sock.batch([qdisc_fabric.pair(CableEnd(name), CableEnd(f"{name}-peer"))])
        return qdisc_fabric.veths(sock)[name].ifindex
    except FabricError:
        return 0


def _holds(need: Need, sock: NetlinkSocket, device: int) -> bool:
    try:
        need.probe(sock, device)
    except (FabricError, OSError):
        return False
    return True


def _openvswitch(_sock: NetlinkSocket, _device: int) -> None:
    with NetlinkSocket(protocol=NETLINK_GENERIC) as sock:
        sock.dump(GENL_ID_CTRL, GET_FAMILY.pack(3, 1) + attr_text(CTRL_ATTR_FAMILY_NAME, "ovs_datapath"), flags=0)


def _tcp(kernel_name: str) -> Callable[[NetlinkSocket, int], None]:
    def probe(_sock: NetlinkSocket, _device: int) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, kernel_name.encode())

    return probe


def _bpf_program() -> int:
    """Returns a file descriptor of PASS_ALL. Raises OSError where it cannot be loaded."""
    code, license = ctypes.create_string_buffer(PASS_ALL), ctypes.create_string_buffer(b"GPL")
    about = struct.pack("=IIQQ", BPF_PROG_TYPE_SCHED_CLS, len(PASS_ALL) // 8, ctypes.addressof(code), ctypes.addressof(license))
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYSCALL_BPF, BPF_PROG_LOAD, about, len(about))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "load a BPF program")
    return int(fd)


def _bpf(_sock: NetlinkSocket, _device: int) -> None:
    os.close(_bpf_program())


def _cls_bpf(sock: NetlinkSocket, device: int) -> None:
    program = _bpf_program()
    try:
        sock.batch(shapers.classify(device, program, "probe"))
    finally:
        os.close(program)


def _queue(queue: Queue) -> Callable[[NetlinkSocket, int], None]:
    return lambda sock, device: sock.batch([tc.set_queue(device, queue, "probe")])


def _needs() -> tuple[Need, ...]:
    red = Queue(10**6, "red", Marking("step", k_bytes=3028))
    fifo = Queue(10**6, "bfifo")
    known = filter(None, map(controllers.find, controllers.names()))
    tcp = {control for control in known if not (control.nic or control.lab_only)}  # which are no modules here
    return (
        Need("veth", lambda sock, at: sock.batch([set_up(at, "probe")])),
        Need("openvswitch", _openvswitch),
        Need("sch_tbf", lambda sock, at: sock.batch(shapers.set_limited_queue(at, fifo, SOME_RATE_BPS, 3028, "probe")), "tbf"),
        Need("sch_netem", lambda sock, at: sock.batch([shapers.set_netem(at, SOME_RATE_BPS, 1000, "probe")]), "netem"),
        Need("sch_red", _queue(red), "red"),
        Need("sch_fq", _queue(Queue(10**6, "fq")), "fq"),
        Need("sch_ingress", lambda sock, at: sock.batch(shapers.redirect(at, at, "probe")[:1])),
        Need("cls_matchall", lambda sock, at: sock.batch([shapers.match_all(at, "probe", priority=2)])),
        Need("act_mirred", lambda sock, at: sock.batch(shapers.redirect(at, at, "probe")[1:])),
        Need("bpf", _bpf),
        Need("cls_bpf", _cls_bpf, "bpf"),
        *(Need(f"tcp_{control.kernel_name}", _tcp(control.kernel_name)) for control in sorted(tcp, key=lambda c: c.name)),
    )


NEEDS = _needs()
