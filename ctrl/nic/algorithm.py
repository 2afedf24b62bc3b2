# SPDX-License-Identifier: Apache-2.0
"""A NIC's algorithm as its header describes it.

All facts come from its runner, `ccrun-NAME --describe`, so that they are written down only once, in the header.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dc_gym.base.errors import MachineError, SpecError, UsageError
from dc_gym.base.spelling import hint

SCALED = "ns at 100 Gbit/s"
"""The unit of times that scale with the time of a packet on the line (CC_NS_AT_100G)."""
NIC_PREFIX, NIC_TIMES, NIC_SWITCHES = "nic.", ("cnp_interval",), ("spaced",)
"""The prefix of the settings that a preset requests of the NIC (CC_NIC), and the settings that it may request: times in SCALED,
and switches of 0 or 1."""


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
    """Settings that the preset asks of the NIC around the algorithm (CC_NIC), by name."""


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
    telemetry: bool
    """True if it reads records of switch ports."""
    sprayed: bool
    """True if it reads what ACKs tell over transport uec alone."""
    parameters: tuple[Parameter, ...]
    presets: tuple[ParameterPreset, ...]
    header: Path
    runner: Path
    """Path of ccrun-NAME, the algorithm in userspace."""
    object: Path
    """Path of nic-NAME.bpf.o, the NIC with this algorithm."""
    native: Path | None = None
    """Path of nic-NAME.native, the same as machine code of the lab kernel. None for a user's algorithm."""

    def preset(self, name: str) -> ParameterPreset:
        for preset in self.presets:
            if preset.name == name:
                return preset
        raise SpecError(f"{self.name} has no preset {name!r}; {_listed(name, self.presets)}")

    def parameter(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise SpecError(f"{self.name} has no parameter {name!r}; {_listed(name, self.parameters)}")


@cache
def describe(header: Path, runner: Path, object_file: Path, native: Path | None = None) -> Algorithm:
    """Returns the algorithm as its runner describes it."""
    try:
        process = subprocess.run([str(runner), "--describe"], capture_output=True, text=True, timeout=60)
    except PermissionError as error:
        why = "its file system may be mounted noexec; set TMPDIR to a folder where programs may run"
        raise MachineError(f"cannot run {runner}: {error.strerror}; {why}") from None
    try:
        facts = json.loads(process.stdout)
    except ValueError as error:
        raise UsageError(f"{header}: its texts do not make JSON ({error}); leave out quotation marks and backslashes") from None
    parameters = tuple(Parameter(**row) for row in facts["parameters"])
    for parameter in parameters:
        _check_value(header, parameter, "its default", parameter.default)
    return Algorithm(
        name=facts["name"],
        help=facts["help"],
        events=tuple(facts["events"]),
        state_words=facts["state_words"],
        fits=facts["fits"],
        table=facts["table"],
        telemetry=facts["telemetry"],
        sprayed=facts["sprayed"],
        parameters=parameters,
        presets=tuple(_preset(header, name, row, parameters) for name, row in facts["presets"].items()),
        header=header,
        runner=runner,
        object=object_file,
        native=native,
    )


def _preset(header: Path, name: str, row: Mapping[str, Any], parameters: Sequence[Parameter]) -> ParameterPreset:
    sets = {key: value for key, value in row["values"].items() if not key.startswith(NIC_PREFIX)}
    nic_values = {key.removeprefix(NIC_PREFIX): value for key, value in row["values"].items() if key.startswith(NIC_PREFIX)}
    known = (*NIC_TIMES, *NIC_SWITCHES)
    if unknown := sorted(set(nic_values) - set(known)):
        raise UsageError(f"{header}: preset {name}: CC_NIC({unknown[0]}): it can ask for {', '.join(known)}")
    ranges = {parameter.name: parameter for parameter in parameters}
    for key, value in sets.items():
        if key not in ranges:
            raise UsageError(f"{header}: preset {name}: CC_SET({key}): CC_PARAMETERS has none of that name")
        _check_value(header, ranges[key], f"preset {name}", value)
    return ParameterPreset(name, row["help"], sets, nic_values)


def _check_value(header: Path, parameter: Parameter, whose: str, value: int) -> None:
    if not parameter.least <= value <= parameter.greatest:
        raise UsageError(f"{header}: {parameter.name}: {whose} is {value}, not within {parameter.least}..{parameter.greatest}")


def _listed(name: str, known: Sequence[Parameter] | Sequence[ParameterPreset]) -> str:
    return hint(name, [entry.name for entry in known]) if known else "leave it out"
