# SPDX-License-Identifier: Apache-2.0
"""agentd: its errors, as any user; in labs: what it does to token bucket filters, when, and what it reports."""

from __future__ import annotations

import subprocess

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
        done = [k for k in rates if k * MS + latency_ns <= step * MS]
        shown = [k for k in rates if k * MS + latency_ns < step * MS]
        assert ack == 2 * len(done)
        assert applied_ns == (done[-1] * MS + latency_ns if done else None)
        assert enforced_bps == (rates[shown[-1]] if shown else [LINE, LINE])


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
        ("2 '' agentd: --matrix: '/dev/lab' has no room for the 4480"),
        ("2 '' agentd: --channel: open '/dev/nothing': No such file"),
        ("2 '' agentd: --actuators: '/"),
        ("2 '' agentd: actuators: the root qdisc of port 'a' (row 0) is no tbf, which rate sets"),
    ]
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start), line


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
        (["--ports", "p"], "--hosts is missing"),
        (["--ports", "p", "--hosts", "h"], "--interval is missing"),
        (["--ports", "p", "--hosts", "h", "--interval", MS], "--step is missing"),
        (["--ports", "p", "--hosts", "h", "--interval", MS, "--step", MS], "--matrix is missing"),
        (["--ports", "p", "--hosts", "h", "--matrix", "m", "--interval", MS, "--step", MS + 1], "no multiple"),
        (["--interval", 9999], "--interval: '9999' is not a whole number from 10000 "),
        (["--latency", "-1"], "--latency: '-1'"),
        (["--flow-rows", 1 << 21], "--flow-rows: '2097152'"),
        (["--step"], "'--step': its value is missing"),
        (["--colour"], "'--colour': no such option"),
        (["more"], "'more': not an option"),
        (
            ["--ports", "p", "--hosts", "h", "--matrix", "m", "--interval", 10**4, "--step", 10**4, "--latency", 10**9],
            "--latency: 1000000000 is more than 65536 intervals",
        ),
        (
            ["--ports", "/no", "--hosts", "h", "--matrix", "m", "--channel", "c", *FINE_STEPS, "--latency", 10**9],
            "--ports: read '/no'",  # commands come with steps: 1000 are under way
        ),
        (["--ports", "/no", "--hosts", "h", "--matrix", "m", "--interval", MS, "--step", MS], "--ports: read '/no'"),
    ],
)
def test_refuses_arguments(args, words):
    done = subprocess.run([str(AGENTD), *map(str, args)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.startswith("agentd: ") and done.stderr.count("\n") == 1


def test_helps():
    done = subprocess.run([str(AGENTD), "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: agentd --ports FILE --hosts FILE")
