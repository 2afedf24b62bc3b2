# SPDX-License-Identifier: Apache-2.0
"""The studies of sprayed multipath: the closed form of collisions by drawing, and a short run of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.spray import beside_tcp, entropies, incast
from dc_gym.study.collect import SpecRuns
from dc_gym.study.evidence import Evidence
from dc_gym.study.model import StudyOptions


def collected(folder: Path, study: str, *variants: str) -> Evidence:
    folder.chmod(0o755)
    return SpecRuns()(LIBRARY.load(f"spray/{study}"), StudyOptions(folder, variants=variants, seeds=1), Quiet()).evidence


@pytest.mark.parametrize("values", [1, 4, 16])
def test_the_closed_form_is_what_balls_in_bins_do(values: int) -> None:
    balls = entropies.HOSTS_PER_RACK * values
    throws = np.random.default_rng(1).integers(0, entropies.SPINES, (20_000, entropies.RACKS, balls))
    loads = np.stack([(throws == spine).sum(axis=2) for spine in range(entropies.SPINES)])
    expected = loads.max(axis=(0, 2)).mean() * entropies.SPINES / balls
    assert entropies.closed_form(values) == pytest.approx(expected, rel=0.01)


@pytest.mark.lab
def test_one_value_loads_an_uplink_with_whole_flows(tmp_path: Path, lab_kernel: Path) -> None:
    one, many = (entropies.name(entropies.OBLIVIOUS, values) for values in (1, 64))
    loads = collected(tmp_path, "entropies", one, many)
    alone, spread = (loads.values(name, entropies.MMR.name)[1] for name in (one, many))
    assert alone == pytest.approx(round(alone), abs=0.1) and spread < alone / 2


@pytest.mark.lab
def test_an_incast_is_paused_trimmed_or_dropped(tmp_path: Path, lab_kernel: Path) -> None:
    names = {fabric: incast.name(incast.UEC, fabric) for fabric in incast.FABRICS}
    evidence = collected(tmp_path, "incast", *names.values())
    columns = (incast.PAUSES, incast.TRIMMED, incast.DROPS)
    for fabric, answer in zip(incast.FABRICS, columns, strict=True):
        counts = {column.name: evidence.values(names[fabric], column.name)[1] for column in columns}
        assert counts.pop(answer.name) > 0 and set(counts.values()) == {0}


@pytest.mark.lab
def test_classes_part_tcp_from_uec(tmp_path: Path, lab_kernel: Path) -> None:
    shared, apart = (beside_tcp.name("DCTCP", how) for how in (beside_tcp.SHARED, beside_tcp.APART))
    rates = collected(tmp_path, "beside-tcp", shared, apart)
    assert rates.values(apart, beside_tcp.OF_UEC.name)[1] > 2 * rates.values(shared, beside_tcp.OF_UEC.name)[1]
