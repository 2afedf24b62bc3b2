# SPDX-License-Identifier: Apache-2.0
"""The program that test_rate_changes.py runs in a lab: `python -m rate_changes_guest FOLDER`.

A line of FOLDER/jobs.jsonl is a job. Its line of FOLDER/answers.jsonl lists departures, in ns after the first frame's. A job is

    {"line_bps", "burst_bytes", "peak_burst_bytes", "keep": with the flag of kernel/patches/0006, "end_ns",
     "changes": [[t_ns, rate_bps, peak_bps], ...], "sends": [[t_ns, frames], ...]}

The first change is at 0 and makes the bucket, which is full. Changes come before sends of the same moment. No call fails and
nobody reads a clock between the first event and the last, so all events happen exactly at their times.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dc_gym.base.clock import sleep_until
from dc_gym.base.units import FRAME_BYTES
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    NLM_F_CREATE,
    NLM_F_REPLACE,
    RTM_NEWQDISC,
    TCMSG,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attr_u64,
    attribute,
    nested,
)

RTM_DELLINK = 17
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_PRATE64, TCA_TBF_BURST, TCA_TBF_PBURST = 1, 4, 5, 6, 7
LAB_TCA_TBF_KEEP = 16  # from kernel/drivers/lab.h
RATESPEC = struct.Struct("=BBHhHI")  # cell_log, linklayer, overhead, cell_align, mpu, rate
LINKLAYER_ETHERNET = 1
UINT32_MAX = 0xFFFFFFFF
ETHERTYPE = 0x88B5  # for experiments (IEEE 802)
FRAME = (bytes([0xFF] * 6) + bytes.fromhex("02000000000a") + ETHERTYPE.to_bytes(2, "big")).ljust(FRAME_BYTES, b"\0")
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35
LEAD_NS = 1_000_000


def _ratespec(rate_bps: int) -> bytes:
    return RATESPEC.pack(0, LINKLAYER_ETHERNET if rate_bps else 0, 0, 0, 0, min(rate_bps // 8, UINT32_MAX))


def _set_bucket(ifindex: int, job: dict[str, Any], rate_bps: int, peak_bps: int, make: bool) -> NetlinkRequest:
    parms = _ratespec(rate_bps) + _ratespec(peak_bps) + struct.pack("=III", 1 << 30, 0, 0)  # limit, buffer, mtu
    options = [attribute(TCA_TBF_PARMS, parms), attr_u64(TCA_TBF_RATE64, rate_bps // 8)]
    options.append(attr_u32(TCA_TBF_BURST, job["burst_bytes"]))
    if peak_bps:
        options += [attr_u64(TCA_TBF_PRATE64, peak_bps // 8), attr_u32(TCA_TBF_PBURST, job["peak_burst_bytes"])]
    if job["keep"]:
        options.append(attribute(LAB_TCA_TBF_KEEP, b""))
    body = TCMSG.pack(0, ifindex, tc.HANDLE, tc.TC_H_ROOT, 0) + attr_text(tc.TCA_KIND, "tbf") + nested(tc.TCA_OPTIONS, *options)
    return NetlinkRequest(
        RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE if make else 0, body, f"tbf of {rate_bps} bit/s, peak {peak_bps}"
    )


def _packet_socket(ifname: str, protocol: int, option: int) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    sock.bind((ifname, protocol))
    sock.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
    return sock


def _stamps(receiver: socket.socket) -> list[int]:
    """Returns when each frame arrived, by the kernel's own timestamps (of the wall clock)."""
    receiver.setblocking(False)
    stamps_ns = []
    try:
        while True:
            _data, control, _flags, _address = receiver.recvmsg(1, 64)
            seconds, ns = struct.unpack("=qq", control[0][2])
            stamps_ns.append(seconds * 10**9 + ns)
    except BlockingIOError:
        return stamps_ns


def _run(netlink: NetlinkSocket, job: dict[str, Any]) -> list[int]:
    netlink.batch([cables.create(cables.CableEnd("a"), cables.CableEnd("b"), job["line_bps"], 0)])
    ends = {name: device.ifindex for name, device in cables.devices(netlink).items()}
    netlink.batch([cables.set_up(ifindex, name) for name, ifindex in ends.items()])
    cables.settle(netlink, ends.values())
    (_, rate_bps, peak_bps), *changes = job["changes"]
    netlink.batch([_set_bucket(ends["a"], job, rate_bps, peak_bps, make=True)])
    events = sorted([(t_ns, 0, values) for t_ns, *values in changes] + [(t_ns, 1, values) for t_ns, *values in job["sends"]])
    with ExitStack() as stack:
        receiver = stack.enter_context(_packet_socket("b", ETHERTYPE, SO_RCVBUFFORCE))
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sender = stack.enter_context(_packet_socket("a", 0, SO_SNDBUFFORCE))
        start_ns = time.monotonic_ns() + LEAD_NS
        for t_ns, is_send, values in events:
            sleep_until(start_ns + t_ns)
            if is_send:
                for _ in range(values[0]):
                    sender.send(FRAME)
            else:
                netlink.batch([_set_bucket(ends["a"], job, values[0], values[1], make=False)])
        sleep_until(start_ns + job["end_ns"])
        stamps = _stamps(receiver)
    netlink.batch([NetlinkRequest(RTM_DELLINK, 0, IFINFOMSG.pack(0, 0, ends["a"], 0, 0), "delete the cable")])
    return [stamp - stamps[0] for stamp in stamps]


def main(folder: Path) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    jobs = map(json.loads, (folder / "jobs.jsonl").read_text().splitlines())
    with NetlinkSocket() as netlink:
        answers = [json.dumps(_run(netlink, job)) for job in jobs]
    (folder / "answers.jsonl").write_text("\n".join(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
