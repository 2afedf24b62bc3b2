# SPDX-License-Identifier: Apache-2.0
"""Studies: named sets of runs, compared with the statements of a source (`dcgym study`, docs/studies.md).

A *variant* is a name and changes to a base spec. A *study* has variants, seeds, measures, claims and a figure. A *measure* turns
a result into a number or a track. A *claim* is a statement of a source with its criteria. A *finding* is a verdict and its cause.

- model.py: Study and Variant; evidence.py: Measure, and measured values; claims.py, findings.py: claims, verdicts, causes;
- collect.py, trained.py, trainings.py: how rows are made: runs of specs, of trained policies, of a function;
- table.py, identity.py, carry.py: evidence as text, its inputs, and whether it still holds;
- series.py, drawing.py, page.py, score.py: figures, pages, the score;
- find.py, command.py: studies by name, and the command.
"""

from dc_gym.study.claims import (
    OURS,
    Claim,
    Criterion,
    Outcome,
    Verdict,
    above,
    alike,
    below,
    between,
    bounded,
    learned,
    less_than,
    more_than,
)
from dc_gym.study.evidence import Evidence, Floats, Measure, Track, VariantEvidence
from dc_gym.study.model import Study, StudyOptions, Variant
from dc_gym.study.series import VariantLine

__all__ = [
    "OURS",
    "Claim",
    "Criterion",
    "Evidence",
    "Floats",
    "Measure",
    "Outcome",
    "Study",
    "StudyOptions",
    "Track",
    "Variant",
    "VariantEvidence",
    "VariantLine",
    "Verdict",
    "above",
    "alike",
    "below",
    "between",
    "bounded",
    "learned",
    "less_than",
    "more_than",
]
