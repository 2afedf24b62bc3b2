# SPDX-License-Identifier: Apache-2.0
"""Turns errors of a training into one line, whichever of Ray's processes they come from: errors of a lab, or in a user's file.

Ray passes on an exception of another process as text with its traceback. An RLlib runner logs an exception, ends, and is started
again, without limit. So the runner stores a message in Ray (`report`), and the training looks for it (`check`).
"""

from __future__ import annotations

import logging
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import SpecError, TestbedError

LOGGER = "ray.rllib.utils.actor_manager"
"""The logger to which a runner reports its exceptions."""
KEY = "dcgym-mistake-"
"""The key in Ray's store; the job's id is appended."""


def in_words(error: BaseException | None) -> TestbedError | None:
    """Returns the one-line error of an exception or of one of its causes; None if it is not of a known kind."""
    for exception in usercode.chain(error):
        cause = getattr(exception, "cause", None)  # a RayTaskError is also an instance of its cause's class
        for candidate in (cause, exception):
            if isinstance(candidate, TestbedError):
                return candidate
        elsewhere = type(exception).__module__.startswith("ray.")
        user_error = usercode.in_words_of(str(exception)) if elsewhere else usercode.in_words(exception)
        if user_error is not None:
            return user_error
    return None


class _Report(logging.Handler):
    """Stores logged errors that the user has to fix."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        user_error = in_words(error)
        if isinstance(user_error, SpecError):
            from ray.experimental import internal_kv

            internal_kv._internal_kv_put(_key(), str(user_error).encode())


def report() -> None:
    """Makes this runner report its exceptions to the training if a user's file is at fault."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, _Report) for handler in logger.handlers):
        logger.addHandler(_Report(logging.ERROR))


def check() -> None:
    """Raises SpecError if a runner has reported one. A restarted runner would only raise it again."""
    from ray.experimental import internal_kv

    message: Any = internal_kv._internal_kv_get(_key()) if internal_kv._internal_kv_initialized() else None
    if message:
        internal_kv._internal_kv_del(_key())
        raise SpecError(message.decode())


def _key() -> bytes:
    import ray

    return f"{KEY}{ray.get_runtime_context().get_job_id()}".encode()


def raised_elsewhere(record: logging.LogRecord) -> bool:
    """Filters the records of RLlib's loggers: an exception that they log is also raised, so the log record is dropped."""
    return record.exc_info is None
