# SPDX-License-Identifier: Apache-2.0
"""The congestion controls that a spec may name, and how figures draw them. To add one, write one `register` line at the end.

The order is part of the digest (docs/digests.md): new ones go to the end, and none is ever removed. The colours are those of
Okabe and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import SpecError

__all__ = ["Controller", "acting", "find", "label_of", "names", "policy_name", "register"]


@dataclass(frozen=True, slots=True)
class Controller:
    """One congestion control."""

    name: str
    """Name in a spec."""
    kernel_name: str
    """Name for the socket option TCP_CONGESTION."""
    label: str
    """Name in figures."""
    ecn: bool
    """True if it reads ECN. `topology.marking = "auto"` then marks."""
    color: str
    marker: str
    nic: bool = False
    """True for an algorithm of the NIC (docs/nic-algorithms.md). Its flows are RDMA, and `kernel_name` is no TCP."""
    header: Path | None = None
    """The header of a NIC algorithm that does not come with dc-gym. A plug-in gives the whole path."""

    def __post_init__(self) -> None:
        header: object = self.header
        if isinstance(header, str):
            object.__setattr__(self, "header", Path(header))
        if self.header is not None and not self.nic:
            told = f"controller {self.name!r}: header {str(self.header)!r} is that of an algorithm of the NICs"
            raise SpecError(f"{told}, and nic is False; add nic=True")


_registry: dict[str, Controller] = {}


def register(controller: Controller) -> None:
    """Registers a controller. A name can be registered only once."""
    if controller.name in _registry:
        raise ValueError(f"controller {controller.name!r} is registered twice")
    _registry[controller.name] = controller


def names() -> tuple[str, ...]:
    """Returns all names, in the order of registration."""
    return tuple(_registry)


def find(name: str) -> Controller | None:
    """Returns the controller of that name, or None."""
    return _registry.get(name)


def acting(section: Mapping[str, Any]) -> str:
    """Returns the part of a spec's `[controller]` that identifies it: the policy if there is one, otherwise the TCP."""
    return str(section.get("policy") or section.get("name", "?"))


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


def label_of(section: Mapping[str, Any]) -> str:
    """Returns the name of a spec's `[controller]` in figures and tables: "CUBIC", or "fair-share over CUBIC"."""
    name = str(section.get("name", "?"))
    known = find(name)
    label = known.label if known else name
    return f"{section['policy']} over {label}" if section.get("policy") else label


register(Controller("dctcp", "dctcp", "DCTCP", ecn=True, color="#0072B2", marker="o"))
register(Controller("nv", "nv", "TCP NV", ecn=False, color="#D55E00", marker="s"))
register(Controller("cubic", "cubic", "CUBIC", ecn=False, color="#009E73", marker="^"))
register(Controller("bbr", "bbr", "BBR", ecn=False, color="#CC79A7", marker="D"))
register(Controller("vegas", "vegas", "Vegas", ecn=False, color="#E69F00", marker="v"))
register(Controller("reno", "reno", "Reno", ecn=False, color="#56B4E9", marker="P"))
for _row in (
    ("dcqcn", "DCQCN", True, "#B7A100", "p"),
    ("swift", "Swift", False, "#000000", "*"),
    ("timely", "TIMELY", False, "#882255", "h"),
    ("timely-patched", "patched TIMELY", False, "#AA4499", "H"),
    ("fixed", "fixed rate", False, "#999999", "x"),
    ("rlcc-tree", "RL-CC (tree)", False, "#332288", "<"),
    ("rlcc-mlp", "RL-CC (MLP)", False, "#117733", ">"),
    ("rlcc-mlp8", "RL-CC (MLP, int8)", False, "#999933", "8"),
    ("rlcc-lstm", "PCC-RL (LSTM)", False, "#44AA99", "X"),
):
    register(Controller(_row[0], _row[0], _row[1], ecn=_row[2], color=_row[3], marker=_row[4], nic=True))
