# SPDX-License-Identifier: Apache-2.0
"""`dcgym list NAME`: every name that a spec can take, with the keys that it reads."""

from __future__ import annotations

from itertools import takewhile

import pytest

from dc_gym import spec
from dc_gym.cli import list as listing
from dc_gym.cli.main import main
from dc_gym.ctrl import actuators, controllers
from dc_gym.ctrl.nic import algorithms
from dc_gym.run.agent import policies
from dc_gym.topologies import marking, presets
from dc_gym.traffic.workloads import KINDS


def said(capsys: pytest.CaptureFixture[str], name: str) -> str:
    assert main(["list", name]) == 0
    return capsys.readouterr().out


def test_every_key_says_what_it_means() -> None:
    assert listing.meanings()["topology.hosts"] == ("-", "hosts on the switch")
    assert not [key for key, (_, meaning) in listing.meanings().items() if meaning == "-"]


@pytest.mark.parametrize("file", listing.FILES)
def test_every_file_of_a_result_shows_its_columns(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split(maxsplit=1) for line in said(capsys, file).splitlines()[2:]]
    assert rows and all(len(row) == 2 and row[1] != "-" for row in rows)


@pytest.mark.parametrize(
    "name",
    [
        *KINDS,
        *presets.PRESETS,
        *presets.TOPOLOGIES,
        *marking.KINDS,
        *actuators.names(),
        *policies.names(),
        "cubic",
        "agent",
        "lab",
    ],
)
def test_every_name_shows_keys_that_there_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, name).splitlines()
    tables = [lines[number + 1 :] for number, line in enumerate(lines) if line.startswith("key ")]
    workload, topology, others = name in KINDS, name in presets.TOPOLOGIES, name in (*marking.KINDS, *policies.names())
    nic = name in algorithms.names()  # its keys, beside those of what else has the name
    assert len(tables) == max(1, workload + topology + others + (nic and (workload or others)))
    for table in tables:
        keys = [row.split()[0] for row in takewhile(bool, table)]
        assert keys and set(keys) <= set(spec.keys()) and len(set(keys)) == len(keys)


def test_a_workload_has_its_own_keys_and_those_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "incast")
    assert "workload.senders " in out and "workload.gaps " in out and "workload.load " not in out
    cells = " ".join(out.split())  # without the widths of columns
    assert 'workload.size a size with its unit such as "400kB" needed payload of each flow' in cells
    assert 'workload.interval a time with its unit such as "10ms" "0ns" time from the end of a round' in cells


def test_keys_have_their_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    cells = " ".join(said(capsys, "fattree").split())
    assert "topology.k a whole number such as 4, at least 2, at most 16 needed" in cells
    assert 'topology.rate a rate with its unit such as "10Mbit/s", at most 10000Gbit/s' in cells


def test_a_preset_has_the_keys_of_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "fattree-k4")
    assert "16 hosts, 1Gbit/s" in out and "topology.k " in out and "topology.pairs" not in out


def test_an_algorithm_of_the_nics_has_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "dcqcn")
    assert "rate_ai" in out and "nic.timeout " in out


def test_every_controller_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    names = [line.split()[0] for line in said(capsys, "controllers").splitlines()[1:]]
    assert names == list(controllers.names())
