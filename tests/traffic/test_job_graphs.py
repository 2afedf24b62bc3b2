# SPDX-License-Identifier: Apache-2.0
"""Jobs before anything boots: GOAL text, collectives as graphs, placement, connections, and what is refused in one line."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import UsageError, WorkloadError
from dc_gym.run.plan import jobs
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic import job_collectives, job_files
from dc_gym.traffic.job_graph import CALC, RECV, SEND, JobGraph
from dc_gym.traffic.kinds import job as kind
from dc_gym.traffic.schedule import make_schedule
from dc_gym.traffic.workloads import WorkloadSpec, generate

FATTREE = build(TopologySpec.of(preset="fattree-k4"))
GOAL = """num_ranks 3
rank 0 {
l1: calc 1000 cpu 2
l2: send 800b to 1 tag 7 nic 1
l2 requires l1
}
rank 1 { // a comment
a: recv 800b from 0 tag 7
b: calc 20
b requires a
c: send 90b to 2
c irequires b
}
/* another
rank 9 { */
rank 2 {
recv 90b from 1
}
"""


def flows_of(graph=FATTREE, **keys):
    return generate(graph, WorkloadSpec.of("job", **keys), 10**9, 1)


def read(folder: Path, text: str) -> JobGraph:
    (folder / "job.goal").write_text(text)
    return job_files.read(folder / "job.goal")


# --- GOAL


def test_goal_text(tmp_path):
    graph = read(tmp_path, GOAL)
    nodes = graph.nodes
    assert graph.ranks == 3 and nodes["kind"].tolist() == [CALC, SEND, RECV, CALC, SEND, RECV]
    assert nodes["amount"].tolist() == [1000, 800, 800, 20, 90, 90]
    assert nodes["rank"].tolist() == [0, 0, 1, 1, 1, 2] and nodes["peer"].tolist() == [0, 1, 0, 1, 2, 1]
    assert nodes["tag"].tolist() == [0, 7, 7, 0, 0, 0] and nodes["cpu"].tolist() == [2, 0, 0, 0, 0, 0]
    assert graph.edges.tolist() == [(0, 1, False), (2, 3, False), (3, 4, True)]
    assert graph.sends.tolist() == [[1, 4], [2, 5]]


def test_messages_match_by_tag_in_their_order(tmp_path):
    """Two tags cross; two messages of one tag keep their order."""
    first = "send 1b to 1 tag 2\nsend 2b to 1 tag 1\nsend 3b to 1 tag 2\n"
    second = "recv 2b from 0 tag 1\nrecv 1b from 0 tag 2\nrecv 3b from 0 tag 2\n"
    graph = read(tmp_path, f"num_ranks 2\nrank 0 {{\n{first}}}\nrank 1 {{\n{second}}}\n")
    assert sorted(zip(*graph.sends.tolist(), strict=True)) == [(0, 4), (1, 3), (2, 5)]


BAD = {
    "size 0": ("800b to 1", "0b to 1", "line 4: send of 0 is not a whole number in 1..1099511627775"),
    "size 2^40": ("800b to 1", f"{2**40}b to 1", "line 4: send of 1099511627776 is not"),
    "unknown node": ("b: calc 20", "b: compute 20", "line 9: 'compute' is none of calc, send, recv"),
    "unknown rank": ("90b to 2", "90b to 3", "line 11: to rank 3 is not a whole number in 0..2"),
    "to itself": ("90b to 2", "90b to 1", "line 11: rank 1 sends to itself"),
    "no recv": ("recv 90b from 1\n", "", "line 11: send of 90 bytes from rank 1 to 2, tag 0, has no recv"),
    "no send": ("c: send 90b to 2\nc irequires b\n", "", "line 15: recv of 90 bytes from rank 1 to 2, tag 0, has no send"),
    "other tag": ("recv 90b from 1", "recv 90b from 1 tag 3", "line 11: send of 90 bytes from rank 1 to 2, tag 0, has no recv"),
    "other size": ("recv 90b", "recv 91b", "line 17: recv of 91 bytes matches a send of 90"),
    "circle": ("b requires a", "b requires a\na requires b", "line 8: it waits for itself"),
    "unknown label": ("irequires b", "irequires d", "line 12: label 'd' is not one of rank 1"),
    "a label twice": ("b: calc", "a: calc", "line 9: label 'a' comes twice in rank 1"),
    "cut off in a rank": ("recv 90b from 1\n}\n", "recv 90b from 1\n", "line 17: the file ends within rank 2"),
    "cut off between ranks": (GOAL[GOAL.index("/*") :], "", "line 13: the file ends after 2 of 3 ranks"),
    "a rank twice": ("rank 1 {", "rank 0 {", "line 7: rank 0 comes twice"),
    "option": ("cpu 2", "gpu 2", "line 3: 'gpu' is not one of: tag, cpu, nic"),
    "no number": ("calc 1000", "calc 1e3", "line 3: calc 1e3 is not a whole number"),
    "half a line": ("send 800b to 1 tag 7 nic 1", "send 800b", "line 4: write send 8b to RANK tag 0"),
    "no tag": ("tag 7 nic 1", "tag", "line 4: tag without a number is not"),
    "no rank": ("rank 0 {\n", "", "line 2: 'l1' is in no rank"),
    "no GOAL": ("num_ranks 3", "# nothing", "is in no known format"),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_refused_with_its_line(tmp_path, old, new, message):
    assert old in GOAL
    with pytest.raises(UsageError) as excinfo:
        read(tmp_path, GOAL.replace(old, new, 1))
    assert message in str(excinfo.value) and "job.goal" in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_a_circle_over_two_ranks_is_found_and_one_of_beginnings_is_none(tmp_path):
    """A rank that sends before it receives is fine; one that waits for the answer to what it has not sent is not."""
    half = "rank {0} {{\ns: send 9b to {1}\nr: recv 9b from {1}\n{2}\n}}\n"
    with pytest.raises(WorkloadError, match="line 3: it waits for itself"):
        read(tmp_path, "num_ranks 2\n" + half.format(0, 1, "s requires r") + half.format(1, 0, "s requires r"))
    both = half.format(0, 1, "s irequires r") + half.format(1, 0, "s requires r")
    assert len(read(tmp_path, "num_ranks 2\n" + both).nodes) == 4


# --- collectives


def played(graph: JobGraph) -> list[int]:
    """Plays a graph without time: returns the order in which messages are delivered. All must be."""
    graph.require_sound()
    waits, receives = defaultdict(list), dict(zip(*graph.sends.tolist(), strict=True))
    needs = Counter(graph.edges["waits"].tolist())
    for node, after, for_start in graph.edges.tolist():
        assert not for_start
        waits[node].append(after)
    kinds, arrived, begun, delivered = graph.nodes["kind"], set(), set(), []
    ready = [node for node in range(len(graph.nodes)) if not needs[node]]
    for node in ready:
        begun.add(node)
        over = [node] if kinds[node] == CALC or node in arrived else []
        if kinds[node] == SEND:
            delivered.append(node)
            arrived.add(receives[node])
            over = [node, *([receives[node]] if receives[node] in begun else [])]
        for ended in over:
            for after in waits[ended]:
                needs[after] -= 1
                if not needs[after]:
                    ready.append(after)
    assert len(begun) == len(graph.nodes)
    return delivered


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 13])
@pytest.mark.parametrize("name", job_collectives.COLLECTIVES)
def test_every_rank_gets_what_the_collective_promises(name, ranks):
    """Parts travel with the messages: what a rank has of every other one's is what the operation is to give it."""
    if job_collectives.COLLECTIVES[name].powers and ranks & (ranks - 1):
        return
    graph = job_collectives.graph(name, ranks, 1000 * ranks, 2, 50)
    nodes, order = graph.nodes, played(graph)
    has = [{rank} for rank in range(ranks)]
    for send in order:
        source, destination, rep = (int(nodes[send][field]) for field in ("rank", "peer", "rep"))
        if rep == 0:
            has[destination] |= has[source]
    everybody = set(range(ranks))
    assert has == [everybody] * ranks if name != "broadcast" else all(0 in known for known in has)
    sent = np.bincount(nodes["rank"][nodes["kind"] == SEND], nodes["amount"][nodes["kind"] == SEND], ranks) / 2
    share = 1000 * (ranks - 1)
    if name in ("all_reduce_ring", "all_reduce_halving_doubling"):
        assert sent.tolist() == [2 * share] * ranks
    elif name in ("all_gather", "reduce_scatter", "all_to_all", "all_to_all_pairwise"):
        assert sent.tolist() == [share] * ranks
    else:
        assert sent.sum() == (1 if name == "broadcast" else 2) * share * ranks
    assert nodes["amount"][nodes["kind"] == CALC].tolist() == [50] * 2 * ranks
    last = [max(order.index(send) for send in order if nodes["rep"][send] == rep) for rep in (0, 1)]
    assert last[0] < last[1]


