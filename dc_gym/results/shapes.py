# SPDX-License-Identifier: Apache-2.0
"""The shapes of a result's JSON files, on which their readers rely. A result of an older version may lack most keys."""

from __future__ import annotations

from typing import Any

from dc_gym.base.shape import ANY, COUNT, NUMBER, Number
from dc_gym.spec.experiment import SECTIONS

Shape = Any
TEXT_OR_NOTHING = (str, None)
NUMBER_OR_NOTHING = (NUMBER, None)
TIME_NS = Number(-(2**63), 2**63 - 1, whole=True)
PAIR = [(NUMBER, str, None)]
"""A quantity of a port as it was asked for, and as it was found."""

SPEC: Shape = {
    **{f"{section}?": {} for section in SECTIONS if section},
    "name?": str,
    "seed?": COUNT,
    "controller?": {"name?": str, "policy?": TEXT_OR_NOTHING},
    "topology?": {"preset?": TEXT_OR_NOTHING, "kind?": TEXT_OR_NOTHING},
}
"""The keys of a spec that are read without loading it. The loader checks the rest."""

MANIFEST: Shape = {
    "result_version": Number(1, 2**31, whole=True),
    "digest_version?": Number(1, 2**31, whole=True),
    "digest": str,
    "agent_digest?": str,
    "spec?": (SPEC, None, str, NUMBER, bool, [ANY]),  # the loader refuses other values when it runs the spec
    "seed?": COUNT,
    "ground?": str,
    "clock?": str,
    "dcgym?": str,
    "created?": str,
    "environment?": ({str: str}, str, None),
    "fingerprint?": (str, NUMBER, None),
    "sources?": {str: str},
    "t0_ns?": TIME_NS,
    "virtual_s?": Number(0),
    "wall_s?": {str: NUMBER},
    "cpu_s?": {str: NUMBER},
    "fit?": bool,
    "unfit_reasons?": [str],
    "disturb?": str,
    "workload?": {"broken_rows?": [str]},
    "ideal?": (
        None,
        {"method?": str, "why?": str, "classes?": [{"points": COUNT, "error?": NUMBER}]},
    ),
    "conservation?": ({str: Number(-(2**63), 2**63, whole=True)}, None),
    "deadlock?": ANY,
    "calibration?": ([{"port": str, "how?": str, str: PAIR}], None),
    "fidelity?": {},
    "exec?": [
        {
            "host": str,
            "command": [str],
            "exit?": (Number(-255, 255, whole=True), None),
            "stopped?": bool,
            "said?": str,
            "start_ns?": (TIME_NS, None),
            "end_ns?": (TIME_NS, None),
        }
    ],
    "nic?": {},
    "agent?": ({str: (NUMBER, str, bool, None, [ANY], {})}, None),
    "capture?": [{"port": str, "file": str}],
    "acks?": {"kept": COUNT, "lost": COUNT},
    "events?": [{"t_ns": TIME_NS, "label": str}],
    "inputs?": {str: str},
    "policies?": {str: str},
    "style?": {str: str},
    "code?": [{"file": str, "sha256": str}],
    "scale?": {"factor": Number(1, 2**31), "not_scale_free": [str]},
}

SLOWDOWNS: Shape = {"flows": COUNT, "unfinished": COUNT, str: (NUMBER, None, str)}
SUMMARY: Shape = {
    "flow_goodput_bps?": ([NUMBER], None),
    "busiest_port?": TEXT_OR_NOTHING,
    "bottleneck_port?": TEXT_OR_NOTHING,
    "switch_port?": TEXT_OR_NOTHING,
    "host_port?": TEXT_OR_NOTHING,
    "classes?": (
        [
            {
                "transport": str,
                "controller": str,
                "dscp": COUNT,
                "flows": COUNT,
                "flows_done": COUNT,
                "fct_mean_s": NUMBER_OR_NOTHING,
                "jain": NUMBER_OR_NOTHING,
                "jain_flows?": COUNT,
                "goodput_share": NUMBER_OR_NOTHING,
                str: NUMBER_OR_NOTHING,
            }
        ],
        None,
    ),
    "class_drops?": ([{"class": str, "drops": COUNT, "marks": COUNT}], None),
    "fct_groups?": [{"group": str, **SLOWDOWNS}],
    "fct_bins_hpcc?": [{"from_bytes": NUMBER, "to_bytes": NUMBER, **SLOWDOWNS}],
    "fct_bins_pias?": [{"from_bytes": NUMBER, "to_bytes": NUMBER, **SLOWDOWNS}],
    "fct_bins_homa?": [{"from_bytes": NUMBER, "to_bytes": NUMBER, **SLOWDOWNS}],
    str: (NUMBER, None, [ANY]),
}

PORTS: Shape = [
    {
        "name": str,
        "owner": str,
        "side?": str,
        "rate_bps": Number(1, 1e15, whole=True),
        "delay_ns?": COUNT,
        "buffer_bytes?": COUNT,
        "mtu_bytes?": COUNT,
        "qdisc?": str,
        "marking?": TEXT_OR_NOTHING,
        "k_bytes?": (COUNT, None),
        "kmin_bytes?": (COUNT, None),
        "kmax_bytes?": (COUNT, None),
        "pmax?": (Number(0, 1), None),
        "loss?": Number(0, 1),
        "jitter_ns?": COUNT,
        "reorder?": Number(0, 1),
        "reorder_delay_ns?": COUNT,
        "peer?": str,
    }
]
