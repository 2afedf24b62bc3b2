# SPDX-License-Identifier: Apache-2.0
"""A machine with the instructions of RV32I and, if the code has them, of the extension M. It counts what it executes.

It runs one object file of clang (--target=riscv32 -mno-relax), without a linker: sections are placed one after the other, and
relocations are applied here. There is no operating system, no interrupt and no floating point.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import UsageError

MEMORY, BASE = 1 << 20, 0x1000
"""Bytes of memory, and the address of the first section. The stack begins at the memory's end."""
WORD = 0xFFFFFFFF
SP, SINK = 2, 32
"""Places of registers: the stack pointer, and one to which writes to x0 go."""
SHF_ALLOC, SHT_SYMTAB, SHT_RELA, SHT_NOBITS = 2, 2, 4, 8
R_32, R_CALL, R_CALL_PLT, R_HI20, R_LO12_I, R_LO12_S = 1, 18, 19, 26, 27, 28

Execute = Callable[[], int]
"""Executes an instruction and returns the address of the next."""
Alu = Callable[[int, int], int]


def signed(word: int, bits: int = 32) -> int:
    """Returns a number of so many bits as one with a sign."""
    return (word & ((1 << bits) - 1) ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _divided(a: int, b: int) -> int:
    """Divides towards zero. By zero it gives all ones, as the instruction does."""
    return WORD if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _divided(a, b)


ALU: dict[tuple[int, int], Alu] = {
    (0, 0x00): operator.add,
    (0, 0x20): operator.sub,
    (1, 0x00): lambda a, b: a << (b & 31),
    (2, 0x00): lambda a, b: int(signed(a) < signed(b)),
    (3, 0x00): lambda a, b: int(a < b),
    (4, 0x00): operator.xor,
    (5, 0x00): lambda a, b: a >> (b & 31),
    (5, 0x20): lambda a, b: signed(a) >> (b & 31),
    (6, 0x00): operator.or_,
    (7, 0x00): operator.and_,
    (0, 0x01): operator.mul,
    (1, 0x01): lambda a, b: signed(a) * signed(b) >> 32,
    (2, 0x01): lambda a, b: signed(a) * b >> 32,
    (3, 0x01): lambda a, b: a * b >> 32,
    (4, 0x01): lambda a, b: _divided(signed(a), signed(b)),
    (5, 0x01): _divided,
    (6, 0x01): lambda a, b: _remainder(signed(a), signed(b)),
    (7, 0x01): _remainder,
}
"""Results by funct3 and funct7; bits beyond 32 are cut off. funct7 is 1 for the extension M."""
BRANCHES: dict[int, Callable[[int, int], bool]] = {
    0: operator.eq,
    1: operator.ne,
    4: lambda a, b: signed(a) < signed(b),
    5: lambda a, b: signed(a) >= signed(b),
    6: operator.lt,
    7: operator.ge,
}
"""Conditions by funct3."""
SIZES = {0: (1, True), 1: (2, True), 2: (4, True), 4: (1, False), 5: (2, False)}
"""Bytes of a load or store by funct3, and whether a load extends the sign."""


class Machine:
    """The memory, the registers, and the decoded instructions."""

    def __init__(self) -> None:
        self.memory, self.registers = bytearray(MEMORY), [0] * 33
        self._decoded: dict[int, Execute] = {}

    def call(self, address: int) -> int:
        """Calls a function without arguments. Returns the number of instructions until it returns."""
        self.registers[:] = [0] * 33
        self.registers[SP] = MEMORY
        count, decoded = 0, self._decoded
        while address:  # the return address, x1, is 0 at first
            execute = decoded.get(address)
            if execute is None:
                execute = decoded[address] = self._decode(address)
            address = execute()
            count += 1
        return count

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory[address : address + 4], "little")

    def put(self, address: int, word: int) -> None:
        self.memory[address : address + 4] = (word & WORD).to_bytes(4, "little")

    def _decode(self, pc: int) -> Execute:
        word = self.word(pc)
        kind, rd, rs1, rs2 = word & 0x7F, word >> 7 & 31 or SINK, word >> 15 & 31, word >> 20 & 31
        funct3, funct7, immediate = word >> 12 & 7, word >> 25, signed(word >> 20, 12)
        store = signed(funct7 << 5 | word >> 7 & 31, 12)
        makers: dict[int, Callable[[], Execute]] = {
            0x33: lambda: self._alu(pc, ALU[funct3, funct7], rd, rs1, rs2),
            0x13: lambda: self._alu_constant(pc, ALU[funct3, funct7 if funct3 in (1, 5) else 0], rd, rs1, immediate),
            0x03: lambda: self._load(pc, *SIZES[funct3], rd, rs1, immediate),
            0x23: lambda: self._store(pc, SIZES[funct3][0], rs1, rs2, store),
            0x63: lambda: self._branch(pc, BRANCHES[funct3], rs1, rs2, _branch_offset(word)),
            0x37: lambda: self._constant(rd, word & 0xFFFFF000, pc + 4),
            0x17: lambda: self._constant(rd, pc + (word & 0xFFFFF000), pc + 4),
            0x6F: lambda: self._constant(rd, pc + 4, pc + _jump_offset(word)),
            0x67: lambda: self._jump(pc, rd, rs1, immediate),
        }
        try:
            return makers[kind]()
        except KeyError:
            raise UsageError(f"instruction {word:#010x} at {pc:#x} is not of RV32IM; compile with -march=rv32i") from None

    def _alu(self, pc: int, result: Alu, rd: int, rs1: int, rs2: int) -> Execute:
        x = self.registers

        def execute() -> int:
            x[rd] = result(x[rs1], x[rs2]) & WORD
            return pc + 4

        return execute

    def _alu_constant(self, pc: int, result: Alu, rd: int, rs1: int, constant: int) -> Execute:
        x, operand = self.registers, constant & WORD

        def execute() -> int:
            x[rd] = result(x[rs1], operand) & WORD
            return pc + 4

        return execute

    def _load(self, pc: int, size: int, extends: bool, rd: int, rs1: int, offset: int) -> Execute:
        x, memory = self.registers, self.memory

        def execute() -> int:
            at = self._checked(x[rs1] + offset, size)
            x[rd] = int.from_bytes(memory[at : at + size], "little", signed=extends) & WORD
            return pc + 4

        return execute

    def _store(self, pc: int, size: int, rs1: int, rs2: int, offset: int) -> Execute:
        x, memory, mask = self.registers, self.memory, (1 << 8 * size) - 1

        def execute() -> int:
            at = self._checked(x[rs1] + offset, size)
            memory[at : at + size] = (x[rs2] & mask).to_bytes(size, "little")
            return pc + 4

        return execute

    def _checked(self, address: int, size: int) -> int:
        address &= WORD
        if address % size or not BASE <= address <= MEMORY - size:
            raise UsageError(f"access of {size} bytes at {address:#x}: not aligned, or outside of the memory; check the code")
        return address

    def _branch(self, pc: int, holds: Callable[[int, int], bool], rs1: int, rs2: int, offset: int) -> Execute:
        x, taken, following = self.registers, pc + offset, pc + 4
        return lambda: taken if holds(x[rs1], x[rs2]) else following

    def _constant(self, rd: int, value: int, following: int) -> Execute:
        """Returns lui, auipc or jal: a constant to a register, and the next address."""
        x, kept = self.registers, value & WORD

        def execute() -> int:
            x[rd] = kept
            return following

        return execute

    def _jump(self, pc: int, rd: int, rs1: int, offset: int) -> Execute:
        x = self.registers

        def execute() -> int:
            following = x[rs1] + offset & WORD & ~1
            x[rd] = pc + 4
            return following

        return execute


