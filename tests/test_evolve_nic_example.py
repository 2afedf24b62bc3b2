# SPDX-License-Identifier: Apache-2.0
"""examples/evolve_nic.py: what it measures of a header, which changes it makes, and what it prefers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from doc_pages import ROOT

from dc_gym.ctrl.nic import algorithms

PATH = ROOT / "examples" / "evolve_nic.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    made = importlib.util.spec_from_file_location(PATH.stem, PATH)
    assert made and made.loader
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@pytest.mark.lab
def test_a_header_is_measured_in_a_process_of_its_own(example: ModuleType, tmp_path: Path) -> None:
    text = example.alone(algorithms.header_of("powertcp"))
    queues = {}
    for name, changed in {"shipped": text, "fewer": example.with_defaults(text, {"flows": 10})}.items():
        header = tmp_path / f"{name}.h"
        header.write_text(changed)
        queues[name] = example.evaluate(header)["queue_bytes"]
    assert 0 < queues["shipped"] < queues["fewer"]  # beta is a tenth of the line for each of ten flows
    (tmp_path / "broken.h").write_text(text + "#error")
    assert example.evaluate(tmp_path / "broken.h") == example.FAILED


def test_too_little_goodput_is_worse_than_any_queue(example: ModuleType) -> None:
    first = {"goodput_bps": 100.0, "queue_bytes": 10.0}
    shorter, longer, starved = (
        {"goodput_bps": goodput, "queue_bytes": queue} for goodput, queue in ((99, 5), (100, 99), (98, 0))
    )
    assert example.cost(shorter, first) == 0.5 < example.cost(longer, first) < example.cost(starved, first)
    assert example.cost(starved, first) < example.cost(example.FAILED, first)
