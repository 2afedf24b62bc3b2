# SPDX-License-Identifier: Apache-2.0
"""Figure 14 of ACC (Yan et al., SIGCOMM 2021): one agent for the network (C-ACC) beside one in every switch (D-ACC).

ACC has 96 servers, 4 leaves and 2 spines. C-ACC has one setting for all uplinks and one for all downlinks, so that a few hundred
joint actions remain. Its completion times are 16 % (mean) and 25 % (99th percentile) shorter than with SECN1, 52 and 70 % shorter
than with SECN2, and longer than with D-ACC. Load, workload, and whose completion times these are remain open here: they fit the
mice of figure 13, WebSearch at up to 90 %.

Here eight servers a leaf (`--length full`: 24), with links to the spines as wide as theirs, send WebSearch at 90 %, cut at 10 MB.
Elephants are flows from 1 MB on. C-ACC has the net that comes with dc-gym, which sees the mean of a group's queues and was not
trained for it; its joint action is the pair of both groups' best ones. Its answers are in force 2 ms later, which is ours. A row
without this delay, and one in which each switch has an agent but one setting for each direction, show the cause of the cost. A
row whose queues all keep the first action of ACC's template shows the gain of distinguishing queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dc_gym.benchmarks.studies.acc import common, completion
from dc_gym.benchmarks.studies.acc.common import COLORS, CONTESTANTS, EAGER, RIVALS, TRAINED
from dc_gym.benchmarks.studies.acc.completion import ELEPHANTS, MEAN, MICE, MICE_TAIL, WORDS
from dc_gym.study import Claim, Study, Variant, below, drawing

TITLE = "One agent for the network beside one in every switch"
SOURCE = "ACC, figure 14"
HOSTS_PER_LEAF, LOAD = 8, 0.9
LATENCY_MS = 2
"""Time from C-ACC's samples to its marking. This is ours: ACC speaks of milliseconds."""
DISTRIBUTED, CENTRAL, CENTRAL_NOW, SWITCHES = "D-ACC", "C-ACC", "C-ACC in 10 us", "a switch's directions"
_DIRECTIONS: Mapping[str, Any] = {**CONTESTANTS[TRAINED], "controller.groups": "direction"}
_CENTRAL: Mapping[str, Any] = {**_DIRECTIONS, "agent.agents": "central"}
WHO: Mapping[str, tuple[Mapping[str, Any], str]] = {
    **{who: (CONTESTANTS[who], COLORS[who]) for who in RIVALS},
    DISTRIBUTED: (CONTESTANTS[TRAINED], COLORS[TRAINED]),
    CENTRAL: ({**_CENTRAL, "agent.latency": f"{LATENCY_MS}ms"}, "#117733"),
    CENTRAL_NOW: (_CENTRAL, "#44AA99"),
    SWITCHES: (_DIRECTIONS, "#88CCEE"),
    EAGER: (CONTESTANTS[EAGER], COLORS[EAGER]),
}
"""Keys and colour."""
SHORTER = {("SECN1", MICE): 16, ("SECN1", MICE_TAIL): 25, ("SECN2", MICE): 52, ("SECN2", MICE_TAIL): 70}
"""By how many percent C-ACC's completion times are shorter in the paper. We guess that they are completion times of mice."""
CLAIMS = [
    *completion.shorter(CENTRAL, SOURCE, SHORTER, CENTRAL),
    *(
        Claim(
            f"D-ACC's completion times ({WORDS[column]}) are shorter than C-ACC's", SOURCE, (below(DISTRIBUTED, CENTRAL, column),)
        )
        for column in (MICE, MICE_TAIL)
    ),
]
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        "topology.preset": "acc96",
        "topology.hosts_per_leaf": HOSTS_PER_LEAF,
        "topology.uplinks": 1,
        **common.NICS,
        **common.PAUSED,
        **completion.traffic("websearch", LOAD, 150),
    },
    variants=[
        Variant(who, keys, color, full={"topology.hosts_per_leaf": 24, "topology.uplinks": 3})
        for who, (keys, color) in WHO.items()
    ],
    measures=completion.OF_AGENTS,
    measure=completion.measure_agents,
    claims=CLAIMS,
    draw=partial(drawing.dot_panels, columns=(MICE, MICE_TAIL, MEAN, ELEPHANTS), title=TITLE),
    facts=common.FACTS,
    runs="central-agent",
)
