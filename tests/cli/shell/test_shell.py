# SPDX-License-Identifier: Apache-2.0
"""`dcgym shell`: transcripts of scripts and of a terminal, its mistakes, and its end."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from shell_terminal import CTRL_C, CTRL_D, PROMPT, ShellTerminal

from dc_gym import spec
from dc_gym.base.errors import LabError, UsageError
from dc_gym.base.processes import descendants
from dc_gym.base.progress import Quiet
from dc_gym.cli.shell import commands, conversation, network, programs
from dc_gym.cli.shell.keeping import Keeping
from dc_gym.kernel import openvswitch
from dc_gym.run.grounds.guest import shell_memory
from dc_gym.run.grounds.host import live
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import GO_ON
from dc_gym.run.plan.writer import write_plan

ROOT = Path(__file__).resolve().parents[3]
DUMBBELL = str(ROOT / "examples" / "dumbbell.toml")
lab = pytest.mark.lab
needs_ping = pytest.mark.skipif(shutil.which("ping") is None, reason="ping is not installed")
needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")

SERVER = """
import socket
with socket.create_server(("0.0.0.0", 5000)) as listener:
    while True:
        peer, address = listener.accept()
        total = 0
        while data := peer.recv(65536):
            total += len(data)
        print("got", total, "from", address[0], flush=True)
        peer.sendall(b"thanks")
        peer.close()
"""
CLIENT = """
import socket, sys, time
began = time.monotonic()
with socket.create_connection((sys.argv[1], 5000)) as sock:
    sock.sendall(bytes(int(sys.argv[2])))
    sock.shutdown(socket.SHUT_WR)
    print(sock.recv(64).decode(), f"{time.monotonic() - began:.3f} s")
"""


REFUSED = """
import socket, sys, time
began = time.monotonic()
try:
    socket.create_connection((sys.argv[1], 9))
except OSError as error:
    print(error.strerror, f"{time.monotonic() - began:.2f} s")
