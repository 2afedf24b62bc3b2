# SPDX-License-Identifier: Apache-2.0
"""Runs one object file of clang (--target=riscv32 -mno-relax) on Unicorn's RISC-V core, and counts the executed instructions.

There is no linker: sections are placed one after the other, and relocations are applied here. There is no operating system.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from pathlib import Path
from typing import Any

from dc_gym.base.errors import MachineError, UsageError

BASE, END = 0x1000, 1 << 20
"""The memory. The first section is at its begin, the stack at its end, below the address to which functions return."""
RETURN, STACK = END - 4, END - 16
SHF_ALLOC, SHT_SYMTAB, SHT_RELA, SHT_NOBITS = 2, 2, 4, 8
R_32, R_CALL, R_CALL_PLT, R_HI20, R_LO12_I, R_LO12_S = 1, 18, 19, 26, 27, 28


class Machine:
    """A core with its memory."""

    def __init__(self) -> None:
        try:
            import unicorn
            from unicorn import riscv_const
        except ImportError:
            raise MachineError("counting instructions of RV32: there is no Unicorn here; pip install 'dc-gym[rv32]'") from None
        self._error, self.registers = unicorn.UcError, riscv_const
        self.core = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        self.core.mem_map(BASE, END - BASE)
        self.core.hook_add(unicorn.UC_HOOK_CODE, self._counted)
        self._count = 0

    def _counted(self, *_: Any) -> None:
        self._count += 1

    def call(self, address: int) -> int:
        """Calls a function without arguments. Returns the number of instructions until it returns."""
        for number in range(32):
            self.core.reg_write(self.registers.UC_RISCV_REG_X0 + number, 0)
        self.core.reg_write(self.registers.UC_RISCV_REG_RA, RETURN)
        self.core.reg_write(self.registers.UC_RISCV_REG_SP, STACK)
        self._count = 0
        try:
            self.core.emu_start(address, RETURN)
        except self._error as error:
            pc = self.core.reg_read(self.registers.UC_RISCV_REG_PC)
            raise UsageError(f"code of RV32 at {pc:#x}: {error}; compile with -march=rv32i, and check the code") from None
        return self._count

    def word(self, address: int) -> int:
        return int.from_bytes(self.core.mem_read(address, 4), "little")

    def put(self, address: int, word: int) -> None:
        self.core.mem_write(address, (word & 0xFFFFFFFF).to_bytes(4, "little"))


_Section = namedtuple("_Section", "name kind flags address offset size link info alignment entry_size")
"""A header of a section, as the file has it."""


def _content(section: _Section, data: bytes) -> bytes:
    return bytes(section.size) if section.kind == SHT_NOBITS else data[section.offset : section.offset + section.size]


def load(path: Path) -> tuple[Machine, dict[str, int]]:
    """Loads an object file. Returns a machine with it, and the addresses of its symbols by name."""
    data, machine = path.read_bytes(), Machine()
    if data[:6] != b"\x7fELF\x01\x01" or struct.unpack_from("<HH", data, 16) != (1, 243):
        raise UsageError(f"{path}: not an object file of 32-bit RISC-V; compile the source for riscv32")
    (start,), (count,) = struct.unpack_from("<I", data, 32), struct.unpack_from("<H", data, 48)
    sections = [_Section(*struct.unpack_from("<10I", data, start + 40 * number)) for number in range(count)]
    places, end = dict[int, int](), BASE
    for number, section in enumerate(sections):
        if section.flags & SHF_ALLOC:
            places[number] = end = -(-end // max(1, section.alignment)) * max(1, section.alignment)
            machine.core.mem_write(end, _content(section, data))
            end += section.size
    table = next(section for section in sections if section.kind == SHT_SYMTAB)
    names, symbols = _content(sections[table.link], data), list[tuple[str, int | None]]()
    for name, value, _, _, _, owner in struct.iter_unpack("<IIIBBH", _content(table, data)):
        symbols.append((names[name : names.index(b"\0", name)].decode(), places[owner] + value if owner in places else None))
    for section in sections:
        if section.kind == SHT_RELA and section.info in places:
            for at, info, addend in struct.iter_unpack("<IIi", _content(section, data)):
                called, address = symbols[info >> 8]
                if address is None:
                    raise UsageError(f"{path}: {called} is called and not defined; define it beside the algorithm")
                _relocate(machine, info & 255, places[section.info] + at, address + addend)
    return machine, {name: value for name, value in symbols if name and value is not None}


def _relocate(machine: Machine, kind: int, at: int, value: int) -> None:
    """Applies a relocation. `value` is the symbol's address with the addend."""
    word = machine.word(at)
    if kind == R_32:
        machine.put(at, value)
    elif kind in (R_CALL, R_CALL_PLT):
        way = value - at
        machine.put(at, word | (way + 0x800) & 0xFFFFF000)
        machine.put(at + 4, machine.word(at + 4) | (way & 0xFFF) << 20)
    elif kind == R_HI20:
        machine.put(at, word & 0xFFF | (value + 0x800) & 0xFFFFF000)
    elif kind == R_LO12_I:
        machine.put(at, word & 0xFFFFF | (value & 0xFFF) << 20)
    elif kind == R_LO12_S:
        machine.put(at, word & 0x1FFF07F | (value >> 5 & 0x7F) << 25 | (value & 31) << 7)
    else:
        raise UsageError(f"relocation of type {kind} at {at:#x} is unknown here; compile with -mno-relax -fno-pic")
