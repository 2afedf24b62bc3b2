# SPDX-License-Identifier: Apache-2.0
"""The units of C (X.c with X.h) stand one above the other: a unit includes, and calls, those below it alone."""

import graphlib
import re
import subprocess
from pathlib import Path

from c_fuzzers import ROOT

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FUNCTION = r"^(?!static|typedef)[a-z][\w \t*]*?\b(\w+)\([^;{}]*\)[^;{}()]*"
DECLARED, DEFINED = (re.compile(FUNCTION + end, re.MULTILINE) for end in (";", r"\n\{"))
SHARED = "kernel/drivers/port.h"
"""The one header of several files: what the parts of a switch port know of one another, cable.c below port_buffer.c."""


def graph(texts: dict[str, str]) -> dict[str, set[str]]:
    """Returns the units that each unit needs: those that it includes, and those that define what its header declares."""
    needs: dict[str, set[str]] = {name.rpartition(".")[0]: set() for name in texts}
    codes = {name: COMMENT.sub("", text) for name, text in texts.items()}
    headers = {name: set(DECLARED.findall(code)) for name, code in codes.items() if name.endswith(".h") and name != SHARED}
    for name, code in codes.items():
        unit = name.rpartition(".")[0]
        for included in INCLUDE.findall(code):
            beside = (ROOT / name).parent.joinpath(included).resolve()
            matches = [other for other in texts if ROOT / other == beside] or [
                o for o in texts if f"/{o}".endswith(f"/{included}")
            ]
            needs[unit] |= {other.rpartition(".")[0] for other in matches} - {unit}
        if name.endswith(".c") and not name.startswith("tests/"):  # a test may stand in for a unit
            defined = set(DEFINED.findall(code))
            for header, declared in headers.items():
                other = header.removesuffix(".h")
                if other != unit and declared & defined - set(DEFINED.findall(codes.get(f"{other}.c", ""))):
                    needs[other].add(unit)
    return needs


def circle(texts: dict[str, str]) -> str:
    """Returns one circle of units, or nothing."""
    try:
        graphlib.TopologicalSorter(graph(texts)).prepare()
    except graphlib.CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def test_units_of_c_stand_in_no_circle():
    listed = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = {name: Path(ROOT, name).read_text() for name in listed.stdout.split()}
    assert len(texts) > 200
    assert circle(texts) == ""


def test_a_circle_is_named():
    low = {"a/low.h": "int low(void);\n", "a/low.c": '#include "low.h"\nint low(void)\n{\n}\n'}
    high = {"a/high.h": "int high(void);\n", "a/high.c": '#include "high.h"\n#include "low.h"\nint high(void)\n{\n}\n'}
    assert circle(low | high) == ""
    assert circle(low | high | {"a/low.c": '#include "low.h"\n#include "../a/high.h"\n'}) == "a/low -> a/high -> a/low"
    foreign = {"a/low.h": "int low(void);\nint high(void);\n"}
    assert circle(low | high | foreign) in ("a/low -> a/high -> a/low", "a/high -> a/low -> a/high")
