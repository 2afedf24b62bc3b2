# SPDX-License-Identifier: Apache-2.0
"""Tests what peers are told and what they answer, without a real peer; then ns-3 itself where it is installed."""

from __future__ import annotations

import stat
import sys

import pytest

from dc_gym import spec
from dc_gym.base.errors import ProtocolError, TestbedError, UsageError
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.checks import ns3 as bench
from dc_gym.benchmarks.checks import oracle
from dc_gym.benchmarks.peers import files, ns3
from dc_gym.benchmarks.peers.files import PeerFlow
from dc_gym.benchmarks.perf import meter
from dc_gym.cli import main
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies.ecmp import route

FLOW = PeerFlow("h1", "h3", 5001, 1_000, 20_000)

FAKE_COMPILER = """#!/bin/sh
case " $* " in
*" -E "*) cat >/dev/null; [ -e {folder}/absent ] && exit 1; echo '3 37 "release"' ;;
*" --version "*) echo "g++ (fake) 1.0" ;;
*" -print-file-name="*) echo {folder}/libns3-internet.so ;;
*)
	echo built >> {folder}/builds
	[ -e {folder}/broken ] && {{ echo "ns3.cc:1: error: no such thing" >&2; exit 1; }}
	while [ "$1" != -o ]; do shift; done
	cp {folder}/program "$2" ;;
esac
"""

