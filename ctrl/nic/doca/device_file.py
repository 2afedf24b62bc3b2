# SPDX-License-Identifier: Apache-2.0
"""A device file for DOCA PCC, as clang understands it: what of it decides on an event, and what of that no NIC here can do.

The file is preprocessed and parsed. Kept are all types, and the functions and constants that `doca_pcc_dev_user_algo()` reaches.
They become `static inline`, get `pcc_here` as their first parameter (pcc.h) and names that collide with none of dc-gym's.
"""

from __future__ import annotations

import json
import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.ctrl.nic.build import first_error

HERE = Path(__file__).resolve().parent
ALGO, INIT = "doca_pcc_dev_user_algo", "doca_pcc_dev_user_init"
CONTEXT, CONTEXT_BYTES = "doca_pcc_dev_algo_ctxt_t *", 48
BUILTIN = {"memcpy", "memmove", "memset"}
MEMBERS = {
    "rate",
    "rtt_req",
    "algo_slot",
    "ev_type",
    "ev_subtype",
    "port_num",
    "flags",
    "sent_32bytes",
    "sent_pkts",
    "num_coalesced",
    "word",
}
"""Members of the API's types: names that stay."""
INLINE = "__attribute__((always_inline)) "
LOOPS = ("ForStmt", "WhileStmt", "DoStmt")
COMPARISONS = ("<", "<=", ">", ">=", "!=")
MARKER = re.compile(r'# (\d+) "(.*)"((?: \d)*)$')
FLAGS = ("-std=gnu11", "-Wno-everything")

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """The origin of a line of the preprocessed text."""

    file: str
    number: int
    user: bool


