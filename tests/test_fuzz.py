# SPDX-License-Identifier: Apache-2.0
"""Python's readers of what others wrote: an input is accepted, or refused in one line, and never anything else."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest
from readers import READERS, Reader, accepted

from dc_gym import spec
from dc_gym.base import outputs
from dc_gym.base.errors import AgentError, ProtocolError, ResultError, SpecError, UsageError
from dc_gym.cli.conformance.script import ScriptError, parse
from dc_gym.cli.verify import golden
from dc_gym.cli.watch import snapshot
from dc_gym.learn.rllib import checkpoints, manifest
from dc_gym.monitors.state_matrix import COMMANDS, MAX_VALUES, StateMatrix
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.nets.policy_file import digest
from dc_gym.results import results
from dc_gym.results.copies import policies
from dc_gym.results.metrics import ideal
from tests.monitors.test_state_matrix import OFF_COMMANDS, rows_of, with_agent
from tests.run.agent.test_policy_file import changed, manifest_of

MINIMAL = Path(__file__).parents[1] / "examples" / "dumbbell.toml"
DEEP = "[" * 100_000 + "]" * 100_000
LONG = "9" * 5000
HUGE = "0x" + "f" * 5000
"""An integer that Python reads, but does not write as a decimal number."""

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("name", READERS)
def test_every_valid_input_is_accepted(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    seeds = reader.seeds(tmp_path)
    assert seeds and all(accepted(reader, data, tmp_path) for data in seeds)


def taken(reader: Reader, name: str, count: int, folder: Path) -> int:
    """Returns how many of `count` spoilt inputs were accepted."""
    tries = reader.tries(folder, name, count)
    return sum(accepted(reader, data, folder) for data in tries) - len(reader.seeds(folder))


@pytest.mark.parametrize("name", READERS)
def test_spoilt_inputs_are_accepted_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    count = taken(reader, name, reader.inputs, tmp_path)
    assert 0 < count < reader.inputs, "what lies behind acceptance, and the refusals, are both reached"


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_more_spoilt_inputs(name: str, tmp_path: Path) -> None:
    assert taken(READERS[name], f"{name}, long", 5 * READERS[name].inputs, tmp_path) > 0


# --- what was found


def test_a_policy_whose_array_claims_more_than_memory_is_refused(tmp_path: Path) -> None:
    for number, shape in enumerate(("(1000000000000000,)", "(1, (", ",", "(" * 500)):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        path = tmp_path / f"{number}.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("manifest.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        with pytest.raises(AgentError, match=r"\.npz file"):
            NicPolicy.read(path)


def test_a_policy_whose_manifest_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "deep.npz", manifest=np.array(DEEP))
    with pytest.raises(AgentError, match="it has no manifest"):
        NicPolicy.read(tmp_path / "deep.npz")


@pytest.mark.parametrize(("network", "array", "value"), [
    ("rlcc-mlp", "W0", np.array("x")), ("rlcc-mlp", "W1", np.array([1 + 1j])), ("rlcc-tree", "inputs", np.array("x")),
    ("rlcc-tree", "inputs", np.array([[np.nan] * 4])),
])  # fmt: skip
def test_a_nic_s_array_that_holds_no_such_numbers_is_refused(network: str, array: str, value: np.ndarray, tmp_path: Path) -> None:
    manifest = manifest_of(nic_policy.shipped(network))
    with np.load(nic_policy.shipped(network)) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "manifest"} | {array: value}
    del manifest["sha256"]
    manifest["sha256"] = digest(manifest, arrays)
    np.savez(tmp_path / "wrong.npz", manifest=np.array(json.dumps(manifest)), **arrays)
    with pytest.raises(AgentError, match=f"array '{array}' is of .*, not of"):
        NicPolicy.read(tmp_path / "wrong.npz")


def test_a_nic_s_scaling_is_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    path.write_bytes(nic_policy.shipped("rlcc-mlp").read_bytes())
    payload = manifest_of(path)["payload"]
    payload["scaling"]["target"] = []
    with pytest.raises(AgentError, match=r"target.*\[\].*number"):
        NicPolicy.read(changed(path, payload=payload))


def test_an_actuator_of_too_many_values_is_refused() -> None:
    memory = with_agent()
    rows_of(memory)["n_values"][1] = MAX_VALUES + 1
    with pytest.raises(ProtocolError, match="an actuator has 5 values"):
        StateMatrix.over(memory)


def test_the_number_of_a_command_starts_anew_behind_the_largest() -> None:
    memory = with_agent()
    np.frombuffer(memory, COMMANDS, 1, OFF_COMMANDS)["seq"][0] = 2**64 - 1
    commands = StateMatrix.over(memory).commands
    assert commands.send([1, 1]) == commands.seq == 2


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("", f"x = {DEEP}\n", "too deep"),
        ("", f"seed = {LONG}\n", "not valid TOML"),
        ("seed = 1\n", f"seed = {HUGE}\n", "thousands of digits"),
        ('duration = "30s"', f'duration = "{LONG}s"', "is not a number with a unit"),
    ],
)
def test_a_spec_that_python_cannot_read_or_quote_is_refused(before: str, after: str, words: str, tmp_path: Path) -> None:
    text = MINIMAL.read_text()
    assert before in text
    (tmp_path / "spec.toml").write_text(text.replace(before, after) if before else after + text)
    with pytest.raises(SpecError, match=words):
        spec.load(tmp_path / "spec.toml")


@pytest.mark.parametrize("value", [DEEP, LONG, HUGE], ids=["deep", "long", "huge"])
def test_a_value_set_by_the_command_line_that_python_cannot_read_or_quote_is_refused(value: str) -> None:
    with pytest.raises(SpecError):
        spec.load(MINIMAL, [f"seed={value}"])


def test_a_plain_spec_or_result_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    for name in results.FILES:
        (tmp_path / name).write_text(DEEP)
    with pytest.raises(SpecError, match="too deep"):
        spec.load(tmp_path / "manifest.json")
    with pytest.raises(ResultError, match="not valid JSON"):
        results.load_result(tmp_path)
    (tmp_path / "spec.toml").write_bytes(MINIMAL.read_bytes())
    assert spec.load(tmp_path / "spec.toml").name == "dumbbell", "beside a manifest.json that is none"


NO_JSON_OF_OURS = {
    "deep": DEEP.encode(), "long": LONG.encode(), "a list": b"[]", "a number": b"1", "no text": b"\xff", "nothing": b"",
    "endless": json.dumps({"version": 1, **dict.fromkeys(("steps", "digest_version", "duration_ns"), math.inf), "entries": {},
                           "history": [], "graph": {}, "size_bytes": [math.inf], "fct_ns": [1]}).encode(),
}  # fmt: skip
"""Files that are no JSON, or not the JSON that a reader expects."""


@pytest.mark.parametrize("content", NO_JSON_OF_OURS.values(), ids=NO_JSON_OF_OURS.keys())
def test_a_json_file_that_is_none_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for file in (path, tmp_path / manifest.NAME, tmp_path / checkpoints.INFO_FILE, tmp_path / "manifest.json"):
        file.write_bytes(content)
    refusals = {
        "golden digests": lambda: golden.Book.read(path),
        "a record of golden digests": lambda: golden._recorded(path),
        "a training": lambda: manifest.read(tmp_path),
        "a checkpoint": lambda: checkpoints.steps_of(tmp_path),
    }
    for name, read in refusals.items():
        with pytest.raises(UsageError) as excinfo:
            read()
        assert str(tmp_path) in str(excinfo.value) and "\n" not in str(excinfo.value), name
    assert not outputs.is_json_of(version=2)(path)
    assert ideal._read(path) == {}
    assert policies({"policy.npz": tmp_path / "policy.npz"}).keys() == {"policy.npz"}
    assert snapshot.NetworkConstants.of(("s1-eth1",), path).duration_ns is None


def test_a_key_without_a_name_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text('"" = 1\n' + MINIMAL.read_text())
    with pytest.raises(SpecError, match="unknown key"):
        spec.load(tmp_path / "spec.toml")


def test_a_script_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ScriptError, match="too deep"):
        parse(f"0 socket({'[' * 3000}{']' * 3000}) = 3\n", "t")
