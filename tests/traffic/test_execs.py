# SPDX-License-Identifier: Apache-2.0
"""Programs in hosts: what a spec may ask for; a mistake is reported before anything boots. Runs: test_traffic_runs.py."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from exec_spec import spec_text

from dc_gym import spec
from dc_gym.base.errors import SpecError
from dc_gym.traffic.execs import ExecRequest, from_json, to_json

S = 10**9


@pytest.fixture
def load(tmp_path):
    def go(*programs):
        (tmp_path / "spec.toml").write_text(spec_text("".join(f"[[workload.exec]]\n{text}\n" for text in programs)))
        return spec.load(tmp_path / "spec.toml")

    return go


def test_requests(load, tmp_path):
    (tmp_path / "own").write_text("#!/bin/sh\n")
    (tmp_path / "own").chmod(0o755)
    read = load(
        'host = "h1"\ncommand = "sh -c \'echo {h3} {x} {X9}\'"\nstart = "5ms"\nstop = "9s"',
        'host = "h2"\ncommand = "./own a\\\\ b"\nstop = "1s"',
    )
    requests = read.execs(read.graph())
    assert requests == [
        ExecRequest("h1", ("sh", "-c", "echo 10.0.0.3 {x} {X9}"), 5_000_000, 2 * S),
        ExecRequest("h2", (str(tmp_path / "own"), "a b"), 0, S),
    ]
    assert from_json(to_json(requests)) == requests
    assert spec.from_dict(read.to_dict(), tmp_path / "elsewhere") == read  # a manifest knows where the program was
    assert read.flows(read.graph()) == []
    (tmp_path / "own").unlink()
    assert spec.from_dict(read.to_dict(), tmp_path) == read, "a run of long ago can be looked at without its programs"


def test_names_in_braces_that_are_meant_for_no_host_stay(load):
    """A program may have braces of its own. A host of a Mininet file may have capitals in its name."""
    read = load('host = "h1"\ncommand = "true {print} {h2} {A}"')
    graph = read.graph()
    assert read.execs(graph)[0].argv == ("true", "{print}", graph.hosts[1].address, "{A}")
    named = replace(graph.hosts[1], name="A")
    renamed = SimpleNamespace(hosts=(named,), switches=())
    assert read.workload.exec[0].request(renamed, 1).argv == ("true", "{print}", "{h2}", named.address)


def test_none_without_programs(load):
    assert load().execs(load().graph()) == []


@pytest.mark.parametrize(("program", "message"), [
    ('host = "h1"\ncommand = "no-such-program -x"', "there is no program 'no-such-program'; install it"),
    ('host = "h1"\ncommand = "./missing"', "there is no program"),
    ('host = "h9"\ncommand = "true"', "workload.exec[0].host = \"h9\": is not one of the hosts h1 .. h4"),
    ('host = "h1"', "workload.exec[0].command: is missing"),
    ('command = "true"', "workload.exec[0].host: is missing"),
    ('host = "h1"\ncommand = "sh -c \'x"', "cannot be split into words"),
    ('host = "h1"\ncommand = "true"\nstart = "9s"', "is not before time.duration"),
    ('host = "h1"\ncommand = "true"\nstart = "1s"\nstop = "1s"', "is not after its start"),
    ('host = "h1"\ncommand = "true"\nwhen = "1s"', "workload.exec[0].when: unknown key"),
    ('host = "h1"\ncommand = " "', "names no program"),
    ('host = "h1"\ncommand = "true {h9}"', '{h9} is the address of no host; h1 .. h4 have one'),
    ('host = "h1"\ncommand = "true {s1}"', '{s1} is the address of no host'),
])  # fmt: skip
def test_mistakes(load, program, message):
    with pytest.raises(SpecError) as excinfo:
        load(program)
    assert message in str(excinfo.value) and "\n" not in str(excinfo.value)


@pytest.mark.lab
def test_a_program_that_polls_is_named_with_its_host(tmp_path, lab_kernel):
    (tmp_path / "spec.toml").write_text(POLLS)
    argv = [sys.executable, "-m", "dc_gym.cli.main", "run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out")]
    child = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    notice, hangs = (line for line in child.stderr.splitlines() if "h1: python3 -c" in line and line.startswith("dcgym"))
    assert "has computed for 3 s without a pause" in notice and "let it sleep, poll or read" in notice
    assert child.returncode == 1 and hangs.startswith("dcgym: the lab hangs") and "let it wait in sleep, poll or read" in hangs


POLLS = """
name = "polls"
topology = { kind = "single", hosts = 2, rate = "1Gbit/s", delay = "1us", buffer = "1MB" }
controller.name = "cubic"
lab.watchdog = "10s"
workload.kind = "none"
workload.exec = [{ host = "h1", command = 'python3 -c "import os; [os.sched_yield() for _ in iter(int, 1)]"' }]
time.duration = "10ms"
"""
