# SPDX-License-Identifier: Apache-2.0
"""Compiles an object of the lab kernel: a TCP of one's own, which the kernel reads at boot (drivers/lab_object.c).

A source is one of the kernel's, as a file of net/ipv4: it includes <net/tcp.h> and registers itself by module_init(). The linker
places it in the kernel's array lab_object_region and takes the kernel's symbols from its binary, so that it calls and reads the
kernel itself. So an object belongs to one binary, whose build id the kernel compares.

Symbols that are static in the kernel or not built are an error, and so are sections with tables that it reads only in its own
image. So is a connection's state that a socket has no room for.
Values of module_param stay their defaults.

Beside the object lies a file with its symbols and lines, at the addresses that it has in a lab, for debuggers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base import behaviour, bounded
from dc_gym.base.errors import KernelError, UsageError
from dc_gym.kernel import headers
from dc_gym.kernel.cache import cache_dir, locked, make_folder, partial, publish

__all__ = ["DEBUG", "build", "ensure", "place_of"]

GCC = "gcc"
MAGIC, ABI = 0x4354424F59474344, 1  # drivers/lab_object.h
REGION_BYTES = 512 << 10
ID_BYTES = 20
DEBUG = ".debug"
"""The ending of the file with the symbols of an object."""
DIED = Path(__file__).parent / "object" / "died.c"
NOTE = struct.Struct("=3I4s")
NOTE_HEAD = NOTE.pack(4, ID_BYTES, 3, b"GNU\0")
"""The bytes before a build id: the lengths of name and id, the type, and the name."""
SCRIPT = """
{symbols}
SECTIONS
{{
	. = {base};
	.object : {{
		QUAD({magic}) QUAD({abi}) QUAD({base})
		QUAD(object_end - {base}) QUAD(memory_end - {base})
		QUAD(calls - {base}) QUAD(calls_end - calls)
		{identity} LONG(0)
		. = ALIGN(8);
		calls = .;
		KEEP(*(SORT(.initcall*.init)))
		calls_end = .;
		. = ALIGN(64);
		*(.text .text.* .init.text .exit.text .ref.text .noinstr.text .sched.text .cpuidle.text)
		. = ALIGN(64);
		*(.got .got.plt .rodata .rodata.* .init.rodata .init.rodata.* .data .data.* .init.data .init.data.* .ref.data)
		. = ALIGN(8);
		object_end = .;
	}}
	.zero (NOLOAD) : {{
		*(.bss .bss.* COMMON)
	}}
	memory_end = ALIGN(8);
	.tbss : {{
		*(.tbss)
	}}
	.left : {{
		*(.rela* .plt .iplt .igot .igot.plt)
	}}
	{debug}
	ASSERT(SIZEOF(.left) == 0, "relocations are left")
	ASSERT(memory_end - {base} <= {room}, "too large")
	/DISCARD/ : {{
		*(.modinfo __modver __param .comment .note.* .eh_frame .exitcall.exit .discard.* .export_symbol)
		*(.altinstructions .altinstr_replacement)
	}}
}}
"""
DEBUG_SECTIONS = (
    "abbrev", "addr", "aranges", "frame", "info", "line", "line_str", "loc", "loclists", "macro", "ranges", "rnglists", "str",
    "str_offsets", "types",
)  # fmt: skip
STATE = re.compile(r"^ +(\w[\w ]*?) \* (?:const )?([\w.]+);$|^ +([\w.]+) = inet_csk_ca \(", re.MULTILINE)
"""In gcc's dump of a source: the declaration of a pointer, or what gets the place of a connection's state."""
ARRAY_BYTES = re.compile(r"type 'char \(\*\)\[(\d+)\]'")
THREADS = re.compile(r"^ +TLS +0x\w+ 0x\w+ 0x\w+ 0x\w+ (0x\w+) R\w* +(0x\w+)$", re.MULTILINE)
SYMBOL = re.compile(r"^ *\d+: (\w+) +\w+ (FUNC|OBJECT|NOTYPE|TLS) +(?:GLOBAL|WEAK) +\w+ +(?!UND)\w+ (\w+)$", re.MULTILINE)
"""A symbol of a binary in the words of readelf: address, type, and name. A function of libc that is chosen when the kernel starts
has another type, and no address."""
REGION = "lab_object_region"
UNKNOWN = re.compile(r"undefined reference to `(.+?)'")
ORPHAN = re.compile(r"unplaced orphan section `(.+?)'")
TWICE = re.compile(r"multiple definition of `(.+?)'")
FAR = re.compile(r"relocation truncated to fit: (\S+) against .*?`(.+?)'")
BAD = re.compile(r": error: (.+)")


def ensure(kernel: Path, sources: Sequence[Path]) -> Path:
    """Returns the file for the kernel that `build` makes of these sources. The cache keeps it by their content.

    Args:
        kernel: The folder of the kernel.
        sources: As for `build`. The file's name is that of the first.

    Raises:
        KernelError: A source is no TCP of this kernel.
        UsageError: A source cannot be read, or there is no compiler.
    """
    compiler = _run([GCC, "--version"], Path("/"), sources[0].name).splitlines()[0]
    own = " ".join(map(behaviour.digest_of_file, (Path(__file__), DIED)))
    digest = hashlib.sha256(f"{own} {compiler} ".encode() + build_id(kernel / "linux"))
    for source in sources:
        digest.update(f"\n{source.name} ".encode() + _content(source))
    target = make_folder(cache_dir() / "objects") / digest.hexdigest()[:32]
    product = f"{sources[0].stem}.object"
    with locked(target.with_name(f"{target.name}.lock")):
        if not (target / product).is_file():
            with partial(target) as work:
                make_folder(work / "out")
                build(kernel, sources, work / "out" / product)
                for path in (work / "out").iterdir():
                    path.chmod(0o644)
                publish(work / "out", target, work)
    return target / product


def _content(source: Path) -> bytes:
    try:
        return bounded.read_bytes(source)
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}; give the C source of a TCP") from None


def build(kernel: Path, sources: Sequence[Path], out: Path) -> None:
    """Compiles TCPs for a kernel of the cache.

    Args:
        kernel: The folder of the kernel.
        sources: Files in C, and the headers beside them that they include. Each C file becomes an object of its own. Together
            they are one file for the kernel.
        out: The file to write, beside which that with its symbols is put. A lab gets it by LabConfig.object.
    """
    there = headers.unpacked(kernel)
    with tempfile.TemporaryDirectory(prefix="dcgym-object-") as folder:
        work = Path(folder)
        files = [source for source in sources if source.suffix != ".h"]
        objects = [_compile(there, source, work / f"{number}.o") for number, source in enumerate(files)]
        for source, product in zip(files, objects, strict=True):
            _check_includes(there, source, product.with_suffix(".d"), sources)
        names = ", ".join(source.name for source in sources)
        if not any(".initcall" in _run(["readelf", "--sections", "--wide", str(product)], work, names) for product in objects):
            raise KernelError(f"{names}: has no module_init(), so nothing of it would run; write one")
        objects.append(_compile(there, DIED, work / "died.o"))
        listing = _run(["readelf", "--segments", "--symbols", "--wide", str(kernel / "linux")], work, "linux")
        symbols = {name: _Symbol(int(at, 16), kind) for at, kind, name in SYMBOL.findall(listing)}
        objects.append(_threads_variables(listing, symbols, work))
        script = work / "object.lds"
        script.write_text(_script(symbols, build_id(kernel / "linux")))
        linked, image = work / "linked", work / "image"
        _run(_link(script, objects, linked), work, names)
        _run(["objcopy", "--output-target", "binary", str(linked), str(image)], work, names)
        out.write_bytes(image.read_bytes())
        out.with_suffix(DEBUG).write_bytes(linked.read_bytes())


def place_of(product: Path, addresses: Sequence[int]) -> str:
    """Returns words for the place in an object's sources of the first of these addresses of a lab that has one, otherwise ''."""
    symbols, tool = product.with_suffix(DEBUG), shutil.which("addr2line")
    if not addresses or tool is None or not symbols.is_file():
        return ""
    lines = _run([tool, "-f", "-i", "-e", str(symbols), *map(hex, addresses)], Path("/"), product.name).splitlines()
    for function, place in zip(lines[::2], lines[1::2], strict=True):
        file, _, line = place.partition(" ")[0].rpartition(":")
        if file.endswith(".c") and line.isdecimal():
            return f"{function}() at {Path(file).name}:{line}"
    return ""


