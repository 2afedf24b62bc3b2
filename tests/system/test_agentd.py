# SPDX-License-Identifier: Apache-2.0
"""agentd: its errors, as any user; in labs: what it does to token bucket filters, when, and what it reports."""

from __future__ import annotations

import subprocess
import textwrap

import numpy as np
import pytest
from agent_lab import AGENTD, FLOOR, LINE, MS, Host, S, told

from dc_gym.monitors.trace import read_trace

pytestmark = pytest.mark.lab

EPISODE = """
agentd = Agentd({options}).ready()
print(agentd.episode(5 * 10**9, {count}).strip(), *tbf(0), *tbf(1))
agentd.end()
"""
AT_ONCE = {0: [4e6, 5e6], 2: [1, 1e12], 3: [np.nan, -5]}
AT_ONCE_SEEN = [
    (0, 0, None, [LINE, LINE]),
    (1, 2, 0, [4_000_000, 5_000_000]),
    (2, 2, 0, [4_000_000, 5_000_000]),
    (3, 4, 2 * MS, [FLOOR, LINE]),
    (4, 6, 3 * MS, [FLOOR, FLOOR]),
    (5, 6, 3 * MS, [FLOOR, FLOOR]),
]


def test_commands_of_a_step_are_enforced_at_once(agentd, tmp_path):
    """Rates are clamped to floor and line, and read back at the next step; burst and limit stay as they were."""
    host = told(AT_ONCE)
    trace = tmp_path / "run" / "trace"
    lines = agentd(EPISODE.format(options=f"'--trace', '{trace}'", count=5), host)
    assert host.sent == [2, 4, 6]
    assert host.seen == AT_ONCE_SEEN
    assert lines == [f"over 5 0 {LINE} 1000000 1514 {LINE} 1000000 1514"]
    recorded = read_trace(trace)
    assert recorded.t0_ns == 5 * S and recorded.rows == ("a", "b")
    assert recorded.t_ns.tolist() == [5 * S + k * MS for k in range(6)]


