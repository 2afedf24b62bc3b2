# SPDX-License-Identifier: Apache-2.0
"""The queueing discipline `port` against the FIFO oracle, frame by frame, and what the comparison catches.

Random networks mark by steps and slopes as frames arrive or depart, and write telemetry. Departures, arrivals, drops, marks and
records must be equal, and at random times so must backlogs, integrals, busy times, longest queues and bytes with CE. The same
frames also pass stock queues, bfifo and RED, as far as those can do it. Some paths are longer than the records of a frame.
"""

from __future__ import annotations

from dataclasses import replace

import port_cases
import pytest

from dc_gym.base.splitmix import splitmix64
from dc_gym.benchmarks.checks import links
from dc_gym.topologies.telemetry import MOST_HOPS

pytestmark = pytest.mark.lab
COUNT = 12


def groups(count):
    """Returns cases by their kind."""
    at_arrival, telemetry = list(port_cases.marking(count, "arrival")), list(port_cases.telemetry(2 * count))
    return {
        "marks at arrival": at_arrival,
        "marks at departure": list(port_cases.marking(count, "departure")),
        "steps at arrival": list(port_cases.steps(at_arrival, stock=False)),
        "the same on bfifo and RED": list(port_cases.steps(at_arrival, stock=True)),
        "telemetry, marks at arrival": [case for case in telemetry if case.ports[0].marks_at == "arrival"],
        "telemetry, marks at departure": [case for case in telemetry if case.ports[0].marks_at == "departure"],
    }


def answers(kernel, cases):
    """Returns the cases with the lab's answers, by kind."""
    replies = iter(links.play(kernel, [case.job() for group in cases.values() for case in group]))
    return {name: [(case, next(replies)) for case in group] for name, group in cases.items()}


@pytest.fixture(scope="module")
def answered(lab_kernel):
    return answers(lab_kernel, groups(COUNT))


def verify(answered):
    for pairs in answered.values():
        for case, reply in pairs:
            verdict = links.compare(case, reply)
            assert not verdict.faults and verdict.worst_ns == 0, case.name


def test_the_lab_is_what_the_oracle_says(answered):
    verify(answered)


@pytest.mark.long
def test_many_random_cases(lab_kernel):
    verify(answers(lab_kernel, groups(150)))


def test_the_cases_are_worth_it(answered):
    verdicts = {name: [links.compare(*pair) for pair in pairs] for name, pairs in answered.items()}
    for name in ("marks at arrival", "marks at departure"):
        assert sum(verdict.marks for verdict in verdicts[name]) > 50, name
    assert (
        sum(verdict.records for verdict in [*verdicts["telemetry, marks at arrival"], *verdicts["telemetry, marks at departure"]])
        > 500
    )
    cases = [case for case, _ in [*answered["telemetry, marks at arrival"], *answered["telemetry, marks at departure"]]]
    assert any(sum(port.int_rate is not None for port in case.ports) > MOST_HOPS for case in cases), "some paths are too long"
    slopes = [port for pairs in answered.values() for case, _ in pairs for port in case.ports if port.kmax_bytes]
    assert {port.marks_at for port in slopes} == {"arrival", "departure"}


def noticed(pairs, change):
    """Returns whether some case differs once its ports are changed."""
    return any(
        links.compare(replace(case, ports=tuple(change(port) for port in case.ports)), reply).faults for case, reply in pairs
    )


def other_moment(port):
    return replace(port, marks_at="departure" if port.marks_at == "arrival" else "arrival")


def other_slope(port):
    return replace(port, pmax_ppm=port.pmax_ppm // 2) if port.kmax_bytes else port


def other_seed(port):
    return replace(port, seed=port.seed + 1)


def other_place(port):
    return port if port.int_rate is None else replace(port, int_rate=(port.int_rate + 1) % 8)


def silent(port):
    return replace(port, int_rate=None)


@pytest.mark.parametrize("kind", ["marks at arrival", "marks at departure"])
@pytest.mark.parametrize("change", [other_moment, other_slope, other_seed])
def test_other_marks_would_be_noticed(answered, kind, change):
    assert noticed(answered[kind], change)


@pytest.mark.parametrize("change", [other_place, silent])
def test_other_records_would_be_noticed(answered, change):
    assert noticed([*answered["telemetry, marks at arrival"], *answered["telemetry, marks at departure"]], change)


@pytest.mark.parametrize("field", range(2, 7))
def test_other_statistics_would_be_noticed(answered, field):
    """One unit more in one statistic of one port at one time."""
    case, reply = answered["marks at arrival"][0]
    lines = reply["probe"].splitlines()
    row = max(row for row, line in enumerate(lines) if line.startswith("s,"))
    words = lines[row].split(",")
    words[field + 1] = str(int(words[field + 1]) + 1)
    changed = reply | {"probe": "\n".join([*lines[:row], ",".join(words), *lines[row + 1 :]])}
    assert links.compare(case, changed).faults


def test_a_sequence_known_from_elsewhere() -> None:
    """The first numbers of splitmix64 with seed 1234567, as its authors' reference code prints them."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [splitmix64(1234567, n) for n in range(5)] == known


def test_cases_repeat() -> None:
    one, other = (list(port_cases.telemetry(3)) for _ in range(2))
    assert [case.job() for case in one] == [case.job() for case in other]
