# SPDX-License-Identifier: Apache-2.0
"""The memory that a lab shares does not lead its user's process astray: what is in it is as planned, or an error."""

import mmap
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from lab_region import commands_of, guarded, region, stepped

from dc_gym.base.errors import ProtocolError
from dc_gym.cli.watch import snapshot
from dc_gym.kernel.channel import HEADER, HELLO, PROTOCOL_VERSION, Channel, MessageType
from dc_gym.monitors.state_matrix import StateMatrix
from tests.run.agent.made import experiment

FLOWS = 64
MADE = experiment('controller.policy="external"')
TOO_FEW = """
from dc_gym.base.errors import ProtocolError
from lab_region import guarded, region, stepped
from tests.run.agent.made import experiment
made = experiment('controller.policy="external"')
try:
    stepped(made, guarded(region(made, 1)), 64)
except ProtocolError as error:
    print(error)
"""


def test_what_was_planned_is_stepped():
    steps = stepped(MADE, guarded(region(MADE, FLOWS)), FLOWS)
    assert np.isfinite(steps.observations).all() and not steps.died


def test_nothing_behind_the_memory_is_read():
    """In a process of its own, which would die by SIGSEGV."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run([sys.executable, "-c", TOO_FEW], capture_output=True, text=True, env=os.environ | path)
    assert child.returncode == 0, child.stderr
    assert child.stdout == "state matrix: 1 rows of flows are not the 64 that were planned; the lab is damaged, start another\n"


@pytest.mark.parametrize(
    "changes",
    [{"rows": 3}, {"cols": 1}, {"command_rows": 1}, {"flow_rows": 0}, {"t_ns": 2**63 + 5}, {"t0_ns": 2**64 - 1}],
    ids=str,
)
def test_a_header_that_was_not_planned_is_refused(changes):
    with pytest.raises(ProtocolError, match=r"state matrix: .*start another"):
        stepped(MADE, guarded(region(MADE, FLOWS, **changes)), FLOWS)


@pytest.mark.parametrize(("field", "value"), [("row", 3), ("n_values", 4), ("actuator", b"\xff"), ("actuator", b"other")])
def test_actuators_that_were_not_planned_are_refused(field, value):
    """Values would be written to other places, those of another lab, too."""
    memory = region(MADE, FLOWS)
    commands_of(memory)[field][-1] = value
    with pytest.raises(ProtocolError, match=r"state matrix: .*start another"):
        stepped(MADE, guarded(memory), FLOWS)


def test_who_watches_sees_actuators_of_the_networks_ports_alone():
    """A rate of a port that there is not would be looked up among the ports' lines."""
    memory = region(MADE, FLOWS)
    commands_of(memory)["row"][-1] = 10**6
    watched = snapshot._commands(StateMatrix.over(memory), len(MADE.graph.ports()))
    assert watched["row"].tolist() == [6, 7, 8]


@contextmanager
def greeted(memory, page_bytes=mmap.PAGESIZE):
    """A channel to which a lab has said HELLO with this descriptor, of three pages."""
    host_end, lab_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hello = HELLO.pack(PROTOCOL_VERSION, page_bytes, 0, mmap.PAGESIZE, 2 * mmap.PAGESIZE)
    with lab_end, Channel(host_end) as channel:
        socket.send_fds(lab_end, [HEADER.pack(MessageType.HELLO, len(hello)) + hello], [memory])
        yield channel
    os.close(memory)


def test_memory_that_may_be_sealed_does_not_shrink():
    """A reader of memory that has gone dies by SIGBUS."""
    memory = os.memfd_create("lab", os.MFD_ALLOW_SEALING)
    os.truncate(memory, 3 * mmap.PAGESIZE)
    with greeted(memory) as channel:
        channel.receive()
        with pytest.raises(PermissionError):
            os.truncate(memory, 0)
        assert channel.region[:8] == bytes(8)


def test_a_page_that_is_shorter_than_its_contents_is_refused():
    memory = os.memfd_create("lab")
    os.truncate(memory, 3 * mmap.PAGESIZE)
    with greeted(memory, page_bytes=8) as channel, pytest.raises(ProtocolError, match="HELLO names 8 bytes"):
        channel.receive()


def test_a_descriptor_that_is_no_memory_is_refused(tmp_path):
    """Such as a file that the lab may only read."""
    (tmp_path / "file").write_bytes(bytes(3 * mmap.PAGESIZE))
    with greeted(os.open(tmp_path / "file", os.O_RDONLY)) as channel, pytest.raises(ProtocolError, match="HELLO carries"):
        channel.receive()
