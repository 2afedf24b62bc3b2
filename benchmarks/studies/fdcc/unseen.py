# SPDX-License-Identifier: Apache-2.0
"""FDCC (K. Zhang, MSc thesis 2023) on a lossy fabric, and on a network and numbers of flows that its training never had.

The thesis has neither. Its training, as ours, has one bottleneck, at most 32 flows, and no drops. Here n flows go to one receiver

- through the dumbbell of table 6.2 without pauses, with 2 MB of buffer a port, of 16 and 256 flows;
- on the leaf-spine of ACC's figures 1 and 2, from 23 hosts at 25 Gbit/s, of 69 and 552 flows. Its round trips are several times
  those of the dumbbell; pauses and the shared buffer are those of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.fdcc import n_to_one as flows_to_one
from dc_gym.benchmarks.studies.fdcc.n_to_one import (
    CONTESTANTS,
    DCQCN,
    DROPPED,
    DUMBBELL,
    FDCC,
    GOODPUT,
    HPCC,
    LOSSLESS,
    PAUSED,
    PAUSES,
    QUEUE,
    RIVALS,
    SLOWDOWN,
    TAIL,
    UNFAIR,
    UNFINISHED,
    Traffic,
)
from dc_gym.study.collect import Variant
from dc_gym.records.results import Result
from dc_gym.study import series
from dc_gym.study.claims import Claim, above, below, less_than
from dc_gym.study.evidence import Evidence
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.series import VariantLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "FDCC on a lossy fabric, and on a network and numbers of flows that its training never had"
SOURCE = "ours"
NAME = "unseen"
BUFFER = "2MB"
PAUSING = ("topology.shared_buffer", "topology.reserve", "topology.pfc", "topology.xoff")


@dataclass(frozen=True, slots=True)
class Place:
    """A network, and the numbers of flows on it."""

    network: Mapping[str, Any]
    senders: int
    counts: tuple[int, ...]
    links: int
    scale: int = 1


LOSSY, LEAF_SPINE = "lossy dumbbell", "leaf-spine at 25 Gbit/s"
PLACES: Mapping[str, Place] = {
    LOSSY: Place(
        {**{key: value for key, value in DUMBBELL.items() if key not in PAUSING}, "topology.buffer": BUFFER}, 64, (16, 256), 3
    ),
    LEAF_SPINE: Place({**{key: LOSSLESS[key] for key in PAUSING}, "topology.preset": "acc24a"}, 23, (69, 552), 4, 4),
}
COLUMNS = (GOODPUT, UNFAIR, SLOWDOWN, QUEUE, TAIL, PAUSED, PAUSES, DROPPED, UNFINISHED)


def name(place: str, who: str, flows: int) -> str:
    return f"{place}, {flows_to_one.name(who, flows)}"


def _row(place: str, who: str, flows: int) -> Variant:
    at = PLACES[place]
    return flows_to_one.row(who, Traffic(flows, at.senders, at.scale), at.network, {}, title=f"{place}, {who}")


ROWS = [_row(place, who, flows) for place, at in PLACES.items() for flows in at.counts for who in CONTESTANTS]
CLAIMS = (
    *(
        Claim(
            f"Lossy, {flows} flows: FDCC loses nothing",
            SOURCE,
            (less_than(name(LOSSY, FDCC, flows), DROPPED, 1),),
            ours=True,
        )
        for flows in PLACES[LOSSY].counts
    ),
    Claim(
        "Lossy, 256 flows: FDCC loses less than DCQCN",
        SOURCE,
        (below(name(LOSSY, FDCC, 256), name(LOSSY, DCQCN, 256), DROPPED),),
        ours=True,
    ),
    *(
        Claim(
            f"{place}: FDCC carries more than HPCC",
            SOURCE,
            tuple(above(name(place, FDCC, flows), name(place, HPCC, flows), GOODPUT) for flows in at.counts),
            ours=True,
        )
        for place, at in PLACES.items()
    ),
    *(
        Claim(
            f"{place}, {flows} flows: FDCC is the fairest",
            SOURCE,
            tuple(below(name(place, FDCC, flows), name(place, other, flows), UNFAIR) for other in RIVALS),
            ours=True,
        )
        for place, at in PLACES.items()
        for flows in at.counts
    ),
)
FACTS = (
    (LOSSY, f"table 6.2's 64 pairs, 100 Gbit/s, 160 ns a link; {BUFFER} a port and no pauses"),
    (LEAF_SPINE, "24 hosts, 2 leaves, 2 spines at 100 Gbit/s (preset acc24a); 9 MB a switch; PFC with FDCC's rule"),
    ("Traffic", "flows to one receiver, Gaussian starts within 1 ms; 20 MB a flow, and at most 960 MB together"),
    ("Contestants", "those of tables 6.1 and 6.2, each with a window of one BDP"),
    ("Training", "of FDCC's policy: one bottleneck in a fluid model, at most 32 flows, no drops"),
)
NOTES = flows_to_one.NOTES


def measure(result: Result) -> dict[str, float]:
    """Returns the tables' quantities; the base round trip of slowdowns is that of the dumbbell, scaled."""
    place = PLACES[LEAF_SPINE if len([port for port in result.ports if port["side"] == "host"]) == 24 else LOSSY]
    return flows_to_one.measure(result, place.links, place.scale)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measure)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    """Draws goodput and unfairness over the numbers of flows, a line for each contestant and network."""
    lines = [
        VariantLine(
            f"{who}, {place}",
            evidence.variants[name(place, who, at.counts[0])].color,
            {float(flows): name(place, who, flows) for flows in at.counts},
            line=style,
        )
        for (place, at), style in zip(PLACES.items(), ("-", "--"), strict=True)
        for who in CONTESTANTS
    ]
    return series.figure(evidence, lines, (GOODPUT, UNFAIR, QUEUE), "flows", TITLE)