def test_the_kind_names_the_collectives():
    assert list(kind.NAMES) == [*job_collectives.COLLECTIVES, job_collectives.HIERARCHICAL]


def test_a_hierarchical_all_reduce_sends_little_between_nodes():
    """Everybody gets everything; of S bytes a rank sends 2 (g-1)/g S in its node, and 2 (m-1)/m S/g to other nodes."""
    ranks, local, size = 12, 4, 24_000
    graph = job_collectives.graph(job_collectives.HIERARCHICAL, ranks, size, 2, 50, local)
    nodes, has = graph.nodes, [{rank} for rank in range(ranks)]
    for send in played(graph):
        source, destination, rep = (int(nodes[send][field]) for field in ("rank", "peer", "rep"))
        if rep == 0:
            has[destination] |= has[source]
    assert has == [set(range(ranks))] * ranks
    sends = nodes[(nodes["kind"] == SEND) & (nodes["rep"] == 1)]
    inside = sends["rank"] // local == sends["peer"] // local
    sent = [np.bincount(of["rank"], of["amount"], ranks).tolist() for of in (sends[inside], sends[~inside])]
    assert sent == [[2 * 3 * size / 4] * ranks, [2 * 2 * size / 12] * ranks]


# --- iterations of a file, stragglers


def test_a_file_repeats_a_rank_at_a_time(tmp_path):
    graph = read(tmp_path, GOAL.replace("c irequires b", "c requires b")).repeated(3)
    nodes, order = graph.nodes, played(graph)
    sent = [nodes["rep"][[send for send in order if nodes["rank"][send] == rank]].tolist() for rank in (0, 1)]
    assert sent == [[0, 1, 2]] * 2 and graph.iterations == 3
    ends = np.flatnonzero((nodes["kind"] == CALC) & (nodes["amount"] == 0))
    assert nodes["rank"][ends].tolist() == [0, 1, 2] * 3
    waiting = {rank: nodes["kind"][graph.edges["node"][graph.edges["waits"] == ends[rank]]].tolist() for rank in range(3)}
    assert waiting == {0: [SEND], 1: [SEND], 2: [RECV]}


