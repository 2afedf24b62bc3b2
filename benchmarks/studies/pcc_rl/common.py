# SPDX-License-Identifier: Apache-2.0
"""The contestants in the tables of PCC-RL (Tessler et al. 2021, section 5), and the substitutes for unpublished ones.

The available version of the paper has no appendices: it does not give hosts, link rate, round trip and durations. 100 Gbit/s,
5 MB of buffer (from its figure 1) and one switch with links of 1.45 us are our choice.
PCC-RL's own network is not published. The tree that ships for RL-CC stands in for it (another reward: beta 1.5, target 0.064).
Beside it the tables have the paper's network trained here for the paper's reward; no claims are about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.study import VariantLine
from dc_gym.study.scaled import ScaledNetwork

HPCC = "HPCC"
WHO = {"PCC-RL": "rlcc-tree", "DC2QCN": "dcqcn", "Swift": "swift", HPCC: "hpcc"}
AS_STATED = "PCC-RL 2021"
SWIFT_PCC = rlcc.of_setup("Swift", rlcc.PCC)
"""Swift by a rate alone. Claims about it are counted apart."""
IN_TABLES = WHO | {AS_STATED: "rlcc-lstm", SWIFT_PCC: WHO["Swift"]}
KEYS = {AS_STATED: {"nic.policy": "pccrl-lstm"}, SWIFT_PCC: rlcc.PRESETS[rlcc.PCC]}
"""More keys of a contestant's variants."""
COLORS = {"PCC-RL": "#332288", "DC2QCN": "#CC6677", "Swift": "#999933", AS_STATED: "#44AA99", HPCC: "#888888"}
COLORS[SWIFT_PCC] = COLORS["Swift"]
LOOKS = {SWIFT_PCC: ("^", "-.")}
"""Markers and lines that differ from the other contestants'."""
STAND_INS = {
    "PCC-RL": "RL-CC's tree stands in for it",
    "DC2QCN": "DCQCN stands in for it",
    AS_STATED: "its network and its reward, trained here",
    HPCC: "its own paper's form",
}
NINE = ScaledNetwork("nine", "one switch, 8 senders, 1 receiver", {**rlcc.SINGLE, "hosts": 9}, 8)
MEASURES = (rlcc.UTILIZATION, rlcc.FAIRNESS, rlcc.QUEUE, rlcc.DROP_RATE)
"""SU, FR, QL and DR of the paper."""
SCALES = (1e-2, 1e-2, 1e-6, 1e9)
"""The paper's units: %, %, us, Gbit/s."""
NOTES = (
    "DCQCN stands in for DC2QCN, which is not published, and RL-CC's tree for PCC-RL's network. Their differences "
    "to the paper's are differences of algorithms, too.",
    "HPCC has the form and parameters of its own paper: windows, eta 0.95, five raises in a row. Telemetry takes 42 bytes of "
    "each frame. PCC-RL does not say which form it compared with.",
    f"{AS_STATED} rests at inflation = 0.8 sqrt(N) by the reward that the paper states: a longer queue than its tables have.",
)


def label(name: str) -> str:
    """Returns the label of a contestant or a variant: who stands in for whom."""
    contestant, comma, rest = name.partition(", ")
    return f"{contestant} ({STAND_INS[contestant]}){comma}{rest}" if contestant in STAND_INS else name


def told(name: str, contestant: str, printed: Sequence[float] = ()) -> dict[str, Any]:
    """Returns style and printed values of a variant; `printed` is a cell of a table in the paper's units."""
    paper = {measure.name: value * unit for measure, value, unit in zip(MEASURES, printed, SCALES, strict=False)}
    return {"color": COLORS[contestant], "label": label(name), "paper": paper}


def lines(counts: Sequence[int], name: Callable[[str, int], str], who: Iterable[str] = IN_TABLES) -> list[VariantLine]:
    """Returns a line per contestant, over the number of flows or hosts."""
    return [
        VariantLine(
            label(contestant),
            COLORS[contestant],
            {count: name(contestant, count) for count in counts},
            *LOOKS.get(contestant, ()),
        )
        for contestant in who
    ]
