# SPDX-License-Identifier: Apache-2.0
"""The experiment spec (docs/spec.md): one TOML file, read into frozen dataclasses of integers, or a one-line error.

A field of the dataclasses is a key of the file. Its metadata say how the key is written, read and bounded, and what it means
(key.py). A new key is therefore one field in its section (network.py, traffic.py, settings.py, experiment.py). docs/spec.md and
`dcgym list` follow from it. Inside, rates are bit/s, times ns, sizes bytes. Nothing here touches a kernel.
"""

from dc_gym.spec.agent import EXTERNAL, AgentSpec
from dc_gym.spec.experiment import (
    CLOCKS,
    LARGEST_SEED,
    MATRIX_COPY,
    NIC_POLICY_COPY,
    POLICY_COPY,
    SIZES_COPY,
    SPEC_VERSION,
    Spec,
    keys,
    unit_of,
)
from dc_gym.spec.load import from_dict, load, not_given, of_preset, read, vary
from dc_gym.spec.network import LinkSpec, TopologySpec
from dc_gym.spec.nic import NicSpec
from dc_gym.spec.settings import ControllerSpec, HostSpec, LabSpec, MetricsSpec, MonitorSpec, TimeSpec
from dc_gym.spec.traffic import ExecSpec, WorkloadSpec

__all__ = [
    "CLOCKS",
    "EXTERNAL",
    "LARGEST_SEED",
    "MATRIX_COPY",
    "NIC_POLICY_COPY",
    "POLICY_COPY",
    "SIZES_COPY",
    "SPEC_VERSION",
    "AgentSpec",
    "ControllerSpec",
    "ExecSpec",
    "HostSpec",
    "LabSpec",
    "LinkSpec",
    "MetricsSpec",
    "MonitorSpec",
    "NicSpec",
    "Spec",
    "TimeSpec",
    "TopologySpec",
    "WorkloadSpec",
    "from_dict",
    "keys",
    "load",
    "not_given",
    "of_preset",
    "read",
    "unit_of",
    "vary",
]
