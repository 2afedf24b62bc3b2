# SPDX-License-Identifier: Apache-2.0
"""Labs share the CPUs evenly, whichever process starts them."""

import os
from collections import Counter
from contextlib import ExitStack

from dc_gym.kernel import cpu
from dc_gym.kernel.cpu import claimed_cpu


def test_labs_share_the_cpus_evenly(monkeypatch):
    """The test uses CPU numbers that no machine has, so that labs which run here do not count."""
    monkeypatch.setattr(cpu.os, "sched_getaffinity", lambda pid: {100_002, 100_001, 100_003})
    with ExitStack() as labs:
        taken = [labs.enter_context(claimed_cpu()) for _ in range(7)]
        assert taken == [100_001, 100_002, 100_003, 100_001, 100_002, 100_003, 100_001]
        with ExitStack() as more:
            assert Counter(more.enter_context(claimed_cpu()) for _ in range(5)) == {100_001: 1, 100_002: 2, 100_003: 2}
    with claimed_cpu() as again:
        assert again == 100_001


def test_a_lab_stays_on_the_cpus_of_who_starts_it():
    with claimed_cpu() as taken:
        assert taken in os.sched_getaffinity(0)
