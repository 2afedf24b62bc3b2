# SPDX-License-Identifier: Apache-2.0
"""The congestion controls that a spec may name. To add one, write one `register` line at the end.

The order is part of the digest (docs/digests.md): new ones go to the end, and none is ever removed. How figures draw them is in
figures/styles.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import SpecError

__all__ = ["Controller", "acting", "find", "names", "policy_name", "register"]


@dataclass(frozen=True, slots=True)
class Controller:
    """One congestion control."""

    name: str
    """Name in a spec."""
    kernel_name: str
    """Name for the socket option TCP_CONGESTION."""
    label: str = ""
    """Name in lists and figures. The default is its name in a spec."""
    _: KW_ONLY
    ecn: bool
    """True if it reads ECN. `topology.marking = "auto"` then marks."""
    nic: bool = False
    """True for an algorithm of the NIC (docs/nic-algorithms.md). Its flows are RDMA, and `kernel_name` is no TCP."""
    telemetry: bool = False
    """True if it reads what switch ports write into packets: its header defines CC_TELEMETRY."""
    header: Path | None = None
    """The header of a NIC algorithm that does not come with dc-gym. A plug-in gives the whole path."""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)
        header: object = self.header
        if isinstance(header, str):
            object.__setattr__(self, "header", Path(header))
        if self.header is not None and not self.nic:
            told = f"controller {self.name!r}: header {str(self.header)!r} is that of an algorithm of the NICs"
            raise SpecError(f"{told}, and nic is False; add nic=True")
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
    place, colon, made = text.rpartition(":")
    if colon:
        return f"{Path(place).name if place.endswith('.py') else place}:{made}"
    path = Path(text)
    if path.suffix != ".npz":
        return text
    return (path.absolute().parent.name if path.stem == "policy" else path.stem) or path.stem


register(Controller("dctcp", "dctcp", "DCTCP", ecn=True))
register(Controller("nv", "nv", "TCP NV", ecn=False))
register(Controller("cubic", "cubic", "CUBIC", ecn=False))
register(Controller("bbr", "bbr", "BBR", ecn=False))
register(Controller("vegas", "vegas", "Vegas", ecn=False))
register(Controller("reno", "reno", "Reno", ecn=False))
for _name, _label, _ecn in (
    ("dcqcn", "DCQCN", True),
    ("swift", "Swift", False),
    ("timely", "TIMELY", False),
    ("timely-patched", "patched TIMELY", False),
    ("fixed", "fixed rate", False),
    ("rlcc-tree", "RL-CC (tree)", False),
    ("rlcc-mlp", "RL-CC (MLP)", False),
    ("rlcc-mlp8", "RL-CC (MLP, int8)", False),
    ("rlcc-lstm", "PCC-RL (LSTM)", False),
):
    register(Controller(_name, _name, _label, ecn=_ecn, nic=True))
register(Controller("hpcc", "hpcc", "HPCC", ecn=False, nic=True, telemetry=True))
register(Controller("powertcp", "powertcp", "PowerTCP", ecn=False, nic=True, telemetry=True))
register(Controller("fdcc", "fdcc", "FDCC", ecn=False, nic=True, telemetry=True))
register(Controller("fdcc-tree", "fdcc-tree", "FDCC (tree)", ecn=False, nic=True, telemetry=True))
register(Controller("none", "none", "no control", ecn=False, nic=True))
for _name, _label in (
    ("bic", "BIC"),
    ("westwood", "Westwood+"),
    ("htcp", "H-TCP"),
    ("highspeed", "HighSpeed TCP"),
    ("hybla", "Hybla"),
    ("scalable", "Scalable TCP"),
    ("lp", "TCP-LP"),
    ("veno", "Veno"),
    ("yeah", "YeAH"),
    ("illinois", "Illinois"),
    ("cdg", "CDG"),
):
    register(Controller(_name, _name, _label, ecn=False))
