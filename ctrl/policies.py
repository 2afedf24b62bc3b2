# SPDX-License-Identifier: Apache-2.0
"""The registry of policies, with the keys that they declare for the spec's [controller]. Those of methods are in it from the
start; dc_gym/run/agent/policies.py and plug-ins add others."""

from __future__ import annotations

from dc_gym.base import methods
from dc_gym.base.errors import AgentError
from dc_gym.base.registry import Registry

KINDS = Registry("controller.policy", AgentError, ("context",))

for _method in methods.by_name().values():
    for _name, _policy in _method.policies.items():
        KINDS.add(_name, _policy.make, _policy.keys())
