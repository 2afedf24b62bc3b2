# SPDX-License-Identifier: Apache-2.0
"""Adds a command with a one-line summary and an example, which its help shows."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(commands: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    """Returns the parser of a new command below `commands` (argparse's subparsers). `example`: lines of the command line."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
