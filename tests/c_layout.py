# SPDX-License-Identifier: Apache-2.0
"""Layouts and constants of C headers as the compiler sees them, for tests of the Python that reads or writes the same bytes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dc_gym/daemon", "monitors", "ctrl/agent", "ctrl/nic", "traffic/tgen", "kernel/drivers", "dc_gym/learn/native")


def printed(header: str, body: str) -> list[str]:
    """Returns the lines that C code prints after including the header."""
    program = (
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{Path(header).name}"\nint main(void)\n{{\n{body}\nreturn 0;\n}}\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        binary = f"{folder}/a.out"
        argv = ["cc", "-std=c11", "-D_GNU_SOURCE", *(f"-I{ROOT / path}" for path in FOLDERS), "-x", "c", "-", "-o", binary]
        subprocess.run(argv, input=program, text=True, check=True)
        return subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()


def layout(header: str, struct: str) -> tuple[int, dict[str, tuple[int, int]]]:
    """Returns the size of a struct, and offset and size of each of its fields."""
    body = re.search(rf"struct {struct} {{(.*?)\n}};", (ROOT / header).read_text(), re.DOTALL)
    assert body is not None, f"{header} declares no struct {struct}"
    text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    names = re.findall(r"(\w+)(?:\[\w+\])?\s*[,;]", text)
    prints = [f'printf("%zu\\n", sizeof(struct {struct}));']
    prints += [f'printf("%zu %zu\\n", offsetof(struct {struct}, {n}), sizeof(((struct {struct} *)0)->{n}));' for n in names]
    size, *fields = printed(header, "\n".join(prints))
    numbers = (line.split() for line in fields)
    return int(size), {name: (int(offset), int(length)) for name, (offset, length) in zip(names, numbers, strict=True)}


def layout_of(dtype: np.dtype[np.void]) -> tuple[int, dict[str, tuple[int, int]]]:
    """Returns the same of a dtype."""
    assert dtype.fields is not None
    return dtype.itemsize, {name: (field[1], field[0].itemsize) for name, field in dtype.fields.items()}


def numbers(header: str, *expressions: str) -> list[int]:
    """Returns the values of integer expressions."""
    return [int(line) for line in printed(header, "\n".join(f'printf("%lld\\n", (long long)({expr}));' for expr in expressions))]


def texts(header: str, *expressions: str) -> list[str]:
    """Returns the values of string expressions."""
    return printed(header, "\n".join(f"puts({expr});" for expr in expressions))
