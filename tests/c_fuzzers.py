# SPDX-License-Identifier: Apache-2.0
"""The fuzz targets of the C programs, with valid inputs of each, and the table of what they reach.

    make fuzz [SECONDS=10]    fuzzes each C target for so long, spoils inputs of each Python reader, and prints the table

The inputs come from the writers that runs use, so they stay valid when a format changes. Netlink's are written here.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from readers import READERS, accepted

from dc_gym import spec
from dc_gym.base import record_file
from dc_gym.kernel.lab import boot_entries
from dc_gym.learn.registration import SPECS
from dc_gym.learn.session import external
from dc_gym.run.plan import actuation, changes, inputs
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies.changes import Change
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.topologies.realize import tc
from dc_gym.topologies.telemetry import table_of
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import make_schedule

ROOT = Path(__file__).resolve().parent.parent
FLAGS = [
    *("-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror"),
    *("-Idc_gym/daemon", "-Imonitors", "-Itraffic/tgen", "-Ictrl/agent", "-Ictrl/nic", "-Ikernel", "-Ikernel/drivers"),
]
RECORD_FILE = ("dc_gym/daemon/record_file.c", "dc_gym/daemon/fault.c")
BATCH = ("dc_gym/daemon/batch.c", "dc_gym/daemon/calls.c", "dc_gym/daemon/program.c")
FUZZERS = {
    "fuzz_nl": ("dc_gym/daemon/nl.c", "dc_gym/daemon/netns.c", *BATCH, "monitors/qdisc.c"),
    "fuzz_ports": ("monitors/ports.c", *RECORD_FILE),
    "fuzz_actuators": ("ctrl/agent/actuators.c", *RECORD_FILE),
    "fuzz_events": ("ctrl/agent/events_file.c", *RECORD_FILE),
    "fuzz_nics": ("ctrl/nic/nics.c", "ctrl/nic/rows.c", *RECORD_FILE),
    "fuzz_flow_table": ("traffic/tgen/flow_table.c", *RECORD_FILE),
    "fuzz_commands": ("ctrl/agent/commands.c",),
    "fuzz_control": ("ctrl/agent/control.c", "ctrl/agent/actuators.c", *BATCH, "dc_gym/daemon/netns.c", *RECORD_FILE),
    "fuzz_boot_file": ("kernel/boot_file.c",),
}
GRAPH = build(TopologySpec.of(preset="dumbbell-10m"))
CLASSES = build(TopologySpec.of(preset="dumbbell-10m", shared_buffer_bytes=400_000, pfc="classes"))


def compiled(compiler: str, name: str, sources: tuple[str, ...], sanitizers: str, folder: Path, *libraries: str) -> Path:
    """Compiles a file of tests/c with what it tests."""
    out = folder / name
    argv = [compiler, *FLAGS, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-o", str(out)]
    argv += [f"tests/c/{name}.c", *sources, *libraries]
    child = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    return out


# --- valid inputs


def _tables(*tables: record_file.Table) -> bytes:
    return b"".join(table.bytes() for table in tables)


def _ports(folder: Path, graph: Graph) -> bytes:
    inputs.write_rows(folder / "ports", graph)
    return (folder / "ports").read_bytes()


def _flows() -> bytes:
    requests = [
        FlowRequest("h1", "h3", 5001, size_bytes=9, opens=(0, 1)),
        FlowRequest("h3", "h1", 5001, 7, gate=1, length_ns=5, transport="udp", rate_bps=8, gaps="uniform"),
        FlowRequest("h2", "h3", 5001, gate=0, stop_ns=30),
    ]
    return _tables(*inputs.flow_tables(make_schedule(requests, GRAPH, route(GRAPH, 1), "dctcp", 1)))


def _nics() -> bytes:
    """The NICs of a network, a flow of theirs, and one of the hosts' TCP that they cap."""
    flow = {"message_bytes": 64000, "total_bytes": 2**64 - 1, "flow": 0, "src_nic": 0, "dst_nic": 1, "payload_bytes": 1440}
    flow |= {"src_addr": (10, 0, 0, 1), "dst_addr": (10, 0, 0, 2), "src_mac": (2,) * 6, "dst_mac": (4,) * 6, "src_port": 9}
    flow |= {
        "base_rtt_ns": 1000,
        "hops": 3,
        "dscp": 26,
        "answer_dscp": 46,
        "cnp_dscp": 48,
        "tcp_src_port": 0,
        "tcp_dst_port": 0,
        "int_bytes": 42,
        "inflight_bytes": 9000,
    }
    capped = flow | {"flow": 2, "total_bytes": 100_001, "tcp_src_port": 1, "tcp_dst_port": 2}
    values = {name: 1 for name in inputs.NIC_SETTINGS.dtype.names or () if name not in ("parameter", "int_rate", "caps")}
    settings = inputs.settings_table(values, (1, 2), table_of((10**10, 10**11)))
    return _tables(inputs.nic_table(GRAPH), inputs.NIC_FLOW.table([flow, capped]), settings)


def _actuators(name: str) -> bytes:
    external_spec = external(spec.from_dict({"name": "fuzz", **SPECS[f"dcgym/{name}-v0"]}, ROOT))
    return _tables(*actuation.tables(Experiment.of(external_spec)))


