# SPDX-License-Identifier: Apache-2.0
"""The Python readers of what others wrote, with valid inputs of each, and inputs that are spoilt as files get spoilt.

Everything is drawn from a seed: the same number gives the same inputs.
"""

from __future__ import annotations

import copy
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lab_region import guarded, region, stepped

from dc_gym import spec
from dc_gym.base.errors import TestbedError
from dc_gym.cli.conformance import script
from dc_gym.monitors.state_matrix import StateMatrix
from dc_gym.nets import nic_policy
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.nets.policy_file import PolicyFile, digest
from dc_gym.topologies import files as network_files
from dc_gym.topologies import sonic_qos
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.workload_spec import TrafficSpec
from dc_gym.traffic.workloads import generate_with_notes
from tests.monitors.test_state_matrix import with_agent
from tests.run.agent.made import experiment
from tests.run.agent.test_policy_file import AGENT
from tests.topologies import test_network_files
from tests.traffic import test_flow_files

ROOT = Path(__file__).resolve().parent.parent
WORDS = re.compile(rb"[A-Za-z_]\w*|[0-9.]+|\s+|.", re.DOTALL)
EDGES = [
    *(b"-1", b"0", b"1", b"65536", b"4294967296", b"18446744073709551616", b"1e999", b"-0.0", b"nan", b"inf", b"1979-05-27"),
    *(
        b"9" * 5000,
        b"0x" + b"f" * 5000,
        b"[" * 3000 + b"]" * 3000,
        b"{}",
        b"[]",
        b'""',
        b"true",
        b"\0",
        b"\xff",
        "é".encode(),
        b"\n",
        b'"',
        b"`",
        b"../x",
        b"\\u12",
    ),
]
VALUES = [None, True, -1, 0, 2**70, 1e308, float("nan"), "", "x", "\0", [], [[]], {}, {"x": 1}]
"""Values that may stand in a manifest in place of others."""
ARRAYS = [
    *(
        np.zeros(0),
        np.zeros((0, 4)),
        np.zeros((3, 0)),
        np.array(1.0),
        np.array(np.nan),
        np.full((4, 4), np.inf),
        np.ones((2, 2, 2)),
    ),
    *(np.array("x"), np.array(b"x"), np.array([True]), np.array([1 + 1j]), np.array(["x"]), np.array([2**64 - 1], np.uint64)),
    *(np.array("2026-01-01", "M8[D]"), np.zeros(2, [("a", "<u4")]), np.full(4, 1e308), np.full((12, 4), -1)),
]
"""Arrays that may stand in a policy in place of others."""


def spoilt_bytes(whole: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Returns the bytes with one to four changes: a bit, a byte, an integer, a cut, a piece of another input."""
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) or 1)
        kind = chance.randrange(6)
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at : at + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF))])
        elif kind == 2:
            width = chance.choice((2, 4, 8))
            offset = at // width * width
            data[offset : offset + width] = chance.choice((0, 1, 2, 5, 255, 2 ** (8 * width) - 1)).to_bytes(width, "little")
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            del data[at : at + chance.randrange(1, 9)]
        else:
            other = chance.choice(others)
            start = chance.randrange(len(other))
            data[at:at] = other[start : start + chance.randrange(1, 65)]
    return bytes(data)


def spoilt_text(whole: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Returns the text with one to four changes: a word goes, comes twice, or becomes another one of the inputs or an edge."""
    words = WORDS.findall(whole)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(words) or 1)
        kind = chance.randrange(5)
        if kind == 0:
            del words[at : at + chance.randrange(1, 4)]
        elif kind == 1:
            words[at:at] = words[at : at + chance.randrange(1, 12)]
        elif kind == 2:
            words[at : at + 1] = [chance.choice(EDGES)]
        else:
            words[at : at + 1] = [chance.choice(WORDS.findall(chance.choice(others)))]
    return b"".join(words)


