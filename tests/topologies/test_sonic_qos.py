# SPDX-License-Identifier: Apache-2.0
"""SONiC's queues as keys of a spec: each value against the file's, what is told, and refusals."""

from __future__ import annotations

import copy
import json

import pytest
from readers import SONIC

from dc_gym.base.errors import TopologyError
from dc_gym.topologies import sonic_qos


def read(folder, config):
    (folder / "config_db.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return sonic_qos.read(folder / "config_db.json")


def test_each_setting_has_its_key(tmp_path):
    values = read(tmp_path, SONIC).values
    first, lossless, strict = values.pop("topology.classes")
    assert first == {"name": "q0", "dscp": [*(n for n in range(64) if n not in (3, 48))], "weight": 48, "marking": "none"}
    marking = {"marking": "red-instant", "kmin": "1000B", "kmax": "2000B", "pmax": "5%"}
    assert lossless == {"name": "q3", "dscp": [3], "weight": 52, "lossless": True, **marking}
    assert strict == {"name": "q6", "dscp": [48], "marking": "none"}
    assert values == {
        **{"topology.shared_buffer": "10000000B", "topology.alpha": 2.0, "topology.reserve": "1664B", "topology.pfc": "classes"},
        **{"topology.xoff": "1/8", "topology.headroom": "40000B", "topology.xon_below": "2288B"},
    }


def test_what_is_not_used_is_told_once(tmp_path):
    assert list(read(tmp_path, SONIC).not_used) == [
        "PORT_QOS_MAP: dscp_to_tc_map other than AZURE, which 2 of 3 have",
        "BUFFER_POOL: out",
        "BUFFER_QUEUE: profile of queue 6 other than q, which 2 of 3 have",
        *("PORT_QOS_MAP: pfcwd_sw_enable", "WRED_PROFILE: red_min_threshold", "BUFFER_PROFILE: xon"),
    ]


def test_without_a_map_of_dscps_a_port_has_one_queue(tmp_path):
    wred = copy.deepcopy({"WRED_PROFILE": {"W": SONIC["WRED_PROFILE"]["W"]}})
    keys = {"topology.marking": "red-instant", "topology.kmin": "1000B", "topology.kmax": "2000B", "topology.pmax": "5%"}
    assert read(tmp_path, wred).values == keys
    assert read(tmp_path, {"WRED_PROFILE": {**wred["WRED_PROFILE"], "Z": {"ecn": "ecn_none"}}}).values == keys
    wred["WRED_PROFILE"]["W"]["green_min_threshold"] = "2000"
    assert read(tmp_path, wred).values == {"topology.marking": "step", "topology.k_bytes": "2000B"}


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
