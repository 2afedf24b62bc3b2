# SPDX-License-Identifier: Apache-2.0
"""agentd: its mistakes as any user; in labs what it does to token bucket filters, when, and what it says of it."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from dc_gym.kernel.lab import Lab
from dc_gym.monitors.state_matrix import StateMatrix
from dc_gym.monitors.trace import read_trace

AGENTD = Path(__file__).resolve().parent.parent / "dc_gym/bin/agentd"
MS, S = 10**6, 10**9
LINE, FLOOR = 10**7, 10**4

# Two hosts "a" and "b", each in a namespace with a tbf as the root of its end of a cable, and agentd between them.
PROLOGUE = """
import os, struct, subprocess, sys, time
from pathlib import Path
from dc_gym.topologies import cables, tc
from dc_gym.topologies.cables import End
from dc_gym.topologies.rtnl import *

RUN = Path(os.environ["RUN"])
HERE = NetlinkSocket()
NAMES = ("a", "b")
add_namespaces([f"/run/netns/{name}" for name in NAMES])
fds = [os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMES]
socks = [NetlinkSocket(f"/run/netns/{name}") for name in NAMES]
HERE.batch([cables.create(End("a", "02:00:00:00:00:0a", fds[0]), End("b", "02:00:00:00:00:0b", fds[1]), 10**7, 1000)])

def ifindex(host):
    return cables.devices(socks[host])[NAMES[host]].ifindex

def set_tbf(host, rate_bps=10**7, burst=1514, limit=10**6):
    parms = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, rate_bps // 8) + struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 0)
    parms += struct.pack("=III", limit, 0, 0)
    options = nested(tc.TCA_OPTIONS, attribute(1, parms), attr_u32(6, burst))
    body = tc.TCMSG.pack(0, ifindex(host), tc.HANDLE, tc.TC_H_ROOT, 0) + attr_text(tc.TCA_KIND, "tbf") + options
    socks[host].batch([Request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, "tbf")])

def tbf(host):
    "Rate in bit/s, limit and burst in bytes, as the kernel has them."
    for payload in socks[host].dump(RTM_GETQDISC, tc.TCMSG.pack(0, 0, 0, 0, 0)):
        found = attributes(payload[tc.TCMSG.size :])
        if found[tc.TCA_KIND].startswith(b"tbf"):
            parms = attributes(found[tc.TCA_OPTIONS])[1]
            rate, (limit, buffer, _) = struct.unpack_from("=8xI", parms)[0], struct.unpack_from("=III", parms, 24)
            return rate * 8, limit, round(buffer * 64 * rate / 1e9)  # psched ticks of 64 ns

for host in (0, 1):
    socks[host].batch([Request(RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, ifindex(host), 1, 1), "up")])
    set_tbf(host)
time.sleep(2)

HOSTS = "row,name,netns,ifname,line_bps,floor_bps,burst_bytes,limit_bytes\\n"
HOSTS += "".join(f"{row},{name},/run/netns/{name},{name},10000000,10000,1514,1000000\\n" for row, name in enumerate(NAMES))
PORTS = "row,name,netns,ifname\\n" + "".join(f"{row},{name},/run/netns/{name},{name}\\n" for row, name in enumerate(NAMES))
(RUN / "ports.csv").write_text(PORTS)
(RUN / "hosts.csv").write_text(HOSTS)

class Agentd:
    def __init__(self, *options, interval=10**6, step=10**6, channel=True, matrix="/dev/lab"):
        argv = [os.environ["AGENTD"], "--ports", str(RUN / "ports.csv"), "--hosts", str(RUN / "hosts.csv")]
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
    """The lab's host: answers each step by `decide`, and keeps what it saw."""

    decide: object
    seen: list = field(default_factory=list)
    sent: list = field(default_factory=list)

    def step(self, lab, step, virtual_ns):
        with StateMatrix.over(lab.channel.region) as matrix:
            commands, sweep = matrix.commands, matrix.read()
            assert sweep.t_ns == virtual_ns == matrix.t0_ns + step * self.step_ns
            self.seen.append(
                (step, commands.seq, commands.ack, commands.applied_ns - matrix.t0_ns, commands.enforced_bps.tolist())
            )
            rates, code = self.decide(step)
            if rates is not None:
                self.sent.append(commands.send(rates))
        return code

    step_ns: int = MS


@pytest.fixture
def agentd(lab_config, tmp_path):
    """Runs a program after the PROLOGUE, with a host that decides: what the program printed."""

    def run(program, host, **changes):
        config = lab_config([sys.executable, "-c", PROLOGUE + textwrap.dedent(program)], **changes)
        config.env.update(RUN=str(tmp_path / "run"), AGENTD=str(AGENTD))
        lines: list[str] = []
        with Lab(config, lines.append, lambda step, now: host.step(lab, step, now)) as lab:
            ended = lab.wait()
        assert ended.status == 0, "\n".join(lines)
        return lines

    return run


ONE_EPISODE = """
agentd = Agentd({options}).ready()
print(agentd.episode(5 * 10**9, {count}).strip(), *tbf(0), *tbf(1))
agentd.end()
"""


def test_commands_of_a_step_are_enforced_at_once(agentd, tmp_path):
    rates = {0: [4e6, 5e6], 1: None, 2: [1, 1e12], 3: [np.nan, -5]}
    host = Host(lambda step: (rates.get(step), 0))
    trace = tmp_path / "run" / "trace"
    lines = agentd(ONE_EPISODE.format(options=f"'--trace', '{trace}'", count=5), host)
    assert host.sent == [2, 4, 6]
    assert host.seen == [
        (0, 0, 0, -5 * S, [LINE, LINE]),
        (1, 2, 2, 0, [4_000_000, 5_000_000]),
        (2, 2, 2, 0, [4_000_000, 5_000_000]),
        (3, 4, 4, 2 * MS, [FLOOR, LINE]),
        (4, 6, 6, 3 * MS, [FLOOR, FLOOR]),
        (5, 6, 6, 3 * MS, [FLOOR, FLOOR]),
    ]
    assert lines == [f"over 5 0 {LINE} 1000000 1514 {LINE} 1000000 1514"]
    recorded = read_trace(trace)
    assert recorded.t0_ns == 5 * S and recorded.rows == ("a", "b")
    assert recorded.t_ns.tolist() == [5 * S + k * MS for k in range(6)]