def test_without_aio_it_does_the_same(agentd, tmp_path):
    """A preloaded library plays a kernel or container without io_setup(2)."""
    shim = tmp_path / "run" / "no_aio.so"
    shim.parent.mkdir()
    source = tmp_path / "no_aio.c"
    source.write_text(
        "#include <errno.h>\n#include <sys/syscall.h>\n"
        "long syscall(long number, ...) { errno = ENOSYS; return number ? -1 : -1; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
    host = told(AT_ONCE)
    program = f"os.environ['LD_PRELOAD'] = '{shim}'\n" + EPISODE.format(options="", count=5)
    assert agentd(program, host) == [f"over 5 0 {LINE} 1000000 1514 {LINE} 1000000 1514"]
    assert host.seen == AT_ONCE_SEEN


@pytest.mark.parametrize("latency_ns", [MS, 250_001, 2_500_000])
def test_a_decision_that_takes_time_is_enforced_that_much_later(agentd, latency_ns):
    """The delay is exact to the nanosecond. If it exceeds a step, several commands are under way. The next sweep shows a command
    that is enforced at the instant of a sweep."""
    rates = {step: [(step + 1) * 1e6, (step + 2) * 1e6] for step in range(6)}
    host = told(rates)
    agentd(EPISODE.format(options=f"'--latency', {latency_ns}", count=8), host)
    for step, ack, applied_ns, enforced_bps in host.seen:
        applied = [k for k in rates if k * MS + latency_ns <= step * MS]
        visible = [k for k in rates if k * MS + latency_ns < step * MS]
        assert ack == 2 * len(applied)
        assert applied_ns == (applied[-1] * MS + latency_ns if applied else None)
        assert enforced_bps == (rates[visible[-1]] if visible else [LINE, LINE])


def test_sweeps_between_steps(agentd, tmp_path):
    host = told({0: [1e6, 1e6], 1: [2e6, 2e6]})
    host.step_ns = 4 * MS
    trace = tmp_path / "run" / "trace"
    program = EPISODE.format(options=f"'--trace', '{trace}', step=4 * 10**6", count=3)
    assert agentd(program, host)[0].startswith("over 3 0 ")
    assert [step for step, *_ in host.seen] == [0, 1, 2, 3]
    assert [applied for _, _, applied, _ in host.seen] == [None, 0, 4 * MS, 4 * MS]
    assert read_trace(trace).t_ns.tolist() == [5 * S + k * MS for k in range(13)]


def test_episodes_one_after_the_other(agentd, tmp_path):
    """After the host ends an episode, no command of it reaches the next; code 2 is passed on; at the end of input agentd exits
    without an error."""
    codes = iter([0, 0, 1, 0, 0, 0, 0, 2])
    host = Host(lambda step: ([(step + 1) * 1e6] * 2, next(codes)))
    trace = tmp_path / "run" / "trace"
    program = f"""
    agentd = Agentd("--latency", 1500000, "--trace", "{trace}").ready()
    for t0 in (5, 6, 8):
        print(agentd.episode(t0 * 10**9, 3).strip(), tbf(0)[0], tbf(1)[0])
    agentd.end()
    """
    lines = agentd(program, host)
    assert lines == [f"over 2 1 {LINE} {LINE}", f"over 3 0 {LINE} {LINE}", f"over 0 2 {LINE} {LINE}"]
    assert host.seen == [
        (0, 0, None, [LINE, LINE]),
        (1, 0, None, [LINE, LINE]),
        (2, 2, 1_500_000, [1e6, 1e6]),
        (0, 6, None, [LINE, LINE]),
        (1, 6, None, [LINE, LINE]),
        (2, 8, 1_500_000, [1e6, 1e6]),
        (3, 10, 2_500_000, [2e6, 2e6]),
        (0, 14, None, [LINE, LINE]),
    ]
    assert read_trace(trace).t_ns.tolist() == [t0 * S + k * MS for t0, last in ((5, 2), (6, 3), (8, 0)) for k in range(last + 1)]


def test_a_host_sends_what_it_was_told(agentd):
    """With a queue that never empties, the bytes sent by each step are those that the rates so far allow, within one frame."""
    draw = np.random.default_rng(1)
    rates = draw.uniform(1e6, LINE, 100)
    host = told({step: [rate, LINE] for step, rate in enumerate(rates)})
    program = """
    with entered("/run/netns/a"):
        import socket
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind(("a", 0x88B5))
    sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)
    agentd = Agentd().ready()
    agentd.begin(5 * 10**9, 100)
    time.sleep(4.9 - time.monotonic())
    for _ in range(400):
        sender.send(bytes.fromhex("02000000000b" "02000000000a" "88b5") + bytes(1500))
    assert agentd.over() == "over 100 0\\n"
    agentd.end()
    """
    agentd(program, host)
    column = 2  # tx_bytes
    sent = np.array([int(sweep.cells[0, column]) for sweep in host.sweeps])
    assert int(host.sweeps[-1].cells[0, 0]) > 0  # still something to send
    allowed = np.concatenate([[0], np.cumsum(rates // 8 * MS / S)])
    error = (sent - sent[0]) - allowed
    assert error.max() <= 1514 and error.min() >= -1514


MARKING = """
from dc_gym.topologies.graph import Marking, Queue
LIMIT, K, PPM = 400_000, 390_000, 10**6

RED = Queue(LIMIT, "red", Marking("step", k_bytes=K))

def set_red(k_bytes=K):
    queue = Queue(LIMIT, "red", Marking("step", k_bytes=k_bytes))
    socks[0].batch([tc.set_queue(ifindex(0), queue, "a", handle=2 << 16)])

def red():
    "Limit, thresholds, probability of 2^32 and flags, as the kernel has them."
    for payload in socks[0].dump(RTM_GETQDISC, tc.TCMSG.pack(0, 0, 0, 0, 0)):
        found = attributes(payload[tc.TCMSG.size :])
        if found[tc.TCA_KIND].startswith(b"red"):
            options = attributes(found[tc.TCA_OPTIONS])
            numbers = struct.unpack_from("=III", options[tc.TCA_RED_PARMS])
            return (*numbers, *(struct.unpack_from("=I", options[each])[0] for each in (tc.TCA_RED_MAX_P, tc.TCA_RED_FLAGS)))

def until(ms):
    time.sleep(5 + ms / 1000 - time.monotonic())

def frames(count):
    "Puts full frames that can be marked into the queue of port a."
    for _ in range(count):
        sender.send(frame)

with entered("/run/netns/a"):
    import socket
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sender.bind(("a", 0x0800))
sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 2, 1500, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))  # ECT(0)
frame = bytes.fromhex("02000000000b" "02000000000a" "0800") + ip + bytes(1480)
set_red()
write_rows(actuated("marking", 0, [(1514, LIMIT, K), (1514, LIMIT, K), (10_000, PPM, PPM)], RED), rate_of(1))
"""
START = [390_000, 390_000, 10**6, LINE]
BACKLOG_BYTES, BACKLOG_PACKETS, TX_BYTES, TX_PACKETS, DROPS, MARKS = range(6)


def column(host: Host, number: int) -> list[int]:
    """Returns one column of port a, by step, from its value at step 0 on."""
    values = [int(sweep.cells[0, number]) for sweep in host.sweeps]
    return [value - values[0] for value in values]


def test_a_change_of_marking_loses_nothing(agentd):
    """Thresholds change at each step while 200 frames wait: each leaves in its turn, and all counters go on."""
    rng = np.random.default_rng(1)
    drawn = np.sort(rng.integers(1514, 400_001, (150, 2)))
    changes = {step: [*drawn[step].tolist(), int(rng.integers(10_000, 10**6 + 1)), LINE - step] for step in range(150)}
    host = told(changes)
    program = """
    agentd = Agentd().ready()
    before = red()
    agentd.begin(5 * 10**9, 150)
    until(0.5)
    frames(200)
    print(agentd.over().strip(), *before, *red(), tbf(1)[0])
    agentd.end()
    """
    (line,) = agentd(MARKING + textwrap.dedent(program), host)
    start = f"390000 390000 {2**32 - 1}"
    assert line == f"over 150 0 400000 {start} 9 0 {start} 137 {LINE}", "the start is back; the kernel says that the limit is 0"
    expected = [START] + [[*values[:3], values[3] // 8 * 8] for values in changes.values()]
    assert [in_force for *_, in_force in host.seen] == expected
    backlog, left = column(host, BACKLOG_PACKETS), column(host, TX_PACKETS)
    assert [a + b for a, b in zip(backlog, left, strict=True)] == [0] + [200] * 150
    assert [a - b for a, b in zip(left[2:], left[1:-1], strict=True)].count(0) < 40, "a frame takes 1.2 steps"
    assert 120 <= left[-1] <= 125 and column(host, DROPS) == [0] * 151
    assert column(host, TX_BYTES) == [1514 * number for number in left]
    assert column(host, BACKLOG_BYTES) == [1514 * number for number in backlog]


def test_marking_follows_the_thresholds_in_force(agentd):
    """Frames are marked as they come, by the thresholds of that moment: those that wait already are left alone."""
    steps = {2: [1514, 1514, 10**6, LINE], 4: START, 6: [1514, 400_000, 10**6, LINE], 8: [1514, 400_000, 10_000, LINE]}
    host = told(steps)
    program = """
    agentd = Agentd().ready()
    agentd.begin(5 * 10**9, 12)
    for ms in (0.5, 2.5, 4.5, 6.5, 8.5):
        until(ms)
        frames(40)
    print(agentd.over().strip())
    agentd.end()
    """
    assert agentd(MARKING + textwrap.dedent(program), host) == ["over 12 0"]
    marks = column(host, MARKS)
    assert marks[:5] == [0, 0, 0, 40, 40], "none below K; then all, from the first full frame on"
    assert marks[6] == 40, "back at the start: none"
    assert 40 + 8 <= marks[8] <= 40 + 36, "about half, between the thresholds"
    assert marks[8] <= marks[12] <= marks[8] + 4, "about one in two hundred"
    assert column(host, BACKLOG_PACKETS)[9] > 180 and column(host, DROPS)[-1] == 0


def test_marking_is_enforced_after_its_latency(agentd):
    host = told({0: [2000, 3000, 20_000, 1e6], 1: [1, 1e12, np.nan, -1]})
    program = """
    agentd = Agentd("--latency", 2500000).ready()
    print(agentd.episode(5 * 10**9, 5).strip(), red()[1:4] == (K, K, 2**32 - 1))
    print(agentd.episode(6 * 10**9, 1).strip(), red()[1:4] == (K, K, 2**32 - 1))
    agentd.end()
    """
    assert agentd(MARKING + textwrap.dedent(program), host) == ["over 5 0 True", "over 1 0 True"]
    assert [in_force for *_, in_force in host.seen] == [
        *[START] * 3,
        [2000, 3000, 20_000, 1e6],
        [1514, 400_000, 10_000, FLOOR],
        [1514, 400_000, 10_000, FLOOR],
        *[START] * 2,
    ]
    assert [ack for _, ack, *_ in host.seen[:6]] == [0, 0, 0, 2, 4, 4]


def test_thresholds_in_the_wrong_order_are_refused_by_the_kernel(agentd):
    program = """
    agentd = Agentd().ready()
    agentd.begin(5 * 10**9, 3)
    said, complaint = agentd.process.communicate()
    print(agentd.process.returncode, complaint.strip(), red()[1:4] == (K, K, 2**32 - 1))
    """
    (line,) = agentd(MARKING + textwrap.dedent(program), told({1: [3000, 2999, 10**6, LINE]}))
    refused = "1 agentd: change of a qdisc in netns '/run/netns/a': Invalid argument; is it still the one that was set up?"
    assert line == f"{refused} True"


def test_an_episode_begins_with_the_start_whoever_set_something_else(agentd):
    host = told({})
    program = """
    agentd = Agentd().ready()
    set_red(30_000)
    print(red()[1:3], agentd.episode(5 * 10**9, 1).strip(), red()[1:3] == (K, K))
    from dc_gym.topologies.graph import Queue
    socks[0].batch([tc.set_queue(ifindex(0), Queue(LIMIT), "a", handle=3 << 16)])
    again = Agentd()
    print(*again.process.communicate())
    """
    lines = agentd(MARKING + textwrap.dedent(program), host)
    no_red = "agentd: actuators: the root qdisc of port 'a' (row 0) is no red, which marking sets; make it one first"
    assert lines[:2] == ["(30000, 30000) over 1 0 True", f" {no_red}"]
    assert [in_force for *_, in_force in host.seen] == [START] * 2


def test_rates_that_need_64_bits(agentd):
    """From 34.4 Gbit/s on, the kernel tells a token bucket's rate in another attribute than below."""
    limit = 8 * (2**32 - 1)
    rates = [[4e11, limit], [limit + 8, limit - 8], [3.9e10, 1e6], [8, 4e11 - 8]]
    host = told(dict(enumerate(rates)))
    program = """
    fast = Queue(10**6, "tbf", rate_bps=4 * 10**11, burst_bytes=10**6)
    for host in (0, 1):
        socks[host].batch([tc.set_queue(ifindex(host), fast, NAMES[host], handle=2 << 16)])
    write_actuators(line_bps=4 * 10**11, floor_bps=8, burst=10**6)
    agentd = Agentd().ready()
    print(agentd.episode(5 * 10**9, 4).strip())
    agentd.end()
    """
    assert agentd(program, host) == ["over 4 0"]
    assert [in_force for *_, in_force in host.seen] == [[4e11, 4e11], *rates]


REAL_CLOCK = """
import numpy as np
from dc_gym.monitors.state_matrix import StateMatrix, Sweep
agentd = Agentd("--latency", 300000, "--check-late", channel=False, matrix="/run/matrix").ready()
matrix = StateMatrix.attach("/run/matrix", writable=True)
agentd.begin(5 * 10**9, 10)
def until(ms):
    time.sleep(5 + ms / 1000 - time.monotonic())
until(2.5)
matrix.commands.send([3e6, 4e6])
until(3.2)
print(matrix.commands.ack)
until(3.4)
print(matrix.commands.ack, 0 <= matrix.commands.applied_ns - 5_003_300_000 < 1000, tbf(0)[0], tbf(1)[0])
until(4.5)
print(*matrix.commands.in_force, matrix.read().t_ns)
print(agentd.over().strip(), tbf(0)[0])
agentd.end()
print(agentd.process.stdout.read().strip())
"""


def test_without_a_channel_nothing_waits(agentd):
    """agentd looks for commands at each sweep, and reads their time from the clock."""
    assert agentd(REAL_CLOCK) == ["0", "2 True 3000000 4000000", "3000000 4000000 5004000000", f"over 10 0 {LINE}", "late 0"]


SLOW_SWEEPS = """
from dc_gym.monitors.state_matrix import StateMatrix
agentd = Agentd("--check-late", channel=False, matrix="/run/matrix", interval=10**7, step=10**7).ready()
matrix = StateMatrix.attach("/run/matrix", writable=True)
def until(t0, ms):
    time.sleep(t0 + ms / 1000 - time.monotonic())
agentd.begin(5 * 10**9, 100)
until(5, 22.5)
matrix.commands.send([3e6, 4e6])
until(5, 23.5)
print(matrix.commands.ack, 0 <= matrix.commands.applied_ns - 5_023_000_000 < 1000, tbf(0)[0], tbf(1)[0])
matrix.commands.end(1)
print(agentd.over().strip(), matrix.read().t_ns, tbf(0)[0])
agentd.begin(6 * 10**9, 2)
print(agentd.over().strip())
agentd.begin(7 * 10**9, 2)
until(7, 5)
matrix.commands.end(3)
said, complaint = agentd.process.communicate()
print(agentd.process.returncode, complaint.strip())
"""


def test_without_a_channel_the_agent_says_when_it_is_over(agentd):
    """A command does not wait for a sweep that is far away."""
    assert agentd(SLOW_SWEEPS) == [
        "2 True 3000000 4000000",
        f"over 3 1 5030000000 {LINE}",
        "over 2 0",
        "1 agentd: commands: at step 1 end is 3; there are codes 0 to 2",
    ]


def test_its_mistakes_in_a_ground(agentd):
    """Each error is one line that names what, where and the remedy; the exit code is 2 where the user must act."""
    program = """
    def attempt(*options, text="", **keywords):
        agentd = Agentd(*options, **keywords)
        said, complaint = agentd.process.communicate(text)
        print(agentd.process.returncode, repr(said), complaint.strip())

    attempt(text="episode 1 5\\n")
    attempt(text="episode 9000000000 0\\n")
    attempt(text="episode 9000000000 -1\\n")
    attempt(text="episode 9000000000 5 6\\n")
    attempt(text="episode 9000000000 99999999999999999\\n")
    attempt(text="episode 9000000000")
    attempt(text="x" * 500)
    attempt()
    attempt("--flow-rows", 70000)
    attempt("--channel", "/dev/nothing", channel=False)
    write_actuators(floor_bps=10**8)
    attempt()
    write_actuators()
    from dc_gym.topologies.graph import Queue
    socks[0].batch([tc.set_queue(ifindex(0), Queue(limit_bytes=10**4), "a", handle=2 << 16)])
    attempt()
    """
    lines = agentd(program)
    expected = [
        ("2 'ready\\n' agentd: standard input: 'episode 1 5': t0 is past, it is "),
        ("2 'ready\\n' agentd: standard input: 'episode 9000000000 0' is not 'episode T0 COUNT'"),
        ("2 'ready\\n' agentd: standard input: 'episode 9000000000 -1' is not"),
        ("2 'ready\\n' agentd: standard input: 'episode 9000000000 5 6' is not"),
        ("2 'ready\\n' agentd: standard input: 'episode 9000000000 99999999999999999' ends after the year 2262"),
        ("2 'ready\\n' agentd: standard input ends within a line"),
        ("2 'ready\\n' agentd: standard input: a line is too long"),
        ("0 'ready\\n'"),
        ("2 '' agentd: --matrix: '/dev/lab' has no room for the 4481408 bytes of 2 ports, 70000 flows and 2 rows of actuators"),
        ("2 '' agentd: --channel: open '/dev/nothing': No such file"),
        ("2 '' agentd: --actuators: '/"),
        ("2 '' agentd: actuators: the root qdisc of port 'a' (row 0) is no tbf, which rate sets"),
    ]
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start), line
    assert lines[10].endswith("actuator row 0, low: 100000000 is not from 0 to 10000000")


def test_a_code_that_nobody_knows(agentd):
    program = """
    agentd = Agentd().ready()
    agentd.begin(5 * 10**9, 5)
    said, complaint = agentd.process.communicate()
    print(agentd.process.returncode, complaint.strip())
    """
    lines = agentd(program, told({}, {2: 3}))
    assert lines == ["1 agentd: --channel: the host answered step 2 with code 3; there are 0 to 2"]


def test_a_filter_that_is_taken_away(agentd):
    """A change that the kernel refuses is reported at the next sweep, with the namespace."""
    program = """
    from dc_gym.topologies.graph import Queue
    agentd = Agentd().ready()
    agentd.begin(5 * 10**9, 5)
    time.sleep(5.0025 - time.monotonic())
    socks[1].batch([tc.set_queue(ifindex(1), Queue(limit_bytes=10**4), "b", handle=2 << 16)])
    said, complaint = agentd.process.communicate()
    print(agentd.process.returncode, complaint.strip())
    """
    (line,) = agentd(program, told({step: [1e6 + step * 1e5] * 2 for step in range(6)}))
    assert line == "1 agentd: change of a qdisc in netns '/run/netns/b': File exists; is it still the one that was set up?"


@pytest.mark.parametrize("when", ["idle", "traffic"])
def test_stops_on_a_signal(agentd, tmp_path, when):
    trace = tmp_path / "run" / "trace"
    program = f"""
    agentd = Agentd("--trace", "{trace}").ready()
    print(agentd.episode(5 * 10**9, 5).strip())
    if "{when}" == "traffic":
        agentd.begin(6 * 10**9, 10**9)
        time.sleep(6.01 - time.monotonic())
    else:
        time.sleep(1)
    agentd.process.terminate()
    said, complaint = agentd.process.communicate()
    print(agentd.process.returncode, repr(said), complaint, tbf(0)[0])
    """
    assert agentd(program, told({0: [1e6, 1e6]})) == ["over 5 0", f"0 ''  {LINE}"]
    assert len(read_trace(trace).t_ns) >= (16 if when == "traffic" else 6)


# ---- without a ground ----

FINE_STEPS = ["--interval", 10**4, "--step", MS]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--ports is missing"),
        (["--ports", "p"], "--actuators is missing"),
        (["--ports", "p", "--actuators", "a"], "--interval is missing"),
        (["--ports", "p", "--actuators", "a", "--interval", MS], "--step is missing"),
        (["--ports", "p", "--actuators", "a", "--interval", MS, "--step", MS], "--matrix is missing"),
        (["--ports", "p", "--actuators", "a", "--matrix", "m", "--interval", MS, "--step", MS + 1], "no multiple"),
        (["--interval", 9999], "--interval: '9999' is not a whole number from 10000 "),
        (["--latency", "-1"], "--latency: '-1'"),
        (["--flow-rows", 1 << 21], "--flow-rows: '2097152'"),
        (["--step"], "'--step': its value is missing"),
        (["--colour"], "'--colour': no such option"),
        (["more"], "'more': not an option"),
        (
            ["--ports", "p", "--actuators", "a", "--matrix", "m", "--interval", 10**4, "--step", 10**4, "--latency", 10**9],
            "--latency: 1000000000 is more than 65536 intervals",
        ),
        (
            ["--ports", "/no", "--actuators", "a", "--matrix", "m", "--channel", "c", *FINE_STEPS, "--latency", 10**9],
            "--ports: read '/no'",  # commands come with steps: 1000 are under way
        ),
        (["--ports", "/no", "--actuators", "a", "--matrix", "m", "--interval", MS, "--step", MS], "--ports: read '/no'"),
    ],
)
def test_refuses_arguments(args, words):
    child = subprocess.run([str(AGENTD), *map(str, args)], capture_output=True, text=True, timeout=60)
    assert (child.returncode, child.stdout) == (2, "")
    assert words in child.stderr
    assert child.stderr.startswith("agentd: ") and child.stderr.count("\n") == 1


def test_helps():
    child = subprocess.run([str(AGENTD), "--help"], capture_output=True, text=True, timeout=60)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.startswith("usage: agentd --ports FILE --actuators FILE")
