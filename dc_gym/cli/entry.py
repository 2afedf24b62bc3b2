# SPDX-License-Identifier: Apache-2.0
"""The installed command `dcgym`."""

from __future__ import annotations

from dc_gym.cli import early


def main() -> int:
    """Runs the command and returns its exit code."""
    early.stop_at_interrupts()
    early.open_streams()
    from dc_gym.cli import main as command  # takes a tenth of a second

    return command.main()
