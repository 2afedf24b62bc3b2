# SPDX-License-Identifier: Apache-2.0
"""The choice of a policy: by a name given to `policies.register`, by the path of a policy file (docs/policy-file.md), or as
`module:Class` or `file.py:Class`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import spelling, usercode
from dc_gym.base.errors import AgentError, TestbedError
from dc_gym.ctrl import controllers
from dc_gym.run.agent import policies
from dc_gym.run.agent.file_policy import FilePolicy
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import Policy, PolicyContext

CODE_SUFFIX = ".py"
PolicyForm = str | Path | Callable[[PolicyContext], Policy]
"""A value of controller.policy, or a function that makes the policy."""
FORMS = "give module:Class, or file.py:Class, of a policy"


def policy_of(policy: PolicyForm, context: PolicyContext) -> Policy:
    """Returns the policy of a name, a file, or a class."""
    if callable(policy):
        return policy(context)
    text = str(policy)
    if text.endswith(policies.SUFFIX):
        return FilePolicy(Path(text), context)
    if ":" in text:
        return UsersPolicy(text, context)
    if text not in policies.names():
        forms = ("FILE.npz", "module:Class", "FILE.py:Class")
        if (near := spelling.near(text, controllers.names())) and not spelling.near(text, policies.names()):
            why = f"policy {text!r} is unknown; if you mean a TCP or an algorithm of the NICs: controller.name={near[0]}"
            raise AgentError(f"controller.policy: {why}")
        raise AgentError("controller.policy: " + spelling.unknown("policy", text, [*policies.names(), *forms]))
    return policies.make_registered(text, context)


class UsersPolicy:
    """A policy of a user's class. An error in that class becomes one line that names its place."""

    def __init__(self, text: str, context: PolicyContext) -> None:
        self._text = text
        module, _, name = text.rpartition(":")
        self.code = (Path(module),) if module.endswith(CODE_SUFFIX) else ()
        """Files to keep with a result."""
        if not self.code and (not module or module.startswith(".")):
            raise AgentError(f"controller.policy: {text!r}: {module!r} is not a module; {FORMS}")
        with self._blamed():
            policy_class = getattr(self._module(module), name, None)
        if not (isinstance(policy_class, type) and callable(getattr(policy_class, "act", None))):
            problem = f"{module} has no {name}" if policy_class is None else f"{name} is not a class with a method act"
            raise AgentError(f"controller.policy: {text!r}: {problem}; {FORMS}")
        with self._blamed():
            self._policy: Any = policy_class(context)
        policies.check_act(text, self._policy)

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        with self._blamed():
            return np.asarray(self._policy.act(observation, frame), np.float64)

    def observe(self, reward: float, observation: Vector) -> None:
        """Passes the results of the last action to the policy, if it learns."""
        if (observe := getattr(self._policy, "observe", None)) is not None:
            with self._blamed():
                observe(reward, observation)

    def state(self) -> Any:
        """Returns the policy's state; an empty one if it has no such method."""
        if (state := getattr(self._policy, "state", None)) is None:
            return {}
        with self._blamed():
            return state()

    def _module(self, module: str) -> Any:
        if self.code:
            return usercode.load(self.code[0]).module
        try:
            return usercode.find_module(module)
        except ImportError as error:
            raise AgentError(f"controller.policy: {self._text!r}: {error}; is it installed, or in PYTHONPATH?") from None

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            with usercode.blamed():
                yield
        except TestbedError:
            raise
        except Exception as error:  # has no line in the user's code: e.g. a wrong number of arguments to the constructor
            message = (str(error).splitlines() or [""])[0]
            raise AgentError(f"controller.policy: {self._text!r}: {type(error).__name__}: {message}") from error
