# SPDX-License-Identifier: Apache-2.0
"""The C code by itself: its unit tests under ASan and UBSan, and its parsers fuzzed."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-g",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Idc_gym/daemon",
    "-Imonitors",
    "-Itraffic/tgen",
    "-Ictrl/agent",
    "-Ictrl/nic",
    "-Ikernel/drivers",
]
RECORD_FILE = ("dc_gym/daemon/record_file.c", "dc_gym/daemon/fault.c")
UNIT_TESTS = {
    "test_nl": ("dc_gym/daemon/nl.c", "dc_gym/daemon/netns.c", "dc_gym/daemon/batch.c", "monitors/qdisc.c"),
    "test_matrix": ("monitors/matrix.c",),
    "test_record_file": RECORD_FILE,
    "test_options": ("dc_gym/daemon/options.c", "dc_gym/daemon/program.c"),
    "test_ports": ("monitors/ports.c", *RECORD_FILE),
    "test_actuators": ("ctrl/agent/actuators.c", *RECORD_FILE),
    "test_enforce": (
        "ctrl/agent/enforce.c", "ctrl/agent/actuators.c", "monitors/qdisc.c", "dc_gym/daemon/nl.c", "dc_gym/daemon/netns.c",
        "dc_gym/daemon/batch.c", *RECORD_FILE,
    ),
    "test_nic_rows": ("ctrl/nic/rows.c",),
    "test_commands": ("ctrl/agent/commands.c",),
    "test_control": (
        "ctrl/agent/control.c", "ctrl/agent/actuators.c", "dc_gym/daemon/batch.c", "dc_gym/daemon/netns.c", *RECORD_FILE,
    ),
    "test_batch": ("dc_gym/daemon/batch.c",),
    "test_flow_table": ("traffic/tgen/flow_table.c", *RECORD_FILE),
    "test_tgen_parts": tuple(f"traffic/tgen/{name}.c" for name in (
        "slots", "tgen_flow", "tgen_log", "tgen_timers", "tgen_warm", "tgen_matrix", "tgen_net", "tgen_pace", "tgen_publish",
        "tgen_udp", "tgen_rdma", "tgen_nic", "tgen_pairs",
    )),
    "test_tgen_rdma": tuple(f"traffic/tgen/{name}.c" for name in (
        "tgen_rdma", "tgen_pairs", "tgen_pace", "tgen_timers", "slots",
    )),
}  # fmt: skip
FUZZERS = {
    "fuzz_nl": ("dc_gym/daemon/nl.c", "dc_gym/daemon/netns.c", "dc_gym/daemon/batch.c", "monitors/qdisc.c"),
    "fuzz_ports": ("monitors/ports.c", *RECORD_FILE),
    "fuzz_actuators": ("ctrl/agent/actuators.c", *RECORD_FILE),
    "fuzz_nics": ("ctrl/nic/nics.c", "ctrl/nic/rows.c", *RECORD_FILE),
    "fuzz_flow_table": ("traffic/tgen/flow_table.c", *RECORD_FILE),
}
SHORT_S, LONG_S = 3, 60


def compiled(compiler, name, sources, sanitizers, tmp_path, *libraries):
    out = tmp_path / name
    argv = [compiler, *FLAGS, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-o", str(out)]
    argv += [f"tests/c/{name}.c", *sources, *libraries]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("name", UNIT_TESTS)
def test_unit(name, tmp_path):
    program = compiled("cc", name, UNIT_TESTS[name], "address,undefined", tmp_path, "-lcmocka", "-pthread")
    done = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def fuzz(name, seconds, tmp_path):
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed: apt-get install clang")
    program = compiled("clang", name, FUZZERS[name], "fuzzer,address,undefined", tmp_path)
    argv = [str(program), f"-max_total_time={seconds}", "-print_final_stats=1", "-seed=1"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    runs = [int(line.split()[-1]) for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
    assert runs and runs[0] > 1000, done.stderr[-2000:]


@pytest.mark.parametrize("name", FUZZERS)
def test_fuzz_briefly(name, tmp_path):
    fuzz(name, SHORT_S, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", FUZZERS)
def test_fuzz_for_a_minute(name, tmp_path):
    fuzz(name, LONG_S, tmp_path)


def test_every_c_test_is_run():
    """A file in tests/c that no table names would never run."""
    found = {path.stem for path in (ROOT / "tests" / "c").glob("*.c")}
    assert found - {"rlcc_steps"} == set(UNIT_TESTS) | set(FUZZERS)
