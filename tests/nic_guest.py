# SPDX-License-Identifier: Apache-2.0
"""Inside a lab: puts NICs at all hosts of a fabric, posts flows by hand and observes them. For tests of the NIC shim."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base import record_file
from dc_gym.base.package import PROGRAMS
from dc_gym.ctrl.nic.rows import MapRows, NicPort, Receiver, Sender
from dc_gym.run.plan import inputs
from dc_gym.topologies import telemetry
from dc_gym.topologies.realize import nics
from dc_gym.topologies.realize.fabric import Fabric, netns_path
from dc_gym.topologies.realize.rtnl import entered

FOLDER = Path("/run/nic")
FOREVER = 2**64 - 1
PAYLOAD, FULL, BARE = 1440, 1514, 74
BELL = 0x88B5
SETTINGS = {
    "latency_ns": 0,
    "cnp_interval_ns": 50_000,
    "nack_interval_ns": 500_000,
    "timeout_ns": 4_000_000,
    "timeout_max_ns": 10**9,
    "probe_timeout_ns": 300_000,
    "probe_timeout_max_ns": 1_200_000,
    "ack_packets": 16,
    "burst_packets": 1,
    "selective": 0,
    "trace": 0,
    "in_turn": 0,
    "event_loss_ppm": 0,
    "event_coalesce": 1,
    "event_cost_ns": 0,
    "event_queue": 0,
    "spaced": 0,
    "seed": 1,
}
"""Settings that `start` does not change."""
DECISION = struct.Struct("=QIHHIIII")
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33


@dataclass(frozen=True)
class Flow:
    src: str
    dst: str
    total_bytes: int = FOREVER
    message_bytes: int = 64_000
    telemetry_bytes: int = 0
    inflight_bytes: int = 0


@dataclass(frozen=True)
class Decision:
    t_ns: int
    flow: int
    event: int
    flags: int
    rtt_ns: int
    before: int
    rate: int
    window_bytes: int


class Nics:
    """The NICs of a fabric; `start` gives them an algorithm and flows, `stop` takes both away."""

    def __init__(self, fabric: Fabric, native: bool = False) -> None:
        """`native`: algorithms run as machine code, with which the lab was booted."""
        self.graph, self._native = fabric.graph, native
        FOLDER.mkdir()
        nics.make(fabric)
        self.devices = nics.devices(fabric.graph)
        self._doorbells = {device.host: packet_socket(device.host, device.ring, 0) for device in self.devices}
        self._bells = {device.host: packet_socket(device.host, device.ring, BELL) for device in self.devices}

    def start(
        self, algorithm: str, flows: Sequence[Flow], trace: bool = False, table: Path | None = None, **settings: int
    ) -> None:
        """Starts the NICs. An algorithm's parameter is the setting `parameter_INDEX`."""
        self.write(flows, **settings)
        options = [f"--nics={FOLDER / 'nics'}", f"--object={PROGRAMS / f'nic-{algorithm}.bpf.o'}"]
        options += [f"--native={PROGRAMS / f'nic-{algorithm}.native'}"] if self._native else []
        options += [f"--trace={FOLDER / 'trace'}", "--t0=1"] if trace else []
        options += [f"--table={table}"] if table else []
        self._nicd = subprocess.Popen([PROGRAMS / "nicd", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._nicd.stdout is not None
        word, *ids = self._nicd.stdout.readline().split()
        assert word == "ready"
        self.senders, self.receivers, self.ports = (
            MapRows(int(number), row) for number, row in zip(ids, (Sender, Receiver, NicPort), strict=True)
        )

    def write(self, flows: Sequence[Flow], **settings: int) -> None:
        """Writes the loader's file."""
        self.flows = flows
        parameters = [settings.pop(f"parameter_{index}", 0) for index in range(inputs.MOST_PARAMETERS)]
        rows = [self._row(number, flow) for number, flow in enumerate(flows)]
        rates = telemetry.rate_table(self.graph)
        tables = inputs.NIC_FLOW.table(rows), inputs.settings_table(SETTINGS | settings, parameters, rates)
        record_file.write(FOLDER / "nics", inputs.nic_table(self.graph), *tables)

    def post(self, number: int, packets: int | None = None) -> None:
        """Posts all of a flow, or so many packets more."""
        sender = self.senders[number]
        sender.end = sender.total_packets if packets is None else sender.end + packets
        self._doorbells[self.flows[number].src].send(bytes(sender.frame))

    def wait(self, number: int, timeout_s: float) -> int:
        """Returns when the flow's end was reported (CLOCK_MONOTONIC). No other flow may end at that host meanwhile."""
        bell = self._bells[self.flows[number].dst]
        bell.settimeout(timeout_s)
        frame = bell.recv(2048)
        assert struct.unpack_from(">I", frame, BARE - 32 + 4)[0] == number
        return time.monotonic_ns()

    def bells(self) -> list[int]:
        """Returns the flows whose ends were reported since the last call, in order for each host."""
        flow_numbers = []
        for bell in self._bells.values():
            flow_numbers += [struct.unpack_from(">I", frame, BARE - 32 + 4)[0] for frame, _ in drain(bell)]
        return flow_numbers

    def stop(self) -> None:
        assert self._nicd.stdin is not None
        self._nicd.stdin.close()
        assert self._nicd.wait() == 0

    def kill(self) -> None:
        """Kills the loader with SIGKILL."""
        self._nicd.kill()
        self._nicd.wait()

    def decisions(self) -> list[Decision]:
        """Returns the recorded decisions; call it after stop()."""
        return [Decision(*fields) for fields in DECISION.iter_unpack((FOLDER / "trace").read_bytes())]

    def warm(self, ovs: Any) -> None:
        """Sends a packet each way between all hosts, so that Open vSwitch installs its flows, and rests: that takes time."""
        names = [host.name for host in self.graph.hosts]
        self.start("fixed", [Flow(a, b, 1440) for a in names for b in names if a != b], parameter_0=1 << 20)
        for number in range(len(self.flows)):
            self.post(number)
            self.wait(number, 1)
        time.sleep(0.1)
        self.stop()
        ovs.freeze()
        time.sleep(0.1)

    def _row(self, number: int, flow: Flow) -> dict[str, Any]:
        src, dst = self.graph.host(flow.src), self.graph.host(flow.dst)
        names = [device.name for device in self.devices]
        return {
            "message_bytes": flow.message_bytes,
            "total_bytes": flow.total_bytes,
            "flow": number,
            "src_nic": names.index(f"{flow.src}-eth0"),
            "dst_nic": names.index(f"{flow.dst}-eth0"),
            "src_addr": inputs.address(src.address),
            "dst_addr": inputs.address(dst.address),
            "payload_bytes": PAYLOAD - flow.telemetry_bytes,
            "base_rtt_ns": 20000,
            "hops": 2,
            "dscp": 0,
            "answer_dscp": 0,
            "cnp_dscp": 0,
            "src_mac": inputs.mac(src.mac),
            "dst_mac": inputs.mac(dst.mac),
            "src_port": 10000 + number,
            "tcp_src_port": 0,
            "tcp_dst_port": 0,
            "int_bytes": flow.telemetry_bytes,
            "inflight_bytes": flow.inflight_bytes,
        }


def packet_socket(host: str, ifname: str, protocol: int) -> socket.socket:
    with entered(netns_path(host)):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
        sock.bind((ifname, protocol))
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    return sock


def tap(host: str) -> socket.socket:
    """Returns a socket that sees each frame at a host's cable end when it starts to leave, or has arrived."""
    sock = packet_socket(host, f"{host}-eth0", 3)  # ETH_P_ALL
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return sock


def drain(sock: socket.socket) -> list[tuple[bytes, int]]:
    """Returns the frames that have come since the last call, with their times."""
    frames: list[tuple[bytes, int]] = []
    sock.setblocking(False)
    while True:
        try:
            frame, extra, _, _ = sock.recvmsg(2048, 100)
        except BlockingIOError:
            return frames
        seconds, ns = struct.unpack("=qq", extra[0][2]) if extra else (0, 0)
        frames.append((frame, seconds * 10**9 + ns))


def plain(row: Any) -> dict[str, int]:
    """Returns the integer fields of a row."""
    return {name: value for name, *_ in row._fields_ if isinstance(value := getattr(row, name), int)}