class DeviceFile:
    """One or several sources of a device program, read together."""

    def __init__(self, sources: Sequence[Path], includes: Sequence[Path], folder: Path) -> None:
        self.sources, self._folder = tuple(sources), folder
        for source in sources:
            if not source.is_file():
                raise UsageError(f"{source}: no such file; give the C source of a device program")
        together = folder / "device.c"
        together.write_text("".join(f'#include "{source.resolve()}"\n' for source in sources))
        places = [HERE, *(source.resolve().parent for source in sources), *includes]
        self.text = self._run("clang", "-E", *FLAGS, *(f"-I{place}" for place in places), str(together))
        self.preprocessed = folder / "device.i"
        self.preprocessed.write_text(self.text)
        self._starts, self._lines = self._origins()
        for root in (ALGO, INIT):
            if self._body(root) is None:
                raise UsageError(f"{sources[0]}: it does not define {root}(), as a device file for DOCA PCC has to")

    def faults(self) -> list[str]:
        """Returns what of the file no algorithm here can do, with file and line, in the file's order."""
        found = dict(self._faults_of(self._reached(ALGO), of_algorithm=True))
        found |= dict(self._faults_of(self._reached(INIT) - self._reached(ALGO), of_algorithm=False))
        return [f"{self.place(offset)}: {fault}" for offset, fault in sorted(found.items())]

    def kept(self) -> str:
        """Returns the part of the file that decides on events, changed as the module's docstring says."""
        edits = sorted([*self._edits(), (len(self.text), 0, "")])
        parts, at = [], 0
        for offset, removed, inserted in edits:
            parts += [
                self.text[at : max(at, offset)],
                inserted,
                re.sub(r"[^\n]", " ", self.text[max(at, offset) : offset + removed]),
            ]
            at = max(at, offset + removed)
        names = self._own_names()
        lines = "".join(parts).split("\n")
        own = re.compile(r"[A-Za-z_]\w*")
        return "".join(
            f"{mark}{own.sub(lambda name: f'own_{name[0]}' if name[0] in names else name[0], line.rstrip())}\n"
            for mark, line in self._marked(lines)
        )

    def context_types(self) -> list[tuple[Line, str]]:
        """Returns the types as which the algorithm sees its context, each with the place of the cast."""
        casts = [
            (self._line(_begin(node)), node["type"]["qualType"])
            for name in self._reached(ALGO)
            for node in _walk(self._body(name))
            if node.get("castKind") == "BitCast" and _type(node["inner"][0]) == CONTEXT
        ]
        return [(line, kind) for line, kind in casts if "void" not in kind]

    def place(self, offset: int) -> str:
        """Returns file:line of an offset in the preprocessed text."""
        line = self._line(offset)
        return f"{self._given(line.file)}:{line.number}"

    def _given(self, file: str) -> str:
        """Returns the path of a file as the user gave it."""
        return next((str(source) for source in self.sources if str(source.resolve()) == file), file)

    def _run(self, *argv: str) -> str:
        process = subprocess.run(argv, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
        if process.returncode:
            message = first_error(process.stderr)
            for source in self.sources:
                message = message.replace(str(source.resolve()), str(source))
            raise UsageError(message)
        return process.stdout

    @cached_property
    def _top(self) -> list[Node]:
        """The declarations of the text, those of headers included."""
        argv = ("clang", "-fsyntax-only", *FLAGS, "-x", "cpp-output", "-Xclang", "-ast-dump=json", str(self.preprocessed))
        return [node for node in json.loads(self._run(*argv))["inner"] if "offset" in node["range"]["begin"]]

    def _origins(self) -> tuple[list[int], list[Line]]:
        starts, lines, offset, origin = [], [], 0, Line("", 0, False)
        for text in self.text.split("\n"):
            if marker := MARKER.match(text):
                file, flags = marker[2], marker[3].split()
                user = "3" not in flags and not file.startswith(("<", str(HERE), str(self._folder)))
                origin = Line(file, int(marker[1]) - 1, user)
                lines.append(Line("", 0, False))
            else:
                origin = Line(origin.file, origin.number + 1, origin.user)
                lines.append(origin)
            starts.append(offset)
            offset += len(text) + 1
        return starts, lines

    def _line(self, offset: int) -> Line:
        return self._lines[bisect_right(self._starts, offset) - 1]

    def _marked(self, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yields the user's lines that are not empty, each with what has to stand before it so that errors name its place."""
        before = Line("", 0, False)
        for origin, text in zip(self._lines, lines, strict=True):
            if not origin.user or not text.strip():
                continue
            follows = origin == Line(before.file, before.number + 1, True)
            yield "" if follows else f'#line {origin.number} "{Path(origin.file).name}"\n', text
            before = origin

    @cached_property
    def _users(self) -> list[Node]:
        return [node for node in self._top if self._line(_begin(node)).user and not node.get("isImplicit")]

    @cached_property
    def _functions(self) -> dict[str, list[Node]]:
        functions: dict[str, list[Node]] = {}
        for node in self._users:
            if node["kind"] == "FunctionDecl":
                functions.setdefault(node["name"], []).append(node)
        return functions

    @cached_property
    def _variables(self) -> dict[str, Node]:
        return {node["id"]: node for node in self._users if node["kind"] == "VarDecl"}

    @cached_property
    def _api(self) -> frozenset[str]:
        return frozenset(
            node["name"]
            for node in self._top
            if node["kind"] == "FunctionDecl" and self._line(_begin(node)).file.startswith(str(HERE))
        )

    def _body(self, name: str) -> Node | None:
        bodies = (child for node in self._functions.get(name, ()) for child in node.get("inner", ()))
        return next((child for child in bodies if child["kind"] == "CompoundStmt"), None)

    def _reached(self, root: str) -> set[str]:
        """Returns the functions of the file that a function calls, itself included."""
        reached, ahead = set[str](), [root]
        while ahead:
            name = ahead.pop()
            if name not in reached and self._body(name) is not None:
                reached.add(name)
                ahead += [node["referencedDecl"]["name"] for node in _references(self._body(name), "FunctionDecl")]
        return reached

    def _used(self) -> set[str]:
        """Returns the ids of the file's variables that its algorithm uses."""
        bodies = [self._body(name) for name in self._reached(ALGO)]
        return {node["referencedDecl"]["id"] for body in bodies for node in _references(body, "VarDecl")} & set(self._variables)

    def _faults_of(self, names: set[str], *, of_algorithm: bool) -> Iterator[tuple[int, str]]:
        for name in names:
            callees = {id(callee) for callee in map(_callee, _walk(self._body(name))) if callee is not None}
            for node in _references(self._body(name), "FunctionDecl"):
                called = node["referencedDecl"]["name"]
                if self._body(called) is None and called not in self._api | BUILTIN and not called.startswith("__builtin_"):
                    yield _begin(node), f"{called}() is not in the file, and no function that algorithms here may call"
                elif of_algorithm and name in self._reached(called):
                    yield _begin(node), f"{called}() calls itself; an algorithm has no recursion"
                elif of_algorithm and id(node) not in callees and not called.startswith("__builtin_"):
                    yield _begin(node), f"{called} is used as a pointer; call functions by their names"
            if of_algorithm:
                yield from (found for node in _walk(self._body(name)) if (found := self._fault(node)) is not None)

    def _fault(self, node: Node) -> tuple[int, str] | None:
        kind = node.get("kind")
        if kind in LOOPS and not _bounded(node):
            return _begin(node), "a loop without a constant bound; compare with a constant, as in i < 32"
        if re.search(r"\b(float|double)\b", _type(node)):
            return _begin(node), f"{_type(node)}: a NIC counts in integers"
        if node.get("castKind") == "IntegralToPointer" and not any(each["kind"] == "CallExpr" for each in _walk(node)):
            return _begin(node), "a pointer made of a number; an algorithm has its context alone"
        if kind == "GCCAsmStmt":
            return _begin(node), "assembly; an algorithm is C"
        if kind == "CallExpr" and _callee(node) is None:
            return _begin(node), "a call through a pointer; call functions by their names"
        declared = self._variables.get(node.get("referencedDecl", {}).get("id", ""), node)
        if (
            declared["kind"] == "VarDecl"
            and (declared is not node or node.get("storageClass") == "static")
            and not _constant(declared)
        ):
            return _begin(declared), f"{declared['name']} is memory of its own; keep it in the flow's context"
        return None

    def _edits(self) -> Iterator[tuple[int, int, str]]:
        """Yields what to change in the text: offset, length of what goes, and what comes."""
        reached, used = self._reached(ALGO), self._used()
        for name, nodes in self._functions.items():
            for node in nodes:
                if name in reached:
                    yield from self._inlined(node)
                else:
                    yield _begin(node), self._end(node) - _begin(node), ""
        for start, nodes in self._declarations().items():
            if not used & {node["id"] for node in nodes}:
                yield from self._without(start, nodes[-1])
            elif "storageClass" not in nodes[0]:
                yield start, 0, "static "
        for name in reached:
            for node in _walk(self._body(name)):
                callee = _callee(node)
                if callee is not None and callee["referencedDecl"]["name"] in reached:
                    opening = self.text.index("(", _begin(callee) + len(callee["referencedDecl"]["name"]))
                    yield opening + 1, 0, "pcc_here" + ", " * (len(node["inner"]) > 1)

    def _inlined(self, node: Node) -> Iterator[tuple[int, int, str]]:
        words = [] if node.get("storageClass") == "static" else ["static "]
        words += [] if node.get("inline") else ["inline "]
        yield _begin(node), 0, "".join(words) + INLINE
        opening = self.text.index("(", node["loc"]["offset"]) + 1
        if any(child["kind"] == "ParmVarDecl" for child in node.get("inner", ())):
            yield opening, 0, "doca_pcc_dev_event_t *pcc_here, "
        else:
            yield opening, self.text.index(")", opening) - opening, "doca_pcc_dev_event_t *pcc_here"

    def _declarations(self) -> dict[int, list[Node]]:
        """Returns the variables that are declared together, by the offset where the declaration begins."""
        together: dict[int, list[Node]] = {}
        for node in self._variables.values():
            together.setdefault(_begin(node), []).append(node)
        return together

    def _without(self, start: int, last: Node) -> Iterator[tuple[int, int, str]]:
        """Removes variables; a type that is declared with them stays."""
        types = [node for node in self._users if node["kind"] in ("EnumDecl", "RecordDecl") and _begin(node) == start]
        start = _after(types[-1]) if types else start
        yield start, self._end(last) - start - bool(types), ""

    def _end(self, node: Node) -> int:
        """Returns the offset behind a declaration, its semicolon included."""
        if any(child["kind"] == "CompoundStmt" for child in node.get("inner", ())):
            return _after(node)
        return self.text.index(";", _after(node)) + 1

    def _own_names(self) -> set[str]:
        """Returns the names that the file declares outside of its functions."""
        names = {node["name"] for node in self._users if "name" in node}
        enums = (node for node in self._users if node["kind"] == "EnumDecl")
        return (names | {child["name"] for node in enums for child in node.get("inner", ()) if "name" in child}) - MEMBERS


def _walk(node: Node | None) -> Iterator[Node]:
    """Yields a node and all below it that the source has."""
    if node:
        yield node
        for child in node.get("inner", ()):
            yield from _walk(child)


def _references(node: Node | None, kind: str) -> Iterator[Node]:
    return (each for each in _walk(node) if each.get("referencedDecl", {}).get("kind") == kind and each["kind"] == "DeclRefExpr")


def _callee(node: Node) -> Node | None:
    """Returns the reference to the function that a call names; None if the node is no such call."""
    if node.get("kind") != "CallExpr":
        return None
    callee = node["inner"][0]
    while callee["kind"] in ("ImplicitCastExpr", "ParenExpr"):
        callee = callee["inner"][0]
    return callee if callee.get("referencedDecl", {}).get("kind") == "FunctionDecl" else None


def _bounded(loop: Node) -> bool:
    """Returns True if a loop compares with a constant, or is a `for` that starts at one."""
    parts = loop["inner"]
    condition = {"ForStmt": -3, "WhileStmt": 0, "DoStmt": -1}[loop["kind"]]
    for node in _walk(parts[condition]):
        if node.get("opcode") in COMPARISONS and any(_is_constant(side) for side in node["inner"]):
            return True
    starts = any(_is_constant(node, zero=True) for node in _walk(parts[0])) if loop["kind"] == "ForStmt" else False
    return starts and bool(parts[condition])


def _is_constant(node: Node, *, zero: bool = False) -> bool:
    """Returns True for a number or an enumerator, maybe cast or computed from them."""
    leaves = [each for each in _walk(node) if not each.get("inner")]
    values = [each.get("value", "1") for each in leaves]
    kinds = all(
        each["kind"] in ("IntegerLiteral", "UnaryExprOrTypeTraitExpr")
        or each.get("referencedDecl", {}).get("kind") == "EnumConstantDecl"
        for each in leaves
    )
    return kinds and bool(leaves) and (zero or values != ["0"])


def _constant(variable: Node) -> bool:
    kind = _type(variable).split("[")[0].strip()
    return bool(re.search(r"\bconst$|\*const$", kind)) if "*" in kind else bool(re.search(r"\bconst\b", kind))


def _type(node: Node) -> str:
    return str(node.get("type", {}).get("qualType", ""))


def _begin(node: Node) -> int:
    return int(node["range"]["begin"]["offset"])


def _after(node: Node) -> int:
    end = node["range"]["end"]
    return int(end["offset"]) + int(end["tokLen"])
