# SPDX-License-Identifier: Apache-2.0
"""The experiment spec (docs/spec.md): one TOML file, read into frozen dataclasses of integers, or a one-line error.

A field of the dataclasses is a key of the file. Its metadata hold the key's form, bounds and meaning (base/key.py). A new key is
therefore one field: in its section (settings.py, agent.py, nic.py, experiment.py; topologies/topology_spec.py and links.py,
traffic/workload_spec.py), or in the keys of a kind (base/registry.py). docs/spec.md, the JSON Schema and `dcgym list` follow from
it. Inside, rates are bit/s, times ns, sizes bytes. Nothing here touches a kernel.
"""

from dc_gym.spec.agent import EXTERNAL, AgentSpec
from dc_gym.spec.capture import CaptureSpec
from dc_gym.spec.episodes import FIRST_HELD_OUT, HELD_OUT, EpisodesSpec
from dc_gym.spec.experiment import (
    CLOCKS,
    LARGEST_SEED,
    NIC_POLICY_COPY,
    POLICY_COPY,
    SPEC_VERSION,
    Spec,
    keys,
    unit_of,
)
from dc_gym.spec.load import RecordedSpec, file_of, from_dict, load, not_given, of_preset, read, recorded, vary, without_code
from dc_gym.spec.nic import NicSpec
from dc_gym.spec.settings import ControllerSpec, HostSpec, LabSpec, MetricsSpec, MonitorSpec, TimeSpec
from dc_gym.topologies.links import LinkSpec
from dc_gym.topologies.topology_spec import TopologySpec
from dc_gym.traffic.kinds.iroko import MATRIX_COPY
from dc_gym.traffic.shared_keys import SIZES_COPY
from dc_gym.traffic.workload_spec import ExecSpec, WorkloadSpec

__all__ = [
    "CLOCKS",
    "EXTERNAL",
    "FIRST_HELD_OUT",
    "HELD_OUT",
    "LARGEST_SEED",
    "MATRIX_COPY",
    "NIC_POLICY_COPY",
    "POLICY_COPY",
    "SIZES_COPY",
    "SPEC_VERSION",
    "AgentSpec",
    "CaptureSpec",
    "ControllerSpec",
    "EpisodesSpec",
    "ExecSpec",
    "HostSpec",
    "LabSpec",
    "LinkSpec",
    "MetricsSpec",
    "MonitorSpec",
    "NicSpec",
    "RecordedSpec",
    "Spec",
    "TimeSpec",
    "TopologySpec",
    "WorkloadSpec",
    "file_of",
    "from_dict",
    "keys",
    "load",
    "not_given",
    "of_preset",
    "read",
    "recorded",
    "unit_of",
    "vary",
    "without_code",
]
