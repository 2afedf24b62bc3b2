# SPDX-License-Identifier: Apache-2.0
"""`dcgym clean`: unfinished result folders, and with --cache what was downloaded and built.

A run cleans up after itself, killed or not; this is for what an older version or a full disk may have left.
"""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

from dc_gym.kernel.cache import cache_dir
from dc_gym.results import PARTIAL

CACHE_PARTS = ("kernel", "ovs", "apt", "ideal")


def main(args: Namespace) -> int:
    """`args.folders`: where to look for unfinished results; `args.cache`: remove kernels and Open vSwitch too."""
    for folder in args.folders:
        for partial in sorted(path for path in Path(folder).glob(f"*{PARTIAL}") if path.is_dir() and not path.is_symlink()):
            shutil.rmtree(partial)
            print(f"removed {partial}")
    for part in CACHE_PARTS if args.cache else ():  # the folder itself may be the user's own (DCGYM_CACHE)
        if (cache_dir() / part).is_dir():
            shutil.rmtree(cache_dir() / part)
            print(f"removed {cache_dir() / part}")
    return 0
