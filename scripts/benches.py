# SPDX-License-Identifier: Apache-2.0
"""Runs every bench, one after the other, and prints a table of how they ended: make bench

    python scripts/benches.py              all of them (hours); what a bench prints comes as it runs
    python scripts/benches.py links enforce    these alone

A bench that fails does not stop the others. The measurements of each are in results/bench/NAME.json. Ends with 1 if one failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dc_gym.base.interpreter import dcgym
from dc_gym.base.spelling import unknown
from dc_gym.benchmarks.bench import BENCHES, COMPARE

OUT = Path("results/bench")


def run(name: str) -> tuple[int, str]:
    """Runs a bench. Returns its exit status, and in words how its checks ended."""
    report = OUT / f"{name}.json"
    status = subprocess.run(dcgym("bench", name, *([] if name == COMPARE else ["--json", str(report)]))).returncode
    if name == COMPARE or not report.is_file():
        return status, "-"
    checks = json.loads(report.read_text())["checks"]
    ends = Counter("skipped" if check["skipped"] else "passed" if check["ok"] else "failed" for check in checks)
    return status, ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs every bench, one after the other.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone (default: all)")
    names = parser.parse_args().names or [*BENCHES]
    if odd := [name for name in names if name not in BENCHES]:
        parser.error(unknown("bench", odd[0], BENCHES))
    OUT.mkdir(parents=True, exist_ok=True)
    table = Table(title="benches", title_justify="left")
    for column in ("bench", "verdict", "checks", "minutes"):
        table.add_column(column, justify="right" if column == "minutes" else "left")
    failed = False
    for name in names:
        (OUT / f"{name}.json").unlink(missing_ok=True)
        began_s = time.monotonic()
        status, ends = run(name)
        failed |= status != 0
        table.add_row(name, "FAILED" if status else "passed", ends, f"{(time.monotonic() - began_s) / 60:.1f}")
    Console(width=120).print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
