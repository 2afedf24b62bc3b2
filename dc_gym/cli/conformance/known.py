# SPDX-License-Identifier: Apache-2.0
"""Scripts of the kernel's own tests that do not pass in the lab, and why. They are expected to fail."""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[tuple[str, str], str] = {}
"""Reasons by script and IP version."""
