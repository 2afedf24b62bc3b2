# SPDX-License-Identifier: Apache-2.0
"""Finds studies: each file with a STUDY in FOLDER/GROUP/ is one, named by its group and its file. Outside, a path names a file.

`dcgym study run acc/figure-9`, `... acc`, `... mine/loss.py`, `... mine/loss.py:NAME`
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from dc_gym.base import usercode
from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.study import findings
from dc_gym.study.findings import Cause
from dc_gym.study.model import Study

STUDY = "STUDY"
ALL = "all"


@dataclass(frozen=True, slots=True)
class Library:
    """The studies below the folder of a package."""

    package: str
    folder: Path

    def names(self) -> Mapping[str, Path]:
        """Returns all studies' files by name, such as acc/figure-9, in the order of their names. It imports none."""
        return _studies_in(self.folder)

    def groups(self) -> list[str]:
        return list(dict.fromkeys(name.partition("/")[0] for name in self.names()))

    def title(self, group: str) -> str:
        """Returns the first line of the docstring of a group's folder."""
        file = next(path for name, path in self.names().items() if name.startswith(f"{group}/"))
        text = ast.get_docstring(ast.parse(file.with_name("__init__.py").read_text()))
        return (text or group).splitlines()[0]

    def chosen(self, asked: Sequence[str]) -> list[Study]:
        """Returns the studies of names, groups, `all`, or files outside; each once, in the order of the names.

        Raises:
            UsageError: a name is unknown, or a file has no study.
        """
        names = list(self.names())
        found: dict[str, Study] = {}
        for each in asked:
            if each.partition(":")[0].endswith(".py"):
                study = of_file(each)
                found[study.name] = study
                continue
            mine = [name for name in names if each == ALL or name == each or name.partition("/")[0] == each]
            mine = mine or [name for name in names if _same(name, each)]
            if not mine:
                raise UsageError(unknown("study", each, [*self.groups(), *names]))
            found |= {name: self.load(name) for name in mine if name not in found}
        return list(found.values())

    def load(self, name: str) -> Study:
        """Imports a study's file and returns the study with its name."""
        path = self.names()[name]
        module = f"{self.package}.{path.parent.name}.{path.stem}"
        return replace(_study(importlib.import_module(module), STUDY, str(path)), name=name, module=module)

    def causes(self, study: Study) -> dict[str, Cause]:
        """Returns the causes of a study's verdicts, from the findings.toml beside it."""
        path = self.names().get(study.name) or Path(str(sys.modules[study.module].__file__))
        file, own = path.with_name(findings.FILE), study.name.partition("/")[2]
        names = [name.partition("/")[2] for name, each in self.names().items() if each.parent == path.parent]
        causes = findings.read(file, names or [own]).get(own, {})
        findings.require_claims(file, study.name, causes, study.claims)
        return causes


@functools.cache  # it reads every file, and each name is looked up in it
def _studies_in(folder: Path) -> Mapping[str, Path]:
    files = sorted(folder.glob("*/*.py"), key=lambda path: (path.parent.name, _order(path.stem)))
    return {f"{_word(path.parent.name)}/{_word(path.stem)}": path for path in files if f"\n{STUDY} = " in path.read_text()}


def of_file(asked: str) -> Study:
    """Returns the study of FILE.py, or of FILE.py:NAME. Its group is `own`."""
    place, _, name = asked.partition(":")
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"study {asked}: no such file; give FILE.py, or a name of `dcgym study list`")
    made = usercode.load(path).module
    return replace(_study(made, name or STUDY, asked), name=f"own/{_word(path.stem)}", module=made.__name__)


def _study(module: ModuleType, name: str, what: str) -> Study:
    found = getattr(module, name, None)
    if not isinstance(found, Study):
        raise UsageError(f"study {what}: it has no {name} = Study(...); see docs/studies.md")
    repeated = {each.name for each in found.variants if sum(one.name == each.name for one in found.variants) > 1}
    if repeated:
        raise UsageError(f"study {what}: two variants are called {sorted(repeated)[0]!r}; each needs a name of its own")
    names, measures = {each.name for each in found.variants}, {each.name for each in found.measures}
    named = [(f"claim {claim.text!r}", each) for claim in found.claims for each in claim.criteria]
    for where, criterion in [*named, *(("identities", each) for each in found.identities)]:
        if names and not found.derives and (strange := [one for one in criterion.about if one not in names]):
            raise UsageError(f"study {what}: {where}: {unknown('variant', strange[0], sorted(names))}")
        if strange := [one for one in criterion.measures if one not in measures]:
            raise UsageError(f"study {what}: {where}: {unknown('measure', strange[0], sorted(measures))}")
    return found


def _word(name: str) -> str:
    """Returns the name of a folder or a file as a user writes it: figure_6_1 is figure-6.1."""
    parts = name.split("_")
    text = parts[0]
    for before, each in itertools.pairwise(parts):
        text += ("." if before.isdecimal() and each.isdecimal() else "-") + each
    return text


def _order(stem: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in stem.split("_")]


def _same(name: str, asked: str) -> bool:
    """Returns whether a name such as iroko/figure-5.2 is asked for in a former form: iroko/5.2."""
    group, _, number = asked.partition("/")
    return name in (f"{group}/figure-{number}", f"{group}/table-{number}")