"""


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    """A folder with a server and a client, in which shells start."""
    tmp_path.chmod(0o755)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "refused.py").write_text(REFUSED)
    (tmp_path / "state").mkdir()
    return tmp_path


@pytest.fixture
def script(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script of commands."""

    def run(text: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "dc_gym.cli.main", "shell", "--quiet", *(words or (DUMBBELL,))]
        return subprocess.run(argv, cwd=folder, input=text, capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture
def terminal(folder: Path) -> Callable[..., ShellTerminal]:
    """Opens a shell on a terminal."""
    return lambda *words: ShellTerminal(*(words or (DUMBBELL,)), cwd=folder, env={"XDG_STATE_HOME": str(folder / "state")})


@lab
def test_a_script_runs_commands_and_ends_with_the_status_of_the_last(script):
    process = script(
        "# a comment\n\nh1 python3 -c 'import socket; print(socket.gethostbyname(\"h3\"))'\n"
        "h2 sh -c 'echo out; echo err >&2; exit 7'\n"
    )
    assert (process.returncode, process.stdout, process.stderr) == (7, "10.0.0.3\nout\n", "err\n")


@lab
def test_the_network_is_described_in_mininets_words(script):
    process = script("nodes\nlinks\nnet\ndump\nhelp\n")
    lines = process.stdout.splitlines()
    assert lines[:2] == ["hosts: h1 h2 h3 h4", "switches: s1 s2"]
    assert "h1-eth0<->s1-eth1 10Mbit/s 10 us" in lines
    assert "s1 s1-eth1:h1-eth0 s1-eth2:h2-eth0 s1-eth3:s2-eth3" in lines
    assert "<Host h4: h4-eth0:10.0.0.4>" in lines and "<Switch s2: s2-eth1,s2-eth2,s2-eth3>" in lines
    assert [line.split("  ")[0] for line in lines if line.startswith(("pingall", "exit"))] == ["pingall", "exit quit"]
    assert process.returncode == 0 and not process.stderr


@lab
def test_each_host_has_its_name(script):
    process = script("h1 hostname\nh2 uname -n\nh1 hostname other\nh1 hostname\nh2 hostname\ns1 hostname\n")
    assert process.stdout.split() == ["h1", "h2", "other", "h2", "lab"] and process.returncode == 0


@lab
def test_pingall_needs_no_program(script):
    process = script("pingall\n")
    assert process.stdout.splitlines() == [
        "h1 -> h2 h3 h4",
        "h2 -> h1 h3 h4",
        "h3 -> h1 h2 h4",
        "h4 -> h1 h2 h3",
        "*** Results: 0% dropped (12/12 received)",
    ]
    assert process.returncode == 0


@lab
def test_pingall_shows_who_does_not_answer(script):
    process = script("h2 ip link set h2-eth0 down\npingall\n")
    assert "h1 -> X h3 h4" in process.stdout and "h2 -> X X X" in process.stdout
    assert "*** Results: 50% dropped (6/12 received)" in process.stdout and process.returncode == 1


@lab
def test_what_set_up_made_comes_back_with_the_device(script):
    flip = "ip link set {0} down; ip link set {0} up"
    child = script(f"h2 sh -c '{flip.format('h2-eth0')}; python3 refused.py h3'\ns1 sh -c '{flip.format('s1-eth1')}'\npingall\n")
    assert child.stdout.startswith("Connection refused 0.00 s\n"), "no address is asked for, not even at once"
    assert child.stdout.endswith("*** Results: 0% dropped (12/12 received)\n") and child.returncode == 0


@lab
def test_a_link_changes_at_a_command(script):
    process = script(
        "link s1 h1 down\nlinks\npingall\nlink s1 h1 up\npingall\nlink s1 s2 rate 5Mbit/s delay 2ms loss 100%\n"
        "link s1 s2 loss 0\nlink s1 s2 loss 0 loss 1\nlinks\niperf h1 h3 2s\n"
    )
    lines = process.stdout.splitlines()
    assert "has loss twice; give one" in process.stderr
    assert "h1-eth0<->s1-eth1 10Mbit/s 10 us down" in lines and "h1-eth0<->s1-eth1 10Mbit/s 10 us" in lines
    assert [line for line in lines if "Results: " in line and "%" in line] == [
        "*** Results: 50% dropped (6/12 received)", "*** Results: 0% dropped (12/12 received)"
    ]  # fmt: skip
    assert "s1-eth3<->s2-eth3 5Mbit/s 2 ms" in lines
    assert 4.5 < float(re.fullmatch(r"\*\*\* Results: (\S+) Mbit/s in 2 s", lines[-1])[1]) < 5 and process.returncode == 0


@lab
def test_queues_show_what_traffic_does_to_them(script):
    process = script(
        "h3 python3 server.py &\nh1 python3 client.py h3 1000000 &\nh2 python3 client.py h3 1000000 &\n"
        "h1 sleep 0.3\nqueues s1\nqueues\n"
    )
    head, first, second, third, *_ = (
        re.split(r"\s{2,}", line) for line in process.stdout.splitlines() if "eth" in line or "K" in line
    )
    assert head == ["port", "backlog", "packets", "limit", "K", "marks", "drops", "sent"]
    assert [first[0], second[0], third[0]] == ["s1-eth1", "s1-eth2", "s1-eth3"]
    assert third[3:5] == ["400 kB", "3.028 kB"] and first[5] == second[5] == "0" and int(third[5]) > 10
    assert third[1].endswith("kB") and float(third[1].split()[0]) > 1 and int(third[2]) > 0, "two flows wait at the bottleneck"
    assert process.stdout.count("s1-eth3") == 2 and "h4-eth0" in process.stdout


@lab
def test_iperf_needs_no_program(script):
    process = script("iperf h1 h3 2s\niperf\n")
    lines = process.stdout.splitlines()
    assert lines[::2] == [f"*** Iperf: testing TCP bandwidth between h1 and {other}" for other in ("h3", "h4")]
    rates = [
        float(re.fullmatch(rf"\*\*\* Results: (\S+) Mbit/s in {seconds} s", line)[1])
        for line, seconds in zip(lines[1::2], (2, 5), strict=True)
    ]
    assert all(9.3 < rate < 9.57 for rate in rates), "10 Mbit/s less headers and slow start"


@lab
def test_a_file_of_commands_runs(script, folder):
    (folder / "commands.txt").write_text("# a comment\nh1 echo one\n\nsource more.txt\nh1 echo three\n")
    (folder / "more.txt").write_text("h2 echo two\n")
    (folder / "itself.txt").write_text("nodes\nsource itself.txt\n")
    process = script("source commands.txt\nh1 echo four\nsource none.txt\nsource itself.txt\nh1 echo on\n")
    assert process.stdout.splitlines()[:4] == ["one", "two", "three", "four"] and process.stdout.endswith("\non\n")
    assert process.stderr.splitlines() == [
        "dcgym: source none.txt: No such file or directory; give a file of commands, one a line",
        "dcgym: source itself.txt: more than 100,000 commands at once; does the file run itself?",
    ]


@pytest.mark.parametrize(("line", "message"), [
    ("link", "link: give a link and what becomes of it, such as: link s1 h1 down"),
    ("link s1 h7 down", "link s1 h7 down: the network has no node 'h7'; did you mean h1"),
    ("link h1 h2 down", "link h1 h2 down: the network has no link between them; name two neighbours"),
    ("link s1 s2 rate 5", "link s1 s2 rate 5: rate '5' is not a number with a unit"),
    ("link s1 s2 speed 5", "link s1 s2 speed 5: give a link and what becomes of it"),
    ("queues s9", "port 's9' is unknown; did you mean s1 or s2?"),
    ("iperf h1", "iperf takes two hosts and a time, such as: iperf h1 h4 5s"),
    ("iperf h1 h9", "host 'h9' is unknown"),
    ("iperf h1 h1", "iperf: h1 is both hosts; give two"),
    ("iperf h1 h2 5", "iperf: time '5' is not a number with a unit"),
    ("iperf h1 h2 0s", "iperf: time '0s' is not above 0"),
])  # fmt: skip
def test_mistakes_in_the_shells_own_commands(line, message):
    with pytest.raises(UsageError) as refusal:
        commands.order(line, spec.load(DUMBBELL).graph())
    assert message in str(refusal.value) and "\n" not in str(refusal.value)


@lab
def test_a_server_in_the_background_serves_while_time_runs(script):
    lines = "h3 python3 server.py &\nh1 python3 client.py h3 1000000\njobs\nh2 python3 client.py h3 1000\nh1 pkill python3\n"
    process = script(f"{lines}h1 sleep 1\njobs\n")
    output = process.stdout.splitlines()
    took_s = float(re.fullmatch(r"thanks (\S+) s", output[1] if output[0].startswith("[1]") else output[0])[1])
    assert 0.8 < took_s < 0.95, "a megabyte over 10 Mbit/s, in virtual time"
    assert "[1] h3: got 1000000 from 10.0.0.1" in output and "[1] h3: got 1000 from 10.0.0.2" in output
    assert output.count("[1] h3 python3 server.py") == 1, "jobs shows it, as long as it runs"
    assert process.stderr.splitlines()[0] == "[1] h3 python3 server.py"
    assert "[1] h3 python3 server.py: ended with status 143" in process.stderr


@lab
@pytest.mark.parametrize("name", ["dctcp", "bbr"])
def test_the_specs_tcp_is_the_default_of_hosts(script, name):
    asks = "import socket; print(socket.socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(bytes(1)))"
    process = script(f"h1 python3 -c '{asks}'\n", DUMBBELL, "--set", f"controller.name={name}")
    assert process.stdout == f"b'{name}'\n"


@lab
def test_the_same_script_gives_the_same_output(script):
    lines = "h3 python3 server.py &\nh1 python3 client.py h3 300000\npingall\nh2 date +%N\n"
    first, second = script(lines), script(lines)
    assert first.stdout == second.stdout and "thanks" in first.stdout and first.returncode == 0


@lab
def test_what_commands_write_ends_with_the_lab(script, folder):
    process = script("h1 sh -c 'echo kept > note'\nh2 cat note\nh1 sh -c 'echo x > /etc/dcgym-note && ls /etc/dcgym-note'\n")
    assert process.stdout == "kept\n/etc/dcgym-note\n" and process.returncode == 0
    assert not (folder / "note").exists() and not Path("/etc/dcgym-note").exists()


WRITES = "h1 sh -c 'mkdir sub; echo a > sub/a; echo b > b; ln -s /etc/passwd link; mkfifo pipe; head -c 300000 /dev/zero > big'\n"


@lab
def test_a_file_that_a_command_wrote_is_kept(script, folder):
    (folder / "mine").write_text("mine")
    process = script(f"{WRITES}get b\nget sub/a copy\nget big\nget none\nget sub\nget pipe\nget mine\nh2 sh -c 'exit 5'\n")
    assert ((folder / "b").read_text(), (folder / "copy").read_text()) == ("b\n", "a\n")
    assert (folder / "big").read_bytes() == bytes(300_000) and (folder / "mine").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
        "b", "big", "client.py", "copy", "mine", "refused.py", "server.py"
    ]  # fmt: skip
    assert process.stderr.splitlines() == [
        "dcgym: get none: No such file or directory",
        "dcgym: get sub: Is a directory",
        "dcgym: get pipe: it is no plain file",
        "dcgym: get mine: mine exists; give another name after it: get mine NAME",
    ]
    assert process.returncode == 5, "the status of the last command"


