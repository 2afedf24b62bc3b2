# SPDX-License-Identifier: Apache-2.0
"""Classes, shared buffers and pauses of the lab's switches, frame by frame against an oracle, and what the comparison catches."""

from __future__ import annotations

from dataclasses import replace

import fabric_cases
import fabric_lab
import fabric_rules
import pytest
from fabric_nets import peer

from dc_gym.benchmarks.checks.links import parse

pytestmark = pytest.mark.lab
COUNT = 10
RULES = (
    fabric_rules.SHARES[0],
    *fabric_rules.THRESHOLDS[1:7],
    *(rule for rule in fabric_rules.HEADROOMS if rule.senders == 4),
    *fabric_rules.RINGS,
)


@pytest.fixture(scope="module")
def answered(lab_kernel):
    """Returns the random cases with the lab's answers, by kind, and those of the rules."""
    groups = {kind: list(fabric_cases.random_cases(kind, COUNT)) for kind in fabric_cases.KINDS}
    groups["rules"] = [*(rule.case() for rule in RULES), fabric_rules.light_ring()]
    replies = iter(fabric_lab.play(lab_kernel, [case for group in groups.values() for case in group]))
    return {name: [(case, next(replies)) for case in group] for name, group in groups.items()}


@pytest.mark.parametrize("kind", [*fabric_cases.KINDS, "rules"])
def test_the_lab_is_what_the_oracle_says(answered, kind):
    for case, reply in answered[kind]:
        assert not fabric_lab.compare(case, reply).faults, case.name


def test_the_cases_are_worth_it(answered):
    verdicts = {kind: [fabric_lab.compare(*pair) for pair in pairs] for kind, pairs in answered.items()}
    for kind in fabric_cases.KINDS[1:]:
        assert sum(verdict.drops for verdict in verdicts[kind]) > 30, kind
    assert all(sum(verdict.marks for verdict in verdicts[kind]) > 30 for kind in fabric_cases.KINDS)
    assert sum(verdict.trims for verdict in verdicts["trimming"]) > 30
    for kind in fabric_cases.KINDS[2:4]:
        assert sum(verdict.pauses for verdict in verdicts[kind]) > 300, kind
    hosts = [port.queue.kind for case, _ in answered["pauses of classes"] for port in case.ports]
    assert {"port", "bfifo"} <= set(hosts)


def test_whole_trimmed_and_dropped_frames_add_up(answered):
    """By the lab's counters alone: what left the hosts arrived whole, or trimmed, or was dropped.

    Frames that have the DSCP of trimmed ones from the beginning are of their class, and stay whole.
    """
    for case, reply in answered["trimming"]:
        rows, arrived = fabric_lab.rows_of(reply), parse(reply["probe"]).arrivals
        end = max(t_ns for t_ns, _ in rows)
        ends = {port: rows[end, port] for port in range(case.shape.ports) if case.shape.is_switch(port)}
        trim = case.ports[next(iter(ends))].queue.trim
        arrivals = [frame.seq in arrived for frame in case.frames if frame.dscp == trim.dscp]
        last = [row for port, row in ends.items() if not case.shape.is_switch(peer(port))]
        trimmed = sum(row[f"class {trim.number} sent_packets"] for row in last) - sum(arrivals)
        dropped = [sum(row[f"class {number} drops"] for row in ends.values()) for number in range(trim.number + 1)]
        assert len(case.frames) == len(arrived) + trimmed + sum(dropped), case.name
        assert sum(packets for packets, _ in reply["trims"]) == trimmed + dropped[-1] - arrivals.count(False), case.name


def test_rules(answered):
    for rule, (_, reply) in zip(RULES, answered["rules"], strict=False):
        rule.verify(fabric_lab.rows_of(reply), fabric_lab.arrived(reply))


def changed(case, **values):
    """Returns a case with other values in the pauses of its ports, and its own times of samples."""

    def port(base):
        pause = base.queue.pause
        return base if pause is None else replace(base, queue=replace(base.queue, pause=replace(pause, **values)))

    return with_times(case, tuple(port(fabric_port) for fabric_port in case.ports))


def with_times(case, ports):
    other = replace(case, ports=ports)
    other.__dict__["sample_times"] = case.sample_times
    return other


