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


def main(args: Namespace) -> int:
    """`args.folders`: where to look for unfinished results; `args.cache`: remove kernels and Open vSwitch too."""
    for folder in args.folders:
        for partial in sorted(Path(folder).glob(f"*{PARTIAL}")):
            shutil.rmtree(partial)
            print(f"removed {partial}")
    if args.cache and cache_dir().exists():
        shutil.rmtree(cache_dir())
        print(f"removed {cache_dir()}")
    return 0
