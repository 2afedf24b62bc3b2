# SPDX-License-Identifier: Apache-2.0
"""SONiC's queues as keys of a spec: each value against the file's, what is told, and refusals."""

from __future__ import annotations

import copy
import json

import pytest

from dc_gym.base.errors import TopologyError
from dc_gym.topologies import sonic_qos

ALL = "Ethernet0,Ethernet4,Ethernet8"
CONFIG = {
    "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): {3: "3", 48: "6"}.get(dscp, "1") for dscp in range(64)}, "OTHER": {"3": "1"}},
    "TC_TO_QUEUE_MAP": {"AZURE": {"1": "0", "3": "3", "6": "6"}},
    "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {"4": "3"}},
    "PORT_QOS_MAP": {
        "global": {"dscp_to_tc_map": "OTHER"},
        "Ethernet0,Ethernet4": {
            **{"dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]", "tc_to_queue_map": "AZURE", "pfc_to_queue_map": "AZURE"},
            **{"pfc_enable": "4,5", "pfcwd_sw_enable": "4"},
        },
        "Ethernet8": {"dscp_to_tc_map": "OTHER", "pfc_enable": "4,5"},
    },
    "SCHEDULER": {"low": {"type": "DWRR", "weight": "14"}, "high": {"type": "DWRR", "weight": "15"}, "top": {"type": "STRICT"}},
    "WRED_PROFILE": {
        "W": {"ecn": "ecn_all", "green_min_threshold": "1000000", "green_max_threshold": "2000000", "green_drop_probability": "5"}
        | {"red_min_threshold": "7"},
        "OFF": {"ecn": "ecn_none"},
    },
    "QUEUE": {
        f"{ALL}|0": {"scheduler": "low", "wred_profile": "OFF"},
        f"{ALL}|3-4": {"scheduler": "high", "wred_profile": "W"},
        f"{ALL}|6": {"scheduler": "top"},
    },
    "BUFFER_POOL": {
        **{"in": {"type": "ingress", "size": "9000000", "xoff": "1000000"}, "out": {"type": "egress", "size": "7"}},
    },
    "BUFFER_PROFILE": {
        "pg": {"dynamic_th": "-3", "xoff": "40000", "xon_offset": "2288", "xon": "18432", "size": "0"},
        "q": {"dynamic_th": "1", "size": "1664"},
        "fixed": {"static_th": "12345"},
    },
    "BUFFER_PG": {f"{ALL}|4": {"profile": "pg"}},
    "BUFFER_QUEUE": {
        f"{ALL}|0": {"profile": "q"},
        "Ethernet0|6": {"profile": "fixed"},
        "Ethernet4,Ethernet8|6": {"profile": "q"},
    },
    "VLAN": {"Vlan1": {}},
}


def read(folder, config):
    (folder / "config_db.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return sonic_qos.read(folder / "config_db.json")


def test_each_setting_has_its_key(tmp_path):
    values = read(tmp_path, CONFIG).values
    first, lossless, strict = values.pop("topology.classes")
    assert first == {"name": "q0", "dscp": [*(n for n in range(64) if n not in (3, 48))], "weight": 48, "marking": "none"}
    marking = {"marking": "red-instant", "kmin": "1000000B", "kmax": "2000000B", "pmax": "5%"}
    assert lossless == {"name": "q3", "dscp": [3], "weight": 52, "lossless": True, **marking}
    assert strict == {"name": "q6", "dscp": [48], "marking": "none"}
    assert values == {
        **{"topology.shared_buffer": "10000000B", "topology.alpha": 2.0, "topology.reserve": "1664B", "topology.pfc": "classes"},
        **{"topology.xoff": "1/8", "topology.headroom": "40000B", "topology.xon_below": "2288B"},
    }


def test_what_is_not_used_is_told_once(tmp_path):
    assert list(read(tmp_path, CONFIG).not_used) == [
        "PORT_QOS_MAP: dscp_to_tc_map other than AZURE, which 2 of 3 have",
        "BUFFER_POOL: out",
        "BUFFER_QUEUE: profile of queue 6 other than q, which 2 of 3 have",
        *("PORT_QOS_MAP: pfcwd_sw_enable", "WRED_PROFILE: red_min_threshold", "BUFFER_PROFILE: xon"),
    ]


def test_without_a_map_of_dscps_a_port_has_one_queue(tmp_path):
    wred = copy.deepcopy({"WRED_PROFILE": {"W": CONFIG["WRED_PROFILE"]["W"]}})
    keys = {"topology.marking": "red-instant", "topology.kmin": "1000000B", "topology.kmax": "2000000B", "topology.pmax": "5%"}
    assert read(tmp_path, wred).values == keys
    wred["WRED_PROFILE"]["W"]["green_min_threshold"] = "2000000"
    assert read(tmp_path, wred).values == {"topology.marking": "step", "topology.k_bytes": "2000000B"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "none of the tables"),
        ('{"VLAN": {}}', "none of the tables"),
        ('{\n"QUEUE": {,}}', "line 2: it is not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"QUEUE": {"Ethernet0|3": 7}}', "QUEUE is no table"),
        ('{"QUEUE": {"Ethernet0|3-9999999999": {"scheduler": "x"}}}', "QUEUE|Ethernet0|3-9999999999"),
        ('{"WRED_PROFILE": {"W": {"ecn": "ecn_all", "green_min_threshold": "many"}}}', "'many'"),
        ('{"WRED_PROFILE": {"W": {"ecn": "ecn_all", "green_min_threshold": "1"}}}', "not both green thresholds"),
    ],
)
def test_other_json_is_refused_in_one_line(text, said, tmp_path):
    with pytest.raises(TopologyError) as excinfo:
        read(tmp_path, text)
    assert said in str(excinfo.value) and "\n" not in str(excinfo.value)