@lab
def test_what_is_lost_is_told(script):
    process = script(WRITES)
    assert process.stderr == (
        "dcgym: 3 files that commands wrote end with the network: b, big, sub/a (`get FILE` or --keep DIR keeps them)\n"
    )
    assert script("h1 true\n").stderr == ""


@lab
def test_all_files_that_commands_wrote_are_kept(script, folder):
    process = script(f"{WRITES}h1 sh -c 'echo more >> server.py'\n", DUMBBELL, "--keep", "kept")
    sizes = {
        str(path.relative_to(folder / "kept")): path.stat().st_size for path in (folder / "kept").rglob("*") if path.is_file()
    }
    assert sizes == {"b": 2, "big": 300_000, "sub/a": 2, "server.py": len(SERVER) + 5} and not process.stderr
    assert (folder / "server.py").read_text() == SERVER, "the user's own stays as it is"
    again = script("h1 true\n", DUMBBELL, "--keep", "kept")
    assert again.returncode == 2 and "--keep kept: the folder is not empty; give another one" in again.stderr


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "", ".", "a//b", "a\nb", "x" * 300, "\udcff", 7, None])
def test_a_lab_names_no_file_outside(name, tmp_path):
    keeping = Keeping(1000, tmp_path / "kept")
    assert keeping.names(json.dumps([name, "good"]).encode()) == ["good"]
    assert keeping.names(b"\xff") == [] and keeping.names(b"{}") == []