def test_a_node_whose_beginning_alone_was_waited_for_ends_before_the_next_iteration(tmp_path):
    graph = read(tmp_path, GOAL).repeated(2)
    (end,) = np.flatnonzero((graph.nodes["amount"] == 0) & (graph.nodes["rank"] == 1) & (graph.nodes["rep"] == 0))
    before = graph.edges["node"][graph.edges["waits"] == end]
    assert graph.nodes["kind"][before].tolist() == [CALC, SEND]


def test_stragglers_follow_from_the_seed():
    keys = {"collective": "broadcast", "size_bytes": 9, "compute_ns": 1000, "stragglers": 3, "slowdown": 1.5}
    drawn = []
    for seed in (1, 1, 2):
        nodes = generate(FATTREE, WorkloadSpec.of("job", **keys), 10**9, seed)[0].job.graph.nodes
        calcs = nodes[nodes["kind"] == CALC]
        assert set(calcs["amount"].tolist()) == {1000, 1500}
        drawn.append(calcs["rank"][calcs["amount"] == 1500].tolist())
    assert len(drawn[0]) == 3 and drawn[0] == drawn[1] != drawn[2]


# --- SimAI's workloads

SIMAI = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0
2
attention -1 1000 ALLREDUCE 16000 2000 NONE 0 500 ALLREDUCE 8000 100
moe -1 1001 ALLTOALL_EP 4000 2001 ALLGATHER_EP 4000 501 REDUCESCATTER_DP_EP 6000 100
"""


def test_a_training_of_simai(tmp_path):
    """Ranks are (data, expert, tensor). The last layer's gradient comes first; no calc waits for collectives of weights."""
    graph = read(tmp_path, SIMAI)
    nodes = graph.nodes
    assert graph.ranks == 8 and len(played(graph)) == 8 * (2 + 1 + 1 + 1 + 6)
    calcs = nodes[(nodes["kind"] == CALC) & (nodes["rank"] == 5)]
    assert calcs["amount"].tolist() == [1000, 1001, 2001, 501, 2000, 500]
    sends = nodes[(nodes["kind"] == SEND) & (nodes["rank"] == 5)]
    peers = [(4, 8000)] * 2 + [(7, 2000)] * 2 + [(1, 3000)] + [(7, 2000)] * 6
    assert list(zip(sends["peer"].tolist(), sends["amount"].tolist(), strict=True)) == peers
    ends = {int(node) for node, after in graph.edges[["node", "waits"]].tolist() if nodes["kind"][after] == CALC}
    waited = nodes[sorted(ends)]
    assert set(waited["step"][waited["kind"] != CALC].tolist()) == {0, 1, 2, 3}, "the steps of forward and gradient collectives"


