# SPDX-License-Identifier: Apache-2.0
"""The names of ACC's templates and rewards, and the settings of its learner. A spec needs them, and must not wait for numpy."""

from __future__ import annotations

from dataclasses import dataclass

DEPLOYED, SECTION_3 = TEMPLATES = ("acc-deployed", "acc-section-3")
"""The templates of sections 6 and 3.3 (template.py)."""
STEP, LINEAR = WORTHS = ("step", "linear")
"""D(L): design 2 and design 1 of the paper's appendix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DqnSettings:
    """The settings of a learner."""

    discount: float = 0.9
    """gamma."""
    learning_rate: float = 1e-3
    batch_size: int = 32
    target_every: int = 100
    """Updates from one copy of the net to the next."""
    prefer: float = 0.5
    """Share of a batch that is the better of two transitions (ACC, section 4.3: large rewards are preferred; how is ours)."""
