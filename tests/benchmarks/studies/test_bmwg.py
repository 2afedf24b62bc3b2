# SPDX-License-Identifier: Apache-2.0
"""The studies after the IETF's draft: the longest burst without loss, tenants' places, and the indices of uplinks by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.bmwg import burst, common, completion
from dc_gym.study.collect import SpecRuns
from dc_gym.study.model import StudyOptions


@pytest.mark.lab
def test_the_longest_burst_fits_and_one_frame_more_does_not(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    names = tuple(burst.name(senders, more) for senders in (2, 8) for more in (0, 1))
    evidence = SpecRuns()(LIBRARY.load("bmwg/burst"), StudyOptions(tmp_path, variants=names), Quiet()).evidence
    drops = [evidence.values(name, burst.DROPS.name)[1] for name in names]
    assert drops[0] == drops[2] == 0 < min(drops[1], drops[3])
    assert [burst.capacity(senders) for senders in (2, 8)] == [300, 42]


def test_tenants_share_so_many_leaves() -> None:
    leaves = {host: (int(host[1:]) - 1) // completion.HOSTS_PER_LEAF for host in map("h{}".format, range(1, 33))}
    first = completion.tenant(0, 0)
    for overlap, begin in completion.OVERLAPS.items():
        second = completion.tenant(begin, 1)
        assert len({*first, *second}) == 16, "no host is of both"
        of_both = {leaves[host] for host in first} & {leaves[host] for host in second}
        assert len(of_both) / completion.TENANT_LEAVES == overlap / 100


def test_uplinks_by_hand() -> None:
    loads = np.array([(300,), (100,), (0,), (0,)], [("bytes", "<u8")])
    result = SimpleNamespace(records=lambda table: loads)
    assert common.uplinks(result) == {"mmr": 3.0, "jfi": pytest.approx(16 / 40)}  # type: ignore[arg-type]


def test_the_roofline_by_hand() -> None:
    """8 MB over 16 accelerators are 15 MB a NIC: 12 ms at 10 Gbit/s."""
    assert completion.roofline_s(10, 8) == pytest.approx(0.022)
