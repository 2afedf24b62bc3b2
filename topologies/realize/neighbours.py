# SPDX-License-Identifier: Apache-2.0
"""Gives hosts their neighbours back: the kernel forgets the neighbours of a device that is set down, static ones too.

A thread waits for news of the hosts' devices, so nothing polls. Linux only; needs root in the ground.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize.cables import IFF_UP
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    NLMSG_HDR,
    RECEIVE_BYTES,
    RTM_NEWLINK,
    NetlinkRequest,
    NetlinkSocket,
    entered,
)

RTMGRP_LINK = 1
PRIORITY = 1  # SCHED_FIFO: before the program that has set the device up goes on

Requests = Callable[[], Sequence[NetlinkRequest]]
"""Returns the requests for a device's neighbours."""


def keep(devices: Mapping[str, Mapping[int, Requests]]) -> None:
    """Keeps the neighbours of devices, given by network namespace and index, as long as the process lives."""
    selector = selectors.DefaultSelector()
    for netns, requests in devices.items():
        with entered(netns):
            news = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        news.bind((0, RTMGRP_LINK))
        selector.register(news, selectors.EVENT_READ, (NetlinkSocket(netns), requests, set[int]()))
    threading.Thread(target=_attend, args=(selector,), daemon=True).start()


def _attend(selector: selectors.BaseSelector) -> None:
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))  # this thread
    while True:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket), "as registered"
            kernel, requests, down = key.data
            for ifindex, is_up in _states(key.fileobj.recv(RECEIVE_BYTES)):
                if is_up and ifindex in down and ifindex in requests:
                    with suppress(FabricError):  # it is down again
                        kernel.batch(requests[ifindex]())
                (down.discard if is_up else down.add)(ifindex)


def _states(data: bytes) -> Iterator[tuple[int, bool]]:
    """Yields the index of each device that the kernel reports, and whether it is set up."""
    at = 0
    while at + NLMSG_HDR.size + IFINFOMSG.size <= len(data):
        length, kind, *_ = NLMSG_HDR.unpack_from(data, at)
        if length < NLMSG_HDR.size:
            return
        if kind == RTM_NEWLINK:
            _family, _type, ifindex, flags, _change = IFINFOMSG.unpack_from(data, at + NLMSG_HDR.size)
            yield ifindex, bool(flags & IFF_UP)
        at += length + (-length % 4)
