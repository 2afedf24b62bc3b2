# SPDX-License-Identifier: Apache-2.0
"""The NIC's HPCC beside its authors' simulator: queue, utilization and shares of the same flows into one port.

The simulator's results are stored (peers/hpcc_ns3.toml): nothing of it need be installed. Its packets carry 1000 bytes and have
1090; ours have 1090, too, of which 974 are payload. docs/peers.md says what differs, and how the simulator is built and asked.

Each case is run with several gaps between the flows' starts, and medians are compared: in both, single runs differ by how the
flows' packets happen to meet.
"""

from __future__ import annotations

from collections.abc import Iterable

from dc_gym.base.checks import Check
from dc_gym.benchmarks.checks import peers
from dc_gym.benchmarks.peers import hpcc_ns3

ALGORITHM = "hpcc"


def checks() -> Iterable[Check]:
    data = hpcc_ns3.stored()
    simulator = data.simulator
    yield Check("the simulator", "recorded", f"{simulator['repository']}, {simulator['commit'][:7]}", ok=True)
    theirs = {case: row for case, row in data.rows.items() if case.algorithm == ALGORITHM and case.topology == "single"}
    yield from peers.compared("hpcc-ns3", theirs, peers.run_lab(list(theirs)))
