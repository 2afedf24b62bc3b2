# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a training as one line, whichever of Ray's processes it came from: what a lab said, or a file of the user's.

Ray hands on an exception of another process as a text with its traceback. A runner of RLlib's logs what it raises, ends, and is
started again, for ever; so it leaves a word at Ray's (`report`), which the training finds (`check`).
"""

from __future__ import annotations

import logging
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import SpecError, TestbedError

LOGGER = "ray.rllib.utils.actor_manager"
"""Which a runner tells what it raised."""
KEY = "dcgym-mistake-"
"""In Ray's store, with the id of the job."""


def in_words(error: BaseException | None) -> TestbedError | None:
    """The one line of an exception, or of one that it came from; None: it is nobody's that we know."""
    for each in usercode.chain(error):
        cause = getattr(each, "cause", None)  # of a RayTaskError, which passes for it, too
        for own in (cause, each):
            if isinstance(own, TestbedError):
                return own
        elsewhere = type(each).__module__.startswith("ray.")
        told = usercode.in_words_of(str(each)) if elsewhere else usercode.in_words(each)
        if told is not None:
            return told
    return None


class _Report(logging.Handler):
    """What the user has to mend, of all that is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        told = in_words(error)
        if isinstance(told, SpecError):
            from ray.experimental import internal_kv

            internal_kv._internal_kv_put(_key(), str(told).encode())


def report() -> None:
    """From now on what this runner raises is known to the training, where it is a file of the user's that is at fault."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(each, _Report) for each in logger.handlers):
        logger.addHandler(_Report(logging.ERROR))


def check() -> None:
    """SpecError if a runner has reported one: started again it would only raise it again."""
    from ray.experimental import internal_kv

    told: Any = internal_kv._internal_kv_get(_key()) if internal_kv._internal_kv_initialized() else None
    if told:
        internal_kv._internal_kv_del(_key())
        raise SpecError(told.decode())


def _key() -> bytes:
    import ray

    return f"{KEY}{ray.get_runtime_context().get_job_id()}".encode()


def raised_elsewhere(record: logging.LogRecord) -> bool:
    """A filter for RLlib's loggers: an exception that they log is raised, too, and told once."""
    return record.exc_info is None
