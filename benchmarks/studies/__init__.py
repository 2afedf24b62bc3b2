# SPDX-License-Identifier: Apache-2.0
"""The studies that come with dc-gym: a folder a group, a file a study. `dcgym study` finds them by their place here."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from dc_gym.base.progress import Progress
from dc_gym.study import command
from dc_gym.study.find import Library

LIBRARY = Library(__name__, Path(__file__).resolve().parent)


def main(args: Namespace, progress: Progress) -> int:
    """Runs `dcgym study`."""
    return command.main(LIBRARY, args, progress)