def test_a_lab_fills_no_disk(tmp_path):
    keeping = Keeping(1000)
    keeping.begin("big", tmp_path / "big")
    assert keeping.take(bytes(600)) and not keeping.take(bytes(600)) and not keeping.take(b"")
    assert "more than 1 kB, the lab's memory" in keeping.end(is_whole=True) and not list(tmp_path.iterdir())
    assert not keeping.take(b"unasked"), "nobody asks for it"
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="link exists"):
        keeping.begin("link", tmp_path / "link")


@lab
def test_commands_of_switches_see_their_ports(script):
    process = script("s1 ip -o link show s1-eth3\ns2 ovs-ofctl dump-flows s2\n")
    assert "s1-eth3" in process.stdout and "nw_dst=10.0.0.1" in process.stdout and process.returncode == 0


@lab
def test_a_mistake_is_one_line_and_the_script_goes_on(script):
    process = script(
        "h9 ls\nxterm h1\npingal\nh1\npingall h1\nh1 no-such-program -x\nh1 /no/such/path\nh1 echo on\nh1 iperf33 -c h3\n"
    )
    errors = process.stderr.splitlines()
    assert errors[:6] == [
        "dcgym: host or command 'h9' is unknown; did you mean h1, h2, h3 or h4?",
        "dcgym: host or command 'xterm' is unknown; hosts are h1 .. h4: `help` lists the commands",
        "dcgym: host or command 'pingal' is unknown; did you mean pingall?",
        "dcgym: h1: give a command after its name, such as h1 ip address",
        "dcgym: pingall takes no words (got 'h1')",
        "dcgym: h1: no-such-program is not installed: install it, or check the name; a network has the machine's programs",
    ]
    assert "/no/such/path" in errors[6] and "not found" in errors[6] and len(errors) == 8
    assert (process.stdout, process.returncode) == ("on\n", 127)


@lab
def test_all_commands_on_one_host(script):
    process = script("ip -o -4 address show h3-eth0\npingall\nexit\necho never\n", DUMBBELL, "h3")
    assert "10.0.0.3/8" in process.stdout and "never" not in process.stdout
    assert process.stderr.startswith("dcgym: h3: pingall is not installed") and process.returncode == 127


@lab
def test_time_stands_still_at_the_prompt(terminal):
    with terminal() as shell:
        first = shell.until(PROMPT)
        assert first.startswith("4 hosts, 2 switches; time stands still at the prompt.") and first.endswith("20.000s dcgym> ")
        assert shell.command("h1 sleep 5") == ""
        shell.type("nodes\n")
        assert shell.until(PROMPT).endswith("switches: s1 s2\n25.000s dcgym> ")
        time.sleep(1)
        shell.type("h1 true\n")
        assert shell.until(PROMPT).endswith("25.000s dcgym> ")
        shell.type(CTRL_D)
        assert shell.end() == 0


@lab
def test_ctrl_c_ends_the_command_and_not_the_lab(terminal):
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("h1 python3 -u -c 'import time; [print(n, time.sleep(1)) for n in range(10**9)]'\n")
        shell.until(rb"\d+ None\r?\n")
        shell.type(CTRL_C)
        assert "KeyboardInterrupt" in shell.until(PROMPT)
        for _ in range(20):
            shell.type(f"h1 not finished{CTRL_C}")
            assert "h1 not finished^C\n" in shell.until(PROMPT)
        assert shell.command("h1 echo still there") == "still there"
        shell.type("quit\n")
        assert shell.end() == 0


@lab
def test_a_command_that_ignores_ctrl_c_is_killed(terminal):
    with terminal() as shell:
        shell.until(PROMPT)
        deaf = 'import signal, time; signal.signal(2, lambda *_: print("no")); print(1); time.sleep(10**8)'
        shell.type(f"h1 python3 -uc '{deaf}'\n")
        shell.until(rb"\n1\r?\n")
        for reply in (b"no", b"no", b"Ctrl-C once more ends the network"):
            shell.type(CTRL_C)
            shell.until(reply)
        shell.until(PROMPT)
        assert shell.command("h1 echo still there").endswith("still there")


@lab
def test_ctrl_c_ends_a_command_that_computes_without_a_pause(terminal):
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("h1 python3 -c 'exec(\"while True: pass\")'\n")
        assert "h1: python3" in shell.until(conversation.COMPUTES.encode())  # the process that passes output on has no turn
        shell.type(CTRL_C)
        output = shell.until(PROMPT)
        assert conversation.COMPUTED in output and "Floating point" not in output
        assert shell.command("h1 echo still there").endswith("still there")


