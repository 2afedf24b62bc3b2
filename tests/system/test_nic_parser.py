# SPDX-License-Identifier: Apache-2.0
"""The NIC's parser against malformed frames: it drops them, and they change nothing."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab
TESTS = Path(__file__).resolve().parents[1]

FUZZ = """
sys.path.insert(0, {tests!r})
import ctypes, random
from nic_guest import *
from dc_gym.ctrl.nic.rows import _bpf

class TestRun(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("prog_fd", "retval", "data_size_in", "data_size_out")]
    _fields_ += [("data_in", ctypes.c_uint64), ("data_out", ctypes.c_uint64), ("rest", ctypes.c_uint8 * 96)]

PROG_TEST_RUN, PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID, OBJ_GET_INFO = 10, 11, 13, 15
libc = ctypes.CDLL(None)

def program(name):
    "The newest program of that name."
    number, found = 0, None
    while True:
        argument = ctypes.create_string_buffer(number.to_bytes(4, "little"), 128)
        if libc.syscall(321, PROG_GET_NEXT_ID, argument, 128):
            return found
        number = int.from_bytes(argument.raw[4:8], "little")
        fd = _bpf(PROG_GET_FD_BY_ID, number.to_bytes(4, "little"))
        info = ctypes.create_string_buffer(232)
        at = ctypes.addressof(info).to_bytes(8, "little")
        _bpf(OBJ_GET_INFO, fd.to_bytes(4, "little") + (232).to_bytes(4, "little") + at)
        if info.raw[64:80].rstrip(b"\\0").decode() == name:
            found = fd

def run(fd, frame):
    data = ctypes.create_string_buffer(frame, len(frame))
    test = TestRun(prog_fd=fd, data_size_in=len(frame), data_in=ctypes.addressof(data))
    assert libc.syscall(321, PROG_TEST_RUN, ctypes.byref(test), 128) == 0, len(frame)
    return test.retval

OK, SHOT, STOLEN, REDIRECT = 0, 2, 4, 7
TELEMETRY = {telemetry}
HEAD = 74 + TELEMETRY

def expected(frame):
    "What may become of a frame that comes from the cable, for a receiver and a sender of flow 0 or 1."
    if len(frame) < 74 or frame[12:14] != b"\\x08\\x00" or frame[14] != 0x45 or frame[23] != 17 or frame[36:38] != b"\\x12\\xb7":
        return {{OK}}
    ip_bytes, udp_bytes = struct.unpack_from(">H", frame, 16)[0], struct.unpack_from(">H", frame, 38)[0]
    opcode, (flow,) = frame[43], struct.unpack_from(">I", frame, 46)
    trimmed = {trims} == 1 + (frame[15] >> 2) and opcode == 1 and ip_bytes > len(frame) - 14
    whole = (ip_bytes == len(frame) - 14 or trimmed) and udp_bytes == ip_bytes - 20 and frame[42] == 2
    measured = TELEMETRY and opcode in (1, 2, 3)
    whole = whole and bool(frame[44] & 8) == bool(measured)
    if measured and (len(frame) < HEAD if opcode == 1 else len(frame) != HEAD):
        return {{SHOT}}
    if not whole or struct.unpack_from(">H", frame, 20)[0] & 0x3FFF or not 1 <= opcode <= 6 or flow > 1:
        return {{SHOT}}
    row = (nic.receivers if opcode in (1, 5) else nic.senders)[flow]
    if frame[26:34] != bytes(row.frame[30:34]) + bytes(row.frame[26:30]):
        return {{SHOT}}
    if trimmed:
        return {{REDIRECT}}
    if opcode == 1:
        return {{STOLEN, REDIRECT}} if HEAD < len(frame) <= 1514 else {{SHOT}}
    return {{REDIRECT}} if opcode == 5 else {{STOLEN, REDIRECT}}

