# SPDX-License-Identifier: Apache-2.0
"""The digest, byte for byte as docs/digests.md says, and the finder of the first difference."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import Any

import numpy as np
import pytest
import synthetic

from dc_gym.base.errors import ProtocolError
from dc_gym.ctrl import controllers
from dc_gym.results.digest import Digest, digest_of
from dc_gym.results.metrics.summary import told_of_equal_seeds
from dc_gym.results.tables import NIC_EVENTS, REQUIRED, STATUSES, TABLES, Tables
from dc_gym.traffic.flows import GROUPS, TRANSPORTS

FLOW = synthetic.flow_row(0, src="h2", dst="h1", controller="cubic", status="stopped", end_ns=9, received_bytes=7, sent_bytes=8)
SWEEP = [{"t_ns": 5, "port": name, "backlog_bytes": row} for row, name in enumerate(("s1-eth3", "h1-eth0", "h2-eth0"))]
NIC_EVENTS_ROW = {"t_ns": 8, "flow": 0, "lost_events": 6}
NIC = {"t_ns": 8, "flow": 0, "rate_bps": 5, "cnps": 3, "decisions": 4}
DECISION = {"t_ns": 7, "flow": 0, "event": "cnp", "flags": 1, "rate_before_bps": 9, "rate_bps": 5}
CLASS_QUEUE = {"t_ns": 8, "port": "s1-eth3", "class": 1, "backlog_bytes": 3, "pauses": 2}
CLASS = {"t_ns": 0, "flow": 0, "workload": 1, "dscp": 46}
SAMPLE = {"t_ns": 6, "flow": 0, "srtt_us": 80, "bytes_received": 11, "retransmits": 2}


def small(**changes: Any) -> Tables:
    return synthetic.tables(**({"flows": [FLOW], "queues": SWEEP, "tcp": [SAMPLE]} | changes))


def test_bytes_are_those_of_the_document() -> None:
    """The expected bytes are packed with struct, independently of numpy: owners are s1, h1, h2; cubic is the third controller."""
    expected = b"dcgym-digest 2\n"
    expected += b"flows\n" + struct.pack(
        "<IIIHHIIIIqqqqQQQQqIi", 0, 2, 1, 40000, 5001, 0, 2, 0, 0, 0, 0, 0, 9, 0, 8, 7, 0, -1, 1, 0
    )
    expected += b"queues\n" + b"".join(struct.pack("<qI8Q", 5, row, row, 0, 0, 0, 0, 0, 0, 0) for row in range(3))
    expected += b"tcp\n" + struct.pack("<qIIIIQIQQI", 6, 0, 80, 0, 0, 0, 0, 0, 11, 2)
    assert digest_of(small()) == hashlib.sha256(expected).hexdigest()


def test_a_run_over_rdma_has_two_tables_more() -> None:
    expected = b"nic_flows\n" + struct.pack("<qIQ3I15Q", 8, 0, 5, 0, 0, 0, *[0] * 8, 3, 0, 0, 0, 0, 0, 4)
    expected += b"decisions\n" + struct.pack("<qIIHIQQI", 7, 0, 2, 1, 0, 9, 5, 0)
    whole = small(nic_flows=[NIC], decisions=[DECISION])
    head = Digest()
    for name in REQUIRED:
        head.begin(name)
        head.update(whole.table(name))
    head._hash.update(expected)
    assert digest_of(whole) == head.hexdigest() != digest_of(small())


def test_a_run_with_classes_has_a_table_more() -> None:
    whole, head = small(classes=[CLASS]), Digest()
    for name in REQUIRED:
        head.begin(name)
        head.update(whole.table(name))
    head._hash.update(b"classes\n" + struct.pack("<qIII", 0, 0, 1, 46))
    assert digest_of(whole) == head.hexdigest() != digest_of(small())


def test_a_run_with_classes_of_ports_has_a_table_more() -> None:
    """s1-eth3 is the first port."""
    whole, head = small(class_queues=[CLASS_QUEUE]), Digest()
    for name in REQUIRED:
        head.begin(name)
        head.update(whole.table(name))
    head._hash.update(b"class_queues\n" + struct.pack("<qII10Q", 8, 0, 1, 3, *[0] * 8, 2))
    assert digest_of(whole) == head.hexdigest() != digest_of(small())


def test_a_run_with_a_queue_of_events_has_a_table_more() -> None:
    whole, head = small(nic_events=[NIC_EVENTS_ROW]), Digest()
    for name in REQUIRED:
        head.begin(name)
        head.update(whole.table(name))
    head._hash.update(b"nic_events\n" + struct.pack("<qIQ", 8, 0, 6))
    assert digest_of(whole) == head.hexdigest() != digest_of(small())


def test_declared_orders_do_not_move() -> None:
    assert controllers.names()[:6] == ("dctcp", "nv", "cubic", "bbr", "vegas", "reno")
    assert STATUSES == ("done", "stopped", "running", "failed", "waiting")
    assert TRANSPORTS == ("tcp", "udp", "rdma", "uec")
    assert NIC_EVENTS == ("none", "firmware", "cnp", "tx", "ack", "nack", "rtt")
    assert GROUPS[:12] == (
        *("flow", "background", "query", "response", "short", "long", "read", "write", "replica", "push", "pull", "ring"),
    )


def test_pieces_do_not_matter() -> None:
    tables = synthetic.run()
    whole, pieces = Digest(), Digest()
    for name in REQUIRED:
        whole.begin(name)
        whole.update(tables.table(name))
        pieces.begin(name)
        for part in np.array_split(tables.table(name), 7):
            pieces.update(part)
    assert whole.hexdigest() == pieces.hexdigest() == digest_of(tables)


def test_order_of_rows_and_strings_or_row_numbers_do_not_matter() -> None:
    numbered = small()
    again = Tables.build(flows=numbered.flows, queues=numbered.queues[::-1], tcp=numbered.tcp, ports=numbered.ports)
    assert digest_of(again) == digest_of(numbered)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_counts_unless_it_is_declared_otherwise(name: str) -> None:
    tables = small(
        nic_flows=[NIC],
        decisions=[DECISION],
        classes=[CLASS],
        class_queues=[CLASS_QUEUE],
        nic_events=[NIC_EVENTS_ROW],
        acks=[{"t_ns": 9, "flow": 0, "cwnd_packets": 10}],
        messages=[{"posted_ns": 9, "src": "h1", "dst": "h2", "bytes": 7}],
        ranks=[{"end_ns": 9, "host": "h1", "calc_ns": 5}],
        nexthops=[{"t_ns": 9, "port": "s1-eth3", "frames": 3}],
        reordering=[{"t_ns": 9, "host": "h1", "retransmits": 1}],
    )
    for column, _ in TABLES[name].columns:
        changed = tables.table(name).copy()
        changed[column][0] ^= 1
        same = digest_of(dataclasses.replace(tables, **{name: changed})) == digest_of(tables)
        assert same == (column in TABLES[name].unknown), column


@pytest.mark.parametrize("name", TABLES)
def test_columns_outside_the_digest_come_last(name: str) -> None:
    digested = [column.digested for column in TABLES[name].declared]
    assert digested == sorted(digested, reverse=True)


def test_misuse_is_refused() -> None:
    digest = Digest()
    with pytest.raises(ProtocolError, match="order"):
        digest.begin("tcp")
    digest.begin("flows")
    with pytest.raises(ProtocolError, match="canonical"):
        digest.update(np.zeros(1, TABLES["tcp"].dtype))
    with pytest.raises(ProtocolError, match="missing"):
        digest.hexdigest()


@pytest.mark.parametrize(
    ("table", "row", "words"),
    [
        ("flows", synthetic.flow_row(0, status="lost"), "'lost'"),
        ("flows", synthetic.flow_row(0, src="h9"), "'h9'"),
        ("queues", {"port": "s9-eth1"}, "'s9-eth1'"),
    ],
)
def test_unknown_names_are_refused(table: str, row: dict[str, Any], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        small(**{table: [row]})


def test_values_that_would_wrap_are_refused() -> None:
    wide = np.zeros(1, np.dtype([(name, "<i8") for name, _ in TABLES["tcp"].columns]))
    wide["srtt_us"] = 2**32
    with pytest.raises(ProtocolError, match="srtt_us"):
        Tables.build(flows=small().flows, queues=small().queues, tcp=wide, ports=synthetic.ports())
    with pytest.raises(ProtocolError, match="missing"):
        Tables.build(flows=small().flows, queues=small().queues, tcp=np.zeros(1, "<i8,<i8"), ports=synthetic.ports())


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([], ""),
        ([["a"], ["a"]], ""),
        ([["a", "b"], ["c", "d"]], ""),
        ([["a", "a", "a"]], "at its point: the seed changes nothing"),
        ([["a", "b"], ["c", "c"], ["c"]], "at 1 of 2 points: the seed changes nothing"),
    ],
)
def test_equal_seeds_are_told(points: list[list[str]], words: str) -> None:
    notice = told_of_equal_seeds(points)
    assert words in notice and bool(notice) == bool(words)
