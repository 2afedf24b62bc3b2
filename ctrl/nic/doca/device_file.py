# SPDX-License-Identifier: Apache-2.0
"""A device file for DOCA PCC, as clang understands it: its text as a part of an algorithm, and what no algorithm can do.

All its functions become `static inline` and get `pcc_here` as their first parameter (pcc.h), all its variables become static, and
its names collide with none of dc-gym's. Compilers drop what `doca_pcc_dev_user_algo()` does not reach.
"""

from __future__ import annotations

import json
import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.ctrl.nic.build import first_error

HERE = Path(__file__).resolve().parent
ALGO, INIT = "doca_pcc_dev_user_algo", "doca_pcc_dev_user_init"
CONTEXT = "doca_pcc_dev_algo_ctxt_t *"
CLEAN = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
BUILTIN = re.compile(r"__builtin_\w+|memcpy|memmove|memset")
MEMBERS = re.compile("rate|rtt_req|algo_slot|ev_type|port_num|flags|sent_(32bytes|pkts)|word")
"""Members of the API's types: names that stay."""
FLOAT = re.compile(r"\b(float|double)\b")
MARKER = re.compile(r'# (\d+) "(.*)"((?: \d)*)$')
FLAGS = ("-std=gnu11", "-Wno-everything")
CONDITIONS = {"ForStmt": -3, "WhileStmt": 0, "DoStmt": -1}
"""Where the condition of a loop stands among its parts."""

Node = Mapping[str, Any]


class Line(NamedTuple):
    """The origin of a line of the preprocessed text."""

    file: str = ""
    number: int = 0
    user: bool = False