def test_the_fourth_ctrl_c_ends_the_network(capsys, monkeypatch):
    memory = shell_memory.ShellMemory(mmap.mmap(-1, shell_memory.SIZE))
    talk = conversation.Conversation(spec.load(DUMBBELL).graph(), Lines("h1 sleep 9"), None, Path("/"), lambda: None)
    handlers: list[Callable[[int, object], None]] = []
    monkeypatch.setattr(conversation.signal, "signal", lambda number, handler: handlers.append(handler))
    memory.tell(shell_memory.Report(0, 20 * 10**9))
    assert talk.step(memory._memory, shell_memory.PROMPT) == GO_ON and memory.order().line == "sleep 9"
    for count in (1, 2, 3):
        handlers[-1](signal.SIGINT, None)
        assert memory.interrupts == count
    with pytest.raises(LabError, match="did not end at Ctrl-C"):
        handlers[-1](signal.SIGINT, None)


class Lines:
    """A `sources.Source` of lines that a test gives."""

    def __init__(self, *lines: str, is_terminal: bool = False) -> None:
        self._lines, self.is_terminal = iter(lines), is_terminal

    def read(self, prompt: str, called_away: object = None) -> str | None:
        return next(self._lines, None)

    def close(self) -> None:
        pass


@lab
def test_the_terminal_completes_and_remembers(terminal, folder):
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("nod\t")
        shell.until(rb"nodes ")
        shell.type("\n")
        assert "hosts: h1 h2 h3 h4" in shell.until(PROMPT)
        shell.type("h1 pytho\t")
        shell.until(rb"python3")
        shell.type(CTRL_C)
        shell.until(PROMPT)
        shell.type(CTRL_D)
        assert shell.end() == 0
    assert (folder / "state" / "dcgym" / "shell_history").read_text().splitlines()[0].strip() == "nodes"
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("\x10")  # Ctrl-P, the line before
        shell.until(rb"nodes")
        shell.type(f"\n\x10 h1{CTRL_C}\x10")
        assert shell.until(rb"\^C\r?\n.*nodes").count("nodes h1") == 1, "a line that was given up is not remembered"


@lab
def test_a_program_has_the_terminal_of_the_user(terminal):
    with terminal(DUMBBELL, "h2") as shell:
        assert shell.until(PROMPT).endswith("s h2> ")
        assert shell.command("python3 -c 'import sys; print(sys.stdin.isatty(), sys.stdout.isatty())'") == "True True"
        assert shell.command("stty size") == "24 80"
        shell.type("sh -c 'echo ready; read _; stty size'\n")
        shell.until(rb"ready\r?\n")
        shell.resize(50, 132)
        shell.type("\n")
        assert "50 132" in shell.until(PROMPT)


def attached(text: str) -> subprocess.CompletedProcess[str]:
    """Runs commands at a second prompt."""
    argv = [sys.executable, "-m", "dc_gym.cli.main", "attach"]
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=300)


@pytest.fixture
def own_temporary(tmp_path, monkeypatch):
    """A folder for temporary files in which no other shell runs. Its path is longer than that of a socket may be."""
    temporary = tmp_path / ("tmp" * 40)
    temporary.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(temporary))
    return temporary


@lab
def test_a_second_prompt_at_a_shell_that_waits(terminal, own_temporary):
    with terminal() as shell:
        shell.until(PROMPT)
        (private,) = own_temporary.glob("dcgym-shell-*")
        (socket_file,) = private.glob("prompt-*")
        assert private.stat().st_mode & 0o777 == 0o700 and socket_file.stat().st_mode & 0o777 == 0o600
        process = attached("nodes\nh9 ls\nget mine\nh1 hostname\nh2 sh -c 'sleep 5; hostname; exit 4'\n")
        assert (process.stdout, process.returncode) == ("hosts: h1 h2 h3 h4\nswitches: s1 s2\nh1\nh2\n", 4)
        assert [line[:30] for line in process.stderr.splitlines()] == [
            "dcgym: host or command 'h9' is",
            "dcgym: files are for the shell",
        ]
        shell.type("h3 hostname\n")
        assert "h3" in shell.until(rb"\nh3\r?\n") and shell.until(PROMPT).startswith("25."), "the time of both is one"
        shell.type(CTRL_D)
        assert shell.end() == 0
    assert attached("nodes\n").stderr == "dcgym: no shell of yours runs here: start one with dcgym shell SPEC\n"


