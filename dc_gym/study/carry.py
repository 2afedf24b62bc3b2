# SPDX-License-Identifier: Apache-2.0
"""Carries evidence over to another environment: a sample run of each study is repeated, and where its digest is the stored one,
the study's evidence holds in the new environment as well.

A study's sample is the run of its shortest variant with one seed. Where the digest differs, that study alone is old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dc_gym.base.progress import Progress
from dc_gym.records import fingerprint
from dc_gym.study import collect, identity
from dc_gym.study.identity import Lineage
from dc_gym.study.model import Study, StudyOptions
from dc_gym.study.table import Table


@dataclass(frozen=True, slots=True)
class Carried:
    study: str
    outcome: str


def carry(
    found: Sequence[tuple[Study, Table]], options: StudyOptions, lineage: Lineage, progress: Progress
) -> tuple[list[Carried], Lineage]:
    """Repeats the samples of studies whose evidence is of another environment.

    Args:
        found: studies with their evidence.
        options: `out` is the folder of the runs.
        lineage: the pairs that are known.
        progress: is told of the runs.

    Returns:
        The outcome for each study, and the lineage with the new pairs.
    """
    outcomes = []
    for study, table in found:
        today = identity.environment()
        why = identity.why_old(study, table, today, lineage)
        if not why:
            outcomes.append(Carried(study.name, "of today"))
        elif table.measures != identity.of_measures(study) or table.runs != identity.of_runs(study):
            outcomes.append(Carried(study.name, f"old: {why}"))
        elif table.sample is None:
            outcomes.append(Carried(study.name, "old: it has no sample run"))
        else:
            own = replace(options, out=options.out / "carry", full=bool(table.options.get("full")), force=True)
            digest = (study.collect or collect.SpecRuns()).repeat(study, table.sample, own, progress)
            now = fingerprint.fingerprint(identity.environment())
            if digest == table.sample.digest:
                lineage = lineage.with_pair(study.name, table.fingerprint, now, digest)
                said = f"carried over from {table.fingerprint} to {now}: digest {digest[:16]} equal"
                outcomes.append(Carried(study.name, said))
            else:
                outcomes.append(Carried(study.name, f"old: digest {digest[:16]} now, {table.sample.digest[:16]} before"))
    return outcomes, lineage
