# SPDX-License-Identifier: Apache-2.0
"""`dcgym schema`: what the JSON Schema of specs takes and refuses.

tests/conftest.py checks every spec that a test loads against it.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dc_gym import spec
from dc_gym.base import amount, units
from dc_gym.base.errors import SpecError
from dc_gym.base.key import all_fields
from dc_gym.cli.main import main
from dc_gym.cli.schema import schema, to_json
from dc_gym.spec.experiment import SECTIONS

ROOT = Path(__file__).parents[2]
COPY = ROOT / "docs" / "spec.schema.json"
SPECS = [path for path in sorted((ROOT / "examples").rglob("*.toml")) if "topology" in tomllib.loads(path.read_text())]
GOOD: dict[str, Any] = {
    "topology": {
        "preset": "acc24",
        "buffer": "5.5bdp",
        "loss": 0.001,
        "links": [{"between": ["leaf", "spine"], "rate": "40 gbit"}],
    },
    "controller": {"name": "dctcp"},
    "workload": {"kind": "incast", "senders": 3, "size": "64kB", "exec": [{"host": "h1", "command": "true"}]},
    "time": {"duration": "1s"},
}
OVER_RDMA: dict[str, Any] = {
    "controller": {"name": "dcqcn"},
    "nic": {"parameters": {"g": 4}, "latency": "900ns"},
    "workload": {"kind": "incast", "senders": 3, "size": "64kB"},
}
WRONG: dict[str, tuple[str, Any]] = {
    "an unknown key": ("topology.rat", "1Gbit/s"),
    "an unknown key at the top": ("topologie", {}),
    "an unknown key of a link": ("topology.links.0.speed", 1),
    "an unknown key of a program": ("workload.exec.0.when", "1s"),
    "an unknown section's key": ("monitor", {"every": "1ms"}),
    "an unknown preset": ("topology.preset", "acc25"),
    "an unknown kind": ("workload.kind", "incats"),
    "an unknown marking": ("topology.marking", "secn9"),
    "an unknown marking of a link": ("topology.links.0.marking", "secn9"),
    "an unknown controller": ("controller.name", "dcqc"),
    "a TCP that no NIC caps": ("nic.tcp", "dctcp"),
    "another kind's key": ("workload.load", 0.5),
    "a bare rate": ("topology.rate", 10),
    "a rate in bytes": ("topology.rate", "10MB/s"),
    "a rate that tc reads as bytes": ("topology.rate", "10Mbps"),
    "an ambiguous size": ("workload.size", "64KB"),
    "a time without unit": ("time.duration", "1"),
    "a negative time": ("time.duration", "-1s"),
    "no amount": ("topology.buffer", "2.5rtt"),
    "a bare buffer": ("topology.buffer", 1000),
    "a share above 1": ("topology.loss", 1.1),
    "a share in words": ("topology.loss", "much"),
    "a count below": ("workload.senders", 0),
    "a count above": ("topology.scale", 10**6 + 1),
    "a fraction of a count": ("workload.senders", 1.5),
    "a number as text": ("seed", "1"),
    "a name of numbers": ("name", 7),
    "one end of a link": ("topology.links.0.between", ["leaf"]),
    "a link without ends": ("topology.links", [{"rate": "1Gbit/s"}]),
    "a program without command": ("workload.exec", [{"host": "h1"}]),
    "parameters that are no table": ("nic.parameters", 3),
    "plug-ins that are no list": ("plugins", "ring.py"),
    "an actuator that is misspelt": ("agent.actuators", "s1-*:ma=rking"),
    "an actuator without a name": ("agent.actuators", "rate,s1-*:"),
    "no actuator": ("agent.actuators", ""),
    "another version": ("spec_version", 2),
}


def changed(key: str, value: Any) -> dict[str, Any]:
    """Returns GOOD with another value of a dotted key; None removes the key."""
    document = copy.deepcopy(GOOD)
    *outer, name = key.split(".")
    table: Any = document
    for part in outer:
        table = table[int(part)] if part.isdecimal() else table.setdefault(part, {})
    if value is None:
        del table[name]
    else:
        table[name] = value
    return document


def faults(document: dict[str, Any], json_schema: dict[str, Any] | None = None) -> list[str]:
    return [error.message for error in Draft202012Validator(json_schema or schema()).iter_errors(document)]


def test_it_is_a_schema_of_its_draft() -> None:
    Draft202012Validator.check_schema(schema())
    for document in (GOOD, GOOD | OVER_RDMA):
        assert not faults(document) and spec.from_dict(document | {"name": "good"}, ROOT).name == "good"


@pytest.mark.parametrize(("key", "value"), WRONG.values(), ids=WRONG.keys())
def test_wrong_specs_are_refused_by_the_schema_and_by_the_loader(key: str, value: Any) -> None:
    wrong = changed(key, value)
    assert faults(wrong)
    with pytest.raises(SpecError):
        spec.from_dict(wrong, ROOT)


@pytest.mark.parametrize("key", ["topology", "topology.preset", "controller", "controller.name", "workload", "workload.kind",
                                 "workload.senders", "time", "time.duration"])  # fmt: skip
def test_what_every_spec_has_is_required(key: str) -> None:
    assert faults(changed(key, None))


@pytest.mark.parametrize("path", SPECS, ids=[path.stem for path in SPECS])
def test_the_examples_are_valid(path: Path) -> None:
    assert not faults(tomllib.loads(path.read_text()))


def test_plug_ins_open_it_for_names_and_keys() -> None:
    """Only where plug-ins may add: not in [time]. Types are checked all the same."""
    with_plug_in = GOOD | {"plugins": ["mine.py"]}
    tables = {"topology": {"kind": "mine", "size": 5, "marking": "mine"}, "workload": {"kind": "mine", "x": 1}}
    assert not faults(with_plug_in | tables) and faults(GOOD | tables)
    assert faults(with_plug_in | tables | {"time": {"duration": "1s", "x": 1}})
    assert faults(with_plug_in | {"topology": {"kind": "mine", "rate": 5}})
    assert faults(with_plug_in | {"topology": {"kind": "dumbbell", "pairs": "a"}}), "the kinds that it knows are checked"
    assert faults(with_plug_in | {"topology": {"kind": "dumbbell", "pairs": 2, "k": 4}})


@pytest.mark.usefixtures("registries")
def test_the_command_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    """With a plug-in it has its names and keys, and is closed again."""
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == COPY.read_text() == to_json(schema())
    assert main(["schema", "--plugin", str(ROOT / "examples" / "ring.py")]) == 0
    ring_schema = json.loads(capsys.readouterr().out)
    ring = tomllib.loads((ROOT / "examples" / "ring.toml").read_text())
    assert not faults(ring, ring_schema) and ring_schema["title"] == "dc-gym experiment with ring.py"
    for key, value in (("sise", 3), ("size", 2), ("ring_rate", 5), ("kind", "rink"), ("pairs", 2)):
        assert faults(ring | {"topology": ring["topology"] | {key: value}}, ring_schema), key
    assert faults({**ring, "topology": {key: value for key, value in ring["topology"].items() if key != "size"}}, ring_schema)


def test_every_key_is_described() -> None:
    properties = schema()["properties"]
    for section, cls in SECTIONS.items():
        table = properties[section]["properties"] if section else properties
        for name in all_fields(cls):
            assert len(table[name]["description"]) > 3 and "](" not in table[name]["description"], f"{section}.{name}"


TEXTS = """10Mbit/s|10 Mbit/s|10mbit|10MBIT/S|2.5us|2.5 \u00b5s|5msec|3SECS|400kB|512MiB|512miB|1B|100p|2bdp|0.5BDP
10Mbps|10MB/s|400KB|400k|1e3ns|ms|10|| 1s|1  s|-1s|1s """.replace("\n", "|").split("|")
"""Texts that are quantities, and texts that are none."""


@pytest.mark.parametrize("text", TEXTS)
def test_patterns_take_what_the_loader_takes(text: str) -> None:
    parsers = {
        units.pattern(units.RATE_UNITS): units.parse_rate_bps,
        units.pattern(units.TIME_UNITS): units.parse_time_ns,
        units.pattern(units.SIZE_UNITS): units.parse_size_bytes,
        amount.PATTERN: amount.parse,
    }
    for pattern, parse in parsers.items():
        try:
            parse(text)
            taken = True
        except SpecError:
            taken = False
        assert (re.fullmatch(pattern, text) is not None) == taken, pattern
