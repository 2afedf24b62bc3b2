# SPDX-License-Identifier: Apache-2.0
"""Checks a spec's settings of its NIC's algorithm (`[nic]`: preset, parameters, policy, tcp) against the algorithm's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.key import KeyFault
from dc_gym.ctrl import controllers
from dc_gym.ctrl.nic import algorithms
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.algorithms import ResolvedParameters
from dc_gym.spec.experiment import Spec

if TYPE_CHECKING:
    from dc_gym.nets.nic_policy import NicPolicy


@dataclass(frozen=True, slots=True)
class NicConfiguration:
    """The algorithm and the settings that follow from a spec."""

    algorithm: Algorithm
    setting: ResolvedParameters
    policy: NicPolicy | None
    """The policy file. None if the algorithm reads none."""
    native: Path | None
    """The native object that runs instead of the BPF object. None if BPF runs."""


def configure(spec: Spec, line_bps: int, folder: Path) -> NicConfiguration:
    """Returns the choice of a spec. Raises KeyFault for anything that the algorithm does not have or accept.

    A user's algorithm is compiled into `folder`.
    """
    nic = spec.nic
    with _blamed("controller.name", None):
        algorithm = algorithms.load(spec.controller.name, folder)
    if nic.preset is not None:
        with _blamed("nic.preset", nic.preset):
            algorithm.preset(nic.preset)
    for name, value in nic.parameters:
        with _blamed(f"nic.parameters.{name}", value):
            algorithm.parameter(name).check(value)
    if nic.tcp is not None and "ack" in algorithm.events:
        why = f"{algorithm.name} sets a window by ACKs, which are TCP's own; choose an algorithm that sets rates"
        raise KeyFault("nic.tcp", nic.tcp, why)
    setting = algorithms.resolve_parameters(algorithm, nic.preset or "", dict(nic.parameters), line_bps)
    return NicConfiguration(algorithm, setting, _policy(algorithm, nic.policy), native_object(spec))


def native_object(spec: Spec) -> Path | None:
    """Returns the native object that a spec's lab boots with. None: its NICs are BPF, or it has none."""
    name, engine = spec.controller.name, spec.nic.engine
    if not spec.controller.nic or engine == "bpf":
        return None
    if engine is None and (spec.ground == "host" or algorithms.has_own_header(name)):
        return None
    if spec.ground == "host":
        raise KeyFault("nic.engine", engine, 'is for a lab\'s kernel; on ground "host" NICs are BPF: leave it out')
    with _blamed("nic.engine", engine):
        return algorithms.native_object(name)


def check(spec: Spec, line_bps: int) -> None:
    """Does the same as `configure`, only for its errors."""
    known = controllers.find(spec.controller.name)
    if known is None or known.header is None:
        configure(spec, line_bps, Path())
        return
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        configure(spec, line_bps, folder)


def _policy(algorithm: Algorithm, choice: str | Path | None) -> NicPolicy | None:
    from dc_gym.nets import nic_policy  # imports numpy

    if algorithm.table:
        with _blamed("nic.policy", None):
            return nic_policy.load(algorithm.name, nic_policy.shipped(choice) if isinstance(choice, str) else choice)
    if choice is not None:
        raise KeyFault("nic.policy", str(choice), f"{algorithm.name} reads no policy; leave it out")
    return None


@contextmanager
def _blamed(key: str, value: object) -> Iterator[None]:
    """Turns an error inside the context into a fault of this key. Errors of the machine belong to no key."""
    try:
        yield
    except MachineError:
        raise
    except UsageError as error:
        raise KeyFault(key, value, str(error)) from None
