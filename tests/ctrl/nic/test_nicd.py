# SPDX-License-Identifier: Apache-2.0
"""The NIC's loader: a file that is wrong, programs that the kernel refuses, and devices as they were before."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from facts import states
from nic_guest import SETTINGS

from dc_gym.base import record_file
from dc_gym.ctrl.nic import build
from dc_gym.run.plan import inputs

BIN = Path(__file__).resolve().parents[3] / "dc_gym" / "bin"
FLOW = {
    "message_bytes": 64000,
    "total_bytes": 64000,
    "src_nic": 0,
    "src_addr": (10, 0, 0, 1),
    "dst_addr": (10, 0, 0, 2),
    "base_rtt_ns": 20000,
    "hops": 2,
    "dscp": 0,
    "answer_dscp": 0,
    "cnp_dscp": 0,
    "src_mac": (2, 0, 0, 0, 0, 1),
    "dst_mac": (2, 0, 0, 0, 0, 2),
    "src_port": 1000,
    "tcp_dst_port": 0,
}
GOOD: dict[str, Any] = {
    "line_bps": 10**9,
    "tail": "nic1",
    "flow": 0,
    "dst_nic": 0,
    "payload_bytes": 1440,
    "tcp_src_port": 0,
    "int_bytes": 0,
    "inflight_bytes": 0,
    "ack_packets": 16,
    "in_turn": 0,
    "event_queue": 0,
}


def write(path: Path, **changes: Any) -> None:
    """Writes a NIC, a flow and settings, with changes."""
    fields = GOOD | changes
    nic = {"name": "a", "netns": "-", "wire": "a-eth0", "ring": "nic0"} | fields
    flow = FLOW | fields
    settings = SETTINGS | {name: fields[name] for name in ("ack_packets", "in_turn", "event_queue")}
    tables = inputs.NIC.table([nic]), inputs.NIC_FLOW.table([flow]), inputs.settings_table(settings, [])
    record_file.write(path, *tables)


def refused(*options: str) -> str:
    process = subprocess.run([BIN / "nicd", "--object=none", *options], capture_output=True, text=True, timeout=10)
    assert (process.returncode, process.stdout, len(process.stderr.splitlines())) == (2, "", 1)
    return process.stderr


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"line_bps": 99999}, "NIC 0, line_bps: 99999 ... 100000 to 10000000000000\n"),
        ({"tail": "sixteencharacter"}, "NIC 0, tail: ... at most 15"),
        ({"flow": 1 << 20}, "NIC flow 0, flow: 1048576 ... 0 to 1048575\n"),
        ({"dst_nic": 1}, "NIC flow 0, dst_nic: 1 ... 0 to 0\n"),
        ({"payload_bytes": 9001}, "NIC flow 0, payload_bytes: 9001 ... 1 to 9000\n"),
        ({"int_bytes": 41}, "NIC flow 0, int_bytes: 41 ... 42, or 0\n"),
        ({"tcp_src_port": 80}, "NIC flow 0, tcp_src_port: 80 ... tcp_dst_port 0 ... both"),
        ({"ack_packets": 0}, "NIC settings 0, ack_packets: 0 ... 1 to 65536\n"),
        ({"in_turn": 2}, "NIC settings 0, in_turn: 2 ... 0 to 1\n"),
        ({"event_queue": 4}, "NIC settings 0, event_queue: 4 ... 0 to 0\n"),
        ({"in_turn": 1, "event_queue": 257}, "NIC settings 0, event_queue: 257 ... 0 to 256\n"),
    ],
)
def test_what_is_wrong_in_its_file_is_said_in_one_line(tmp_path, changes, facts):
    write(tmp_path / "nics", **changes)
    assert states(refused(f"--nics={tmp_path / 'nics'}"), f"nicd: --nics: '{tmp_path / 'nics'}': {facts}")


def test_a_table_that_is_missing_is_an_error(tmp_path):
    write(tmp_path / "nics")
    nics, *_ = record_file.read(tmp_path / "nics", inputs.KINDS)
    record_file.write(tmp_path / "nics", nics)
    assert "table 'NIC flow': the file ends before it" in refused(f"--nics={tmp_path / 'nics'}")


RESTORED = """
import subprocess
def devices():
    words = ["qdisc", "filter show dev h1-eth0 ingress", "filter show dev nic0 egress"]
    return [subprocess.run(["tc", "-n", "h1", *word.split()], capture_output=True, text=True).stdout for word in words]
