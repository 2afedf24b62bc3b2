# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium ids of the environments: `gymnasium.make("dcgym/Dumbbell10m-v0")` after `import dc_gym.learn`.

Each id names a spec. make passes keyword arguments on to DataCenterEnv, so `overrides=["agent.reward=goodput"]` changes a key.
`dcgym/Spec-v0` takes any spec: `make("dcgym/Spec-v0", spec="mine.toml")`.
"""

from __future__ import annotations

from typing import Any

from gymnasium.envs.registration import register

from dc_gym.learn.tasks import TASKS

ENTRY, VECTOR_ENTRY = "dc_gym.learn.env:DataCenterEnv", "dc_gym.learn.vector:LabVectorEnv"
ANY = "dcgym/Spec-v0"
MARKING = {
    "actuators": "marking",
    "interval": "1ms",
    "observe": "marking",
    "reward": "goodput - 0.2*switch_delay",
}
SPECS: dict[str, dict[str, Any]] = {
    # Iroko thesis, section 5: two pairs over one middle link; endless TCP, or UDP at line rate that only the agent controls.
    # The buffers hold 320 ms. With steps of 10 ms an action's effect on queues is within the horizon of a usual discount (0.99).
    # The jitter of the start times is our addition: without it all seeds would give the same episode.
    "dcgym/Dumbbell10m-v0": {
        "topology": {"preset": "dumbbell-10m"},
        "controller": {"name": "cubic"},
        "agent": {"interval": "10ms"},
        "workload": {"kind": "pairs", "jitter": "10ms"},
        "time": {"duration": "5s"},
    },
    "dcgym/Dumbbell10mUdp-v0": {
        "topology": {"preset": "dumbbell-10m"},
        "controller": {"name": "cubic"},
        "agent": {"interval": "10ms"},
        "workload": {"kind": "pairs", "jitter": "10ms", "transport": "udp", "rate": "10Mbit/s"},
        "time": {"duration": "2s"},
    },
    "dcgym/Dumbbell1g-v0": {
        "topology": {"preset": "dumbbell-1g"},
        "controller": {"name": "cubic"},
        "workload": {"kind": "pairs", "jitter": "10ms"},
        "time": {"duration": "1s"},
    },
    "dcgym/FatTreeK4-v0": {
        "topology": {"preset": "fattree-k4", "rate": "100Mbit/s"},
        "controller": {"name": "cubic"},
        "workload": {"kind": "hotspot", "jitter": "10ms"},
        "time": {"duration": "1s"},
    },
    # DCTCP under changing load. Round trips are long enough that a K too small costs goodput. examples/ecn*.toml are the same.
    "dcgym/EcnDumbbell1g-v0": {
        "topology": {"kind": "dumbbell", "pairs": 8, "rate": "1Gbit/s", "delay": "40us", "buffer": "500kB", "k_bytes": "20p"},
        "controller": {"name": "dctcp"},
        "agent": MARKING | {"agents": "ports", "reward_scope": "own"},
        "workload": {"kind": "on_off", "ends": "pairs", "on": "30ms", "off": "30ms", "intervals": "exponential"},
        "time": {"duration": "400ms"},
    },
    "dcgym/EcnFatTreeK4-v0": {
        "topology": {"preset": "fattree-k4", "delay": "20us", "buffer": "500kB"},
        "controller": {"name": "dctcp"},
        "agent": MARKING,
        "workload": {"kind": "closed_loop", "distribution": "websearch", "outstanding": 2, "truncate": "2MB"},
        "time": {"duration": "200ms"},
    },
}
"""The keys of the spec of each id. The suite's, which end in -v1, have files (tasks/)."""


def register_all() -> None:
    """Registers all ids with Gymnasium."""
    for name, spec in SPECS.items():
        register(name, ENTRY, vector_entry_point=VECTOR_ENTRY, kwargs={"spec": spec}, disable_env_checker=True)
    for task in TASKS:
        register(task.id, ENTRY, vector_entry_point=VECTOR_ENTRY, kwargs={"spec": task.id}, disable_env_checker=True)
    register(ANY, ENTRY, vector_entry_point=VECTOR_ENTRY, disable_env_checker=True)