class DeviceFile:
    """One or several sources of a device program, read together."""

    def __init__(self, sources: Sequence[Path], includes: Sequence[Path], folder: Path) -> None:
        self.sources = tuple(sources)
        for source in sources:
            if not source.is_file():
                raise UsageError(f"{source}: no such file; give the C source of a device program")
        self._preprocessed = folder / "device.i"
        places = [HERE, *(source.resolve().parent for source in sources), *includes]
        together = "".join(f'#include "{source}"\n' for source in sources)
        preprocessed = compiler("clang", "-E", *FLAGS, *(f"-I{place}" for place in places), "-x", "c", "-", text=together)
        self.text = re.sub(r"[^\0-\x7f]", "?", preprocessed)  # clang counts bytes
        self._preprocessed.write_text(self.text)
        self._starts, self._lines = self._origins(("<", str(HERE)))
        for root in (ALGO, INIT):
            if root not in self._bodies:
                raise UsageError(f"{sources[0]}: it does not define {root}(), as a device file for DOCA PCC has to")

    def faults(self) -> list[str]:
        """Returns what no algorithm can do, with file and line, in the file's order."""
        by_offset = dict(
            fault for name in self._reached(ALGO) for node in _walk(self._bodies[name]) for fault in self._faults(node)
        )
        by_offset |= dict(self._unknown())
        places = ((self._line(offset), fault) for offset, fault in sorted(by_offset.items()))
        return [f"{line.file.removeprefix('./')}:{line.number}: {fault}" for line, fault in places]

    def as_algorithm(self) -> str:
        """Returns the user's part of the text, changed as the module's docstring says."""
        parts, at = [], 0
        for offset, removed, inserted in sorted(set(self._edits())):
            parts += [self.text[at:offset], inserted]
            at = offset + removed
        lines, before = "".join([*parts, self.text[at:]]).split("\n"), Line()
        names = {name for node in self._users for name in _declared(node) if not MEMBERS.fullmatch(name)}
        kept = []
        for origin, line in zip(self._lines, lines, strict=True):
            if origin.user and line.strip():
                follows = origin == Line(before.file, before.number + 1, True)
                kept += [] if follows else [f'#line {origin.number} "{Path(origin.file).name}"']
                kept.append(re.sub(r"[A-Za-z_]\w*", lambda name: f"own_{name[0]}" if name[0] in names else name[0], line))
                before = origin
        return "\n".join(kept)

    def context_types(self) -> list[tuple[Line, str]]:
        """Returns the types as which the algorithm sees its context, each with the place of the cast."""
        casts = (node for name in self._reached(ALGO) for node in _walk(self._bodies[name]) if node.get("castKind") == "BitCast")
        types = [(self._line(_begin(node)), _type(node)) for node in casts if _type(node["inner"][0]) == CONTEXT]
        return [(line, kind) for line, kind in types if "void" not in kind]

    def _origins(self, ours: tuple[str, ...]) -> tuple[list[int], list[Line]]:
        """Returns where each line of the text begins, and where it comes from. A marker of the preprocessor is nobody's."""
        starts, lines, offset, origin = [], [], 0, Line()
        for text in self.text.split("\n"):
            marker = MARKER.match(text)
            if marker is None:
                origin = Line(origin.file, origin.number + 1, origin.user)
            else:
                user = not marker[2].startswith(ours) and "3" not in marker[3]
                origin = Line(marker[2], int(marker[1]) - 1, user)
            starts.append(offset)
            lines.append(Line() if marker else origin)
            offset += len(text) + 1
        return starts, lines

    def _line(self, offset: int) -> Line:
        return self._lines[bisect_right(self._starts, offset) - 1]

    @cached_property
    def _top(self) -> list[Node]:
        """The declarations of the text, those of headers included."""
        argv = ("clang", "-fsyntax-only", *FLAGS, "-x", "cpp-output", "-Xclang", "-ast-dump=json", str(self._preprocessed))
        nodes = json.loads(compiler(*argv))["inner"]
        return [node for node in nodes if "offset" in node["range"]["begin"] and not node.get("isImplicit")]

    @cached_property
    def _users(self) -> list[Node]:
        return [node for node in self._top if self._line(_begin(node)).user]

    @cached_property
    def _bodies(self) -> dict[str, Node]:
        """The bodies of the file's functions."""
        functions = [node for node in self._users if node["kind"] == "FunctionDecl"]
        return {node["name"]: part for node in functions for part in node.get("inner", ()) if part["kind"] == "CompoundStmt"}

    @cached_property
    def _variables(self) -> dict[str, Node]:
        return {node["id"]: node for node in self._users if node["kind"] == "VarDecl"}

    def _reached(self, root: str) -> set[str]:
        """Returns the functions of the file that a function calls, itself included."""
        reached, ahead = set[str](), [root]
        while ahead:
            name = ahead.pop()
            if name not in reached and name in self._bodies:
                reached.add(name)
                ahead += [called for node in _walk(self._bodies[name]) if (called := _function(node))]
        return reached

    def _unknown(self) -> Iterator[tuple[int, str]]:
        """Yields the calls of functions that neither the file nor the API here has."""
        functions = (node for node in self._top if node["kind"] == "FunctionDecl")
        api = {node["name"] for node in functions if self._line(_begin(node)).file.startswith(str(HERE))}
        for name in self._reached(ALGO) | self._reached(INIT):
            for node in _walk(self._bodies[name]):
                if (called := _function(node)) and called not in api | self._bodies.keys() and not BUILTIN.fullmatch(called):
                    yield _begin(node), f"{called}() is not in the file, and no function that algorithms here may call"

    def _faults(self, node: Node) -> Iterator[tuple[int, str]]:
        if node.get("kind") in CONDITIONS and not _bounded(node):
            yield _begin(node), "a loop without a constant bound; compare with a constant, as in i < 32"
        if FLOAT.search(_type(node)):
            yield _begin(node), f"{_type(node)}: a NIC counts in integers"
        if node.get("castKind") == "IntegralToPointer" and not any(part["kind"] == "CallExpr" for part in _walk(node)):
            yield _begin(node), "a pointer made of a number; an algorithm has its context alone"
        for part in node.get("inner", ())[node.get("kind") == "CallExpr" :]:
            if part.get("castKind") == "FunctionToPointerDecay" or (node.get("opcode") == "&" and _function(part)):
                yield _begin(part), f"{_function(_bare(part))} is used as a pointer; call functions by their names"
        variable = self._variables.get(node.get("referencedDecl", {}).get("id"), node)
        if variable["kind"] == "VarDecl" and (variable is not node or "storageClass" in node) and not _is_const(_type(variable)):
            yield _begin(variable), f"{variable['name']} is memory of its own; keep it in the flow's context"
        if (called := _function(node)) in self._bodies and called in self._called_below(called):
            yield _begin(node), f"{called}() calls itself; an algorithm has no recursion"

    def _called_below(self, name: str) -> set[str]:
        calls = (called for node in _walk(self._bodies[name]) if (called := _function(node)))
        return {below for called in calls for below in self._reached(called)}

    def _edits(self) -> Iterator[tuple[int, int, str]]:
        """Yields what to change in the text: offset, length of what goes, and what comes."""
        for node in self._users:
            if node["kind"] == "FunctionDecl":
                words = ["static "] * (node.get("storageClass") != "static") + ["inline "] * (not node.get("inline"))
                yield _begin(node), 0, "".join(words) + "__attribute__((always_inline)) "
                empty = not any(part["kind"] == "ParmVarDecl" for part in node.get("inner", ()))
                yield self._first(node["loc"]["offset"], "doca_pcc_dev_event_t *pcc_here", empty)
        for node in self._variables.values():
            yield from [(_begin(node), 0, "static ")] * ("storageClass" not in node)
            kind = self.text[_begin(node) : node["loc"]["offset"]]
            yield from ((_begin(node) + word.start(), 8, "") for word in re.finditer("volatile", kind))  # gcc would keep it
        for call in (node for body in self._bodies.values() for node in _walk(body) if node.get("kind") == "CallExpr"):
            if _function(_bare(call["inner"][0])) in self._bodies:
                yield self._first(_begin(call), "pcc_here", len(call["inner"]) == 1)

    def _first(self, offset: int, text: str, empty: bool) -> tuple[int, int, str]:
        """Returns the edit that puts a text before all other parameters or arguments of a function."""
        opening = self.text.index("(", offset) + 1
        return (opening, self.text.index(")", opening) - opening, text) if empty else (opening, 0, f"{text}, ")