@lab
def test_a_second_prompt_while_a_command_runs(terminal, own_temporary):
    with terminal() as shell:
        shell.until(PROMPT)
        sends = "import socket, time; sock = socket.socket(2, 2); print(1); "
        sends += '[(sock.sendto(bytes(999), ("10.0.0.3", 9)), time.sleep(0.01)) for _ in range(10**9)]'
        shell.type(f"h1 python3 -uc '{sends}'\n")
        shell.until(rb"\n1\r?\n")
        process = attached("h2 sleep 1\nqueues s1-eth3\nh2 hostname\n")
        head, port, host = process.stdout.splitlines()
        assert head.endswith("sent") and re.fullmatch(r"s1-eth3 .* [kM]B", port) and host == "h2" and not process.stderr
        shell.type(CTRL_C)
        shell.until(PROMPT)
        shell.type(CTRL_D)
        assert shell.end() == 130, "the status of the command that was interrupted"


@lab
def test_a_second_prompt_while_the_shell_sends(terminal, own_temporary):
    """Also after Ctrl-C nothing that waits is taken for a computation."""
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("iperf h1 h3 3000s\n")
        shell.until(rb"Iperf: testing")
        process = attached("h2 sleep 1\nqueues h1-eth0\n")  # all links are alike: the queue is the sender's
        backlog = re.search(r"h1-eth0 +([\d.]+) [kM]?B +(\d+)", process.stdout)
        assert backlog and int(backlog[2]) > 0, process.stdout
        shell.type(CTRL_C)
        shell.until(PROMPT)
        time.sleep(1.5)  # longer than a command that was interrupted may compute
        shell.type("nodes\n")
        assert "computed" not in shell.until(rb"hosts: [^>]*> ")


@lab
def test_a_command_reads_what_the_user_types(terminal):
    with terminal() as shell:
        shell.until(PROMPT)
        before = shell.attributes()
        shell.type("h1 cat\nto the cat\n")
        shell.until(rb"to the cat\r?\nto the cat\r?\n")
        shell.type(CTRL_D)
        shell.until(PROMPT)
        shell.type("h1 python3 -iq\n")
        shell.until(rb">>> $")
        shell.type("6 * 7\n")
        shell.until(rb"42\r?\n>>> $")
        shell.type(f"half a line{CTRL_C}")
        shell.until(rb"KeyboardInterrupt\r?\n>>> $")
        shell.type(CTRL_D)
        shell.until(PROMPT)
        assert shell.attributes() == before, "the user has the terminal back"


@lab
def test_a_shell_in_a_host(terminal):
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("h2 sh -i\n")
        shell.until(rb"# $")
        shell.type("hostname; tty; sleep 1000\n")
        shell.until(rb"h2\r?\n/dev/pts/\d+\r?\n")
        for _ in range(4):  # each ends a command, and none the shell, or the network
            shell.type(f"{CTRL_C}")
            shell.until(rb"# $")
        shell.type(CTRL_D)
        shell.until(PROMPT)


@lab
def test_input_and_the_network_take_turns(terminal):
    with terminal() as shell:
        shell.until(PROMPT)
        shell.command("h3 python3 server.py &")
        shell.type("h1 python3 -c 'import socket, sys; sock = socket.create_connection((\"h3\", 5000)); "
                   "sock.sendall(input().encode()); sock.shutdown(1); print(sock.recv(64)); input()'\n")  # fmt: skip
        shell.type("six..\n")
        assert "got 5 from 10.0.0.1" in shell.until(rb"b'thanks'"), "time goes on while the command waits"
        shell.type("\n")
        shell.until(PROMPT)


@lab
def test_a_here_document_is_input(script):
    lines = (
        "h1 sh <<END\n  echo $((1 + 1))\n# no comment of the prompt's\nhostname\nEND\n"
        "h2 cat <<-'X'\n\t$HOME \n\tX\nh1 cat\nh1 cat <<END\nmore\n"
    )
    first, second = script(lines), script(lines)
    assert first.stdout == "2\nh1\n$HOME \n" and first.returncode == conversation.MISTAKE
    assert first.stderr == "dcgym: h1 cat <<END: its input has no end; give a line END after it\n"
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


@lab
def test_an_idle_shell_is_not_taken_for_a_hang(folder):
    argv = [sys.executable, "-m", "dc_gym.cli.main", "shell", "--quiet", "--set", "lab.watchdog=1s", DUMBBELL]
    with subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        for word, pause_s in (("one", 13), ("two", 0)):  # longer than ten times the watchdog's patience
            process.stdin.write(f"h1 echo {word}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{word}\n"
            time.sleep(pause_s)
        process.stdin.close()
    assert process.returncode == 0


@lab
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", ["boot", "prompt"])
def test_nothing_is_left_when_the_shell_is_killed(folder, number, when, monkeypatch):
    temporary = folder / "temporary"
    temporary.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(temporary))
    argv = [sys.executable, "-m", "dc_gym.cli.main", "shell", DUMBBELL]
    with subprocess.Popen(
        argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write("h1 sh -c 'echo up; sleep 100000000'\n")
        process.stdin.flush()
        if when == "boot":
            assert any("switches" in line for line in iter(process.stderr.readline, "")), "it has not begun"
        else:
            assert process.stdout.readline() == "up\n"
        below = [descendant for descendant in descendants(process.pid) if descendant.pid != process.pid]
        assert below, "the lab"
        process.send_signal(number)
        process.wait(60)  # its pipes are open so long: it may write a last line
    deadline = time.monotonic() + 30
    while list(temporary.glob("dcgym-shell-*")) or any(descendant.alive() for descendant in below):
        assert time.monotonic() < deadline, list(temporary.iterdir())
        time.sleep(0.1)
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]


