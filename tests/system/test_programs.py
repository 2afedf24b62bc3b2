# SPDX-License-Identifier: Apache-2.0
"""The page "programs that work": what a machine has of it is tried in a lab, and ends as its row says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "programs.md"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WORKS, STOPS = "works", "stops the clock"
STOOD_STILL = "virtual time has stood still"

NGINX = """daemon off; error_log stderr; pid /tmp/nginx.pid;
events {}
http { access_log off; client_body_temp_path /tmp/b; proxy_temp_path /tmp/p; fastcgi_temp_path /tmp/f; uwsgi_temp_path /tmp/u;
scgi_temp_path /tmp/s; server { listen 80; location / { return 200 "hello from $hostname\\n"; } } }
"""
MEMCACHED = """import socket
sock = socket.create_connection(("h3", 11211))
sock.sendall(b"set k 0 0 2\\r\\n42\\r\\nget k\\r\\nquit\\r\\n")
print(b"".join(iter(lambda: sock.recv(100), b"")))
"""
GRPC_SERVER = """import grpc
from concurrent import futures
server = grpc.server(futures.ThreadPoolExecutor(2))
turn = grpc.unary_unary_rpc_method_handler(lambda request, context: request[::-1])
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Texts", {"Turn": turn}),))
server.add_insecure_port("0.0.0.0:50051")
server.start()
server.wait_for_termination()
"""
GRPC_CLIENT = """import grpc
print(grpc.insecure_channel("h3:50051").unary_unary("/test.Texts/Turn")(b"abc", timeout=5))
"""
AGENT = """#!/bin/sh
host=$1; shift
exec nsenter --net=/run/netns/$host --uts=/run/utsns/$host sh -c "$*"
"""
RING = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank, size, token = 1;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank && !MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
		token++;
	MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
	if (!rank && !MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
		printf("%d of %d\\n", token, size);
	return MPI_Finalize();
}
"""
MPIRUN = "mpirun --allow-run-as-root --host h1,h2,h3,h4 -np 4 --mca plm_rsh_agent ./agent.sh --mca oob_tcp_if_include 10.0.0.0/8"
TCP_BTL = "--mca btl tcp,self --mca btl_tcp_if_include 10.0.0.0/8 --mca mpi_yield_when_idle 1"


@dataclass(frozen=True)
class Trial:
    """Commands for the prompt, and what then is on standard output."""

    needs: tuple[str, ...]
    """Programs, and modules of the system's Python after a dot."""
    commands: str
    shows: str
    """A regular expression."""
    files: Mapping[str, str] = field(default_factory=dict)
    prepare: str = ""
    """A command before that, on the machine."""


WEB = "h3 python3 -m http.server 80 &\nh1 sleep 1\n"
TRIALS = {
    "Python's `http.server`, `urllib`": Trial(
        ("python3",),
        WEB + "h1 python3 -c 'import urllib.request as web; print(web.urlopen(\"http://h3/page\").read())'\n",
        r"b'a page\\n'",
        {"page": "a page\n"},
    ),
    "curl": Trial(("python3", "curl"), f"{WEB}h1 curl -sS http://h3/page\n", r"a page\n", {"page": "a page\n"}),
    "wget": Trial(("python3", "wget"), f"{WEB}h1 wget -qO- http://h3/page\n", r"a page\n", {"page": "a page\n"}),
    "nginx": Trial(
        ("nginx", "python3"),
        "h3 nginx -c $PWD/nginx.conf &\nh1 python3 -c 'import urllib.request as web; print(web.urlopen(\"http://h3/\").read())'\n",
        r"b'hello from h3\\n'",
        {"nginx.conf": NGINX},
    ),
    "redis": Trial(
        ("redis-server", "redis-cli", "redis-benchmark"),
        'h3 redis-server --bind 0.0.0.0 --save "" --protected-mode no --dir /tmp > /dev/null &\nh1 redis-cli -h h3 SET a 42\n'
        "h2 redis-cli -h h3 GET a\nh1 redis-benchmark -h h3 -n 500 -c 5 -q -t set\n",
        r"OK\n42\n[\s\S]*requests per second",
    ),
    "memcached": Trial(
        ("memcached", "python3"),
        "h3 memcached -u nobody -l 0.0.0.0 &\nh1 python3 client.py\n",
        r"b'STORED\\r\\nVALUE k 0 2\\r\\n42\\r\\nEND\\r\\n'",
        {"client.py": MEMCACHED},
    ),
    "iperf3": Trial(("iperf3",), "h3 iperf3 -s > /dev/null &\nh1 iperf3 -c h3 -t 2 -f m\n", r"9\.5\d Mbits/sec +receiver"),
    "gRPC (Python)": Trial(
        ("python3", ".grpc"),
        "h3 python3 server.py &\nh1 sleep 2\nh1 python3 client.py\n",
        r"b'cba'",
        {"server.py": GRPC_SERVER, "client.py": GRPC_CLIENT},
    ),
    "netcat": Trial(("nc",), "h3 nc -l 5000 &\nh1 nc -N h3 5000 <<END\nby hand\nEND\n", r"\[1\] h3: by hand\n"),
    "Open MPI, start of processes": Trial(
        ("mpirun", "nsenter"), f"h1 {MPIRUN} hostname\n", r"h1\nh2\nh3\nh4\n", {"agent.sh": AGENT}
    ),
    "Open MPI, blocking receives": Trial(
        ("mpirun", "nsenter", "mpicc"), f"h1 {MPIRUN} {TCP_BTL} ./ring\n", r"4 of 4\n", {"agent.sh": AGENT, "ring.c": RING},
        "mpicc -o ring ring.c",
    ),
}  # fmt: skip


def rows() -> dict[str, list[str]]:
    """Returns the page's table: version, verdict and reason by program."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", PAGE.read_text(), re.M)]
    return {name: rest for name, *rest in cells[2:]}


def test_the_page_has_what_is_tried():
    assert list(rows()) == list(TRIALS)
    assert {verdict for _, verdict, _ in rows().values()} <= {WORKS, STOPS}


def is_here(need: str) -> bool:
    if need.startswith("."):
        return not subprocess.run(
            ["/usr/bin/env", "-i", f"PATH={PATH}", "python3", "-c", f"import {need[1:]}"], capture_output=True
        ).returncode
    return shutil.which(need, path=PATH) is not None


@pytest.mark.lab
@pytest.mark.parametrize("name", TRIALS)
def test_a_program_does_what_its_row_says(name, tmp_path, lab_kernel):
    trial, (_, verdict, _) = TRIALS[name], rows()[name]
    if missing := [need for need in trial.needs if not is_here(need)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    tmp_path.chmod(0o755)
    for file, text in trial.files.items():
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o755)
    if trial.prepare:
        subprocess.run(trial.prepare, shell=True, check=True, cwd=tmp_path)
    argv = [sys.executable, "-m", "dc_gym.cli.main", "shell", "--quiet", "--set", "lab.watchdog=20s", "dumbbell-10m"]
    child = subprocess.run(argv, cwd=tmp_path, input=trial.commands, capture_output=True, text=True, timeout=600)
    if verdict == WORKS:
        assert re.search(trial.shows, child.stdout) and child.returncode == 0, (child.stdout, child.stderr)
    else:
        assert STOOD_STILL in child.stderr and not re.search(trial.shows, child.stdout), "the page says that it stops the clock"
