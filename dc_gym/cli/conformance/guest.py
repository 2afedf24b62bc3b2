# SPDX-License-Identifier: Apache-2.0
"""Runs in the lab: each case in a process and a network namespace of its own.

  python -m dc_gym.cli.conformance.guest RUN_FOLDER

RUN_FOLDER/.lab/cases.pickle is a ScriptPlan, written by the host's half of this package. One JSON object for each case goes to
RUN_FOLDER/.lab/out/results.jsonl.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dc_gym.cli.conformance.calls import Unsupported, libc
from dc_gym.cli.conformance.interpreter import DEFAULT_TCP, Failure, Interpreter
from dc_gym.cli.conformance.script import Script
from dc_gym.cli.conformance.symbols import TcpInfo
from dc_gym.cli.conformance.tun import FAMILIES
from dc_gym.run.plan.plan import OUT

__all__ = ["ScriptOutcome", "ScriptPlan", "ScriptRun", "main"]

CLONE_NEWNET = 0x40000000
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
PRIORITY = 10  # SCHED_FIFO: no timer slack, and only the kernel delays this process
COOKIES = {"ipv4": ("3021b9d889017eeb", "b7c12350a90dc8f5"), "ipv6": ("c1d1e9742a47a9bc", "82af1a8f9a205c34")}
"""Cookies of Fast Open, for the key that the kernel's defaults.sh sets and for a key of zeroes (its ksft_runner.sh)."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A script on one IP version."""

    script: Script
    folder: str
    """Folder of the script and its helpers, in which its commands run."""
    family: str


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    tcp_header: str
    """Text of linux/tcp.h."""
    tcp: str = DEFAULT_TCP
    """The TCP of sockets for which a script chooses none but Linux' default."""
    cases: tuple[ScriptRun, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    """The outcome of a case. status: passed, failed, unsupported, or broken (an error of this interpreter)."""

    script: str
    family: str
    status: str
    why: str = ""
    packets: int = 0
    """Number of outbound packets that were compared."""
    worst_ns: int = 0
    """The largest timing error of an event, in ns."""
    said: tuple[str, ...] = ()
    """Output of the script's commands on standard error."""


def main(argv: Sequence[str] = sys.argv) -> int:
    private = Path(argv[1]) / ".lab"
    plan: ScriptPlan = pickle.loads((private / "cases.pickle").read_bytes())
    info = TcpInfo(plan.tcp_header)
    if plan.tcp != DEFAULT_TCP:  # a namespace takes no other as its default
        ALLOWED.write_text(f"{ALLOWED.read_text().strip()} {plan.tcp}")
    with (private / OUT / "results.jsonl").open("w") as results:
        for case in plan.cases:
            verdict = _in_child(case, info, plan.tcp)
            results.write(json.dumps(asdict(verdict)) + "\n")
            results.flush()
            print(f"::done {verdict.status} {verdict.script} {verdict.family}", flush=True)
    return 0


def _in_child(case: ScriptRun, info: TcpInfo, tcp: str) -> ScriptOutcome:
    """Runs a case in a child process, where it can leave nothing behind."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(asdict(_run(case, info, tcp))).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    if not output:
        return ScriptOutcome(case.script.name, case.family, "broken", "the interpreter died")
    fields = json.loads(output)
    return ScriptOutcome(**{**fields, "said": tuple(fields["said"])})


def _run(case: ScriptRun, info: TcpInfo, tcp: str) -> ScriptOutcome:
    """Runs one case in a new namespace."""
    status, why, interpreter = "passed", "", None
    try:
        if libc.unshare(CLONE_NEWNET):  # os.unshare needs Python 3.12
            raise OSError(ctypes.get_errno(), "unshare")
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        interpreter = Interpreter(case.script, FAMILIES[case.family], Path(case.folder), info, _defines(case.family), tcp)
        interpreter.run()
    except Failure as failure:
        status, why = "failed", str(failure)
    except Unsupported as reason:
        status, why = "unsupported", str(reason)
    except Exception:
        status, why = "broken", traceback.format_exc().strip()
    if interpreter is None:
        return ScriptOutcome(case.script.name, case.family, status, why)
    stderr_lines = tuple(interpreter.said)
    return ScriptOutcome(case.script.name, case.family, status, why, interpreter.packets, interpreter.worst_ns, stderr_lines)


def _defines(family: str) -> dict[str, str]:
    """Returns the symbols that the kernel's ksft_runner.sh gives to packetdrill."""
    cookies = COOKIES["ipv6" if family == "ipv6" else "ipv4"]
    six = family != "ipv4"
    return {
        "TFO_COOKIE": cookies[0],
        "TFO_COOKIE_ZERO": cookies[1],
        "CMSG_LEVEL_IP": "SOL_IPV6" if six else "SOL_IP",
        "CMSG_TYPE_RECVERR": "IPV6_RECVERR" if six else "IP_RECVERR",
    }


if __name__ == "__main__":
    sys.exit(main())
