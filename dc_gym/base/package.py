# SPDX-License-Identifier: Apache-2.0
"""Where this package lies, and its C programs."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).absolute().parents[1]
PROGRAMS = PACKAGE / "bin"
"""What `make programs` builds: daemons, tools and BPF objects."""
