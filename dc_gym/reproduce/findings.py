# SPDX-License-Identifier: Apache-2.0
"""The findings about a figure of a paper: what its page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dc_gym.reproduce.claims import ClaimVerdict
from dc_gym.reproduce.evidence import Contender, Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Findings:
    """The contents of a figure's folder."""

    title: str
    facts: Sequence[tuple[str, str]]
    """How the figure was run."""
    contenders: Sequence[Contender]
    columns: Sequence[Quantity]
    verdicts: Sequence[ClaimVerdict]
    figure: Figure
    notes: Sequence[str] = ()
