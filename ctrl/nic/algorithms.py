# SPDX-License-Identifier: Apache-2.0
"""The NIC's algorithms as their headers describe them, and the values of their parameters on a line of a given rate.

An algorithm is a registered controller with `nic=True` (controllers.py). It is either one of dc-gym, whose header is
algorithms/NAME.h, or a user's own, registered with the path of its header. All facts about it come from its runner,
`ccrun-NAME --describe`, so that they are written down only once, in the header.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dc_gym.base.errors import MachineError, SpecError, UsageError
from dc_gym.base.package import PROGRAMS
from dc_gym.base.spelling import hint, unknown
from dc_gym.ctrl import controllers

HEADERS = Path(__file__).resolve().parent / "algorithms"
SCALED = "ns at 100 Gbit/s"
"""The unit of times that scale with the time of a packet on the line (CC_NS_AT_100G)."""
SCALED_FOR_BPS = 100 * 10**9
NIC_PREFIX, NIC_SETTINGS = "nic.", ("cnp_interval",)
"""The prefix by which a runner marks what a preset asks of the NIC (CC_NIC), and the settings that a preset may ask for."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One row of CC_PARAMETERS."""

    name: str
    unit: str
    default: int
    least: int
    greatest: int
    source: str
    help: str

    def check(self, value: Any) -> int:
        """Returns a user's value if it is in the parameter's range, otherwise raises SpecError."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.greatest:
            raise SpecError(f"{self.name} is a whole number of {self.least}..{self.greatest} ({self.unit}), not {value!r}")
        return value


@dataclass(frozen=True, slots=True)
class ParameterPreset:
    """One row of CC_PRESETS: the values that it sets. All other parameters keep their defaults."""

    name: str
    help: str
    values: Mapping[str, int]
    nic: Mapping[str, int]
    """Settings that the preset asks of the NIC around the algorithm (CC_NIC), by key of a spec's `[nic]`, in SCALED."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A compiled algorithm."""

    name: str
    help: str
    events: tuple[str, ...]
    """The events that it receives: cnp, tx, ack, nack, rtt."""
    state_words: int
    fits: bool
    """True if a ConnectX has room for its state: 12 words for each flow."""
    table: bool
    """True if it reads a table from a policy file."""
    parameters: tuple[Parameter, ...]
    presets: tuple[ParameterPreset, ...]
    header: Path
    runner: Path
    """Path of ccrun-NAME, the algorithm in userspace."""
    object: Path
    """Path of nic-NAME.bpf.o, the NIC with this algorithm."""

    def preset(self, name: str) -> ParameterPreset:
        for each in self.presets:
            if each.name == name:
                return each
        raise SpecError(f"{self.name} has no preset {name!r}; {_listed(name, self.presets)}")

    def parameter(self, name: str) -> Parameter:
        for each in self.parameters:
            if each.name == name:
                return each
        raise SpecError(f"{self.name} has no parameter {name!r}; {_listed(name, self.parameters)}")


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
    """Names of those that were limited because the scaled value was out of range."""
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
    return known.header or HEADERS / f"{name}.h"


def load(name: str, folder: Path) -> Algorithm:
    """Returns a registered algorithm. A user's algorithm is first compiled into `folder`."""
    header = header_of(name)
    known = controllers.find(name)
    if known is not None and known.header is not None:
        from dc_gym.ctrl.nic import build

        return build.compile_header(header, folder, name)
    runner = PROGRAMS / f"ccrun-{name}"
    if not runner.is_file():
        raise MachineError(f"{runner.name} is not built; run `make programs`")
    return describe(header, runner, PROGRAMS / f"nic-{name}.bpf.o")


@cache
def describe(header: Path, runner: Path, object_file: Path) -> Algorithm:
    """Returns the algorithm as its runner describes it."""
    try:
        said = subprocess.run([str(runner), "--describe"], capture_output=True, text=True, timeout=60)
    except PermissionError as error:
        why = "its file system may be mounted noexec; set TMPDIR to a folder where programs may run"
        raise MachineError(f"cannot run {runner}: {error.strerror}; {why}") from None
    try:
        facts = json.loads(said.stdout)
    except ValueError as error:
        raise UsageError(f"{header}: its texts do not make JSON ({error}); leave out quotation marks and backslashes") from None
    return Algorithm(
        name=facts["name"],
        help=facts["help"],
        events=tuple(facts["events"]),
        state_words=facts["state_words"],
        fits=facts["fits"],
        table=facts["table"],
        parameters=tuple(Parameter(**row) for row in facts["parameters"]),
        presets=tuple(_preset(header, name, row["help"], row["values"]) for name, row in facts["presets"].items()),
        header=header,
        runner=runner,
        object=object_file,
    )


def resolve_parameters(algorithm: Algorithm, preset: str, given: Mapping[str, int], line_bps: int) -> ResolvedParameters:
    """Returns the parameters of a run.

    They start as the defaults. The values of the preset ("" is the first preset) replace them, and the result is scaled to the
    line. The values in `given` then apply unchanged.
    """
    chosen = algorithm.preset(preset) if preset else next(iter(algorithm.presets), None)
    factor = SCALED_FOR_BPS / line_bps
    values: dict[str, int] = {}
    scaled, capped = [], []
    for each in algorithm.parameters:
        value = chosen.values.get(each.name, each.default) if chosen else each.default
        if each.unit == SCALED and each.name not in given:
            exact = round(value * SCALED_FOR_BPS / line_bps)
            held = max(each.least, min(each.greatest, exact))
            scaled += [each.name] if held != value else []
            capped += [each.name] if held != exact else []
            value = held
        values[each.name] = value
    for name, value in given.items():
        values[name] = algorithm.parameter(name).check(value)
    nic = {name: value * SCALED_FOR_BPS // line_bps for name, value in chosen.nic.items()} if chosen else {}
    return ResolvedParameters(chosen.name if chosen else "", line_bps, factor, values, tuple(scaled), tuple(capped), nic)


def _preset(header: Path, name: str, text: str, sets: Mapping[str, int]) -> ParameterPreset:
    asked = {key.removeprefix(NIC_PREFIX): value for key, value in sets.items() if key.startswith(NIC_PREFIX)}
    if unknown := sorted(set(asked) - set(NIC_SETTINGS)):
        raise UsageError(f"{header}: preset {name}: CC_NIC({unknown[0]}): it can ask for {', '.join(NIC_SETTINGS)}")
    return ParameterPreset(name, text, {key: value for key, value in sets.items() if not key.startswith(NIC_PREFIX)}, asked)


def _listed(name: str, known: Sequence[Parameter] | Sequence[ParameterPreset]) -> str:
    return hint(name, [each.name for each in known]) if known else "leave it out"


def _is_nic(name: str) -> bool:
    known = controllers.find(name)
    return known is not None and known.nic