FAKE_PEER = """#!/bin/sh
for word; do case $word in --folder=*) folder=${word#--folder=} ;; esac; done
printf 'flow,established_ns,end_ns,received_bytes\\n0,1500,21000,20000\\n' > $folder/flows-out.csv
printf 'port,tx_packets,tx_bytes,marks,drops\\nh1-eth0,16,20984,0,0\\ns1-eth3,16,20984,3,1\\n' > $folder/ports-out.csv
printf 'ns3_version=3.37\\nbuild_profile=release\\nsetup_s=0.1\\nrun_s=0.5\\nvirtual_ns=21000\\nevents=99\\n'
"""


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(
        'spec_version = 1\ntopology = { kind = "single", hosts = 3, rate = "10Gbit/s", delay = "2500ns", buffer = "4MB",'
        ' k_bytes = 90840 }\ncontroller.name = "dctcp"\n'
        'workload = { kind = "many_to_one", size = "20kB" }\ntime.duration = "10ms"\n'
    )
    return Experiment.of(spec.load(path))


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A compiler that answers as g++ with ns-3 would, and whose program is FAKE_PEER."""
    folder = tmp_path / "fake"
    folder.mkdir()
    for name, text in (("g++", FAKE_COMPILER.format(folder=folder)), ("program", FAKE_PEER)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "libns3-internet.so").write_text("one")
    monkeypatch.setenv("CXX", str(folder / "g++"))
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    for name in ("CPPFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    return folder


def lines(path):
    return path.read_text().splitlines()


def test_an_experiment_as_files(experiment, tmp_path):
    files.write_experiment(tmp_path, experiment.graph, experiment.router, [FLOW])
    assert lines(tmp_path / "nodes.csv") == ["name,address", "h1,10.0.0.1", "h2,10.0.0.2", "h3,10.0.0.3", "s1,-"]
    assert lines(tmp_path / "links.csv")[:2] == [
        "a,b,rate_bps,delay_ns,a_limit_bytes,a_k_bytes,a_max_bytes,a_max_ppm,b_limit_bytes,b_k_bytes,b_max_bytes,b_max_ppm",
        "h1-eth0,s1-eth1,10000000000,2500,4000000,0,0,0,4000000,90840,90840,1000000",
    ]
    routes = lines(tmp_path / "routes.csv")
    assert routes[0] == "port,destination" and "h1-eth0,h3" in routes and "s1-eth2,h2" in routes
    assert len(routes) == 1 + 3 * 2 + 3
    assert lines(tmp_path / "flows.csv") == [
        "flow,protocol,src,dst,dst_port,start_ns,size_bytes",
        "0,tcp,h1,h3,5001,1000,20000",
    ]


def test_flows_without_a_size_are_refused(experiment, tmp_path):
    with pytest.raises(UsageError, match="flow 1: it has no size"):
        endless = PeerFlow("h1", "h3", 2, 0, 0)
        files.write_experiment(tmp_path, experiment.graph, experiment.router, [FLOW, endless])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["topology.marking=iroko-thesis"], "marking iroko-thesis of s1-eth1"),
        (["topology.host_qdisc=fq"], "queue fq of h1-eth0"),
        (["topology.loss=0.1%"], "cable h1-eth0--s1-eth1 loses"),
    ],
)
def test_what_a_peer_cannot_be_told(tmp_path, settings, words):
    path = tmp_path / "net.toml"
    path.write_text(bench.SPEC)
    bare = Experiment.of(spec.load(path, settings))
    with pytest.raises(UsageError, match=words):
        files.write_experiment(tmp_path, bare.graph, bare.router, [])


def test_several_paths_are_refused(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(bench.SPEC)
    graph = spec.load(path, ["topology.preset=fattree-k4"]).graph()
    with pytest.raises(UsageError, match="several paths"):
        files.write_experiment(tmp_path, graph, route(graph, 1), [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "did not write it"),
        ("flow,end_ns\n", "first line"),
        ("flow,established_ns,end_ns,received_bytes\n0,1,2\n", ":2: '0,1,2' is not a row"),
        ("flow,established_ns,end_ns,received_bytes\n0,1,2,x\n", "'0,1,2,x' is not a row"),
    ],
)
def test_a_peer_that_breaks_the_protocol(tmp_path, text, words):
    if text is not None:
        (tmp_path / "flows-out.csv").write_text(text)
    with pytest.raises(ProtocolError, match=words):
        files.read_flows(tmp_path)


def test_an_unfinished_flow_and_a_queue_are_read(tmp_path):
    (tmp_path / "flows-out.csv").write_text("flow,established_ns,end_ns,received_bytes\n0,10,-1,1448\n")
    (tmp_path / "queue-out.csv").write_text("t_ns,packets\n0,0\n10,7\n")
    assert files.read_flows(tmp_path) == (files.FlowEnd(10, -1, 1448),)
    t_ns, packets = files.read_queue(tmp_path)
    assert t_ns.tolist() == [0, 10] and packets.tolist() == [0, 7]


def test_built_once_a_source_and_library(fake):
    program = ns3.ensure()
    assert program.stat().st_mode & stat.S_IXUSR and ns3.ensure() == program
    assert lines(fake / "builds") == ["built"]
    (fake / "libns3-internet.so").write_text("another")
    assert ns3.ensure() != program
    assert lines(fake / "builds") == ["built"] * 2
    assert [path.name for path in program.parent.parent.iterdir() if "partial" in path.name] == []


def test_what_ns3_answers(fake, tmp_path):
    answer = ns3.run(ns3.ensure(), tmp_path, 10**9)
    assert answer.flows == (files.FlowEnd(1500, 21000, 20000),)
    assert answer.ports["s1-eth3"] == files.PortCount(16, 20984, 3, 1)
    assert (answer.run_s, answer.virtual_ns) == (0.5, 21000)


def test_a_source_that_does_not_compile_says_so_in_a_line(fake):
    (fake / "broken").touch()
    with pytest.raises(UsageError, match=r"ns3\.cc.*ns-3 3\.37.*ns3\.cc:1: error: no such thing"):
        ns3.ensure()


def test_ns3_that_fails_says_why(fake, tmp_path):
    (fake / "program").write_text("#!/bin/sh\necho 'ns3-peer: no such host' >&2\nexit 2\n")
    with pytest.raises(TestbedError, match=r"ns-3 failed \(2\): ns3-peer: no such host"):
        ns3.run(ns3.ensure(), tmp_path, 10**9)
    (fake / "libns3-internet.so").write_text("another")
    (fake / "program").write_text("#!/bin/sh\necho virtual_ns=1\n")
    with pytest.raises(ProtocolError, match="run_s"):
        ns3.run(ns3.ensure(), tmp_path, 10**9)


def test_without_ns3_the_bench_names_the_package(fake, monkeypatch, capsys):
    (fake / "absent").touch()
    assert main.main(["bench", "ns3"]) == 2
    monkeypatch.setenv("CXX", str(fake / "nothing"))
    assert main.main(["bench", "ns3"]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 2 and "apt-get install libns3-dev" in errors[0] and "apt-get install g++" in errors[1]


def test_the_median_of_the_ratios():
    assert bench.median_ratio([(1, 10), (2, 10), (9, 10)]) == 0.2


def test_cpu_time_of_an_orphan_counts():
    """The command ends at once; a process that it left in the background spins until it has used 0.3 s of CPU time."""
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    outcome = meter.run(["sh", "-c", f'{sys.executable} -c "{spin}" & exit 3'])
    assert outcome.status == 3 and outcome.cost.cpu_s >= 0.3


@pytest.fixture(scope="module")
def real_ns3():
    try:
        return ns3.ensure()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("buffer_bytes", "drops"), [(4_000_000, False), (200 * FRAME_BYTES, True)])
def test_ns3s_link_and_step_are_the_oracles(real_ns3, tmp_path, buffer_bytes, drops):
    """Two hosts send 300 datagrams each to the last host: marks, drops and the last byte's instant are the FIFO oracle's.

    The oracle's clock, like the lab's, rounds up to a nanosecond at each of two hops; ns-3's here counts picoseconds.
    """
    frames = 300
    path = tmp_path / "net.toml"
    path.write_text(bench.SPEC)
    settings = (f"topology.buffer={buffer_bytes}B", f"topology.host_buffer={frames * FRAME_BYTES}B")
    experiment = Experiment.of(spec.load(path, settings))
    senders, receiver = experiment.graph.hosts[:2], experiment.graph.hosts[-1].name
    flows = [PeerFlow(host.name, receiver, 5001, 0, frames * (FRAME_BYTES - 14 - 20 - 8), "udp") for host in senders]
    files.write_experiment(tmp_path, experiment.graph, experiment.router, flows)
    answer = ns3.run(real_ns3, tmp_path, 10**9)
    burst = [oracle.OracleFrame(0, FRAME_BYTES, True, number) for number in range(frames)]
    sent = [
        oracle.run_port(oracle_port(experiment.graph, experiment.graph.ports_of(host.name)[0], forwards=False), burst)
        for host in senders
    ]
    port = experiment.graph.peer(experiment.graph.ports_of(receiver)[0])
    expected, counted = (
        oracle.run_port(oracle_port(experiment.graph, port, forwards=True), oracle.arrivals(sent)),
        answer.ports[port.ifname],
    )
    assert (expected.marks, expected.drops) == (counted.marks, counted.drops) and expected.marks and bool(expected.drops) == drops
    if not drops:
        assert abs(answer.virtual_ns - max(passage.arrive_ns for passage in expected.passages)) <= 2


def oracle_port(graph, port, forwards):
    cable, queue = graph.cable_of(port), port.queue
    return oracle.OraclePort(cable.rate_bps, cable.delay_ns, queue.limit_bytes, queue.marking.k_bytes or None, forwards=forwards)


def test_ns3_runs_what_it_is_told(real_ns3, experiment, tmp_path):
    """Two flows: every byte arrives, in frames of 1514 bytes and a rest, and not before the wire can carry them."""
    flows = [FLOW, PeerFlow("h2", "h3", 5001, 2_000_000, 1)]
    files.write_experiment(tmp_path, experiment.graph, experiment.router, flows)
    answer = ns3.run(real_ns3, tmp_path, 10**9)
    assert [flow.received_bytes for flow in answer.flows] == [20_000, 1]
    rest = 20_000 % 1448
    syn, ack = 14 + 20 + 36, 14 + 20 + 32  # ns-3 sends no MSS option
    # SYN, the handshake's ACK, 13 full segments, the last one with FIN
    assert answer.ports["h1-eth0"] == files.PortCount(16, syn + ack + 13 * 1514 + ack + rest, 0, 0)
    assert answer.flows[0].end_ns >= FLOW.start_ns + 3 * 5_000 + 13 * 0.8 * 1514
    assert answer.virtual_ns == answer.flows[1].end_ns


def test_ns3_refuses_what_it_does_not_know(real_ns3, experiment, tmp_path):
    files.write_experiment(tmp_path, experiment.graph, experiment.router, [PeerFlow("h1", "h9", 2, 0, 5)])
    with pytest.raises(TestbedError, match="flow 0: no such host"):
        ns3.run(real_ns3, tmp_path, 10**9)


@pytest.mark.lab
def test_a_short_pair_is_one_experiment(real_ns3, lab_kernel, tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    monkeypatch.setattr(bench, "SIZE_BYTES", 10**6)
    path = tmp_path / "ns3.toml"
    path.write_text(bench.SPEC)
    (pair,) = bench.run_pairs(path, tmp_path, ("workload.size=1MB", "time.duration=10ms"), pairs=1)
    wrong = [check for check in bench.sameness_checks(pair) if not check.ok]
    assert wrong == []
    assert pair.lab.manifest["wall_s"]["traffic"] > 0 and pair.peer.cost.cpu_s > 0
