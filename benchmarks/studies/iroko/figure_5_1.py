# SPDX-License-Identifier: Apache-2.0
"""Figure 5.1 of Iroko's thesis: aggregate throughput over the number of hosts, on a dumbbell whose middle link has 10 Mbit/s.

Networks and measurements are shared with `dcgym bench scale`, which also has bars on them and on their cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dc_gym.benchmarks.perf import scale
from dc_gym.results.results import Result
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, Variant, VariantLine, bounded, series

TITLE = "Scalability: what the hosts of a dumbbell send together"
SOURCE = "thesis, section 5, figure 5.1"
HOSTS = (*scale.HOSTS, scale.TRIED)
SENT = Measure("sent_bps", "sent by all hosts (Mbit/s)", 1e-6)
WORST = Measure("worst", "worst sender off by (%)", 1e2, 2)
MIDDLE = Measure("middle_bps", "middle link (Mbit/s)", 1e-6)
RECEIVED = Measure("goodput_bps", "received (Mbit/s)", 1e-6)
COLORS = {"limited": "#0072B2", "unlimited": "#D55E00"}
TOLERANCE = 0.01
KEYS = {name: dict(setting.split("=", 1) for setting in settings) for name, settings in scale.VARIANTS.items()}


def _doubles(variant: str, hosts: Sequence[int]) -> Criterion:
    names = tuple(f"{variant}, {count} hosts" for count in hosts)

    def judge(evidence: Evidence) -> Outcome:
        sent = [next(iter(evidence.values(name, SENT.name).values())) for name in names]
        off = [abs(rate / (scale.RATE_BPS * count / 2) - 1) for rate, count in zip(sent, hosts, strict=True)]
        return bounded(max(off) <= TOLERANCE, f"{variant}: {sent[-1] / 1e6:,.0f} Mbit/s, at most {max(off):.2%} off", sure=True)

    return Criterion(f"{variant}: 10 Mbit/s a sender within 1 % at {hosts[0]} to {hosts[-1]} hosts", names, judge, (SENT.name,))


CLAIMS = (
    Claim(
        "Aggregate throughput doubles with the hosts up to 1024",
        SOURCE,
        tuple(_doubles(variant, scale.HOSTS) for variant in KEYS),
    ),
    Claim(
        "2048 hosts still run on a large machine (the thesis' smaller one died)",
        SOURCE + "; there with less throughput, here virtual time takes as long as it needs",
        tuple(_doubles(variant, (scale.TRIED,)) for variant in scale.VARIANTS),
    ),
)


def measure(result: Result) -> dict[str, float]:
    """Returns the rate at which the hosts on the left sent, and the rates of the middle link and of the received payload."""
    rates, hosts = scale.egress_bps(result), 2 * int(result.manifest["spec"]["topology"]["pairs"])
    senders = [rates[f"h{number}-eth0"] for number in range(1, hosts // 2 + 1)]
    return {
        SENT.name: sum(senders),
        WORST.name: max(abs(rate / scale.RATE_BPS - 1) for rate in senders),
        MIDDLE.name: rates[f"s1-eth{hosts // 2 + 1}"],
        RECEIVED.name: float(result.summary["goodput_bps"]),
    }


LINES = [
    VariantLine(variant, COLORS[variant], {float(hosts): f"{variant}, {hosts} hosts" for hosts in HOSTS}, *look)
    for variant, look in {"limited": ("o", "-"), "unlimited": (".", ":")}.items()
]
STUDY = Study(
    title=TITLE,
    source="F. Ruffy Varga's thesis",
    base={
        "controller.name": "cubic",
        "topology.kind": "dumbbell",
        "topology.bottleneck_rate": "10Mbit/s",
        "topology.delay": "10us",
        "topology.buffer": "400kB",
        "workload.kind": "pairs",
        "workload.transport": "udp",
        "time.duration": "2100ms",
        "time.warmup": "100ms",
        "monitor.interval": "100ms",
    },
    variants=[
        Variant(f"{name}, {hosts} hosts", {**keys, "topology.pairs": hosts // 2}, COLORS[name])
        for name, keys in KEYS.items()
        for hosts in HOSTS
    ],
    measures=(SENT, WORST, MIDDLE, RECEIVED),
    measure=measure,
    claims=CLAIMS,
    draw=partial(series.figure, series=LINES, columns=(SENT, RECEIVED), xlabel="hosts", title=TITLE),
    facts=(
        ("Network", "dumbbell, middle link of 10 Mbit/s; limited: every interface has 10 Mbit/s; unlimited: 10 Gbit/s"),
        ("Traffic", "every host of the left sends UDP at 10 Mbit/s to its partner on the right"),
        ("Measured", "frames that left each sender's queue, over 2 s of virtual time"),
    ),
    notes=["Nothing is random here, so there is one run a row and no interval. Wall time and memory: `dcgym bench scale`."],
    seeds=1,
)
