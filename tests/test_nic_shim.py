# SPDX-License-Identifier: Apache-2.0
"""The NIC's data path in a lab: pacing to the nanosecond, whole messages once, whatever the cable does to frames."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab
TESTS = Path(__file__).resolve().parent
LINE = 1 << 20
GBIT = 10**9


@pytest.fixture
def in_nics(in_fabric):
    """Runs a program with `nic`, the NICs of all hosts; what it leaves in `out`."""

    def run(body, **topology):
        head = f"sys.path.insert(0, {str(TESTS)!r})\nfrom nic_guest import *\nnic = Nics(fabric)\nout = {{}}\n"
        params = {"kind": "single", "rate_bps": 10 * GBIT, "delay_ns": 2_500, "buffer_bytes": 4_000_000} | topology
        tail = "\nprint(json.dumps([out, fabric.losses()]))"
        out, losses = json.loads(in_fabric(params, head + body.strip() + tail).splitlines()[-1])
        assert losses == {}
        return out

    return run


PACING = """
heard = tap("h1")
for rate in (105, 1049, 10486, 104858, 1 << 20):  # 1 Mbit/s .. 10 Gbit/s
    nic.start("fixed", [Flow("h1", "h2", total_bytes=60 * 1440, message_bytes=30 * 1440)], parameter_0=rate)
    nic.post(0)
    nic.wait(0, 10)
    time.sleep(0.01)
    frames = [t for frame, t in drain(heard) if len(frame) == FULL]
    row = plain(nic.receivers[0]) | plain(nic.senders[0])
    out[rate] = {"times": frames, "bells": nic.bells(), "row": row}
    nic.stop()
"""


def test_a_lone_flow_is_paced_to_the_nanosecond_and_heard_of_once(in_nics):
    out = in_nics(PACING, hosts=2)
    assert len(out) == 5
    for rate, found in out.items():
        gaps = [after - before for before, after in zip(found["times"], found["times"][1:], strict=False)]
        asked_ns = 1514 * 8e9 / (10 * GBIT * int(rate) / LINE)
        assert len(gaps) == 59
        assert gaps[1:] == pytest.approx([asked_ns] * 58, rel=1e-5, abs=1)
        assert found["bells"] == []  # the one was waited for
        row = found["row"]
        assert (row["expected"], row["received_packets"], row["sent_packets"], row["resent_packets"]) == (60, 60, 60, 0)
        assert (row["messages"], row["broken_messages"], row["dropped_packets"]) == (2, 0, 0)
        assert (row["parked"], row["acked"]) == (1, 60)
