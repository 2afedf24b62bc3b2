# SPDX-License-Identifier: Apache-2.0
"""`dcgym verify DIR`: runs a result's spec again and compares digests; on a difference names the first diverging record."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

from dc_gym import results, runner
from dc_gym.digest import first_difference
from dc_gym.progress import Progress
from dc_gym.spec import from_dict


def verify(folder: Path, progress: Progress) -> tuple[bool, str]:
    """Whether the run repeats, and that in words."""
    result = results.load_result(folder, check_digest=True)
    spec = from_dict(result.manifest["spec"], folder)
    with tempfile.TemporaryDirectory(prefix="dcgym-verify-", dir=folder.resolve().parent) as scratch:
        again = runner.run(spec, Path(scratch) / "again", progress, plot=False)
        same = again.manifest["fingerprint"] == result.manifest["fingerprint"]
        note = "" if same else f" (fingerprint {result.manifest['fingerprint']} then, {again.manifest['fingerprint']} now)"
        if again.digest == result.digest:
            return True, f"{folder}: repeats, digest {result.digest}{note}"
        difference = first_difference(result.tables, again.tables)
    return False, f"{folder}: does not repeat{note}: first difference, then and now: {difference}"


def main(args: Namespace, progress: Progress) -> int:
    good, words = verify(Path(args.dir), progress)
    print(words)
    return 0 if good else 1
