# SPDX-License-Identifier: Apache-2.0
"""ns-3 as a peer: builds ns3.cc against the distribution's libns3-dev, once per source and library, and runs it.

The program is kept in the cache, below peers/KEY. KEY is a hash of source, compiler, flags and ns-3's library. The compiler finds
ns-3 on its usual paths. The environment variables CXX and CPPFLAGS/LDFLAGS select another compiler or another ns-3.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import ProtocolError, TestbedError, UsageError
from dc_gym.benchmarks.peers import cases, files, sources
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.benchmarks.perf import meter
from dc_gym.kernel import cache

SOURCE = Path(__file__).resolve().parent / "ns3.cc"
DATA = Path(__file__).resolve().with_name("ns3.toml")
"""ns-3's results of the peers' cases."""
PROGRAM = "ns3-peer"
FLAGS = ("-O2", "-Wall")
STANDARDS = ((46, 23), (41, 20), (0, 17))
"""Pairs (x, C++ standard): from version 3.x on ns-3 is built with this standard, which its headers need."""
LIBRARIES = tuple(f"-lns3-{module}" for module in ("core", "network", "internet", "point-to-point", "traffic-control"))
PACKAGE = "libns3-dev"
EACH_SEGMENT = "--ns3::TcpSocket::DelAckCount=1"
"""The option by which receivers acknowledge each segment."""
FACTS = {"ns3_version": str, "build_profile": str, "setup_s": float, "run_s": float, "virtual_ns": int, "events": int}
_PROBE = "#include <ns3/version-defines.h>\nNS3_VERSION_MAJOR NS3_VERSION_MINOR NS3_VERSION_BUILD_PROFILE\n"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compiler for the program, and the ns-3 that it finds."""

    compiler: tuple[str, ...]
    compiler_version: str
    ns3_version: str
    build_profile: str
    library: Path

    @property
    def flags(self) -> tuple[str, ...]:
        minor = int(self.ns3_version.partition(".")[2])
        return (*FLAGS, f"-std=c++{next(standard for since, standard in STANDARDS if minor >= since)}")

    def key(self) -> str:
        digest = hashlib.sha256(SOURCE.read_bytes() + sources.READER.read_bytes())
        digest.update(repr((self.compiler, self.compiler_version, self.flags, _extra("CPPFLAGS"), _extra("LDFLAGS"))).encode())
        digest.update(self.library.read_bytes())
        return digest.hexdigest()[:32]

    def __str__(self) -> str:
        return f"ns-3 {self.ns3_version}, build profile {self.build_profile}; {self.compiler_version}"


@dataclass(frozen=True, slots=True)
class PeerRun:
    """The results of an experiment in ns-3, and its cost."""

    flows: tuple[files.FlowEnd, ...]
    ports: dict[str, files.PortCount]
    run_s: float
    """Wall time of Simulator::Run alone."""
    virtual_ns: int
    events: int
    cost: meter.ProcessCost
    """Cost of the whole process."""

    @property
    def packet_hops(self) -> int:
        return sum(port.tx_packets for port in self.ports.values())


def toolchain() -> Toolchain:
    """Returns the toolchain. Raises UsageError, in one line with the package's name, if the compiler or ns-3 is missing."""
    compiler = tuple(shlex.split(os.environ.get("CXX", "g++")))
    if not compiler or shutil.which(compiler[0]) is None:
        raise UsageError(f"no C++ compiler {' '.join(compiler) or 'in CXX'!r}: apt-get install g++, or set CXX")
    probed = _run([*compiler, *_extra("CPPFLAGS"), "-E", "-P", "-x", "c++", "-"], _PROBE)
    if probed.returncode:
        raise UsageError(f"ns-3 is not installed: apt-get install {PACKAGE}")
    major, minor, profile = probed.stdout.split()[-3:]
    library = _library(compiler)
    version = _run([*compiler, "--version"]).stdout.splitlines()[0]
    return Toolchain(compiler, version, f"{major}.{minor}", profile.strip('"'), library)


def ensure() -> Path:
    """Returns the compiled program, from the cache or built now."""
    tools = toolchain()
    return sources.cached(tools.key(), PROGRAM, lambda out: _compile(tools, out))


def run(program: Path, folder: Path, stop_ns: int, options: Sequence[str] = ()) -> PeerRun:
    """Runs the experiment whose files are in `folder` until its flows have ended, at most until `stop_ns`."""
    with cache.in_use():
        done = meter.run([str(program), f"--folder={folder}", f"--stop-ns={stop_ns}", *options])
    if done.status:
        raise TestbedError(f"ns-3 failed ({done.status}): {done.stderr.strip() or 'no message'}")
    facts = parse_facts(done.stdout)
    return PeerRun(
        flows=files.read_flows(folder),
        ports=files.read_ports(folder),
        run_s=float(facts["run_s"]),
        virtual_ns=int(facts["virtual_ns"]),
        events=int(facts["events"]),
        cost=done.cost,
    )


def run_case(program: Path, case: PeerCase) -> PeerRow:
    """Runs a case of the peers.

    Receivers acknowledge each segment: ns-3's DCTCP has no floor of two segments, and a lone one would wait for a timer of 40 ms.
    """
    with tempfile.TemporaryDirectory(prefix="dcgym-peer-") as name:
        folder = Path(name)
        layout = cases.write_files(case, folder, protocol="tcp")
        options = (f"--from-ns={case.from_us * 1000}", f"--sample-ns={cases.SWEEP_US * 1000}", EACH_SEGMENT)
        done = run(program, folder, case.until_us * 1000, options)
        return cases.read_back(case, layout, folder, done.cost.cpu_s, cases.OURS[case.algorithm].payload_bytes)


def parse_facts(text: str) -> dict[str, str | float | int]:
    """Parses the KEY=VALUE lines on the program's standard output."""
    given = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return {name: kind(given[name]) for name, kind in FACTS.items()}
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"ns-3 did not say what it did: {error!r}") from None


def _library(compiler: Sequence[str]) -> Path:
    """Returns the library to be linked. Its contents decide whether a built program is still valid."""
    name = "libns3-internet.so"
    for flag in _extra("LDFLAGS"):
        if flag.startswith("-L") and (Path(flag[2:]) / name).is_file():
            return Path(flag[2:]) / name
    found = Path(_run([*compiler, f"-print-file-name={name}"]).stdout.strip())
    if not found.is_absolute():
        raise UsageError(f"{name} is not where the compiler looks: apt-get install {PACKAGE}")
    return found


def _compile(tools: Toolchain, out: Path) -> None:
    argv = [*tools.compiler, *tools.flags, *_extra("CPPFLAGS"), "-o", str(out), str(SOURCE), *_extra("LDFLAGS"), *LIBRARIES]
    done = _run(argv)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:]
        raise TestbedError(f"{SOURCE.name} does not compile against ns-3 {tools.ns3_version}: {(errors or ['no message'])[0]}")


def _extra(name: str) -> list[str]:
    return shlex.split(os.environ.get(name, ""))


def _run(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=text, capture_output=True, text=True, errors="replace")
