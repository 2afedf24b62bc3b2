# SPDX-License-Identifier: Apache-2.0
"""`dcgym attach`: a further prompt on a shell of this user's that runs."""

from __future__ import annotations

from argparse import Namespace

from dc_gym.cli.shell import visit


def main(args: Namespace) -> int:
    """Serves the prompt and returns the exit status of its last command."""
    return visit.attach(args.pid)
