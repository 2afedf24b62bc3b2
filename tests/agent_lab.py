# SPDX-License-Identifier: Apache-2.0
"""A lab with two hosts, a token bucket filter at each, and the host's end of their agent: for tests of agentd and hostd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dc_gym.kernel.lab import Lab
from dc_gym.monitors.state_matrix import StateMatrix, Sweep

AGENTD = Path(__file__).resolve().parent.parent / "dc_gym/bin/agentd"
MS, S = 10**6, 10**9
LINE, FLOOR = 10**7, 10**4

# Two hosts "a" and "b", each in a namespace with a tbf as the root of its end of a cable, and agentd between them.
PROLOGUE = """
import os, struct, subprocess, sys, time
from pathlib import Path
from types import SimpleNamespace
from dc_gym.base import record_file
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators import Bounds
from dc_gym.ctrl.actuators.selection import ActuatedPort
from dc_gym.run.plan import actuation, inputs
from dc_gym.topologies.graph import Queue
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.realize.control_network import agent_address
from dc_gym.topologies.realize.rtnl import *

RUN = Path(os.environ["RUN"])
HERE = NetlinkSocket()
NAMES = ("a", "b")
add_namespaces([f"/run/netns/{name}" for name in NAMES])
fds = [os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMES]
socks = [NetlinkSocket(f"/run/netns/{name}") for name in NAMES]
HERE.batch([cables.create(CableEnd("a", "02:00:00:00:00:0a", fds[0]), CableEnd("b", "02:00:00:00:00:0b", fds[1]), 10**7, 1000)])

def ifindex(host):
    return cables.devices(socks[host])[NAMES[host]].ifindex

def set_tbf(host, rate_bps=10**7, burst=1514, limit=10**6):
    parms = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, rate_bps // 8) + struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 0)
    parms += struct.pack("=III", limit, 0, 0)
    options = nested(tc.TCA_OPTIONS, attribute(1, parms), attr_u32(6, burst))
    body = tc.TCMSG.pack(0, ifindex(host), tc.HANDLE, tc.TC_H_ROOT, 0) + attr_text(tc.TCA_KIND, "tbf") + options
    socks[host].batch([NetlinkRequest(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, "tbf")])

def tbf(host):
    "Rate in bit/s, limit and burst in bytes, as the kernel has them."
    for payload in socks[host].dump(RTM_GETQDISC, tc.TCMSG.pack(0, 0, 0, 0, 0)):
        found = attributes(payload[tc.TCMSG.size :])
        if found[tc.TCA_KIND].startswith(b"tbf"):
            parms = attributes(found[tc.TCA_OPTIONS])[1]
            rate, (limit, buffer, _) = struct.unpack_from("=8xI", parms)[0], struct.unpack_from("=III", parms, 24)
            return rate * 8, limit, round(buffer * 64 * rate / 1e9)  # psched ticks of 64 ns

for host in (0, 1):
    socks[host].batch([NetlinkRequest(RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, ifindex(host), 1, 1), "up")])
    set_tbf(host)
time.sleep(2)

def actuated(name, row, bounds, queue=None):
    port = SimpleNamespace(ifname=NAMES[row], queue=queue)
    return ActuatedPort(actuators.find(name), row, port, tuple(Bounds(*each) for each in bounds))

def rate_of(row, line_bps=10**7, floor_bps=10**4, burst=1514, limit=10**6):
    queue = Queue(limit, "tbf", rate_bps=line_bps, burst_bytes=burst)
    return actuated("rate", row, [(floor_bps, line_bps, line_bps)], queue)

def write_rows(*rows):
    listens = {name: agent_address(row, 0) for row, name in enumerate(NAMES)}
    record_file.write(RUN / "actuators", *actuation.tables_of(rows, None, SimpleNamespace(tbf="exact"), listens))

def write_actuators(**amounts):
    write_rows(*(rate_of(row, **amounts) for row in range(len(NAMES))))

PORTS = [{"name": name, "netns": f"/run/netns/{name}", "ifname": name, "class": 0} for name in NAMES]
record_file.write(RUN / "ports", inputs.PORT.table(PORTS))
write_actuators()

class Hostd:
    def __init__(self):
        argv = [os.environ["PROGRAMS"] + "/hostd", "--ports", str(RUN / "ports"), "--actuators", str(RUN / "actuators")]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.sched_setscheduler(self.process.pid, os.SCHED_FIFO, os.sched_param(15))
        assert self.process.stdout.readline() == "ready\\n", self.process.stderr.read()

class Agentd:
    def __init__(self, *options, interval=10**6, step=10**6, channel=True, matrix="/dev/lab"):
        argv = [os.environ["PROGRAMS"] + "/agentd", "--ports", str(RUN / "ports"), "--actuators", str(RUN / "actuators")]
        argv += ["--interval", str(interval), "--step", str(step), "--matrix", matrix, *map(str, options)]
        argv += ["--channel", "/dev/lab"] if channel else []
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.sched_setscheduler(self.process.pid, os.SCHED_FIFO, os.sched_param(5))

    def ready(self):
        assert self.process.stdout.readline() == "ready\\n", self.process.stderr.read()
        return self

    def begin(self, t0, count):
        self.process.stdin.write(f"episode {t0} {count}\\n")
        self.process.stdin.flush()

    def over(self):
        return self.process.stdout.readline()

    def episode(self, t0, count):
        self.begin(t0, count)
        return self.over()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait()
        assert status == 0, self.process.stderr.read()
"""


@dataclass
class Host:
    """The lab's host: answers each step by `decide(step)` -> (rates or None, code), and keeps what it saw and sent."""

    decide: Callable[[int], tuple[Sequence[float] | None, int]]
    step_ns: int = MS
    seen: list[tuple] = field(default_factory=list)
    """(step, ack, applied_ns after t0, values in force)"""
    sent: list[int] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    timeouts: int = 0

    def step(self, lab: Lab, step: int, virtual_ns: int) -> int:
        with StateMatrix.over(lab.channel.region) as matrix:
            commands, sweep = matrix.commands, matrix.read()
            assert sweep.t_ns == virtual_ns == matrix.t0_ns + step * self.step_ns
            self.sweeps.append(sweep)
            self.timeouts = commands.timeouts
            applied_ns = commands.applied_ns - matrix.t0_ns if commands.applied_ns else None
            self.seen.append((step, commands.ack, applied_ns, commands.in_force.tolist()))
            rates, code = self.decide(step)
            if rates is not None:
                self.sent.append(commands.send(rates))
        return code


def told(table: dict[int, Sequence[float]], codes: dict[int, int] | None = None) -> Host:
    return Host(lambda step: (table.get(step), (codes or {}).get(step, 0)))
