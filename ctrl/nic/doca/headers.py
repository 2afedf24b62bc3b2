# SPDX-License-Identifier: Apache-2.0
"""Headers of dc-gym as one text, so that a file made of them needs no other."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.ctrl.nic import build

INCLUDE = re.compile(r'#include "(?:.*/)?(.+)"')
TYPES = "typedef uint16_t __be16;\ntypedef uint32_t __u32;\ntypedef uint64_t __be64, __u64;"
"""What lab_int.h has from <linux/types.h>, which only Linux has."""


def inlined(header: Path, kept: Collection[str] = ()) -> str:
    """Returns a header with those that it includes in their places, each once; those of the names in `kept` it still includes."""
    seen = {"bpf.h"}

    def text_of(path: Path) -> str:
        seen.add(path.name)
        return "\n".join(line_of(path, line) for line in path.read_text().splitlines())

    def line_of(path: Path, line: str) -> str:
        match = INCLUDE.match(line)
        if match is None:
            return TYPES if line == "#include <linux/types.h>" else line
        if match[1] in kept:
            return f'#include "{match[1]}"'
        if match[1] in seen:
            return ""
        folders = (path.parent, build.SOURCES, build.DRIVERS, *build.SOURCES.glob("algorithms/*"))
        included = next((folder / match[1] for folder in folders if (folder / match[1]).is_file()), None)
        if included is None:
            raise UsageError(f"{path}: it includes {match[1]}, which is not beside it")
        return text_of(included)

    return text_of(header.resolve())