def build_id(linux: Path) -> bytes:
    """Returns the build id of a kernel's binary, which the linker has derived from its content."""
    content = linux.read_bytes()
    at = content.find(NOTE_HEAD)
    if at < 0:
        raise KernelError(f"{linux} has no build id: build the kernel again")
    return content[at + NOTE.size : at + NOTE.size + ID_BYTES]


@dataclass(frozen=True, slots=True)
class _Symbol:
    """A symbol of the kernel's binary. The address of a variable of a thread counts from the first of these."""

    address: int
    kind: str


def _script(symbols: Mapping[str, _Symbol], identity: bytes) -> str:
    """Returns the linker's script: the kernel's symbols, and the file's layout."""
    if REGION not in symbols:
        raise KernelError(f"the lab kernel has no {REGION}: `dcgym kernel build`")
    return SCRIPT.format(
        symbols="\n".join(f"PROVIDE({name} = {symbol.address:#x});" for name, symbol in symbols.items() if symbol.kind != "TLS"),
        base=f"{symbols[REGION].address:#x}",
        debug="\n\t".join(f".debug_{name} 0 : {{ *(.debug_{name}) }}" for name in DEBUG_SECTIONS),
        magic=MAGIC,
        abi=ABI,
        identity=" ".join(f"BYTE({byte})" for byte in identity),
        room=REGION_BYTES,
    )