@pytest.mark.parametrize(("words", "text", "message"), [
    (["none.toml"], "h1 ls", "none.toml"),
    (["dumbell-10m"], "h1 ls", "'dumbell-10m' is neither a file nor a preset; did you mean dumbbell-10m"),
    (["broken.toml"], "h1 ls", "broken.toml"),
    (["dumbbell-10m", "h7"], "ls", "host 'h7' is unknown; did you mean h1, h2, h3 or h4?"),
    (["dumbbell-10m"], "", "no terminal, and standard input has no command"),
    (["dumbbell-10m"], "# only a comment\n\n", "no terminal, and standard input has no command"),
])  # fmt: skip
def test_mistakes_before_anything_boots(script, folder, words, text, message):
    (folder / "broken.toml").write_text('[topology]\npreset = "dumbbell-10m"\n[controler]\n')
    process = script(text, *words)
    assert process.returncode == 2 and message in process.stderr and len(process.stderr.splitlines()) == 1 and not process.stdout


def test_a_closed_standard_input_is_no_terminal(folder):
    argv = f"exec {sys.executable} -m dc_gym.cli.main shell --quiet dumbbell-10m <&-"
    process = subprocess.run(["sh", "-c", argv], cwd=folder, capture_output=True, text=True)
    assert process.returncode == 2 and process.stderr.startswith("dcgym: no terminal") and process.stderr.count("\n") == 1


@lab
@needs_ping
def test_ping(script, terminal):
    process = script("h1 ping -c 3 h3\n")
    assert "3 packets transmitted, 3 received, 0% packet loss" in process.stdout and process.returncode == 0
    with terminal() as shell:
        shell.until(PROMPT)
        shell.type("h1 ping h3\n")
        shell.until(rb"icmp_seq=3")
        shell.type(CTRL_C)
        assert "0% packet loss" in shell.until(PROMPT)


@lab
@needs_iperf3
def test_iperf3(script):
    process = script("h3 iperf3 -s &\nh1 iperf3 -c h3 -t 2\n")
    receiver = next(line for line in process.stdout.splitlines() if line.endswith("receiver"))
    assert 9.0 < float(re.search(r"([\d.]+) Mbits/sec", receiver)[1]) < 10.0 and process.returncode == 0


def test_every_example_has_a_network_for_a_shell():
    for path in sorted((ROOT / "examples").glob("*.toml")):
        text = path.read_text()
        if "spec_version" not in text or "[sweep" in text or "[grid" in text:
            continue
        loaded = spec.load(path)
        alone = network.alone(loaded)
        experiment = Experiment.of(alone)
        assert {host.name for host in experiment.graph.hosts} == {host.name for host in loaded.graph().hosts}
        assert not experiment.schedule.flows and not experiment.changes and not alone.workload.exec


def test_orders():
    graph = spec.load(DUMBBELL).graph()
    order = commands.order("h1 ping  h3", graph, (24, 80, "xterm"))
    assert (order.kind, order.node, order.line, order.background, order.terminal) == (
        "run", "h1", "ping  h3", False, (24, 80, "xterm"),
    )  # fmt: skip
    served = commands.order("h3 iperf3 -s&", graph, (24, 80, "xterm"))
    assert (served.line, served.background, served.terminal) == ("iperf3 -s", True, None)
    assert commands.order("h1 a && b", graph).line == "a && b"
    for line in ("h1", "h1 &", "h5 ls", "jobs 1"):
        with pytest.raises(UsageError):
            commands.order(line, graph)


def test_a_missing_program_is_named_with_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "PATH", str(tmp_path))
    assert programs.why_missing("iperf3 -c h3", tmp_path) == "iperf3 is not installed: apt-get install iperf3"
    for line in ("cd /tmp", "for x in 1; do echo $x; done", "./own", "$SHELL", "(true)"):
        assert programs.why_missing(line, tmp_path) is None
    (tmp_path / "own-tool").write_text("#!/bin/sh\n")
    (tmp_path / "own-tool").chmod(0o755)
    assert programs.why_missing("own-tool", tmp_path) is None and "own-tool" in programs.installed(tmp_path)


