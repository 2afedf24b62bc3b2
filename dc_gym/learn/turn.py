# SPDX-License-Identifier: Apache-2.0
"""Turns of threads: any thread may use an environment, and one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from dc_gym.base.errors import AgentError
from dc_gym.base.process_bound import this_process

Method = TypeVar("Method", bound=Callable[..., Any])
DOING = {"begin": "reset", "close_extras": "close"}
"""The word for a method's action, where its name is another one."""


class Turn:
    """The right to use an environment. The thread that has it may take it again, as a signal handler does that closes."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._owner, self._lock = this_process(), threading.RLock()

    def take(self, doing: str) -> threading.RLock:
        """Returns a lock that this thread holds. Raises AgentError while another thread does; closing waits for it."""
        if not self._owner.is_here():
            self._begin()  # the thread that had it does not exist in a forked child
        if not self._lock.acquire(blocking=doing == "close"):
            raise AgentError(f"{doing}: another thread uses this environment now; take turns, or make one for each thread")
        return self._lock


def in_turn(method: Method) -> Method:
    """Lets one thread at a time run those methods of an environment that are decorated so. The environment has a `turn`."""
    doing = DOING.get(method.__name__, method.__name__)

    @wraps(method)
    def alone(env: Any, *args: Any, **kwargs: Any) -> Any:
        lock = env.turn.take(doing)
        try:
            return method(env, *args, **kwargs)
        finally:
            lock.release()

    return cast(Method, alone)
