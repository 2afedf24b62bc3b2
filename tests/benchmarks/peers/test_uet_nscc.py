# SPDX-License-Identifier: Apache-2.0
"""The stored comparison of NSCC with uet-htsim's."""

import json
import random
from pathlib import Path

from dc_gym.benchmarks.peers import uet_nscc
from dc_gym.ctrl.nic.events import MARKED, TIMEOUT, TRIMMED

STORED = json.loads(Path(uet_nscc.SOURCE).with_suffix(".json").read_text())


def test_windows_are_uet_htsim_s_within_half_a_percent():
    assert STORED["commit"] == uet_nscc.COMMIT and STORED["events"] == 100_000
    assert STORED["largest_difference"] <= 0.005
    assert STORED["different_windows"] > 5000


def test_the_stored_numbers_are_of_the_trace():
    steps = uet_nscc.trace(random.Random(uet_nscc.SEED))
    for name, flag in (("marked", MARKED), ("trimmed", TRIMMED), ("timeouts", TIMEOUT)):
        assert STORED[name] == sum(bool(event.flags & flag) for event, _ in steps)
