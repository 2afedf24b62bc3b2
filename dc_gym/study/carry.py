# SPDX-License-Identifier: Apache-2.0
"""Carries evidence over to another environment: a sample run of each study is repeated, and where its digest is the stored one,
the study's evidence holds in the new environment as well.

A study's sample is the run of its shortest variant with one seed. Where the digest differs, that study alone is old.
"""

from __future__ import annotations

from dataclasses import replace

from dc_gym.base.progress import Progress
from dc_gym.results import fingerprint
from dc_gym.study import collect, identity
from dc_gym.study.identity import Lineage
from dc_gym.study.model import Repeats, Study, StudyOptions
from dc_gym.study.table import Table


def carry(study: Study, table: Table, options: StudyOptions, lineage: Lineage, progress: Progress) -> tuple[str, Lineage]:
    """Repeats a study's sample if its evidence is of another environment.

    Returns the outcome in words, and the lineage, with a new pair if the digests are equal.
    """
    if changed := identity.why_changed(study, table):
        return f"old: {changed}", lineage
    if not identity.why_elsewhere(study, table, identity.environment(), lineage):
        return "of today", lineage
    how = collect.collector(study)
    if table.sample is None or not isinstance(how, Repeats):
        return "old: it has no sample run", lineage
    repeat_options = replace(options, out=options.out / "carry", full=bool(table.options.get("full")), force=True)
    digest = how.repeat(study, table.sample, repeat_options, progress)
    now = fingerprint.fingerprint(identity.environment())  # the run may have built the kernel
    if digest != table.sample.digest:
        return f"old: digest {digest[:16]} now, {table.sample.digest[:16]} before", lineage
    outcome = f"carried over from {table.fingerprint} to {now}: digest {digest[:16]} equal"
    return outcome, lineage.with_pair(study.name, table.fingerprint, now, digest)
