# SPDX-License-Identifier: Apache-2.0
"""ns-3 as a peer: builds ns3.cc against the distribution's libns3-dev, once per source and library, and runs it.

The compiler finds ns-3 on its usual paths. The environment variables CPPFLAGS and LDFLAGS select another ns-3.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import ProtocolError, UsageError
from dc_gym.benchmarks.peers import cases, files, sources
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.benchmarks.perf import meter

SOURCE = Path(__file__).resolve().with_name("ns3.cc")
STANDARDS = ((46, 23), (41, 20), (0, 17))
"""Pairs (x, C++ standard): from version 3.x on ns-3 is built with this standard, which its headers need."""
LIBRARY = "libns3-internet.so"
"""The library whose contents decide whether a built program is still valid."""
LIBRARIES = tuple(f"-lns3-{module}" for module in ("core", "network", "internet", "point-to-point", "traffic-control"))
PACKAGE = "libns3-dev"
EACH_SEGMENT = "--ns3::TcpSocket::DelAckCount=1"
"""The option by which receivers acknowledge each segment."""
_PROBE = "#include <ns3/version-defines.h>\nNS3_VERSION_MAJOR NS3_VERSION_MINOR NS3_VERSION_BUILD_PROFILE\n"


@dataclass(frozen=True, slots=True)
class PeerRun:
    """The results of an experiment in ns-3, and its cost."""

    flows: tuple[files.FlowEnd, ...]
    ports: Mapping[str, files.PortCount]
    run_s: float
    """Wall time of Simulator::Run alone."""
    virtual_ns: int
    cost: meter.ProcessCost
    """Cost of the whole process."""


def version() -> tuple[str, str]:
    """Returns ns-3's version and build profile. Raises UsageError if the compiler or ns-3 is missing."""
    probed = sources.answer([*sources.compiler(), *_extra("CPPFLAGS"), "-E", "-P", "-x", "c++", "-"], _PROBE)
    if probed.returncode:
        raise UsageError(f"ns-3 is not installed: apt-get install {PACKAGE}")
    major, minor, profile = probed.stdout.split()[-3:]
    return f"{major}.{minor}", profile.strip('"')


def ensure() -> Path:
    """Returns the compiled program, from the cache or built now."""
    number, _ = version()
    standard = next(standard for since, standard in STANDARDS if int(number.partition(".")[2]) >= since)
    flags = ("-O2", "-Wall", f"-std=c++{standard}", *_extra("CPPFLAGS"))
    return sources.built(SOURCE, _library(), flags, (*_extra("LDFLAGS"), *LIBRARIES), f"ns-3 {number}")


def run(program: Path, folder: Path, stop_ns: int, options: Sequence[str] = ()) -> PeerRun:
    """Runs the experiment whose files are in `folder` until its flows have ended, at most until `stop_ns`."""
    process = sources.run("ns-3", [str(program), f"--folder={folder}", f"--stop-ns={stop_ns}", *options])
    report = dict(line.split("=", 1) for line in process.stdout.splitlines() if "=" in line)
    try:
        run_s, virtual_ns = float(report["run_s"]), int(report["virtual_ns"])
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"ns-3 did not say what it did: {error!r}") from None
    return PeerRun(files.read_flows(folder), files.read_ports(folder), run_s, virtual_ns, process.cost)


def run_case(program: Path, case: PeerCase) -> PeerRow:
    """Runs a case of the peers.

    Receivers acknowledge each segment: ns-3's DCTCP has no floor of two segments, and a lone one would wait for a timer of 40 ms.
    """
    with cases.made(case) as (folder, experiment):
        files.write(folder, experiment)
        options = (f"--from-ns={case.from_us * 1000}", f"--sample-ns={cases.SWEEP_US * 1000}", EACH_SEGMENT)
        peer_run = run(program, folder, case.until_us * 1000, options)
        return cases.read_back(case, experiment.graph, folder, peer_run.cost.cpu_s, cases.OURS[case.algorithm].payload_bytes)


def _library() -> Path:
    for flag in _extra("LDFLAGS"):
        if flag.startswith("-L") and (Path(flag[2:]) / LIBRARY).is_file():
            return Path(flag[2:]) / LIBRARY
    path = Path(sources.answer([*sources.compiler(), f"-print-file-name={LIBRARY}"]).stdout.strip())
    if not path.is_absolute():
        raise UsageError(f"{LIBRARY} is not where the compiler looks: apt-get install {PACKAGE}")
    return path


def _extra(name: str) -> list[str]:
    return shlex.split(os.environ.get(name, ""))
