# SPDX-License-Identifier: Apache-2.0
"""The counter of RV32 instructions: it decides as the runner does, and refuses what it cannot execute."""

import sys

import pytest

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.methods.rlcc.bench import rv32, rv32_cost


@pytest.mark.parametrize("march", [rv32_cost.WITHOUT, rv32_cost.WITH])
@pytest.mark.parametrize(("name", "events"), [("rlcc-tree", 40), ("rlcc-mlp", 30), ("rlcc-lstm", 4)])
def test_a_core_decides_as_the_runner_does(tmp_path, name, march, events):
    algorithm = algorithms.load(name, tmp_path)
    argv = golden.runner_argv(algorithm, golden.values_of(algorithm, ""), golden.table_of(algorithm, tmp_path))
    core = rv32_cost.Core(name, march, tmp_path)
    for kind in ("fabric", "hostile"):
        steps = golden.trace(kind, algorithm, 3, flows=2, steps=events // 2)
        assert [core.decide(step)[0] for step in steps] == golden.decisions(argv, steps)


def test_products_cost_instructions_where_the_core_has_none(tmp_path):
    without, with_products = (
        rv32_cost.Core("rlcc-mlp", march, tmp_path).counts(1, 6) for march in (rv32_cost.WITHOUT, rv32_cost.WITH)
    )
    assert without.policy > 5 * with_products.policy > 5 * 204 and without.decision > without.policy


def _program(*words):
    machine = rv32.Machine()
    for number, word in enumerate(words):
        machine.put(rv32.BASE + 4 * number, word)
    return machine


def test_a_program_is_counted_until_it_returns():
    machine = _program(0x00500513, 0xFFF50513, 0xFE051EE3, 0x00008067)  # li a0, 5; addi a0, a0, -1; bnez a0, -4; ret
    assert machine.call(rv32.BASE) == 1 + 5 * 2 + 1 and machine.core.reg_read(machine.registers.UC_RISCV_REG_A0) == 0


@pytest.mark.parametrize(
    ("word", "message"), [(0, "RV32 at 0x1004: Unhandled CPU exception"), (0x00002503, "RV32 at 0x1000: Invalid memory read")]
)
def test_what_a_core_cannot_execute_is_said(word, message):
    with pytest.raises(UsageError, match=message):
        _program(word).call(rv32.BASE)


def test_only_objects_of_the_machine_are_loaded(tmp_path):
    (tmp_path / "x.o").write_bytes(b"\x7fELF\x02\x01" + bytes(60))
    with pytest.raises(UsageError, match=r"x\.o: .*32-bit RISC-V"):
        rv32.load(tmp_path / "x.o")


def test_without_its_package_the_machine_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with pytest.raises(MachineError, match=r"pip install 'dc-gym\[rv32\]'"):
        rv32.Machine()
