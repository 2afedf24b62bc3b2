# SPDX-License-Identifier: Apache-2.0
"""The congestion controls that a spec may name, each with its whole description.

Those that come with dc-gym are data: a TCP is a table of tcp.toml, an algorithm of the NICs the card.toml of its folder in
nic/algorithms/, or in nic/ of a method. The keys are the fields of Controller. A plug-in calls `register`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import SpecError
from dc_gym.base.package import PACKAGE

__all__ = ["Controller", "acting", "find", "names", "nic_folders", "policy_name", "register"]

TCPS = Path(__file__).resolve().with_name("tcp.toml")
CARDS = ("ctrl/nic/algorithms/*/card.toml", "methods/*/nic/*/card.toml")
"""The cards of the NICs' algorithms: those of the core, and those of methods."""


@dataclass(frozen=True, slots=True)
class Controller:
    """One congestion control."""

    name: str
    """Name in a spec."""
    kernel_name: str = ""
    """Name for the socket option TCP_CONGESTION. The default is its name in a spec."""
    label: str = ""
    """Name in lists and figures. The default is its name in a spec."""
    _: KW_ONLY
    ecn: bool = False
    """True if it reads ECN. `topology.marking = "auto"` then marks."""
    nic: bool = False
    """True for an algorithm of the NIC (docs/nic-algorithms.md). Its flows are RDMA, and `kernel_name` is no TCP."""
    telemetry: bool = False
    """True if it reads the telemetry that switch ports write into packets: its header defines CC_TELEMETRY."""
    sprayed: bool = False
    """True for an algorithm of the NIC that reads what ACKs tell over transport uec alone: its header defines CC_SPRAYED."""
    header: str | Path | None = None
    """The header of a NIC algorithm that does not come with dc-gym, relative to the plug-in's file."""
    tcp: tuple[Path, ...] = ()
    """The C sources of a TCP that the lab kernel does not have, and headers of one's own that they include: one path or several,
    relative to the plug-in's file."""
    lab_only: bool = False
    """True for a TCP that the lab kernel alone has."""
    color: str | None = None
    """Its colour in figures, such as "#884488". None: the colour follows from its name."""
    marker: str | None = None
    """Its marker in figures, by matplotlib's name. None: one that follows from its name."""
    source: str = ""
    """The paper that it is from, in Markdown."""
    reads: str = ""
    """The signals that it reads, in Markdown."""
    row: int | None = None
    """Its number in the records of results, which is part of the digest (docs/digests.md): a new one takes the next free number,
    and none is ever removed. None: the controller of a plug-in, which gets a number behind all others."""

    def __post_init__(self) -> None:
        for name in ("label", "kernel_name"):
            if not getattr(self, name):
                object.__setattr__(self, name, self.name)
        files: object = self.tcp
        paths = files if isinstance(files, list | tuple) else (files,)
        if not all(isinstance(path, str | Path) for path in paths):
            raise SpecError(
                f"controller {self.name!r}: tcp {usercode.shown(files)} is no path of a C source; give one or several"
            )
        object.__setattr__(self, "tcp", tuple(usercode.beside(path) for path in paths))
        if self.tcp and self.nic:
            raise SpecError(f"controller {self.name!r}: tcp is the source of a TCP, and nic is True; leave one of them out")
        if self.header is not None and not self.nic:
            fault = f"controller {self.name!r}: header {str(self.header)!r} is that of an algorithm of the NICs"
            raise SpecError(f"{fault}, and nic is False; add nic=True")
        if self.header is not None:
            object.__setattr__(self, "header", usercode.beside(self.header))
        if self.telemetry and not self.nic:
            raise SpecError(f"controller {self.name!r}: telemetry is read by algorithms of the NICs alone; add nic=True")


_registry: dict[str, Controller] = {}


def register(controller: Controller) -> None:
    """Registers a controller. A name can be registered only once."""
    if controller.name in _registry:
        raise SpecError(f"controller {controller.name!r} is registered already; choose another name")
    _registry[controller.name] = controller


def names() -> tuple[str, ...]:
    """Returns all names, in the order of registration."""
    return tuple(_registry)


def find(name: str) -> Controller | None:
    """Returns the controller of that name, or None."""
    return _registry.get(name)


def acting(section: Mapping[str, Any]) -> str:
    """Returns the part of a spec's `[controller]` that identifies it.

    That is the policy if there is one, otherwise the controller, with the TCP beside it.
    """
    name = str(section.get("name", "?"))
    return str(section.get("policy") or (f"{name}+{section['tcp']}" if section.get("tcp") else name))


def policy_name(policy: str | Path) -> str:
    """Returns the short name of a policy: its own name, its class, or its file without the ending.

    For a training's policy.npz it is the name of the training's folder.
    """
    text = str(policy)
    module, colon, class_name = text.rpartition(":")
    if colon:
        return f"{Path(module).name if module.endswith('.py') else module}:{class_name}"
    path = Path(text)
    if path.suffix != ".npz":
        return text
    return (path.absolute().parent.name if path.stem == "policy" else path.stem) or path.stem


def nic_folders() -> dict[str, Path]:
    """Returns the folders of the NICs' algorithms that come with dc-gym, by the algorithms' names."""
    return {name: path.parent for name, path in _nic_cards().items()}


def _nic_cards() -> dict[str, Path]:
    paths = (path for pattern in CARDS for path in sorted(PACKAGE.glob(pattern)))
    return {path.parent.name.replace("_", "-"): path for path in paths}


def _shipped() -> list[Controller]:
    """Returns the controllers that come with dc-gym, by their rows."""
    cards = [(TCPS, name, card) for name, card in _toml(TCPS).items()]
    cards += [(path, name, _toml(path) | {"nic": True}) for name, path in _nic_cards().items()]
    controllers: dict[int, Controller] = {}
    for path, name, card in cards:
        if faults := list(_faults(card, controllers, len(cards))):
            raise SpecError(f"{path}: controller {name!r}: {faults[0]}")
        controllers[card["row"]] = Controller(name, **card)
    return [controllers[row] for row in sorted(controllers)]


def _faults(card: Mapping[str, Any], taken: Mapping[int, Controller], count: int) -> Iterator[str]:
    """Yields the faults of a card; `count` is the number of cards."""
    known = {field.name for field in fields(Controller)} - {"name", "header", "tcp"}
    for key in card.keys() - known:
        yield f"{key} is no key of a card; give some of: {', '.join(sorted(known))}"
    if not isinstance(row := card.get("row"), int) or row < 0:
        yield f"row = {row!r} is no number; give the next free one, {count - 1}"
    elif row in taken:
        yield f"row = {row} is that of {taken[row].name!r}; give the next free one, {count - 1}"


def _toml(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


for _controller in _shipped():
    register(_controller)
