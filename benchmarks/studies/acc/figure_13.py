# SPDX-License-Identifier: Apache-2.0
"""Figures 12 and 13 of ACC (Yan et al., SIGCOMM 2021): WebSearch at loads of 60 to 90 %, with ACC and static markings.

ACC's figure 12 is a load of 90 % on 288 servers, figure 13 are loads of 60 to 90 % between random pairs. Completion times are
relative to a static marking's. Mice have up to 100 KB, elephants 10 MB and more.

Here 24 servers (preset acc24a) send to uniformly drawn others for 20 ms, and sizes are cut at 10 MB, so elephants are the flows
from 1 MB on. More rows keep one action of ACC's template in all queues: the first, and at 90 % that nearest to SECN2. They show
the cost of a short queue, and the reward that ACC gives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from dc_gym.benchmarks.studies.acc import common, completion
from dc_gym.benchmarks.studies.acc.common import COLORS, CONTESTANTS, EAGER, RIVALS, TRAINED
from dc_gym.benchmarks.studies.acc.completion import ELEPHANTS, MEAN, MICE, MICE_TAIL, TIMES
from dc_gym.study import Claim, Study, Variant, VariantLine, below, series

TITLE = "WebSearch by load, with ACC and static markings"
LOADS = (60, 75, 90)
"""Percent of each server's link."""
WHO, LIKE_SECN2 = (*RIVALS, TRAINED, EAGER), "like SECN2"
KEYS = {**CONTESTANTS, LIKE_SECN2: {**CONTESTANTS[EAGER], "controller.constant": 6}}
"""Action 6 of the template marks 20 % at 320 kB and nothing below 80 kB. It has ACC's reward, which SECN2 has not."""
PAPER_12 = {
    **{("SECN1", MEAN): 5.8, ("SECN2", MEAN): 16.6},
    **{("SECN1", MICE): 5.7, ("SECN1", MICE_TAIL): 15.8, ("SECN2", MICE): 17.3, ("SECN2", MICE_TAIL): 47.5},
}
"""By how many percent completion times are shorter with ACC at 90 %."""
WHOSE = {"mice (mean)": MICE, "mice (99th percentile)": MICE_TAIL, "elephants": ELEPHANTS}


def name(load: int, contestant: str) -> str:
    return f"{load} %, {contestant}"


VARIANTS = tuple(
    Variant(
        name(load, who),
        {**common.FABRICS[common.PFC], **KEYS[who], **completion.traffic("websearch", load / 100, 150)},
        COLORS["SECN2" if who == LIKE_SECN2 else who],
    )
    for load, who in (*product(LOADS, WHO), (LOADS[-1], LIKE_SECN2))
)


def _claims() -> Iterator[Claim]:
    yield from completion.shorter("90 %", "ACC, figure 12", PAPER_12, name(90, TRAINED), partial(name, 90))
    for rival, (whose, measure) in product(RIVALS, WHOSE.items()):
        if (rival, measure) != ("SECN2", ELEPHANTS):
            words = f"At every load of 60 to 90 % the completion times of {whose} are shorter than with {rival}"
            criteria = tuple(below(name(load, TRAINED), name(load, rival), measure) for load in LOADS)
            yield Claim(words, "ACC, figure 13", criteria)


LINES = [VariantLine(who, COLORS[who], {float(load): name(load, who) for load in LOADS}) for who in WHO]
STUDY = Study(
    title=TITLE,
    source="ACC, figures 12 and 13",
    variants=VARIANTS,
    measures=completion.OF_AGENTS,
    measure=completion.measure_agents,
    claims=[*_claims()],
    draw=partial(series.figure, series=LINES, columns=TIMES, xlabel="load (%)", title=TITLE, base=None),
    facts=common.FACTS,
    runs="websearch",
)
