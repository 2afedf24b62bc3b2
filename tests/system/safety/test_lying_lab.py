# SPDX-License-Identifier: Apache-2.0
"""A lab that was taken over lies to the host that sets it up: the run ends in one line, and nothing is written."""

from __future__ import annotations

import mmap
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dc_gym.base.errors import FabricError, LabError
from dc_gym.learn.session import Session
from dc_gym.run.grounds import by_hand
from dc_gym.run.grounds.hand import AT, CALL, LIST, STEP, LostLab
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.writer import write_plan
from dc_gym.spec.load import from_dict

SPEC = {
    "topology": {"preset": "dumbbell-10m"},
    "workload": {"kind": "pairs"},
    "controller": {"name": "dctcp"},
    "time": {"duration": "100ms"},
}
AGENT = {"controller": {"name": "dctcp", "policy": "max"}, "agent": {"interval": "1ms"}}
WRITTEN = ["datapath.flows", "flows.records", "plan.json", "ports.records"]


class Liar:
    """A lab that answers whatever it likes: random bytes where results are expected."""

    def __init__(self, seed: int, wild: float) -> None:
        self.region = mmap.mmap(-1, 4 << 20)
        self._draw, self._wild = random.Random(seed), wild

    def answer(self, code: int) -> None:
        (count,) = LIST.unpack_from(self.region, AT)
        for number in range(count):
            offset = AT + LIST.size + CALL.size * number
            fields = list(CALL.unpack_from(self.region, offset))
            honest = self._draw.choice([0, 1, 4, 16, 100])
            any_number = self._draw.choice([-1, -2, -4095, -4096, -(2**63), 2**63 - 1, 1 << 20, 16 << 10])
            fields[-1] = any_number if self._draw.random() < self._wild else honest
            CALL.pack_into(self.region, offset, *fields)
        begin = AT + LIST.size + CALL.size * count
        for at in range(begin, begin + 4096, 4):
            struct.pack_into("=I", self.region, at, self._draw.choice([0, 1, 2, 16, 20, 36, 1 << 31, self._draw.getrandbits(32)]))

    def until_step(self, **_: Any) -> tuple[int, int]:
        return (STEP if self._draw.random() > self._wild / 50 else 7), 0


@pytest.mark.parametrize("seed", range(300))
@pytest.mark.parametrize("agent", [{}, AGENT], ids=["no agent", "an agent"])
def test_a_lab_that_lies_ends_the_run_in_one_line(agent: dict[str, Any], seed: int, tmp_path: Path) -> None:
    spec = from_dict(SPEC | agent, tmp_path)
    plan, _ = write_plan(Experiment.of(spec), SimpleNamespace(folder=tmp_path), tmp_path)  # type: ignore[arg-type]
    liar: Any = Liar(seed, random.Random(seed).choice([0.0, 0.01, 0.2]))
    with pytest.raises((FabricError, LostLab, LabError)) as excinfo:
        by_hand.ByHand(liar, plan, tmp_path, lambda line: None).until_step()
    assert len(str(excinfo.value).splitlines()) == 1
    assert sorted({path.name for path in tmp_path.iterdir()} - {"actuators.records", "episode-0.json"}) == WRITTEN


@pytest.mark.parametrize("fails", [True, False])
def test_a_lab_that_goes_on_after_its_end_is_no_environment(fails: bool, tmp_path: Path) -> None:
    def over() -> Iterator[None]:
        if fails:
            raise FabricError("a queue is not as it was asked for")
        yield from ()

    session, exit_codes = Session(from_dict(SPEC | {"agent": AGENT["agent"]}, tmp_path)), list[int]()
    session._lab = cast("Any", SimpleNamespace(until_step=lambda: (7, 0)))
    session._by_hand = carried_out = by_hand.ByHand(cast("Any", None), cast("Any", None), tmp_path, session._hear)
    carried_out._program = cast("Any", over())
    carried_out._hand = cast("Any", SimpleNamespace(waits=True, end=exit_codes.append))
    session._console = cast("Any", SimpleNamespace(close=lambda: None))
    with pytest.raises(LabError, match="^a queue is not .*\n.*went on: it is no run$" if fails else "^the lab was .* went on"):
        session.collect()
    assert exit_codes == [FabricError.exit_code] * fails and session.pid is None
