# SPDX-License-Identifier: Apache-2.0
"""The errors a user can meet: one line each, saying what was tried, with which value, and what to do next."""

from __future__ import annotations

import signal

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes, as a shell gives them, of a command that Ctrl-C or SIGTERM ended."""


class TestbedError(Exception):
    """A run, a build or a bar failed (exit code 1)."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
    exit_code = 1


class UsageError(TestbedError):
    """The user's to mend: a wrong key, value, file or argument, or the machine (exit code 2)."""

    exit_code = 2


class MachineError(UsageError):
    """The machine lacks what only its user can mend: room, a permission, a program (exit code 2)."""


class SpecError(UsageError):
    """A spec names an unknown key, or a value out of its range."""


class TopologyError(UsageError):
    """A topology cannot be what was asked for."""


class WorkloadError(UsageError):
    """A workload or a flow matrix is not valid."""


class AgentError(UsageError):
    """An observation, an action, a reward or a policy is unknown, or not what the network takes."""


class ResultError(UsageError):
    """A folder is not a result, or not one that this version reads."""


class KernelError(MachineError):
    """The lab kernel could not be found, fetched, patched or built."""


class LabError(TestbedError):
    """A lab did not boot, died or hung."""


class ProtocolError(TestbedError):
    """Another program broke a protocol: wrong magic, version, length or order."""


class FabricError(TestbedError):
    """The network that was built is not the one that was asked for."""
