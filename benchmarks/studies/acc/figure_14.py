# SPDX-License-Identifier: Apache-2.0
"""Figure 14 of ACC (Yan et al., SIGCOMM 2021): one agent for the network (C-ACC) beside one in every switch (D-ACC).

ACC has 96 servers, 4 leaves and 2 spines. C-ACC has one setting for all uplinks and one for all downlinks, so that a few hundred
joint actions remain. Its completion times are 16 % (mean) and 25 % (99th percentile) shorter than with SECN1, 52 and 70 % shorter
than with SECN2, and longer than with D-ACC. Load, workload, and whose completion times these are remain open here: they fit the
mice of figure 13, WebSearch at up to 90 %.

Here eight servers a leaf, with links to the spines as wide as theirs, send WebSearch at 90 %. C-ACC has the net that comes with
dc-gym, which sees the mean of a group's queues and was not trained for it. Its answers are in force 2 ms later, which is ours. A
row without this delay, and one in which each switch has an agent but one setting for each direction, show what costs. A row whose
queues all keep the first action of ACC's template shows what is to be gained by telling queues apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, EAGER, NICS, PAUSED, PAUSES, TRAINED, reward_of
from dc_gym.benchmarks.studies.acc.figure_2 import (
    DROPPED,
    ELEPHANTS,
    FLOWS,
    LARGEST,
    LAST_START_MS,
    MEAN,
    MICE,
    MICE_TAIL,
    TAIL,
    UNFINISHED,
    measure,
    traffic,
)
from dc_gym.study.collect import Variant
from dc_gym.records.results import Result
from dc_gym.study import drawing
from dc_gym.study.claims import Claim, Explanation, below
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "One agent for the network beside one in every switch"
SOURCE = "ACC, figure 14"
NAME = "central-agent"
HOSTS_PER_LEAF, LOAD, DURATION_MS = 8, 0.9, 150
LATENCY_MS = 2
"""Time from C-ACC's samples to its marking. This is ours: ACC speaks of milliseconds."""
DISTRIBUTED, CENTRAL_NOW, SWITCHES = "D-ACC", "C-ACC in 10 us", "a switch's directions"
CENTRAL = "C-ACC"
RIVALS = ("SECN1", "SECN2")
_DIRECTIONS: Mapping[str, Any] = {**CONTESTANTS[TRAINED], "controller.groups": "direction"}
_CENTRAL: Mapping[str, Any] = {**_DIRECTIONS, "agent.agents": "central"}
WHO: Mapping[str, Mapping[str, Any]] = {
    **{who: CONTESTANTS[who] for who in RIVALS},
    DISTRIBUTED: CONTESTANTS[TRAINED],
    CENTRAL: {**_CENTRAL, "agent.latency": f"{LATENCY_MS}ms"},
    CENTRAL_NOW: _CENTRAL,
    SWITCHES: _DIRECTIONS,
    EAGER: CONTESTANTS[EAGER],
}
COLORS = {
    **{who: common.COLORS[who] for who in (*RIVALS, EAGER)},
    DISTRIBUTED: common.COLORS[TRAINED],
    CENTRAL: "#117733",
    CENTRAL_NOW: "#44AA99",
    SWITCHES: "#88CCEE",
}
SHORTER = {("SECN1", MICE): 16, ("SECN1", MICE_TAIL): 25, ("SECN2", MICE): 52, ("SECN2", MICE_TAIL): 70}
"""By how many percent C-ACC's completion times are shorter in the paper. That they are those of mice is a guess of ours."""
WORDS = {MICE: "mice, mean", MICE_TAIL: "mice, 99th percentile"}
MEASURED = (MEAN, TAIL, MICE, MICE_TAIL, ELEPHANTS)
QUEUE = Measure("queue_bytes", "mean queue of a switch port (kB)", 1e-3, 3)
REWARD = Measure("reward", "ACC's reward", digits=4)
COLUMNS = (*MEASURED, QUEUE, REWARD, FLOWS, UNFINISHED, PAUSES, DROPPED)
ROWS = [
    Variant(
        who,
        {
            "topology.preset": "acc96",
            "topology.hosts_per_leaf": HOSTS_PER_LEAF,
            "topology.uplinks": 1,
            **NICS,
            **PAUSED,
            **keys,
            **traffic("websearch", LOAD, DURATION_MS),
        },
        COLORS[who],
        full={"topology.hosts_per_leaf": 24, "topology.uplinks": 3},
    )
    for who, keys in WHO.items()
]
WHY = "the net was not trained for means of many queues; load, workload, buffer, C-ACC's delay and its actions are not given"
ALIKE = Explanation(
    hypothesis="all servers have one workload, so queues want one setting, and agents that tell them apart gain nothing",
    experiment=f"the rows `{EAGER}` of dcgym reproduce acc figure-14, which are one setting for all queues and all times",
    page="docs/reproduce-acc.md#figure-14",
    showed="mice take 43 us with it, 47.2 with D-ACC and 46.8 with C-ACC, and ACC's reward is alike (five seeds)",
)
CLAIMS = (
    *(
        Claim(
            f"C-ACC: completion times ({WORDS[column]}) are shorter than with {rival} (the paper's by {percent} %)",
            SOURCE,
            (below(CENTRAL, rival, column),),
            why=WHY,
        )
        for (rival, column), percent in SHORTER.items()
    ),
    *(
        Claim(
            f"D-ACC's completion times ({words}) are shorter than C-ACC's",
            SOURCE,
            (below(DISTRIBUTED, CENTRAL, column),),
            why=WHY,
            explanation=ALIKE,
        )
        for column, words in WORDS.items()
    ),
)
FACTS = (
    (
        "Network",
        f"4 leaves with {HOSTS_PER_LEAF} servers each at 25 Gbit/s, 2 spines at 100 Gbit/s (preset acc96 with a third of its"
        " servers and links, with --full as it is); 12 MB a switch, ACC's pauses",
    ),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    (
        "Traffic",
        f"WebSearch at {LOAD:.0%} of each server's link to uniformly drawn others; flows start for {LAST_START_MS} ms, all end",
    ),
    ("D-ACC", "controller.start = acc-deployed in every switch, once in 500 us, in force 10 us later"),
    ("C-ACC", f"the same net in one agent, controller.groups = direction, in force {LATENCY_MS} ms later"),
)
NOTES = (
    f"Scaled: 32 servers instead of 96; sizes are cut at {LARGEST}, and elephants are those from 1 MB on.",
    f"The rows `{CENTRAL_NOW}` and `{SWITCHES}` are ours: C-ACC without its delay, and an agent a switch with two settings each.",
    "C-ACC's joint action is the pair of its two groups' best ones: 400 pairs of 20 actions. ACC samples a few hundred.",
)


def measured(result: Result) -> dict[str, float]:
    """Returns completion times, the queues of all ports, and ACC's reward where agents are."""
    return {
        **measure(result),
        QUEUE.name: float(result.records("queues")["backlog_bytes"].mean()),
        REWARD.name: reward_of(result),
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measured)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    return drawing.dot_panels(evidence, (MICE, MICE_TAIL, MEAN, ELEPHANTS), TITLE)
