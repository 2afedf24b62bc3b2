# SPDX-License-Identifier: Apache-2.0
"""Table 1 of PCC-RL with 4096 and 8192 flows, as long as they need to come up: 200 ms, of which the second half counts.

The contestants are those that decide: the paper's network and reward, trained here, HPCC and Swift.
"""

from __future__ import annotations

from functools import partial

from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl import table_1
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.study import series
from dc_gym.study.scaled import MS, RunLength

TITLE = "Thousands of flows to one: utilization, fairness, queue and drops"
FLOWS = table_1.FLOWS[2:]
WHO = (pccrl.AS_STATED, pccrl.HPCC, "Swift")
LENGTH, SEEDS = RunLength(200 * MS, 100 * MS), 3

STUDY = rlcc.study(
    TITLE,
    table_1.SOURCE,
    [table_1.variant(who, flows, LENGTH) for flows in FLOWS for who in WHO],
    (*pccrl.MEASURES, rlcc.DROPS),
    lambda _: (),
    partial(series.figure, series=pccrl.lines(FLOWS, name, WHO), columns=pccrl.MEASURES, xlabel="flows", title=TITLE),
    networks=(pccrl.NINE,),
    seeds=SEEDS,
)