def _threads_variables(listing: str, symbols: Mapping[str, _Symbol], work: Path) -> Path:
    """Returns an object with the kernel's variables of a thread, such as its flag of interrupts, placed as the kernel has them.

    Code finds them by their distance from the end of all of them, which the linker computes.
    """
    if (segment := THREADS.search(listing)) is None:
        raise KernelError("the lab kernel has no variables of threads: `dcgym kernel build`")
    room_bytes, alignment = (int(number, 16) for number in segment.groups())
    lines = ['.section .tbss, "awT", @nobits', f".balign {alignment}"]
    for name, symbol in symbols.items():
        if symbol.kind == "TLS":
            lines += [f".globl {name}", f".type {name}, @tls_object", f".set {name}, . + {symbol.address}"]
    source = work / "threads.s"
    source.write_text("\n".join([*lines, f".zero {room_bytes}", '.section .note.GNU-stack, "", @progbits', ""]))
    _run([GCC, "-c", "-o", str(work / "threads.o"), str(source)], work, source.name)
    return work / "threads.o"


def _compile(there: Path, source: Path, target: Path) -> Path:
    if not source.is_file():
        raise UsageError(f"{source}: no such file; give the C source of a TCP")
    name = re.sub(r"\W", "_", source.stem)
    flags: list[str] = json.loads((there / headers.FLAGS).read_text())
    named = [
        f'-DKBUILD_MODFILE="{name}"',
        f'-DKBUILD_BASENAME="{name}"',
        f'-DKBUILD_MODNAME="{name}"',
        f"-D__KBUILD_MODNAME={name}",
    ]
    beside = [f"-I{source.absolute().parent}", f"-I{there / headers.TCPS}"]
    listing = ["-MMD", "-MF", str(target.with_suffix(".d"))]
    argv, dump = [GCC, *flags, *named, *beside], target.with_suffix(".gimple")
    debug = [] if source == DIED else ["-g", f"-fdump-tree-gimple={dump}"]
    try:
        _run([*argv, *listing, *debug, "-c", "-o", str(target), str(source.absolute())], there, source.name)
    finally:  # its own assertion on the state says no sizes
        if dump.is_file():
            _check_state(there, argv, source, dump)
    return target


