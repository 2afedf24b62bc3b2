# SPDX-License-Identifier: Apache-2.0
"""Headers of dc-gym as one text, so that a file made of them needs no other."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.ctrl.nic import build

INCLUDE = re.compile(r'#include "(.+)"')
TYPES = "typedef uint16_t __be16;\ntypedef uint32_t __u32;\ntypedef uint64_t __be64, __u64;"
"""What lab_int.h has from <linux/types.h>, which only Linux has."""
OF_BPF = "bpf.h"


def inlined(header: Path, kept: Collection[str] = ()) -> str:
    """Returns a header with those that it includes in their places, each once.

    Args:
        header: The header.
        kept: Names of headers that stay to be included.
    """
    return _inlined(header.resolve(), kept, set())


def _inlined(header: Path, kept: Collection[str], seen: set[Path]) -> str:
    seen.add(header)
    lines = []
    for line in header.read_text().splitlines():
        match = INCLUDE.match(line)
        if line == "#include <linux/types.h>":
            lines.append(TYPES)
        elif match is None:
            lines.append(line)
        elif (name := Path(match[1]).name) in kept:
            lines.append(f'#include "{name}"')
        elif name != OF_BPF:
            places = ((folder / match[1]).resolve() for folder in (header.parent, build.SOURCES, build.DRIVERS))
            found = next((place for place in places if place.is_file()), None)
            if found is None:
                raise UsageError(f"{header}: it includes {match[1]}, which is not beside it")
            lines += [] if found in seen else [_inlined(found, kept, seen)]
    return "\n".join(lines)
