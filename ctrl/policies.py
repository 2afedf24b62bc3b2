# SPDX-License-Identifier: Apache-2.0
"""The registered policies and the keys that they declare for the spec's [controller]. dc_gym/envs/policies.py registers the
policies themselves."""

from __future__ import annotations

from typing import Any

from dc_gym.base.errors import AgentError
from dc_gym.base.registry import Registry

KINDS = Registry("controller.policy", AgentError, ("context",))


def declare(name: str, keys: type) -> None:
    """Declares the keys of a policy of our own. The loader of specs reads them before anything registers the policy."""
    KINDS.add(name, _not_registered, keys)


def _not_registered(context: Any, keys: Any) -> Any:
    """Stands for a declared policy until dc_gym/envs registers it."""
    raise AssertionError("dc_gym.envs.policies calls the registered function")
