# SPDX-License-Identifier: Apache-2.0
"""Flow files of HPCC's simulator (SIGCOMM 2019), and of ConWeave, SimAI and astra-sim's ns-3, which follow it.

The first line has the number of flows, and each other line a flow: source, destination, priority group, destination port, bytes,
and start in seconds. ConWeave's have no port.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import islice
from pathlib import Path

from dc_gym.traffic.files import fault, text_of
from dc_gym.traffic.files.model import FileFlow, FileFlows, FlowReader

COLUMNS = {
    6: "source, destination, priority, port, bytes and start in s",
    5: "source, destination, priority, bytes and start in s",
}
FIRST_FLOW = re.compile(rb"\s*[0-9]{1,9}[ \t]*(\r?\n\s*([-+.0-9eE]+[ \t]+){4,5}[-+.0-9eE]+[ \t]*(\r?\n.*)?|\s*)", re.DOTALL)
SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,18})?(e-[0-9])?")
MOST_DIGITS = 18


def recognizes(head: bytes) -> bool:
    """Returns whether the first line is a number alone, and the next one has five or six numbers."""
    return bool(head.strip()) and FIRST_FLOW.fullmatch(head) is not None


def read(path: Path) -> FileFlows:
    """Returns the flows of a file."""
    lines = ((number, words) for number, line in enumerate(text_of(path).split("\n"), 1) if (words := line.split()))
    _, (count_text,) = next(lines)
    count, width = int(count_text), 0
    flows = []
    for number, words in islice(lines, count):
        width = width or len(words)
        flows.append(_flow(path, number, words, width))
    if len(flows) < count:
        raise fault(path, 1, f"it announces {count} flows, and {len(flows)} follow; correct the number")
    left = sum(1 for _ in lines)
    not_used = ["priority groups, and ports of destinations" if width == 6 else "priority groups"]
    return FileFlows(flows, (*not_used, *([f"{left} lines after the first {count} flows"] if left else [])))


def _flow(path: Path, line: int, words: list[str], width: int) -> FileFlow:
    if len(words) != width or width not in COLUMNS:
        raise fault(path, line, f"it has {len(words)} words; write {COLUMNS.get(width, COLUMNS[6])}")
    source, destination, size, start = words[0], words[1], words[-2], words[-1]
    if not size.isdecimal() or len(size) > MOST_DIGITS or not int(size):
        raise fault(path, line, f"size {size!r} is not a whole number of bytes above 0; give one")
    if SECONDS.fullmatch(start) is None:
        raise fault(path, line, f"start {start!r} is not a number of seconds; give one")
    return FileFlow(source, destination, round(Decimal(start) * 10**9), int(size), line)


READER = FlowReader("hpcc", "HPCC, ConWeave, astra-sim and SimAI (ns-3)", recognizes, read)
