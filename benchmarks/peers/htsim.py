# SPDX-License-Identifier: Apache-2.0
"""htsim as a peer: builds htsim.cc against a user's source tree of htsim, and runs cases with it.

htsim is Broadcom/csg-htsim, under BSD-2. It is not part of this project: docs/peers.md says how its library is built.
"""

from __future__ import annotations

from pathlib import Path

from dc_gym.base.errors import ProtocolError, UsageError
from dc_gym.benchmarks.peers import cases, files, sources
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.ctrl.nic import algorithms

SOURCE = Path(__file__).resolve().with_name("htsim.cc")
LIBRARY = Path("sim/libhtsim.a")
FLAGS = ("-O2", "-std=c++11", "-Wall", "-Wextra", "-Werror")
PACKET, Q16 = 2**20, 2**16
"""Units of Swift's parameters in the NIC: a packet, and the unit of factors."""


def program_of(tree: Path) -> Path:
    """Returns our program that is linked with htsim's library, from the cache or built now."""
    sources.require_commit(tree, cases.SIMULATORS["htsim"]["commit"])
    library = tree / LIBRARY
    if not library.is_file():
        raise UsageError(f"{tree}: it has no {LIBRARY}; build it as docs/peers.md says")
    return sources.built(SOURCE, library, (*FLAGS, f"-isystem{library.parent}"), (str(library),), str(tree))


def run(program: Path, case: PeerCase) -> PeerRow:
    """Runs a case."""
    with cases.made(case) as (folder, experiment):
        files.write(folder, experiment, case.algorithm)
        process = sources.run(f"htsim, {case.name},", [str(program), f"--folder={folder}", *options(case, folder)])
        return cases.read_back(case, experiment.graph, folder, process.cost.cpu_s, cases.OURS[case.algorithm].frame_bytes)


def options(case: PeerCase, folder: Path) -> list[str]:
    """Returns the program's options: the window, the size of a packet, and Swift's parameters as the NIC has them."""
    setup = cases.OURS[case.algorithm]
    values: dict[str, float] = {
        "stop-ns": case.until_us * 1000,
        "from-ns": case.from_us * 1000,
        "sample-ns": cases.PROGRESS_NS,
        "packet-bytes": setup.frame_bytes,
    }
    if setup.controller == "swift":
        values |= swift(case, folder)
    return [f"--{name}={value}" for name, value in values.items()]


def swift(case: PeerCase, folder: Path) -> dict[str, float]:
    """Returns Swift's parameters in htsim's units. The first window is the line's in one base round trip, as the NIC's is."""
    setup, line_bps = cases.OURS[case.algorithm], case.rate_gbps * 10**9
    preset = str(setup.keys["nic.preset"])
    value = algorithms.resolve_parameters(algorithms.load("swift", folder), preset, {}, line_bps).values
    if value["reference_rtt"]:
        raise ProtocolError(f"preset {preset} scales its times; htsim takes them as they are")
    base_ns = case.links * (2 * case.delay_ns + setup.frame_bytes * 8 / case.rate_gbps)
    return {
        "base-target-ns": value["base_target"],
        "hop-ns": value["hop"],
        "fs-range-ns": value["fs_range"],
        "retx-reset": value["retx_reset"],
        "beta": value["beta"] / Q16,
        "max-mdf": value["max_mdf"] / Q16,
        "cwnd-initial": base_ns * case.rate_gbps / 8 / setup.frame_bytes,
        **{name.replace("_", "-"): value[name] / PACKET for name in ("ai", "fs_min", "fs_max", "cwnd_min", "cwnd_max")},
    }