def test_peers_over_all_data_parallel_ranks_have_rings_in_the_order_of_ranks(tmp_path):
    nodes = read(tmp_path, SIMAI).nodes
    weights = nodes[(nodes["kind"] == SEND) & (nodes["amount"] == 2000) & (nodes["step"] > 4)]
    assert sorted({(int(send["rank"]), int(send["peer"])) for send in weights}) == [(rank, (rank + 2) % 8) for rank in range(8)]


BAD_SIMAI = {
    "policy": ("TRANSFORMER_FWD_IN_BCKWD", "TRANSFORMER_X", "line 1: 'HYBRID_TRANSFORMER_X' is not one of"),
    "no GPUs": ("all_gpus: 8 ", "", "line 1: all_gpus: without a number is not a whole number in 2..16384"),
    "stages": ("pp: 1", "pp: 2", "line 1: pp: 2 is not read"),
    "recomputation": ("checkpoints: 0", "checkpoints: 1", "line 1: checkpoints: 1 is not read"),
    "no multiple": ("all_gpus: 8", "all_gpus: 10", "line 1: all_gpus: 10 is no multiple of 2 x 2"),
    "layers": ("\n2\n", "\ntwo\n", "line 2: number of layers two is not a whole number"),
    "cut off": ("\n2\n", "\n3\n", "line 4: the file ends after 2 of 3 layers"),
    "a column": (" 100\nmoe", "\nmoe", "line 3: a layer has 12 columns, this one 11"),
    "collective": ("ALLGATHER_EP", "ALLGATHER_TP", "line 4: gradient collective 'ALLGATHER_TP' is not one of NONE, ALLREDUCE"),
    "time": ("attention -1 1000", "attention -1 -3", "line 3: forward computation -3 is not a whole number"),
    "size": ("ALLREDUCE 8000", f"ALLREDUCE {2**40}", "line 3: weight bytes 1099511627776 is not"),
    "too large": ("all_gpus: 8", "all_gpus: 16384", "nodes, and the most is 16777216"),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD_SIMAI.values(), ids=BAD_SIMAI.keys())
def test_a_bad_workload_of_simai_is_refused_with_its_line(tmp_path, old, new, message):
    assert old in SIMAI
    with pytest.raises(UsageError) as excinfo:
        read(tmp_path, SIMAI.replace(old, new, 1))
    assert message in str(excinfo.value) and "job.goal" in str(excinfo.value) and "\n" not in str(excinfo.value)


# --- placement and connections


def test_connections_last_for_all_messages_between_two_ranks():
    ring = flows_of(collective="all_reduce_ring", size_bytes=16_000, rounds=3)
    assert len(ring) == 16 and {flow.size_bytes for flow in ring} == {3 * 30 * 1000}
    assert [(flow.src, flow.dst) for flow in ring[:2]] == [("h1", "h2"), ("h2", "h3")]
    halving = {"collective": "all_reduce_halving_doubling", "size_bytes": 16_000, "ranks": 4}
    assert len(flows_of(**halving)) == 8 and not any(flow.message_bytes for flow in flows_of(**halving))
    over_rdma = flows_of(**halving, transport="rdma")
    assert {flow.message_bytes for flow in over_rdma} == {8000, 4000}


