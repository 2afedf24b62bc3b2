# SPDX-License-Identifier: Apache-2.0
"""Packaging. The sources of the C programs live beside the Python that uses them; `make programs` builds them into dc_gym/bin."""

from setuptools import setup

PARTS = ["kernel", "topologies", "traffic", "monitors", "ctrl", "benchmarks"]

setup(
    packages=[
        *("dc_gym", "dc_gym.bench", "dc_gym.metrics", "dc_gym.report", "dc_gym.reproduce", "dc_gym.spec", "dc_gym.sweep"),
        *("dc_gym.conformance", "dc_gym.envs", "dc_gym.rl", "dc_gym.rl.algorithms", "dc_gym.host", "dc_gym.watch"),
        "dc_gym.benchmarks",
        "dc_gym.benchmarks.peers",
        *(f"dc_gym.{part}" for part in PARTS),
    ],
    package_data={
        "dc_gym": ["bin/*", "golden.json"],
        "dc_gym.conformance": ["*.lark", "scripts/*.pkt"],
        "dc_gym.kernel": ["lab.config", "sources.toml", "patches/*", "drivers/*", "module/*", "*.c"],
        "dc_gym.report": ["templates/*"],
        "dc_gym.reproduce": ["templates/*"],
        "dc_gym.traffic": ["*.c", "*.h", "matrices/*.*", "matrices/iroko/*", "flow_sizes/*"],
        "dc_gym.monitors": ["*.c", "*.h"],
        "dc_gym.ctrl": ["*.c", "*.h"],
        "dc_gym.benchmarks.peers": ["*.cc"],
    },
)
