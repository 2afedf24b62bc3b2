# SPDX-License-Identifier: Apache-2.0
"""The program that test_links.py runs in a lab: one TCP flow without end crosses a network of links_guest.py meanwhile.

Jobs are those of links_guest.py with "tcp", the congestion control. Answers are its probe's, the counters, and "tcp": the values
that make up TCP's limit on its share of the host's queue (tcp_small_queue_check).
"""

import socket
import struct
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from dc_gym.benchmarks.checks.links_guest import NETS, RECEIVER, Network, answer_jobs, ip, netns_path
from dc_gym.topologies.realize.rtnl import entered

SO_MEMINFO, SK_MEMINFO_WMEM_ALLOC = 55, 2
TCPI_PACING_RATE = 104  # offset in struct tcp_info
TCP_PORT = 7001


@contextmanager
def lone_flow(network, congestion_control):
    with ExitStack() as stack:
        with entered(netns_path(network.wires[-1][1].node)):
            listener = stack.enter_context(socket.create_server((ip(RECEIVER), TCP_PORT)))
        with entered(netns_path(network.wires[0][0].node)):
            sender = stack.enter_context(socket.socket())
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        threading.Thread(target=sink, args=(listener,), daemon=True).start()
        threading.Thread(target=source, args=(sender,), daemon=True).start()
        yield sender
        sender.shutdown(socket.SHUT_RDWR)


def sink(listener):
    connection, _ = listener.accept()
    with connection:
        while connection.recv(1 << 20):
            pass


def source(sender):
    sender.connect((ip(RECEIVER), TCP_PORT))
    data = bytes(1 << 16)
    try:
        while True:
            sender.sendall(data)
    except OSError:
        pass  # shut down: the measurement is over


def tcp_state(sock):
    meminfo = struct.unpack("=9I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return {
        "charged_bytes": meminfo[SK_MEMINFO_WMEM_ALLOC],
        "pacing_rate": int.from_bytes(info[TCPI_PACING_RATE : TCPI_PACING_RATE + 8], "little"),
        "limit_output_bytes": int(Path("/proc/sys/net/ipv4/tcp_limit_output_bytes").read_text()),
    }


def run(network, job):
    network.configure(job["ports"], False)
    with lone_flow(network, job["tcp"]) as flow:
        probe = network.play(job["schedule"])
        return {"probe": probe, "tcp": tcp_state(flow), "counters": [asdict(now) for now in network.read()]}


if __name__ == "__main__":
    answer_jobs(Path(sys.argv[1]), lambda name: Network(name, NETS[name]), run)
