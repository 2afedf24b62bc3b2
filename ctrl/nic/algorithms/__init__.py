# SPDX-License-Identifier: Apache-2.0
"""The NIC's algorithms by name, and the values of their parameters on a line of a given rate.

An algorithm is a controller with `nic=True` (controllers.py). It is either one of dc-gym, or a user's own, registered with the
path of its header. One of dc-gym is a folder here, or in nic/ of a method, whose name has underscores for hyphens:

    NAME.h         the algorithm (cc.h)
    card.toml      its Controller
    reference.py   optional: its float reference, REFERENCE
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.package import PACKAGE, PROGRAMS
from dc_gym.base.spelling import unknown
from dc_gym.ctrl import controllers
from dc_gym.ctrl.nic.algorithm import NIC_TIMES, SCALED, Algorithm, describe

if TYPE_CHECKING:
    from dc_gym.ctrl.nic.reference import FloatReference
    from dc_gym.nets.nic_kind import NicKindReference

SCALED_FOR_BPS = 100 * 10**9


@dataclass(frozen=True, slots=True)
class ResolvedParameters:
    """An algorithm's parameters in a run, and how they were determined."""

    preset: str
    """Name of the preset. "" if the algorithm has none."""
    line_bps: int
    factor: float
    """Factor by which times in SCALED were multiplied."""
    values: Mapping[str, int]
    """All parameters by name, in order, as the NIC receives them."""
    scaled: tuple[str, ...]
    """Names of the parameters in SCALED whose number changed."""
    capped: tuple[str, ...]
    """Names of parameters that were limited because the scaled value was out of range."""
    nic: Mapping[str, int]
    """Settings that the preset asks of the NIC, in ns on this line."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the setting for the manifest."""
        return asdict(self)


def names() -> tuple[str, ...]:
    """Returns all NIC algorithms that a spec can name, in the order of registration."""
    return tuple(name for name in controllers.names() if _is_nic(name))


def header_of(name: str) -> Path:
    """Returns the header of a registered algorithm."""
    known = controllers.find(name)
    if known is None:
        raise UsageError(unknown("NIC algorithm", name, names()))
    if not known.nic:
        raise UsageError(f"{name!r} is not a NIC algorithm; give one of: {', '.join(names())}")
    return Path(known.header or (controllers.nic_folders()[name] / f"{name}.h").resolve())


@cache
def reference_of(name: str) -> FloatReference | NicKindReference | None:
    """Returns the float reference of one of dc-gym's algorithms, that of a method's policies first; None if there is none."""
    from dc_gym.nets import nic_kind  # imports numpy

    if (of_method := nic_kind.reference_of(name)) is not None and of_method.make is not None:
        return of_method
    folder = controllers.nic_folders().get(name)
    if folder is None or not (folder / "reference.py").is_file():
        return None
    module = ".".join(("dc_gym", *folder.relative_to(PACKAGE).parts, "reference"))
    reference: FloatReference = importlib.import_module(module).REFERENCE
    return reference


def load(name: str, folder: Path) -> Algorithm:
    """Returns a registered algorithm. A user's algorithm is first compiled into `folder`."""
    header = header_of(name)
    if has_own_header(name):
        from dc_gym.ctrl.nic import build

        return _agreed(build.compile_header(header, folder, name), name)
    runner = PROGRAMS / f"ccrun-{name}"
    if not runner.is_file():
        raise MachineError(f"{runner.name} is not built; run `make programs`")
    return _agreed(describe(header, runner, PROGRAMS / f"nic-{name}.bpf.o", PROGRAMS / f"nic-{name}.native"), name)


def _agreed(algorithm: Algorithm, name: str) -> Algorithm:
    """Returns the algorithm if its controller and its header agree on what it reads."""
    known = controllers.find(name)
    for macro in ("telemetry", "sprayed"):
        defined = getattr(algorithm, macro)
        if known is not None and getattr(known, macro) != defined:
            does = "defines" if defined else "does not define"
            raise UsageError(f"{algorithm.header}: it {does} CC_{macro.upper()}; register it with {macro}={defined}")
    return algorithm


def native_object(name: str) -> Path:
    """Returns the native object of one of dc-gym's algorithms."""
    if has_own_header(name):
        raise UsageError(f"{name} is a header of your own, which is compiled to BPF; leave it out")
    native = PROGRAMS / f"nic-{name}.native"
    if not native.is_file():
        raise MachineError(f"{native.name} is not built; run `make programs`")
    return native


def has_own_header(name: str) -> bool:
    """Returns True for an algorithm that does not come with dc-gym."""
    known = controllers.find(name)
    return known is not None and known.header is not None


def resolve_parameters(algorithm: Algorithm, preset: str, overrides: Mapping[str, int], line_bps: int) -> ResolvedParameters:
    """Returns the parameters of a run.

    They start as the defaults. The values of the preset ("" is the first preset) replace them, and the result is scaled to the
    line. The values in `overrides` then apply unchanged.
    """
    chosen = algorithm.preset(preset) if preset else next(iter(algorithm.presets), None)
    factor = SCALED_FOR_BPS / line_bps
    values: dict[str, int] = {}
    scaled, capped = [], []
    for parameter in algorithm.parameters:
        value = chosen.values.get(parameter.name, parameter.default) if chosen else parameter.default
        if parameter.unit == SCALED and parameter.name not in overrides:
            exact = round(value * SCALED_FOR_BPS / line_bps)
            held = max(parameter.least, min(parameter.greatest, exact))
            scaled += [parameter.name] if held != value else []
            capped += [parameter.name] if held != exact else []
            value = held
        values[parameter.name] = value
    for name, value in overrides.items():
        values[name] = algorithm.parameter(name).check(value)
    nic_values = chosen.nic if chosen else {}
    nic = {name: value * SCALED_FOR_BPS // line_bps if name in NIC_TIMES else value for name, value in nic_values.items()}
    return ResolvedParameters(chosen.name if chosen else "", line_bps, factor, values, tuple(scaled), tuple(capped), nic)


def _is_nic(name: str) -> bool:
    known = controllers.find(name)
    return known is not None and known.nic
