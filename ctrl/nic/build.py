# SPDX-License-Identifier: Apache-2.0
"""Compiles a user's algorithm, one header, to what `make programs` builds for each of ours: a runner and the NIC's BPF object."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.ctrl.nic import algorithms
from dc_gym.ctrl.nic.algorithms import Algorithm

SOURCES = Path(__file__).resolve().parent
RUNNER_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fsanitize=integer-divide-by-zero")
INCLUDES = (
    f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"  # of asm/types.h, where clang does not look for another machine
)
BPF_FLAGS = ("-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-idirafter", INCLUDES)
WARNING = re.compile(r" \[-W[^]]*\]$")


_products: dict[tuple[Path, bytes], tuple[bytes, bytes]] = {}
"""Runner and object by header and what was in it: a process compiles a header once, however many runs and folders it has."""


def compile_header(header: Path, folder: Path, name: str | None = None) -> Algorithm:
    """The algorithm of this header, its products in `folder`. `name`: what it has to call itself."""
    runner, product = _runner(header, folder), folder / f"nic-{header.stem}.bpf.o"
    known = _products.get(_key(header))
    if known is not None:
        runner.write_bytes(known[0])
        runner.chmod(0o755)
    else:
        compile_runner(header, folder)
    built = algorithms.describe(header, runner, product)
    if name is not None and built.name != name:
        raise UsageError(f"{header}: its CC_NAME is {built.name!r}, but it is registered as {name!r}; make them equal")
    if known is not None:
        product.write_bytes(known[1])
    else:
        compile_object(header, product)
        _products[_key(header)] = runner.read_bytes(), product.read_bytes()
    return built


def compile_runner(header: Path, folder: Path, sanitized: bool = False) -> Path:
    """ccrun with this algorithm; sanitized, it ends at the first thing that C leaves open."""
    out = _runner(header, folder, sanitized)
    sources = [str(SOURCES / name) for name in ("ccrun.c", "cctrace.c")]
    flags = [*RUNNER_FLAGS, *(SANITIZERS if sanitized else ())]
    _compile("cc", header, [*flags, *_algorithm(header), "-o", str(out), *sources])
    return out


def compile_object(header: Path, out: Path) -> None:
    """The NIC with this algorithm."""
    flags = [*BPF_FLAGS, *_algorithm(header), "-c", "-o", str(out), str(SOURCES / "shim.bpf.c")]
    _compile("clang", header, flags)


def compile_test_object(header: Path, out: Path) -> Path:
    """The algorithm alone in BPF, for cctest."""
    _compile("clang", header, [*BPF_FLAGS, *_algorithm(header), "-c", "-o", str(out), str(SOURCES / "cctest.bpf.c")])
    return out


def _runner(header: Path, folder: Path, sanitized: bool = False) -> Path:
    return folder / f"ccrun-{header.stem}{'-sanitized' * sanitized}"


def _key(header: Path) -> tuple[Path, bytes]:
    return header.resolve(), header.read_bytes() if header.is_file() else b""


def _algorithm(header: Path) -> list[str]:
    """A header elsewhere finds cc.h and ours by the same names as a header here."""
    return [f'-DCC_ALGORITHM="{header.resolve()}"', f"-I{SOURCES}", f"-I{SOURCES / 'algorithms'}"]


def _compile(compiler: str, header: Path, flags: list[str]) -> None:
    """The compiler's first complaint becomes one line."""
    if not header.is_file():
        raise UsageError(f"{header}: no such file; give the header of an algorithm")
    found = shutil.which(compiler)
    if found is None:
        raise MachineError(f"compiling {header.name}: there is no {compiler} here; apt-get install gcc clang")
    done = subprocess.run([found, *flags], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    if "No space left on device" in done.stderr:
        raise MachineError(f"compiling {header.name}: no room left; free some, or set TMPDIR to a folder with room")
    if done.returncode:
        raise UsageError(f"{header}: {complaint(done.stderr)}")


def complaint(said: str) -> str:
    """What of a compiler's output its user has to read first."""
    lines = [line for line in said.splitlines() if "error: " in line] or said.splitlines()[-1:] or ["the compiler failed"]
    return WARNING.sub("", lines[0].strip())