def spoilt_policy(whole: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Returns a policy file that differs in its bytes, in the bytes of a member, or, with the right checksum, in what it says."""
    kind = chance.randrange(4)
    if kind == 0:
        return spoilt_bytes(whole, others, chance)
    members = _members(whole)
    name = chance.choice(sorted(members))
    if kind == 1:
        members[name] = spoilt_bytes(members[name], [*_members(chance.choice(others)).values()], chance)
        return _archive(members)
    arrays = {member.removesuffix(".npy"): np.load(io.BytesIO(data)) for member, data in members.items()}
    manifest = json.loads(str(arrays.pop("manifest")))
    del manifest["sha256"]
    if kind == 2 and arrays:
        _spoil_array(arrays, chance)
    else:
        _spoil_tree(manifest, chance)
    manifest["sha256"] = digest(manifest, arrays)
    out = io.BytesIO()
    np.savez(out, manifest=np.array(json.dumps(manifest)), **arrays)
    return out.getvalue()


def _members(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def _spoil_array(arrays: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(sorted(arrays))
    kind = chance.randrange(4)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = arrays[chance.choice(sorted(arrays))]
    elif kind == 2 and arrays[name].size:
        changed = arrays[name].copy()
        changed.flat[chance.randrange(changed.size)] = chance.choice((0, 1, 3, 100))
        arrays[name] = changed
    else:
        arrays[name] = chance.choice(ARRAYS)


def _spoil_tree(tree: Any, chance: random.Random) -> None:
    """Changes one entry somewhere in a manifest."""
    while True:
        key = chance.choice(sorted(tree) if isinstance(tree, dict) else range(len(tree)))
        if isinstance(tree[key], dict | list) and tree[key] and chance.random() < 0.8:
            tree = tree[key]
            continue
        kind = chance.randrange(4)
        if kind == 0:
            del tree[key]
        elif kind == 1 and isinstance(tree, dict):
            tree[chance.choice(("x", "", "W0", "layers"))] = copy.deepcopy(tree[key])
        else:
            tree[key] = copy.deepcopy(chance.choice(VALUES))
        return


@dataclass(frozen=True)
class Reader:
    """A reader, and how its inputs come about."""

    seeds: Callable[[Path], list[bytes]]
    """Returns valid inputs. The folder is for files that are needed to make them."""
    read: Callable[[bytes, Path], object]
    """Reads an input. The folder is for the file that holds it."""
    spoil: Callable[[bytes, list[bytes], random.Random], bytes]
    inputs: int
    """The number of inputs in a short run."""

    def tries(self, folder: Path, name: str, count: int) -> Iterator[bytes]:
        """Yields the valid inputs, and then `count` spoilt ones."""
        chance, seeds = random.Random(name), self.seeds(folder)
        yield from seeds
        for _ in range(count):
            yield self.spoil(chance.choice(seeds), seeds, chance)


def accepted(reader: Reader, data: bytes, folder: Path) -> bool:
    """Returns False if the reader refused the input as it refuses a user's. Another exception passes."""
    try:
        reader.read(data, folder)
    except TestbedError as error:
        assert str(error) and "\n" not in str(error), repr(error)
        return False
    return True


def _matrices(_: Path) -> list[bytes]:
    return [bytes(with_agent()), bytes(with_agent(1, 3, 3, 1))]


def _use_matrix(data: bytes, _: Path) -> None:
    with StateMatrix.over(bytearray(data)) as matrix:
        assert matrix.cells.shape == (len(matrix.rows), len(matrix.columns))
        assert matrix.flows.ndim == 1
        assert matrix.t0_ns >= 0 and matrix.t_ns >= 0
        commands = matrix.commands
        assert commands.wanted.shape == commands.in_force.shape == (commands.size,)
        commands.send(np.ones(commands.size))
        assert commands.seq % 2 == 0 and (commands.wanted == 1).all()


STEPPED = experiment('controller.policy="external"')
FLOW_ROWS = 3


def _stepped_memories(_: Path) -> list[bytes]:
    return [bytes(region(STEPPED, FLOW_ROWS))]


def _use_stepped_memory(data: bytes, _: Path) -> None:
    """The C library reads and writes it. What lies behind it is out of reach."""
    steps = stepped(STEPPED, guarded(data), FLOW_ROWS)
    assert not steps.died and steps.observations.shape[0] == 1


def _specs(_: Path) -> list[bytes]:
    texts = [path.read_bytes() for path in sorted((ROOT / "examples").glob("*.toml"))]
    return [
        text
        for text in texts
        if not re.search(rb"^\s*(plugins|policy|observe|reward|vary)|\.py|\[sweep|\[base|^base", text, re.MULTILINE)
    ]


def _use_spec(data: bytes, folder: Path) -> None:
    path = folder / "spec.toml"
    path.write_bytes(data)
    loaded_spec = spec.load(path)
    assert spec.from_dict(json.loads(json.dumps(loaded_spec.to_dict())), folder) == loaded_spec


def _plain_specs(folder: Path) -> list[bytes]:
    texts = []
    for text in _specs(folder):
        (folder / "spec.toml").write_bytes(text)
        texts.append(json.dumps(spec.load(folder / "spec.toml").to_dict()).encode())
    return texts


def _spoilt_json(whole: bytes, _: list[bytes], chance: random.Random) -> bytes:
    tree = json.loads(whole)
    for _ in range(chance.choice((1, 1, 2))):
        _spoil_tree(tree, chance)
    return json.dumps(tree).encode()


def _use_plain_spec(data: bytes, folder: Path) -> None:
    (folder / "spec.json").write_bytes(data)
    loaded_spec = spec.load(folder / "spec.json")
    spec.recorded(loaded_spec.to_dict(), "spec")


def _scripts(_: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "dc_gym" / "cli" / "conformance" / "scripts").glob("*.pkt"))]


