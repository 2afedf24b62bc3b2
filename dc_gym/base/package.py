# SPDX-License-Identifier: Apache-2.0
"""The location of this package and of its C programs."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PROGRAMS = PACKAGE / "bin"
"""The folder into which `make programs` builds daemons, tools and BPF objects."""