before = devices()
nic.start("dcqcn", [Flow("h1", "h2", 10_000)], parameter_0=4)
nic.post(0)
nic.wait(0, 1)
during = devices()
nic.stop()
out = {"changed": during != before, "restored": devices() == before}
nic.start("dcqcn", [Flow("h1", "h2", 10_000)], parameter_0=4)
nic.kill()
time.sleep(0.1)
out["restored after kill -9"] = devices() == before
"""


@pytest.mark.lab
def test_unloading_leaves_the_devices_as_they_were(in_nics):
    assert in_nics(RESTORED, hosts=2) == {"changed": True, "restored": True, "restored after kill -9": True}


LEFT = """
import os, shlex, signal, subprocess
from pathlib import Path
def guard_of(pid):
    (found,) = [each for each in Path("/proc").glob("[0-9]*/stat") if each.read_text().rpartition(")")[2].split()[1] == str(pid)]
    return int(found.parent.name)
def second():
    argv = [PROGRAMS / "nicd", f"--object={PROGRAMS / 'nic-fixed.bpf.o'}", f"--nics={FOLDER / 'nics'}"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr.strip()
nic.start("fixed", [Flow("h1", "h2", 10_000)])
out = {"while it runs": second()}
nic.post(0)
nic.wait(0, 1)
os.kill(guard_of(nic._nicd.pid), signal.SIGKILL)
nic.kill()
out["left"], out["typed"] = [], []
while (said := second())[0]:
    out["left"].append(said[1])
    out["typed"].append(said[1].rpartition(": ")[2])
    subprocess.run(shlex.split(out["typed"][-1]), check=True, capture_output=True)
nic.start("fixed", [Flow("h1", "h2", 10_000)])
nic.post(0)
nic.wait(0, 1)
nic.stop()
out["qdiscs"] = subprocess.run(["tc", "-n", "h1", "qdisc"], capture_output=True, text=True).stdout
"""


@pytest.mark.lab
def test_who_finds_programs_of_another_nic_is_told_what_to_type(in_nics):
    """The other NIC runs on undisturbed; if it and its guard were killed, the named command removes what is left."""
    out = in_nics(LEFT, hosts=2)
    status, line = out["while it runs"]
    assert status == 1 and line.startswith("nicd: NIC 'h1-eth0': attach nic_depart: nic0 has a filter of priority 1 already; if ")
    assert line.endswith("tc qdisc del dev nic0 clsact") and "\n" not in line
    assert [words.split()[-2] for words in out["typed"]] == ["nic0", "nic1", "h1-eth0", "nic0", "nic1", "h2-eth0"]
    assert "clsact" not in out["qdiscs"]


REFUSED = """
nic.write([Flow("h1", "h2", 10_000)])
argv = [PROGRAMS / "nicd", "--object", {object!r}, "--nics", FOLDER / "nics"]
done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
qdiscs = subprocess.run(["tc", "-n", "h1", "qdisc"], capture_output=True, text=True).stdout
out = {{"status": done.returncode, "said": done.stderr, "qdiscs": qdiscs}}
"""
WILD = """
#include "cc.h"
#define CC_NAME "wild"
#define CC_EVENTS CC_MASK(CC_TX)
#define CC_STATE_WORDS 1
#define CC_PARAMETERS(X)
#define CC_PRESETS(X)
static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
                               const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
    (void)flow, (void)parameter, (void)table;
    result->rate = state[event->bytes]; /* wherever that is */
}
"""


@pytest.mark.lab
def test_a_program_that_the_verifier_refuses_shows_its_message_and_the_budget(in_nics, tmp_path):
    header = tmp_path / "wild.h"
    header.write_text(WILD)
    folder = tmp_path / "run"
    folder.mkdir()
    build.compile_object(header, folder / "wild.o")
    out = in_nics(REFUSED.format(object=str(folder / "wild.o")), hosts=2)
    *_, last = out["said"].splitlines()
    assert out["status"] == 1
    assert last.startswith(f"nicd: load {folder / 'wild.o'}: ")
    assert "(limit 1000000)" in out["said"]
    assert len(out["said"]) < 4000
    assert "clsact" not in out["qdiscs"]


def test_help_names_each_option():
    help_text = subprocess.run([BIN / "nicd", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(f"--{name} FILE" in help_text for name in ("object", "nics", "table", "trace"))


@pytest.mark.parametrize("more", [["--t0=1"], ["--step=100000"], ["--t0=1", "--step=100000", "--trace=x"]])
def test_barriers_have_a_beginning_and_a_distance_and_no_file(tmp_path, more):
    options = ["--object=x", "--nics=x"]
    process = subprocess.run([BIN / "nicd", *options, "--channel=/dev/lab", *more], capture_output=True, text=True, timeout=10)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == "nicd: --channel: give --t0 and --step with it, and no --trace\n"
