# SPDX-License-Identifier: Apache-2.0
"""Runs `cctest` where BPF is available: in a lab, or in this machine's own kernel as root."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import LabError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.package import PROGRAMS
from dc_gym.base.taken import take_over
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.kernel import build
from dc_gym.kernel.lab import Lab, LabConfig

CCTEST = PROGRAMS / "cctest"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class CctestCall:
    """One call of cctest."""

    arguments: tuple[str, ...]
    text: str = ""
    """Text for its standard input."""


@dataclass(frozen=True, slots=True)
class CctestOutput:
    """The exit status and the output of one call of cctest."""

    status: int
    out: str
    error: str

    def lines(self) -> list[str]:
        """Returns its output. If the kernel refuses the program, the error is addressed to the program's author."""
        if self.status:
            raise UsageError(self.error.strip() or f"cctest ended with {self.status}")
        return self.out.splitlines()


Kernel = Callable[[Sequence[CctestCall]], list[CctestOutput]]


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A BPF program after a kernel has loaded it."""

    name: str
    instructions: int
    """Number of instructions after the kernel has rewritten them."""
    machine_bytes: int
    """Size of the JIT's machine code. 0: this kernel interprets."""
    verified: int
    """Number of instructions that the verifier processed. Its budget is a million."""


def load(kernel: Kernel, calls: Sequence[tuple[str, ...]]) -> list[list[LoadedProgram]]:
    """Returns the programs of BPF objects, each loaded and released again. A call is the result of `arguments`."""
    answers = kernel([CctestCall((*call, "--load")) for call in calls])
    return [[_program(line) for line in answer.lines()] for answer in answers]


def _program(line: str) -> LoadedProgram:
    row = json.loads(line)
    return LoadedProgram(row["program"], row["instructions"], row["machine_bytes"], row["verified"])


def test_object(algorithm: Algorithm) -> Path:
    """Returns the path of cctest-NAME.bpf.o, beside the algorithm's runner."""
    return algorithm.runner.with_name(algorithm.runner.name.replace("ccrun", "cctest", 1) + ".bpf.o")


def arguments(
    object_file: Path,
    values: Mapping[str, int] | None = None,
    table: Path | None = None,
    repeat: int = 0,
    rates: str = "",
) -> tuple[str, ...]:
    """Returns the arguments of cctest for an algorithm with these parameters, or for any BPF object."""
    words = ["--object", str(object_file)]
    words += ["--parameters", ",".join(map(str, values.values()))] if values else []
    words += ["--rates", rates] if rates else []
    words += ["--table", str(table)] if table else []
    return tuple(words + (["--repeat", str(repeat)] if repeat else []))


def native_arguments(
    algorithm: Algorithm, values: Mapping[str, int], table: Path | None = None, repeat: int = 0, rates: str = ""
) -> tuple[str, ...]:
    """Returns the arguments of cctest for an algorithm of dc-gym as machine code. The lab boots with its native object."""
    native = ("--native", str(algorithm.native), "--words", str(algorithm.state_words))
    return arguments(algorithm.object, values, table, repeat, rates) + native


def run_here(commands: Sequence[CctestCall]) -> list[CctestOutput]:
    """Runs the commands in this machine's kernel."""
    answers = []
    for call in commands:
        argv = [str(CCTEST), *call.arguments]
        process = subprocess.run(argv, input=call.text, capture_output=True, text=True, timeout=TIMEOUT_S)
        answers.append(CctestOutput(process.returncode, process.stdout, process.stderr))
    return answers


def reason_not_here() -> str:
    """Returns why this machine's kernel cannot run them, or "" if it can."""
    if os.geteuid() != 0:
        return "not root"
    (answer,) = run_here([CctestCall((*arguments(PROGRAMS / "cctest-fixed.bpf.o"), "--load"))])
    return (answer.error.strip().splitlines() or ["cctest fails"])[0] if answer.status else ""


def run_in_lab(commands: Sequence[CctestCall]) -> list[CctestOutput]:
    """Runs the commands in a lab, one after the other. The lab boots with all native objects that they name."""
    named = [call.arguments for call in commands if "--native" in call.arguments]
    native = dict.fromkeys(Path(words[words.index("--native") + 1]) for words in named)
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        run_dir = folder / "run"
        run_dir.mkdir()
        run_dir.chmod(0o777)
        script = []
        for number, call in enumerate(commands):
            (run_dir / f"{number}.in").write_text(call.text)
            words = shlex.join([str(CCTEST), *call.arguments])
            script.append(f"{words} < {number}.in > {number}.out 2> {number}.err; echo $? > {number}.status")
        (run_dir / "script").write_text("\n".join([f"cd {shlex.quote(str(run_dir))}", *script]) + "\n")
        _boot(run_dir, tuple(native), {Path(word).parent for call in commands for word in call.arguments if word.startswith("/")})
        return [_answer(run_dir, number) for number in range(len(commands))]


def _boot(run_dir: Path, native: Sequence[Path], reads: Collection[Path]) -> None:
    log: list[str] = []
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/run"}
    argv = ["/bin/sh", str(run_dir / "script")]
    config = LabConfig(
        build.ensure().path, PROGRAMS, run_dir, argv, env, memory_bytes=256 << 20, native=native, reads=tuple(reads)
    )
    with Lab(config, on_log=log.append) as booted:
        status = booted.wait().status
    take_over(run_dir)
    if status:
        raise LabError("\n  lab: ".join([f"cctest's script ended with status {status} in the lab", *log[-20:]]))


def _answer(run_dir: Path, number: int) -> CctestOutput:
    status, out, error = ((run_dir / f"{number}.{name}").read_text() for name in ("status", "out", "err"))
    return CctestOutput(int(status), out, error)