def other_classes(case, change):
    """Returns a case with each class of each port changed."""

    def port(base):
        return replace(base, queue=replace(base.queue, classes=tuple(change(rule) for rule in base.queue.classes)))

    return with_times(case, tuple(port(fabric_port) for fabric_port in case.ports))


@pytest.mark.parametrize(
    "values",
    [
        {"xoff_bytes": 11_500, "share_of": 0},
        {"xon_below_bytes": 2_000},
        {"headroom_bytes": 3_000},
        {"quanta": 50},
        {"reserve_bytes": 500},
        {"whole_port": True},
    ],
    ids=str,
)
def test_other_pauses_would_be_noticed(answered, values):
    assert any(fabric_lab.compare(changed(case, **values), reply).faults for case, reply in answered["pauses of classes"])


@pytest.mark.parametrize(
    "values", [{"alpha_2_16": 60_000}, {"reserve_bytes": 900}, {"quantum_bytes": 0}, {"quantum_bytes": 700}], ids=str
)
def test_other_classes_would_be_noticed(answered, values):
    pairs = answered["pools"]
    assert any(
        fabric_lab.compare(other_classes(case, lambda rule: replace(rule, **values)), reply).faults for case, reply in pairs
    )


@pytest.mark.parametrize("values", [{"bytes": 75}, {"bytes": 300}, {"dscp": 62}], ids=str)
def test_other_trimming_would_be_noticed(answered, values):
    def other(case):
        ports = tuple(
            replace(port, queue=replace(port.queue, trim=port.queue.trim and replace(port.queue.trim, **values)))
            for port in case.ports
        )
        return with_times(case, ports)

    assert any(fabric_lab.compare(other(case), reply).faults for case, reply in answered["trimming"])


def test_other_statistics_would_be_noticed(answered):
    """One unit more in each value of one port at one time."""
    case, reply = answered["pauses of classes"][0]
    lines = reply["probe"].splitlines()
    row = max(row for row, line in enumerate(lines) if line.startswith("x,"))
    words = lines[row].split(",")
    for field in range(3, len(words)):
        more = [*words[:field], str(int(words[field]) + 1), *words[field + 1 :]]
        spoilt = reply | {"probe": "\n".join([*lines[:row], ",".join(more), *lines[row + 1 :]])}
        assert fabric_lab.compare(case, spoilt).faults, fabric_lab.names_of([0] * (len(words) - 3))[field - 3]


def test_a_counter_that_differs_is_noticed(answered):
    case, reply = answered["pauses of ports"][0]
    for counter in ("flight_packets", "lost_packets", "pauses_in_flight", "tx_packets", "rx_packets", "pauses_sent"):
        devices = [dict(device) for device in reply["devices"]]
        devices[0][counter] += 1
        assert fabric_lab.compare(case, reply | {"devices": devices}).faults, counter


def test_cases_repeat() -> None:
    one, other = (list(fabric_cases.random_cases("pauses of classes", 3)) for _ in range(2))
    assert [case.job() for case in one] == [case.job() for case in other]


@pytest.mark.long
def test_an_hour_of_pauses_leaves_nothing_behind(lab_kernel):
    (reply,) = fabric_lab.play(lab_kernel, [fabric_rules.hour()])
    fabric_rules.verify_hour(fabric_lab.rows_of(reply), fabric_lab.arrived(reply), reply)


@pytest.mark.long
@pytest.mark.parametrize("kind", fabric_cases.KINDS)
def test_many_random_cases(lab_kernel, kind):
    cases = list(fabric_cases.random_cases(kind, 150))
    for case, reply in zip(cases, fabric_lab.play(lab_kernel, cases), strict=True):
        assert not fabric_lab.compare(case, reply).faults, case.name


@pytest.mark.long
@pytest.mark.parametrize("rule", fabric_rules.RULES, ids=lambda rule: rule.name)
def test_all_rules(lab_kernel, rule):
    (reply,) = fabric_lab.play(lab_kernel, [rule.case()])
    assert not fabric_lab.compare(rule.case(), reply).faults
    rule.verify(fabric_lab.rows_of(reply), fabric_lab.arrived(reply))