def _events() -> bytes:
    link = (("cut", 1), ("rate_bps", 10**6), ("loss_ppb", 5))
    queue = (("limit_bytes", 9000), ("kmin_bytes", 3000), ("kmax_bytes", 6000), ("pmax_ppm", 10**5))
    port_changes = [Change(5, 0, "s1-eth3", link), Change(5, 0, "s2-eth3", link), Change(7, 1, "s1-eth1", queue)]
    return _tables(*changes.tables(port_changes, GRAPH))


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def _qdisc(kind: str, handle: int, parent: int, extra: bytes = b"") -> bytes:
    """A message of a dump: a qdisc with its counters (linux/rtnetlink.h, linux/gen_stats.h)."""
    basic, queue = struct.pack("=QIxxxx", 10**6, 1000), struct.pack("=5I", 2, 3028, 5, 0, 0)
    stats = _attribute(1, basic) + _attribute(3, queue) + (_attribute(4, extra) if extra else b"")
    attributes = _attribute(1, kind.encode() + b"\0") + _attribute(2, bytes(16)) + _attribute(7, stats)
    body = struct.pack("=BxxxiIII", 0, 7, handle, parent, 2) + attributes
    return struct.pack("=IHHII", 16 + len(body), 36, 2, 1, 1) + body


def _dump() -> bytes:
    root = 2**32 - 1
    end_message = struct.pack("=IHHIIi", 20, 3, 2, 1, 1, 0)
    red = _qdisc("red", 2 << 16, (1 << 16) + 1, struct.pack("=4I", 0, 0, 0, 9))
    statistics = tc.PORT_XSTATS.pack(*range(16), 2, 1) + struct.pack("=14Q", *range(14)) * 2
    return _qdisc("tbf", 1 << 16, root) + red + _qdisc("port", 3 << 16, root, statistics) + end_message


def _echoes() -> bytes:
    echoes = [struct.pack("=IHHIIQQQ", 0x54434344, 1, 2, host, 0, seq, 100, 50) for host, seq in ((0, 6), (1, 2), (1, 6))]
    return b"".join(bytes([len(echo), echo[8]]) + echo for echo in echoes)


def _boot_file() -> bytes:
    mounts = ["cover /root", "read 5 /root/dc-gym", "write 12 /root/dc-gym/results/out.partial/.lab/out"]
    return boot_entries(["/usr/bin/python3", "-m", "dc_gym", ""], {"PATH": "/usr/bin", "EMPTY": ""}, mounts)


def seeds(name: str, folder: Path) -> list[bytes]:
    """Returns valid inputs of a target."""
    return {
        "fuzz_nl": lambda: [_dump(), _dump()[16:]],
        "fuzz_ports": lambda: [_ports(folder, GRAPH), _ports(folder, CLASSES)],
        "fuzz_actuators": lambda: [_actuators(preset) for preset in ("Dumbbell10m", "EcnDumbbell1g")],
        "fuzz_events": lambda: [_events()],
        "fuzz_nics": lambda: [_nics()],
        "fuzz_flow_table": lambda: [_flows()],
        "fuzz_commands": lambda: [bytes([3, 0, 0, 4, 0, 0, 0, 0, 4, 7, 0])],
        "fuzz_control": lambda: [_echoes()],
        "fuzz_boot_file": lambda: [_boot_file()],
    }[name]()


# --- a run


@dataclass(frozen=True)
class Reached:
    """A count of what a target did with its inputs."""

    executions: int
    accepted: int
    rows: int
    edges: int
    """Edges of the control flow that were taken, of the target and of what it tests."""
    all_edges: int


def build_fuzzer(name: str, folder: Path) -> Path:
    return compiled("clang", name, FUZZERS[name], "fuzzer,address,undefined", folder)


def fuzz(program: Path, valid: list[bytes], limit: str, folder: Path) -> Reached:
    """Fuzzes a target from its valid inputs. `limit`: an option of libFuzzer; -runs=0 only reads them."""
    corpus = folder / f"corpus{limit}"
    corpus.mkdir()
    for number, data in enumerate(valid):
        (corpus / str(number)).write_bytes(data)
    child = subprocess.run([str(program), limit, "-seed=1", str(corpus)], cwd=folder, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-4000:]
    counts = re.search(r"^fuzz: (\d+) executions, (\d+) accepted, (\d+) rows$", child.stderr, re.MULTILINE)
    edges = re.findall(r" cov: (\d+)", child.stderr)
    every = re.search(r"Loaded \d+ modules\s+\((\d+) inline 8-bit counters\)", child.stderr)
    assert counts and edges and every, child.stderr[-2000:]
    return Reached(*(int(count) for count in counts.groups()), int(edges[-1]), int(every[1]))


def main(argv: list[str] = sys.argv) -> int:
    if shutil.which("clang") is None:
        print("fuzz: clang is not installed: apt-get install clang", file=sys.stderr)
        return 2
    seconds = int(argv[1])
    print(f"{'target':<16} {'executions':>10} {'accepted':>10} {'rows':>12}  edges reached")
    for name in FUZZERS:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            reached = fuzz(build_fuzzer(name, work), seeds(name, work), f"-max_total_time={seconds}", work)
        share = f"{reached.edges} of {reached.all_edges} ({100 * reached.edges // reached.all_edges} %)"
        print(f"{name:<16} {reached.executions:>10} {reached.accepted:>10} {reached.rows:>12}  {share}", flush=True)
    for name, reader in READERS.items():
        with tempfile.TemporaryDirectory() as folder:
            attempts = list(reader.tries(Path(folder), name, reader.inputs))
            taken = sum(accepted(reader, data, Path(folder)) for data in attempts)
        print(f"{name:<16} {len(attempts):>10} {taken:>10} {'-':>12}  -", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