def _use_script(data: bytes, _: Path) -> None:
    assert script.parse(data.decode(errors="replace"), "script").events


def _agent_policies(folder: Path) -> list[bytes]:
    AGENT.write(folder / "agent.npz")
    two = np.full((2, 2), 0.5)
    more = {"obs_mean": np.zeros(2), "obs_std": np.ones(2), "settings": {"action": "rate"}}
    AgentPolicy((two, two), (two[0], two[0]), -two[0], two[0], ("x", "y"), ("h1", "h2"), **more).write(folder / "more.npz")
    return [(folder / name).read_bytes() for name in ("agent.npz", "more.npz")]


def _nic_policies(_: Path) -> list[bytes]:
    return [nic_policy.shipped(name).read_bytes() for name in ("rlcc-tree", "rlcc-mlp", "rlcc-mlp8", "rlcc-lstm")]


def _use_policy(cls: type[PolicyFile]) -> Callable[[bytes, Path], None]:
    def use(data: bytes, folder: Path) -> None:
        path = folder / "policy.npz"
        path.write_bytes(data)
        policy = cls.read(path)
        policy.write(path)
        assert cls.read(path).sha256() == policy.sha256()
        if isinstance(policy, AgentPolicy):
            policy.act(np.zeros(len(policy.observation)))

    return use


