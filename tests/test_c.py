# SPDX-License-Identifier: Apache-2.0
"""The C code by itself: its unit tests under ASan and UBSan, and its parsers fuzzed."""

import shutil
import subprocess

import pytest
from c_fuzzers import BATCH, FUZZERS, RECORD_FILE, ROOT, build_fuzzer, compiled, fuzz, seeds

UNIT_TESTS = {
    "test_nl": ("dc_gym/daemon/nl.c", "dc_gym/daemon/netns.c", *BATCH, "monitors/qdisc.c"),
    "test_matrix": ("monitors/matrix.c",),
    "test_record_file": RECORD_FILE,
    "test_options": ("dc_gym/daemon/options.c", "dc_gym/daemon/program.c"),
    "test_ports": ("monitors/ports.c", *RECORD_FILE),
    "test_actuators": ("ctrl/agent/actuators.c", *RECORD_FILE),
    "test_events_file": ("ctrl/agent/events_file.c", *RECORD_FILE),
    "test_enforce": (
        "ctrl/agent/enforce.c", "ctrl/agent/actuators.c", "monitors/matrix.c", "monitors/qdisc.c",
        "dc_gym/daemon/nl.c", "dc_gym/daemon/netns.c", *BATCH, *RECORD_FILE,
    ),
    "test_nic_rows": ("ctrl/nic/rows.c",),
    "test_commands": ("ctrl/agent/commands.c",),
    "test_control": (
        "ctrl/agent/control.c", "ctrl/agent/actuators.c", *BATCH, "dc_gym/daemon/netns.c", *RECORD_FILE,
    ),
    "test_batch": BATCH,
    "test_calls": ("dc_gym/daemon/calls.c",),
    "test_boot_file": ("kernel/boot_file.c",),
    "test_flow_table": ("traffic/tgen/flow_table.c", *RECORD_FILE),
    "test_job": (*(f"traffic/tgen/{name}.c" for name in ("job_table", "job_state", "tgen_job", "tgen_timers")), *RECORD_FILE),
    "test_tgen_parts": tuple(f"traffic/tgen/{name}.c" for name in (
        "tgen_log", "tgen_timers", "tgen_warm", "tgen_matrix", "tgen_pace", "tgen_publish", "tgen_nic",
    )),
    "test_tgen_rdma": (*(f"traffic/tgen/{name}.c" for name in (
        "tgen_rdma", "tgen_pairs", "tgen_pace", "tgen_timers", "tgen_clock", "flow_gates", "flow_state", "slots",
    )), "dc_gym/daemon/calls.c"),
}  # fmt: skip
BRIEFLY = 10_000
"""Executions of a brief run. A time would make its outcome hang on the machine."""
LONG_S = 60


@pytest.mark.parametrize("name", UNIT_TESTS)
def test_unit(name, tmp_path):
    program = compiled("cc", name, UNIT_TESTS[name], "address,undefined", tmp_path, "-lcmocka", "-pthread")
    child = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr


@pytest.fixture
def clang():
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed: apt-get install clang")


@pytest.mark.parametrize("name", FUZZERS)
def test_fuzz_briefly(name, tmp_path, clang):
    """Each valid input is accepted, and so are some of those that are made from it: what lies behind acceptance is reached."""
    program = build_fuzzer(name, tmp_path)
    valid = seeds(name, tmp_path)
    reached = fuzz(program, valid, "-runs=0", tmp_path)
    assert reached.accepted >= len(valid) and reached.rows >= len(valid), reached
    more = fuzz(program, valid, f"-runs={BRIEFLY}", tmp_path)
    assert more.accepted > reached.accepted, more


@pytest.mark.long
@pytest.mark.parametrize("name", FUZZERS)
def test_fuzz_for_a_minute(name, tmp_path, clang):
    fuzz(build_fuzzer(name, tmp_path), seeds(name, tmp_path), f"-max_total_time={LONG_S}", tmp_path)


def test_every_c_test_is_run():
    """A file in tests/c that no table names would never run."""
    test_names = {path.stem for path in (ROOT / "tests" / "c").glob("*.c")}
    assert test_names == set(UNIT_TESTS) | set(FUZZERS)
