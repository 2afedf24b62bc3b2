# SPDX-License-Identifier: Apache-2.0
"""The registered policies and the keys that they declare for the spec's [controller]. dc_gym/envs/policies.py registers the
policies themselves."""

from __future__ import annotations

from dc_gym.base.errors import AgentError
from dc_gym.base.registry import Registry

KINDS = Registry("controller.policy", AgentError, ("context",))
