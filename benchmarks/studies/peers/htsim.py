# SPDX-License-Identifier: Apache-2.0
"""The lab beside htsim: Swift, and DCTCP, which is shown alone: htsim's has no handshake, no delayed ACKs and no floor."""

from __future__ import annotations

from dc_gym.benchmarks.studies.peers import common

STUDY = common.study("htsim", within={"swift": 0.10})