def _check_state(there: Path, compiler: Sequence[str], source: Path, dump: Path) -> None:
    """Raises KernelError if a socket has no room for a connection's state: what a pointer from inet_csk_ca() points to."""
    declared, states = dict[str, str](), set[str]()
    for state, pointer, assigned in STATE.findall(dump.read_text(errors="replace")):
        declared |= {pointer: state} if pointer else {}
        states |= {declared[assigned]} if assigned in declared else set()
    for state in sorted(states):
        probe = dump.with_suffix(".c")
        sizes = (f"sizeof({state})", "ICSK_CA_PRIV_SIZE")
        arrays = "".join(f"char (*dcgym_{number})[{size}] = 1.0;\n" for number, size in enumerate(sizes))
        probe.write_text(f'#include "{source.absolute()}"\n{arrays}')
        errors = _call([*compiler, "-fsyntax-only", str(probe)], there, source.name).stderr
        state_bytes, *room_bytes = map(int, ARRAY_BYTES.findall(errors) or (0,))  # an error of the type names the size
        if room_bytes and state_bytes > room_bytes[0]:
            why = f"the state of a connection, {state}, has {state_bytes} bytes, and a socket has room for {room_bytes[0]}"
            raise KernelError(f"{source.name}: {why} (ICSK_CA_PRIV_SIZE); make it smaller, or allocate a part of it in .init")


def _check_includes(there: Path, source: Path, listing: Path, sources: Sequence[Path]) -> None:
    """Raises UsageError if a source includes a file that is neither the kernel's nor one of the sources."""
    known = {path.resolve() for path in sources}
    for name in listing.read_text().replace("\\\n", " ").partition(": ")[2].split():
        path = (there / name).resolve()
        if not path.is_relative_to(there.resolve()) and path not in known:
            raise UsageError(f"{source.name}: it includes {path.name}, which no result would keep; give it in tcp=(...), too")


def _link(script: Path, objects: Sequence[Path], target: Path) -> list[str]:
    options = ["-m", "elf_x86_64", "-z", "noexecstack", "--orphan-handling=error", "--build-id=none"]
    return ["ld", *options, "-T", str(script), "-o", str(target), *map(str, objects)]


def _run(argv: Sequence[str], folder: Path, subject: str) -> str:
    process = _call(argv, folder, subject)
    if process.returncode:
        raise KernelError(f"{subject}: {_reason(process.stderr)}")
    return process.stdout


def _call(argv: Sequence[str], folder: Path, subject: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}
        )
    except FileNotFoundError:
        raise UsageError(f"compiling {subject} needs {argv[0]}: apt install gcc binutils") from None


def _reason(errors: str) -> str:
    """Returns in one line why compiler or linker refuse."""
    if match := UNKNOWN.search(errors):
        return f"symbol {match[1]!r} is not one of the lab kernel that other files may use; do without it"
    if match := ORPHAN.search(errors):
        return f"section {match[1]!r} holds a table that the lab kernel reads in its own image alone; do without it"
    if match := TWICE.search(errors):
        return f"symbol {match[1]!r} is defined twice; make it static"
    if match := FAR.search(errors):
        return f"relocation {match[1]} against {match[2]!r} does not reach; do without it"
    if "too large" in errors:
        return f"takes more memory than the {REGION_BYTES >> 10} KiB that there are; make its tables smaller"
    if match := BAD.search(errors):
        where = re.search(r":(\d+):\d+: error: ", errors)
        return f"line {where[1]}: {match[1]}" if where else match[1]
    return next((line for line in reversed(errors.splitlines()) if line.strip()), "no message")
