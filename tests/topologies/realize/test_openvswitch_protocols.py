# SPDX-License-Identifier: Apache-2.0
"""The protocols of Open vSwitch's daemons: JSON-RPC, OpenFlow bundles and the database, against servers that answer as asked for,
and in a lab against Open vSwitch's own tools."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.errors import FabricError
from dc_gym.topologies import buckets
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.topologies.realize import jsonrpc, openflow, ovsdb


@contextmanager
def server(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[Path]:
    """Serves one connection in a thread."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                serve(sock)

        thread = threading.Thread(target=run)
        thread.start()
        yield path
        thread.join()


def test_a_call_returns_its_result_in_however_many_pieces_it_comes(tmp_path: Path) -> None:
    requests: list[Any] = []

    def serve(sock: socket.socket) -> None:
        requests.append(json.loads(sock.recv(1000)))
        for piece in (b'{"id": 0, "error": null, "res', b'ult": {"a": "}"', b"}}"):
            sock.sendall(piece)

    with server(tmp_path / "s", serve) as path:
        assert jsonrpc.call(path, "dpctl/show", ["x"], 5) == {"a": "}"}
    assert requests == [{"id": 0, "method": "dpctl/show", "params": ["x"]}]


def test_a_daemon_that_does_not_listen_yet_is_waited_for(tmp_path: Path) -> None:
    """It binds its socket, and listens a little later. On a busy machine a call comes in between."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        late = threading.Timer(0.2, listener.listen)
        late.start()
        with pytest.raises(FabricError, match="timed out"):  # it never answers
            jsonrpc.call(path, "f", [], 0.5)
        late.join()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b'{"id": 0, "result": null, "error": "no such switch\\n"}', r"call f \[\]: no such switch$"),
        (b'{"id": 0, "result": null, "error": {"error": "syntax"}}', r'call f \[\]: {"error": "syntax"}$'),
        (b"", "call f: the daemon closed the connection"),
    ],
)
def test_a_refused_call_is_one_line(tmp_path: Path, reply: bytes, why: str) -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(reply)

    with server(tmp_path / "s", serve) as path, pytest.raises(FabricError, match=why):
        jsonrpc.call(path, "f", [], 5)


def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="none: call f: No such file"):
        jsonrpc.call(tmp_path / "none", "f", [], 5)

    def silent(sock: socket.socket) -> None:
        while sock.recv(1000):
            pass

    with server(tmp_path / "s", silent) as path, pytest.raises(FabricError, match="s: call f: timed out"):
        jsonrpc.call(path, "f", [], 0.05)


def test_an_empty_database_has_one_record(tmp_path: Path) -> None:
    (tmp_path / "schema").write_text('{\n "name": "Open_vSwitch",\n "tables": {} }\n')
    ovsdb.create(tmp_path / "db", tmp_path / "schema")
    head, record = (tmp_path / "db").read_text().splitlines(keepends=True)
    assert record == '{"name":"Open_vSwitch","tables":{}}\n'
    assert head == f"OVSDB JSON {len(record)} {hashlib.sha1(record.encode()).hexdigest()}\n"


def flow_mod(text: str) -> tuple[tuple[int, ...], bytes]:
    """Returns the fixed part of a rule's message, and the rest: match and instructions."""
    message = openflow.flow_mod(text)
    version, kind, length, transaction = struct.unpack_from("!BBHI", message)
    assert (version, kind, length, transaction) == (5, 14, len(message), 0) and length % 8 == 0
    return struct.unpack_from("!QQBBHHHIIIHH", message, 8), message[48:]


def test_a_rule_as_openflow() -> None:
    head, rest = flow_mod("priority=50,ip,nw_dst=10.0.0.1,actions=output:3")
    assert head == (0, 0, 0, 0, 0, 0, 50, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0)
    match = "0001001280000a0208008000180 40a000001".replace(" ", "") + "000000000000"
    assert rest.hex() == match + "0004001800000000" + "0000001000000003" + "0000000000000000"
    _, rest = flow_mod("priority=20,tcp,tp_src=0x2/0xf,tp_dst=0xa/0xf,actions=output:4")
    match = "0001001f80000a020800800014010680001b040002000f80001d04000a000f00"
    assert rest.hex().startswith(match + "0004001800000000" + "0000001000000004")
    _, rest = flow_mod("priority=20,udp,tp_src=0x0/0xf,actions=write_metadata:0x3,goto_table:1")
    match = "0001001780000a020800800014011180001f040000000f00"
    metadata = "00020018000000000000000000000003ffffffffffffffff"
    assert rest.hex() == match + metadata + "0001000801000000"
    head, rest = flow_mod("table=1,priority=9,ip,metadata=0x3,nw_src=0.0.0.1/0.0.0.3,actions=output:2")
    assert head[2:7] == (1, 0, 0, 0, 9)
    assert rest.hex().startswith("0001002280000a0208008000040800000000 00000003".replace(" ", "") + "800017080000000100000003")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("priority=5,ip", "no actions; write it as"),
        ("ip,actions=output:1", "'priority'"),
        ("priority=5,actions=output:1", "none of ip, tcp, udp in the match"),
        ("priority=5,ip,tp_src=1,actions=output:1", "unknown field tp_src"),
        ("priority=5,ip,nw_dst=10.0.0,actions=output:1", "4 octets"),
        ("priority=5,ip,actions=flood", "unknown action flood"),
        ("priority=5,ip,actions=output:left", "invalid literal"),
    ],
)
def test_a_rule_that_is_none_is_named(text: str, why: str) -> None:
    with pytest.raises(FabricError, match=f"rule .*{why}"):
        openflow.flow_mod(text)


