# SPDX-License-Identifier: Apache-2.0
"""Figure 1.1 of Iroko's thesis, its motivating case, as a run: three large answers at once over a parking lot of 10 Gbit/s.

The thesis draws the case and measures nothing. H6 asks H1, H4 and H5 in period 1. An agent that knows the pattern limits them in
period 2. Their answers arrive in period 3 without loss. Periods of 1 ms, answers of 20 MB, buffers of 1 MB and the delays are our
choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DROPS, SWITCH
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, above, collect, less_than, measured, more_than
from dc_gym.study.trained import Setup, TrainedLength

TITLE = "Three answers at once over a parking lot, and an agent that knows of them"
SOURCE = "thesis, figure 1.1"
ANSWER_BYTES = 20_000_000
LAST = Measure("last_answer_s", "last answer complete after (ms)", 1e3)
LONGEST = Measure("switch_queue_bytes_max", "longest queue of a switch (kB)", 1e-3)
RETRANSMITS = Measure("retransmits", "segments sent again")
FILE = "answers.csv"
ANSWERING = ("h1", "h4", "h5")
REQUESTS = [f"h6,{host},5000,0,0,1000" for host in ANSWERING]
FLOWS = collect.flow_list([*REQUESTS, *(f"{host},h6,5000,0.002,0,{ANSWER_BYTES}" for host in ANSWERING)])
"""The list of flows. h1 is two links away from h6, h5 one, and h4 is beside h6."""
LENGTH = TrainedLength(seeds=3, steps=0, episode="60ms", duration="60ms", warmup="0s")
BASE: Mapping[str, Any] = {
    "name": "iroko figure 1.1",
    "topology": {"kind": "parkinglot", "hops": 2, "rate": "10Gbit/s", "delay": "5us", "buffer": "1MB", "k_bytes": 60 * 1514},
    "controller": {"name": "cubic"},
    "agent": {"interval": "100us", "action": "linear", "reward": "thesis", "burst": "15140B"},
    "workload": {"kind": "matrix", "file": FILE, "jitter": "10us"},
    "time": {"duration": "60ms"},
}
CLAIMS = (
    Claim("TCP alone loses frames where the answers meet", SOURCE, (more_than("cubic", DROPS, 0),)),
    Claim(
        "An agent that knows the pattern lets all of them arrive without loss", SOURCE, (less_than("fair-share-ahead", DROPS, 1),)
    ),
    Claim(
        "Knowing the pattern pays: an agent that only sees what is under way lets a longer queue build up",
        "ours: what the figure implies",
        (above("fair-share", "fair-share-ahead", LONGEST),),
    ),
)


def measure(result: Result) -> dict[str, float]:
    """Returns the measures of all runs, and the time at which the last answer was complete."""
    flows = result.records("flows")
    answers = flows[flows["size_bytes"] == ANSWER_BYTES]
    ended = bool((answers["end_ns"] >= 0).all())
    took_s = float((answers["end_ns"].max() - answers["start_ns"].min()) / 1e9) if ended else float("nan")
    return measured.numbers(result) | {LAST.name: took_s, RETRANSMITS.name: float(flows["retransmits"].sum())}


SETUP = Setup(
    "parking-lot",
    BASE,
    default=LENGTH,
    full=LENGTH,
    baselines=("cubic", "dctcp", "nv", "fair-share", "fair-share-ahead"),
    files={FILE: FLOWS},
)
STUDY = common.study(
    SETUP,
    TITLE,
    CLAIMS,
    (common.GOODPUT, SWITCH, common.HOST),
    measure=measure,
    measures=(LAST, DROPS, RETRANSMITS, LONGEST, common.HOST, common.REWARD),
)
