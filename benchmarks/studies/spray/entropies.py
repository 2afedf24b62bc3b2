# SPDX-License-Identifier: Apache-2.0
"""How many entropy values a flow needs: 1 to 256 for a permutation, beside the closed form of their collisions.

Each of 16 hosts in 4 racks sends 1.5 MB to the host of the same place in the next rack; all have uplinks. An oblivious sender
takes its E values in turn, and the hash gives each one an uplink. So the E values of the H flows of a rack are balls that fall
into S uplinks. The greatest load over the mean of R racks follows from the multinomial distribution:

    P(max <= m) = (P(X <= m for each of S Poisson variables X of mean HE/S | their sum is HE)) ^ R     (Levin 1981)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, below, series
from dc_gym.study.claims import between

RACKS, HOSTS_PER_RACK, SPINES, LINE_BPS, SIZE_BYTES, SEEDS = 4, 4, 4, 10 * 10**9, 1_474_560, 10
ENTROPIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TITLE = "How many entropy values are enough for a permutation"
MMR = Measure("mmr", "uplinks: greatest load over the mean", digits=3)
GOODPUT = Measure("goodput", "goodput until the last flow ended (% of the lines)", 100, digits=3)
RESENT = Measure("resent", "sent again (% of packets)", 100, digits=2)
OBLIVIOUS, BITMAP, REPS = "oblivious", "bitmap", "REPS"
COLORS = {OBLIVIOUS: "#332288", BITMAP: "#009E73", REPS: "#D55E00"}
WITHIN = 0.1
"""What a mean may differ from the closed form."""
NETWORK: Mapping[str, Any] = {
    "topology.kind": "leafspine",
    "topology.leaves": RACKS,
    "topology.hosts_per_leaf": HOSTS_PER_RACK,
    "topology.spines": SPINES,
    "topology.rate": "10Gbit/s",
    "topology.delay": "1us",
    "topology.marking": "red-instant",
    "topology.kmin": "30kB",
    "topology.kmax": "90kB",
    "topology.pmax": "100%",
    "monitor.interval": "500us",
    "metrics.slowdown": "off",
}
"""The fabric of these studies."""


def closed_form(values: int) -> float:
    """Returns the expected greatest load over the mean of all racks' uplinks, by entropy values a flow."""
    balls = HOSTS_PER_RACK * values
    number = np.arange(balls + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(number[1:]))])
    mean = balls / SPINES
    poisson = np.exp(number * np.log(mean) - mean - log_factorial)
    whole = np.exp(balls * np.log(balls) - balls - log_factorial[balls])  # the probability of that sum
    at_most = np.zeros(balls + 1)
    for most in number:
        truncated = np.where(number <= most, poisson, 0.0)
        sums = truncated
        for _ in range(SPINES - 1):
            sums = np.convolve(sums, truncated)[: balls + 1]
        at_most[most] = min(1.0, sums[balls] / whole)
    return float((1 - at_most**RACKS).sum() / mean)


def name(balancer: str, values: int) -> str:
    return f"{balancer}, {values} values"


def measure(result: Result) -> dict[str, float]:
    """Returns the imbalance of uplinks, and goodput until the last flow has ended."""
    flows, last, nics = result.records("flows"), result.records("queues")[-len(result.ports) :], result.records("nic_flows")
    leaves = {f"s{rack}" for rack in range(1, RACKS + 1)}
    uplinks = [row for row, port in enumerate(result.ports) if port["owner"] in leaves and port["peer"].startswith("s")]
    sent = last["tx_bytes"][uplinks].astype(float)
    done = (flows["end_ns"] >= 0).all()
    took_ns = float(flows["end_ns"].max() - flows["start_ns"].min()) if done else np.nan
    return {
        MMR.name: float(sent.max() / sent.mean()),
        GOODPUT.name: SIZE_BYTES * 8e9 / took_ns / LINE_BPS,
        RESENT.name: float(nics["resent_packets"].sum() / nics["sent_packets"].sum()),
    }


def variant(balancer: str, values: int) -> Variant:
    keys = {"nic.entropies": values, "nic.balancer": balancer.lower()}
    paper = {MMR.name: closed_form(values)} if balancer == OBLIVIOUS else {}
    return Variant(name(balancer, values), keys, COLORS[balancer], paper=paper)


STUDY = Study(
    title=TITLE,
    source="ours; P. Levin, Annals of Statistics 1981, for the closed form",
    base={
        **NETWORK,
        "topology.buffer": "200kB",
        "nic.trace": "off",
        "controller.name": "nscc",
        "workload.kind": "stride",
        "workload.stride": HOSTS_PER_RACK,
        "workload.size": f"{SIZE_BYTES}B",
        "workload.transport": "uec",
        "time.duration": "12ms",
    },
    variants=[variant(balancer, values) for balancer in COLORS for values in ENTROPIES],
    measures=(MMR, GOODPUT, RESENT),
    measure=measure,
    seeds=SEEDS,
    claims=[
        Claim(
            "The imbalance of an oblivious sender is that of balls in bins",
            "Levin 1981, +- 10 %",
            tuple(
                between(name(OBLIVIOUS, values), MMR, (1 - WITHIN) * closed_form(values), (1 + WITHIN) * closed_form(values))
                for values in ENTROPIES
            ),
        ),
        Claim("64 values balance better than 4", "ours", (below(name(OBLIVIOUS, 64), name(OBLIVIOUS, 4), MMR),)),
    ],
    draw=series.over(COLORS, ENTROPIES, name, (MMR, GOODPUT, RESENT), "entropy values a flow", TITLE),
    facts=[("Network", "4 racks of 4 hosts, 4 spines, 10 Gbit/s, 1 us a link, 200 kB a port; NSCC, no trimming")],
)
