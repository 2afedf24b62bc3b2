# SPDX-License-Identifier: Apache-2.0
"""Telemetry as plain data: units of rates, records as C writes them, and networks that have none."""

import ctypes
import random
import subprocess
from pathlib import Path

import pytest

from dc_gym.base.errors import SpecError, TopologyError
from dc_gym.spec import from_dict
from dc_gym.topologies import telemetry
from dc_gym.topologies.presets import build
from dc_gym.topologies.topology_spec import TopologySpec

GBPS = 10**9
RECORD = """
#include "lab_int.h"
_Static_assert(LAB_INT_RATES == 8 && LAB_INT_HOPS == 5 && LAB_INT_BYTES == 42 && sizeof(struct lab_int) == 42, "");
__u64 record(__u32 time_unit, __u32 sent_unit, __u32 queue_unit, __u32 rate, __u64 time_ns, __u64 sent, __u32 queue)
{
	struct lab_int_unit unit = { time_unit, sent_unit, queue_unit };

	return lab_int_record(&unit, rate, time_ns, sent, queue);
}
"""


def network(**changes):
    fields = {"kind": "single", "hosts": 3, "rate_bps": 10 * GBPS, "delay_ns": 1000, "buffer_bytes": 10**6, "qdisc": "port"}
    return build(TopologySpec.of(**(fields | changes)))


@pytest.mark.parametrize(
    ("rate_bps", "time_ns", "sent_bytes", "queue_bytes"),
    [
        (10**8, 250, 128, 80),
        (10 * GBPS, 3, 128, 80),
        (25 * GBPS, 1, 128, 80),
        (40 * GBPS, 1, 205, 128),
        (100 * GBPS, 1, 512, 320),
        (400 * GBPS, 1, 2048, 1280),
    ],
)
def test_units_are_those_of_hpcc_at_25_gbit_and_in_proportion_elsewhere(rate_bps, time_ns, sent_bytes, queue_bytes):
    assert telemetry.units(rate_bps) == telemetry.RateUnits(rate_bps, time_ns, sent_bytes, queue_bytes)


def test_records_are_those_of_c(tmp_path: Path) -> None:
    source, library = tmp_path / "record.c", tmp_path / "record.so"
    source.write_text(RECORD)
    subprocess.run(["cc", "-shared", "-fPIC", "-Ikernel/drivers", "-o", library, source], check=True)
    record = ctypes.CDLL(str(library)).record
    record.restype = ctypes.c_uint64
    kinds = [ctypes.c_uint32] * 4 + [ctypes.c_uint64] * 2 + [ctypes.c_uint32]
    draw = random.Random(1)
    for _ in range(500):
        units, index = telemetry.units(draw.choice([1, 10, 25, 100, 400]) * GBPS), draw.randrange(8)
        time_ns, sent, queue = draw.randrange(2**60), draw.randrange(2**60), draw.choice([0, draw.randrange(2**32), 2**32 - 1])
        words = (units.time_ns, units.sent_bytes, units.queue_bytes, index, time_ns, sent, queue)
        c_record = record(*(kind(word) for kind, word in zip(kinds, words, strict=True)))
        assert c_record == units.record(index, time_ns, sent, queue)


def test_a_network_has_a_table_of_its_switch_ports_rates_and_units_at_each():
    graph = telemetry.equipped(network())
    assert [entry.rate_bps for entry in telemetry.rate_table(graph)] == [10 * GBPS]
    units = {port.queue.telemetry for port in graph.switch_ports()}
    assert [(unit.rate, unit.time_ns, unit.sent_bytes, unit.queue_bytes) for unit in units] == [(0, 3, 128, 80)]
    assert all(port.queue.telemetry is None for host in graph.hosts for port in graph.ports_of(host.name))
    telemetry.check(graph, "hpcc")
    assert type(graph).from_json(graph.to_json()) == graph


def test_more_rates_than_records_can_name_are_refused():
    assert len(telemetry.table_of(range(GBPS, 9 * GBPS, GBPS))) == telemetry.MOST_RATES
    with pytest.raises(TopologyError, match=r"8 places.*9 rates: 1Gbit/s, .*fewer"):
        telemetry.table_of(range(GBPS, 10 * GBPS, GBPS))


def test_stock_queues_write_no_telemetry():
    with pytest.raises(TopologyError, match=r"^controller 'hpcc' .*telemetry.*s1-eth1 \(bfifo\).*; give"):
        telemetry.check(network(qdisc="stock"), "hpcc")
    with pytest.raises(TopologyError, match=r"^controller 'fdcc' .*telemetry.*s1-eth1 \(bfifo\).*; give"):
        telemetry.check(network(qdisc="stock"), "fdcc")


def test_a_path_of_more_than_five_switch_ports_is_refused():
    graph = network()
    telemetry.check_paths(graph, [("h1-eth0", "s1-eth2"), ("h1-eth0", *["s1-eth2"] * 5)], "hpcc")
    with pytest.raises(TopologyError, match=r"'hpcc' .*telemetry.*at most 5 .*path .* 6; give"):
        telemetry.check_paths(graph, [("h1-eth0", *["s1-eth2"] * 6)], "hpcc")


SPEC = {
    "spec_version": 1,
    "name": "telemetry",
    "controller": {"name": "hpcc"},
    "topology": {"kind": "single", "hosts": 4, "rate": "10Gbit/s", "delay": "1us", "buffer": "1MB"},
    "workload": {"kind": "pairs"},
    "time": {"duration": "1ms"},
}


def asked(tmp_path: Path, **changes):
    return from_dict(
        {key: SPEC.get(key, {}) | value if isinstance(value, dict) else value for key, value in {**SPEC, **changes}.items()},
        tmp_path,
    )


def test_a_frame_keeps_its_size_and_its_payload_makes_room(tmp_path):
    spec = asked(tmp_path)
    assert (spec.payload_bytes, spec.frame_headers_bytes, spec.telemetry_bytes) == (1398, 116, 42)
    other = asked(tmp_path, controller={"name": "swift"})
    assert (other.payload_bytes, other.frame_headers_bytes, other.telemetry_bytes) == (1440, 74, 0)
    assert asked(tmp_path, nic={"payload": "1kB"}).payload_bytes == 1000
    with pytest.raises(SpecError, match=r"nic\.payload.*1398 B"):
        asked(tmp_path, nic={"payload": "1400B"})


def test_an_algorithm_does_not_run_without_its_telemetry(tmp_path):
    with pytest.raises((SpecError, TopologyError), match=r"telemetry.*s1-eth1"):
        asked(tmp_path, topology={**SPEC["topology"], "qdisc": "stock"})
    with pytest.raises((SpecError, TopologyError), match=r"telemetry.*s1-eth1"):
        asked(tmp_path, ground="host")


def test_inflight_is_an_amount_and_goes_with_rdma_alone(tmp_path):
    assert str(asked(tmp_path, nic={"inflight": "1bdp"}).nic.inflight_bytes) == "1bdp"
    with pytest.raises(SpecError, match=r"nic\.inflight"):
        asked(tmp_path, nic={"inflight": "100B"})
    with pytest.raises(SpecError, match=r"nic\.inflight"):
        asked(tmp_path, nic={"inflight": "much"})
    with pytest.raises(SpecError, match=r"nic\.inflight.*nic\.tcp"):
        asked(tmp_path, controller={"name": "timely"}, nic={"inflight": "1bdp", "tcp": "cubic"})