HOST_GROUND = """
import os, sys, threading, time
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from dc_gym.run.grounds.guest import shell
from dc_gym.run.plan.plan import Plan
from dc_gym.run.grounds.host import inside
orders, answers = threading.Semaphore(0), SimpleQueue()
inside._die_with_the_runner(orders, answers)
site = inside.HostSite(f"/proc/{os.getpid()}/fd/{sys.argv[1]}", "netem", 10**9, orders, None, answers)
site._judged = False
shell.name_hosts = lambda names: None  # needs root
nothing = SimpleNamespace(CHANGES=False, **dict.fromkeys(("keep_neighbours", "seed_draws", "impair"), lambda *_: None))
shell.run(Plan.read(Path(sys.argv[2])), site, nothing, time.monotonic_ns() + 10**8)
"""
"""The process of a host ground, on this machine's kernel without a network: commands at switches need none."""


@pytest.fixture
def host_ground(tmp_path, monkeypatch):
    """Runs lines in a shell on that ground. Returns the ground's status and the conversation."""
    monkeypatch.setattr(live.state, "registered", lambda folder: nullcontext(lambda pid: None))
    before = signal.getsignal(signal.SIGINT)
    (tmp_path / ".lab").mkdir()

    def run(*lines: str, is_terminal: bool = False) -> tuple[int, conversation.Conversation]:
        experiment = Experiment.of(network.alone(spec.load(DUMBBELL, ["ground=host"])))
        ovs = openvswitch.ensure(Quiet())
        write_plan(experiment, ovs, tmp_path / ".lab", shell_folder=tmp_path)
        talk = conversation.Conversation(
            experiment.graph, Lines(*lines, is_terminal=is_terminal), None, ovs.folder / "bin", lambda: None
        )

        def argv(memory: int) -> list[str]:
            return [sys.executable, "-c", HOST_GROUND, str(memory), str(tmp_path / ".lab" / "plan.json")]

        with live.LiveNetwork(argv, tmp_path, None, 10**9) as ground:
            return ground.converse(talk.step), talk

    yield run
    signal.signal(signal.SIGINT, before)


def test_the_host_grounds_process_serves_a_shell(host_ground, capfd, tmp_path):
    status, talk = host_ground(
        "s1 echo on $((1 + 1)) > note; cat note", "s1 sleep 0.01 &", "s1 sleep 0.2", "link s1 s2 down", "s2 sh -c 'exit 3'"
    )
    output = capfd.readouterr()
    assert (status, talk.status, output.out) == (0, 3, "on 2\n") and (tmp_path / "note").exists()
    *jobs, refused = output.err.splitlines()
    assert jobs == ["[1] s1 sleep 0.01", "[1] s1 sleep 0.01: ended with status 0"]
    assert refused.startswith("dcgym: links of netem and tbf cannot change")


def test_ctrl_c_ends_a_command_on_the_host_ground(host_ground, capfd):
    timer = threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        status, talk = host_ground("s1 sleep 600", "s1 sh -c 'echo on; exit 5'", is_terminal=True)
    finally:
        timer.cancel()
    assert (status, talk.status) == (0, 5) and capfd.readouterr().out == "\non\n"


PAGE = ROOT / "docs" / "shell.md"
NUMBER = re.compile(r"\d+(\.\d+)?")


def transcripts() -> list[str]:
    return re.findall(r"^```text\n(20\.000s dcgym> .*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def typed_again(shell: ShellTerminal, transcript: str) -> str:
    """Types a transcript's commands, and returns the transcript of that."""
    output = shell.until(PROMPT).splitlines()[-1]
    for line in re.findall(r"^[\d.]+s dcgym> (.+)$", transcript, re.MULTILINE):
        shell.type(f"{line}\n")
        output += shell.until(PROMPT)
    return "\n".join(line.rstrip() for line in output.splitlines())


@lab
def test_the_pages_commands_show_what_it_says(terminal):
    _, transcript = transcripts()
    with terminal() as shell:
        assert typed_again(shell, transcript) == "\n".join(line.rstrip() for line in transcript.splitlines())


@lab
@needs_ping
def test_the_pages_programs_show_what_it_says(terminal):
    """Versions of ping differ in their numbers, so these are masked."""
    programs_transcript, _ = transcripts()
    with terminal() as shell:
        actual, expected = typed_again(shell, programs_transcript), programs_transcript
    masked = [[re.sub(r"\s+", " ", NUMBER.sub("N", line)).strip() for line in text.splitlines()] for text in (actual, expected)]
    assert masked[0] == masked[1]


def test_the_pages_list_of_commands_is_whole():
    table = PAGE.read_text().partition("| command | what it does |")[2].partition("\n\n")[0]
    assert all(re.search(f"`{name}[` ]", table) for name in commands.NAMES)


@lab
def test_quotes_hold_a_name_together(script, folder):
    process = script('h1 echo fine > "a b.txt"\nget "a b.txt"\n')
    assert process.returncode == 0, process.stderr
    assert (folder / "a b.txt").read_text() == "fine\n"
