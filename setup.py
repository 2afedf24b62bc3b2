# SPDX-License-Identifier: Apache-2.0
"""Packaging. The sources of the C programs live beside the Python that uses them; `make programs` builds them into dc_gym/bin."""

from setuptools import setup

PARTS = [
    *("kernel", "topologies", "traffic", "monitors", "ctrl", "benchmarks"),
    *(
        "bench",
        "conformance",
        "envs",
        "figures",
        "host",
        "metrics",
        "repeat",
        "report",
        "reproduce",
        "rl",
        "run",
        "spec",
        "sweep",
    ),
    *("sweep", "watch"),
]

setup(
    packages=[
        "dc_gym",
        *(f"dc_gym.{part}" for part in PARTS),
        *("dc_gym.bench.compare", "dc_gym.benchmarks.peers", "dc_gym.ctrl.nic", "dc_gym.rl.algorithms"),
    ],
    package_data={
        "dc_gym": ["bin/*"],
        "dc_gym.repeat": ["golden.json"],
        "dc_gym.bench.compare": ["templates/*"],
        "dc_gym.conformance": ["*.lark", "scripts/*.pkt"],
        "dc_gym.kernel": ["lab.config", "sources.toml", "patches/*", "drivers/*", "module/*", "*.c"],
        "dc_gym.report": ["templates/*"],
        "dc_gym.reproduce": ["templates/*"],
        "dc_gym.traffic": ["*.c", "*.h", "matrices/*.*", "matrices/iroko/*", "flow_sizes/*"],
        "dc_gym.monitors": ["*.c", "*.h"],
        "dc_gym.ctrl": ["*.c", "*.h"],
        "dc_gym.ctrl.nic": ["*.c", "*.h", "algorithms/*.h", "policies/*.npz"],
        "dc_gym.benchmarks.peers": ["*.cc"],
    },
)
