# SPDX-License-Identifier: Apache-2.0
"""Compiles a user's algorithm, one header, as `make programs` compiles dc-gym's own: to a runner and the NIC's BPF object."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from dc_gym.base import bounded
from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.package import PACKAGE
from dc_gym.ctrl import controllers
from dc_gym.ctrl.nic import contract
from dc_gym.ctrl.nic.algorithm import Algorithm, describe

SOURCES = Path(__file__).resolve().parent
DAEMON = PACKAGE / "daemon"
DRIVERS = PACKAGE / "kernel" / "drivers"
RUNNER_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fsanitize=integer-divide-by-zero")
INCLUDES = (
    f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"  # has asm/types.h; clang does not search it for another machine
)
BPF_FLAGS = ("-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-idirafter", INCLUDES)
ALONE_FLAGS = ("-DCC_ALONE", "-Wcast-qual")
WARNING = re.compile(r" \[-W[^]]*\]$")


_products: dict[tuple[Path, bytes], tuple[bytes, bytes]] = {}
"""Runner and object by header path and content. A process compiles a header once, for all its runs and folders."""


def compile_header(header: Path, folder: Path, name: str | None = None) -> Algorithm:
    """Compiles this header into `folder` and returns the algorithm. `name` is the name that the header must state."""
    runner, product = _runner(header, folder), folder / f"nic-{header.stem}.bpf.o"
    known = _products.get(_key(header))
    if known is not None:
        runner.write_bytes(known[0])
        runner.chmod(0o755)
    else:
        compile_runner(header, folder)
    built = describe(header, runner, product)
    if name is not None and built.name != name:
        raise UsageError(f"{header}: its CC_NAME is {built.name!r}, but it is registered as {name!r}; make them equal")
    if known is not None:
        product.write_bytes(known[1])
    else:
        compile_object(header, product)
        check_contract(header, folder)
        _products[_key(header)] = runner.read_bytes(), product.read_bytes()
    return built


def compile_runner(header: Path, folder: Path, sanitized: bool = False) -> Path:
    """Compiles ccrun with this algorithm. If sanitized, it ends at the first undefined behaviour of C."""
    out = _runner(header, folder, sanitized)
    sources = [str(SOURCES / name) for name in ("ccrun.c", "cctrace.c")] + [
        str(DAEMON / name) for name in ("options.c", "program.c")
    ]
    flags = [*RUNNER_FLAGS, *(SANITIZERS if sanitized else ())]
    _compile("cc", header, [*flags, *_algorithm(header), f"-I{DAEMON}", "-o", str(out), *sources])
    return out


def check_contract(header: Path, folder: Path) -> None:
    """Raises UsageError if the algorithm is not pure. It is compiled alone, for this machine and for BPF."""
    for compiler, flags in (("cc", (*RUNNER_FLAGS, "-fno-pic")), ("clang", BPF_FLAGS)):
        product = folder / f"ccalone-{header.stem}-{compiler}.o"
        files = product.with_suffix(".d")
        options = [*flags, *ALONE_FLAGS, "-MMD", "-MF", str(files), *_algorithm(header), "-c", "-o", str(product)]
        _compile(compiler, header, [*options, str(SOURCES / "ccalone.c")])
        contract.check(header, product, files, (SOURCES, DRIVERS, *_folders()))


def compile_object(header: Path, out: Path) -> None:
    """Compiles the NIC with this algorithm."""
    compile_source(header, SOURCES / "shim.bpf.c", BPF_FLAGS, out)


def compile_test_object(header: Path, out: Path) -> Path:
    """Compiles the algorithm alone to BPF, for cctest."""
    compile_source(header, SOURCES / "cctest.bpf.c", BPF_FLAGS, out)
    return out


def compile_source(header: Path, source: Path, flags: Sequence[str], out: Path) -> None:
    """Compiles a C source that includes this algorithm to an object file."""
    _compile("clang", header, [*flags, *_algorithm(header), "-c", "-o", str(out), str(source)])


def _runner(header: Path, folder: Path, sanitized: bool = False) -> Path:
    return folder / f"ccrun-{header.stem}{'-sanitized' * sanitized}"


def _key(header: Path) -> tuple[Path, bytes]:
    return header.resolve(), bounded.read_bytes(header) if header.is_file() else b""


def _algorithm(header: Path) -> list[str]:
    """Returns the flags for a header in another folder. With them it includes cc.h and dc-gym's headers as a header here does.

    Among them is a folder of an algorithm of the core and of each method, from which relative includes of a copy hold.
    """
    includes = (SOURCES, *_folders().values(), DRIVERS)
    return [f'-DCC_ALGORITHM="{header.resolve()}"', *(f"-I{folder}" for folder in includes)]


def _folders() -> dict[Path, Path]:
    """Returns the folders with folders of algorithms, each with one of these."""
    return {folder.parent: folder for folder in controllers.nic_folders().values()}


def _compile(compiler: str, header: Path, flags: list[str]) -> None:
    """Runs the compiler. Its first error message becomes the one line of the exception."""
    if not header.is_file():
        raise UsageError(f"{header}: no such file; give the header of an algorithm")
    program = shutil.which(compiler)
    if program is None:
        raise MachineError(f"compiling {header.name}: there is no {compiler} here; apt-get install gcc clang")
    process = subprocess.run([program, *flags], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    if "No space left on device" in process.stderr:
        raise MachineError(f"compiling {header.name}: no room left; free some, or set TMPDIR to a folder with room")
    if process.returncode:
        raise UsageError(f"{header}: {first_error(process.stderr)}")


def first_error(output: str) -> str:
    """Returns the part of a compiler's output that its user has to read first."""
    lines = [line for line in output.splitlines() if "error: " in line] or output.splitlines()[-1:] or ["the compiler failed"]
    return WARNING.sub("", lines[0].strip())
