# SPDX-License-Identifier: Apache-2.0
"""The NIC's loader: files that are wrong, programs that the kernel refuses, and devices as they were before."""

import subprocess
from pathlib import Path

import pytest

from dc_gym.ctrl.nic import build

BIN = Path(__file__).resolve().parent.parent / "dc_gym" / "bin"
NICS = "nic,netns,wire,ring,tail,line_bps\na,-,a-eth0,nic0,nic1,1000000000\n"
FLOWS = (
    "flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,payload_bytes,message_bytes,total_bytes,base_rtt_ns,hops\n"
    "0,a,a,10.0.0.1,10.0.0.2,02:00:00:00:00:01,02:00:00:00:00:02,1000,1440,64000,64000,20000,2\n"
)


@pytest.mark.parametrize(
    ("nics", "flows", "settings", "says"),
    [
        ("nic,wire\n", FLOWS, "", "--nics: 'NICS': line 1: not the header"),
        (NICS.splitlines()[0] + "\n", FLOWS, "", "no NICs below the header"),
        (NICS.replace("1000000000", "99999"), FLOWS, "", "line_bps: '99999' is not a whole number from 100000"),
        (NICS, FLOWS.replace("0,a,a", "0,a,b"), "", "dst_nic: 'b' is not in the file of NICs"),
        (NICS, FLOWS.replace("10.0.0.2", "10.0.0"), "", "dst_addr: '10.0.0' is not an IPv4 address"),
        (NICS, FLOWS.replace("00:02,", "zz,"), "", "dst_mac: '02:00:00:00:zz' is not a MAC address"),
        (NICS, FLOWS.replace("1440", "9001"), "", "payload_bytes: '9001' is not a whole number from 1 to 9000"),
        (NICS, FLOWS.splitlines()[0] + "\n0,a\n", "", "line 2: 2 fields; give the 13 of the header"),
        (NICS, FLOWS, "burst=3\n", "line 1: 'burst' is no setting"),
        (NICS, FLOWS, "ack_packets=0\n", "ack_packets: '0' is not a whole number from 1"),
        (NICS, FLOWS, "parameter.44=1\n", "the parameter's number: '44' is not a whole number from 0 to 43"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_in_one_line(tmp_path, nics, flows, settings, says):
    files = {"nics": nics, "flows": flows, "settings": settings}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = [f"--{name}={tmp_path / name}" for name in files]
    done = subprocess.run([BIN / "nicd", "--object=none", *options], capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert says.replace("NICS", str(tmp_path / "nics")) in done.stderr


@pytest.mark.parametrize(
    ("capped", "says"),
    [
        ("flow,port\n", "line 1: not the header; it must be flow,src_port,dst_port"),
        ("flow,src_port,dst_port\n0,1\n", "line 2: 2 fields; give the 3 of the header"),
        ("flow,src_port,dst_port\n0,1,65536\n", "line 2, dst_port: '65536' is not a whole number from 1 to 65535"),
        ("flow,src_port,dst_port\n0,1,2\n1,1,2\n", "line 3, flow: 1 is not in the file of flows"),
    ],
)
def test_flows_to_cap_are_among_the_flows(tmp_path, capped, says):
    files = {"nics": NICS, "flows": FLOWS, "settings": "", "capped": capped}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = [f"--{name}={tmp_path / name}" for name in files]
    done = subprocess.run([BIN / "nicd", "--object=none", *options], capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert says in done.stderr


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
    files = {"nics": "nics.csv", "flows": "flows.csv", "settings": "settings"}
    options = [f"--{name}={FOLDER / file}" for name, file in files.items()]
    argv = [BIN / "nicd", f"--object={BIN / 'nic-fixed.bpf.o'}", *options]
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
    status, said = out["while it runs"]
    assert status == 1 and said.startswith("nicd: NIC 'h1-eth0': attach nic_depart: nic0 has a filter of priority 1 already; if ")
    assert said.endswith("tc qdisc del dev nic0 clsact") and "\n" not in said
    assert [words.split()[-2] for words in out["typed"]] == ["nic0", "nic1", "h1-eth0", "nic0", "nic1", "h2-eth0"]
    assert "clsact" not in out["qdiscs"]


REFUSED = """
(FOLDER / "settings").write_text("")
Path("/run/nic/flows.csv").write_text({flows!r}.replace("0,a,a", "0,h1-eth0,h2-eth0"))
files = {{"nics": "nics.csv", "flows": "flows.csv", "settings": "settings"}}
options = [f"--{{name}}={{FOLDER / file}}" for name, file in files.items()]
done = subprocess.run([BIN / "nicd", "--object", {object!r}, *options], capture_output=True, text=True, stdin=subprocess.DEVNULL)
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
    out = in_nics(REFUSED.format(flows=FLOWS, object=str(folder / "wild.o")), hosts=2)
    *_, last = out["said"].splitlines()
    assert out["status"] == 1
    assert last.startswith(f"nicd: load {folder / 'wild.o'}: ")
    assert "(limit 1000000)" in out["said"]
    assert len(out["said"]) < 4000
    assert "clsact" not in out["qdiscs"]


def test_help_names_each_option():
    said = subprocess.run([BIN / "nicd", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(f"--{name} FILE" in said for name in ("object", "nics", "flows", "settings", "table", "trace", "capped"))


@pytest.mark.parametrize("more", [["--t0=1"], ["--step=100000"], ["--t0=1", "--step=100000", "--trace=x"]])
def test_barriers_have_a_beginning_and_a_distance_and_no_file(tmp_path, more):
    options = [f"--{name}=x" for name in ("object", "nics", "flows", "settings")]
    done = subprocess.run([BIN / "nicd", *options, "--channel=/dev/lab", *more], capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nicd: --channel: give --t0 and --step with it, and no --trace\n"