class Switch:
    """The side of a switch that takes a bundle. `reply` answers the commit; before that it asks for an echo."""

    def __init__(self, reply: bytes) -> None:
        self.reply, self.kinds, self.added = reply, list[int](), list[bytes]()

    def __call__(self, sock: socket.socket) -> None:
        sock.sendall(struct.pack("!BBHI", 5, 0, 8, 1))
        data = b""
        while received := sock.recv(1 << 16):
            data += received
            while len(data) >= 8 and len(data) >= (length := struct.unpack_from("!H", data, 2)[0]):
                message, data = data[:length], data[length:]
                self.take(sock, message)

    def take(self, sock: socket.socket, message: bytes) -> None:
        self.kinds.append(message[1])
        if message[1] == 34:
            assert message[8:16] == struct.pack("!IHH", 1, 0, 3)
            self.added.append(message[16:])
        if message[1] == 33 and struct.unpack_from("!H", message, 12)[0] == 0:
            sock.sendall(struct.pack("!BBHI", 5, 2, 12, 77) + b"ping" + struct.pack("!BBHIIHH", 5, 33, 16, 0, 1, 1, 3))
        elif message[1] == 33:
            sock.sendall(self.reply)
        if message[1] == 20:
            sock.sendall(struct.pack("!BBHI", 5, 21, 8, 0))
        if message[1] == 3:
            assert message == struct.pack("!BBHI", 5, 3, 12, 77) + b"ping"


def test_rules_go_in_one_bundle(tmp_path: Path) -> None:
    switch = Switch(struct.pack("!BBHIIHH", 5, 33, 16, 0, 1, 5, 3))
    router = route(build(TopologySpec.of(preset="fattree-k4")), 1, spread=buckets.Buckets)
    flows = buckets.flows(router)["s9"]
    with server(tmp_path / "s1.mgmt", switch) as path:
        openflow.add_flows({path: flows}, 5)
    assert switch.added == [openflow.flow_mod(flow) for flow in flows] and len(flows) > 500
    assert (
        switch.kinds[:2] == [0, 33]
        and [kind for kind in switch.kinds if kind not in (3, 34)] == [0, 33, 20, 33]
        and switch.kinds.count(3) == 1
    )


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (struct.pack("!BBHIHH", 5, 1, 12, 0, 17, 4), "the switch refused a rule: OpenFlow error 17, code 4"),
        (b"", "timed out"),
    ],
)
def test_a_switch_that_refuses_is_named(tmp_path: Path, reply: bytes, why: str) -> None:
    with server(tmp_path / "s1.mgmt", Switch(reply)) as path, pytest.raises(FabricError, match=rf"s1\.mgmt: .*{why}"):
        openflow.add_flows({path: ["priority=5,ip,actions=output:1"]}, 0.5)


@pytest.mark.lab
def test_open_vswitch_has_the_rules_and_ports_that_were_asked_for(in_fabric: Callable[..., str]) -> None:
    body = """
import subprocess
from dc_gym.base.errors import FabricError
def tool(name, *words):
    return subprocess.run([*programs.argv(name), *words], capture_output=True, text=True, check=True).stdout
def shown(switch):
    found = tool("ovs-ofctl", "-O", "OpenFlow14", "dump-flows", switch, "--no-stats", "--no-names").splitlines()
    return sorted(line.strip() for line in found)
expected = {}
for name, flows in rules.items():
    before = shown(name)
    tool("ovs-ofctl", "-O", "OpenFlow14", "del-flows", name)
    given = "".join(f"{flow}\\n" for flow in flows)
    argv = [*programs.argv("ovs-ofctl"), "-O", "OpenFlow14", "--bundle", "add-flows", name, "-"]
    subprocess.run(argv, input=given, text=True, check=True)
    assert before == shown(name) and len(before) == len(flows), name
for switch in graph.switches:
    ports = {port.ifname: port.number for port in graph.ports_of(switch.name)}
    ports |= {group.ifname: group.number for group in groups if group.switch == switch.name}
    listed = tool("ovs-vsctl", "list-ports", switch.name).split()
    assert sorted(listed) == sorted(ports)
    assert {name: int(tool("ovs-vsctl", "get", "Interface", name, "ofport")) for name in listed} == ports
print(tool("ovs-vsctl", "get", "Bridge", "s1", "fail_mode", "other_config", "controller").split("\\n"))
print(tool("ovs-vsctl", "get", "Open_vSwitch", ".", "other_config"))
count = len(shown("s1"))
try:
    ovs.add_flows({"s1": ["priority=7,ip,nw_dst=10.9.9.9,actions=output:1", "table=1,priority=7,ip,actions=goto_table:1"]})
except FabricError as error:
    print(error)
assert len(shown("s1")) == count
"""
    output = in_fabric({"preset": "fattree-k4"}, body)
    assert "['secure', '{datapath-id=\"0000000000000001\", disable-in-band=\"true\", dp-desc=s1}', '[]', '']" in output
    assert 'flow-limit="1000000"' in output and 'n-handler-threads="1"' in output
    assert "s1.mgmt: the switch refused a rule: OpenFlow error" in output
