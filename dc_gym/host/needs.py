# SPDX-License-Identifier: Apache-2.0
"""What the host ground needs of this machine's kernel."""

from __future__ import annotations

MODULES = (
    "veth", "openvswitch", "sch_tbf", "sch_netem", "sch_red", "sch_fq", "sch_ingress", "cls_matchall", "act_mirred",
    "tcp_dctcp", "tcp_nv", "tcp_bbr", "tcp_vegas",
)  # fmt: skip
