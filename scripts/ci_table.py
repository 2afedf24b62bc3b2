# SPDX-License-Identifier: Apache-2.0
"""Prints what a CI run did: python scripts/ci_table.py FOLDER

FOLDER holds parts.tsv (name, verdict and seconds of each part) and the JUnit reports of those that ran pytest.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

LEFT_OUT = "long, rl, the VM: `make test-all`"


def main() -> None:
    folder = Path(sys.argv[1])
    console = Console(width=130, soft_wrap=False)
    parts = Table(title="parts", title_justify="left")
    for name in ("part", "verdict", "minutes"):
        parts.add_column(name, justify="right" if name == "minutes" else "left")
    for line in (folder / "parts.tsv").read_text().splitlines():
        name, verdict, seconds = line.split("\t")
        parts.add_row(name, verdict, f"{int(seconds) / 60:.1f}")
    console.print(parts)
    reports = sorted(folder.glob("*.xml"))
    ran = {case for report in reports for case in _ran(report)}
    skips = Table(title="skipped in every part, or left out", title_justify="left")
    skips.add_column("tests", justify="right")
    skips.add_column("why")
    reasons = Counter(why for case, why in _skips(reports).items() if case not in ran)
    for why, count in reasons.most_common():
        skips.add_row(str(count), why)
    skips.add_row("", f"left out: {LEFT_OUT}")
    console.print(skips)
    for report in reports:
        suite = ElementTree.parse(report).getroot().find("testsuite")
        assert suite is not None, f"{report.name} has no testsuite"
        counts = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
        console.print(f"{report.stem}: {', '.join(f'{count} {name}' for name, count in counts.items())} in {suite.get('time')} s")


def _ran(report: Path) -> Iterator[str]:
    """Yields the names of the tests that were not skipped."""
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            yield _name(case)


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}.{case.get('name')}"


def _skips(reports: list[Path]) -> dict[str, str]:
    """Returns for each skipped test the reason."""
    reasons = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            reason = case.find("skipped")
            if reason is not None:
                reasons[_name(case)] = str(reason.get("message"))
    return reasons


if __name__ == "__main__":
    main()
