# SPDX-License-Identifier: Apache-2.0
"""Figure 5.1 of Iroko's thesis: aggregate throughput over the number of hosts, on a dumbbell whose middle link has 10 Mbit/s.

Networks and measurements are those of `dcgym bench scale`, which also has bars on them and on their cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dc_gym import spec as specs
from dc_gym.base.progress import Progress
from dc_gym.benchmarks.perf import scale
from dc_gym.figures import kit
from dc_gym.records.results import Result
from dc_gym.study import runs
from dc_gym.study.claims import Claim, Criterion, CriterionOutcome, judge
from dc_gym.study.evidence import VariantEvidence, Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.sweep.grid import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Scalability: what the hosts of a dumbbell send together"
SOURCE = "thesis, section 5, figure 5.1"
HOSTS = (*scale.HOSTS, scale.TRIED)
SENT = Measure("sent_bps", "sent by all hosts (Mbit/s)", 1e-6)
WORST = Measure("worst", "worst sender off by (%)", 1e2, 2)
MIDDLE = Measure("middle_bps", "middle link (Mbit/s)", 1e-6)
RECEIVED = Measure("goodput_bps", "received (Mbit/s)", 1e-6)
COLORS = {"limited": "#0072B2", "unlimited": "#D55E00"}
TOLERANCE = 0.01


def _doubles(variant: str, hosts: Sequence[int]) -> Criterion:
    names = tuple(f"{variant}, {count} hosts" for count in hosts)

    def judge(evidence: Evidence) -> CriterionOutcome:
        sent = [next(iter(evidence.values(name, SENT.name).values())) for name in names]
        off = [abs(rate / (scale.RATE_BPS * count / 2) - 1) for rate, count in zip(sent, hosts, strict=True)]
        return CriterionOutcome(max(off) <= TOLERANCE, f"{variant}: {sent[-1] / 1e6:,.0f} Mbit/s, at most {max(off):.2%} off")

    return Criterion(f"{variant}: 10 Mbit/s a sender within 1 % at {hosts[0]} to {hosts[-1]} hosts", names, judge)


CLAIMS = (
    Claim(
        "Aggregate throughput doubles with the hosts up to 1024",
        SOURCE,
        tuple(_doubles(each, scale.HOSTS) for each in scale.VARIANTS),
    ),
    Claim(
        "2048 hosts still run on a large machine (the thesis' smaller one died)",
        SOURCE + "; there with less throughput, here virtual time takes as long as it needs",
        tuple(_doubles(each, (scale.TRIED,)) for each in scale.VARIANTS),
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    """Runs each number of hosts once, since nothing is random."""
    folder = (options.out / "scale").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scale.toml"
    file.write_text(scale.SPEC.lstrip())
    base = specs.read(file)
    points = []
    for variant, settings in scale.VARIANTS.items():
        for hosts in HOSTS:
            overrides = (*settings, f"topology.pairs={hosts // 2}", *options.overrides)
            spec = specs.vary(base, folder, str(file), overrides, {}, str(file))
            points.append(Point(f"{variant}-{hosts}", {"variant": variant, "hosts": hosts}, spec))
    found = runs.run_all("scale", ("variant", "hosts"), points, folder, options, progress)
    made = [_contender(str(each.values["variant"]), int(each.values["hosts"]), found[each.name]) for each in points]
    variants = {each.name: each for each in made}
    evidence = Evidence(variants)
    return Findings(
        TITLE,
        FACTS,
        list(variants.values()),
        (SENT, WORST, MIDDLE, RECEIVED),
        [judge(claim, evidence) for claim in CLAIMS],
        _figure(evidence),
        ["Nothing is random here, so there is one run a row and no interval. Wall time and memory: `dcgym bench scale`."],
    )


FACTS = (
    ("Network", "dumbbell, middle link of 10 Mbit/s; limited: every interface has 10 Mbit/s; unlimited: 10 Gbit/s"),
    ("Traffic", "every host of the left sends UDP at 10 Mbit/s to its partner on the right"),
    ("Measured", "frames that left each sender's queue, over 2 s of virtual time"),
)


def _contender(variant: str, hosts: int, result: Result) -> VariantEvidence:
    rates = scale.egress_bps(result)
    senders = [rates[f"h{number}-eth0"] for number in range(1, hosts // 2 + 1)]
    values = {
        SENT.name: sum(senders),
        WORST.name: max(abs(rate / scale.RATE_BPS - 1) for rate in senders),
        MIDDLE.name: rates[f"s1-eth{hosts // 2 + 1}"],
        RECEIVED.name: float(result.summary["goodput_bps"]),
    }
    name = f"{variant}, {hosts} hosts"
    return VariantEvidence(name, name, COLORS[variant], {key: {1: value} for key, value in values.items()})


def _figure(evidence: Evidence) -> Figure:
    with kit.style():
        canvas = kit.new_figure(7.0, 4.2)
        ax = canvas.subplots()
        for variant, marker in zip(scale.VARIANTS, "os", strict=True):
            for column, line in ((SENT, "-"), (RECEIVED, ":")):
                values = [evidence.values(f"{variant}, {hosts} hosts", column.name)[1] / 1e6 for hosts in HOSTS]
                size = 5 if variant == "limited" else 3
                label = f"{variant}: {column.title.partition(' (')[0]}"
                ax.plot(HOSTS, values, line, marker=marker, markersize=size, color=COLORS[variant], label=label)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(HOSTS, [str(hosts) for hosts in HOSTS])
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.minorticks_off()
        ax.set_xlabel("Hosts")
        ax.set_ylabel("Mbit/s")
        ax.set_title(TITLE, loc="left")
        ax.legend()
    return canvas