def template(opcode, flow, payload=0):
    "A good frame: as the other end would send it."
    row = (nic.senders if opcode in (1, 5) else nic.receivers)[flow]
    measured = TELEMETRY if opcode in (1, 2, 3) else 0
    frame = bytearray(bytes(row.frame) + chance.randbytes(measured) + bytes(payload if not measured or opcode == 1 else 0))
    frame[44] |= 8 if measured else 0
    frame[16:18], frame[38:40] = struct.pack(">H", len(frame) - 14), struct.pack(">H", len(frame) - 34)
    frame[15] = chance.choice([frame[15], 63 << 2]) if {trims} else frame[15]
    frame[43] = opcode
    frame[50:54] = struct.pack(">I", chance.choice([0, 1, 2, 5, 2**31, 2**32 - 1, chance.getrandbits(32)]))
    frame[54:58] = chance.randbytes(4)
    return frame

def mutate(frame):
    "Nothing, a byte, a field, the length, or all."
    kind = chance.randrange(6)
    if kind == 1:
        frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
    elif kind == 2:
        frame[42 + chance.randrange(16)] = chance.randrange(256)
    elif kind == 3:
        frame = frame[: chance.randrange(34, len(frame) + 1)]
    elif kind == 4:
        frame += bytes(chance.randrange(1, 64))
    elif kind == 5 and chance.random() < 0.2:
        frame = bytearray(chance.randbytes(chance.randrange(34, 400)))
    return bytes(frame)

chance = random.Random(11)
nic = Nics(fabric)
flows = [Flow("h1", "h2", telemetry_bytes=TELEMETRY), Flow("h2", "h1", 5000, 1000, telemetry_bytes=TELEMETRY)]
nic.start({algorithm!r}, flows, selective={selective}, trims={trims}, parameter_0=4, parameter_2=4)
for port in nic.ports:
    port.wire_ifindex = 1  # where BPF_PROG_TEST_RUN's frames come from
    port.ring_ifindex = 1
receive, depart, turn = program("nic_receive"), program("nic_depart"), program("nic_turn")
seen, wrong, changed = {{}}, [], []
for number in range({frames}):
    payload = chance.choice([0, 1, 100, 1440 - TELEMETRY, 1441 - TELEMETRY])
    frame = mutate(template(chance.randrange(10), chance.randrange(2), payload))
    if len(frame) < 34:  # BPF_PROG_TEST_RUN refuses them
        continue
    before = [bytes(row) for rows in (nic.senders, nic.receivers) for row in rows.rows]
    may = expected(frame)
    got = run(receive, frame)
    seen[got] = seen.get(got, 0) + 1
    if got not in may:
        wrong.append((frame[:90].hex(), len(frame), got, sorted(may)))
    if got in (OK, SHOT) and before != [bytes(row) for rows in (nic.senders, nic.receivers) for row in rows.rows]:
        changed.append((frame[:90].hex(), got))
    outside = run(depart, frame), run(turn, frame)
    if outside[1] != SHOT or outside[0] not in (SHOT, STOLEN):
        wrong.append((frame[:90].hex(), "ring", outside))
sane = [row.next <= row.high and row.acked <= row.high for row in nic.senders.rows]
sane += [row.expected <= row.received_packets for row in nic.receivers.rows]
nic.stop()
print(json.dumps([seen, wrong[:5], changed[:5], sane]))
"""


@pytest.mark.parametrize(
    ("algorithm", "telemetry", "selective", "trims"),
    [("dcqcn", 0, 0, 0), ("dcqcn", 0, 1, 0), ("dcqcn", 0, 1, 64), ("hpcc", 42, 0, 0)],
)
def test_what_is_malformed_is_dropped_and_changes_nothing(in_fabric, algorithm, telemetry, selective, trims):
    output = in_fabric(
        {"kind": "single", "hosts": 2, "rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 100_000},
        FUZZ.format(tests=str(TESTS), selective=selective, trims=trims, frames=4000, algorithm=algorithm, telemetry=telemetry),
    )
    verdicts, wrong, changed, sane = json.loads(output.splitlines()[-1])
    assert (wrong, changed) == ([], [])
    assert all(sane)
    assert set(verdicts) == {"0", "2", "4", "7"}  # each verdict was met