def test_placement():
    edges = {host.name: FATTREE.peer(FATTREE.ports_of(host.name)[0]).node for host in FATTREE.hosts}
    names = [host.name for host in FATTREE.hosts]
    keys = {"collective": "broadcast", "size_bytes": 9}
    hosts = {name: flows_of(**keys, placement=name)[0].job.hosts for name in kind.PLACEMENTS}
    assert hosts["packed"] == tuple(names) and len({edges[host] for host in hosts["round_robin"][:8]}) == 8
    assert sorted(hosts["random"]) == sorted(names) and hosts["random"] != hosts["packed"]
    assert flows_of(**keys, hosts=("h9", "h2"))[0].job.hosts == ("h9", "h2")


REFUSED = {
    "nothing": ({}, "workload.file: value None is missing"),
    "no size": ({"collective": "broadcast"}, "workload.size: value None is missing"),
    "both": ({"file": Path("x"), "collective": "broadcast"}, "workload.collective: value broadcast has no effect"),
    "compute of a file": ({"file": Path("x"), "compute_ns": 2}, "workload.compute: value 2 has no effect with workload.file"),
    "no node": (
        {"collective": "all_reduce_hierarchical", "size_bytes": 9},
        "workload.local_ranks: value None does not divide 16",
    ),
    "no divisor": (
        {"collective": "all_reduce_hierarchical", "size_bytes": 9, "local_ranks": 3},
        "workload.local_ranks: value 3 does not divide 16",
    ),
    "a node of a ring": ({"collective": "broadcast", "size_bytes": 9, "local_ranks": 2}, "is of all_reduce_hierarchical alone"),
    "stragglers": (
        {"collective": "broadcast", "size_bytes": 9, "stragglers": 17, "slowdown": 2},
        "value 17 is above the 16 ranks",
    ),
    "slowdown": ({"collective": "broadcast", "size_bytes": 9, "slowdown": 2}, "and stragglers go together; give both"),
    "too many ranks": ({"collective": "broadcast", "size_bytes": 9, "ranks": 17}, "workload.ranks: value 17 is not in 2..16"),
    "no power": ({"collective": "all_reduce_halving_doubling", "size_bytes": 9, "ranks": 6}, "value 6 is no power of two"),
    "unknown host": ({"collective": "broadcast", "size_bytes": 9, "hosts": ("h1", "h99")}, "value 'h99' is not one of"),
    "a host twice": ({"collective": "broadcast", "size_bytes": 9, "hosts": ("h1", "h1")}, "value 'h1' comes twice"),
    "a rate": ({"collective": "broadcast", "size_bytes": 9, "rate_bps": 9}, "workload.rate: value 9 has no effect"),
    "udp": ({"collective": "broadcast", "size_bytes": 9, "transport": "udp"}, "transport"),
}


@pytest.mark.parametrize(("keys", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_key_is_refused(keys, message):
    with pytest.raises(UsageError) as excinfo:
        flows_of(**keys)
    assert message in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_a_rank_needs_a_host(tmp_path):
    (tmp_path / "job.goal").write_text(GOAL)
    with pytest.raises(WorkloadError, match="has 3 ranks, and there are 2 hosts"):
        flows_of(file=tmp_path / "job.goal", hosts=("h1", "h2"))


# --- what tgen reads


def test_the_plan_of_two_jobs(tmp_path):
    (tmp_path / "job.goal").write_text(GOAL)
    one, two = flows_of(file=tmp_path / "job.goal"), flows_of(collective="all_gather", size_bytes=64, ranks=2, start_ns=700)
    schedule = make_schedule([*one, *two], FATTREE, route(FATTREE, 1), "cubic", 1)
    nodes, edges = (table.records for table in jobs.tables(schedule))
    assert nodes["kind"].tolist() == [0, 1, 2, 3, 1, 2, 3, 0, 1, 1, 2, 2, 3, 3]
    assert nodes["amount"].tolist() == [0, 1000, 800, 0, 20, 90, 0, 700, 0, 0, 32, 32, 0, 0]
    sends, recvs = nodes[nodes["kind"] == SEND], nodes[nodes["kind"] == RECV]
    assert sends["subject"].tolist() == [0, 1, 2, 3] and recvs["subject"].tolist() == [2, 5, 10, 11]
    lists = [edges["edge"][start : start + length].tolist() for start, length in nodes[["edges_start", "edges_len"]].tolist()]
    assert lists[:7] == [[2, 6, 12], [4], [], [8], [11], [], []]
    assert lists[7:] == [[16, 18], [20, 26], [22, 24], [], [], [], []]