def _branch_offset(word: int) -> int:
    return signed(word >> 31 << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5 | (word >> 8 & 15) << 1, 13)


def _jump_offset(word: int) -> int:
    return signed(word >> 31 << 20 | (word >> 12 & 255) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 1023) << 1, 21)


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    info: int
    alignment: int


def load(path: Path) -> tuple[Machine, dict[str, int]]:
    """Loads an object file. Returns a machine with it, and the addresses of its symbols by name."""
    data, machine = path.read_bytes(), Machine()
    if data[:6] != b"\x7fELF\x01\x01" or struct.unpack_from("<HH", data, 16) != (1, 243):
        raise UsageError(f"{path}: not an object file of 32-bit RISC-V; compile the source for riscv32")
    (start,), (count,) = struct.unpack_from("<I", data, 32), struct.unpack_from("<H", data, 48)
    rows = [struct.unpack_from("<10I", data, start + 40 * number) for number in range(count)]
    sections = [_Section(row[1], row[2], row[4], row[5], row[7], row[8]) for row in rows]
    places = _placed(machine, data, sections)
    symbols = next(
        _symbols(data, section, sections[rows[number][6]].offset, places)
        for number, section in enumerate(sections)
        if section.kind == SHT_SYMTAB
    )
    for section in sections:
        if section.kind == SHT_RELA and section.info in places:
            for at, info, addend in struct.iter_unpack("<IIi", data[section.offset : section.offset + section.size]):
                name, value = symbols[info >> 8]
                if value is None:
                    raise UsageError(f"{path}: {name} is called and not defined; define it beside the algorithm")
                _relocate(machine, info & 255, places[section.info] + at, value + addend)
    return machine, {name: value for name, value in symbols if name and value is not None}


def _placed(machine: Machine, data: bytes, sections: list[_Section]) -> dict[int, int]:
    """Copies sections into the memory. Returns their addresses by number."""
    places, end = {}, BASE
    for number, section in enumerate(sections):
        if section.flags & SHF_ALLOC:
            places[number] = end = -(-end // max(1, section.alignment)) * max(1, section.alignment)
            if section.kind != SHT_NOBITS:
                machine.memory[end : end + section.size] = data[section.offset : section.offset + section.size]
            end += section.size
    return places


def _symbols(data: bytes, section: _Section, names: int, places: dict[int, int]) -> list[tuple[str, int | None]]:
    """Returns names and addresses of symbols. The address of one that is not defined is None."""
    found: list[tuple[str, int | None]] = []
    for name, value, _, _, _, owner in struct.iter_unpack("<IIIBBH", data[section.offset : section.offset + section.size]):
        text = data[names + name : data.index(b"\0", names + name)].decode()
        found.append((text, places[owner] + value if owner in places else None))
    return found


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
