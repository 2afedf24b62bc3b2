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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from dc_gym.base import usercode
from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.study import findings, headlines
from dc_gym.study.findings import Cause
from dc_gym.study.headlines import Headline
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

    def chosen(self, requested: Sequence[str]) -> list[Study]:
        """Returns the studies of names, groups, `all`, or files outside; each once, in the order of the names.

        Raises:
            UsageError: a name is unknown, or a file has no study.
        """
        names = list(self.names())
        studies: dict[str, Study] = {}
        for request in requested:
            if request.partition(":")[0].endswith(".py"):
                study = of_file(request)
                studies[study.name] = study
                continue
            matches = [name for name in names if request == ALL or name == request or name.partition("/")[0] == request]
            matches = matches or [name for name in names if _same(name, request)]
            if not matches:
                raise UsageError(unknown("study", request, [*self.groups(), *names]))
            studies |= {name: self.load(name) for name in matches if name not in studies}
        return list(studies.values())

    def load(self, name: str) -> Study:
        """Imports a study's file and returns the study with its name."""
        path = self.names()[name]
        module = f"{self.package}.{path.parent.name}.{path.stem}"
        return replace(_study(importlib.import_module(module), STUDY, str(path)), name=name, module=module)

    def headlines(self, groups: Iterable[str]) -> list[Headline]:
        """Returns the headline statements of groups, from the headlines.toml in the folder of each."""
        rows: list[Headline] = []
        for group in groups:
            names = [name for name in self.names() if name.startswith(f"{group}/")]
            files = {self.names()[name].with_name(headlines.FILE) for name in names}
            rows += [row for file in files for row in headlines.read(file, names, self.load)]
        return rows

    def causes(self, study: Study) -> dict[str, Cause]:
        """Returns the causes of a study's verdicts, from the findings.toml beside it."""
        path = self.names().get(study.name) or Path(str(sys.modules[study.module].__file__))
        file, short_name = path.with_name(findings.FILE), study.name.partition("/")[2]
        names = [name.partition("/")[2] for name, other in self.names().items() if other.parent == path.parent]
        causes = findings.read(file, names or [short_name]).get(short_name, {})
        findings.require_claims(file, study.name, causes, study.claims)
        return causes


@functools.cache  # it reads every file, and each name is looked up in it
def _studies_in(folder: Path) -> Mapping[str, Path]:
    files = sorted(folder.glob("*/*.py"), key=lambda path: (path.parent.name, _order(path.stem)))
    return {f"{_word(path.parent.name)}/{_word(path.stem)}": path for path in files if f"\n{STUDY} = " in path.read_text()}


def of_file(request: str) -> Study:
    """Returns the study of FILE.py, or of FILE.py:NAME. Its group is `own`."""
    file, _, name = request.partition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"study {request}: no such file; give FILE.py, or a name of `dcgym study list`")
    module = usercode.load(path).module
    return replace(_study(module, name or STUDY, request), name=f"own/{_word(path.stem)}", module=module.__name__)


def _study(module: ModuleType, name: str, request: str) -> Study:
    study = getattr(module, name, None)
    if not isinstance(study, Study):
        raise UsageError(f"study {request}: it has no {name} = Study(...); see docs/studies.md")
    repeated = {variant.name for variant in study.variants if sum(one.name == variant.name for one in study.variants) > 1}
    if repeated:
        raise UsageError(f"study {request}: two variants are called {sorted(repeated)[0]!r}; each needs a name of its own")
    names, measures = {variant.name for variant in study.variants}, {measure.name for measure in study.measures}
    named = [(f"claim {claim.text!r}", condition) for claim in study.claims for condition in claim.criteria]
    for where, criterion in [*named, *(("identities", condition) for condition in study.identities)]:
        if names and not study.derives and (strange := [one for one in criterion.about if one not in names]):
            raise UsageError(f"study {request}: {where}: {unknown('variant', strange[0], sorted(names))}")
        if strange := [one for one in criterion.measures if one not in measures]:
            raise UsageError(f"study {request}: {where}: {unknown('measure', strange[0], sorted(measures))}")
    return study


def _word(name: str) -> str:
    """Returns the name of a folder or a file as a user writes it: figure_6_1 is figure-6.1."""
    parts = name.split("_")
    text = parts[0]
    for before, part in itertools.pairwise(parts):
        text += ("." if before.isdecimal() and part.isdecimal() else "-") + part
    return text


def _order(stem: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in stem.split("_")]


def _same(name: str, request: str) -> bool:
    """Returns whether a name such as iroko/figure-5.2 is asked for in a former form: iroko/5.2."""
    group, _, number = request.partition("/")
    return name in (f"{group}/figure-{number}", f"{group}/table-{number}")