def compiler(*argv: str, text: str = "") -> str:
    """Returns the output of a compiler. Its first error becomes the one line of the exception."""
    try:
        process = subprocess.run(argv, input=text, capture_output=True, text=True, errors="replace", env=CLEAN)
    except FileNotFoundError:
        raise MachineError(f"compiling a device file: there is no {argv[0]} here; apt-get install gcc clang") from None
    if process.returncode:
        raise UsageError(first_error(process.stderr).removeprefix("./"))
    return process.stdout


def _walk(node: Node) -> Iterator[Node]:
    """Yields a node and all below it."""
    yield node
    for part in node.get("inner", ()):
        if part:
            yield from _walk({"kind": "", **part})


def _declared(node: Node) -> Iterator[str]:
    """Yields the names that a declaration outside of functions makes."""
    enumerators = node.get("inner", ()) if node["kind"] == "EnumDecl" else ()
    return (part["name"] for part in (node, *enumerators) if "name" in part)


def _function(node: Node) -> str:
    """Returns the name of the function to which a node refers, or ""."""
    referenced = node.get("referencedDecl", {})
    return str(referenced["name"]) if referenced.get("kind") == "FunctionDecl" else ""


def _bare(node: Node) -> Node:
    """Returns an expression without implicit casts and parentheses."""
    while node.get("kind") in ("ImplicitCastExpr", "ParenExpr"):
        node = node["inner"][0]
    return node


def _bounded(loop: Node) -> bool:
    """Returns True if a loop compares with a constant but 0, or is a `for` that starts at one."""
    parts, condition = loop["inner"], loop["inner"][CONDITIONS[loop["kind"]]]
    compared = [side for node in _walk(condition) if node.get("opcode") in ("<", "<=", ">", ">=", "!=") for side in node["inner"]]
    if any(_leaves(side) not in ([], ["0"]) for side in compared):
        return True
    return loop["kind"] == "ForStmt" and bool(condition) and any(_leaves(node) for node in _walk(parts[0]))


def _leaves(node: Node) -> list[str]:
    """Returns the numbers of which a constant is made; none of any other expression."""
    leaves = [part for part in _walk(node) if not part.get("inner")]
    kinds = [part.get("referencedDecl", part)["kind"] for part in leaves]
    constant = all(kind in ("IntegerLiteral", "EnumConstantDecl", "UnaryExprOrTypeTraitExpr") for kind in kinds)
    return [str(part.get("value", "1")) for part in leaves] if constant else []


def _is_const(kind: str) -> bool:
    element = kind.split("[")[0].strip()
    return element.endswith("const") if "*" in element else "const" in element.split()


def _type(node: Node) -> str:
    return str(node.get("type", {}).get("qualType", ""))


def _begin(node: Node) -> int:
    return int(node["range"]["begin"]["offset"])