CLAB = """name: two  # a comment
topology:
  defaults: {kind: linux, image: "alpine:3"}
  groups: {spines: {kind: nokia_srlinux}}
  nodes:
    leaf-1: &leaf {kind: arista_ceos, image: "ceos:4"}
    leaf-2: *leaf
    spine: {group: spines}
    br: {<<: *leaf, kind: bridge}
    edge: {image: quay.io/frrouting/frr:9}
    c1:
    c2:
    two:
    gnmic:
  links:
    - endpoints: ["leaf-1:e1-1", "spine:e1-1"]
    - endpoints: ["leaf-2:e1-1", "spine:e1-2"]
      vars: {delay: 5ms, loss: 1, rate: 100, jitter: 1ms}
    - {type: veth, endpoints: [{node: c1, interface: eth1}, {node: leaf-1, interface: e1-2}], labels: {rate: 1Gbit/s}}
    - endpoints: ["c2:eth1", "br:eth1"]
    - endpoints: ["leaf-2:e1-9", "br:eth2"]
    - endpoints: ["two:eth1", "leaf-1:e1-3"]
    - endpoints: ["two:eth2", "leaf-2:e1-3"]
    - endpoints: ["edge:eth1", "spine:e1-3"]
    - endpoints: ["spine:mgmt0", "mgmt-net:spine"]
    - {type: host, endpoint: {node: br, interface: eth9}, host-interface: up}
"""
ZOO = """graph [
  directed 1
  Creator "Topology Zoo Toolset"
  node [ id 0 label "New York" Internal 1 ]
  node [ id 1 label "?" ]
  node [ id 2 label "?" ]
  edge [ source 0 target 1 LinkSpeedRaw 2500000000.0 delay 3 ]
  edge [ source 1 target 0 ]
  edge [ source 0 target 1 LinkLabel "< 10 Gbps" latency "2 ms" ]
  edge [ source 1 target 2 LinkLabel "OC-3" capacity_mbps 155 loss 0.25 ]
  edge [ source 2 target 2 ]
]
"""
GRAPHML = b"""<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="bw" attr.type="string" for="edge" id="k"/><graph edgedefault="undirected">
<node id="a"/><node id="b"/><node id="c"/><edge source="a" target="b"><data key="k">1 Gbps</data></edge>
<edge source="b" target="c"/></graph></graphml>
"""
LOGS = [b"start_us,src,dst,size_kb\n# one\n1.5,h1,h2,3\n", b"ts\tsa\tda\tibyt\n2026-01-31 12:00:00\t1.1.1.1\t2.2.2.2\t5\n"]
ETHERNET_FRAME = (
    bytes(12) + bytes.fromhex("0800 4500002d 00000000 40060000 01010101 02020202 00010002 00000003 00000000 5018") + bytes(11)
)
PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + struct.pack("<4I", 1, 2, 59, 59) + ETHERNET_FRAME
PCAPNG = struct.pack(">IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
PCAPNG += struct.pack(">IIHHIHHBxxxII", 1, 32, 1, 0, 0, 9, 1, 9, 0, 32)
PCAPNG += struct.pack(">7I", 6, 92, 0, 0, 5, 59, 59) + ETHERNET_FRAME + b"\0" + struct.pack(">I", 92)
ALL = "Ethernet0,Ethernet4,Ethernet8"
SONIC = {
    "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): {3: "3", 48: "6"}.get(dscp, "1") for dscp in range(64)}, "OTHER": {"3": "1"}},
    "TC_TO_QUEUE_MAP": {"AZURE": {"1": "0", "3": "3", "6": "6"}},
    "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {"4": "3"}},
    "PORT_QOS_MAP": {
        "global": {"dscp_to_tc_map": "OTHER"},
        "Ethernet0,Ethernet4": {
            **{"dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]", "tc_to_queue_map": "AZURE", "pfc_to_queue_map": "AZURE"},
            **{"pfc_enable": "4,5", "pfcwd_sw_enable": "4"},
        },
        "Ethernet8": {"dscp_to_tc_map": "OTHER", "pfc_enable": "4,5"},
    },
    "SCHEDULER": {"low": {"type": "DWRR", "weight": "14"}, "high": {"type": "DWRR", "weight": "15"}, "top": {"type": "STRICT"}},
    "WRED_PROFILE": {
        "W": {"ecn": "ecn_all", "green_min_threshold": "1000", "green_max_threshold": "2000", "green_drop_probability": "5"}
        | {"red_min_threshold": "7"},
        "OFF": {"ecn": "ecn_none"},
    },
    "QUEUE": {
        f"{ALL}|0": {"scheduler": "low", "wred_profile": "OFF"},
        f"{ALL}|3-4": {"scheduler": "high", "wred_profile": "W"},
        f"{ALL}|6": {"scheduler": "top"},
    },
    "BUFFER_POOL": {
        **{"in": {"type": "ingress", "size": "9000000", "xoff": "1000000"}, "out": {"type": "egress", "size": "7"}},
    },
    "BUFFER_PROFILE": {
        "pg": {"dynamic_th": "-3", "xoff": "40000", "xon_offset": "2288", "xon": "18432", "size": "0"},
        "q": {"dynamic_th": "1", "size": "1664"},
        "fixed": {"static_th": "12345"},
    },
    "BUFFER_PG": {f"{ALL}|4": {"profile": "pg"}},
    "BUFFER_QUEUE": {
        f"{ALL}|0": {"profile": "q"},
        "Ethernet0|6": {"profile": "fixed"},
        "Ethernet4,Ethernet8|6": {"profile": "q"},
    },
    "VLAN": {"Vlan1": {}},
}


def _use_sonic(data: bytes, folder: Path) -> None:
    (folder / "config_db.json").write_bytes(data)
    sonic_qos.read(folder / "config_db.json")


def _foreign_files(_: Path) -> list[bytes]:
    return [text.encode() for module in (test_network_files, test_flow_files) for text in module.TEXTS]


def _use_foreign_file(data: bytes, folder: Path) -> None:
    path, links = folder / "foreign", {"rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6}
    path.write_bytes(data)
    if network_files.is_network(path):
        build(TopologySpec.of(kind="file", file=path, **links))
    else:
        graph = build(TopologySpec.of(kind="single", hosts=9, **links))
        generate_with_notes(graph, TrafficSpec.of("file", file=path), 10**10, 1)


READERS = {
    "state_matrix": Reader(_matrices, _use_matrix, spoilt_bytes, 2000),
    "stepped_lab": Reader(_stepped_memories, _use_stepped_memory, spoilt_bytes, 1000),
    "spec": Reader(_specs, _use_spec, spoilt_text, 150),
    "plain_spec": Reader(_plain_specs, _use_plain_spec, _spoilt_json, 300),
    "packetdrill": Reader(_scripts, _use_script, spoilt_text, 150),
    "foreign_file": Reader(_foreign_files, _use_foreign_file, spoilt_text, 400),
    "containerlab": Reader(lambda _: [CLAB.encode()], _use_foreign_file, spoilt_text, 300),
    "graph": Reader(lambda _: [ZOO.encode(), GRAPHML], _use_foreign_file, spoilt_text, 300),
    "flow_log": Reader(lambda _: LOGS, _use_foreign_file, spoilt_text, 300),
    "capture": Reader(lambda _: [PCAP, PCAPNG], _use_foreign_file, spoilt_bytes, 1000),
    "sonic_qos": Reader(lambda _: [json.dumps(SONIC).encode()], _use_sonic, _spoilt_json, 300),
    "agent_policy": Reader(_agent_policies, _use_policy(AgentPolicy), spoilt_policy, 300),
    "nic_policy": Reader(_nic_policies, _use_policy(NicPolicy), spoilt_policy, 150),
}
