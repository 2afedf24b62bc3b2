# SPDX-License-Identifier: Apache-2.0
"""The contestants in the tables of PCC-RL (Tessler et al. 2021, section 5), and the substitutes for unpublished ones.

The available version of the paper has no appendices: it does not give hosts, link rate, round trip and durations. 100 Gbit/s,
5 MB of buffer (from its figure 1) and one switch with links of 1.45 us are our choice.

- DCQCN stands in for DC2QCN, its unpublished successor, with the parameters of DCQCN's own paper.
- HPCC is that of its own paper (Li et al., SIGCOMM 2019), whose telemetry the switches write. PCC-RL does not say which it ran.
- PCC-RL's own network is not published. The tree that ships for RL-CC stands in for it (another reward: beta 1.5, target 0.064).
  Beside it the tables have the paper's network trained here for the paper's reward; no claims are about that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.study.findings import Findings

HPCC = "HPCC"
WHO = {"PCC-RL": "rlcc-tree", "DC2QCN": "dcqcn", "Swift": "swift", HPCC: "hpcc"}
AS_STATED = "PCC-RL 2021"
FORMS = (rlcc.PCC, rlcc.HELD)
"""The variants that are another form of Swift."""
SWIFT_PCC = rlcc.of_variant("Swift", rlcc.PCC)
"""Swift by a rate alone. Claims about it are counted apart."""
IN_TABLES = WHO | {AS_STATED: "rlcc-lstm", SWIFT_PCC: WHO["Swift"]}
VALUES: Mapping[str, Mapping[str, Any]] = {AS_STATED: {"nic.policy": "pccrl-lstm"}, SWIFT_PCC: rlcc.PRESETS[rlcc.PCC]}
"""Additional keys of a contestant's runs."""
VARIANT_OF = {SWIFT_PCC: rlcc.PCC}
COLORS = {"PCC-RL": "#332288", "DC2QCN": "#CC6677", "Swift": "#999933", AS_STATED: "#44AA99", HPCC: "#888888"}
COLORS[SWIFT_PCC] = COLORS["Swift"]
LOOKS = {SWIFT_PCC: ("^", "-.")}
"""Markers and lines that differ from those of the other contestants."""
STAND_INS = {
    "PCC-RL": "RL-CC's tree stands in for it",
    "DC2QCN": "DCQCN stands in for it",
    AS_STATED: "its network and its reward, trained here",
    HPCC: "its own paper's form",
}
QUANTITIES = (rlcc.UTILIZATION, rlcc.FAIRNESS, rlcc.QUEUE, rlcc.DROP_RATE)
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


def printed(values: Sequence[float]) -> dict[str, float]:
    """Returns a cell of a table in SI units, by quantity."""
    return {column.name: value * unit for column, value, unit in zip(QUANTITIES, values, SCALES, strict=False)}


def swift(variant: str) -> str:
    """Returns the name of Swift in a comparison of a variant."""
    return rlcc.of_variant("Swift", variant) if variant in FORMS else "Swift"


def label(who: str) -> str:
    return f"{who} ({STAND_INS[who]})" if who in STAND_INS else who


def completed(found: Findings, *notes: str) -> Findings:
    """Adds the notes, with those of a figure behind them, and who stands in for whom."""
    named = [replace(each, label=_labelled(each.name)) for each in found.variants]
    return replace(found, variants=named, notes=(*NOTES, *notes))


def _labelled(name: str) -> str:
    who, _, rest = name.partition(", ")
    return f"{label(who)}, {rest}"
