# SPDX-License-Identifier: Apache-2.0
"""The number of RV32 instructions that a decision of RL-CC's algorithms executes, on a core with or without multiplication.

clang compiles the algorithm's header, the same that NICs run in the lab, for a core of the set in question (rv32.c). An emulator
(rv32.py, Unicorn) executes it on the events of a golden trace. No RISC-V toolchain and no emulator of the system is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from dc_gym.ctrl.nic import algorithms, build, golden
from dc_gym.ctrl.nic.events import RTT
from dc_gym.ctrl.nic.golden import EVENT_NUMBERS, RunnerDecision, Step
from dc_gym.methods.rlcc.bench import rv32
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy

SOURCE = Path(__file__).resolve().parent / "rv32.c"
WITHOUT, WITH = "rv32i", "rv32im"
"""Sets of instructions: without multiplication and division, and with both."""
FLAGS = (
    *("--target=riscv32", "-mabi=ilp32", "-O2", "-ffreestanding", "-fno-pic", "-mno-relax", "-Wall", "-Werror"),
    *("-idirafter", build.INCLUDES, "-idirafter", "/usr/include"),
)
LINE_RATE, EVENTS = 1 << 20, 10


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """Means over the decisions at probes that came back."""

    decision: float
    """Instructions of the whole decision: the observation, the policy, and the new rate."""
    policy: float
    """Instructions of the policy alone."""


class Core:
    """A core with one algorithm and a policy, which is the shipped one if none is given."""

    def __init__(self, name: str, march: str, folder: Path, policy: NicPolicy | None = None) -> None:
        self._algorithm = algorithms.load(name, folder)
        path = folder / f"{name}-{march}.o"
        build.compile_source(algorithms.header_of(name), SOURCE, (*FLAGS, f"-march={march}"), path)
        self._machine, self._symbols = rv32.load(path)
        self._write("parameter", list(golden.values_of(self._algorithm, "").values()))
        self._write("table", [int(word) for word in (policy or nic_policy.load(name)).table()])
        self._write("result", [LINE_RATE, 0, 0])

    def decide(self, step: Step) -> tuple[RunnerDecision, int]:
        """Returns a decision, and the number of instructions that it took."""
        event, flow = step
        if event.flags & golden.NEW_FLOW:
            self._write("state", [0] * self._algorithm.state_words)
            self._write("result", [LINE_RATE, 0, 0])
        self._write("event", list(astuple(event)[:EVENT_NUMBERS]))
        self._write("flow", list(astuple(flow)))
        count = self._machine.call(self._symbols["decide"])
        rate, window_bytes, probe = self._read("result", 3)
        state = tuple(self._read("state", self._algorithm.state_words))
        return RunnerDecision(rate, window_bytes, bool(probe & 1), state), count

    def policy(self) -> int:
        """Returns the number of instructions of the policy on the inputs of the last decision. The state stays as it is."""
        before = self._read("state", self._algorithm.state_words)
        count = self._machine.call(self._symbols["policy"])
        self._write("state", before)
        return count

    def counts(self, seed: int, events: int = EVENTS) -> InstructionCount:
        """Counts the instructions of decisions on the events of a golden trace."""
        whole, alone = [], []
        for step in golden.trace("fabric", self._algorithm, seed, flows=1, steps=events):
            _, count = self.decide(step)
            if step[0].type == RTT:
                whole.append(count)
                alone.append(self.policy())
        return InstructionCount(float(np.mean(whole)), float(np.mean(alone)))

    def _read(self, name: str, count: int) -> list[int]:
        return [self._machine.word(self._symbols[name] + 4 * number) for number in range(count)]

    def _write(self, name: str, words: Sequence[int]) -> None:
        for number, word in enumerate(words):
            self._machine.put(self._symbols[name] + 4 * number, word)
